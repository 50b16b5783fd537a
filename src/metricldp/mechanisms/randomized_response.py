"""k-ary randomized response: the position with some probability, else another one.

All pairs of values are at the same distance, E(x, x') = epsilon: the metric of categories.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from metricldp.basics.errors import CertificateError
from metricldp.mechanisms.base import ANY_TWO, EpsilonMechanism
from metricldp.mechanisms.channel import CoreChannel, IntegerChannel, Integers
from metricldp.mechanisms.fields import Column
from metricldp.mechanisms.moments import Floats, OneHot
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.sampling import bernoulli, lanes, uniform, words_for
from metricldp_core.distributions import RandomizedResponse
from metricldp_core.exact import WORD, exp_bounds, floor_of


@dataclass(frozen=True)
class RandomizedResponseChannel(CoreChannel, IntegerChannel):
    """The true position with probability keep / 2^64, else uniformly one of the others."""

    distribution: RandomizedResponse

    @classmethod
    def for_epsilon(cls, size: int, epsilon: Fraction) -> RandomizedResponseChannel:
        return cls(randomized_response(size, epsilon))

    def sample(self, positions: Integers, randomness: Randomness) -> Column:
        """Keep, or move on by 1 to size - 1 positions around the circle."""
        count = len(positions)
        keep = lanes(bernoulli(randomness, self.distribution.keep, words_for(count)), count)
        moved = (positions + 1 + uniform(randomness, self.size - 1, count)) % self.size
        return np.where(keep.astype(bool), positions, moved).astype(self.field.dtype)

    @cached_property
    def moments(self) -> ResponseMoments:
        return ResponseMoments(self.size, Fraction(self.distribution.keep, WORD))


class ResponseMoments(OneHot):
    """P(y | x) is p if y = x, else q. The matrix is symmetric, and so is its inverse."""

    def __init__(self, size: int, keep: Fraction) -> None:
        self.size = self.feature_count = size
        other = (1 - keep) / (size - 1)
        self._exact_other, self._exact_gap = other, keep - other
        self._other, self._gap = float(other), float(keep - other)
        self._share = float(other / (keep - other))

    def coefficients(self, functions: Floats) -> Floats:
        """F(y) = (f(y) - q sum f) / (p - q)."""
        return np.asarray(
            functions / self._gap - self._share * functions.sum(axis=-1, keepdims=True)
        )

    def frequencies(self, totals: Floats) -> Floats:
        return np.asarray(totals / self._gap - self._share * totals.sum(axis=0))

    def mean(self, values: Floats) -> Floats:
        return np.asarray(self._gap * values + self._other * values.sum(axis=-1, keepdims=True))

    def spread(self, shares: Floats) -> Floats:
        return self.mean(shares)

    def mean_range_variance(self) -> float:
        """In closed form.

        Of people spread evenly all reports are equally many, so F(y) = f(y) / (p - q) - h sum f has
        the mean square (f f (1/(p - q)^2) - 2 h/(p - q) (sum f)^2) / m + h^2 (sum f)^2. Over all
        ranges f f adds up to m (m + 1)(m + 2)/6, and (sum f)^2 to that times (m + 1)/2.
        """
        m, gap = self.size, self._exact_gap
        share = self._exact_other / gap
        lengths, squares = Fraction(m + 2, 3), Fraction((m + 1) * (m + 2), 6)
        mean_square = (lengths / gap**2 - 2 * share / gap * squares) / m + share**2 * squares
        return float(mean_square - lengths / m)


def keep_for(outcomes: int, epsilon: Fraction) -> int:
    """The largest probability, over 2^64 and rounded down, at most e^epsilon times any other's."""
    most = exp_bounds(epsilon)[0]
    keep = floor_of(most / (most + outcomes - 1) * WORD)
    if keep * outcomes <= WORD:
        raise CertificateError(
            f"epsilon {float(epsilon):.3g} is too small for 64-bit words; use a larger epsilon"
        )
    return keep


def randomized_response(size: int, epsilon: Fraction) -> RandomizedResponse:
    """The distribution that keeps the position as often as epsilon allows."""
    return RandomizedResponse(size, keep_for(size, epsilon))


RANDOMIZED_RESPONSE = EpsilonMechanism(
    "randomized-response",
    randomized_response,
    ANY_TWO,
    title="randomized response",
    source="Kairouz et al. 2014",
    kind="randomized-response",
)
