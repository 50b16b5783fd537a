"""Real values on a grid without bin edges: rounded at random to one of the two nearest points.

With bins, two values a hair apart on both sides of an edge are a whole step apart. A value that is
rounded at random moves its probabilities smoothly: if neighbouring points of the grid differ by a
factor of at most 1 + e, the reports of two values v and v' differ by at most exp(e |v - v'| / h), h
being the width of a step. So the metric holds for the real values themselves, with ln(1 + e) as the
channel's own epsilon per step. Sums and means are unbiased for the real values, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.attributes.base import LARGEST_SIZE, Positions
from metricldp.attributes.ordered import Interval, OnLine
from metricldp.attributes.selection import (
    Chosen,
    Stretches,
    empty,
    partly_outside,
    range_ends,
    range_words,
)
from metricldp.basics.errors import InvalidSpecError, QueryError
from metricldp.basics.text import plain, shown
from metricldp.metrics import Metric
from metricldp_core.random_words import FRACTION_BITS
from metricldp_core.values import Points


@dataclass(frozen=True, repr=False)
class RoundedContinuous(Interval, OnLine):
    """A real number between low and high, rounded at random on a grid of `points` points."""

    points: int = field(kw_only=True)

    kind: ClassVar[str] = "continuous"
    rounded_at_random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.points, bool) or not isinstance(self.points, int) or self.points < 2:
            raise InvalidSpecError(
                f"stochastic rounding needs at least 2 points, not {shown(self.points)}"
            )
        if self.points <= LARGEST_SIZE and not (np.diff(self.grid) > 0).all():
            points = f"{self.points:,} points between {self.low} and {self.high}"
            raise InvalidSpecError(f"{points} are too close")
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

    def domain_of(self, name: str) -> Points:
        grid: dict[str, Any] = {"low": self.low, "high": self.high, "points": self.points}
        return Points(name, self.optional is not None, **self._close, **grid)

    def _positions(self, reals: npt.NDArray[np.float64]) -> Positions:
        steps = (reals - self.low) / (self.high - self.low) * (self.points - 1)
        whole = np.minimum(np.floor(steps), self.points - 2)
        rest = np.rint((steps - whole) * (1 << FRACTION_BITS)).astype(np.int64)
        return (whole.astype(np.int64) << FRACTION_BITS) + np.clip(rest, 0, 1 << FRACTION_BITS)

    def to_dict(self) -> dict[str, Any]:
        data = super().to_dict()
        return {"kind": data.pop("kind"), "rounding": "stochastic", **data}

    def distance(self, x: object, other: object, metric: Metric | None = None) -> Fraction:
        return super().distance(x, other, (metric or self.distances).refined(1 << FRACTION_BITS))

    @property
    def _cells(self) -> npt.NDArray[np.float64]:
        """The ends of the stretch around each point that is nearer to it than to any other."""
        grid = self.grid
        return np.concatenate([grid[:1], (grid[:-1] + grid[1:]) / 2, grid[-1:]])

    def choose(self, words: object, name: str) -> Chosen:
        """A pair of ends; each point counts by how much of the stretch around it lies between.

        A value between two points is rounded to either, so people count the straight line between
        their weights. That line is 1/2 at an end that lies on a point or midway between two; its
        integral is the length of the range, so values spread evenly are counted without bias; and
        ranges that meet add up.
        """
        if not isinstance(words, tuple):
            raise QueryError(f"{name} takes a range such as (10, 20), not {shown(words)}")
        low, high = range_ends(words, name)
        start = self.low if low is None else max(low, self.low)
        end = self.high if high is None else min(high, self.high)
        said, step = range_words(low, high), float(self.step)
        if start > end:
            raise empty(words, name, f"from {plain(self.low)} to {plain(self.high)}")
        part = Stretches(((float(start), float(end)),), self._cells)
        if not part.inside.any():
            around = plain(start - step / 2), plain(start + step / 2)
            raise QueryError(
                f"{name} {said} has no width, and values are rounded in steps of {plain(step)}; "
                f"use a range such as ({', '.join(around)})"
            )
        found = Chosen(part, said, partly_outside(name, low, high, self.low, self.high))
        return found if found.whole else replace(found, note=f"{name} {said} {self._fading(part)}")

    def bars(self, width: object, name: str) -> Iterator[Chosen]:
        """Bars of a width are ranges, which need not end at points; they add up to everybody."""
        if width is None:
            cells = self._cells
            for position in range(self.size):
                ends = float(cells[position]), float(cells[position + 1])
                yield Chosen(Stretches((ends,), cells), self.label(position))
            return
        wide = self._checked_width(width, name)
        note = f"bars of {name} fade into each other over its steps of {plain(self.grid_step)}"
        for k in range(max(1, math.ceil((self.high - self.low) / wide - 1e-9))):
            ends = self.low + k * wide, min(self.low + (k + 1) * wide, self.high)
            yield replace(self.choose(ends, name), note=note)

    def _fading(self, part: Stretches) -> str:
        """Where a range begins and ends to count values in part."""
        grid, weights = self.grid, part.inside
        some = np.flatnonzero(weights)
        most = np.flatnonzero(weights == weights.max())
        fades = []
        if most[0] > 0:
            fades.append(f"in from {plain(grid[max(some[0] - 1, 0)])} to {plain(grid[most[0]])}")
        if most[-1] < self.size - 1:
            last = min(some[-1] + 1, self.size - 1)
            fades.append(f"out from {plain(grid[most[-1]])} to {plain(grid[last])}")
        return f"fades {' and '.join(fades)}"

    def numbers(self, name: str) -> tuple[npt.NDArray[np.float64], str | None]:
        """The points: rounding at random keeps the mean of every value."""
        return self.grid, None

    def describe(self) -> str:
        steps = f"rounded at random in steps of {plain(float(self.step))}"
        return f"{plain(self.low)} to {plain(self.high)}, {steps}"

    def extremes(
        self, inside: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
        """Between two points value and weight are both straight lines, and their product is not.

        It lies off the line between its ends, which is counted, by up to a quarter of what the
        value changes times what the weight does: below it where a range fades in, above where out.
        """
        bends = np.diff(self.grid) * np.diff(inside) / 4
        if not bends.any():
            return None
        below, above = (
            np.maximum(np.append(part, 0.0), np.append(0.0, part))
            for part in (np.maximum(bends, 0.0), np.maximum(-bends, 0.0))
        )
        return self.grid * inside - below, self.grid * inside + above

    def values_at(self, position: int) -> tuple[float, float]:
        point = float(self.grid[position])
        return point, point

    def name_of(self, position: int) -> str:
        return plain(self.grid[position])

    def label(self, first: int, last: int | None = None) -> str:
        """One point, or the stretch that several points stand for."""
        if last is None or first == last:
            return self.name_of(first)
        return f"{plain(self._cells[first])} to {plain(self._cells[last + 1])}"

    def __repr__(self) -> str:
        words = super().__repr__().removeprefix(type(self).__name__).removesuffix(")")
        return f'Continuous{words}, rounding="stochastic")'
