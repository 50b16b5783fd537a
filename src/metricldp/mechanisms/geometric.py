"""Truncated geometric noise: the line metric again, with one integer instead of m - 1 bits.

y = clip(x + noise, 0, m - 1) with P(noise = k) proportional to a^|k|, a = e^-epsilon. The error of
a range comes from people near its ends only, so on spread data and large domains it is far below
that of threshold bits; with everybody at the cut and a small epsilon it is above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from metricldp.mechanisms.channel import Floats, Integers
from metricldp.mechanisms.features import IntegerChannel
from metricldp.mechanisms.fields import Column
from metricldp.mechanisms.geometric_noise import GeometricNoise
from metricldp.mechanisms.randomness import Randomness
from metricldp_core import distributions as core


@dataclass(frozen=True)
class Geometric(IntegerChannel):
    """One integer: the position plus two-sided geometric noise, clipped to the domain."""

    size: int
    epsilon: float
    noise: GeometricNoise

    mechanism: ClassVar[str] = "geometric"

    @classmethod
    def for_epsilon(cls, size: int, epsilon: Fraction) -> Geometric:
        noise = GeometricNoise.for_epsilon(epsilon)
        return cls(size, noise.epsilon, noise)

    def encode(self, positions: Integers, randomness: Randomness) -> Column:
        column = self.field.empty(len(positions))
        self.noise.blur(randomness, positions, self.size, column)
        return column

    @cached_property
    def distribution(self) -> core.Geometric:
        return core.Geometric(self.size, self.noise.zero, self.noise.digits, self.noise.block)

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


def _end(noise: GeometricNoise, distance: int) -> Fraction:
    """The probability of being clipped at an end that is `distance` away."""
    tail = noise.tail(max(distance, 1))
    return tail if distance else tail + noise.probability(0)
