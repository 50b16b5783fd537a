"""Metrics of the difference alone: "epsilon within w", a cap, and values around a circle.

E(x, x') = epsilon ceil(d / w), d = |x - x'|, is the distance in the graph that joins all values at
most w apart: values within w are at epsilon, neighbours as well as those w apart, within 2 w at
twice that. Around a circle of n values d = min(|x - x'|, n - |x - x'|). A cap is the most that any
two are apart: min(E, cap) is a metric again.

w may be any fraction of at least 1. ceil(d / w) is a metric then, too, as a sum is never rounded up
by more than its parts. It is at most k up to d = floor(k w), which is more than k floor(w).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor
from typing import ClassVar, Self

import numpy as np

from metricldp.metrics.base import Integers, Metric
from metricldp.metrics.closed import Distances, common_unit, kind_for
from metricldp.metrics.line import Line, Uniform
from metricldp_core import metrics as core
from metricldp_core.exact import exp_bounds, log_bounds


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

    def _generating(self, size: int) -> Iterator[int]:
        """Differences that are not made of two parts; in rising order.

        Up to the cap those of one window, and floor(k w) for some k: see `_longer`. Beyond it all,
        since no two parts make a pair at the cap: whole ones are more than it, and one at the cap
        is all of it already.
        """
        widest = self._widest(size)
        yield from range(1, min(floor(self.width), widest) + 1)
        yield from self._longer(widest)
        if self.cap is not None:
            yield from range(floor(self.width * (self.cap // self.epsilon)) + 1, widest + 1)

    def _longer(self, widest: int) -> Iterator[int]:
        """floor(k w) where k w is nearer to a whole number below it than all j w with j < k.

        If j w is as near, then floor(j w) + floor((k - j) w) = floor(k w), and those are its parts.
        If none is, every such sum is less. At k w = floor(k w) it ends, with the denominator as k.
        """
        above, whole = self.width.numerator, self.width.denominator
        most = widest * whole // above + 1
        if self.cap is not None:
            most = min(most, self.cap // self.epsilon)
        nearest = above % whole
        for k in range(2, most + 1):
            if nearest == 0:
                return
            rest = k * above % whole
            if rest < nearest:
                nearest = rest
                if (difference := k * above // whole) <= widest:
                    yield difference

    def generating_pairs(self, size: int) -> Iterator[tuple[int, int]]:
        for difference in self._generating(size):
            yield from ((x, x + difference) for x in range(size - difference))
            if self.around is not None and 2 * difference < self.around:
                yield from ((x, x + size - difference) for x in range(difference))

    def generating_count(self, size: int) -> int:
        if self.around is None:
            return sum(size - difference for difference in self._generating(size))
        return sum(size if 2 * d < size else size // 2 for d in self._generating(size))

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
        ends = (min(floor(self.width), size - 1), *self._longer(size - 1), size - 1)
        return min(self.at(end) / end for end in ends)

    def refined(self, parts: int) -> Window:
        return replace(self, width=self.width * parts)

    def on_grid_points(self) -> Metric:
        """One point more: values a window apart are rounded to points at most that far apart.

        Of a window with a part of a step, values k w apart may be ceil(k w) + 1 points apart; the
        way over points a window apart is as short.
        """
        return replace(self, width=ceil(self.width) + 1)

    def to_core(self, size: int) -> core.Metric:
        width, ring = Fraction(self.width), self.around is not None
        return core.Line(size, self.epsilon, width, self.cap, ring)

    def keeps_between(self, promised: Metric, size: int) -> bool:
        return self.within(promised.on_grid_points(), size)

    def within(self, other: Metric, size: int) -> bool:
        if isinstance(other, Window) and (self.around, other.around) == (None, None):
            return all(self.at(d) <= other.at(d) for d in other._generating(size))
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

    def keeps_between(self, promised: Metric, size: int) -> bool:
        if not isinstance(promised, Bent):
            return super().keeps_between(promised, size)
        near = exp_bounds(self.epsilon)[1] <= 1 + promised.epsilon
        return near and self.diameter(size) <= promised.diameter(size)


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
