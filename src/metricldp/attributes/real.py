"""Real values on a grid without bin edges: rounded at random to one of the two nearest points.

With bins, two values a hair apart on both sides of an edge are a whole step apart. A value that is
rounded at random moves its probabilities smoothly: if neighbouring points of the grid differ by a
factor of at most 1 + e, the reports of two values v and v' differ by at most exp(e |v - v'| / h), h
being the width of a step. So the metric holds for the real values themselves, with ln(1 + e) as the
channel's own epsilon per step. Sums and means are unbiased for the real values, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.attributes.base import LARGEST_SIZE, OnLine, Positions, real_ends
from metricldp.attributes.scalars import real_within, reals_within
from metricldp.attributes.selection import Chosen, between, range_ends, range_words
from metricldp.basics.errors import QueryError, SurveyError
from metricldp.basics.exact import as_written
from metricldp.basics.text import plain
from metricldp.coins.draws import FRACTION_BITS
from metricldp.metrics import Metric


@dataclass(frozen=True, repr=False)
class Real(OnLine):
    """A real number between low and high, rounded at random on a grid of `points` points."""

    low: float = field(kw_only=False)
    high: float = field(kw_only=False)
    points: int

    kind: ClassVar[str] = "real"

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = real_ends(self.low, self.high, self.kind)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if isinstance(self.points, bool) or not isinstance(self.points, int) or self.points < 2:
            raise SurveyError(f"a real attribute needs at least 2 points, not {self.points!r}")
        if self.points <= LARGEST_SIZE and not (np.diff(self.grid) > 0).all():
            raise SurveyError(
                f"{self.points:,} points between {self.low} and {self.high} are too close"
            )
        self._check_metric()

    @property
    def rounded_at_random(self) -> bool:
        """Always."""
        return True

    @property
    def size(self) -> int:
        """The points of the grid, both ends included."""
        return self.points

    @property
    def step(self) -> Fraction:
        """The distance of two neighbouring points."""
        return (as_written(self.high) - as_written(self.low)) / (self.points - 1)

    @property
    def grid(self) -> npt.NDArray[np.float64]:
        """The points."""
        return np.linspace(self.low, self.high, self.points)

    def position(self, value: object, name: str = "", *, clip: bool = False) -> int:
        """How far the value is from low, in units of 2^-32 of a step."""
        number = real_within(value, (self.low, self.high), name, clip)
        steps = (number - self.low) / (self.high - self.low) * (self.points - 1)
        whole = min(math.floor(steps), self.points - 2)
        rest = round((steps - whole) * (1 << FRACTION_BITS))
        return (whole << FRACTION_BITS) + min(max(rest, 0), 1 << FRACTION_BITS)

    def positions(
        self, numbers: npt.NDArray[Any], name: str = "", *, clip: bool = False
    ) -> Positions:
        """The same for many, by the same steps in the same order."""
        reals, wrong = reals_within(numbers, (self.low, self.high), clip)
        self._refuse_first(wrong, numbers, name, clip)
        steps = (reals - self.low) / (self.high - self.low) * (self.points - 1)
        whole = np.minimum(np.floor(steps), self.points - 2)
        rest = np.rint((steps - whole) * (1 << FRACTION_BITS)).astype(np.int64)
        return (whole.astype(np.int64) << FRACTION_BITS) + np.clip(rest, 0, 1 << FRACTION_BITS)

    def distance(self, x: object, other: object, metric: Metric | None = None) -> Fraction:
        """Of the real values themselves."""
        return super().distance(x, other, metric) / (1 << FRACTION_BITS)

    def choose(self, words: object, name: str) -> Chosen:
        """A pair of ends; points inside count fully, and up to a step beyond them in part."""
        if not isinstance(words, tuple):
            raise QueryError(f"{name} takes a range such as (10, 20), not {words!r}")
        low, high = range_ends(words, name)
        slack = 1e-9 * float(self.step)  # a point that was meant is not lost to rounding
        inside = between(
            self.grid, None if low is None else low - slack, None if high is None else high + slack
        )
        if not inside.any():
            raise QueryError(
                f"{name} {range_words(low, high)} holds no point of the grid, whose steps are "
                f"{plain(float(self.step))} from {plain(self.low)} to {plain(self.high)}"
            )
        cuts = []
        if not inside[0]:
            cuts.append(f"below {plain(self.grid[inside][0])}")
        if not inside[-1]:
            cuts.append(f"above {plain(self.grid[inside][-1])}")
        note = f"{name} {range_words(low, high)} fades out over one step of "
        note += f"{plain(float(self.step))} {' and '.join(cuts)}"
        return Chosen.of(inside, range_words(low, high), note if cuts else None)

    def numbers(self, name: str) -> tuple[npt.NDArray[np.float64], str | None]:
        """The points: rounding at random keeps the mean of every value."""
        return self.grid, None

    def describe(self) -> str:
        steps = f"rounded at random in steps of {plain(float(self.step))}"
        return f"{plain(self.low)} to {plain(self.high)}, {steps}"

    def name_of(self, position: int) -> str:
        """The point."""
        return plain(self.grid[position])
