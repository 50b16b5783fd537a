"""Exact random bits and integers for many people at once.

Nothing here draws a floating-point number. A probability is an integer over 2^64, a draw compares
random bits with the binary digits of that integer, and the certificate of a channel is computed
from the very same integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from metricldp.mechanisms.randomness import Randomness, Words
from metricldp_core.exact import WORD
from metricldp_core.random_words import FRACTION_BITS

BLOCK = 1 << 14
"""Words decided at a time: eight planes of them and the results stay in the cache."""
_PLANES = 8
"""Binary digits drawn for every lane before the few undecided ones are gathered up."""
_MOST_GUIDED = 1 << 20
"""Entries of the guide, so that it stays in the cache."""
_DIGITS = 16


def bernoulli(randomness: Randomness, threshold: int, words: int) -> Words:
    """Words of 64 independent lanes, each 1 with probability exactly threshold / 2^64."""
    result = np.empty(words, dtype=np.uint64)
    fill(randomness, threshold, result)
    return result


def fill(randomness: Randomness, threshold: int, result: Words) -> None:
    for start in range(0, len(result), BLOCK):
        _decide(randomness, [threshold], result[None, start : start + BLOCK])


def bernoullis(randomness: Randomness, thresholds: Sequence[int], words: int) -> Words:
    """A row of words for each threshold, all independent; few calls for many rows."""
    result = np.empty((len(thresholds), words), dtype=np.uint64)
    step = max(1, BLOCK // words)
    for start in range(0, len(thresholds), step):
        _decide(randomness, thresholds[start : start + step], result[start : start + step])
    return result


def _decide(randomness: Randomness, thresholds: Sequence[int], result: Words) -> None:
    """Fill each row with lanes of its threshold.

    A lane stands for a uniform number u of 64 binary digits, and is 1 if u < threshold. Eight
    digits are drawn for all lanes together; the one lane in 256 that they do not decide gets a
    word of its own for the rest.
    """
    from metricldp.mechanisms import sampling_kernels as kernels

    words = result.shape[1]
    planes = [_planes(threshold) for threshold in thresholds]
    random = randomness.words(sum(planes) * words).reshape(-1, words) if any(planes) else result[:0]
    undecided = np.empty_like(result)
    waiting = []
    for row, (threshold, count) in enumerate(zip(thresholds, planes, strict=True)):
        digits, rest = threshold >> (64 - count), threshold << count & (WORD - 1)
        if count:
            left = kernels.decide(random[:count], digits, result[row], undecided[row])
            random = random[count:]
            if rest and left:
                waiting.append((row, left, rest))
        else:
            result[row] = 0 if threshold <= 0 else WORD - 1
    if waiting:
        random = randomness.words(sum(left for _, left, _ in waiting))
        for row, left, rest in waiting:
            kernels.decide_rest(result[row], undecided[row], random[:left], np.uint64(rest))
            random = random[left:]


def _planes(threshold: int) -> int:
    """How many digits are drawn for all lanes.

    Below the last digit that is 1 no lane can fall below the threshold any more; what is certain
    or impossible needs none.
    """
    if threshold <= 0 or threshold >= WORD:
        return 0
    return min(_PLANES, 64 - (threshold & -threshold).bit_length() + 1)


def lanes(words: Words, count: int) -> npt.NDArray[np.uint8]:
    """The first `count` lanes of packed words, as zeros and ones."""
    return np.unpackbits(words.view(np.uint8), count=count, bitorder="little")


def words_for(count: int) -> int:
    return -(-count // 64)


def uniform(randomness: Randomness, bound: int, count: int) -> npt.NDArray[np.int64]:
    """`count` independent integers, exactly uniform on 0 .. bound - 1, by rejection."""
    result = np.zeros(count, dtype=np.int64)
    if bound == 1:
        return result
    shift = np.uint64(64 - (bound - 1).bit_length())
    waiting = np.arange(count)
    while len(waiting):
        drawn = (randomness.words(len(waiting)) >> shift).astype(np.int64)
        result[waiting] = drawn
        waiting = waiting[drawn >= bound]
    return result


def round_at_random(
    randomness: Randomness, positions: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Positions in units of 2^-32 to whole ones, up with exactly the probability of the rest."""
    whole = positions >> FRACTION_BITS
    rest = positions & ((1 << FRACTION_BITS) - 1)
    drawn = (randomness.words(len(positions)) >> np.uint64(64 - FRACTION_BITS)).astype(np.int64)
    return np.asarray(whole + (drawn < rest))


class Lookup:
    """Draws from rows of integer weights, each with a total of at most 2^64.

    A word below the total of its row means the entry whose running sum it is the first to stay
    below; any other word is drawn again. The top digits of a word are looked up first. They decide
    nearly every draw, and the running sums decide the others.
    """

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
