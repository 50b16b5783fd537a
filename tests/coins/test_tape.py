"""The words: every word in its order and once, and the rules of the module, to the letter."""

import itertools
import struct
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import assert_counts
from metricldp import MetricLdpError, Randomness
from metricldp_core.exact import WORD
from metricldp_core.random_words import Words

WORD = st.integers(0, WORD - 1)
CALLS = st.one_of(
    st.tuples(st.just("integer"), st.integers(0, 64)),
    st.tuples(st.just("toss"), st.one_of(WORD, st.sampled_from([0, WORD]))),
    st.tuples(st.just("uniform"), st.one_of(st.integers(1, 9), st.integers(1, WORD))),
    st.tuples(st.just("rounded"), st.integers(0, 1 << 40)),
    st.tuples(
        st.just("lanes"),
        st.one_of(WORD, st.integers(0, 64).map(lambda k: 1 << k)),
        st.integers(1, 200),
    ),
)


def by_the_rules(words, call, *arguments):
    """What the docstring of the module says, written again without a thought of speed."""
    if call == "integer":
        (bits,) = arguments
        return next(words) // 2 ** (64 - bits) if bits else 0
    if call == "toss":
        return next(words) < arguments[0]
    if call == "uniform":
        (bound,) = arguments
        while True:
            drawn = by_the_rules(words, "integer", (bound - 1).bit_length())
            if drawn < bound:
                return drawn
    if call == "rounded":
        whole, rest = divmod(arguments[0], 2**32)
        return whole + (next(words) >> 32 < rest)
    threshold, count = arguments
    if threshold in (0, WORD):
        return (1 << count) - 1 if threshold else 0
    lanes = [None] * count
    for digit in f"{threshold:064b}".rstrip("0"):
        plane = [next(words) for _ in range(-(-count // 64))]
        for k in range(count):
            drawn = plane[k // 64] >> k % 64 & 1
            if lanes[k] is None and drawn != int(digit):
                lanes[k] = drawn < int(digit)
        if None not in lanes:
            break
    return sum(bool(lane) << k for k, lane in enumerate(lanes))


@given(st.lists(CALLS, max_size=30), st.integers(0, 999))
def test_draws_read_the_tape_by_the_rules(calls, seed):
    """From a stream, and from the same words written down."""
    drawn = Randomness.seeded(seed).words(3000 + 64 * 4 * len(calls)).tolist()
    for words in (Words(Randomness.seeded(seed)), Words.given(drawn)):
        words = iter(drawn)
        for call, *arguments in calls:
            assert getattr(words, call)(*arguments) == by_the_rules(words, call, *arguments)
            assert words.used == len(drawn) - words.__length_hint__()


class Counting:
    """A stream of the words 0, 1, 2 and so on."""

    def __init__(self):
        self.numbers = itertools.count()

    def draw(self, count):
        assert count % 8 == 0
        return b"".join(struct.pack("<Q", next(self.numbers)) for _ in range(count // 8))


@given(st.lists(st.integers(1, 300), max_size=60))
def test_no_word_is_dropped_or_read_twice(widths):
    words, seen = Words(Counting()), []
    for width in widths:
        drawn = words.plane(64 * width).to_bytes(8 * width, "little")
        seen += struct.unpack(f"<{width}Q", drawn)
    assert seen == list(range(sum(widths)))
    assert words.used == len(seen)


def test_what_needs_more_words_than_there_are_is_refused():
    words = Words.given([5, 6])
    assert [words.bits(64), words.bits(64)] == [5, 6]
    for draw in (lambda: words.below(1), lambda: words.lanes(WORD - 1, 70), lambda: words.uniform(3)):
        with pytest.raises(MetricLdpError, match="more random words than were given"):
            draw()
    assert words.bits(0) == words.uniform(1) == 0
    assert (words.lanes(0, 5), words.lanes(WORD, 5)) == (0, 31)
    assert words.used == 2


def test_as_many_words_as_are_needed_are_enough():
    """The last word of a words is as good as any: nothing is read ahead."""
    words = Words.given([5])
    assert words.bits(64) == 5
    words = Words.given([1, 2, 3])
    assert [words.word(), words.plane(64), words.word()] == [1, 2, 3]
    words = Words.given(range(4))
    assert (words.plane(128), words.plane(65)) == (1 << 64, 2 | 3 << 64)


def test_a_word_equal_to_the_threshold_is_not_below_it():
    words = Words.given([7] * 3)
    assert [words.below(6), words.below(7), words.below(8)] == [False, False, True]
    words = Words.given([7 << 32 | 99] * 3)
    assert [words.round(9 << 32 | rest) for rest in (6, 7, 8)] == [9, 9, 10]
    assert [Words.given([]).lanes(threshold, 5) for threshold in (-WORD, -1, 0)] == [0] * 3
    assert [Words.given([]).lanes(threshold, 5) for threshold in (WORD, WORD + 1, 3 << 63)] == [31] * 3


@pytest.mark.parametrize("bits", [1, 7, 8, 9, 63, 64])
def test_integers_have_fair_bits(bits):
    words, n = Words(Randomness.seeded(7)), 400
    check_fair([words.bits(bits) for _ in range(n)], bits)


@pytest.mark.parametrize("bits", [1, 64, 65, 255, 5000])
def test_planes_have_fair_bits(bits):
    words, n = Words(Randomness.seeded(8)), 400
    check_fair([words.plane(bits) & (1 << bits) - 1 for _ in range(n)], bits)


def check_fair(drawn, bits):
    n = len(drawn)
    assert max(drawn) >> bits == 0
    ones = sum(x.bit_count() for x in drawn)
    assert_counts([ones, n * bits - ones], [Fraction(1, 2)] * 2, false_alarm=1e-9)
    for lane in (0, bits - 1):
        ones = sum(x >> lane & 1 for x in drawn)
        assert_counts([ones, n - ones], [Fraction(1, 2)] * 2, false_alarm=1e-9)
