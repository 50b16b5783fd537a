"""Search for additive noise: patterns of heights around a torus.

Noise d has the probability q_j(d), proportional to exp(unit height_j(d)), in pattern j. The cells
of a grid lie on a ring of n places, row after row (`additive_channel.py`); a single attribute is a
grid with one axis. M of `additive_channel.py` is then a convolution with the eigenvalues
n mean_j |q_j(k)|^2 at frequencies k, and the mean square of a workload's decoders is

    sum_k g_k / (n mean_j |q_j(k)|^2),    g_k = sum over rows of |row(k)|^2.

Moves raise or lower a box of places by one unit. Where n is small, simulated annealing updates the
objective after every move. Where n is large, many moves are judged by the slopes of the objective,
which one transform returns. More places than positions separate the two ends of a line; several
lengths are compared by their exact error.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import InvalidSpecError, QueryError
from metricldp.basics.progress import Progress, silent
from metricldp.mechanisms.additive_channel import MOST_SOLVED, AdditiveChannel
from metricldp.mechanisms.effort import DEFAULT, Effort
from metricldp.mechanisms.joint import kron
from metricldp.mechanisms.levels import Shape
from metricldp.mechanisms.moments import Floats, Prior, ranges_gram
from metricldp.mechanisms.search_cache import cached_search
from metricldp.metrics import Metric
from metricldp.metrics.grid import Grid, summed

Heights = npt.NDArray[np.int64]

MAX_UNITS = 8
"""Units of height in the smallest distance; others are rounded down to a multiple of the unit."""
LARGEST_UNIT = 30.0
"""Probabilities that differ by more than e^30 are the same to a search."""
_PATTERNS, _PATTERNS_IF_LARGE, _PATTERNS_IF_UNIFORM = 8, 4, 16
"""The last for a uniform metric, where small sets need more turns to meet each other evenly."""
_MANY_PLACES = 1024
_RING_MARGINS = (2, 4)
_MARGINS, _FEW_CELLS, _MARGINS_OF_FEW = (1.0, 2.0), 100, (0.25, 0.5, 1.0, 2.0)
"""Places beyond the positions, as multiples of the distance at which noise falls to 1/e."""
_WIDE = 3
"""A window is wide if it spans more than a third of the domain."""
MOVES = 300_000
_WORK, _WORK_IF_LONG = 3_000_000_000, 1_000_000_000
"""Steps of the innermost loops in one annealing; the second where long moves are left out."""
_STEPS_PER_SECOND = 8e8
_LONGEST_MOVE = 128
"""Places of the longest move on a ring, unless noise reaches farther: longer ones rarely help."""
_UNBOUNDED = 1 << 30
ROUNDS, _VERY_MANY_PLACES = 500, 1 << 15
"""Rounds of a search by slopes; half of them where there are more places."""
_HOT, _COLD = 0.5, 1e-3
"""The temperature of the first round, as a fraction of a place's part of the objective, and the
factor by which it falls until the last."""
_FIRST_MOVES, _MOST_MOVES, _MORE_MOVES, _FEWER_MOVES = 0.01, 0.1, 1.1, 0.7
"""Moves in a round, as a fraction of all places, and how it adapts."""


class Noise(NamedTuple):
    """Additive noise: the places along each attribute, and the depths of each pattern."""

    lengths: tuple[int, ...]
    patterns: tuple[Shape, ...]


class Limits(NamedTuple):
    """What a move may do: the argument of the kernels."""

    lengths: Heights
    reach: Heights
    """The longest ordinary move along each attribute."""
    longest: Heights
    """The longest move of all along each attribute."""
    offsets: Heights
    """Heights so many places apart around the ring"""
    most: Heights
    """differ by at most this,"""
    cap: int
    """and any two heights by at most this."""


@dataclass(frozen=True, eq=False)
class CellWorkload:
    """The Gram matrix of queries of cells: a sum of products with one factor for each attribute.

    For queries of any cells, it is one matrix.
    """

    products: tuple[tuple[Floats, ...], ...] = ()
    whole: Floats | None = None

    def gram(self) -> Floats:
        if self.whole is not None:
            return self.whole
        return sum((kron(factors) for factors in self.products), np.zeros((1, 1)))

    def spectrum(self, torus: Torus) -> Floats:
        """g_k for the frequencies of a real transform, each with its mirror image."""
        lags = np.zeros(torus.places)
        if self.whole is not None:
            at = torus.cell_places
            lags += np.bincount((at[:, None] - at).ravel() % torus.places, self.whole.ravel())
        for factors in self.products:
            sums, at = np.ones(1), np.zeros(1, dtype=np.int64)
            for gram, stride in zip(factors, torus.strides, strict=True):
                steps = np.arange(1 - len(gram), len(gram))
                traces = np.array([np.trace(gram, k) for k in steps.tolist()])
                sums = np.multiply.outer(sums, traces).reshape(-1)
                at = np.add.outer(at, steps * stride).reshape(-1)
            lags += np.bincount(at % torus.places, sums, torus.places)
        spectrum = np.maximum(np.fft.rfft(lags).real, 0)
        spectrum[1 : (torus.places + 1) // 2] *= 2
        return spectrum


def strides_of(lengths: tuple[int, ...]) -> tuple[int, ...]:
    """The places that one step along each attribute moves, where the last is the fastest."""
    return tuple(math.prod(lengths[d + 1 :]) for d in range(len(lengths)))


def placed(along: Sequence[Heights], lengths: tuple[int, ...]) -> Heights:
    """The places around the ring of all combinations of steps along each attribute."""
    axes = [steps * stride for steps, stride in zip(along, strides_of(lengths), strict=True)]
    return np.asarray(reduce(np.add.outer, axes)).reshape(-1) % math.prod(lengths)


@dataclass(frozen=True)
class Torus:
    """A ring of places on which the cells of a grid lie, and what heights must satisfy there."""

    grid: Grid
    """The metric, in few units of height."""
    lengths: tuple[int, ...]
    """Places along each attribute."""

    @cached_property
    def strides(self) -> tuple[int, ...]:
        return strides_of(self.lengths)

    @property
    def places(self) -> int:
        return math.prod(self.lengths)

    @cached_property
    def cell_places(self) -> Heights:
        return placed([np.arange(size) for size in self.grid.sizes], self.lengths)

    @property
    def unit(self) -> float:
        return min(float(self.grid.step), LARGEST_UNIT)

    @cached_property
    def smallest(self) -> int:
        return int(self.grid.numbers.ravel()[1:].min())

    @cached_property
    def top(self) -> int:
        return int(self.grid.numbers.max())

    @cached_property
    def constraints(self) -> list[tuple[int, int]]:
        """Pairs (offset, most): heights `offset` places apart differ by at most `most` units."""
        pairs = []
        for steps in self.grid.turned():
            offset = sum(s * stride for s, stride in zip(steps, self.strides, strict=True))
            most = int(self.grid.numbers[tuple(abs(s) for s in steps)])
            pairs += [(offset % self.places, most), (-offset % self.places, most)]
        return pairs

    def violation(self, patterns: Sequence[Shape]) -> tuple[int, ...] | None:
        """Steps between two cells whose depths differ by more than the metric allows, or None."""
        depths = np.array(patterns)
        wide = int(np.ptp(depths, axis=1).max()) > self.top
        for steps, (offset, most) in zip(self.grid.turned(), self.constraints[::2], strict=True):
            if most == self.top and not wide:
                continue  # no two depths differ by more
            if np.abs(depths - np.roll(depths, offset, axis=1)).max() > most:
                return steps
        return None

    def channel(self, patterns: tuple[Shape, ...], prior: Prior = None) -> AdditiveChannel:
        return AdditiveChannel.of(self.grid.sizes, self.lengths, patterns, self.grid.step, prior)

    @cached_property
    def limits(self) -> Limits:
        lengths = np.array(self.lengths)
        near = [pair for pair in self.constraints if pair[1] < self.top]
        offsets, most = np.array(near, dtype=np.int64).reshape(-1, 2).T.copy()
        cap = self.top if len(near) < len(self.constraints) else _UNBOUNDED
        reach = np.minimum(_reach(self.grid), lengths)
        return Limits(lengths, reach, np.maximum(1, lengths // 2), offsets, most, cap)

    @property
    def work(self) -> int:
        """Steps of the innermost loops in an annealing."""
        return _WORK

    def start(self, count: int) -> Heights:
        """Boxes of different sizes, with slopes as steep as the metric allows."""
        uniform = self.smallest == self.top
        sides = (np.array(self.lengths) // 2 if uniform else self.limits.reach).tolist()
        peak = np.full(self.places, min(self.limits.cap, 1 << 20), dtype=np.int64)
        peak[0] = 0
        depths = self.lowered(peak)
        heights = np.empty((count, self.places), dtype=np.int64)
        for j in range(count):
            box = [np.arange(1 + j * side // count) for side in sides]
            nearest = [np.roll(depths, place) for place in placed(box, self.lengths)]
            heights[j] = -np.min(nearest, axis=0)
        return heights

    def start_from_rings(self, count: int) -> Heights:
        """Sums of patterns for each attribute alone, for distances that add up."""
        alone = []
        for line, length in zip(_lines(self.grid), self.lengths, strict=True):
            ring = Ring(Grid(line, self.grid.step), (length,))
            workload = CellWorkload(whole=ranges_gram(len(line)))
            alone.append(annealed(ring, workload, count)[0])
        along = [np.arange(n) - n * (2 * np.arange(n) >= n) for n in self.lengths]
        at = placed(along, self.lengths)
        heights = np.empty((count, self.places), dtype=np.int64)
        for j in range(count):
            rows = [pattern[j * (2 * d + 1) % count] for d, pattern in enumerate(alone)]
            heights[j, at] = np.asarray(reduce(np.add.outer, rows)).reshape(-1)
            heights[j] = self.lowered(heights[j])
        return heights

    def lowered(self, heights: Heights) -> Heights:
        """The highest heights below those given that satisfy all limits."""
        heights, before = np.maximum(heights, heights.max() - self.limits.cap), None
        while before is None or not np.array_equal(heights, before):
            before = heights.copy()
            for offset, most in zip(self.limits.offsets, self.limits.most, strict=True):
                np.minimum(heights, np.roll(heights, offset) + most, out=heights)
        return heights


@dataclass(frozen=True)
class Ring(Torus):
    """The torus of a single attribute."""

    @cached_property
    def cyclic(self) -> bool:
        return _closes(self.grid.numbers)

    @cached_property
    def below_top(self) -> range:
        """Differences that are nearer than the farthest."""
        line = self.grid.numbers
        half = line[: len(line) // 2 + 1] if self.cyclic else line
        return range(1, int(np.argmax(half == self.top)))

    @cached_property
    def width(self) -> Fraction:
        """Below the top, the distance of d steps is ceil(d / width) times the smallest.

        It is 1 for a uniform metric. For a window of w steps it is the largest floor(k w) / k.
        """
        line = self.grid.numbers
        widths = (Fraction(d * self.smallest, int(line[d])) for d in self.below_top)
        return max(widths, default=Fraction(1))

    @property
    def decay(self) -> float:
        """Steps in which the noise falls to 1/e."""
        return float(self.width) / float(self.grid.step * self.smallest)

    @cached_property
    def limits(self) -> Limits:
        n = self.places
        near = [d for (d,) in self.grid.generating if d in self.below_top] or [1]
        most = self.grid.numbers[near].astype(np.int64)
        offsets = np.append(near, n - np.array(near))
        deepest = self.smallest * math.ceil((n // 2) / self.width)
        cap = self.top if self.top < deepest else _UNBOUNDED
        longest = max(1, min(n // 2, max(_LONGEST_MOVE, math.ceil(min(self.decay, n)))))
        lengths, reach = np.array([n]), np.array([math.floor(self.width)])
        return Limits(lengths, reach, np.array([longest]), offsets, np.append(most, most), cap)

    @property
    def work(self) -> int:
        return _WORK if self.places <= 2 * _LONGEST_MOVE else _WORK_IF_LONG

    def start(self, count: int) -> Heights:
        """Stairs with different offsets; blocks of different lengths for a uniform metric."""
        at, j = np.arange(self.places), np.arange(count)[:, None]
        if self.top == self.smallest:
            return -self.smallest * (at >= 1 + j * (self.places // 2) // count)
        above, whole = self.width.as_integer_ratio()
        stairs = (np.minimum(at, self.places - at) * whole + j * above // count) // above
        return -np.minimum(stairs * self.smallest, self.top)


@cached_search
def best_noise(
    workload: CellWorkload,
    grid: Grid,
    prior: Prior = None,
    effort: Effort = DEFAULT,
    progress: Progress = silent,
) -> Noise:
    """The noise with the smallest mean square error of a workload under a prior.

    The exact error decides between several lengths. Of more than 1,024 cells only one length is
    tried, for a uniform prior.
    """
    candidates = list(_rings(grid) if len(grid.sizes) == 1 else _tori(grid))
    if grid.numbers.size > MOST_SOLVED:
        torus = candidates[0]
        if isinstance(torus, Ring):
            heights, _ = annealed(torus, workload, _PATTERNS_IF_LARGE, effort)
        else:
            heights, _ = annealed_by_slopes(torus, workload, effort, progress)
        return Noise(torus.lengths, patterns_of(heights))
    if effort.seconds is not None:
        effort = replace(effort, seconds=effort.seconds / len(candidates))
    gram, results = workload.gram(), []
    for number, torus in enumerate(candidates):
        heights, _ = annealed(torus, workload, _pattern_count(torus), effort)
        patterns = patterns_of(heights)
        try:
            spread = None if prior is None else np.array(prior)
            square = torus.channel(patterns, prior).moments.mean_square(gram, spread)
        except QueryError:
            raise InvalidSpecError(
                "epsilon is too small to distinguish values in floats; use a larger epsilon"
            ) from None
        results.append((square, torus.lengths, patterns))
        progress((number + 1) / len(candidates))
    return Noise(*min(results)[1:])


def _pattern_count(torus: Torus) -> int:
    if isinstance(torus, Ring):
        return _PATTERNS_IF_UNIFORM if torus.top == torus.smallest else _PATTERNS
    return _PATTERNS if torus.places <= _MANY_PLACES else _PATTERNS_IF_LARGE


def patterns_of(heights: Heights) -> tuple[Shape, ...]:
    """The depths of each pattern below its top."""
    return tuple(tuple((row.max() - row).tolist()) for row in heights)


def _rings(grid: Grid) -> Iterator[Ring]:
    """Lengths of the ring; for wide windows also a uniform metric, which is stricter."""
    size = len(grid.numbers)
    ring = Ring(grid, (size,))
    if ring.cyclic or ring.top == ring.smallest:
        yield ring
    else:
        lengths = (min(round(size + pad * ring.decay), 2 * size) for pad in _RING_MARGINS)
        yield from (Ring(grid, (n,)) for n in dict.fromkeys(n + n % 2 for n in lengths))
    farthest = size // 2 if ring.cyclic else size - 1
    if ring.top > ring.smallest and _WIDE * ring.width > farthest:
        uniform = np.minimum(grid.numbers, ring.smallest)
        yield Ring(replace(grid, numbers=uniform, adds_up=False), (size,))


def _tori(grid: Grid) -> Iterator[Torus]:
    """No places are added on a circle, or where three or more positions have one distance."""
    smallest, margins = int(grid.numbers.ravel()[1:].min()), []
    for line, reach in zip(_lines(grid), _reach(grid), strict=True):
        uniform = len(line) > 2 and line[1:].max() == line[1:].min()
        none = uniform or _closes(line)
        margins.append(0.0 if none else reach / float(grid.step * smallest))
    cells = grid.numbers.size
    sides = list(zip(grid.sizes, margins, strict=True))
    pads = _MARGINS_OF_FEW if cells <= _FEW_CELLS else _MARGINS
    choices = [tuple(n + min(n, math.ceil(pad * m)) for n, m in sides) for pad in pads]
    if cells > MOST_SOLVED:
        pairs = zip(choices[0], grid.sizes, strict=True)
        choices = [tuple(n if n == size else smooth_length(n) for n, size in pairs)]
    yield from (Torus(grid, lengths) for lengths in dict.fromkeys(choices))


def smooth_length(length: int) -> int:
    """The next multiple of 4 without prime factors above 5, for a fast transform."""
    while length % 4 or pow(30, length.bit_length(), length):
        length += 1
    return length


def _reach(grid: Grid) -> list[int]:
    """How far apart cells at the smallest distance are along each attribute, at least 1."""
    smallest = int(grid.numbers.ravel()[1:].min())
    return [max(1, int((line <= smallest).sum()) - 1) for line in _lines(grid)]


def _lines(grid: Grid) -> list[Heights]:
    """The distances of cells that differ in one attribute only, for each attribute."""
    return [np.moveaxis(grid.numbers, d, 0).reshape(n, -1)[:, 0] for d, n in enumerate(grid.sizes)]


def _closes(line: Heights) -> bool:
    """Whether the last position is as near to the first as the second is."""
    return len(line) > 2 and int(line[-1]) == int(line[1]) < int(line.max())


def line_in_units(size: int, metric: Metric) -> Grid:
    """A metric of the difference as a grid with one axis, in few units of height."""
    grid = summed([metric], [size])
    if grid is None:
        raise InvalidSpecError(
            "additive noise needs a metric that depends on the distance of values only; use "
            "another mechanism, such as extremal"
        )
    return grid.coarser(MAX_UNITS)


def grid_in_units(grid: Grid) -> Grid:
    """The metric of cells in few units of height."""
    coarser = grid.coarser(MAX_UNITS)
    if coarser.numbers.max() > 1 << 14:
        raise InvalidSpecError(
            "the largest distance is too many times the smallest; state max_epsilon"
        )
    return coarser


# The two methods


def annealed(
    torus: Torus, workload: CellWorkload, count: int, effort: Effort = DEFAULT
) -> tuple[Heights, float]:
    """Heights of `count` patterns by simulated annealing, and their objective.

    A time limit shortens the schedule, so that the search ends in about so many seconds.
    """
    from metricldp.mechanisms import search_kernels as kernels

    heights, work = torus.start(count), effort.scale * torus.work
    if effort.seconds is not None:
        work = min(work, effort.seconds * _STEPS_PER_SECOND)
    moves = effort.scale * min(MOVES, 10_000 * torus.places) * count
    problem = torus.unit, torus.limits, workload.spectrum(torus)
    objective = kernels.anneal(
        heights, *problem, max(1, int(moves)), max(1, int(work)), 1 + effort.seed
    )
    return heights, float(objective)


def annealed_by_slopes(
    torus: Torus,
    workload: CellWorkload,
    effort: Effort = DEFAULT,
    progress: Progress = silent,
    heights: Heights | None = None,
) -> tuple[Heights, float]:
    """Heights by rounds of many moves, each judged by the objective's slopes, and their objective.

    A round that misses its expected change halves the number of moves, or is discarded. The start
    is the sum of the best rings, or boxes in a plane, where distances do not add up.
    """
    from metricldp.mechanisms import search_kernels as kernels

    began, unit, spectrum = time.monotonic(), torus.unit, workload.spectrum(torus)
    if heights is None:
        start = torus.start if torus.grid.axes else torus.start_from_rings
        heights = start(_PATTERNS_IF_LARGE)
    rounds = int(effort.scale * (ROUNDS if torus.places <= _VERY_MANY_PLACES else ROUNDS // 2))
    now = best = Slopes.of(heights, unit, spectrum)
    moves = _FIRST_MOVES * heights.size
    for number in range(rounds):
        progress(number / rounds)
        if effort.seconds is not None and time.monotonic() - began > effort.seconds:
            break
        heat = now.objective * _HOT / heights.size * _COLD ** (number / rounds)
        heights, v, seed = now.heights.copy(), now.v.copy(), number + (effort.seed << 10)
        slopes = now.slopes, now.curvatures
        expected = kernels.move_many(
            heights, v, *slopes, unit, torus.limits, heat, max(1, int(moves)), seed
        )
        new = Slopes.of(heights, unit, spectrum)
        excess = new.objective - now.objective - expected
        if excess > max(0.5 * moves * heat, 0.3 * abs(expected)):
            moves = max(1.0, moves * _FEWER_MOVES)
            if new.objective > now.objective + moves * heat:
                continue
        else:
            moves = min(moves * _MORE_MOVES, _MOST_MOVES * heights.size)
        now = new
        best = min(best, now, key=lambda state: state.objective)
    return best.heights, best.objective


@dataclass(frozen=True, eq=False)
class Slopes:
    """The objective of heights, and its derivatives by v = exp(unit height)."""

    heights: Heights
    v: Floats
    objective: float
    slopes: Floats
    """The first derivative by each v."""
    curvatures: Floats
    """Half of the second derivative, mean over the places of a pattern."""

    @classmethod
    def of(cls, heights: Heights, unit: float, spectrum: Floats) -> Slopes:
        """With p_j = |v_j(k)|^2 / v_j(0)^2 the objective is sum_k g_k / mean_j p_j."""
        patterns, n = heights.shape
        v = np.exp(unit * (heights - heights.max(axis=1, keepdims=True)))
        total = v.sum(axis=1, keepdims=True)
        transforms = np.fft.rfft(v)
        power = np.abs(transforms) ** 2 / total**2
        sums = power.sum(axis=0)
        weight = patterns * spectrum / sums**2
        one_side = weight.copy()
        one_side[1 : (n + 1) // 2] /= 2  # the spectrum includes the mirror images
        rising = n * np.fft.irfft(one_side * transforms, n) / total
        slopes = 2 / total * ((weight * power).sum(axis=1, keepdims=True) - rising)
        bends = 2 * (weight / sums * power).sum(axis=1) - weight.sum()
        objective = float((patterns * spectrum / sums).sum())
        return cls(heights, v, objective, slopes, bends / total[:, 0] ** 2)
