"""Fits that are asked: the same questions as a tally, labelled, beside the unbiased answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from metricldp import (
    Categorical,
    Continuous,
    Integer,
    Ordinal,
    QueryError,
    Randomness,
    Survey,
    SurveySpec,
    Weight,
)
from metricldp.answers import observed
from metricldp.answers.answer import Estimate
from metricldp.answers.fitted import LABEL, OUTSIDE, Fitted
from metricldp.answers.tally import Tally
from metricldp.mechanisms.randomness import seeded
from metricldp.store.raw import Raw

N = 20_000


def people(n=N, seed=1):
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(35, 12, n), 0, 79).astype(int)
    income = np.clip(age * 1000 * rng.lognormal(0, 0.4, n), 0, 100_000)
    return {
        "age": age,
        "income": income,
        "region": rng.choice(["north", "south", "east"], n, p=[0.5, 0.3, 0.2]),
        "mood": rng.choice(["bad", "fair", "good"], n, p=[0.2, 0.5, 0.3]),
    }


def survey(**more):
    return Survey.design(
        {
            "age": Integer(0, 79, epsilon=0.2, mechanism="geometric", per=1),
            "income": Continuous(0, 100_000, bins=40, epsilon=0.3, per=2500, mechanism="geometric"),
            "region": Categorical(["north", "south", "east"], epsilon=2),
            "mood": Ordinal(["bad", "fair", "good"], epsilon=1, mechanism="threshold"),
            **more,
        }
    )


@pytest.fixture(scope="module")
def tally():
    agreed = survey()
    return agreed.tally(agreed.randomize(people(), randomness=Randomness.seeded(1)))


@pytest.fixture(scope="module")
def fit(tally):
    return tally.fit_distribution(["age", "income", "region"])


# Questions


def test_a_fit_is_a_distribution_over_its_attributes(fit):
    assert fit.attributes == ("age", "income", "region")
    assert fit.shares.shape == (80, 40, 3)
    assert fit.shares.min() >= 0
    assert fit.shares.sum() == pytest.approx(1)
    assert repr(fit) == "<Fit over age x income x region of 20,000 reports: biased, no guarantee>"


WHERE = {"age": (30, 49), "income": (20_000, None), "region": ["north", "east"]}


def test_counts_are_sums_of_cells_with_the_unbiased_interval(tally, fit):
    found, unbiased = fit.count(WHERE), tally.count(WHERE)
    assert found.value == pytest.approx(N * fit.shares[30:50, 8:, [0, 2]].sum())
    assert found.unbiased == unbiased
    assert found.confidence_interval(0.9) == unbiased.confidence_interval(0.9)
    assert found.stderr == unbiased.stderr
    assert LABEL in found.notes
    assert f"the unbiased estimate is {unbiased.value:,.0f}; {LABEL}" in str(found)
    assert fit.count().value == pytest.approx(N)
    share = fit.fraction(WHERE)
    assert share.value == pytest.approx(found.value / N)
    assert share.confidence_interval() == pytest.approx(
        tuple(end / N for end in unbiased.confidence_interval())
    )
    assert share.unbiased.value == pytest.approx(unbiased.value / N)


def test_fractions_among_a_group_are_sums_of_cells(tally, fit):
    group = {"income": (20_000, None)}
    among = fit.fraction({"age": (30, 49)}, among=group)
    cells = fit.shares[:, 8:]
    assert among.value == pytest.approx(cells[30:50].sum() / cells.sum())
    unbiased = tally.fraction({"age": (30, 49)}, among=group)
    assert among.unbiased.value == pytest.approx(unbiased.value)
    assert among.confidence_interval() == pytest.approx(unbiased.confidence_interval())
    assert LABEL in among.notes


def test_groups_are_sums_of_cells_with_the_unbiased_intervals(tally, fit):
    by = {"age": [0, 20, 50, 80]}
    counts, unbiased = (
        fit.count({"region": "south"}, by=by),
        tally.count({"region": "south"}, by=by),
    )
    south = N * fit.shares[:, :, 1].sum(axis=1)
    assert counts.values == pytest.approx([south[:20].sum(), south[20:50].sum(), south[50:].sum()])
    assert (counts.labels, counts.label) == (unbiased.labels, unbiased.label)
    assert counts.stderr == pytest.approx(unbiased.stderr)
    assert fit.fraction({"region": "south"}, by=by)[0, 20].value == pytest.approx(
        south[:20].sum() / fit.count({"age": (0, 19)}).value
    )
    for ask in (
        (lambda one, where, **by: one.sum("age", where, **by)),
        (lambda one, where, **by: one.mean("age", where, **by)),
        (lambda one, where, **by: one.quantile("age", 0.75, where, **by)),
    ):
        for region, estimate in ask(fit, None, by="region"):
            single = ask(fit, {"region": region})
            assert estimate.value == pytest.approx(single.value)
            assert estimate.confidence_interval() == single.confidence_interval()


def test_sums_and_means(tally, fit):
    profile = N * fit.shares[:, :, 1].sum(axis=1)
    total = fit.sum("age", {"region": "south"})
    assert total.value == pytest.approx(profile @ np.arange(80))
    assert (
        total.confidence_interval() == tally.sum("age", {"region": "south"}).confidence_interval()
    )
    mean = fit.mean("age", {"region": "south"})
    assert mean.value == pytest.approx(total.value / profile.sum())
    assert (
        mean.confidence_interval() == tally.mean("age", {"region": "south"}).confidence_interval()
    )
    income = fit.mean("income")
    middles = 2500 * (np.arange(40) + 0.5)
    assert income.value == pytest.approx(fit.shares.sum(axis=(0, 2)) @ middles)
    assert income.confidence_interval() == tally.mean("income").confidence_interval()
    assert any("taken at the middle of its bins" in note for note in income.notes)


def test_a_mean_of_a_group_that_is_lost_in_noise_has_an_interval_of_all_that_is_possible(
    tally, fit
):
    where = {"age": (60, 61), "income": (90_000, None), "region": "east"}
    found = fit.mean("age", where)
    assert math.isnan(found.value) and math.isnan(found.scaled(2, "half years").value)
    assert found.confidence_interval() == found.unbiased.confidence_interval() == (60, 61)
    assert "the group is estimated at" in str(found)


def test_bars_shares_and_quantiles(tally, fit):
    where = {"region": "north"}
    profile = N * fit.shares[:, :, 0].sum(axis=1)
    bars = fit.histogram("age", where, bins=4)
    assert bars.values == pytest.approx(profile.reshape(4, 20).sum(axis=1))
    unbiased = tally.histogram("age", where, bins=4)
    assert list(bars.labels) == list(unbiased.labels)
    np.testing.assert_array_equal(bars.confidence_interval(), unbiased.confidence_interval())
    assert LABEL in bars.shared_notes()
    shares = fit.cdf("age", where)
    assert shares.values == pytest.approx(np.cumsum(profile) / profile.sum())
    for simultaneous in (True, False):
        np.testing.assert_array_equal(
            shares.confidence_interval(simultaneous=simultaneous),
            tally.cdf("age", where).confidence_interval(simultaneous=simultaneous),
        )
    assert shares[3].value == pytest.approx(shares.values[3])
    half = fit.quantile("age", 0.5, where)
    assert half.value == int(np.argmax(shares.values >= 0.5))
    assert half.confidence_interval() == tally.quantile("age", 0.5, where).confidence_interval()
    assert half.unbiased.value == tally.quantile("age", 0.5, where).value
    assert "fitted, biased" in str(half)
    inside = fit.cdf("age", {"age": (20, 39)})
    part = fit.shares.sum(axis=(1, 2))[20:40]
    assert inside.values == pytest.approx(np.cumsum(part) / part.sum())


def test_workloads(tally, fit):
    found, unbiased = fit.workload("region", "values"), tally.workload("region", "values")
    assert found.values == pytest.approx(N * fit.shares.sum(axis=(0, 1)))
    assert list(found.labels) == list(unbiased.labels)
    assert found.iloc[1].unbiased == unbiased.iloc[1]
    assert LABEL in found.shared_notes()
    prefixes = fit.workload("age", "prefixes", {"region": "north"})
    profile = N * fit.shares[:, :, 0].sum(axis=1)
    assert prefixes.values[:40] == pytest.approx(np.cumsum(profile)[:40])
    assert len(prefixes.iloc[3:5]) == 2


def test_the_order_of_reports_and_of_names_changes_nothing(tally, fit):
    turned = tally.store.table.take(np.arange(N)[::-1])
    again = tally.survey.tally(turned).fit_distribution(["region", "income", "age"])
    np.testing.assert_array_equal(again.shares, fit.shares)
    bits = tally.fit_distribution("mood")
    np.testing.assert_array_equal(
        tally.survey.tally(turned).fit_distribution("mood").shares, bits.shares
    )


def test_unbiased_answers_are_what_they_were(tally):
    agreed = tally.survey
    other = agreed.tally(tally.store.table)
    before = [other.count(WHERE), other.mean("age"), other.count({"age": (3, 9)})]
    untouched = agreed.tally(tally.store.table)
    untouched.fit_distribution(["age", "income", "region"])
    after = [untouched.count(WHERE), untouched.mean("age"), untouched.count({"age": (3, 9)})]
    assert before == after
    assert [a.layout for a in before] == [a.layout for a in after]


def test_totals_have_the_same_fit(tally, fit):
    agreed = tally.survey
    totals = agreed.tally(tally.store.table, keep=[("age", "income", "region"), ("mood",)])
    np.testing.assert_array_equal(
        totals.fit_distribution(["age", "income", "region"]).shares, fit.shares
    )
    pair = totals.fit_distribution(["age", "region"])
    np.testing.assert_array_equal(pair.shares, tally.fit_distribution(["age", "region"]).shares)
    with pytest.raises(
        QueryError, match="no single reports, which mood need; tally the reports without"
    ):
        totals.fit_distribution("mood")


# Intervals


def test_note_states_that_a_fit_is_outside_of_its_interval():
    plain = Estimate(100.0, 1.0, "q")
    far = Fitted.of(200.0, plain)
    assert far.value == 200
    assert OUTSIDE in far.notes
    assert OUTSIDE not in Fitted.of(100.5, plain).notes
    with pytest.raises(QueryError, match="a confidence level is between 0 and 1"):
        far.confidence_interval(2)


# Other attributes


def test_blocks_optional_attributes_reals_and_bits_together():
    agreed = Survey.design(
        SurveySpec(
            {
                "x": Integer(0, 5, epsilon=2, per=1),
                "y": Integer(0, 6, epsilon=2, per=1),
                "bits": Integer(0, 9, epsilon=1, mechanism="threshold", per=1),
                "unary": Categorical(["a", "b", "c"], epsilon=2, mechanism="unary"),
                "maybe": Integer(0, 4, epsilon=2, optional=2, mechanism="geometric", per=1),
                "speed": Continuous(0, 10, points=6, epsilon=2, per=1, rounding="stochastic"),
            },
            joint=[["x", "y"]],
        )
    )
    rng = np.random.default_rng(4)
    n = 6000
    said = {
        "x": rng.integers(0, 3, n),
        "y": rng.integers(2, 7, n),
        "bits": rng.binomial(9, 0.4, n),
        "unary": rng.choice(list("abc"), n),
        "maybe": [None if k % 3 == 0 else int(k % 5) for k in range(n)],
        "speed": rng.uniform(0, 10, n),
    }
    tally = agreed.tally(agreed.randomize(said, randomness=seeded(3)))
    block = tally.fit_distribution("x")
    assert block.attributes == ("x", "y")
    assert block.shares.shape == (6, 7)
    mixed = tally.fit_distribution(["bits", "unary", "x"])
    assert mixed.attributes == ("bits", "unary", "x", "y")
    assert mixed.count({"x": (0, 2)}).value == pytest.approx(n, rel=0.1)
    optional = tally.fit_distribution(["maybe", "unary"])
    assert optional.attributes == ("unary", "maybe", "maybe=response")
    left = optional.count({"maybe": None})
    assert left.value == pytest.approx(n / 3, rel=0.3)
    assert optional.mean("maybe").value == pytest.approx(2, abs=0.5)
    assert tally.fit_distribution("speed").mean("speed").value == pytest.approx(5, abs=0.5)
    four = tally.fit_distribution(["bits", "unary", "speed", "x"])
    assert four.shares.shape == (10, 3, 6, 6, 7)
    assert four.count({"x": (0, 2), "bits": (0, 4), "unary": "a"}).value >= 0


# Refusals


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda t: t.fit_distribution([]), "at least one attribute"),
        (
            lambda t: t.fit_distribution(3),
            r"such as fit_distribution\(\['age', 'region'\]\), not 3",
        ),
        (
            lambda t: t.fit_distribution(["aeg"]),
            "no attribute 'aeg'; it has 'age', .*did you mean 'age'",
        ),
        (lambda t: t.fit_distribution([None]), "no attribute None"),
        (
            lambda t: t.fit_distribution("age").count({"region": "north"}),
            "'region' is not among them; name it",
        ),
        (lambda t: t.fit_distribution("age").mean("income"), "'income' is not among them"),
        (lambda t: t.fit_distribution("age").cdf("income"), "'income' is not among them"),
        (lambda t: t.fit_distribution("age").histogram("income"), "'income' is not among them"),
        (
            lambda t: t.fit_distribution("age").workload("income", "values"),
            "'income' is not among them",
        ),
        (lambda t: t.fit_distribution("age").count({"age": (5, 1)}), "age"),
        (lambda t: t.fit_distribution("region").mean("region"), "have no sum or mean"),
        (
            lambda t: t.fit_distribution("age").cdf("age").quantile(0.5, "binary-search"),
            "rises by itself",
        ),
        (lambda t: t.fit_distribution("age").quantile("age", 2), "between 0 and 1"),
    ],
)
def test_what_cannot_be_answered_is_refused(tally, ask, words):
    with pytest.raises(QueryError, match=words):
        ask(tally)


def test_weights_empty_tallies_and_huge_fits_are_refused(monkeypatch, tally):
    agreed = survey(
        w=Weight(0, 10), q=Integer(0, 2000, epsilon=1, per=1), r=Integer(0, 5000, epsilon=1, per=1)
    )
    more = {"w": [1.0] * 20, "q": [5] * 20, "r": [7] * 20}
    few = {name: column[:20] for name, column in people(20).items()} | more
    counted = agreed.tally(agreed.randomize(few, randomness=seeded(1)))
    with pytest.raises(QueryError, match="w is a weight, which has a sum and no fit; leave it out"):
        counted.fit_distribution(["age", "w"])
    with pytest.raises(
        QueryError, match="w is a weight, which has no fitted distribution; query the tally"
    ):
        counted.fit_distribution("age").sum("w")
    with pytest.raises(QueryError, match="80 x 2,001 x 5,001 has 800,560,080 cells"):
        counted.fit_distribution(["age", "q", "r"])
    empty = tally.survey.tally(tally.store.table.slice(0, 0))
    with pytest.raises(QueryError, match="there are no reports to fit"):
        empty.fit_distribution("age")
    monkeypatch.setattr(observed, "_MOST_WORK", 10)
    with pytest.raises(
        QueryError, match="20,000 reports that are not single integers over 3 cells"
    ):
        tally.fit_distribution("mood")


# Nearer to the truth


RUNS, SHARE, FALSE_ALARM = 40, 0.75, 1e-9
LEAST = int(stats.binom.ppf(FALSE_ALARM, RUNS, SHARE))
"""Where a fit is nearer to the truth with probability 0.75, so many of 40 are, but once in 10^9."""


def ages(epsilon):
    return Survey.design({"age": Integer(0, 79, epsilon=epsilon, mechanism="geometric", per=1)})


def nearer(read_as):
    """In how many runs the fit of a count is nearer than the unbiased answer."""
    agreed, found = ages(0.2), 0
    for seed in range(RUNS):
        said = people(100_000, seed)["age"]
        truth = ((said >= 30) & (said <= 39)).sum()
        tally = agreed.tally(agreed.randomize({"age": said}, randomness=seeded(seed)))
        read = Tally(Raw(read_as, tally.store.table)).fit_distribution("age")
        fit, unbiased = read.count({"age": (30, 39)}), tally.count({"age": (30, 39)})
        found += abs(fit.value - truth) < abs(unbiased.value - truth)
    return found


def test_fits_are_nearer_to_the_truth():
    assert nearer(ages(0.2)) >= LEAST


def test_a_fit_that_takes_the_noise_for_smaller_is_not():
    assert nearer(ages(1)) < LEAST


def test_fit_of_a_group_that_may_be_empty_is_not_shown():
    survey = Survey.design(
        {
            "group": Categorical(["a", "b", "c"], epsilon=2),
            "x": Integer(1, 6, epsilon=1, mechanism="geometric", per=1),
        }
    )
    data = {"group": ["a", "b"] * 250, "x": list(range(1, 6)) * 100}
    tally = survey.tally(survey.randomize(data, randomness=Randomness.seeded(3)))
    fit, empty = tally.fit_distribution(["group", "x"]), "group == 'c'"
    for found in (fit.mean("x", empty), fit.quantile("x", 0.5, empty)):
        assert not found.estimable and math.isnan(found.value)
        assert found.to_dict()["estimate"] is None
        assert str(found).startswith("cannot be estimated: the group is not distinguishable")
    assert np.isnan(fit.cdf("x", empty).values).all()
    assert str(fit.count(by="group")).count(LABEL) == 1
