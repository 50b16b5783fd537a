"""Metrics of several attributes together that are given by the metric of each attribute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

from metricldp.metrics.base import Integers, Metric
from metricldp.metrics.closed import common_unit
from metricldp.metrics.grid import root_below
from metricldp_core import metrics as core


@dataclass(frozen=True)
class ProductMetric(Metric):
    """The sum of the distances of all attributes or, with p = 2, the root of the sum of squares.

    Positions are cells, the last attribute fastest. No table is needed, for any number of cells.
    """

    metrics: tuple[Metric, ...]
    sizes: tuple[int, ...]
    p: int = 1

    kind = "product"

    @property
    def step(self) -> Fraction:  # type: ignore[override]
        return common_unit([metric.step for metric in self.metrics])

    def distance(self, x: int, other: int) -> Fraction:
        cells = self._cell(x), self._cell(other)
        sides = zip(self.metrics, *cells, strict=True)
        apart = [metric.distance(a, b) for metric, a, b in sides]
        if self.p == 1:
            return sum(apart, Fraction(0))
        return root_below(sum((length**2 for length in apart), Fraction(0)))

    def scaled(self, share: Fraction) -> ProductMetric:
        return replace(self, metrics=tuple(metric.scaled(share) for metric in self.metrics))

    def nearest(self, size: int) -> tuple[int, int]:
        sides = list(zip(self.metrics, self.sizes, strict=True))
        least = [metric.smallest(length) for metric, length in sides]
        d = least.index(min(least))
        return self._pair([m.nearest(n) if k == d else (0, 0) for k, (m, n) in enumerate(sides)])

    def farthest(self, size: int) -> tuple[int, int]:
        sides = zip(self.metrics, self.sizes, strict=True)
        return self._pair([metric.farthest(length) for metric, length in sides])

    def _pair(self, pairs: list[tuple[int, int]]) -> tuple[int, int]:
        x, other = map(self._number, zip(*pairs, strict=True))
        return x, other

    # Some groups have more than 2^63 cells, which numpy cannot number.

    @property
    def _strides(self) -> list[int]:
        return [math.prod(self.sizes[d + 1 :]) for d in range(len(self.sizes))]

    def _cell(self, number: int) -> list[int]:
        sides = zip(self._strides, self.sizes, strict=True)
        return [number // stride % size for stride, size in sides]

    def _number(self, cell: Sequence[int]) -> int:
        return sum(x * stride for x, stride in zip(cell, self._strides, strict=True))

    def whole(self, size: int) -> Integers:
        raise NotImplementedError("a product metric has no table of distances")

    def _steps(self) -> Iterator[tuple[int, ...]]:
        """Steps between cells of which all others are made."""
        for step in product(*map(range, self.sizes)):
            if math.gcd(*step) == 1 and (self.p > 1 or sum(step) == 1):
                yield step

    def to_core(self, size: int) -> core.Metric:
        """The metric by its steps, for attributes on lines."""
        steps = tuple(self._steps())
        apart = [self.distance(0, self._number(step)) for step in steps]
        unit = common_unit(apart)
        lengths = tuple(int(distance / unit) for distance in apart)
        return core.Grid(self.sizes, unit, steps, lengths)
