"""Metrics of several attributes together: on the cells of a grid, by how far apart they are.

Cells count along the last attribute first. Two of them are told by how many steps they are apart
along each attribute, and E is the sum of the distances of the attributes, or a distance in the
plane: a straight line between two places, in units of epsilon.

    epsilon per stretch:   E = sqrt(E_1^2 + E_2^2), rounded down to small parts of a step
    epsilon within w:      E = epsilon ceil(d / w), d the length of the straight line

A cell of bins is not a point: two values may be nearer to each other than the middles of their
bins. So for "within", d is what any two places in the two cells are farther apart than.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np

from metricldp.basics.errors import InvalidSpecError
from metricldp.metrics.base import Integers, Metric
from metricldp.metrics.closed import common_unit, kind_for
from metricldp_core import metrics as core
from metricldp_core.exact import floor_of

_PARTS = 1 << 20
"""Parts of the smaller step to which straight lines are rounded down."""


@dataclass(frozen=True)
class Axis:
    """One attribute of a plane: numbers along a straight line, evenly spaced."""

    size: int
    epsilon: Fraction
    step: Fraction
    """The length of one step, in units of what epsilon is for."""
    windows: bool
    """Whether epsilon is for all that is within such a unit, and not for every part of it."""
    in_bins: bool
    cap: Fraction | None


@dataclass(frozen=True, eq=False)
class Grid(Metric):
    """E of two cells: step times a whole number, by their steps along each attribute."""

    numbers: Integers
    """By the number of steps along each attribute, the shape of the grid."""
    step: Fraction
    axes: tuple[Axis, ...] = ()
    """The sides of a plane; none where distances add up."""
    adds_up: bool = False
    """Whether it is the sum of distances along each attribute: only these generate it then."""

    kind = "grid"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Grid)
            and self.step == other.step
            and np.array_equal(self.numbers, other.numbers)
        )

    def __hash__(self) -> int:
        return hash((self.step, self.sizes, int(self.numbers.sum())))

    def to_core(self, size: int) -> core.Metric:
        steps = tuple(self.generating)
        lengths = tuple(int(self.numbers[step]) for step in steps)
        return core.Grid(self.sizes, self.step, steps, lengths)

    @property
    def straight(self) -> bool:
        """Whether it is at most the root of the sum of the squared distances of the attributes."""
        return bool(self.axes) and not self.axes[0].windows

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.numbers.shape

    def cell(self, number: int) -> tuple[int, ...]:
        """The position of each attribute in a cell."""
        return tuple(int(position) for position in np.unravel_index(number, self.sizes))

    def distance(self, x: int, other: int) -> Fraction:
        apart = zip(self.cell(x), self.cell(other), strict=True)
        return self.step * int(self.numbers[tuple(abs(a - b) for a, b in apart)])

    def scaled(self, share: Fraction) -> Grid:
        return replace(self, step=self.step * share)

    def capped(self, cap: Fraction) -> Grid:
        """The same, and never above the cap."""
        if cap >= self.step * int(self.numbers.max()):
            return self
        unit = common_unit((self.step, cap))
        factor, most = int(self.step / unit), int(cap / unit)
        kind = kind_for(max(int(self.numbers.max()) * factor, most))
        numbers = np.minimum(self.numbers.astype(kind) * factor, most)
        return replace(self, numbers=numbers, step=unit, adds_up=False)

    def nearest(self, size: int) -> tuple[int, int]:
        return 0, 1 + int(np.argmin(self.numbers.ravel()[1:]))

    def farthest(self, size: int) -> tuple[int, int]:
        return 0, int(np.argmax(self.numbers))

    @cached_property
    def generating(self) -> list[tuple[int, ...]]:
        """The steps between two cells that are not made of two parts of what lies between them."""
        if self.adds_up:
            return self._along_axes()
        most = int(self.numbers.max()) + 1
        ways = self.numbers.copy()
        ways.flat[0] = most
        shortest = np.full(self.sizes, most, dtype=ways.dtype)
        for part in np.ndindex(self.sizes):
            rest = ways[tuple(slice(0, n - p) for n, p in zip(self.sizes, part, strict=True))]
            found = shortest[tuple(slice(p, None) for p in part)]
            np.minimum(found, rest + ways[part], out=found)
        return [tuple(steps) for steps in np.argwhere(shortest > self.numbers)[1:].tolist()]

    def _along_axes(self) -> list[tuple[int, ...]]:
        found = []
        for d in range(len(self.sizes)):
            along = tuple(slice(None) if k == d else slice(1) for k in range(len(self.sizes)))
            alone = replace(self, numbers=self.numbers[along], adds_up=False)
            found += alone.generating
        return found

    def turned(self) -> Iterator[tuple[int, ...]]:
        """The same in every direction, each with its opposite once."""
        for steps in self.generating:
            ways = [(s, -s) if s else (0,) for s in steps]
            first = next(d for d, s in enumerate(steps) if s)
            ways[first] = (steps[first],)
            yield from product(*ways)

    def coarser(self, most: int) -> Grid:
        """With at most so many units in the smallest distance: the others are rounded down."""
        least = int(self.smallest(self.numbers.size) / self.step)
        if least <= most:
            return self
        fewer = (self.numbers.astype(object) * most // least).astype(np.int64)
        numbers = _closed(fewer)
        return replace(self, numbers=numbers, step=self.step * least / most, adds_up=False)

    def generating_pairs(self, size: int) -> Iterator[tuple[int, int]]:
        cells = np.arange(size).reshape(self.sizes)
        for steps in self.turned():
            pairs = list(zip(steps, self.sizes, strict=True))
            here = cells[tuple(slice(max(0, -s), n - max(0, s)) for s, n in pairs)]
            there = cells[tuple(slice(max(0, s), n - max(0, -s)) for s, n in pairs)]
            yield from zip(here.ravel().tolist(), there.ravel().tolist(), strict=True)

    def generating_count(self, size: int) -> int:
        return sum(
            math.prod(n - abs(s) for s, n in zip(steps, self.sizes, strict=True))
            for steps in self.turned()
        )

    def whole(self, size: int) -> Integers:
        places = np.indices(self.sizes).reshape(len(self.sizes), -1)
        return np.asarray(self.numbers[tuple(np.abs(at[:, None] - at) for at in places)])


def summed(metrics: Sequence[Metric], sizes: Sequence[int]) -> Grid | None:
    """E = E_1 + E_2 + ...; None where one is no metric of the difference alone."""
    unit = common_unit(metric.step for metric in metrics)
    total, most = np.zeros((), dtype=np.int64), 0
    for metric, size in zip(metrics, sizes, strict=True):
        apart = metric.by_difference(size)
        if apart is None:
            return None
        factor = int(metric.step / unit)
        most += int(apart.max()) * factor
        total = np.add.outer(total.astype(kind_for(most)), apart.astype(kind_for(most)) * factor)
    return Grid(total, unit, adds_up=True)


def in_plane(axes: Sequence[Axis]) -> Grid:
    """The straight line between two cells, never above the cap."""
    if len({axis.windows for axis in axes}) > 1:
        raise InvalidSpecError("use within for both, or per for both")
    if len({axis.cap for axis in axes}) > 1:
        raise InvalidSpecError(
            "max_epsilon is for the distance in the plane; state the same for both"
        )
    steps = list(np.ndindex(*(axis.size for axis in axes)))
    if axes[0].windows:
        if len({axis.epsilon for axis in axes}) > 1:
            raise InvalidSpecError(
                "epsilon within a distance in the plane must be the same for both"
            )
        unit = axes[0].epsilon
        numbers = [_windows(axes, apart) for apart in steps]
    else:
        each = [axis.epsilon * axis.step for axis in axes]
        unit = min(each) / _PARTS
        lengths = [[e * s / unit for e, s in zip(each, apart, strict=True)] for apart in steps]
        numbers = [math.isqrt(floor_of(sum(part**2 for part in way))) for way in lengths]
    cap = axes[0].cap
    if cap is not None:
        if axes[0].windows:
            unit, finer = common_unit((unit, cap)), unit
            numbers = [number * int(finer / unit) for number in numbers]
        numbers = [min(number, floor_of(cap / unit)) for number in numbers]
    found: Integers = np.array(numbers, dtype=kind_for(max(numbers)))
    closed = _closed(found.reshape([axis.size for axis in axes]))
    return Grid(closed, unit, tuple(axes))


def _windows(axes: Sequence[Axis], apart: Sequence[int]) -> int:
    """How many windows long the straight line is: whole ones, or just above whole ones in bins."""
    pairs = list(zip(axes, apart, strict=True))
    inside = any(axis.in_bins and steps for axis, steps in pairs)
    square = sum((axis.step * max(0, steps - axis.in_bins)) ** 2 for axis, steps in pairs)
    root = math.isqrt(floor_of(Fraction(square)))
    return root + int(inside or root**2 < square)


def _closed(numbers: Integers) -> Integers:
    """The way over cells that lie between, where it is shorter.

    Distances grow along each attribute, so that other cells are no way round. A part is final when
    its turn comes, since all that it is made of had theirs before; and so is what it leaves of a
    way, if that is no later.
    """
    closed = numbers.copy()
    for part in np.ndindex(numbers.shape):
        rest = closed[tuple(slice(0, n - p) for n, p in zip(numbers.shape, part, strict=True))]
        found = closed[tuple(slice(p, None) for p in part)]
        np.minimum(found, rest + closed[part], out=found)
    return closed


def root_below(square: Fraction) -> Fraction:
    """The root of a fraction, rounded down by less than 2^-96."""
    return Fraction(math.isqrt(floor_of(square * (1 << 192))), 1 << 96)
