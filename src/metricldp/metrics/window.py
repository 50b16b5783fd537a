"""Metrics of the difference alone: "epsilon within w", a cap, and values around a circle.

E(x, x') = epsilon ceil(d / w), d = |x - x'|, is the distance in the graph that joins all values at
most w apart: values within w are at epsilon, neighbours as well as those w apart, within 2 w at
twice that. Around a circle of n values d = min(|x - x'|, n - |x - x'|). A cap is the most that any
two are apart: min(E, cap) is a metric again.

w may be any fraction of at least 1. ceil(d / w) is a metric then, too, as a sum is never rounded up
by more than its parts. It is at most k up to d = floor(k w), which is more than k floor(w).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import ClassVar, Self

import numpy as np

from metricldp.metrics.base import Integers, Metric
from metricldp.metrics.closed import Distances, common_unit, kind_for
from metricldp.metrics.line import Line, Uniform
from metricldp_core import metrics as core
from metricldp_core.exact import log_bounds


@dataclass(frozen=True)
class Window(Metric):
    """E = epsilon ceil(d / width), never above the cap; `around` is the circle's number of values.

    A cap is at least epsilon: below it all distances are the same.
    """

    epsilon: Fraction
    width: int | Fraction
    cap: Fraction | None = None
    around: int | None = None

    kind: ClassVar[str] = "window"

    @property
    def step(self) -> Fraction:  # type: ignore[override]
        return self.epsilon if self.cap is None else common_unit((self.epsilon, self.cap))

    def at(self, difference: int) -> Fraction:
        """The distance of two values whose positions differ by so much."""
        if self.around is not None:
            difference = min(difference, self.around - difference)
        far = self.epsilon * -(-difference // self.width)
        return far if self.cap is None else min(far, self.cap)

    def distance(self, x: int, other: int) -> Fraction:
        return self.at(abs(x - other))

    def is_ring(self, size: int) -> bool:
        return self.around is not None

    def scaled(self, share: Fraction) -> Self:
        cap = None if self.cap is None else self.cap * share
        return replace(self, epsilon=self.epsilon * share, cap=cap)

    def nearest(self, size: int) -> tuple[int, int]:
        return 0, 1

    def farthest(self, size: int) -> tuple[int, int]:
        return 0, self._widest(size)

    def _widest(self, size: int) -> int:
        return size - 1 if self.around is None else self.around // 2

    def by_difference(self, size: int) -> Integers:
        """The distances of positions 0 to size - 1 apart, in whole numbers of steps."""
        apart = np.arange(size, dtype=np.int64)
        if self.around is not None:
            apart = np.minimum(apart, self.around - apart)
        unit = self.step
        each, most = int(self.epsilon / unit), int((self.cap or 0) / unit)
        kind = kind_for(max(each * size, most))
        above, whole = self.width.numerator, self.width.denominator
        parts: Integers = apart.astype(kind_for(max(size * whole, above))) * whole
        steps: Integers = -(-parts // above).astype(kind) * each
        return steps if self.cap is None else np.minimum(steps, most)

    def whole(self, size: int) -> Integers:
        positions = np.arange(size)
        return np.asarray(self.by_difference(size)[np.abs(positions[:, None] - positions)])

    def per_step(self, size: int) -> Fraction:
        """By neighbours around the circle, the ends of windows, or the ends of a capped domain."""
        if self.around is not None:
            return self.epsilon / (size - 1)
        return min(self.at(end) / end for end in (*self._differences(size), size - 1))

    def refined(self, parts: int) -> Window:
        return replace(self, width=self.width * parts)

    def on_grid_points(self) -> Metric:
        """One point more: values a window apart are rounded to points at most that far apart.

        Of a window with a part of a step, values k w apart may be ceil(k w) + 1 points apart; the
        way over points a window apart is as short.
        """
        return replace(self, width=ceil(self.width) + 1)

    def to_core(self, size: int) -> core.Line:
        width, ring = Fraction(self.width), self.around is not None
        return core.Line(size, self.epsilon, width, self.cap, ring)

    def _differences(self, size: int) -> list[int]:
        """Those of generating pairs along a line."""
        return [x for group in self.to_core(size).groups() for _, x in group.pairs(False)]

    def within(self, other: Metric, size: int) -> bool:
        if isinstance(other, Window) and (self.around, other.around) == (None, None):
            return all(self.at(d) <= other.at(d) for d in other._differences(size))
        return super().within(other, size)


@dataclass(frozen=True)
class Bent(Window):
    """A line that is capped, goes around a circle, or both: epsilon for every step."""

    width: int = 1

    kind: ClassVar[str] = "line"

    def refined(self, parts: int) -> Bent:
        return replace(self, epsilon=self.epsilon / parts)

    def on_grid_points(self) -> Bent:
        """A factor of 1 + e between neighbours keeps e per step between; a cap stays what it is."""
        return replace(self, epsilon=log_bounds(1 + self.epsilon)[0])


def capped(metric: Metric, cap: Fraction, size: int) -> Metric:
    """min(E, cap); in closed form where there is one."""
    if cap >= metric.diameter(size):
        return metric
    if cap <= metric.smallest(size):
        return Uniform(cap)
    if isinstance(metric, Line):
        return Bent(metric.step, cap=cap)
    if isinstance(metric, Window):
        return replace(metric, cap=cap)
    unit = common_unit((metric.step, cap))
    each, most = int(metric.step / unit), int(cap / unit)
    whole = metric.whole(size)
    kind = kind_for(max(int(whole.max()) * each, most))
    return Distances.of(np.minimum(whole.astype(kind) * each, most), unit)
