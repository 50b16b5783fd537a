"""Bins whose edges were placed by hand: positions, the promise, and what is refused."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import enumerated_ratio, exact_law
from metricldp import Continuous, InvalidSpecError, QueryError, Survey
from metricldp.mechanisms import GeometricChannel
from metricldp.metrics import Line
from metricldp_core.exact import at_most_exp, decimal_of

EDGES = [0, 1, 5_000, 6_000, 10_000, 20_000]
placed = st.lists(st.integers(-500, 500), min_size=3, max_size=9, unique=True).map(
    lambda found: [edge / 10 for edge in sorted(found)]
)


def widths(attribute):
    edges = [decimal_of(edge) for edge in attribute.edges]
    return [upper - lower for lower, upper in itertools.pairwise(edges)]


@given(placed, st.floats(0, 1), st.floats(0, 1))
def test_two_values_are_at_most_half_of_both_bins_farther_apart_than_they_are(edges, one, other):
    """The promise in the data's units: E(v, v') <= epsilon/per (|v - v'| + half of both widths),
    which for equal bins is the |v - v'| + h that always was said."""
    attribute = Continuous(edges=edges, epsilon=3, per=7)
    low, high = attribute.low, attribute.high
    values = [min(max(low + share * (high - low), low), high) for share in (one, other)]
    places = [attribute.position(value) for value in values]
    half = sum(widths(attribute)[place] for place in places) / 2
    apart = abs(Fraction(values[0]) - Fraction(values[1]))
    slack = Fraction(1, 10**9)  # edges mean the decimals that are written, values the doubles
    distance = attribute.distance(*values)
    assert places[0] == places[1] or distance <= Fraction(3, 7) * (apart + half + slack)
    assert distance >= Fraction(3, 7) * (apart - half - slack)


@given(placed)
def test_distances_are_those_of_the_middles(edges):
    attribute = Continuous(edges=edges, epsilon=1, per=1)
    exact = [decimal_of(edge) for edge in attribute.edges]
    middles = [(lower + upper) / 2 for lower, upper in itertools.pairwise(exact)]
    for x, other in itertools.combinations(range(attribute.size), 2):
        assert attribute.distances.distance(x, other) == middles[other] - middles[x]


MECHANISMS = ("auto", "geometric", "threshold", "randomized-response", "unary", "matrix")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_keeps_the_promise_between_any_two_bins(mechanism):
    """By enumeration, every pair; and the survey's own certificate says so."""
    attribute = Continuous(edges=EDGES, epsilon=1, per=4_000, mechanism=mechanism)
    survey = Survey.design({"v": attribute})
    assert survey.certify().holds
    if mechanism == "matrix":  # its reports have no list; the certificate is all there is
        return
    assert not broken(survey.channels["v"], attribute)


def test_a_channel_for_equal_steps_would_break_it():
    """The twin: five bins over the same domain, taken for equal ones."""
    attribute = Continuous(edges=EDGES, epsilon=1, per=4_000)
    assert broken(GeometricChannel.for_epsilon(5, Fraction(20_000, 5 * 4_000)), attribute)


def broken(channel, attribute):
    laws = [exact_law(channel, x) for x in range(attribute.size)]
    return [
        (x, other)
        for x, other in itertools.combinations(range(attribute.size), 2)
        if not at_most_exp(
            enumerated_ratio(laws[x], laws[other]), attribute.distances.distance(x, other)
        )
    ]


@given(placed, st.lists(st.floats(-50, 50), max_size=20))
def test_columns_and_single_values_go_to_the_same_bins(edges, values):
    attribute = Continuous(edges=edges, epsilon=1, per=1)
    inside = [value for value in (*values, *edges) if edges[0] <= value <= edges[-1]]
    found = [attribute.position(value) for value in inside]
    assert attribute.positions(np.array(inside)).tolist() == found
    for value, place in zip(inside, found, strict=True):
        assert edges[place] <= value
        assert value < edges[place + 1] or value == edges[-1]


def test_equal_edges_are_a_line_and_a_file_gives_them_back():
    assert Continuous(edges=[0, 0.1, 0.2, 0.3], epsilon=1, per=1).distances == Line(Fraction(1, 10))
    survey = Survey.design({"v": Continuous(edges=np.array(EDGES), epsilon=1, per=4_000)})
    again = Survey.from_toml(survey.to_toml())
    assert again.fingerprint == survey.fingerprint
    assert again.attributes["v"].edges == tuple(EDGES)
    assert '"edges":[0,1,5000,6000,10000,20000]' in survey.manifest()
    assert '"low"' not in survey.manifest()
    plain = Continuous(edges=EDGES, epsilon=1, per=4_000)
    assert eval(repr(plain)) == plain
    assert "+ half of the widths of their bins" in " ".join(survey.explain().details().split())


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"edges": [0, 1]}, "make 2 to 1,000 bins, not 1"),
        ({"edges": list(range(1002))}, "make 2 to 1,000 bins, not 1001"),
        ({"edges": [0, 2, 1]}, "edges must rise, but 1 follows 2"),
        ({"edges": [0, 1, 1]}, "edges must rise, but 1 follows 1"),
        ({"edges": [0, 1, float("nan")]}, "an edge must be finite, not nan"),
        ({"edges": [0, 1, "x"]}, "an edge must be finite, not 'x'"),
        ({"edges": [0, True, 2]}, "an edge must be finite, not True"),
        ({"edges": "abc"}, "edges are a list of numbers, not 'abc'"),
        ({"edges": 5}, "edges are a list of numbers, not 5"),
        ({"edges": [0, 1, 2], "bins": 2}, "bins or edges, not both"),
        ({"edges": [0, 1, 2], "low": 1}, "low is 1, but the edges end at 0"),
        ({"edges": [0, 1, 2, 1e18]}, "adds almost no noise"),
        ({"low": 0, "bins": 3}, "needs its lowest and highest value"),
    ],
)
def test_edges_that_cannot_be_are_refused(said, why):
    with pytest.raises(InvalidSpecError, match=why):
        Continuous(**said, epsilon=1, per=1)


def test_number_with_a_bin_of_its_own_is_queried_by_its_edges():
    """0 is inside of its bin, so conditions at 0 are rejected."""
    edges = [-500, 500, 1_500, 10_500]
    survey = Survey.design({"income": Continuous(edges=edges, epsilon=20, per=1_000)})
    people = [0.0] * 400 + [1_000.0] * 500 + [9_000.0] * 600
    tally = survey.tally(survey.randomize({"income": people}))
    asked = {
        "income > 500": 1_100,
        "income >= -500": 1_500,
        "income <= 500": 400,
        "500 <= income < 1500": 500,
        "-500 <= income < 500": 400,
        "income >= 1500": 600,
    }
    for where, count in asked.items():
        assert tally.count(where).value == pytest.approx(count, abs=20), where
    for where in ("income < 0", "income > 0", "income == 0", "0 <= income <= 1000"):
        with pytest.raises(QueryError, match="500"):
            tally.count(where)
