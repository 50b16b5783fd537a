"""Two-sided geometric noise, clipped to the domain: the metric of a line, with one integer.

y = clip(x + noise, 0, m - 1) with P(noise = k) proportional to a^|k|, a = e^-epsilon. The error of
a range comes from respondents near its ends only, so on spread data and large domains it is far
below that of threshold bits; with everybody at an end and a small epsilon it is above.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import CertificateError
from metricldp.mechanisms.base import EpsilonMechanism
from metricldp.mechanisms.channel import CoreChannel, IntegerChannel, Integers
from metricldp.mechanisms.fields import Column
from metricldp.mechanisms.moments import Floats, OneHot
from metricldp.mechanisms.randomness import Randomness, Words
from metricldp.mechanisms.sampling import bernoullis, words_for
from metricldp_core import distributions as core
from metricldp_core.exact import WORD, ceil_of, exp_bounds, floor_of

_AT_ONCE = 1 << 16
"""Respondents whose noise is drawn together."""
_ROUNDS = 8
"""Rounds of growing that are drawn at once: most words need no more."""


@dataclass(frozen=True)
class GeometricChannel(CoreChannel, IntegerChannel):
    """One integer: the position plus two-sided geometric noise, clipped to the domain."""

    distribution: core.Geometric

    @classmethod
    def for_epsilon(cls, size: int, epsilon: Fraction) -> GeometricChannel:
        return cls(geometric_distribution(size, epsilon))

    @cached_property
    def epsilon(self) -> float:
        return noise_epsilon(self.distribution)

    def sample(self, positions: Integers, randomness: Randomness) -> Column:
        column = self.field.empty(len(positions))
        add_noise(self.distribution, randomness, positions, column)
        return column

    @cached_property
    def moments(self) -> GeometricMoments:
        return GeometricMoments(self.size, self.epsilon)

    def log_likelihood(self, column: Column) -> Floats:
        return self.log_likelihood_from(np.arange(self.size), column)

    def log_likelihood_from(self, positions: Integers, column: Column) -> Floats:
        """ln P(report | x) from some positions: a straight line on both sides of each."""
        inside = math.log(-math.expm1(-self.epsilon))
        ends = (column == 0) | (column == self.size - 1)
        level = np.where(ends, 0.0, inside) - math.log1p(math.exp(-self.epsilon))
        apart = np.abs(column.astype(np.int64)[:, None] - positions)
        return np.asarray(level[:, None] - self.epsilon * apart)


class GeometricMoments(OneHot):
    """P = K D with K(x, y) = a^|x - y|, whose inverse is tridiagonal, and a diagonal D.

    With g = 1 - a, D is g / (1 + a) inside and 1 / (1 + a) at both ends.
    """

    def __init__(self, size: int, epsilon: float) -> None:
        self.size = self.feature_count = size
        self.epsilon = epsilon
        self._a, self._gap = math.exp(-epsilon), -math.expm1(-epsilon)

    def coefficients(self, functions: Floats) -> Floats:
        """A second difference of f."""
        return self._at_ends(self._undecayed(functions), self._gap)

    def frequencies(self, totals: Floats) -> Floats:
        """The transpose."""
        return np.moveaxis(
            self._undecayed(self._at_ends(np.moveaxis(totals, 0, -1), self._gap)), -1, 0
        )

    def mean(self, values: Floats) -> Floats:
        return self._decayed(self._at_ends(values, 1 / self._gap))

    def spread(self, shares: Floats) -> Floats:
        return self._at_ends(self._decayed(shares), 1 / self._gap)

    def _at_ends(self, values: Floats, factor: float) -> Floats:
        """Values, with those at both ends multiplied."""
        result = np.array(values, dtype=np.float64)
        result[..., [0, -1]] *= factor
        return result

    def _decayed(self, values: Floats) -> Floats:
        """K times values times g / (1 + a): log2(size) passes and no matrix."""
        upward, downward = values.copy(), values.copy()
        reach = 1
        while reach < self.size:
            decay = math.exp(-self.epsilon * reach)
            upward[..., :-reach] += decay * upward[..., reach:]
            downward[..., reach:] += decay * downward[..., :-reach]
            reach *= 2
        return np.asarray((upward + downward - values) * (self._gap / (1 + self._a)))

    def _undecayed(self, values: Floats) -> Floats:
        """The inverse: differences, so that nothing cancels if epsilon is small."""
        a, gap, steps = self._a, self._gap, np.diff(values)
        result = np.array(values, dtype=np.float64)
        result[..., 1:-1] -= a / gap**2 * np.diff(steps)
        result[..., 0] = values[..., 0] / gap - a / gap**2 * steps[..., 0]
        result[..., -1] = values[..., -1] / gap + a / gap**2 * steps[..., -1]
        return result

    def mean_range_variance(self) -> float:
        """In closed form: from the sum and the sum of squares of all prefixes at each report."""
        size, a, gap = self.size, self._a, self._gap
        c = a / gap**2
        left = np.arange(size, dtype=np.float64)
        sums = size - left
        squares = c**2 + (1 + c) ** 2 + size - 1 - left
        sums[0], squares[0] = 1 / gap + size - 1, 1 / gap**2 + size - 1
        sums[-1], squares[-1] = 1 - a / gap, 1 + (a / gap) ** 2
        share = self.spread(np.full(size, 1 / size))
        ranges = size * (size + 1) / 2
        return float(share @ ((size + 1) * squares - sums**2) / ranges - (size + 2) / (3 * size))


def geometric_distribution(size: int, epsilon: Fraction) -> core.Geometric:
    """Integers whose neighbouring probabilities never differ by more than e^epsilon.

    In order: each digit's odds, the block and at last the zero are rounded so that every step
    k -> k + 1 of the noise shrinks its probability by e^-epsilon at the most, given the
    integers already chosen. The zero, about epsilon 2^63, is rounded down to a whole number;
    with an epsilon below 2^-32 or so that may leave it too far below its neighbours.
    """
    shrink = exp_bounds(-epsilon)[1]
    digits: list[int] = []
    odds_before = Fraction(1)  # product of the odds of the digits so far
    while epsilon * (1 << len(digits)) < Fraction(7, 10):
        odds = shrink * odds_before
        digit = ceil_of(odds / (1 + odds) * WORD)
        digits.append(digit)
        odds_before *= Fraction(digit, WORD - digit)
    block = ceil_of(shrink * odds_before * WORD)
    first = Fraction(WORD - block, WORD)
    for digit in digits:
        first *= Fraction(WORD - digit, WORD)
    zero = floor_of(first / (first + 2 * shrink) * WORD)
    too_low = first * (WORD - zero) > 2 * zero / shrink
    if too_low or block >= WORD:
        raise CertificateError(
            f"epsilon {float(epsilon):.3g} per step is too small for 64-bit words; "
            "use a coarser grid or a larger epsilon"
        )
    return core.Geometric(size, zero, tuple(digits), block)


def noise_epsilon(noise: core.Geometric) -> float:
    """The epsilon per step that the probability of a whole block implies."""
    missing, length = WORD - noise.block, 1 << len(noise.digits)
    if 2 * missing < WORD:
        return -math.log1p(-missing / WORD) / length
    return math.log(WORD / noise.block) / length


def add_noise(
    noise: core.Geometric,
    randomness: Randomness,
    positions: npt.NDArray[Any],
    out: npt.NDArray[Any],
) -> None:
    """Independent noise for each position: clip(x + noise, 0, size - 1) goes to `out`."""
    wide = np.ascontiguousarray(positions, dtype=np.int64)
    for start in range(0, len(wide), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        _add_noise(noise, randomness, wide[part], out[part])


def _add_noise(
    noise: core.Geometric,
    randomness: Randomness,
    positions: npt.NDArray[np.int64],
    out: npt.NDArray[Any],
) -> None:
    from metricldp.mechanisms import sampling_kernels as kernels

    words, length = words_for(len(positions)), 1 << len(noise.digits)
    # Noise of `size` or more is clipped at every position, so it need not grow further.
    most = noise.size // length + 1
    rounds = min(_ROUNDS, words.bit_length() + 1, most)
    drawn = bernoullis(randomness, (noise.zero, *noise.digits, *[noise.block] * rounds), words)
    zero, digits, growing = np.split(drawn, [1, 1 + len(noise.digits)])
    planes = np.concatenate([digits, *_grown(noise.block, randomness, growing, most)])
    weights = np.full(len(planes), length, dtype=np.int64)
    weights[: len(digits)] = 1 << np.arange(len(digits))
    negative = randomness.words(words)
    kernels.add_noise(positions, planes, weights, negative, zero[0], out, noise.size - 1)


def _grown(block: int, randomness: Randomness, growing: Words, most: int) -> Iterator[Words]:
    """In which of `most` rounds each lane grows, from the draws of the first few on.

    Later words are drawn only for the words in which a lane has grown in all rounds so far.
    """
    rounds, words = growing.shape
    grown = np.bitwise_and.accumulate(growing, axis=0)
    yield grown
    at = np.flatnonzero(grown[-1])
    alive = grown[-1, at]
    most -= rounds
    while len(at) and most:
        growing = bernoullis(randomness, [block] * min(rounds, most), len(at))
        growing[0] &= alive
        growing = np.bitwise_and.accumulate(growing, axis=0)
        grown = np.zeros((len(growing), words), dtype=np.uint64)
        grown[:, at] = growing
        yield grown
        alive = growing[-1]
        at, alive = at[alive != 0], alive[alive != 0]
        most -= len(growing)


GEOMETRIC = EpsilonMechanism(
    "geometric",
    geometric_distribution,
    title="clipped geometric noise",
    kind="geometric",
    needs_order=True,
)
