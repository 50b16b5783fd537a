"""A channel as a table: every row is a law, drawn to the last unit and decoded with least error."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from checks import extremal_table
from metricldp.basics.errors import CertificateError
from metricldp.mechanisms.levels import fall_of
from metricldp.mechanisms.table import TableChannel
from metricldp_core.exact import WORD
from metricldp_core.levels import levels

HALF, QUARTER, EIGHTH = WORD >> 1, WORD >> 2, WORD >> 3
THIRD = (WORD - 1) // 3
ROWS = [
    [0, HALF, 0, QUARTER, QUARTER - 5, 5],
    [1, HALF, 0, WORD - HALF - QUARTER - 1, QUARTER, 0],
    [THIRD, 1, THIRD, THIRD, 0, WORD - 3 * THIRD - 1],
]


class Given:
    """Random words that are given beforehand."""

    def __init__(self, words):
        self.left = list(words)

    def words(self, count):
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count
        return np.array(taken, dtype=np.uint64)


@pytest.mark.parametrize("x", range(3))
def test_a_report_is_drawn_to_the_last_unit(x):
    """Report y from as many of all 2^64 words as it has weight: looked at around every border."""
    table = TableChannel.of(ROWS)
    ends = list(itertools.accumulate(ROWS[x]))
    near = {min(max(end + off, 0), WORD - 1) for end in (0, *ends) for off in (-2, -1, 0, 1, 2)}
    words = sorted(near)
    expected = [sum(end <= word for end in ends) for word in words]
    positions = np.full(len(words), x)
    assert table.sample(positions, Given(words)).tolist() == expected


def test_everybody_is_drawn_by_their_own_row():
    table = TableChannel.of([[WORD, 0, 0], [0, WORD, 0], [0, 0, WORD]])
    positions = np.array([2, 0, 1, 1, 2])
    assert table.sample(positions, Given([0, 1, WORD - 1, 5, 7])).tolist() == [2, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("rows", "needle"),
    [
        (
            [[HALF, HALF], [HALF, HALF - 1]],
            "row 1 of the table is not a distribution: it needs 2 whole",
        ),
        ([[HALF, HALF], [WORD + 5, -5]], "row 1 of"),
        ([[WORD + 5, -5], [HALF, HALF]], "row 0 of"),
        ([[HALF, QUARTER, QUARTER], [HALF, HALF]], "row 1 of the table .* needs 3 whole"),
        ([[HALF, HALF], [HALF, HALF], [WORD]], "row 2 of the table .* needs 2 whole"),
    ],
)
def test_a_row_that_is_no_law_is_refused(rows, needle):
    with pytest.raises(CertificateError, match=needle):
        TableChannel.of(rows)


def test_whole_numbers_decide_where_floats_see_no_difference():
    """Ratios that differ by one part in 2^61, the larger one first, last and in between."""
    for larger in range(3):
        low = [EIGHTH // 2] * 3
        high = [EIGHTH + (y == larger) for y in range(3)]
        rows = [[*row, WORD - sum(row)] for row in (low, high)]
        assert TableChannel.of(rows).distribution.ratio(0, 1) == Fraction(EIGHTH + 1, EIGHTH // 2)


def test_every_weight_of_a_mixture_is_a_level_and_the_last_is_what_is_left():
    shapes, tops = ((0, 1, 2), (2, 0, 0), (0, 0, 0)), (WORD >> 2, WORD >> 3, 1)
    unit = Fraction(1, 3)
    table = extremal_table(shapes, tops, unit)
    one, other = (levels(top, fall_of(unit), 2) for top in tops[:2])
    rows = [(one[0], other[2], 1), (one[1], other[0], 1), (one[2], other[0], 1)]
    assert table.distribution.weights == tuple((*row, WORD - sum(row)) for row in rows)
    assert table.distribution.kind == "extremal"


def test_levels_of_a_mixture_leave_something_of_every_row():
    half, unit = WORD >> 1, Fraction(50)
    table = extremal_table(((0, 1), (0, 0)), (half, half - 1), unit)
    assert table.distribution.weights[0] == (half, half - 1, 1)
