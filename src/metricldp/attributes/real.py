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
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.attributes.base import LARGEST_SIZE, Interval, OnLine, Positions
from metricldp.attributes.selection import Chosen, range_ends, range_words
from metricldp.basics.errors import QueryError, SurveyError
from metricldp.basics.text import plain
from metricldp.coins.draws import FRACTION_BITS
from metricldp.metrics import Metric


@dataclass(frozen=True, repr=False)
class Real(Interval, OnLine):
    """A real number between low and high, rounded at random on a grid of `points` points."""

    points: int = field(kw_only=True)

    kind: ClassVar[str] = "real"
    rounded_at_random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.points, bool) or not isinstance(self.points, int) or self.points < 2:
            raise SurveyError(f"a real attribute needs at least 2 points, not {self.points!r}")
        if self.points <= LARGEST_SIZE and not (np.diff(self.grid) > 0).all():
            points = f"{self.points:,} points between {self.low} and {self.high}"
            raise SurveyError(f"{points} are too close")
        self._check_metric()

    @property
    def size(self) -> int:
        return self.points

    @property
    def step(self) -> Fraction:
        return self.extent / (self.points - 1)

    @property
    def grid(self) -> npt.NDArray[np.float64]:
        return np.linspace(self.low, self.high, self.points)

    def _position(self, number: float) -> int:
        """How far the value is from low, in units of 2^-32 of a step."""
        steps = (number - self.low) / (self.high - self.low) * (self.points - 1)
        whole = min(math.floor(steps), self.points - 2)
        rest = round((steps - whole) * (1 << FRACTION_BITS))
        return (whole << FRACTION_BITS) + min(max(rest, 0), 1 << FRACTION_BITS)

    def _positions(self, reals: npt.NDArray[np.float64]) -> Positions:
        steps = (reals - self.low) / (self.high - self.low) * (self.points - 1)
        whole = np.minimum(np.floor(steps), self.points - 2)
        rest = np.rint((steps - whole) * (1 << FRACTION_BITS)).astype(np.int64)
        return (whole.astype(np.int64) << FRACTION_BITS) + np.clip(rest, 0, 1 << FRACTION_BITS)

    def distance(self, x: object, other: object, metric: Metric | None = None) -> Fraction:
        return super().distance(x, other, metric) / (1 << FRACTION_BITS)

    def choose(self, words: object, name: str) -> Chosen:
        """A pair of ends; points inside count fully, and up to a step beyond them in part."""
        if not isinstance(words, tuple):
            raise QueryError(f"{name} takes a range such as (10, 20), not {words!r}")
        low, high = range_ends(words, name)
        said, step, grid = range_words(low, high), float(self.step), self.grid
        slack = 1e-9 * step  # a point that was meant is not lost to rounding
        inside = grid >= (self.low if low is None else low - slack)
        inside &= grid <= (self.high if high is None else high + slack)
        if not inside.any():
            raise QueryError(
                f"{name} {said} holds no point of the grid, whose steps are "
                f"{plain(step)} from {plain(self.low)} to {plain(self.high)}"
            )
        cuts = [] if inside[0] else [f"below {plain(grid[inside][0])}"]
        cuts += [] if inside[-1] else [f"above {plain(grid[inside][-1])}"]
        note = f"{name} {said} fades out over one step of {plain(step)} {' and '.join(cuts)}"
        return Chosen.of(inside, said, note if cuts else None)

    def numbers(self, name: str) -> tuple[npt.NDArray[np.float64], str | None]:
        """The points: rounding at random keeps the mean of every value."""
        return self.grid, None

    def describe(self) -> str:
        steps = f"rounded at random in steps of {plain(float(self.step))}"
        return f"{plain(self.low)} to {plain(self.high)}, {steps}"

    def name_of(self, position: int) -> str:
        return plain(self.grid[position])
