"""The two plain metrics: values along a line, and all values alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

import numpy as np

from metricldp.basics.exact import exp_bounds, log_bounds
from metricldp.metrics.base import Integers, Metric


@dataclass(frozen=True)
class Line(Metric):
    """E(x, x') = step |x - x'|: near values are protected most."""

    step: Fraction

    is_line: ClassVar[bool] = True

    def distance(self, x: int, other: int) -> Fraction:
        """A step for each position between."""
        return self.step * abs(x - other)

    def scaled(self, share: Fraction) -> Line:
        """A line again."""
        return Line(self.step * share)

    def nearest(self, size: int) -> tuple[int, int]:
        """Any two neighbours."""
        return 0, 1

    def farthest(self, size: int) -> tuple[int, int]:
        """The two ends."""
        return 0, size - 1

    def generating_pairs(self, size: int) -> Iterator[tuple[int, int]]:
        """Neighbours."""
        return ((x, x + 1) for x in range(size - 1))

    def generating_count(self, size: int) -> int:
        """One for each step."""
        return size - 1

    def whole(self, size: int) -> tuple[Integers, Fraction]:
        """Steps between."""
        places = np.arange(size, dtype=np.int64)
        return np.abs(places[:, None] - places), self.step

    def per_step(self, size: int) -> Fraction:
        """The step."""
        return self.step

    def on_grid_points(self) -> Line:
        """A factor of 1 + e between neighbours, ln(1 + e) as epsilon, keeps e per step between."""
        return Line(log_bounds(1 + self.step)[0])

    def keeps_between(self, promised: Metric, size: int) -> bool:
        step = promised.per_step(size)
        return promised.is_line and exp_bounds(self.step)[1] <= 1 + step

    def within(self, other: Metric, size: int) -> bool:
        """By the definition of `per_step`."""
        return self.step <= other.per_step(size)


@dataclass(frozen=True)
class Uniform(Metric):
    """E(x, x') = step for every two different values: plain local differential privacy."""

    step: Fraction

    is_uniform: ClassVar[bool] = True

    def distance(self, x: int, other: int) -> Fraction:
        """The same for every pair."""
        return self.step if x != other else Fraction(0)

    def scaled(self, share: Fraction) -> Uniform:
        """Uniform again."""
        return Uniform(self.step * share)

    def nearest(self, size: int) -> tuple[int, int]:
        """Any pair."""
        return 0, 1

    def farthest(self, size: int) -> tuple[int, int]:
        """Any pair, the ends for one."""
        return 0, size - 1

    def generating_pairs(self, size: int) -> Iterator[tuple[int, int]]:
        """All pairs: none is implied by others."""
        return combinations(range(size), 2)

    def generating_count(self, size: int) -> int:
        """All of them."""
        return size * (size - 1) // 2

    def whole(self, size: int) -> tuple[Integers, Fraction]:
        """One between any two."""
        return 1 - np.eye(size, dtype=np.int64), self.step

    def per_step(self, size: int) -> Fraction:
        """The ends are as near as all others."""
        return self.step / (size - 1)

    def sensitive_positions(self, size: int) -> frozenset[int]:
        return frozenset(range(size))

    def within(self, other: Metric, size: int) -> bool:
        """One comparison for all pairs."""
        return self.step <= other.smallest(size)
