"""Random integers from 64-bit words: every word value at a threshold and next to it."""

import pytest
from core_cases import W

from metricldp_core.errors import MetricLdpError
from metricldp_core.random_words import Words


def _edges(values):
    return sorted({v for v in values if 0 <= v < W})


def check_below():
    for probability in (0, 1, 2, W // 3, W // 2, W - 2, W - 1):
        for value in _edges([0, probability - 1, probability, probability + 1, W - 1]):
            assert Words.given([value]).below(probability) == (value < probability)


def test_below_is_true_for_the_words_below_a_probability():
    check_below()


def check_bits():
    for count in (1, 2, 7, 32, 63, 64):
        for k in {0, 1, (1 << count) - 1}:
            first, end = k << 64 - count, (k + 1) << 64 - count
            for value in _edges([first, end - 1]):
                assert Words.given([value]).bits(count) == k
    words = Words.given([])
    assert words.bits(0) == words.used == 0


def test_bits_are_the_top_bits_of_a_word():
    check_bits()


def check_uniform():
    """Each integer has the same number of words; the others are repeated, and all are used up."""
    for bound in (1, 2, 3, 4, 5, 7, 8, 9, 2**32 + 1, W - 1, W):
        count = (bound - 1).bit_length()
        for number in _edges([0, 1, bound - 2, bound - 1]):
            if number < bound and count:
                first = number << 64 - count
                for value in (first, first + (1 << 64 - count) - 1):
                    assert Words.given([value]).uniform(bound) == number
        if bound < 1 << count:
            rejected = [bound << 64 - count, W - 1]
            tape = Words.given([*rejected, 0])
            assert tape.uniform(bound) == 0
            assert tape.used == 3
    assert Words.given([]).uniform(1) == 0


def test_uniform_integers_are_equally_likely_by_rejection():
    check_uniform()


def check_round():
    for rest in (0, 1, 2, 1 << 31, (1 << 32) - 1):
        for top in _edges([0, rest - 1, rest, (1 << 32) - 1]):
            words = [top << 32, (top << 32) + (1 << 32) - 1]
            for value in _edges(words):
                rounded = Words.given([value]).round((7 << 32) + rest)
                assert rounded == 7 + (top < rest)


def test_rounding_at_random_has_the_position_as_its_mean():
    """The upper neighbour has `rest` of the 2^32 values of the top bits."""
    check_round()


def test_words_are_read_lowest_byte_first_and_in_blocks():
    blocks = []

    def source(count):
        blocks.append(bytes((len(blocks) + k) % 256 for k in range(count)))
        return blocks[-1]

    words = Words(source)
    values = [words.word() for _ in range(100)]
    content = b"".join(blocks)
    assert values == [int.from_bytes(content[8 * k : 8 * k + 8], "little") for k in range(100)]
    assert words.used == 100


def test_given_words_are_not_continued():
    words = Words.given([1, 2])
    assert [words.word(), words.word()] == [1, 2]
    with pytest.raises(MetricLdpError, match="more random words"):
        words.word()


@pytest.mark.parametrize("size", [0, 1, 511, 513])
def test_a_source_of_a_wrong_length_is_an_error(size):
    with pytest.raises(Exception, match="unpack"):
        Words(lambda count: bytes(size)).word()
