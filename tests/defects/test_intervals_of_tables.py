"""Mended defects of intervals, printing and speed of tables."""

import functools
import math

import numpy as np
import pytest
from collected import TOKEN, Client, InMemory

from metricldp import Categorical, Integer, Randomness, Survey
from metricldp.collector.page import pages

N = 1_000


def require(condition):
    """A precondition, without which the test would check nothing."""
    if not condition:
        raise RuntimeError("the precondition of this test does not hold")


@pytest.fixture(scope="module")
def tally():
    """Two attributes with 300 combinations, each with large noise."""
    survey = Survey.design(
        {
            "age": Integer(0, 29, epsilon=0.5, mechanism="geometric", per=1),
            "hour": Integer(0, 9, epsilon=0.5, mechanism="geometric", per=1),
        }
    )
    rng = np.random.default_rng(1)
    people = {"age": rng.integers(0, 30, N), "hour": rng.integers(0, 10, N)}
    return survey.tally(survey.randomize(people, randomness=Randomness.seeded(1)))


@pytest.fixture(scope="module")
def regions():
    """Three regions, one of which is empty."""
    survey = Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, within=10),
            "region": Categorical(["north", "south", "west"], epsilon=3),
        }
    )
    rng = np.random.default_rng(1)
    people = {"age": rng.integers(20, 40, N), "region": rng.choice(["north", "south"], N)}
    return survey.tally(survey.randomize(people, randomness=Randomness.seeded(1)))


CELL, PLACE = {"age": 10, "hour": 4}, 10 * 10 + 4


def interval_of_a_table(tally):
    table = tally.count(by=["age", "hour"])
    require(table.labels[PLACE] == (10, 4))
    low, high = table.confidence_interval()
    return low[PLACE], high[PLACE]


def interval_of_a_cell(tally):
    return tally.count(by=["age", "hour"])[10, 4].confidence_interval()


def interval_of_the_page(tally):
    client = Client(
        pages(InMemory(tally)),
        base_url="http://127.0.0.1:8000",
        headers={"authorization": f"Bearer {TOKEN}"},
    )
    address = f"/v1/surveys/{tally.survey.fingerprint}/query/count?where=age==10 and hour==4"
    data = client.get(address).json()
    require(data["confidence_level"] == 0.95)
    (row,) = data["rows"]
    return row["ci_low"], row["ci_high"]


@pytest.mark.parametrize(
    "other",
    [
        interval_of_a_cell,
        interval_of_a_table,
        interval_of_the_page,
    ],
)
def test_same_query_has_the_same_interval_everywhere(tally, other):
    assert other(tally) == pytest.approx(tally.count(CELL).confidence_interval(), rel=1e-9)


def test_interval_of_a_cdf_is_what_its_table_shows(tally):
    answers = tally.cdf("age")
    table = answers.to_arrow().to_pydict()
    assert (table["ci_low"], table["ci_high"]) == (
        pytest.approx(answers.confidence_interval()[0].tolist()),
        pytest.approx(answers.confidence_interval()[1].tolist()),
    )


def test_printed_mean_and_interval_are_inside_of_the_domain():
    survey = Survey.design({"age": Integer(0, 99, epsilon=1, within=5)})
    for seed in range(5):
        reports = survey.randomize({"age": [0, 1, 2] * 7}, randomness=Randomness.seeded(seed))
        text = str(survey.tally(reports).mean("age"))
        value, _, ends = text.partition(" (SE ")
        low, high = ends.partition(" CI ")[2].partition(")")[0].split(" to ")
        value = value.removeprefix("fewer than ").removeprefix("more than ")
        assert all(0 <= float(number) <= 99 for number in (value, low, high)), text


def test_histogram_has_no_bar_for_a_group_that_may_be_empty(regions):
    answers = regions.histogram("region")
    low, high = answers.confidence_interval()
    distinguishable = int((low > 0).sum())
    require(distinguishable == 2 and high[2] < 100)
    bars = [patch for patch in answers.plot().patches if patch.get_width() != 0]
    assert len(bars) == distinguishable


def test_table_of_means_has_no_number_for_a_group_that_may_be_empty(regions):
    values = regions.mean("age", by="region").to_arrow().to_pydict()["estimate"]
    require(all(20 < value < 40 for value in values[:2]))
    assert math.isnan(values[2])


@pytest.fixture
def plans(tally, monkeypatch):
    """The calls of the planner, which decides how queries about some attributes are answered."""
    store, calls = type(tally.store), []
    plan = store.layout_for

    @functools.wraps(plan)
    def recorded(self, *given):
        calls.append(given)
        return plan(self, *given)

    monkeypatch.setattr(store, "layout_for", recorded)
    return calls


def test_counts_of_all_cells_are_planned_together(tally, plans):
    assert (
        len(tally.count(by={"age": [0, 5, 10, 15, 20, 25, 30], "hour": [0, 2, 4, 6, 8, 10]})) == 30
    )
    assert len(plans) <= 1


def test_fractions_of_all_cells_are_planned_together(plans):
    """One plan for the sizes of the groups and one for those who meet the condition would do."""
    survey = Survey.design(
        {name: Integer(0, 5, epsilon=1, mechanism="geometric", per=1) for name in "abc"}
    )
    people = {name: np.arange(60) % 6 for name in "abc"}
    tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(1)))
    require(len(tally.fraction({"c": 1}, by=["a", "b"])) == 36)
    assert len(plans) <= 4
