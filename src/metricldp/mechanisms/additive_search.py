"""The search for the patterns of additive noise on a ring.

Any depths that the metric allows give the guarantee. The search takes place on a ring of n places.
There M (see `additive_channel.py`) is a convolution as well, with the eigenvalues
n mean_j |q_j(k)|^2 at frequencies k, and the mean square of a workload's decoders is

    sum_k g_k / (n mean_j |q_j(k)|^2),    g_k = sum over rows of |row(k)|^2.

A search that moves blocks of heights up and down by a unit ends, in a second or so, within a few
per cent of what any mechanism can reach. A few more places than positions keep the two ends of a
line apart; how many is tried, and judged by the exact error on the line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import InvalidSpecError
from metricldp.mechanisms.additive_channel import Shaped
from metricldp.mechanisms.channel import Floats
from metricldp.mechanisms.effort import DEFAULT, Effort
from metricldp.mechanisms.levels import Shape
from metricldp.metrics import Metric

Depths = npt.NDArray[np.int64]

MOST_POSITIONS = 4096
MOST_UNITS = 8
"""Units of height in the smallest distance; others are rounded down to a multiple of the unit."""
_PATTERNS, _FEWER, _ALIKE = 8, 4, 16
"""The last where all pairs are alike: small sets need more turns to meet each other evenly."""
_MANY_POSITIONS = 1024
"""With more the exact error takes too long to choose by, and fewer patterns are enough."""
_PADS = (2, 4)
"""How many times width / epsilon places there are beyond the positions."""
MOVES, COLD = 300_000, 1e-5
MOST_WORK, _LESS_WORK = 3_000_000_000, 1_000_000_000
"""Steps of the innermost loops in one search, see `anneal`; the second is enough around rings that
are so long that not all lengths up to their half are tried."""
_STRETCH = 128
"""Places that move together: at most so many, or as many as noise reaches where that is farther."""
_WIDE = 3
"""A window is wide that is more than one part in so many of the domain."""
_UNBOUNDED = 1 << 30
LARGEST_UNIT = 30.0
"""What is farther apart than e^30 makes no difference to a search."""


@dataclass(frozen=True)
class Steps:
    """A metric of the difference in units of height."""

    unit: Fraction
    apart: tuple[int, ...]
    """The distance of positions 0, 1, 2, ... apart."""
    cyclic: bool

    @property
    def size(self) -> int:
        return len(self.apart)

    @property
    def each(self) -> int:
        return self.apart[1]

    @property
    def cap(self) -> int:
        return max(self.apart)

    @cached_property
    def below_cap(self) -> range:
        """Differences that are nearer than the farthest."""
        half = self.apart[: self.size // 2 + 1] if self.cyclic else self.apart
        return range(1, half.index(self.cap))

    @cached_property
    def width(self) -> Fraction:
        """Below the cap d apart is ceil(d / width) times the smallest; 1 where all are alike.

        With a window of w steps that is the largest floor(k w) / k that there is room for.
        """
        return max(
            (Fraction(d * self.each, self.apart[d]) for d in self.below_cap), default=Fraction(1)
        )

    @cached_property
    def near(self) -> tuple[int, ...]:
        """Differences below the cap that are not made of two parts; 1 where all are alike."""
        return tuple(d for d in self.below_cap if not _in_parts(self.apart, d)) or (1,)


def _in_parts(apart: tuple[int, ...], difference: int) -> bool:
    """Whether two smaller differences add up to it, and their distances to no more than its own."""
    firsts = range(1, difference // 2 + 1)
    return any(apart[d] + apart[difference - d] <= apart[difference] for d in firsts)


def steps_of(size: int, metric: Metric) -> Steps:
    """In units that are whole parts of the smallest distance; what is between is rounded down."""
    if size > MOST_POSITIONS:
        raise InvalidSpecError(
            f"{size:,} positions are too many for additive noise; use at most {MOST_POSITIONS:,}"
        )
    apart = metric.by_difference(size)
    if apart is None:
        raise InvalidSpecError(
            "additive noise needs a metric that depends on the distance of values only; use "
            "another "
            "mechanism, such as extremal"
        )
    each, unit = int(apart[1]), metric.step
    if each > MOST_UNITS:
        apart = apart.astype(object) * MOST_UNITS // each  # beyond 64 bits on the way
        unit = unit * each / MOST_UNITS
    cyclic = size > 2 and int(apart[-1]) == int(apart[1]) < int(apart.max())
    return Steps(unit, tuple(int(steps) for steps in apart), cyclic)


# The search


def best_patterns(
    gram: Floats,
    steps: Steps,
    prior: tuple[float, ...] | None = None,
    effort: Effort = DEFAULT,
) -> tuple[Shape, ...]:
    """The patterns with the smallest error for a workload's Gram matrix.

    Up to some size the exact error of each length of the ring decides, under the prior; beyond it
    the ring's own, for people spread evenly.
    """
    small = steps.size <= _MANY_POSITIONS
    found = []
    for tried, around in _tried(steps) if small else list(_tried(steps))[:1]:
        count = _ALIKE if tried.cap == tried.each else _PATTERNS
        heights, objective = searched(gram, tried, around, count if small else _FEWER, effort)
        patterns = tuple(tuple((row.max() - row).tolist()) for row in heights)
        if small:
            channel = Shaped.of(steps.size, patterns, steps.unit, prior)
            objective = channel.mean_square(gram, None if prior is None else np.array(prior))
        found.append((objective, patterns))
    return min(found)[1]


def _tried(steps: Steps) -> Iterator[tuple[Steps, int]]:
    """Lengths of the ring; for wide windows also what treats all pairs alike, and keeps more."""
    if steps.cyclic or steps.cap == steps.each:
        yield steps, steps.size
    else:
        reach = float(steps.width) / float(steps.unit * steps.each)
        lengths = (min(round(steps.size + pad * reach), 2 * steps.size) for pad in _PADS)
        yield from ((steps, n) for n in dict.fromkeys(n + n % 2 for n in lengths))
    farthest = steps.size // 2 if steps.cyclic else steps.size - 1
    if steps.cap > steps.each and _WIDE * steps.width > farthest:
        yield replace(steps, apart=(0, *[steps.each] * (steps.size - 1))), steps.size


def searched(
    gram: Floats, steps: Steps, around: int, patterns: int, effort: Effort = DEFAULT
) -> tuple[Depths, float]:
    """From stairs with different offsets, or where these would be flat from blocks."""
    from metricldp.mechanisms import search_kernels as kernels

    away = np.minimum(np.arange(around), around - np.arange(around))
    above, whole = steps.width.as_integer_ratio()
    offsets = np.arange(patterns)[:, None] * above // patterns
    heights = -np.minimum((away * whole + offsets) // above * steps.each, steps.cap)
    if steps.cap == steps.each:
        blocks = 1 + np.arange(patterns)[:, None] * (around // 2) // patterns
        heights = -steps.each * (np.arange(around) >= blocks)
    deepest = steps.each * math.ceil((around // 2) / steps.width)
    cap = steps.cap if steps.cap < deepest else _UNBOUNDED
    spectrum, unit = ring_spectrum(gram, around), min(float(steps.unit), LARGEST_UNIT)
    moves = max(1, int(effort.scale * min(MOVES, 10_000 * around) * patterns))
    near, reach = np.array(steps.near), np.array([math.floor(steps.width)])
    most = np.array([steps.apart[d] for d in steps.near])
    work = MOST_WORK if around <= 2 * _STRETCH else _LESS_WORK
    objective = kernels.anneal(
        *(heights, unit, np.array([around]), reach, np.array([longest_stretch(steps, around)])),
        *(np.append(near, around - near), np.append(most, most), cap, spectrum),
        *(moves, 1 / around, COLD, work, effort.seed),
    )
    return heights, float(objective)


def longest_stretch(steps: Steps, around: int) -> int:
    """Of places that move together, up to half of the ring.

    What is much longer than noise reaches costs the most, and hardly ever helps.
    """
    reach = float(steps.width) / float(steps.unit * steps.each)
    return max(1, min(around // 2, max(_STRETCH, math.ceil(min(reach, around)))))


def ring_spectrum(gram: Floats, around: int, at: Depths | None = None) -> Floats:
    """g_k for the frequencies of a real transform, each with its mirror image.

    Positions may lie elsewhere `at` the ring than one after the other.
    """
    at = np.arange(len(gram)) if at is None else at
    lags = np.bincount((at[:, None] - at).ravel() % around, gram.ravel(), around)
    return mirrored(lags.astype(np.float64))


def mirrored(lags: Floats) -> Floats:
    """The same from the sum of a Gram matrix over all pairs so far apart around the ring."""
    found = np.maximum(np.fft.rfft(lags).real, 0)
    found[1 : (len(lags) + 1) // 2] *= 2
    return found
