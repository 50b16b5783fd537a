"""Truncated geometric noise: the line metric again, with one integer instead of m - 1 bits.

y = clip(x + noise, 0, m - 1) with P(noise = k) proportional to a^|k|, a = e^-epsilon. The error of
a range comes from people near its ends only, so on spread data and large domains it is far below
that of threshold bits; with everybody at the cut and a small epsilon it is above.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from metricldp_core.exact import WORD, shortened
from metricldp.channels.base import Floats, Integers
from metricldp.channels.fields import Column
from metricldp.channels.kinds import IntegerChannel
from metricldp.coins.noise import GeometricNoise
from metricldp.coins.stream import Randomness
from metricldp_core.random_words import Words
from metricldp.metrics import Metric

_EXACT = 1 << 8
"""Up to this length of a block the reports of a narrow domain are told apart in a proof."""


@dataclass(frozen=True)
class Geometric(IntegerChannel):
    """One integer: the position plus two-sided geometric noise, clipped to the domain."""

    size: int
    epsilon: float
    noise: GeometricNoise

    mechanism: ClassVar[str] = "geometric"

    @classmethod
    def for_epsilon(cls, size: int, epsilon: Fraction) -> Geometric:
        return cls(size, float(epsilon), GeometricNoise.for_epsilon(epsilon))

    def encode(self, positions: Integers, randomness: Randomness) -> Column:
        column = self.field.empty(len(positions))
        self.noise.blur(randomness, positions, self.size, column)
        return column

    def blur(self, position: int, words: Words) -> int:
        return min(max(position + self.noise.draw(words, self.size), 0), self.size - 1)

    def law(self) -> dict[str, Any]:
        return {"law": self.mechanism, "size": self.size, **self.noise.law()}

    def coefficients(self, functions: Floats) -> Floats:
        """The exact inverse of the channel, a second difference of f."""
        a = math.exp(-self.epsilon)
        gap = -math.expm1(-self.epsilon)
        steps = np.diff(functions)
        result = np.array(functions, dtype=np.float64)
        result[..., 1:-1] -= a / gap**2 * np.diff(steps)
        result[..., 0] -= a / gap * steps[..., 0]
        result[..., -1] += a / gap * steps[..., -1]
        return result

    def cells(self, totals: Floats) -> Floats:
        """The same second difference, seen from the positions."""
        a = math.exp(-self.epsilon)
        gap = -math.expm1(-self.epsilon)
        result = np.array(totals, dtype=np.float64)
        inner = a / gap**2 * totals[1:-1]
        result[1:-1] += 2 * inner
        result[:-2] -= inner
        result[2:] -= inner
        first, last = a / gap * totals[0], a / gap * totals[-1]
        result[0] += first
        result[1] -= first
        result[-1] += last
        result[-2] -= last
        return result

    def mean(self, values: Floats) -> Floats:
        """By doubling: log2(size) passes and no matrix."""
        return self._decayed(self._at_ends(values))

    def spread(self, shares: Floats) -> Floats:
        """The same passes, and what lies beyond an end is added to it afterwards."""
        return self._at_ends(self._decayed(shares))

    def _at_ends(self, values: Floats) -> Floats:
        """Times the probability of no noise; at the ends, of none or of any beyond."""
        a = math.exp(-self.epsilon)
        weighted = values * (-math.expm1(-self.epsilon) / (1 + a))
        weighted[..., [0, -1]] = values[..., [0, -1]] / (1 + a)
        return np.asarray(weighted)

    def _decayed(self, values: Floats) -> Floats:
        """The sum over all positions of a^distance times the value there."""
        upward, downward = values.copy(), values.copy()
        reach = 1
        while reach < self.size:
            decay = math.exp(-self.epsilon * reach)
            upward[..., :-reach] += decay * upward[..., reach:]
            downward[..., reach:] += decay * downward[..., :-reach]
            reach *= 2
        return np.asarray(upward + downward - values)

    def mean_range_variance(self) -> float:
        """In closed form: from the sum and the sum of squares of all prefixes at each report."""
        size, a = self.size, math.exp(-self.epsilon)
        gap = -math.expm1(-self.epsilon)
        c = a / gap**2
        left = np.arange(size, dtype=np.float64)
        sums = size - left
        squares = c**2 + (1 + c) ** 2 + size - 1 - left
        sums[0], squares[0] = 1 / gap + size - 1, 1 / gap**2 + size - 1
        sums[-1], squares[-1] = 1 - a / gap, 1 + (a / gap) ** 2
        people_below = -np.expm1(-self.epsilon * (left + 1)) / gap
        share = gap / (1 + a) * (people_below + people_below[::-1] - 1)
        share[[0, -1]] = people_below[-1] / (1 + a)
        ranges = size * (size + 1) / 2
        mean_square = share @ ((size + 1) * squares - sums**2) / size / ranges
        mean_inside = (size + 2) / (3 * size)
        return float(mean_square - mean_inside)

    def probability(self, x: int, report: Column) -> Fraction:
        y = int(report)
        if 0 < y < self.size - 1:
            return self.noise.probability(y - x)
        return _end(self.noise, x if y == 0 else self.size - 1 - x)

    def log_chances(self, column: Column) -> Floats:
        return self.log_chances_from(np.arange(self.size), column)

    def log_chances_from(self, positions: Integers, column: Column) -> Floats:
        """ln P(report | x) from some positions: a straight line on both sides of each."""
        inside = math.log(-math.expm1(-self.epsilon))
        ends = (column == 0) | (column == self.size - 1)
        level = np.where(ends, 0.0, inside) - math.log1p(math.exp(-self.epsilon))
        apart = np.abs(column.astype(np.int64)[:, None] - positions)
        return np.asarray(level[:, None] - self.epsilon * apart)

    def proving_pairs(self, metric: Metric) -> Iterator[tuple[int, int]]:
        """Along a line one pair for each two rooms to the ends: others alike are no worse."""
        if not metric.is_line:
            return super().proving_pairs(metric)
        whole = 0 if self.noise.length > _EXACT else self.noise.length + 1
        last = self.size - 2
        near_first = range(min(whole, last) + 1)
        near_last = range(max(whole, last - whole) + 1, last + 1)
        return ((x, x + 1) for x in chain(near_first, near_last))

    def worst_ratio(self, x: int, other: int) -> Fraction:
        return max(self.worst_ratios(x, other))

    def worst_ratios(self, x: int, other: int) -> tuple[Fraction, Fraction]:
        """P(report | x) / P(report | other) at its largest, and the other way round.

        Each is that of a report on the near side, beyond it or at its end, or of one between.
        Exact but for two cases, in which it is rounded up: in the last of hundreds of digits, and
        where blocks are long. Then the noise is judged as if nothing were clipped, and clipping
        what was drawn can only take away.
        """
        apart = abs(x - other)
        if not apart:
            return Fraction(1), Fraction(1)
        rooms = (x, self.size - 1 - other) if x < other else (self.size - 1 - x, other)
        whole = self.noise.length + 1
        if self.noise.length > _EXACT:
            rooms = whole, whole
        one, two = (min(room, whole) for room in rooms)
        return _one_way(self.noise, one, two, apart), _one_way(self.noise, two, one, apart)


def _one_way(noise: GeometricNoise, room: int, other: int, apart: int) -> Fraction:
    """P(report | x) at its largest against that of another: on the side of x, or on the other's."""
    near = _worst(noise, room, apart, turned=False)
    return max(near, _worst(noise, other, apart, turned=True)) if _rises(noise) else near


