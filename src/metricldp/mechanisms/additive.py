"""Additive noise as a survey has it: the patterns of depths, found for a workload and saved.

Any depths that the metric allows keep the promise. The best ones are searched for around a ring of
n places. There M (see `additive_channel.py`) is a convolution as well, with the eigenvalues
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
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.basics.checks import is_list
from metricldp.basics.errors import InvalidSpecError
from metricldp.mechanisms.additive_channel import AdditiveChannel
from metricldp.mechanisms.base import Label, Mechanism
from metricldp.mechanisms.channel import Channel
from metricldp.mechanisms.levels import Shape, from_text, in_text
from metricldp.mechanisms.matrix import (
    GIVEN,
    checked_prior,
    checked_workload,
    completed,
    said_workload,
    workload_of,
)
from metricldp.mechanisms.moments import Floats
from metricldp.metrics import Metric
from metricldp_core.distributions import Distribution
from metricldp_core.levels import Additive

Depths = npt.NDArray[np.int64]

MOST_POSITIONS = 4096
MOST_REPORTS = 1 << 16
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


@dataclass(frozen=True, repr=False)
class ShapedNoise(Mechanism):
    """Noise around a ring, in a few patterns; for metrics that depend on the difference alone.

    `workload` ("ranges", "mean", "10 bars", ..., a Workload or rows) is what the patterns are to be
    good for, `prior` how people are spread. They are found when the survey is made, and saved as
    whole numbers.
    """

    workload: Any = None
    prior: Any = None
    patterns: Any = None

    saves: ClassVar[tuple[str, ...]] = ("workload", "prior", "patterns")
    name: ClassVar[str] = "additive"  # type: ignore[misc]
    title: ClassVar[str] = "additive noise"  # type: ignore[misc]
    max_computed: ClassVar[int] = 1 << 10  # type: ignore[misc]
    max_simulated: ClassVar[int] = 1 << 10  # type: ignore[misc]

    @property
    def is_designed(self) -> bool:
        return self.patterns is not None

    def settled(
        self, size: int, metric: Metric, *, ordered: bool = False, label: Label = str
    ) -> ShapedNoise:
        steps, prior = steps_of(size, metric), checked_prior(self.prior, size)
        if self.patterns is not None:
            said, patterns = (
                said_workload(self.workload, size),
                checked_patterns(self.patterns, size),
            )
            return replace(self, workload=said, prior=prior, patterns=patterns)
        workload = checked_workload(self.workload, size, ordered)
        if isinstance(workload, str):
            patterns = _best_for(workload, size, steps, prior)
            return replace(self, workload=workload, prior=prior, patterns=patterns)
        patterns = best_patterns(completed(workload).gram(), steps, prior)
        return replace(self, workload=GIVEN, prior=prior, patterns=patterns)

    def channel(self, size: int, metric: Metric, *, label: Label = str) -> Channel:
        """The noise, if its depths keep the metric."""
        steps = steps_of(size, metric)
        settled = self.settled(size, metric, label=label)
        far = too_far(settled.patterns, steps.apart)
        if far is not None:
            raise InvalidSpecError(
                f"the patterns of additive noise exceed the metric for values {far} steps apart; "
                "leave patterns out, and the best are found"
            )
        return AdditiveChannel.of(
            (size,), (len(settled.patterns[0]),), settled.patterns, steps.unit, settled.prior
        )

    def kept(self, size: int, metric: Metric) -> Metric:
        return metric

    def saved(self) -> dict[str, Any]:
        return in_text(super().saved(), "patterns")

    in_distribution: ClassVar[tuple[str, ...]] = ("patterns",)

    def restored(self, distribution: Distribution) -> ShapedNoise:
        assert isinstance(distribution, Additive)
        prior = checked_prior(self.prior, distribution.size)
        return replace(self, prior=prior, patterns=distribution.depths)

    def __repr__(self) -> str:
        if self.patterns is None:
            return repr(self.name)
        return f"<additive noise, {len(self.patterns)} patterns of {len(self.patterns[0])} places>"


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


def checked_patterns(patterns: Any, size: int, most: int = MOST_REPORTS) -> tuple[Shape, ...]:
    """Depths around the ring, as they may stand in a file."""
    remedy = "leave patterns out, and they are found"
    if not is_list(patterns) or len(patterns) not in (1, 2, 4, 8, 16):
        raise InvalidSpecError(f"patterns are a list of 1, 2, 4, 8 or 16 of them; {remedy}")
    found = [from_text(said, f"pattern {number}") for number, said in enumerate(patterns)]
    for number, pattern in enumerate(found):
        if len(pattern) != len(found[0]) or len(pattern) < size:
            raise InvalidSpecError(
                f"pattern {number} has {len(pattern):,} depths; all have as many, at least "
                f"{size:,}; {remedy}"
            )
    if len(found) * len(found[0]) > most:
        raise InvalidSpecError(f"the patterns have more than {most:,} places together; {remedy}")
    return tuple(found)


def too_far(patterns: tuple[Shape, ...], apart: tuple[int, ...]) -> int | None:
    """A difference of positions that some pattern tells too well; None where all keep the metric.

    Differences that two shorter ones make up need no look.
    """
    depths = np.array(patterns)
    for difference in range(1, len(apart)):
        if _in_parts(apart, difference):
            continue
        spread = np.abs(depths - np.roll(depths, difference, axis=1)).max()
        if spread > apart[difference]:
            return difference
    return None


# The search


@lru_cache(maxsize=64)
def _best_for(
    workload: str, size: int, steps: Steps, prior: tuple[float, ...] | None
) -> tuple[Shape, ...]:
    return best_patterns(completed(workload_of(workload, size)).gram(), steps, prior)


def best_patterns(
    gram: Floats, steps: Steps, prior: tuple[float, ...] | None = None
) -> tuple[Shape, ...]:
    """The patterns with the smallest error for a workload's Gram matrix.

    Up to some size the exact error of each length of the ring decides, under the prior; beyond it
    the ring's own, for people spread evenly.
    """
    small = steps.size <= _MANY_POSITIONS
    found = []
    for tried, around in _tried(steps) if small else list(_tried(steps))[:1]:
        count = _ALIKE if tried.cap == tried.each else _PATTERNS
        heights, objective = searched(gram, tried, around, count if small else _FEWER)
        patterns = tuple(tuple((row.max() - row).tolist()) for row in heights)
        if small:
            channel = AdditiveChannel.of((steps.size,), (around,), patterns, steps.unit, prior)
            objective = channel.moments.mean_square(
                gram, None if prior is None else np.array(prior)
            )
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


def searched(gram: Floats, steps: Steps, around: int, patterns: int) -> tuple[Depths, float]:
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
    moves = min(MOVES, 10_000 * around) * patterns
    near, reach = np.array(steps.near), np.array([math.floor(steps.width)])
    most = np.array([steps.apart[d] for d in steps.near])
    work = MOST_WORK if around <= 2 * _STRETCH else _LESS_WORK
    objective = kernels.anneal(
        *(heights, unit, np.array([around]), reach, np.array([longest_stretch(steps, around)])),
        *(np.append(near, around - near), np.append(most, most), cap, spectrum),
        *(moves, 1 / around, COLD, work, 1),
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
