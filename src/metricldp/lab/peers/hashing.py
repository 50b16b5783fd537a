"""Optimised local hashing: everybody hashes their value to a few buckets and blurs the bucket.

The device draws a hash function h of its own, sends it with a bucket y, which is h(x) with
probability p and each other of the g buckets with probability q = (1 - p)/(g - 1), p/q = e^epsilon.
The collector reads which values a report supports: S_x = [h(x) = y]. From Wang, Blocki, Li and
Jha, "Locally Differentially Private Protocols for Frequency Estimation" (USENIX Security 2017). The
published variance of a frequency is 4 e^epsilon / (e^epsilon - 1)^2 for each person, for hash
functions without any pattern and g = e^epsilon + 1, which has to be rounded. Here it is exact.

The functions are the polynomials h(x) = (a x^2 + b x + c mod P) mod g, P the smallest prime that
is not below size; a, b and c are uniform. Through any three points, with different x, goes exactly
one polynomial of degree at most 2, so at three values a x^2 + b x + c mod P are three independent
uniform numbers.
With n_j for the residues below P that fall into bucket j, hashes of any two values meet with
probability C = sum_j (n_j/P)^2 and those of any three with T = sum_j (n_j/P)^3, whichever they are.
Given the value x, and for two others k and k',

    E[S_x]     = p
    E[S_k]     = d,  d = (p - q) C + q
    E[S_x S_k] = p C
    E[S_k S_k'] = (p - q) T + q C.

That is what `supports` needs. Straight lines a x + b would do for the first two lines only: three
points on them are not independent, so the last one would differ from triple to triple, and there
would be no formula for the variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import InvalidSpecError
from metricldp.lab.peers.supports import Supports
from metricldp.mechanisms import (
    Column,
    Floats,
    Integers,
    NumberChannel,
    RandomizedResponseChannel,
    keep_for,
)
from metricldp.mechanisms.moments import Exchangeable
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.sampling import uniform
from metricldp_core.canonical import word
from metricldp_core.distributions import RandomizedResponse
from metricldp_core.exact import WORD, exp_bounds
from metricldp_core.random_words import Words

_LARGEST = 1 << 63
"""Reports are integers below this."""
_MOST_LISTED = 1 << 22
"""Up to so many hashes are gone through to find the worst report."""


@dataclass(frozen=True)
class LocalHashing(Supports, NumberChannel):
    """A report is ((a P + b) P + c) g + y: a random polynomial, and the blurred bucket under it.

    Features: the constant 1, then whether each value is supported.
    """

    size: int
    buckets: int
    keep: int

    mechanism: ClassVar[str] = "local-hashing"

    @classmethod
    def for_epsilon(cls, size: int, epsilon: Fraction) -> LocalHashing:
        """g = e^epsilon + 1 rounded, at most P; within the buckets response keeps epsilon."""
        # No prime is looked for where there are so many values that none would do.
        prime = prime_from(size) if size**3 <= _LARGEST else size
        buckets = min(prime, max(2, round(exp_bounds(epsilon)[0] + 1)))
        if prime**3 * buckets > _LARGEST:
            raise InvalidSpecError(
                f"local-hashing of {size:,} positions into {buckets:,} buckets needs reports of "
                "more than 63 bits; use fewer positions or a smaller epsilon"
            )
        return cls(size, buckets, keep_for(buckets, epsilon))

    @cached_property
    def prime(self) -> int:
        return prime_from(self.size)

    @cached_property
    def response(self) -> RandomizedResponseChannel:
        return RandomizedResponseChannel(RandomizedResponse(self.buckets, self.keep))

    @property
    def outputs(self) -> int:
        return self.prime**3 * self.buckets

    def law(self) -> dict[str, Any]:
        found = {"law": self.mechanism, "size": self.size, "prime": self.prime}
        return {**found, "buckets": self.buckets, "keep": word(self.keep)}

    def sample(self, positions: Integers, randomness: Randomness) -> Column:
        drawn = uniform(randomness, self.prime**3, len(positions)).astype(np.uint64)
        buckets = self._hashed(drawn, positions.astype(np.uint64))
        blurred = self.response.sample(buckets.astype(np.int64), randomness)
        return (drawn * np.uint64(self.buckets) + blurred).astype(self.field.dtype)

    def blur(self, position: int, words: Words) -> int:
        drawn = words.uniform(self.prime**3)
        return drawn * self.buckets + self.response.distribution.draw(
            self._hashed(drawn, position), words
        )

    def _hashed(self, polynomial: Any, x: Any) -> Any:
        """The bucket of one value or of many under one polynomial or many; no step reaches P^3."""
        rest, c = divmod(polynomial, self.prime)
        a, b = divmod(rest, self.prime)
        return ((a * x + b) * x + c) % self.prime % self.buckets

    def supports(self, column: Column, values: Integers) -> npt.NDArray[np.bool_]:
        """Whether each of some values is supported by each report, (values, n)."""
        polynomials, buckets = np.divmod(column.astype(np.uint64), np.uint64(self.buckets))
        found: npt.NDArray[np.bool_] = self._hashed(polynomials, values[:, None]) == buckets
        return found

    def features(self, column: Column, chosen: Integers | None = None) -> npt.NDArray[np.int8]:
        if chosen is not None:
            return self.supports(column, chosen.astype(np.uint64)).T.view(np.int8)
        found = np.ones((1 + self.size, len(column)), dtype=np.int8)
        for part in self._parts(len(column)):
            found[1:, part] = self.supports(column[part], np.arange(self.size, dtype=np.uint64))
        return found.T

    @cached_property
    def moments(self) -> Exchangeable:
        return _HashedMoments(self)

    @cached_property
    def moments_of_supports(self) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        """p, d, p C and (p - q) T + q C."""
        p, q = Fraction(self.keep, WORD), Fraction(WORD - self.keep, WORD * (self.buckets - 1))
        fewer, more = divmod(self.prime, self.buckets)
        sizes = {fewer + 1: more, fewer: self.buckets - more}
        pair, triple = (
            sum(count * Fraction(size, self.prime) ** power for size, count in sizes.items())
            for power in (2, 3)
        )
        return p, (p - q) * pair + q, p * pair, (p - q) * triple + q * pair

    def worst_ratio(self, x: int, other: int) -> Fraction:
        """That of two buckets: for any two values some polynomial tells them apart."""
        return Fraction(1) if x == other else self.response.distribution.ratio(0, 1)

    def probability(self, x: int, report: Column) -> Fraction:
        polynomial, bucket = divmod(int(report), self.buckets)
        blurred = self.response.probability(self._hashed(polynomial, x), np.asarray(bucket))
        return blurred / self.prime**3


class _HashedMoments(Exchangeable):
    def __init__(self, channel: LocalHashing) -> None:
        super().__init__(channel.size, channel.moments_of_supports)
        self._channel = channel

    def output_range(self, function: Floats) -> tuple[float, float]:
        """The ends over all reports; if they are too many, over all sets of supported values.

        Not every set is supported by some polynomial, so the latter can be too large.
        """
        channel = self._channel
        if channel.outputs * self.size > _MOST_LISTED:
            return super().output_range(function)
        values = channel.values(channel.every_report(), self.coefficients(function)[None])
        return float(values.min()), float(values.max())


@lru_cache(maxsize=64)
def prime_from(number: int) -> int:
    while any(number % divisor == 0 for divisor in range(2, math.isqrt(number) + 1)):
        number += 1
    return number
