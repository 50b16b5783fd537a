"""Errors against the number of attributes: products, blocks and limits, and their slopes."""

from dataclasses import replace
from fractions import Fraction

import pytest

from metricldp import Survey
from metricldp.attributes.integer import Integer
from metricldp.lab.reproduce import dimensions, page

THRESHOLD = {0.1: 10_094, 0.2: 648.5, 0.5: 19.70, 1: 1.8706}


@pytest.mark.parametrize(("epsilon", "known"), THRESHOLD.items())
def test_products_of_threshold_bits_are_the_known_ones(epsilon, known):
    line = dimensions.Line(Fraction(str(epsilon)))
    assert dimensions._product("threshold", 3, line, 2) == pytest.approx(known, rel=1e-3)


def test_a_product_is_what_a_survey_predicts():
    """Mean over all ranges of both, of the variance that the survey states for one person."""
    side = Integer(0, 1, epsilon=0.5, mechanism="geometric")
    survey = Survey({"a": side, "b": side})
    ranges = [(0, 0), (1, 1), (0, 1)]
    found = [
        survey.predict({"a": a, "b": b}, n=1, prior="uniform") ** 2 for a in ranges for b in ranges
    ]
    own = dimensions._product("geometric", 2, dimensions.Line(Fraction(1, 2)), 2)
    assert own == pytest.approx(sum(found) / 9, rel=1e-9)


def test_no_method_is_below_the_limit():
    found = dimensions.row(2, 2, Fraction(1, 10))
    assert found.attained
    assert found.limit == pytest.approx(132.0, rel=1e-3)
    for method in (*dimensions.PRODUCTS, "block"):
        assert getattr(found, method) >= found.limit
    assert found.block < 1.3 * found.limit < found.threshold / 10


def made(slope, bent=0.0):
    """Rows of two sizes whose block falls along a line of such a slope, or along a bent one."""
    empty = dimensions.Row(0, 1, 0.1, 1.0, 1.0, 1.0, 1.0, 1.0, None, False)
    return [
        replace(empty, values=m, epsilon=e, block=m * e**-slope * (1 + bent * (e == 0.1)))
        for m in (3, 4)
        for e in (0.05, 0.1, 0.2, 1.0)
    ]


def test_slopes_are_found_and_bent_lines_have_wide_intervals():
    (straight,) = (s for s in dimensions.slopes(made(2.5)) if s.method == "block")
    assert (straight.slope, straight.points) == (pytest.approx(2.5), 6)
    assert straight.high - straight.low < 1e-6
    (bent,) = (s for s in dimensions.slopes(made(2.5, 0.3)) if s.method == "block")
    assert bent.low < 2.5 < bent.high and bent.high - bent.low > 0.1


def test_a_quick_page():
    found = page("dimensions", quick=True)
    assert {"dimensions.csv", "dimensions-slopes.csv"} == set(found.tables)
    steep = {
        (s["attributes"], s["method"]): s["slope"] for s in found.tables["dimensions-slopes.csv"]
    }
    assert steep[2, "threshold"] == pytest.approx(4, abs=0.1)
    assert steep[2, "block"] == pytest.approx(2, abs=0.1)
    assert "A quick version" in found.text


@pytest.mark.slow
def test_the_exponent_is_that_of_products_and_not_of_blocks():
    found = page("dimensions")
    steep = {
        (s["attributes"], s["method"]): s["slope"] for s in found.tables["dimensions-slopes.csv"]
    }
    for attributes in (1, 2, 3):
        assert steep[attributes, "threshold"] == pytest.approx(2 * attributes, abs=0.1)
        assert steep[attributes, "block"] == pytest.approx(2, abs=0.1)
    for one in found.tables["dimensions.csv"]:
        if one["limit"] is not None:
            assert one["attained"] and one["block"] >= one["limit"]
