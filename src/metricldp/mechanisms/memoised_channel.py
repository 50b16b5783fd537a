"""Memoised channels: a first randomization, drawn once for each value, and one for each report.

y1 ~ G1(x) is drawn once for every value that a person has had, and remembered on the device;
y2 ~ G2(y1) is drawn anew for every report and sent. All reports of one value are functions of y1,
so together they have the guarantee of G1. One report by itself has a stronger one. Its
probabilities are those of G1 G2, and its estimator is the best one for their product.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from metricldp.mechanisms.channel import CoreChannel, IntegerChannel, Integers
from metricldp.mechanisms.exact_probability import exact_probability
from metricldp.mechanisms.fields import Column
from metricldp.mechanisms.geometric import (
    GeometricChannel,
    GeometricMoments,
    geometric_distribution,
    noise_epsilon,
)
from metricldp.mechanisms.moments import Floats, OneHot, OneHotMatrix
from metricldp.mechanisms.randomized_response import RandomizedResponseChannel, ResponseMoments
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.sampling import bernoulli, lanes, words_for
from metricldp_core import distributions as core
from metricldp_core.distributions import Invariance
from metricldp_core.exact import WORD, exp_bounds, floor_of

_LISTED = 64
"""Up to so many positions and reports the probabilities of one report are exact."""
_ABOVE = Fraction(1, 1 << 30)
"""What is added to a ratio of floats."""
_CLOSE = 1e-12
"""Probabilities of geometric noise that differ by this part of them are the same."""
_SLACK = 1e-9
"""Logarithms in floats are nearer than this; integers decide among those."""


@dataclass(frozen=True)
class LazyGeometricChannel(CoreChannel, IntegerChannel):
    """The position with probability keep / 2^64, or end / 2^64 at an end; else noise is added.

    It turns clipped geometric noise with a larger epsilon into that with a smaller one: with
    a = e^-E before and b = e^-E' after, positions inside stay with probability a (1 - b)^2 /
    (b (1 - a)^2), the two ends with a (1 - b) / (b (1 - a)), and the noise has E'. (The inverse of
    the first is a second difference, and of the second's rows that is a multiple of themselves less
    the position itself.)
    """

    distribution: core.LazyGeometric

    @classmethod
    def between(cls, size: int, before: Fraction, after: Fraction) -> LazyGeometricChannel:
        """The channel that makes noise with epsilon `after` of noise with a larger one."""
        a, b = (exp_bounds(-epsilon)[0] for epsilon in (before, after))
        end = a * (1 - b) / (b * (1 - a))
        keep = end * (1 - b) / (1 - a)
        stays = (max(1, floor_of(part * WORD)) for part in (keep, end))
        return cls(core.LazyGeometric(geometric_distribution(size, after), *stays))

    def sample(self, positions: Integers, randomness: Randomness) -> Column:
        count, words = len(positions), words_for(len(positions))
        inside, outside = (
            lanes(bernoulli(randomness, probability, words), count)
            for probability in (self.distribution.keep, self.distribution.end)
        )
        at_end = (positions == 0) | (positions == self.size - 1)
        stays = np.where(at_end, outside, inside).astype(bool)
        moved = GeometricChannel(self.distribution.geometric).sample(positions, randomness)
        return np.where(stays, positions, moved).astype(self.field.dtype)

    @cached_property
    def moments(self) -> OneHotMatrix:
        stays = np.full(self.size, self.distribution.keep / WORD)
        stays[[0, -1]] = self.distribution.end / WORD
        noise = GeometricChannel(self.distribution.geometric).moments.probabilities
        return OneHotMatrix(np.diag(stays) + (1 - stays)[:, None] * noise)


@dataclass(frozen=True)
class MemoisedChannel(CoreChannel, IntegerChannel):
    """One integer: what the second channel makes of what the first one made."""

    first: IntegerChannel
    second: IntegerChannel
    """On the reports of the first, which are its positions."""

    def sample(self, positions: Integers, randomness: Randomness) -> Column:
        once = self.first.sample(positions, randomness)
        return self.second.sample(once.astype(np.int64), randomness)

    @cached_property
    def distribution(self) -> core.Memoised:
        first, second = self.first.distribution, self.second.distribution
        assert isinstance(first, core.OneInteger)
        assert isinstance(second, core.OneInteger)
        return core.Memoised(first, second)

    @cached_property
    def moments(self) -> OneHot:
        """Two randomized responses are one, and lazy noise on noise is noise; else the product."""
        first, second = self.first, self.second
        if isinstance(first, RandomizedResponseChannel) and isinstance(
            second, RandomizedResponseChannel
        ):
            p, q = (Fraction(part.distribution.keep, WORD) for part in (first, second))
            return ResponseMoments(self.size, p * q + (1 - p) * (1 - q) / (self.size - 1))
        product = first.moments.mean(second.moments.probabilities.T).T
        if isinstance(first, GeometricChannel) and isinstance(second, LazyGeometricChannel):
            noise = GeometricMoments(self.size, noise_epsilon(second.distribution.geometric))
            if np.allclose(product, noise.probabilities, rtol=_CLOSE, atol=0):
                return noise
        return OneHotMatrix(product)

    # One report ----------------------------------------------------------------------------------

    @property
    def report_invariance(self) -> Invariance:
        """What the ratio of one report depends on."""
        parts = (self.first.distribution, self.second.distribution)
        return "all" if all(part.invariance == "all" for part in parts) else "none"

    def report_ratio(self, x: int, other: int) -> Fraction:
        """The likelihood ratio of one report, exactly; of noise on many positions a bound above it.

        There floats sum numbers above zero only, so that none is off by more than a few units of
        its last digit for each position.
        """
        if x == other:
            return Fraction(1)
        if self.report_invariance == "all":
            return self._ratio(x, other, x)
        if max(self.size, self.outputs) <= _LISTED:
            pairs = zip(self._rows[x], self._rows[other], strict=True)
            return max(Fraction(max(pair), min(pair)) for pair in pairs)
        apart = np.abs(self._logs[:, x] - self._logs[:, other])
        if isinstance(self.first, GeometricChannel):
            return Fraction(math.exp(float(apart.max()))) * (1 + _ABOVE)
        near = np.flatnonzero(apart >= apart.max() - _SLACK).tolist()
        ratios = (self._ratio(x, other, y) for y in near)
        return max(max(ratio, 1 / ratio) for ratio in ratios)

    def _ratio(self, x: int, other: int, y: int) -> Fraction:
        here, there = (exact_probability(self.distribution, z, y) for z in (x, other))
        return here / there

    @cached_property
    def _rows(self) -> list[list[int]]:
        """P(report | x) as integers over one denominator."""
        first, second = _integers(self.distribution.first), _integers(self.distribution.second)
        columns = list(zip(*second, strict=True))
        return [[sum(map(operator.mul, row, column)) for column in columns] for row in first]

    @cached_property
    def _logs(self) -> Floats:
        return np.asarray(np.log(self.moments.probabilities.T))


def _integers(distribution: core.OneInteger) -> list[list[int]]:
    """All probabilities over their common denominator."""
    rows = [
        [exact_probability(distribution, x, y) for y in range(distribution.outputs)]
        for x in range(distribution.size)
    ]
    whole = math.lcm(*(p.denominator for row in rows for p in row))
    return [[int(p * whole) for p in row] for row in rows]
