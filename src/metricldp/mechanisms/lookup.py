"""Draws from tables of whole-number weights, for one person and for many.

Each row is a law: entry k with probability weight k over the row's total, at most 2^64. A word
below the total means the entry whose running sum it is the first to stay below; any other word is
drawn again. For many people the top digits of a word are looked up first. They tell nearly
everybody's entry, and the running sums tell the others'.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from metricldp.mechanisms.randomness import Randomness, Words

_MOST_GUIDED = 1 << 20
"""Entries of the guide, so that it stays in the cache."""
_DIGITS = 16


class Lookup:
    """Rows of weights as running sums."""

    def __init__(self, weights: Sequence[Sequence[int]]) -> None:
        self.below = [list(accumulate(row)) for row in weights]

    def total(self, row: int) -> int:
        return self.below[row][-1]

    def many(self, rows: npt.NDArray[np.int64], randomness: Randomness) -> npt.NDArray[np.int32]:
        """An entry for each of these rows."""
        words = randomness.words(len(rows))
        place = (words >> np.uint64(64 - self._digits)).astype(np.int64)
        place += rows << self._digits
        found = self._guide.take(place)
        waiting = np.flatnonzero(found < 0)
        words = words[waiting]
        while len(waiting):
            found[waiting] = self._searched(rows[waiting], words)
            waiting = waiting[found[waiting] < 0]
            words = randomness.words(len(waiting))
        return found

    @cached_property
    def _digits(self) -> int:
        return min(_DIGITS, (_MOST_GUIDED // len(self.below)).bit_length() - 1)

    @cached_property
    def _last(self) -> list[tuple[int, Words]]:
        """How many entries of each row have no weight in front, and the last word of the others.

        A running sum may be 2^64, one more than the largest word.
        """
        firsts = [sums.count(0) for sums in self.below]
        return [
            (first, np.array([s - 1 for s in sums[first:]], dtype=np.uint64))
            for first, sums in zip(firsts, self.below, strict=True)
        ]

    def _searched(self, rows: npt.NDArray[np.int64], words: Words) -> npt.NDArray[np.int32]:
        """The entry that each word means, -1 where it is beyond the total."""
        found = np.empty(len(words), dtype=np.int32)
        for row in np.unique(rows).tolist():
            here = np.flatnonzero(rows == row)
            first, last = self._last[row]
            entry = np.searchsorted(last, words[here])
            found[here] = np.where(entry < len(last), first + entry, -1)
        return found

    @cached_property
    def _guide(self) -> npt.NDArray[np.int32]:
        """The entry that the top digits of a word mean in each row; -1 where they leave it open."""
        digits = np.uint64(64 - self._digits)
        lowest = np.arange(1 << self._digits, dtype=np.uint64) << digits
        highest = lowest + np.uint64((1 << int(digits)) - 1)
        tables = []
        for row in range(len(self.below)):
            here = np.full(len(lowest), row)
            found = self._searched(here, lowest)
            found[found != self._searched(here, highest)] = -1
            tables.append(found)
        return np.concatenate(tables)
