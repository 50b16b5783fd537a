"""Additive noise for several attributes: the search for patterns over the cells of a grid.

The ring is wound up, see `additive_channel.py`. So noise that is added around
the ring is added along all attributes at once, and what is known of a ring holds: the objective by
frequencies, and the moves of the search.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from metricldp.basics.errors import InvalidSpecError, QueryError
from metricldp.mechanisms.additive_search import (
    COLD,
    LARGEST_UNIT,
    MOST_UNITS,
    MOST_WORK,
    MOVES,
    Depths,
    Steps,
    mirrored,
    ring_spectrum,
    searched,
)
from metricldp.mechanisms.additive_channel import MOST_SOLVED, AdditiveChannel
from metricldp.mechanisms.annealing import ROUNDS, Bounds, annealed
from metricldp.mechanisms.joint import kron
from metricldp.mechanisms.joint_cells import Cells
from metricldp.mechanisms.levels import Shape
from metricldp.mechanisms.moments import Floats, ranges_gram
from metricldp.metrics.grid import Grid

_PATTERNS, _FEWER, _MANY_PLACES = 8, 4, 1024
_PADS, _FEW_CELLS, _MORE_PADS = (1.0, 2.0), 100, (0.25, 0.5, 1.0, 2.0)
"""How many times the reach of epsilon there are places beyond the positions."""
_VERY_MANY = 1 << 15
"""Places beyond which half of the rounds have to do."""
_UNBOUNDED = 1 << 30
_FACTORS = (2, 3, 5)


@dataclass(frozen=True)
class CellWorkload:
    """The Gram matrix of questions about cells: a sum of products, one factor for each attribute.

    Or one matrix of all cells, where questions are about any of them.
    """

    products: tuple[tuple[Floats, ...], ...] = ()
    whole: Floats | None = None

    def gram(self) -> Floats:
        if self.whole is not None:
            return self.whole
        found = np.zeros((1, 1))
        for factors in self.products:
            found = found + kron(factors)
        return found

    def spectrum(self, torus: Torus) -> Floats:
        """g_k around the ring, as `ring_spectrum` has it."""
        if self.whole is not None:
            return ring_spectrum(self.whole, torus.around, torus.places)
        lags = np.zeros(torus.around)
        for factors in self.products:
            found, at = np.ones(1), np.zeros(1, dtype=np.int64)
            for gram, stride in zip(factors, torus.strides, strict=True):
                apart = np.arange(1 - len(gram), len(gram))
                sums = np.array([np.trace(gram, k) for k in apart.tolist()])
                found = np.multiply.outer(found, sums).reshape(-1)
                at = np.add.outer(at, apart * stride).reshape(-1)
            lags += np.bincount(at % torus.around, found, torus.around)
        return mirrored(lags)


def strides_of(lengths: tuple[int, ...]) -> tuple[int, ...]:
    """How far one step along each attribute is, where the last runs fastest."""
    return tuple(math.prod(lengths[d + 1 :]) for d in range(len(lengths)))


def placed(along: Sequence[Depths], lengths: tuple[int, ...]) -> Depths:
    """The places around the ring of all combinations of steps along each attribute."""
    axes = [steps * stride for steps, stride in zip(along, strides_of(lengths), strict=True)]
    return np.asarray(reduce(np.add.outer, axes)).reshape(-1) % math.prod(lengths)


@dataclass(frozen=True)
class Torus:
    """A ring of places on which the cells of a grid lie, and what heights have to keep there."""

    grid: Grid
    """In few units of height."""
    lengths: tuple[int, ...]
    """How many places there are along each attribute."""

    @cached_property
    def strides(self) -> tuple[int, ...]:
        return strides_of(self.lengths)

    @property
    def around(self) -> int:
        return math.prod(self.lengths)

    @cached_property
    def places(self) -> Depths:
        """Where the cells lie."""
        return placed([np.arange(size) for size in self.grid.sizes], self.lengths)

    def channel(self, patterns: tuple[Shape, ...]) -> Cells:
        sizes = self.grid.sizes
        return Cells(sizes, AdditiveChannel.of(sizes, self.lengths, patterns, self.grid.step))

    @cached_property
    def kept(self) -> list[tuple[int, int]]:
        """Between places so far apart around the ring heights may differ by so many units."""
        found = []
        for steps in self.grid.turned():
            offset = sum(s * stride for s, stride in zip(steps, self.strides, strict=True))
            most = int(self.grid.numbers[tuple(abs(s) for s in steps)])
            found += [(offset % self.around, most), (-offset % self.around, most)]
        return found

    # Where a search begins

    @cached_property
    def top(self) -> int:
        return int(self.grid.numbers.max())

    @cached_property
    def cap(self) -> int:
        """How far any two heights may be apart."""
        return self.top if any(most == self.top for _, most in self.kept) else _UNBOUNDED

    @cached_property
    def near(self) -> list[tuple[int, int]]:
        return [(offset, most) for offset, most in self.kept if most < self.top]

    @cached_property
    def reach(self) -> Depths:
        return np.minimum(_reach(self.grid), self.lengths)

    def bounds(self) -> Bounds:
        offsets, most = np.array(self.near, dtype=np.int64).reshape(-1, 2).T.copy()
        return Bounds(np.array(self.lengths), self.reach, offsets, most, self.cap)

    def boxes(self, count: int) -> Depths:
        """Boxes of different sizes, with slopes as steep as may be."""
        each = int(self.grid.numbers.ravel()[1:].min())
        sides = np.array(self.lengths) // 2 if each == self.top else self.reach
        heights = np.empty((count, self.around), dtype=np.int64)
        away = np.full(self.around, min(self.cap, 1 << 20), dtype=np.int64)
        away[0] = 0
        away = self._lowered(away)
        for j in range(count):
            box = np.zeros(self.lengths, dtype=bool)
            box[tuple(slice(0, 1 + j * side // count) for side in sides.tolist())] = True
            nearest = [np.roll(away, place) for place in np.flatnonzero(box).tolist()]
            heights[j] = -np.min(nearest, axis=0)
        return heights

    def sums(self, count: int) -> Depths:
        """The sums of patterns for one attribute alone, where distances add up."""
        alone = []
        for line, length in zip(_lines(self.grid), self.lengths, strict=True):
            steps = Steps(self.grid.step, tuple(line.tolist()), _closes(line))
            alone.append(searched(ranges_gram(len(line)), steps, length, count)[0])
        turns = [
            np.arange(length) - length * (2 * np.arange(length) >= length)
            for length in self.lengths
        ]
        at = placed(turns, self.lengths)
        heights = np.empty((count, self.around), dtype=np.int64)
        for j in range(count):
            rows = [found[j * (2 * d + 1) % count] for d, found in enumerate(alone)]
            heights[j, at] = np.asarray(reduce(np.add.outer, rows)).reshape(-1)
            heights[j] = self._lowered(heights[j])
        return heights

    def _lowered(self, heights: Depths) -> Depths:
        """The highest heights below those given that keep everything; pits end at the cap."""
        heights, before = np.maximum(heights, heights.max() - self.cap), None
        while before is None or not np.array_equal(heights, before):
            before = heights.copy()
            for offset, most in self.near:
                np.minimum(heights, np.roll(heights, offset) + most, out=heights)
        return heights


def best_torus(
    asked: CellWorkload, grid: Grid, scale: float = 1.0, seed: int = 1
) -> tuple[tuple[int, ...], tuple[Shape, ...]]:
    """Lengths and patterns with the smallest error for a workload and people spread evenly.

    Of few cells the exact error decides between lengths; of many, one is tried. `scale` multiplies
    the number of iterations.
    """
    cells = grid.numbers.size
    if cells > MOST_SOLVED:
        sides = zip(next(_lengths(grid, _PADS)), grid.sizes, strict=True)
        torus = Torus(grid, tuple(n if n == size else _smooth(n) for n, size in sides))
        return torus.lengths, _searched_long(asked, torus, scale)
    gram, found = asked.gram(), []
    for lengths in _lengths(grid, _MORE_PADS if cells <= _FEW_CELLS else _PADS):
        torus = Torus(grid, lengths)
        patterns = _searched(asked, torus, scale, seed)
        try:
            found.append((torus.channel(patterns).one.moments.mean_square(gram), lengths, patterns))
        except QueryError:
            raise InvalidSpecError(
                "epsilon is too small to distinguish cells in floats; use a larger epsilon"
            ) from None
    return min(found)[1:]


def _reach(grid: Grid) -> list[int]:
    """How far apart cells at the smallest distance are along each attribute, at least 1."""
    least = int(grid.numbers.ravel()[1:].min())
    return [max(1, int((line <= least).sum()) - 1) for line in _lines(grid)]


def _lines(grid: Grid) -> list[Depths]:
    """How far apart cells are that differ in one attribute alone, for each of them."""
    return [np.moveaxis(grid.numbers, d, 0).reshape(n, -1)[:, 0] for d, n in enumerate(grid.sizes)]


def _closes(line: Depths) -> bool:
    """Whether the last position is as near to the first as the second is."""
    return len(line) > 2 and int(line[-1]) == int(line[1]) < int(line.max())


def _lengths(grid: Grid, pads: Sequence[float]) -> Iterator[tuple[int, ...]]:
    """Nothing is added along a circle, or where three positions or more are all alike."""
    each = int(grid.numbers.ravel()[1:].min())
    wide = [
        0.0
        if _closes(line) or (len(line) > 2 and line[1:].max() == line[1:].min())
        else reach / float(grid.step * each)
        for line, reach in zip(_lines(grid), _reach(grid), strict=True)
    ]
    pairs = list(zip(grid.sizes, wide, strict=True))
    yield from dict.fromkeys(
        tuple(n + min(n, math.ceil(pad * beyond)) for n, beyond in pairs) for pad in pads
    )


def _smooth(length: int) -> int:
    """The next length with small factors, 4 among them, which is quickly transformed."""
    rest = length
    for factor in _FACTORS:
        while rest % factor == 0:
            rest //= factor
    return length if rest == 1 and length % 4 == 0 else _smooth(length + 1)


def _searched(asked: CellWorkload, torus: Torus, scale: float, seed: int) -> tuple[Shape, ...]:
    from metricldp.mechanisms import search_kernels as kernels

    count = _PATTERNS if torus.around <= _MANY_PLACES else _FEWER
    heights, bounds = torus.boxes(count), torus.bounds()
    moves = max(1, int(scale * min(MOVES, 10_000 * torus.around) * count))
    kernels.anneal(
        *(heights, _unit(torus), bounds.lengths, bounds.reach, np.maximum(1, bounds.lengths // 2)),
        *(bounds.offsets, bounds.most, bounds.cap, asked.spectrum(torus)),
        *(moves, 1 / torus.around, COLD, MOST_WORK, seed),
    )
    return _below_top(heights)


def _searched_long(asked: CellWorkload, torus: Torus, scale: float) -> tuple[Shape, ...]:
    """From the sums of patterns of one attribute alone; in the plane from boxes."""
    heights = torus.boxes(_FEWER) if torus.grid.axes else torus.sums(_FEWER)
    rounds = int(scale * (ROUNDS if torus.around <= _VERY_MANY else ROUNDS // 2))
    heights, _ = annealed(heights, _unit(torus), asked.spectrum(torus), torus.bounds(), rounds)
    return _below_top(heights)


def _unit(torus: Torus) -> float:
    return min(float(torus.grid.step), LARGEST_UNIT)


def _below_top(heights: Depths) -> tuple[Shape, ...]:
    return tuple(tuple((row.max() - row).tolist()) for row in heights)


def in_units(grid: Grid) -> Grid:
    """The metric in few units of height; what is between is rounded down."""
    found = grid.coarser(MOST_UNITS)
    if found.numbers.max() > 1 << 14:
        raise InvalidSpecError(
            "the largest distance is too many times the smallest; state max_epsilon"
        )
    return found
