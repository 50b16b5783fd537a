"""Metrics E(x, x') on positions: how distinguishable two values may become.

Distances are fractions, because a certificate compares them with ratios of integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Line:
    """E(x, x') = step |x - x'|: near values are protected most."""

    step: Fraction

    def distance(self, x: int, other: int) -> Fraction:
        """E(x, x')."""
        return self.step * abs(x - other)

    def diameter(self, size: int) -> Fraction:
        """The largest distance: the epsilon that plain local differential privacy would state."""
        return self.step * (size - 1)

    def generating_pairs(self, size: int) -> Iterator[tuple[int, int]]:
        """The pairs that imply all others by the triangle inequality: neighbours."""
        return ((x, x + 1) for x in range(size - 1))


@dataclass(frozen=True)
class Uniform:
    """E(x, x') = step for every two different values: plain local differential privacy."""

    step: Fraction

    def distance(self, x: int, other: int) -> Fraction:
        """E(x, x')."""
        return self.step if x != other else Fraction(0)

    def diameter(self, size: int) -> Fraction:
        """The same for every pair."""
        return self.step

    def generating_pairs(self, size: int) -> Iterator[tuple[int, int]]:
        """All pairs: none is implied by others."""
        return ((x, other) for x in range(size) for other in range(x + 1, size))


Metric = Line | Uniform
