"""Conditions, bars and groups of a binned attribute end at bin edges; others are rejected."""

from itertools import pairwise

import numpy as np
import pytest

from metricldp import (
    Categorical,
    Continuous,
    Integer,
    QueryError,
    Randomness,
    Relative,
    Survey,
    plan,
    pool,
    waves,
)
from metricldp.answers.conditions import any_of, none_of

N = 4_000
INCOMES = np.random.default_rng(7).gamma(2, 15_000, N).clip(0, 100_000)
SURVEY = Survey.design(
    {
        "income": Continuous(0, 100_000, bins=10, epsilon=4, within=10_000),
        "rent": Continuous(edges=[0, 100, 500, 2_000], epsilon=4, per=100),
        "region": Categorical(["north", "south"], epsilon=4),
    }
)


@pytest.fixture(scope="module")
def tally():
    people = {
        "income": INCOMES,
        "rent": np.linspace(0, 2_000, N),
        "region": ["north", "south"] * (N // 2),
    }
    return SURVEY.tally(SURVEY.randomize(people, randomness=Randomness.seeded(1)))


def rejected(ask, *edges):
    with pytest.raises(QueryError) as error:
        ask()
    message = str(error.value)
    assert "\n" not in message
    for edge in edges:
        assert edge in message, message
    return message


def test_count_of_part_of_a_bin_is_rejected_with_the_nearest_edges(tally):
    rejected(lambda: tally.count({"income": (0, 16_000)}), "10,000", "20,000", "16,000")
    rejected(lambda: tally.count({"income": (12_000, 30_000)}), "10,000", "20,000", "12,000")
    both = rejected(lambda: tally.count({"income": (12_000, 37_000)}), "12,000", "37,000")
    assert "30,000 and 40,000" in both and "10,000 and 20,000" in both
    rejected(lambda: tally.count({"rent": (100, 600)}), "500", "2000")


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 20_000), (None, 20_000), (20_000, None), (20_000, 100_000), (-5, 20_000), (90_000, 1e9)],
)
def test_range_between_edges_is_left_closed(tally, low, high):
    """5 standard errors: a false alarm in fewer than one of 10^6 runs."""
    answer = tally.count({"income": (low, high)})
    end = np.inf if high is None or high >= 100_000 else high  # the last bin has both its edges
    truth = (((low or 0) <= INCOMES) & (end > INCOMES)).sum()
    assert abs(answer.value - truth) < 5 * answer.stderr
    outside = (low or 0) < 0 or (high or 0) > 100_000
    assert len(answer.notes) == outside and all("outside of the domain" in n for n in answer.notes)


def test_value_at_an_edge_is_in_the_bin_above():
    """Without noise: 300 people at an edge are in (20, 30), not in (10, 20)."""
    survey = Survey.design({"x": Continuous(0, 30, bins=3, epsilon=700, within=10)})
    tally = survey.tally(
        survey.randomize({"x": [20.0] * 300 + [30.0] * 7}, randomness=Randomness.seeded(1))
    )
    counts = [tally.count({"x": ends}).value for ends in ((10, 20), (20, 30), (None, 30))]
    assert counts == pytest.approx([0, 307, 307], abs=1e-6)


def test_all_queries_reject_conditions_that_cut_bins(tally):
    where = {"income": (0, 16_000)}
    for ask in (
        lambda: tally.count(where, by="region"),
        lambda: tally.counts([None, where]),
        lambda: tally.fraction(where),
        lambda: tally.fraction({"region": "north"}, among=where),
        lambda: tally.sum("rent", where),
        lambda: tally.mean("rent", where),
        lambda: tally.quantile("rent", 0.5, where),
        lambda: tally.cdf("rent", where),
        lambda: tally.histogram("region", where),
        lambda: tally.workload("rent", "values", where),
        lambda: tally.variance("rent", where),
        lambda: tally.correlation("income", "rent", where),
        lambda: tally.count(any_of(where, {"region": "north"})),
        lambda: tally.count(none_of(where)),
        lambda: tally.count({"income": [(0, 16_000), (50_000, None)]}),
        lambda: tally.contributions(where),
        lambda: tally.fit_distribution(["income"]).count(where),
        lambda: pool([tally]).count(where),
        lambda: SURVEY.expected_error(where, n=100, prior="worst").stderr,
        lambda: plan(SURVEY, 50, where, query="count", n=1000),
    ):
        rejected(ask, "10,000", "20,000")


def test_waves_reject_conditions_that_cut_bins():
    tables = [SURVEY.randomize({"income": [1, 2], "rent": [3, 4], "region": ["north"] * 2})
              for _ in range(2)]  # fmt: skip
    both_waves = waves([SURVEY.tally(table) for table in tables])
    rejected(lambda: both_waves.count({"income": (0, 16_000)}), "10,000", "20,000")


@pytest.mark.parametrize(
    "text",
    [
        "0 <= income <= 16_000",
        "income < 16_000",
        "income <= 16_000",
        "income > 16_000",
        "not income >= 16_000",
    ],
)
def test_texts_that_cut_bins_are_rejected_with_the_nearest_edges(tally, text):
    with pytest.raises(QueryError) as error:
        tally.count(text)
    message, line, mark = str(error.value).split("\n")
    assert "10,000" in message and "20,000" in message
    assert line[mark.index("^") :].startswith("16_000")


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("income < 20_000", (None, 20_000)),
        ("income <= 20_000", (None, 20_000)),
        ("income > 20_000", (20_000, None)),
        ("income >= 20_000", (20_000, None)),
        ("20_000 <= income < 40_000", (20_000, 40_000)),
        ("not income >= 20_000", (None, 20_000)),
    ],
)
def test_texts_with_edges_are_left_closed(tally, text, ends):
    assert tally.count(text).value == tally.count({"income": ends}).value


