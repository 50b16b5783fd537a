"""Metrics with a closed form: values along a line, all alike, or some more sensitive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from metricldp.metrics.base import Integers, Metric
from metricldp_core import metrics as core
from metricldp_core.exact import log_bounds


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

    def farthest_from(self, x: int, size: int) -> int:
        return 0 if x > size - 1 - x else size - 1


@dataclass(frozen=True)
class Line(_InSteps):
    """E(x, x') = step |x - x'|: near values are protected most."""

    kind: ClassVar[str] = "line"
    is_line: ClassVar[bool] = True

    def distance(self, x: int, other: int) -> Fraction:
        return self.step * abs(x - other)

    def by_difference(self, size: int) -> Integers:
        return np.arange(size, dtype=np.int64)

    def whole(self, size: int) -> Integers:
        positions = self.by_difference(size)
        return np.asarray(np.abs(positions[:, None] - positions))

    def mean(self, size: int) -> float:
        return float(self.step * (size + 1) / 3)

    def per_step(self, size: int) -> Fraction:
        return self.step

    def on_grid_points(self) -> Line:
        """A factor of 1 + e between neighbours, ln(1 + e) as epsilon, keeps e per step between."""
        return Line(log_bounds(1 + self.step)[0])

    def to_core(self, size: int) -> core.Metric:
        return core.Line(size, self.step)

    def within(self, other: Metric, size: int) -> bool:
        return self.step <= other.per_step(size)


@dataclass(frozen=True)
class Uniform(_InSteps):
    """E(x, x') = step for every two different values: plain local differential privacy."""

    kind: ClassVar[str] = "uniform"
    is_uniform: ClassVar[bool] = True

    def distance(self, x: int, other: int) -> Fraction:
        return self.step if x != other else Fraction(0)

    def by_difference(self, size: int) -> Integers:
        return np.minimum(np.arange(size, dtype=np.int64), 1)

    def whole(self, size: int) -> Integers:
        return 1 - np.eye(size, dtype=np.int64)

    def mean(self, size: int) -> float:
        return float(self.step)

    def per_step(self, size: int) -> Fraction:
        return self.step / (size - 1)

    def to_core(self, size: int) -> core.Metric:
        return core.Uniform(size, self.step)

    def sensitive_positions(self, size: int) -> frozenset[int]:
        return frozenset(range(size))

    def within(self, other: Metric, size: int) -> bool:
        return self.step <= other.smallest(size)


@dataclass(frozen=True)
class Sensitive(Metric):
    """E_S of section 3.2: step if x or x' is one of `places`, else 2 step.

    More than 2 steps could not be promised away: two values outside S are each within a step of any
    value in S, so the way round through S bounds them by 2 steps, and the pairs with one end in S
    generate the metric. There is at least one place.
    """

    places: frozenset[int]
    step: Fraction

    def distance(self, x: int, other: int) -> Fraction:
        if x == other:
            return Fraction(0)
        return self.step if x in self.places or other in self.places else 2 * self.step

    def scaled(self, share: Fraction) -> Sensitive:
        return Sensitive(self.places, self.step * share)

    def nearest(self, size: int) -> tuple[int, int]:
        first = min(self.places)
        return (0, first) if first else (0, 1)

    def farthest(self, size: int) -> tuple[int, int]:
        outside = (x for x in range(size) if x not in self.places)
        x, other = next(outside, None), next(outside, None)
        return self.nearest(size) if x is None or other is None else (x, other)

    def generating_pairs(self, size: int) -> Iterator[tuple[int, int]]:
        for x in sorted(self.places):
            for other in range(size):
                if other not in self.places or other > x:
                    yield min(x, other), max(x, other)

    def generating_count(self, size: int) -> int:
        outside = size - len(self.places)
        return (size * (size - 1) - outside * (outside - 1)) // 2

    def whole(self, size: int) -> Integers:
        numbers = np.full((size, size), 2, dtype=np.int64)
        chosen = sorted(self.places)
        numbers[chosen] = numbers[:, chosen] = 1
        np.fill_diagonal(numbers, 0)
        return numbers

    def sensitive_positions(self, size: int) -> frozenset[int]:
        return self.places

    def mean(self, size: int) -> float:
        outside = size - len(self.places)
        return float(self.step * (1 + Fraction(outside * (outside - 1), size * (size - 1))))

    def per_step(self, size: int) -> Fraction:
        """By the sensitive value and the end farthest from it."""
        return self.step / max(max(x, size - 1 - x) for x in self.places)

    def within(self, other: Metric, size: int) -> bool:
        if isinstance(other, Sensitive) and other.places == self.places:
            return self.step <= other.step
        return super().within(other, size)
