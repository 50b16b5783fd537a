"""Shaped noise for several attributes: the search for patterns over the cells of a grid.

The ring of `channels/shaped.py` is wound up: cell (a, b, ...) is place a s_1 + b s_2 + ..., a row
of the last attribute's length, then the next row, and a few places more than positions in every
direction. So noise that is added around the ring is added along all attributes at once, and what
is known of a ring holds: the objective by frequencies, and the moves of the search.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from metricldp.basics.errors import SurveyError
from metricldp.channels.base import Floats
from metricldp.channels.cells import Cells
from metricldp.channels.levels import Shape
from metricldp.channels.shaped import Shaped
from metricldp.design.shaped import COLD, LARGEST_UNIT, MOST_UNITS, MOVES, Depths, ring_spectrum
from metricldp.design.shapes import loops
from metricldp.metrics.grid import Grid

_PATTERNS, _FEWER, _MANY_PLACES = 8, 4, 1024
_PADS = (1, 2)
"""How many times the reach of epsilon there are places beyond the positions."""
_UNBOUNDED = 1 << 30


@dataclass(frozen=True)
class Torus:
    """A ring of places on which the cells of a grid lie, and what heights have to keep there."""

    grid: Grid
    """In few units of height."""
    lengths: tuple[int, ...]
    """How many places there are along each attribute."""

    @cached_property
    def strides(self) -> tuple[int, ...]:
        return tuple(math.prod(self.lengths[d + 1 :]) for d in range(len(self.lengths)))

    @property
    def around(self) -> int:
        return math.prod(self.lengths)

    def channel(self, patterns: tuple[Shape, ...]) -> Cells:
        sizes = self.grid.sizes
        last = sum((n - 1) * stride for n, stride in zip(sizes, self.strides, strict=True))
        return Cells(sizes, self.strides, Shaped.of(last + 1, patterns, self.grid.step))

    @cached_property
    def kept(self) -> list[tuple[int, int]]:
        """Between places so far apart around the ring heights may differ by so many units."""
        found = []
        for steps in self.grid.turned():
            offset = sum(s * stride for s, stride in zip(steps, self.strides, strict=True))
            most = int(self.grid.numbers[tuple(abs(s) for s in steps)])
            found += [(offset % self.around, most), (-offset % self.around, most)]
        return found

    def too_far(self, patterns: tuple[Shape, ...]) -> tuple[int, ...] | None:
        """Steps between two cells that some pattern tells too well."""
        depths = np.array(patterns)
        for steps, (offset, most) in zip(self.grid.turned(), self.kept[::2], strict=True):
            if np.abs(depths - np.roll(depths, offset, axis=1)).max() > most:
                return steps
        return None


def best_torus(gram: Floats, grid: Grid) -> tuple[tuple[int, ...], tuple[Shape, ...]]:
    """Lengths and patterns with the smallest error for a workload and people spread evenly."""
    loops.expect(1)
    found = []
    for lengths in _lengths(grid):
        torus = Torus(grid, lengths)
        patterns = _searched(gram, torus)
        try:
            found.append((torus.channel(patterns).mean_square(gram), lengths, patterns))
        except np.linalg.LinAlgError:
            raise SurveyError(
                "epsilon is too small for cells to be told apart in floats; use a larger epsilon"
            ) from None
    return min(found)[1:]


def _reach(grid: Grid) -> list[int]:
    """How far apart cells at the smallest distance are along each attribute, at least 1."""
    least = int(grid.numbers.ravel()[1:].min())
    lines = (np.moveaxis(grid.numbers, d, 0).reshape(n, -1)[:, 0] for d, n in enumerate(grid.sizes))
    return [max(1, int((line <= least).sum()) - 1) for line in lines]


def _lengths(grid: Grid) -> Iterator[tuple[int, ...]]:
    """Nothing is added where all cells are alike."""
    each = int(grid.numbers.ravel()[1:].min())
    if each == int(grid.numbers.max()):
        yield grid.sizes
        return
    wide = [reach / float(grid.step * each) for reach in _reach(grid)]
    pairs = list(zip(grid.sizes, wide, strict=True))
    yield from dict.fromkeys(
        tuple(n + min(n, math.ceil(pad * beyond)) for n, beyond in pairs) for pad in _PADS
    )


def _searched(gram: Floats, torus: Torus) -> tuple[Shape, ...]:
    """From boxes of different sizes, with slopes as steep as may be."""
    grid, around = torus.grid, torus.around
    count = _PATTERNS if around <= _MANY_PLACES else _FEWER
    top, each = int(grid.numbers.max()), int(grid.numbers.ravel()[1:].min())
    bounded = any(most == top for _, most in torus.kept)
    near = [(offset, most) for offset, most in torus.kept if most < top]
    reach = np.minimum(_reach(grid), torus.lengths)
    sides = np.array(torus.lengths) // 2 if each == top else reach
    heights = np.empty((count, around), dtype=np.int64)
    away = _slopes(near, top if bounded else _UNBOUNDED, around)
    for j in range(count):
        box = np.zeros(torus.lengths, dtype=bool)
        box[tuple(slice(0, 1 + j * side // count) for side in sides.tolist())] = True
        nearest = [np.roll(away, place) for place in np.flatnonzero(box).tolist()]
        heights[j] = -np.min(nearest, axis=0)
    at = np.add.reduce(
        np.indices(grid.sizes) * np.reshape(torus.strides, (-1, *[1] * len(grid.sizes)))
    ).ravel()
    offsets, most = np.array(near, dtype=np.int64).reshape(-1, 2).T.copy()
    unit = min(float(grid.step), LARGEST_UNIT)
    loops.now.anneal(
        *(heights, unit, np.array(torus.lengths), reach, offsets, most),
        *(top if bounded else _UNBOUNDED, ring_spectrum(gram, around, at)),
        *(min(MOVES, 10_000 * around) * count, 1 / around, COLD, 1),
    )
    return tuple(tuple((row.max() - row).tolist()) for row in heights)


def _slopes(near: list[tuple[int, int]], cap: int, around: int) -> Depths:
    """How deep every place can be below the first."""
    away = np.full(around, cap, dtype=np.int64)
    away[0], before = 0, None
    while before is None or not np.array_equal(away, before):
        before = away.copy()
        for offset, most in near:
            np.minimum(away, np.roll(away, offset) + most, out=away)
    return away


def in_units(grid: Grid) -> Grid:
    """The metric in few units of height; what is between is rounded down."""
    found = grid.coarser(MOST_UNITS)
    if found.numbers.max() > 1 << 14:
        raise SurveyError("the largest distance is too many times the smallest; state a cap")
    return found
