"""Intervals recovered from those of the parts: where all is normal they are the well-known ones."""

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricldp.answers.recovered import Off, ends_of_ratio, ends_of_sum

ANY = -math.inf, math.inf
sizes = st.floats(0.01, 10)


def even(value, off):
    return Off(value, off, off)


@given(sizes, sizes, st.floats(-1, 1))
def test_even_parts_add_up_as_standard_errors_do(one, other, correlation):
    parts = [even(1, one), even(2, other)]
    truth = math.sqrt(max(0.0, one**2 + other**2 + 2 * correlation * one * other))
    found = ends_of_sum(parts, lambda i, j: correlation)
    assert found == pytest.approx((truth, truth), abs=1e-6)


def test_each_side_has_its_own_part():
    parts = [Off(0, 3, 5), Off(0, 4, 12)]
    assert ends_of_sum(parts, lambda i, j: 0.0) == (5, 13)
    assert ends_of_sum(parts, lambda i, j: None) == (7, 17), "they may be anything to each other"
    # Against each other: at most 3 x 12 or 4 x 5 is taken away, not 3 x 4 below and 5 x 12 above.
    assert ends_of_sum(parts, lambda i, j: -1.0) == (1, pytest.approx(math.sqrt(169 - 40)))
    assert ends_of_sum(parts, lambda i, j: 1.0) == (7, 17)
    assert ends_of_sum(parts, lambda i, j: 0.5) == pytest.approx((37**0.5, 229**0.5))
    for place in (0, 1):
        anywhere = list(parts)
        anywhere[place] = parts[place]._replace(anywhere=True)
        assert ends_of_sum(anywhere, lambda i, j: -1.0) == (7, 17)
    assert ends_of_sum([Off(0, 3, math.inf), parts[1]], lambda i, j: 0.0) == (5, math.inf)
    assert ends_of_sum([Off(0, math.inf, 5), parts[1]], lambda i, j: 0.0) == (math.inf, 13)
    assert Off(2, 3, 5).times(-2) == Off(-4, 10, 6)
    assert Off(2, 3, 5).times(2) == Off(4, 6, 10)


@dataclass
class Told:
    value: float

    possible: tuple[float, float] = (0, 9)

    def _interval(self, level, method):
        assert (level, method) == (0.9, "normal")
        return 1.5, 2.75


def test_an_answer_is_off_by_its_normal_interval():
    assert Off.of(Told(2.0), 0.9) == Off(2.0, 0.5, 0.75)
    assert Off.of(Told(1.0), 0.9) == Off(1.0, 0.0, 1.75), "moved out of it: not off to that side"
    assert Off.of(Told(3.0), 0.9) == Off(3.0, 1.5, 0.0)
    assert Off.of(Told(2.0, (1.5, 2.75)), 0.9) == Off(2.0, 0.5, 0.75, anywhere=True)
    assert Off(2.0, 0.5, 0.75, anywhere=True).times(-1) == Off(-2.0, 0.75, 0.5, anywhere=True)


def test_pairs_of_three_parts_are_looked_up_once_each():
    asked = []

    def correlation(i, j):
        asked.append((i, j))
        return {(0, 1): 0.5, (0, 2): 0.0, (1, 2): -0.5}[i, j]

    below, above = ends_of_sum([even(0, 1), even(0, 2), even(0, 4)], correlation)
    assert below == above == pytest.approx(math.sqrt(1 + 4 + 16 + 2 - 8))
    assert sorted(set(asked)) == [(0, 1), (0, 2), (1, 2)]


@given(st.floats(-20, 20), sizes, st.floats(1, 20), st.floats(0.01, 0.9), st.floats(-0.99, 0.99))
def test_an_even_ratio_has_fiellers_interval(top, off, bottom, share, correlation):
    below = share * bottom
    found = ends_of_ratio(even(top, off), even(bottom, below), correlation)
    leading = bottom**2 - below**2
    middle = top * bottom - correlation * off * below
    root = math.sqrt(max(0.0, middle**2 - leading * (top**2 - off**2)))
    assert found == pytest.approx(
        ((middle - root) / leading, (middle + root) / leading), rel=1e-6, abs=1e-6
    )


def test_a_ratio_over_what_may_be_nothing_has_no_end():
    low, high = ends_of_ratio(even(5, 1), even(2, 2), 0.0)
    assert 1 < low < 2.5 and high == math.inf, "over what may be nothing, but not less"
    barely = ends_of_ratio(even(5, 1), Off(2, 2 * (1 - 1e-15), 2), 0.0)
    assert barely == pytest.approx((low, high))
    assert ends_of_ratio(even(5, 1), Off(0, 0, 3), 0.0) == ANY
    assert ends_of_ratio(even(5, 5), even(2, 1), 0.0)[0] == 0.0, "and no rounding below it"
    assert ends_of_ratio(even(5, 1), Off(2, 2.1, 1), 0.0) == ANY
    low, high = ends_of_ratio(even(-5, 1), even(2, 2), 0.0)
    assert low == -math.inf and -2.5 < high < -1
    assert ends_of_ratio(Off(1, 1, math.inf), even(10, 1), None)[1] == math.inf


def test_only_the_side_that_matters_widens_a_ratio():
    """For a lower end the denominator may be larger, for a higher one smaller; below 0 turned."""
    narrow = ends_of_ratio(even(6, 1), even(10, 1), 0.0)
    more = ends_of_ratio(even(6, 1), Off(10, 1, 5), 0.0)
    less = ends_of_ratio(even(6, 1), Off(10, 5, 1), 0.0)
    assert more[0] < narrow[0] and more[1] == pytest.approx(narrow[1])
    assert less[1] > narrow[1] and less[0] == pytest.approx(narrow[0])
    turned = ends_of_ratio(even(-6, 1), Off(10, 5, 1), 0.0)
    assert turned == pytest.approx((-less[1], -less[0]))


@pytest.mark.parametrize("correlation", [-0.7, 0.7, None])
def test_a_negative_ratio_turns_its_correlation(correlation):
    found = ends_of_ratio(Off(6, 1, 2), Off(10, 3, 1), correlation)
    turned = None if correlation is None else -correlation
    other = ends_of_ratio(Off(-6, 2, 1), Off(10, 3, 1), turned)
    assert other == pytest.approx((-found[1], -found[0]))
