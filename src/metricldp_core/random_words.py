"""Random integers from a sequence of uniform 64-bit words.

A report is a function of the manifest, the response and these words. Each word is read once, in
order. Uniform words give the output distributions that `verify` examines; given words give a report
that can be repeated in any language. A probability is an integer p and stands for p / 2^64.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence

from metricldp_core.errors import MetricLdpError

FRACTION_BITS = 32
"""A position that is rounded at random counts in units of 2^-32."""
_BLOCK = 512
"""Bytes that are read from the source at a time."""


class Words:
    """Uniform 64-bit words, by default from the operating system; for one report at a time."""

    def __init__(self, source: Callable[[int], bytes] = os.urandom) -> None:
        self._source = source
        self._block: tuple[int, ...] = ()
        self._next = 0
        self.used = 0

    @classmethod
    def given(cls, words: Sequence[int]) -> Words:
        """These words and no more. Reports from given words have no privacy: for tests only."""
        found = cls(_exhausted)
        found._block = tuple(words)
        return found

    def word(self) -> int:
        """The next word."""
        if self._next == len(self._block):
            self._block = struct.unpack(f"<{_BLOCK // 8}Q", self._source(_BLOCK))
            self._next = 0
        self._next += 1
        self.used += 1
        return self._block[self._next - 1]

    def bits(self, count: int) -> int:
        """A uniform integer of `count` bits: the top bits of a word. 0 bits read no word."""
        return self.word() >> 64 - count if count else 0

    def below(self, probability: int) -> bool:
        """True with probability p / 2^64: one word, compared with p."""
        return self.word() < probability

    def uniform(self, bound: int) -> int:
        """A uniform integer below `bound`, by rejection.

        Integers of as many bits as bound - 1 has are drawn, a word each, until one is below it.
        """
        count = (bound - 1).bit_length()
        number = self.bits(count)
        while number >= bound:
            number = self.bits(count)
        return number

    def round(self, position: int) -> int:
        """Round a position in units of 2^-32 at random and without bias: one word."""
        rest = position & ((1 << FRACTION_BITS) - 1)
        return (position >> FRACTION_BITS) + (self.bits(FRACTION_BITS) < rest)


def _exhausted(count: int) -> bytes:
    raise MetricLdpError("the report needs more random words than were given; give more words")
