"""A channel as a table: every row is a law, drawn to the last unit and decoded with least error."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from metricldp.basics.errors import CertificateError, QueryError
from metricldp.mechanisms.table import Table
from metricldp_core.exact import WORD

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
    table = Table.of(ROWS)
    ends = list(itertools.accumulate(ROWS[x]))
    near = {min(max(end + off, 0), WORD - 1) for end in (0, *ends) for off in (-2, -1, 0, 1, 2)}
    words = sorted(near)
    expected = [sum(end <= word for end in ends) for word in words]
    positions = np.full(len(words), x)
    assert table.sample(positions, Given(words)).tolist() == expected


def test_everybody_is_drawn_by_their_own_row():
    table = Table.of([[WORD, 0, 0], [0, WORD, 0], [0, 0, WORD]])
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
        Table.of(rows)


def test_more_reports_than_positions_are_decoded_with_the_least_variance():
    """Weighted least squares, solved here by normal equations; a report that nobody sends is 0."""
    rows = [
        [HALF, QUARTER, 0, EIGHTH, EIGHTH],
        [EIGHTH, QUARTER, 0, HALF, EIGHTH],
        [EIGHTH, QUARTER, 0, EIGHTH, HALF],
    ]
    table = Table.of(rows)
    shares = np.array([[weight / WORD for weight in row] for row in rows])
    sent = [0, 1, 3, 4]
    weighted = shares[:, sent] / shares[:, sent].mean(axis=0)
    expected = np.zeros((3, 5))
    expected[:, sent] = np.linalg.solve(weighted @ shares[:, sent].T, weighted)
    np.testing.assert_allclose(table.moments.coefficients(np.eye(3)), expected, atol=1e-12)
    prior = (0.5, 0.25, 0.25)
    weighted = shares[:, sent] / (prior @ shares[:, sent])
    spread = np.zeros((3, 5))
    spread[:, sent] = np.linalg.solve(weighted @ shares[:, sent].T, weighted)
    np.testing.assert_allclose(replace(table, prior=prior).coefficients(np.eye(3)), spread)
    assert np.abs(spread - expected).max() > 0.01
    totals = np.arange(10.0).reshape(5, 2)
    np.testing.assert_allclose(table.moments.frequencies(totals), expected @ totals, atol=1e-9)


def test_positions_that_no_report_tells_apart_are_named():
    alike = Table.of([[QUARTER, WORD - QUARTER], [HALF, HALF], [HALF, HALF]])
    with pytest.raises(QueryError, match=r"does not determine the count of position [12];"):
        alike.coefficients(np.eye(3))


def test_whole_numbers_decide_where_floats_see_no_difference():
    """Ratios that differ by one part in 2^61, the larger one first, last and in between."""
    for larger in range(3):
        low = [EIGHTH // 2] * 3
        high = [EIGHTH + (y == larger) for y in range(3)]
        rows = [[*row, WORD - sum(row)] for row in (low, high)]
        assert Table.of(rows).distribution.ratio(0, 1) == Fraction(EIGHTH + 1, EIGHTH // 2)
