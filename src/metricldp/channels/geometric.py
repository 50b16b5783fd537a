"""Truncated geometric noise: the line metric again, with one integer instead of m - 1 bits.

y = clip(x + noise, 0, m - 1) with P(noise = k) proportional to a^|k|, a = e^-epsilon. The error of
a range comes from people near its ends only, so on spread data and large domains it is far below
that of threshold bits; with everybody at the cut and a small epsilon it is above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from metricldp.channels.base import Column, Floats, IntegerChannel, Integers
from metricldp.coins import Coins, GeometricNoise, Handful


@dataclass(frozen=True)
class Geometric(IntegerChannel):
    """One integer: the position plus two-sided geometric noise, clipped to the domain."""

    size: int
    epsilon: float
    noise: GeometricNoise

    mechanism: ClassVar[str] = "geometric"

    @classmethod
    def for_epsilon(cls, size: int, epsilon: Fraction) -> Geometric:
        """Noise whose integers keep epsilon per step."""
        return cls(size, float(epsilon), GeometricNoise.for_epsilon(epsilon))

    def encode(self, positions: Integers, coins: Coins) -> Column:
        """Add noise and clip."""
        column = self.empty(len(positions))
        self.noise.blur(coins, positions, self.size, column)
        return column

    def blur(self, position: int, coins: Handful) -> int:
        """Add noise and clip."""
        return min(max(position + self.noise.draw(coins, self.size), 0), self.size - 1)

    def coefficients(self, functions: Floats) -> Floats:
        """The exact inverse of the channel, a second difference of f."""
        a = math.exp(-self.epsilon)
        gap = -math.expm1(-self.epsilon)
        f = functions
        result = np.empty_like(f, dtype=np.float64)
        result[..., 1:-1] = f[..., 1:-1] - a / gap**2 * (
            (f[..., :-2] - f[..., 1:-1]) + (f[..., 2:] - f[..., 1:-1])
        )
        result[..., 0] = f[..., 0] - a / gap * (f[..., 1] - f[..., 0])
        result[..., -1] = f[..., -1] - a / gap * (f[..., -2] - f[..., -1])
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
        """E[v(y) | x] at every x, by doubling: log2(size) passes and no matrix."""
        a = math.exp(-self.epsilon)
        inside = -math.expm1(-self.epsilon) / (1 + a)
        weighted = values * inside
        weighted[..., 0] = values[..., 0] / (1 + a)
        weighted[..., -1] = values[..., -1] / (1 + a)
        upward, downward = weighted.copy(), weighted.copy()
        reach = 1
        while reach < self.size:
            decay = math.exp(-self.epsilon * reach)
            upward[..., :-reach] += decay * upward[..., reach:]
            downward[..., reach:] += decay * downward[..., :-reach]
            reach *= 2
        return np.asarray(upward + downward - weighted)

    def mean_range_variance(self) -> float:
        """The variance one person adds to a count, mean over all ranges and positions.

        A range is the difference of two prefixes out of size + 1, so the sum of its squares over
        all ranges follows from the sum and the sum of squares of all prefixes at each report.
        """
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
        """The noise's own probability inside, its tail at both ends."""
        y = int(report)
        if 0 < y < self.size - 1:
            return self.noise.probability(y - x)
        return _end(self.noise, x if y == 0 else self.size - 1 - x)

    def worst_ratio(self, x: int, other: int) -> Fraction:
        """The worse of both ways."""
        return max(self.worst_ratios(x, other))

    def worst_ratios(self, x: int, other: int) -> tuple[Fraction, Fraction]:
        """P(report | x) / P(report | other) at its largest, and the other way round.

        Each is that of a report on the near side, beyond it or at its end, or of one between.
        """
        apart = abs(x - other)
        if not apart:
            return Fraction(1), Fraction(1)
        rooms = (x, self.size - 1 - other) if x < other else (self.size - 1 - x, other)
        steps = _worst_steps(self.noise, apart)
        first, second = (
            max(_ends_ratio(self.noise, room, apart), Fraction(*steps[min(room, len(steps) - 1)]))
            for room in rooms
        )
        return first, second


def _end(noise: GeometricNoise, distance: int) -> Fraction:
    """The probability of being clipped at an end that is `distance` away."""
    tail = noise.tail(max(distance, 1))
    return tail if distance else tail + noise.probability(0)


def _ends_ratio(noise: GeometricNoise, room: int, apart: int) -> Fraction:
    """How an end tells two positions apart, the nearer one `room` away; blocks repeat."""
    return _ends_of_block(noise, room and (room - 1) % noise.length + 1, apart)


@lru_cache(maxsize=1 << 14)
def _ends_of_block(noise: GeometricNoise, room: int, apart: int) -> Fraction:
    return _end(noise, room) / _end(noise, room + apart)


@lru_cache(maxsize=1 << 14)
def _worst_steps(noise: GeometricNoise, apart: int) -> list[tuple[int, int]]:
    """The worst ratio of the reports between two positions and of the first 0, 1, ... beyond one.

    Beyond its zero the noise repeats with every block, times a factor below 1. So a report farther
    than a block from both positions tells as much as one a block nearer.
    """
    masses = _masses(noise, 2 + apart // noise.length)
    worst = (1, 1)
    for near in range(1, apart):
        worst = _worse(worst, masses[near], masses[apart - near])
    steps = [worst]
    for near in range(noise.length + 1):
        worst = _worse(worst, masses[near], masses[near + apart])
        steps.append(worst)
    return steps


@lru_cache(maxsize=1 << 8)
def _masses(noise: GeometricNoise, blocks: int) -> list[int]:
    return noise.masses(1 + blocks * noise.length)


def _worse(ratio: tuple[int, int], one: int, other: int) -> tuple[int, int]:
    """The larger of a ratio and that of two masses, the larger mass above."""
    if one < other:
        one, other = other, one
    return (one, other) if one * ratio[1] > ratio[0] * other else ratio
