"""Unary encoding with a probability of its own for every value: any metric, one bit per value.

Bit k is 1 with probability p_k if the value is k and with q_k < p_k otherwise, all bits
independently. Between x and x' only the bits x and x' differ in law. A one tells for its value by
the factor a = p/q at most, a zero against it by c = (1 - q)/(1 - p), so the worst report has a one
at x and a zero at x':

    worst ratio of x and x' = max(a_x c_x', a_x' c_x).

In logarithms, with yes = ln a and no = ln c, the promise is yes_x + no_x' <= E(x, x'), both ways
round. Worst ratios of any channel multiply along paths, so generating pairs prove all others.

With the same numbers for all values this is the unary encoding of Wang, Blocki, Li and Jha,
"Locally Differentially Private Protocols for Frequency Estimation" (USENIX Security 2017), whose
best version has p = 1/2 and q = 1/(e^epsilon + 1). Numbers that differ by value are the
input-discriminative unary encoding of Gu, Li, Xiong and Cao, "Providing Input-Discriminative
Protection for Local Differential Privacy" (ICDE 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np

from metricldp.basics.errors import CertificateError
from metricldp.mechanisms.channel import BitChannel, CoreChannel, Integers
from metricldp.mechanisms.fields import Column
from metricldp.mechanisms.moments import Floats, Independent
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.sampling import bernoullis, words_for
from metricldp_core.distributions import Unary
from metricldp_core.exact import WORD, ceil_of, decimal_of, exp_bounds, floor_of

Losses = tuple[float, float]
"""What a bit tells by being 1, and by being 0, in nats; decimals as they are written."""
_AT_ONCE = 1 << 22
"""Bits drawn at a time: unpacked, a byte each, they stay in the cache."""
_NEVER = 1e-300
"""In place of a chance of 0, which has no logarithm."""


@dataclass(frozen=True)
class UnaryChannel(CoreChannel, BitChannel):
    """A bit for each value: 1 with probability own[k] / 2^64 for k itself, else other[k] / 2^64."""

    distribution: Unary

    @classmethod
    def of(cls, own: Sequence[int], other: Sequence[int]) -> Self:
        return cls(Unary(len(own), tuple(own), tuple(other)))

    @classmethod
    def for_losses(cls, losses: Sequence[Losses]) -> Self:
        """The integers in which no bit tells more than its yes and no, each rounded to privacy.

        With p lower and q higher both p/q and (1 - q)/(1 - p) are smaller, so the rounding keeps
        every guarantee that held before.
        """
        integers = {pair: _integers(*pair) for pair in set(losses)}
        own, other = zip(*(integers[pair] for pair in losses), strict=True)
        return cls.of(own, other)

    def sample(self, positions: Integers, randomness: Randomness) -> Column:
        """Everybody's bits as if they had another value, a column at a time; then their own bit."""
        column = self.field.empty(len(positions))
        own = np.array(self.distribution.own, dtype=np.uint64)
        step = 64 * max(1, _AT_ONCE // 64 // self.size)
        for start in range(0, len(positions), step):
            here = positions[start : start + step]
            words = words_for(len(here))
            drawn = bernoullis(randomness, self.distribution.other, words).view(np.uint8)
            bits = np.unpackbits(drawn, axis=1, count=len(here), bitorder="little")
            bits[here, np.arange(len(here))] = randomness.words(len(here)) < own[here]
            packed = np.packbits(np.ascontiguousarray(bits.T), axis=1, bitorder="little")
            column[start : start + step] = packed
        return column

    @cached_property
    def moments(self) -> UnaryMoments:
        return UnaryMoments(self.distribution.own, self.distribution.other)

    def log_likelihood(self, column: Column) -> Floats:
        """The logarithm of all bits if they are about others, and the difference of one's own."""
        bits = np.unpackbits(column, axis=1, count=self.size, bitorder="little")
        moments = self.moments
        own = np.where(bits, moments.by_value(lambda p, q: p), moments.by_value(lambda p, q: 1 - p))
        other = np.where(
            bits, moments.by_value(lambda p, q: q), moments.by_value(lambda p, q: 1 - q)
        )
        own, other = (np.maximum(probability, _NEVER) for probability in (own, other))
        others = np.log(other)
        return np.asarray(others.sum(axis=1, keepdims=True) + np.log(own) - others)


class UnaryMoments(Independent):
    """F = l + sum_k (f(k) - l) (b_k - q_k)/(p_k - q_k), for a level l.

    Exactly one value is true, so any level l is unbiased. The mean of f, each value with the
    variance of its bit, has the least variance under a uniform prior.
    """

    lows, highs = -1, 1

    def __init__(self, own: Sequence[int], other: Sequence[int]) -> None:
        self.size, self.feature_count = len(own), 1 + len(own)
        self._pairs = list(zip(own, other, strict=True))
        self._gap = self.by_value(lambda p, q: p - q)
        self._middle = self.by_value(lambda p, q: (Fraction(1, 2) - q) / (p - q))
        """An unbiased bit for a sign of 0."""
        self.noise = (
            self.by_value(lambda p, q: q * (1 - q) / (p - q) ** 2),
            self.by_value(lambda p, q: p * (1 - p) / (p - q) ** 2),
        )
        """The variance of each unbiased bit: at other values, and at its own."""
        mean_noise = self.noise[0] + (self.noise[1] - self.noise[0]) / self.size
        self._shares = mean_noise / mean_noise.sum()

    def by_value(self, of: Callable[[Fraction, Fraction], Fraction]) -> Floats:
        """A function of p and q of every value, as floats."""
        values = {
            (p, q): float(of(Fraction(p, WORD), Fraction(q, WORD))) for p, q in set(self._pairs)
        }
        return np.array([values[pair] for pair in self._pairs])

    @property
    def means(self) -> Floats:  # type: ignore[override]
        """E[sign of bit k | x], (bits, size)."""
        own, other = self.by_value(lambda p, q: 2 * p - 1), self.by_value(lambda p, q: 2 * q - 1)
        return np.where(np.eye(self.size, dtype=bool), own[:, None], other[:, None])

    def _from_level(self, functions: Floats) -> tuple[Floats, Floats]:
        """A level, and what a function differs from it."""
        level = functions @ self._shares[:, None]
        return level, functions - level

    def coefficients(self, functions: Floats) -> Floats:
        level, rest = self._from_level(functions)
        fixed = level + rest @ self._middle[:, None]
        return np.concatenate([fixed, rest / (2 * self._gap)], axis=-1)

    def second_moment(self, functions: Floats, others: Floats | None = None) -> Floats:
        """f g, the noise of every bit, and what is different about one's own."""
        others = functions if others is None else others
        rest = self._from_level(functions)[1]
        products = rest * (rest if others is functions else self._from_level(others)[1])
        other, own = self.noise
        everybody = products @ other[:, None]
        return np.asarray(functions * others + everybody + products * (own - other))

    def frequencies(self, totals: Floats) -> Floats:
        """Sums of unbiased bits, and each value's part of the respondents that they miss."""
        sums = np.multiply.outer(self._middle, totals[0]) + (totals[1:].T / (2 * self._gap)).T
        missed = totals[0] - sums.sum(axis=0)
        return np.asarray(sums + np.multiply.outer(self._shares, missed))


def _integers(yes: float, no: float) -> tuple[int, int]:
    """p down and q up, from a = e^yes and c = e^no: q = (c - 1)/(a c - 1) and p = a q."""
    a, c = exp_bounds(decimal_of(yes))[0], exp_bounds(decimal_of(no))[0]
    q = (c - 1) / (a * c - 1) if a * c > 1 else Fraction(0)
    own, other = floor_of(a * q * WORD), ceil_of(q * WORD)
    if own <= other:
        raise CertificateError(
            f"bits with losses {yes:.3g} and {no:.3g} are too large or small for 64-bit words; "
            "use another epsilon"
        )
    return own, other
