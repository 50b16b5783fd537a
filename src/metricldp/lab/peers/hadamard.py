"""Hadamard response: one of K codewords, more often one that agrees with the row of the value.

H is the Hadamard matrix of order K = 2^k > size, H[r, y] = 1 if r and y have an even number of
common ones in binary, else -1. Value x has row x + 1, of which half the entries are 1. A report y
falls into that half with probability e^epsilon / (e^epsilon + 1), and is uniform within each half.
Different rows are orthogonal to each other and to the constant, so

    E[H[x' + 1, y] | x] = t [x = x'],   t = (e^epsilon - 1) / (e^epsilon + 1).

Published estimator of a frequency: the sum of H[x + 1, y] / t over people, where each adds
1/t^2 - [x is the value] to the variance, exactly. From Acharya, Sun and Zhang, "Hadamard Response:
Estimating Distributions Privately, Efficiently, and with Little Communication" (AISTATS 2019): the
version for small epsilon. As 1/t^2 is never below 1, their version with blocks is better for large.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from metricldp.lab.peers.walsh import SignChannel, odd, transform
from metricldp.mechanisms import Column, Floats, Integers
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.sampling import bernoulli, lanes, uniform, words_for
from metricldp_core.exact import WORD
from metricldp_core.random_words import Words


@dataclass(frozen=True)
class Hadamard(SignChannel):
    """A column y where row x + 1 has a 1 with probability keep / 2^64, else one where it has -1."""

    mechanism: ClassVar[str] = "hadamard"

    @property
    def outputs(self) -> int:
        """K, the smallest power of two above size."""
        return 1 << self.size.bit_length()

    def sample(self, positions: Integers, randomness: Randomness) -> Column:
        """Any y; if it is of the wrong half, the lowest one of the row is flipped in it.

        That changes the sign, and pairs the y of one half with those of the other.
        """
        count = len(positions)
        keep = lanes(bernoulli(randomness, self.keep, words_for(count)), count)
        drawn = uniform(randomness, self.outputs, count)
        rows = positions.astype(np.int64) + 1
        report = np.where(odd(rows & drawn) != keep, drawn, drawn ^ (rows & -rows))
        return report.astype(self.field.dtype)

    def blur(self, position: int, words: Words) -> int:
        keep, drawn, row = words.below(self.keep), words.uniform(self.outputs), position + 1
        return drawn ^ (row & -row) * bool(_agrees(row, drawn) != keep)

    def coefficients(self, functions: Floats) -> Floats:
        """F(y) = l + sum_x (f(x) - l) H[x + 1, y] / t, for the mean l of f.

        Any level l is unbiased, as exactly one value is true; with the mean, 1 is decoded to 1.
        """
        level = functions.mean(axis=-1, keepdims=True)
        rows = np.concatenate([level, (functions - level) / self.gap], axis=-1)
        return transform(rows, self.outputs)

    def mean(self, values: Floats) -> Floats:
        """P(y | x) = (1 + t H[x + 1, y]) / K."""
        rows = transform(values, self.outputs) / self.outputs
        return np.asarray(rows[..., :1] + self.gap * rows[..., 1 : 1 + self.size])

    def frequencies(self, totals: Floats) -> Floats:
        """Sums of the signs of each row, and an equal share of the people that they miss."""
        rows = np.moveaxis(transform(np.moveaxis(totals, 0, -1), self.outputs), -1, 0)
        found = rows[1 : 1 + self.size] / self.gap
        return np.asarray(found + (rows[0] - found.sum(axis=0)) / self.size)

    def probability(self, x: int, report: Column) -> Fraction:
        half = self.keep if _agrees(x + 1, int(report)) else WORD - self.keep
        return Fraction(2 * half, self.outputs * WORD)


def _agrees(row: int, report: int) -> bool:
    return (row & report).bit_count() % 2 == 0
