"""The two plain metrics: values along a line, and all values alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import ClassVar, Self

import numpy as np

from metricldp.basics.exact import exp_bounds, log_bounds
from metricldp.metrics.base import Integers, Metric


@dataclass(frozen=True)
class _InSteps(Metric):
    """Neighbours are one step apart, and no two values are farther apart than the ends."""

    step: Fraction

    def scaled(self, share: Fraction) -> Self:
        return replace(self, step=self.step * share)

    def nearest(self, size: int) -> tuple[int, int]:
        return 0, 1

    def farthest(self, size: int) -> tuple[int, int]:
        return 0, size - 1


@dataclass(frozen=True)
class Line(_InSteps):
    """E(x, x') = step |x - x'|: near values are protected most."""

    is_line: ClassVar[bool] = True

    def distance(self, x: int, other: int) -> Fraction:
        return self.step * abs(x - other)

    def generating_pairs(self, size: int) -> Iterator[tuple[int, int]]:
        return ((x, x + 1) for x in range(size - 1))

    def generating_count(self, size: int) -> int:
        return size - 1

    def whole(self, size: int) -> Integers:
        positions = np.arange(size, dtype=np.int64)
        return np.asarray(np.abs(positions[:, None] - positions))

    def per_step(self, size: int) -> Fraction:
        return self.step

    def on_grid_points(self) -> Line:
        """A factor of 1 + e between neighbours, ln(1 + e) as epsilon, keeps e per step between."""
        return Line(log_bounds(1 + self.step)[0])

    def keeps_between(self, promised: Metric, size: int) -> bool:
        step = promised.per_step(size)
        return promised.is_line and exp_bounds(self.step)[1] <= 1 + step

    def within(self, other: Metric, size: int) -> bool:
        return self.step <= other.per_step(size)


@dataclass(frozen=True)
class Uniform(_InSteps):
    """E(x, x') = step for every two different values: plain local differential privacy."""

    is_uniform: ClassVar[bool] = True

    def distance(self, x: int, other: int) -> Fraction:
        return self.step if x != other else Fraction(0)

    def generating_pairs(self, size: int) -> Iterator[tuple[int, int]]:
        return combinations(range(size), 2)

    def generating_count(self, size: int) -> int:
        return size * (size - 1) // 2

    def whole(self, size: int) -> Integers:
        return 1 - np.eye(size, dtype=np.int64)

    def per_step(self, size: int) -> Fraction:
        return self.step / (size - 1)

    def sensitive_positions(self, size: int) -> frozenset[int]:
        return frozenset(range(size))

    def within(self, other: Metric, size: int) -> bool:
        return self.step <= other.smallest(size)
