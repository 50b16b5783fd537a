"""What a metric on positions is: exact distances, and what channels and certificates ask of them.

Distances are fractions, because a certificate compares them with ratios of integers. A family with
a closed form answers for any number of positions; the others keep a table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain
from math import comb
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp_core import metrics as core

Integers = npt.NDArray[Any]
"""Whole numbers: int64 where they fit, else Python's own."""


def generating_pairs(metric: core.Metric) -> Iterator[tuple[int, int]]:
    """All generating pairs of a metric of the core."""
    return chain.from_iterable(group.pairs(True) for group in metric.groups())


def generating_count(metric: core.Metric) -> int:
    """How many those are."""
    if isinstance(metric, core.Uniform):
        return comb(metric.size, 2)
    if isinstance(metric, core.Line):
        # Of each difference one pair is listed, that of position 0.
        listed = chain.from_iterable(group.pairs(False) for group in metric.groups())
        return sum(metric.size - other for _, other in listed)
    return sum(1 for _ in generating_pairs(metric))


class Metric(ABC):
    """E(x, x') on positions 0 .. size - 1: how distinguishable two values may become.

    The size is an argument where it matters, because a line or a uniform metric has none.
    """

    step: Fraction
    """What all distances are whole multiples of."""
    kind: ClassVar[str] = "table"
    """What to call it."""
    is_line: ClassVar[bool] = False
    """Whether distances add up along the order of positions."""
    is_uniform: ClassVar[bool] = False
    """Whether all distances are the same."""

    @abstractmethod
    def distance(self, x: int, other: int) -> Fraction:
        """E(x, x')."""

    @abstractmethod
    def scaled(self, share: Fraction) -> Metric:
        """The same metric, all distances times `share`."""

    @abstractmethod
    def nearest(self, size: int) -> tuple[int, int]:
        """Two different positions at the smallest distance."""

    @abstractmethod
    def farthest(self, size: int) -> tuple[int, int]:
        """Two positions at the largest distance."""

    def generating_pairs(self, size: int) -> Iterator[tuple[int, int]]:
        """The pairs that imply all others: those with E(x, x') < E(x, z) + E(z, x') for every z.

        The distance of any two positions is that of a path of such pairs: a pair that is none has
        a z between, and its two parts are shorter.
        """
        return generating_pairs(self.to_core(size))

    def generating_count(self, size: int) -> int:
        """How many those are."""
        return generating_count(self.to_core(size))

    @abstractmethod
    def whole(self, size: int) -> Integers:
        """All distances as a matrix of whole numbers of steps."""

    def by_difference(self, size: int) -> Integers | None:
        """Distances of positions 0 to size - 1 apart in whole steps, where nothing else matters."""
        return None

    def smallest(self, size: int) -> Fraction:
        return self.distance(*self.nearest(size))

    def diameter(self, size: int) -> Fraction:
        """The largest distance: the epsilon that plain local differential privacy would state."""
        return self.distance(*self.farthest(size))

    def farthest_from(self, x: int, size: int) -> int:
        """A position that is as far from x as any."""
        return max(range(size), key=lambda other: self.distance(x, other))

    def mean(self, size: int) -> float:
        """Of two different positions that are picked at random."""
        return float(self.matrix(size).sum()) / (size * (size - 1))

    def per_step(self, size: int) -> Fraction:
        """The largest e with e |x - x'| <= E(x, x') for all pairs: what a line has to keep.

        Generating pairs suffice. Along a path of them from x to x' the distances add up to
        E(x, x'), each is at least e times its own steps, and those are at least |x - x'| together.
        Neighbours alone would not: a pair may be nearer than the sum of the steps between.
        """
        pairs = self.generating_pairs(size)
        return min(self.distance(x, other) / abs(x - other) for x, other in pairs)

    def within(self, other: Metric, size: int) -> bool:
        """Whether no distance is above the other metric's, so that keeping this one keeps that.

        The other's generating pairs suffice: every other pair is the sum of some of them there,
        and at most that sum here.
        """
        pairs = other.generating_pairs(size)
        return all(self.distance(x, y) <= other.distance(x, y) for x, y in pairs)

    def refined(self, parts: int) -> Metric:
        """The same metric on a grid with so many steps in each of this one."""
        return self.scaled(Fraction(1, parts))

    def on_grid_points(self) -> Metric:
        """What to keep between points of a grid so that values rounded to them at random keep this.

        The reports of a value between two points are a mixture of theirs, so where all distances
        are the same nothing changes.
        """
        return self

    def sensitive_positions(self, size: int) -> frozenset[int] | None:
        """Those at the smallest distance of all others, where any two others are at twice that."""
        return None

    def is_ring(self, size: int) -> bool:
        """Whether the last position is next to the first, as each is to the one after it."""
        return False

    def to_core(self, size: int) -> core.Metric:
        """The same metric as the core has it: here by the pairs that generate it."""
        pairs = tuple(self.generating_pairs(size))
        far = [self.distance(x, other) / self.step for x, other in pairs]
        assert all(length.denominator == 1 for length in far)
        return core.Graph(size, self.step, pairs, tuple(length.numerator for length in far))

    def matrix(self, size: int) -> npt.NDArray[np.float64]:
        """All distances as floats, for numeric work that decides no guarantee."""
        return np.asarray(self.whole(size), dtype=np.float64) * float(self.step)
