"""k-ary randomized response: tell the truth with some probability, else any other value.

Every two values are equally hard to tell apart, E(x, x') = epsilon: the metric of categories.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from metricldp.basics.errors import CertificateError
from metricldp.mechanisms.channel import Floats, Integers
from metricldp.mechanisms.features import IntegerChannel
from metricldp.mechanisms.fields import Column
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.sampling import bernoulli, lanes, uniform, words_for
from metricldp_core.distributions import RandomizedResponse
from metricldp_core.exact import WORD, exp_bounds, floor_of


@dataclass(frozen=True)
class Response(IntegerChannel):
    """The true position with probability keep / 2^64, else uniformly one of the others."""

    size: int
    keep: int

    mechanism: ClassVar[str] = "response"

    @classmethod
    def for_epsilon(cls, size: int, epsilon: Fraction) -> Response:
        return cls(size, keep_for(size, epsilon))

    @cached_property
    def _true(self) -> Fraction:
        return Fraction(self.keep, WORD)

    @cached_property
    def _other(self) -> Fraction:
        return Fraction(WORD - self.keep, WORD * (self.size - 1))

    def encode(self, positions: Integers, randomness: Randomness) -> Column:
        """Keep, or move on by 1 to size - 1 positions around the circle."""
        count = len(positions)
        keep = lanes(bernoulli(randomness, self.keep, words_for(count)), count)
        moved = (positions + 1 + uniform(randomness, self.size - 1, count)) % self.size
        return np.where(keep.astype(bool), positions, moved).astype(self.field.dtype)

    @cached_property
    def distribution(self) -> RandomizedResponse:
        return RandomizedResponse(self.size, self.keep)

    def coefficients(self, functions: Floats) -> Floats:
        """F(y) = (f(y) - q sum f) / (p - q)."""
        gap = float(self._true - self._other)
        share = float(self._other / (self._true - self._other))
        return np.asarray(functions / gap - share * functions.sum(axis=-1, keepdims=True))

    def mean(self, values: Floats) -> Floats:
        everywhere = float(self._other) * values.sum(axis=-1, keepdims=True)
        return np.asarray(float(self._true - self._other) * values + everywhere)

    def spread(self, shares: Floats) -> Floats:
        """The table of probabilities is symmetric."""
        return self.mean(shares)

    def cells(self, totals: Floats) -> Floats:
        """The decoder of one value is symmetric."""
        return np.moveaxis(self.coefficients(np.moveaxis(totals, 0, -1)), -1, 0)

    def mean_range_variance(self) -> float:
        """In closed form.

        Of people spread evenly all reports are equally many, so F(y) = f(y) / (p - q) - h sum f has
        the mean square (f f (1/(p - q)^2) - 2 h/(p - q) (sum f)^2) / m + h^2 (sum f)^2. Over all
        ranges f f adds up to m (m + 1)(m + 2)/6, and (sum f)^2 to that times (m + 1)/2.
        """
        m, gap = self.size, self._true - self._other
        share = self._other / gap
        lengths, squares = Fraction(m + 2, 3), Fraction((m + 1) * (m + 2), 6)
        mean_square = (lengths / gap**2 - 2 * share / gap * squares) / m + share**2 * squares
        return float(mean_square - lengths / m)

    def probability(self, x: int, report: Column) -> Fraction:
        return self._true if int(report) == x else self._other


def keep_for(outcomes: int, epsilon: Fraction) -> int:
    """The largest share, over 2^64 and rounded down, of at most e^epsilon times any other's."""
    most = exp_bounds(epsilon)[0]
    keep = floor_of(most / (most + outcomes - 1) * WORD)
    if keep * outcomes <= WORD:
        raise CertificateError(
            f"epsilon {float(epsilon):.3g} is too small for 64-bit words; use a larger epsilon"
        )
    return keep