def test_single_number_is_rejected_with_its_bin(tally):
    assert "10,000 to 20,000" in rejected(lambda: tally.count({"income": 15_000}))
    rejected(lambda: tally.count({"income": 20_000}), "20,000 to 30,000")


@pytest.mark.parametrize("k", range(1, 7))
def test_edge_as_printed_in_the_message_is_accepted(k):
    """Edges of 7 bins are no short decimals."""
    survey = Survey.design({"x": Continuous(-3, 97, bins=7, epsilon=1, within=20)})
    message = rejected(
        lambda: (
            survey.expected_error({"x": (None, -3 + 100 * k / 7 + 1)}, n=9, prior="worst").stderr
        )
    )
    edges = message.partition("edges ")[2].partition(";")[0].split(" and ")
    assert len(edges) == 2
    for edge in edges:
        assert (
            survey.expected_error(
                {"x": (None, float(edge.replace(",", "")))}, n=9, prior="worst"
            ).stderr
            >= 0
        )


def test_cyclic_range_over_the_end_has_edges_as_ends():
    survey = Survey.design({"turn": Continuous(0, 360, bins=36, epsilon=1, within=10, cyclic=True)})
    assert survey.expected_error({"turn": (350, 20)}, n=9, prior="worst").stderr > 0
    rejected(
        lambda: survey.expected_error({"turn": (352, 20)}, n=9, prior="worst").stderr, "350 and 360"
    )


@pytest.mark.parametrize("edges", [[0, 15_000, 100_000], [0, 10_000, 10_001], [5_000, 20_000]])
def test_bins_and_groups_that_cut_bins_are_rejected(tally, edges):
    fit = tally.fit_distribution(["income"])
    for ask in (
        lambda: tally.histogram("income", bins=edges),
        lambda: tally.count(by={"income": edges}),
        lambda: tally.mean("rent", by={"income": edges}),
        lambda: tally.count(by={"income": edges, "region": None}),
        lambda: fit.histogram("income", bins=edges),
    ):
        rejected(ask, "between the edges")
    rejected(lambda: tally.histogram("rent", bins=[0, 300, 2_000]), "between the edges 100 and 500")


@pytest.mark.parametrize("width", [15_000, 25_000, 10_001])
def test_widths_of_a_test_that_cut_bins_are_rejected(tally, width):
    low = width // 10_000 * 10_000
    rejected(
        lambda: tally.independence_test("income", "region", widths={"income": width}),
        f"use {low:,} or {low + 10_000:,}",
    )


@pytest.mark.parametrize("bins", [10, 5, 4, 1, [0, 10_000, 100_000], [20_000, 50_000, 100_000]])
def test_bins_of_whole_bins_are_accepted(tally, bins):
    table = tally.histogram("income", bins=bins)
    assert table.labels[-1][1] == 100_000
    for (low, high), count in table:
        assert count.value == pytest.approx(tally.count({"income": (low, high)}).value)
    if table.labels[0][0] == 0:
        assert sum(table.values) == pytest.approx(N, rel=0.2)


def test_bins_of_uneven_bins_are_accepted_where_all_are_edges():
    survey = Survey.design({"x": Continuous(edges=[0, 10, 20, 25, 30, 40], epsilon=1, per=10)})
    tally = survey.tally(survey.randomize({"x": [1.0, 2.0]}, randomness=Randomness.seeded(1)))
    edges = [0, 10, 20, 30, 40]
    assert tally.histogram("x", bins=edges).labels == list(pairwise(edges))


def test_bins_with_one_ratio_are_queried_at_their_edges():
    price = Continuous(1_000, 100_000, bins=4, epsilon=1, metric=Relative(0.5))
    survey = Survey.design({"price": price})
    rejected(
        lambda: survey.expected_error({"price": (None, 5_000)}, n=9, prior="worst").stderr,
        "3,162.28",
        "10,000",
    )
    assert survey.expected_error({"price": (None, 3_162.28)}, n=9, prior="worst").stderr > 0


def test_attributes_without_bins_are_not_affected():
    survey = Survey.design(
        {
            "height": Continuous(0, 2, points=5, epsilon=1, rounding="stochastic", per=1),
            "age": Integer(0, 99, epsilon=1, within=5),
        }
    )
    for where in ({"height": (0.3, 1.1)}, {"age": (2.5, 7.5)}, {"age": 3}):
        assert survey.expected_error(where, n=9, prior="worst").stderr > 0


def test_bins_that_are_small_beside_their_edges_are_not_cut():
    """Seconds since 1970: 1e-9 of an edge is more than a bin."""
    start = 1.7e9
    survey = Survey.design(
        {"time": Continuous(start, start + 10, bins=10, epsilon=1, mechanism="geometric", per=1)}
    )
    tally = survey.tally(survey.randomize({"time": start + np.arange(10.0)}))
    with pytest.raises(QueryError, match="cuts a bin"):
        tally.count({"time": (start + 0.5, start + 3.4)})
    assert tally.count({"time": (start + 1, start + 3)}).stderr > 0
