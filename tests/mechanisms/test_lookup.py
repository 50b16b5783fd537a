"""Draws from tables of weights: each word means the entry that the running sums say."""

from bisect import bisect_right
from itertools import accumulate, chain

import numpy as np
import pytest

from metricldp.mechanisms import sampling
from metricldp.mechanisms.sampling import Lookup
from metricldp_core.exact import WORD

EIGHTH = WORD >> 3
ROWS = [
    [EIGHTH, 0, EIGHTH, 2 * EIGHTH, 0, 4 * EIGHTH, 0],  # ends with an eighth of all words
    [0, 0, EIGHTH - 1, 3 * EIGHTH, EIGHTH + 2, 0, 3 * EIGHTH - 1],  # one word beside it
    [1, EIGHTH, 1, 0, 5 * EIGHTH - 1, EIGHTH, EIGHTH - 1],
    [3 * EIGHTH - 2, 1, 1, 1, 1, 2 * EIGHTH - 3, 0],  # and words that are drawn again
    [0, 0, 0, 0, 0, 0, WORD],
    [6 * EIGHTH, 0, 0, 0, 0, 0, 0],
]


def meant(row, word):
    """By the definition: the entry of a word, None where it is drawn again."""
    sums = list(accumulate(ROWS[row]))
    return bisect_right(sums, word) if word < sums[-1] else None


class Given:
    """Words that are given beforehand, as many at a time as are asked for."""

    def __init__(self, words):
        self.left = list(words)

    def words(self, count):
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count, "more words than there should be"
        return np.array(taken, dtype=np.uint64)


def near_every_border():
    ends = {end for row in ROWS for end in accumulate(row)} | set(range(0, WORD + 1, EIGHTH))
    return sorted({(end + off) % WORD for end in ends for off in (-2, -1, 0, 1, 2)})


@pytest.mark.parametrize("digits", [3, 16])
@pytest.mark.parametrize("row", range(len(ROWS)))
def test_entries_of_words_around_all_borders(row, digits, monkeypatch):
    monkeypatch.setattr(sampling, "_DIGITS", digits)
    table, last = Lookup(ROWS), sum(ROWS[row]) - 1
    words = near_every_border()
    expected = [meant(row, last if meant(row, word) is None else word) for word in words]
    again = [last] * sum(meant(row, word) is None for word in words)
    randomness = Given(words + again)
    found = table.many(np.full(len(words), row), randomness)
    assert found.tolist() == expected and found.dtype == np.int32
    assert not randomness.left


def test_whoever_has_no_entry_yet_draws_again_in_order():
    table, rows = Lookup(ROWS), np.array([5, 3, 5, 0, 5, 3])
    beyond = WORD - 1
    rounds = [beyond, 0, beyond, beyond, 5, beyond], [7, beyond, beyond], [beyond, 0], [1]
    randomness = Given(chain(*rounds))
    assert table.many(rows, randomness).tolist() == [0, 0, 0, 5, 0, 0]
    assert not randomness.left
    randomness = Given([beyond, beyond, 3 * EIGHTH - 2, 3 * EIGHTH])
    assert table.many(np.array([3, 3]), randomness).tolist() == [1, 3]


def test_the_guide_tells_what_the_top_digits_decide_and_nothing_else(monkeypatch):
    monkeypatch.setattr(sampling, "_DIGITS", 3)
    expected = []
    for row in range(len(ROWS)):
        for low in range(0, WORD, EIGHTH):
            ends = meant(row, low), meant(row, low + EIGHTH - 1)
            expected.append(ends[0] if ends[0] == ends[1] and ends[0] is not None else -1)
    assert Lookup(ROWS)._guide.tolist() == expected
    assert expected.count(-1) < len(expected) / 2


@pytest.mark.parametrize(
    ("rows", "most"), [(1, 1 << 16), (16, 1 << 20), (17, 1 << 20), (1000, 1 << 20)]
)
def test_the_guide_stays_in_the_cache(rows, most):
    """And uses what there is room for."""
    assert most / 2 < len(Lookup([[WORD]] * rows)._guide) <= most
