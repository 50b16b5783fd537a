"""Two-sided geometric noise, drawn digit by digit from exact coins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import CertificateError
from metricldp.mechanisms.randomness import Randomness, Words
from metricldp.mechanisms.sampling import bernoullis, words_for
from metricldp_core.exact import WORD, ceil_of, exp_bounds, floor_of

_CROWD = 1 << 16
"""People who get their noise together, with few calls for all of them."""
_ROUNDS = 8
"""Rounds of growing that are drawn at once: most words need no more."""


@dataclass(frozen=True)
class GeometricNoise:
    """The integers that define a two-sided geometric noise, P(k) close to C e^(-epsilon |k|).

    Noise is 0 with probability zero / 2^64, else a fair sign times 1 + G. The binary digits of G
    are independent: digit j is 1 with probability digits[j] / 2^64; above them G grows by 2^J as
    long as a coin of probability block / 2^64 says so. No tail is ever tabulated, so no
    probability is ever rounded to zero.
    """

    zero: int
    digits: tuple[int, ...]
    block: int

    @classmethod
    def for_epsilon(cls, epsilon: Fraction) -> GeometricNoise:
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
        return cls(zero, tuple(digits), block)

    @property
    def length(self) -> int:
        """How many values of G the digits tell apart: 2^J."""
        return 1 << len(self.digits)

    @property
    def epsilon(self) -> float:
        """The epsilon per step that the probability of a whole block implies."""
        missing = WORD - self.block
        if 2 * missing < WORD:
            return -math.log1p(-missing / WORD) / self.length
        return math.log(WORD / self.block) / self.length

    def blur(
        self, randomness: Randomness, positions: npt.NDArray[Any], size: int, out: npt.NDArray[Any]
    ) -> None:
        """Independent noise for each position: clip(x + noise, 0, size - 1) goes to `out`."""
        wide = np.ascontiguousarray(positions, dtype=np.int64)
        for start in range(0, len(wide), _CROWD):
            part = slice(start, start + _CROWD)
            self._blur(randomness, wide[part], size, out[part])

    def _blur(
        self,
        randomness: Randomness,
        positions: npt.NDArray[np.int64],
        size: int,
        out: npt.NDArray[Any],
    ) -> None:
        from metricldp.mechanisms import sampling_kernels as kernels

        words = words_for(len(positions))
        # Noise of `size` or more is clipped wherever it stands, so it need not grow further.
        most = size // self.length + 1
        rounds = min(_ROUNDS, words.bit_length() + 1, most)
        drawn = bernoullis(randomness, (self.zero, *self.digits, *[self.block] * rounds), words)
        zero, digits, growing = np.split(drawn, [1, 1 + len(self.digits)])
        planes = np.concatenate([digits, *self._grown(randomness, growing, most)])
        weights = np.full(len(planes), self.length, dtype=np.int64)
        weights[: len(digits)] = 1 << np.arange(len(digits))
        negative = randomness.words(words)
        kernels.add_noise(positions, planes, weights, negative, zero[0], out, size - 1)

    def _grown(self, randomness: Randomness, growing: Words, most: int) -> Iterator[Words]:
        """In which of `most` rounds each lane grows, from the coins of the first few on.

        Later coins are drawn only for the words in which a lane has grown in all rounds so far.
        """
        rounds, words = growing.shape
        grown = np.bitwise_and.accumulate(growing, axis=0)
        yield grown
        at = np.flatnonzero(grown[-1])
        alive = grown[-1, at]
        most -= rounds
        while len(at) and most:
            growing = bernoullis(randomness, [self.block] * min(rounds, most), len(at))
            growing[0] &= alive
            growing = np.bitwise_and.accumulate(growing, axis=0)
            grown = np.zeros((len(growing), words), dtype=np.uint64)
            grown[:, at] = growing
            yield grown
            alive = growing[-1]
            at, alive = at[alive != 0], alive[alive != 0]
            most -= len(growing)

    def probability(self, size: int) -> Fraction:
        """The exact probability of the noise being `size` (or -size)."""
        if size == 0:
            return Fraction(self.zero, WORD)
        blocks, rest = divmod(abs(size) - 1, self.length)
        mass = Fraction(WORD - self.zero, 2 * WORD) * Fraction(self.block, WORD) ** blocks
        mass *= Fraction(WORD - self.block, WORD)
        for j, digit in enumerate(self.digits):
            mass *= Fraction(digit if rest >> j & 1 else WORD - digit, WORD)
        return mass

    def tail(self, size: int) -> Fraction:
        """The exact probability of the noise being `size` or more, for size >= 1."""
        blocks, rest = divmod(size - 1, self.length)
        block = Fraction(self.block, WORD)
        # Of the digits: the probability that they read `rest` or more, from the lowest digit up.
        at_least = Fraction(1)
        for j, digit in enumerate(self.digits):
            one = Fraction(digit, WORD)
            at_least = one * at_least if rest >> j & 1 else one + (1 - one) * at_least
        inside = (1 - block) * at_least + block
        return Fraction(WORD - self.zero, 2 * WORD) * block**blocks * inside
