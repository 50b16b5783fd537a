"""Subset selection: a random set of w values, more often one that holds the own value.

Of m values, w = m/(e^epsilon + 1) to the nearest whole number, at least 1, are sent. The own value
is among them with probability p = w e^epsilon / (w e^epsilon + m - w); the rest is uniform. So a
set with the own value is e^epsilon times as likely as one without. Another value is among them with
probability q = (p (w - 1) + (1 - p) w)/(m - 1), and the published estimator of a frequency is the
sum of ([in the set] - q)/(p - q). From Ye and Barg, "Optimal Schemes for Discrete Distribution
Estimation Under Locally Differential Privacy" (IEEE Trans. Inf. Theory 2018), and Wang et al.,
"Mutual Information Optimally Local Private Discrete Distribution Estimation" (2016).

The supports of a set add up to w, so the decoder of `Supports` is the published one. With w = 1 it
is randomized response.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb
from typing import Any, ClassVar

import numpy as np

from metricldp.basics.errors import CertificateError
from metricldp.lab.peers.supports import Supports
from metricldp.mechanisms import BitChannel, Column, Floats, Integers
from metricldp.mechanisms.fields import Bits, Mask
from metricldp.mechanisms.moments import Exchangeable
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.sampling import bernoulli, lanes, uniform, words_for
from metricldp_core.canonical import word
from metricldp_core.exact import WORD, exp_bounds, floor_of
from metricldp_core.random_words import Words

_AT_ONCE = 1 << 22
"""Values laid out at a time, to be shuffled."""


@dataclass(frozen=True)
class Chosen(Bits):
    """So many bits, of which so many are ones."""

    ones: int

    def invalid(self, column: Column) -> Mask:
        ones = np.bitwise_count(column).sum(axis=1)
        return np.asarray(super().invalid(column) | (ones != self.ones))

    def every(self) -> Column:
        sets = combinations(range(self.count), self.ones)
        return self.listed([sum(1 << k for k in chosen) for chosen in sets])


@dataclass(frozen=True)
class SubsetSelection(Supports, BitChannel):
    """A bit for each value, `ones` of them 1; the own one with probability keep / 2^64."""

    size: int
    ones: int
    keep: int

    mechanism: ClassVar[str] = "subset"
    two_values: ClassVar[tuple[int, int] | None] = (-1, 1)

    @classmethod
    def for_epsilon(cls, size: int, epsilon: Fraction) -> SubsetSelection:
        most = exp_bounds(epsilon)[0]
        ones = max(1, round(size / (most + 1)))
        keep = floor_of(ones * most / (ones * most + size - ones) * WORD)
        if keep * size <= ones * WORD:
            raise CertificateError(
                f"epsilon {float(epsilon):.3g} is too small for 64-bit words; use a larger epsilon"
            )
        return cls(size, ones, keep)

    @property
    def bits(self) -> int:
        return self.size

    @cached_property
    def field(self) -> Chosen:
        return Chosen(self.size, self.ones)

    def law(self) -> dict[str, Any]:
        found = {"law": self.mechanism, "size": self.size, "ones": self.ones}
        return {**found, "keep": word(self.keep)}

    def sample(self, positions: Integers, randomness: Randomness) -> Column:
        """Others in random order, as many as are sent; if the own value is, the last one makes way.

        The order is a shuffle that stops as soon as the first few are drawn.
        """
        column = self.field.empty(len(positions))
        step = 64 * max(1, _AT_ONCE // 64 // self.size)
        for start in range(0, len(positions), step):
            own = positions[start : start + step].astype(np.int64)
            count = len(own)
            keep = lanes(bernoulli(randomness, self.keep, words_for(count)), count).astype(bool)
            people = np.arange(count)
            moves = np.tile(np.arange(1, self.size), (count, 1))
            for k in range(self.ones):
                drawn = k + uniform(randomness, self.size - 1 - k, count)
                moves[people, drawn], moves[:, k] = moves[:, k], moves[people, drawn]
            moves[keep, self.ones - 1] = 0
            bits = np.zeros((count, self.size), dtype=np.uint8)
            bits[people[:, None], (own[:, None] + moves[:, : self.ones]) % self.size] = 1
            column[start : start + step] = np.packbits(bits, axis=1, bitorder="little")
        return column

    def blur(self, position: int, words: Words) -> int:
        keep, moves = words.below(self.keep), list(range(1, self.size))
        for k in range(self.ones):
            drawn = k + words.uniform(self.size - 1 - k)
            moves[k], moves[drawn] = moves[drawn], moves[k]
        moves[self.ones - 1] *= not keep
        return sum(1 << (position + move) % self.size for move in moves[: self.ones])

    @cached_property
    def moments_of_supports(self) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        """With the own value w - 1 of m - 1 others are in the set, without it w."""
        p, w, m = Fraction(self.keep, WORD), self.ones, self.size
        one, two = (p * (w - 1) + (1 - p) * w) / (m - 1), Fraction(0)
        if m > 2:
            two = (w - 1) * (p * (w - 2) + (1 - p) * w) / ((m - 1) * (m - 2))
        return p, one, p * (w - 1) / (m - 1), two

    @cached_property
    def moments(self) -> Exchangeable:
        return _SubsetMoments(self.size, self.moments_of_supports, self.ones)

    def worst_ratio(self, x: int, other: int) -> Fraction:
        """Without the own value there are (m - w)/w times as many sets as with it.

        That is all of their numbers, which of a million values have a million digits.
        """
        if x == other:
            return Fraction(1)
        others = Fraction(self.size - self.ones, self.ones)
        return Fraction(self.keep, WORD - self.keep) * others

    def _chance(self, holds: bool) -> Fraction:
        """Of one set that holds the own value, or of one that does not."""
        if holds:
            return Fraction(self.keep, WORD * comb(self.size - 1, self.ones - 1))
        return Fraction(WORD - self.keep, WORD * comb(self.size - 1, self.ones))

    def probability(self, x: int, report: Column) -> Fraction:
        return self._chance(bool(report[x >> 3] >> (x & 7) & 1))


class _SubsetMoments(Exchangeable):
    """Supports of which a report has a fixed number."""

    def __init__(self, size: int, supports: tuple[Fraction, ...], ones: int) -> None:
        super().__init__(size, supports, -1, 1)
        self._ones = ones

    def output_range(self, function: Floats) -> tuple[float, float]:
        """With the values that have the smallest, or the largest weights."""
        constant, *weights = self.coefficients(function)
        ranked, total = np.sort(weights), sum(weights)
        low, high = (
            float(constant + 2 * part.sum() - total)
            for part in (ranked[: self._ones], ranked[-self._ones :])
        )
        return low, high
