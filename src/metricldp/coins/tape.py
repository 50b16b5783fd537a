"""Coins: cryptographic random words, and exact random bits and integers made from them.

Nothing here draws a floating-point number. A probability is an integer over 2^64, a draw compares
random bits with the binary digits of that integer, and the certificate of a channel is computed
from the very same integers.
"""

from __future__ import annotations

from functools import lru_cache

from metricldp.basics.exact import ONE
from metricldp.coins.draws import FRACTION_BITS
from metricldp.coins.stream import Coins

# One person at a time, in plain integers ---------------------------------------------------------

_HANDFUL = 512
"""Bytes taken from a stream at once: enough for most reports, and quick to make."""


class Handful:
    """Coins for one report, taken from a stream many at a time; for one thread only."""

    def __init__(self, coins: Coins) -> None:
        self._coins = coins
        self._drawn = b""
        self._used = 0

    def integer(self, bits: int) -> int:
        """An integer of that many fair bits; what is left over in a byte is not used again."""
        start = self._used
        end = start + (bits + 7 >> 3)
        if end > len(self._drawn):
            start, end = 0, end - start
            self._drawn = self._coins.draw(max(end, _HANDFUL))
        self._used = end
        return int.from_bytes(self._drawn[start:end], "little") >> (-bits & 7)

    def toss(self, threshold: int) -> bool:
        """True with probability exactly threshold / 2^64."""
        return self.integer(64) < threshold

    def lanes(self, threshold: int, count: int) -> int:
        """An integer of `count` bits, each 1 with probability exactly threshold / 2^64.

        As in `bernoulli`, every bit stands for a number that is drawn digit by digit until it
        differs from the threshold.
        """
        below, undecided = 0, (1 << count) - 1
        if threshold <= 0 or threshold >= ONE:
            return below if threshold <= 0 else undecided
        for digit in _digits(threshold):
            agree = undecided & self.integer(count)
            if digit:
                below |= undecided ^ agree
                undecided = agree
            else:
                undecided ^= agree
            if not undecided:
                break
        return below

    def uniform(self, bound: int) -> int:
        """An integer exactly uniform on 0 .. bound - 1, by rejection."""
        bits = (bound - 1).bit_length()
        drawn = self.integer(bits)
        while drawn >= bound:
            drawn = self.integer(bits)
        return drawn

    def rounded(self, position: int) -> int:
        """A position in units of 2^-32 to a whole one, as `round_at_random` does it."""
        rest = position & ((1 << FRACTION_BITS) - 1)
        return (position >> FRACTION_BITS) + (self.integer(FRACTION_BITS) < rest)


@lru_cache(maxsize=256)
def _digits(threshold: int) -> tuple[bool, ...]:
    """The binary digits of threshold / 2^64 from the highest to the last that is 1."""
    return tuple(digit == "1" for digit in f"{threshold:064b}".rstrip("0"))
