"""The tape: one device's coins, a plain sequence of 64-bit words, read in order and each once.

A report is a function of the survey, the person and the words of the tape, and nothing else. Fair
words make the law that is certified; given words make a report that can be repeated, in any
language. Draws read the tape by these rules, and nothing else reads it:

- integer(bits), bits from 0 to 64: the top `bits` bits of the next word. No bits, no word: it is 0.
- toss(threshold): one word; true if it is below the threshold, which is an integer over 2^64.
- uniform(bound): an integer of as many bits as bound - 1 has, drawn again, a word each time, until
  it is below the bound. So a bound of 1 reads no word.
- rounded(position), a position in units of 2^-32: one word. The whole part, plus 1 if the top 32
  bits of the word are below the rest.
- lanes(threshold, count): many tosses at once. Lane k stands for a number of 64 binary digits and
  is 1 if that is below the threshold. The digits are drawn for all lanes together: for each digit
  of the threshold, from the highest to the last that is 1, ceil(count / 64) words, of which bit
  k % 64 (0 the lowest) of word k // 64 is the digit of lane k. A lane is decided by its first digit
  that differs from the threshold's; one that never differs is 0. As soon as all lanes are decided
  no more words are read. A threshold of 0 or less, or of 2^64 or more, decides all without a word.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NoReturn, Protocol

from metricldp.basics.errors import MetricLdpError
from metricldp.basics.exact import ONE
from metricldp.coins.draws import FRACTION_BITS

_WORD = struct.Struct("<Q")
_BLOCK = 512
"""Bytes taken from a stream at once: enough for most reports, and quick to make."""


class _Stream(Protocol):
    def draw(self, count: int) -> bytes:
        """The next `count` bytes."""


class Tape:
    """Coins for one report, from a stream or written down; for one thread only."""

    def __init__(self, randomness: _Stream) -> None:
        self._coins = randomness
        self._drawn = b""
        self._words: Iterator[tuple[int]] = iter(())
        self._at = self._let_go = 0

    @classmethod
    def of(cls, words: Sequence[int]) -> Tape:
        """The words given; whoever needs more is refused."""
        tape = cls(_UsedUp())
        tape._drawn = struct.pack(f"<{len(words)}Q", *words)
        return tape

    @property
    def used(self) -> int:
        return self._let_go + self._at

    def word(self) -> int:
        """The next word."""
        found = next(self._words, None)
        if found is None:
            self._fill(1)
            self._words = _WORD.iter_unpack(self._drawn[8 * self._at :])
            found = next(self._words)
        self._at += 1
        return found[0]

    def plane(self, count: int) -> int:
        """A fair bit for each of `count` lanes, from as many words as hold them; noise beyond."""
        words = -(-count // 64)
        self._fill(words)
        self._words = iter(())  # `word` goes on behind the plane
        start = self._at
        self._at = end = start + words
        return int.from_bytes(self._drawn[8 * start : 8 * end], "little")

    def _fill(self, count: int) -> None:
        """See to it that so many words are there to be read, those that are left first."""
        missing = 8 * (self._at + count) - len(self._drawn)
        if missing > 0:
            more = self._coins.draw(max(missing, _BLOCK))
            self._drawn = self._drawn[8 * self._at :] + more
            self._let_go += self._at
            self._at = 0

    def integer(self, bits: int) -> int:
        return self.word() >> 64 - bits if bits else 0

    def toss(self, threshold: int) -> bool:
        return self.word() < threshold

    def lanes(self, threshold: int, count: int) -> int:
        below, undecided = 0, (1 << count) - 1
        if threshold <= 0 or threshold >= ONE:
            return below if threshold <= 0 else undecided
        for digit in _digits(threshold):
            agree = undecided & self.plane(count)
            if digit:
                below |= undecided ^ agree
                undecided = agree
            else:
                undecided ^= agree
            if not undecided:
                break
        return below

    def uniform(self, bound: int) -> int:
        bits = (bound - 1).bit_length()
        drawn = self.integer(bits)
        while drawn >= bound:
            drawn = self.integer(bits)
        return drawn

    def rounded(self, position: int) -> int:
        rest = position & ((1 << FRACTION_BITS) - 1)
        return (position >> FRACTION_BITS) + (self.integer(FRACTION_BITS) < rest)


class _UsedUp:
    def draw(self, count: int) -> NoReturn:
        raise MetricLdpError("the report needs more random words than were given; give more words")


@lru_cache(maxsize=256)
def _digits(threshold: int) -> tuple[bool, ...]:
    """The binary digits of threshold / 2^64 from the highest to the last that is 1."""
    return tuple(digit == "1" for digit in f"{threshold:064b}".rstrip("0"))