@lru_cache(maxsize=1 << 15)
def _worst(noise: GeometricNoise, room: int, apart: int, *, turned: bool) -> Fraction:
    """The worst ratio of two positions: the reports between, and on the side of one with a room.

    It is that one's probability over the other's, or turned over. Beyond its zero the noise
    repeats with every block, times a factor below 1. So a report farther than a block from both
    positions tells as much as one a block nearer; and an end, which is the sum of all that is
    clipped there, tells no more than the worst of its parts, and nothing turned over.
    """
    ratios = [_nearest(noise, apart, room > 0, turned=turned)]
    if room > 1:
        ratios.append(_largest(noise, apart, 1, room - 2, turned=turned))
    if room <= noise.length and not turned:
        ratios.append(_end(noise, room) / _end(noise, room + apart))
    return max(ratios)


@lru_cache(maxsize=1 << 15)
def _nearest(noise: GeometricNoise, apart: int, inside: bool, *, turned: bool) -> Fraction:
    """The worst ratio of the reports between two positions and, if it is inside, of one of them."""
    ratios = [Fraction(1)]
    if apart > 1:
        ratios.append(_largest(noise, apart - 2, -1, noise.length - 1))
    if inside:
        beyond, zero = _largest(noise, apart - 1, 1, 0, turned=turned), _zero(noise)
        ratios.append(shortened(beyond / zero if turned else beyond * zero))
    return max(ratios)


@lru_cache(maxsize=1 << 8)
def _zero(noise: GeometricNoise) -> Fraction:
    return noise.probability(0) / noise.probability(1)


@lru_cache(maxsize=1 << 8)
def _rises(noise: GeometricNoise) -> bool:
    """Whether a ratio can be worst the other way round; of noise that only falls none is."""
    return _zero(noise) < 1 or _largest(noise, 1, 1, noise.length - 1, turned=True) > 1


def _largest(
    noise: GeometricNoise, start: int, sign: int, last: int, *, turned: bool = False
) -> Fraction:
    """The largest P(1 + t) / P(1 + start + sign t) over t from 0 to `last`, or turned over.

    Both are products over binary digits, and adding or taking away ties the digits together by a
    carry alone. So they are gone through from the lowest on, and of all t with the same carry and
    the same order against `last` so far only the worst is kept.
    """
    worst = {(0, False): (1, 1)}
    for j, digit in enumerate(noise.digits):
        mass, limit = (WORD - digit, digit), last >> j & 1
        found: dict[tuple[int, bool], tuple[int, int]] = {}
        for (carry, over), (numerator, denominator) in worst.items():
            for bit in (0, 1):
                far = (start >> j & 1) + sign * bit + carry
                state = far >> 1, bit > limit or (bit == limit and over)
                up, down = (far & 1, bit) if turned else (bit, far & 1)
                ratio = numerator * mass[up], denominator * mass[down]
                before = found.get(state, (0, 1))
                if ratio[0] * before[1] > before[0] * ratio[1]:
                    found[state] = ratio
        worst = found
    blocks = start >> len(noise.digits)
    block = Fraction(noise.block, WORD) if turned else Fraction(WORD, noise.block)
    return max(
        shortened(Fraction(*ratio) * power_above(block, blocks + carry))
        for (carry, over), ratio in worst.items()
        if not over and blocks + carry >= 0
    )


def power_above(base: Fraction, exponent: int) -> Fraction:
    """By squaring, rounded up where it grows long."""
    result = Fraction(1)
    while exponent:
        if exponent & 1:
            result = shortened(result * base)
        base, exponent = shortened(base * base), exponent >> 1
    return result


def _end(noise: GeometricNoise, distance: int) -> Fraction:
    """The probability of being clipped at an end that is `distance` away."""
    tail = noise.tail(max(distance, 1))
    return tail if distance else tail + noise.probability(0)
