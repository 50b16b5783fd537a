"""The two plain metrics: values along a line, and all values alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from metricldp.metrics.base import Integers, Metric


@dataclass(frozen=True)
class Line(Metric):
    """E(x, x') = step |x - x'|: near values are protected most."""

    step: Fraction

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

    def within(self, other: Metric, size: int) -> bool:
        """By the definition of `per_step`."""
        return self.step <= other.per_step(size)


@dataclass(frozen=True)
class Uniform(Metric):
    """E(x, x') = step for every two different values: plain local differential privacy."""

    step: Fraction

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

    def within(self, other: Metric, size: int) -> bool:
        """One comparison for all pairs."""
        return self.step <= other.smallest(size)
