"""Pools: what is added, and what means different things and is rejected."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from crowd_sums import tallies as drawn_tallies
from scipy import stats

from metricldp import (
    Categorical,
    Continuous,
    Estimate,
    Integer,
    Ordinal,
    Pool,
    QueryError,
    Randomness,
    Survey,
    Weight,
    pool,
)
from metricldp.answers.answer import normal_reach
from metricldp.answers.queries import parse
from metricldp.answers.ratio import Ratio
from metricldp.attributes.meaning import meaning

WHERE = {"age": (18, 29)}


def tallied(survey, people, seed):
    return survey.tally(survey.randomize(people, randomness=Randomness.seeded(seed)))


def surveys():
    """The same attributes, promised and blurred in different ways."""
    names = ["north", "south"]
    return [
        Survey.design(
            {
                "age": Integer(0, 99, epsilon=1, per=5, mechanism="geometric"),
                "region": Categorical(names, epsilon=2),
                "income": Continuous(0, 100, bins=10, epsilon=1, per=20, mechanism="geometric"),
            }
        ),
        Survey.design(
            {
                "region": Categorical(names, epsilon=1, mechanism="unary"),
                "income": Continuous(0, 100, bins=20, epsilon=2, per=20, mechanism="threshold"),
                "age": Integer(0, 99, epsilon=3, per=5, mechanism="threshold"),
            }
        ),
    ]


def crowd(n, seed):
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(15, 60, n),
        "region": rng.choice(["north", "south"], n, p=[0.3, 0.7]),
        "income": rng.uniform(0, 100, n),
    }


@pytest.fixture(scope="module")
def both():
    return [tallied(s, crowd(n, n), n) for s, n in zip(surveys(), (6000, 3000), strict=True)]


# All respondents together ------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["respondents", "population"])
def test_counts_and_variances_add_up(both, target):
    asked = [
        (lambda one: one.count({**WHERE, "region": "north"}, target=target)),
        (lambda one: one.sum("age", WHERE, target=target)),
        (lambda one: one.sum("income", {"region": "south"}, target=target)),
        (lambda one: one.histogram("region", WHERE, target=target)["south"]),
        (lambda one: one.histogram("income", bins=10, target=target)[20, 30]),
    ]
    for ask in asked:
        found, parts = ask(pool(both)), [ask(tally) for tally in both]
        assert found.value == pytest.approx(sum(one.value for one in parts))
        assert found.variance == pytest.approx(sum(one.variance for one in parts))
        assert found.stderr == pytest.approx(math.hypot(*(one.stderr for one in parts)))
        assert found.jump == max(one.jump for one in parts)
        assert found.reports == 9000
        assert found.target == target
        low, high = found._interval(method="normal")
        assert low < found.value < high
        widest = max(np.ptp(one.poisoning_bounds(3)) for one in parts)
        assert np.ptp(found.poisoning_bounds(3)) == pytest.approx(widest)


def test_shares_and_means_are_of_all(both):
    together = pool(both)
    assert isinstance(together, Pool)
    assert together.n == 9000
    assert repr(together) == "<Pool of 2 tallies with 9,000 reports>"
    whole = together.fraction(WHERE)
    assert whole.value == pytest.approx(together.count(WHERE).value / 9000)
    assert whole.unit == "of respondents"
    one, two = (tally.mean("age", {"region": "north"}) for tally in both)
    found = together.mean("age", {"region": "north"})
    assert isinstance(found, Ratio)
    size = one.denominator + two.denominator
    expected = (one.value * one.denominator + two.value * two.denominator) / size
    assert found.value == pytest.approx(expected)
    assert found.denominator == pytest.approx(size)


def test_groups_of_a_pool_are_queries_with_the_group_as_condition(both):
    together = pool(both)
    for ask in (
        (lambda one, where, **by: one.count(where, **by)),
        (lambda one, where, **by: one.sum("age", where, **by)),
        (lambda one, where, **by: one.mean("age", where, **by)),
        (lambda one, where, **by: one.fraction("age < 30", among=where, **by)),
    ):
        table = ask(together, None, by="region")
        assert (table.labels, table.label) == (
            ["north", "south"],
            ask(both[0], None, by="region").label,
        )
        for region, estimate in table:
            single = ask(together, {"region": region})
            assert estimate.value == pytest.approx(single.value)
            assert estimate.stderr == pytest.approx(single.stderr)
            assert estimate.n == 9000
        bands = ask(together, "region == 'north'", by={"income": [0, 50, 100]})
        assert bands.labels == [(0, 50), (50, 100)]
        expected = ask(together, {"region": "north", "income": (50, 100)})
        assert bands[50, 100].value == pytest.approx(expected.value)
    counts = together.count(by="region")
    apart = counts["north"] - counts["south"]
    assert counts.differences()["north"].value == pytest.approx(apart.value)
    assert counts.differences()["north"].stderr == pytest.approx(apart.stderr)


def test_groups_that_differ_between_the_surveys_of_a_pool_are_rejected(both):
    with pytest.raises(QueryError, match=r"bar 1 of income means .* and .* in tally 2"):
        pool(both).count(by="income")
    with pytest.raises(QueryError, match="region defines the groups"):
        pool(both).fraction("region == 'north'", by="region")
    with pytest.raises(QueryError, match="group by another one"):
        pool(both).sum("age", by="age")
    with pytest.raises(QueryError, match="needs a condition"):
        pool(both).fraction(by="region")


def test_shares_and_means_of_a_population_have_its_error(both):
    single = tallied(surveys()[0], crowd(1, 1), 1)
    share = pool(both).fraction(WHERE, target="population")
    counts = [tally.count(WHERE, target="population").variance for tally in both]
    assert share.variance == pytest.approx(sum(counts) / 9000**2)
    mean = pool(both).mean("age", target="population")
    parts = [tally.mean("age", target="population") for tally in both]
    for part in ("numerator_variance", "shared", "numerator"):
        assert getattr(mean, part) == pytest.approx(sum(getattr(one, part) for one in parts))
    assert mean.stderr > pool(both).mean("age").stderr
    with pytest.raises(QueryError, match=r"tally 3 .*: one report is not enough"):
        pool([*both, single]).mean("age", target="population")
    assert pool([*both, single]).mean("age").denominator == 9001
    assert (
        pool([single]).fraction({"region": "north"}).value
        == single.fraction({"region": "north"}).value
    )


def test_one_tally_alone_answers_as_it_does_itself(both):
    alone, tally = pool(both[1:]), both[1]
    assert alone.count(WHERE) == tally.count(WHERE)
    mean, expected = alone.mean("age", WHERE), tally.mean("age", WHERE)
    assert mean.value == pytest.approx(expected.value)
    assert mean.confidence_interval() == pytest.approx(expected.confidence_interval())


def test_sums_take_bins_that_differ(both):
    """And an attribute in bins together with whole numbers, whose values are no question."""
    found = pool(both).sum("income")
    parts = [tally.sum("income") for tally in both]
    for side in (0, 1):
        edge = [one.between[side].value for one in parts]
        assert found.between[side].value == pytest.approx(sum(edge))
    whole = Survey.design({"income": Integer(0, 100, epsilon=1, per=10, mechanism="geometric")})
    people = {"income": np.arange(2000) % 101}
    mixed = pool([both[0], tallied(whole, people, 5)]).sum("income")
    edges = [parts[0].between[k].value for k in (0, 1)]
    rest = tallied(whole, people, 5).sum("income").value
    assert [one.value for one in mixed.between] == pytest.approx([edge + rest for edge in edges])


def test_weights_and_rounded_values_are_added():
    first = Survey.design(
        {
            "x": Continuous(0, 10, points=6, epsilon=1, per=1, rounding="stochastic"),
            "w": Weight(0, 5),
        }
    )
    second = Survey.design(
        {
            "x": Continuous(0, 10, points=11, epsilon=2, rounding="stochastic", per=1),
            "w": Weight(0, 5, private=True, epsilon=2),
        }
    )
    rng = np.random.default_rng(1)
    parts = []
    for seed, survey in enumerate((first, second)):
        low = 5 * seed  # groups that differ
        people = {"x": rng.uniform(low, low + 5, 4000), "w": rng.uniform(0, 5, 4000)}
        parts.append(tallied(survey, people, seed))
    found = pool(parts).sum("w")
    assert found.value == pytest.approx(sum(tally.sum("w").value for tally in parts))
    mean = pool(parts).mean("x")
    # The variance of what values are above the mean of all, not above that of each group.
    exact = 0.0
    for tally in parts:
        values, _ = tally.survey.attributes["x"].numbers("x")
        rest = tally.profile("x", parse(tally.survey, None, "x"), [values - mean.value], [""])
        exact += rest[0].variance
    assert mean.stderr**2 * mean.denominator**2 == pytest.approx(exact)
    assert abs(mean.value - 5) < 5 * mean.stderr


def test_a_tally_without_reports_adds_nothing(both):
    empty = surveys()[0].tally([])
    assert pool([*both, empty]).mean("age").value == pool(both).mean("age").value
    assert pool([*both, empty]).count(WHERE).value == pool(both).count(WHERE).value
    for ask in (lambda: pool([empty]).fraction(WHERE), lambda: pool([empty]).mean("age")):
        with pytest.raises(QueryError, match="no reports"):
            ask()
    assert pool([empty]).count(WHERE).value == 0


# Coverage ----------------------------------------------------------------------------------------

AGES = np.arange(30)
FIRST = Survey.design({"age": Integer(0, 29, epsilon=0.5, mechanism="geometric", per=1)})
SECOND = Survey.design({"age": Integer(0, 29, epsilon=1, mechanism="threshold", per=1)})
LAW = np.exp(-((AGES - 12) ** 2) / 60) / np.exp(-((AGES - 12) ** 2) / 60).sum()
SIZES = (1500, 900)


def pools(reps, seed, *, drawn):
    """People of one population, drawn anew each time or the same ones again, and their pool."""
    rng = np.random.default_rng(seed)
    found, held = [], []
    for survey, n in zip((FIRST, SECOND), SIZES, strict=True):
        if drawn:
            counts = rng.multinomial(n, LAW, reps)
        else:
            counts = np.repeat(rng.multinomial(n, LAW, 1), reps, axis=0)
        people = [((int(age),), counts[:, age]) for age in AGES]
        found.append(list(drawn_tallies(survey, people, reps, rng)))
        held.append(counts[0])
    return [pool(some) for some in zip(*found, strict=True)], sum(held)


def coverage(reps, seed):
    """How often each kind of interval holds the truth, of `reps` repetitions."""
    held = {}

    def note(name, answers, truth):
        ends = [one.confidence_interval(0.95) for one in answers]
        held[name] = sum(low <= truth <= high for low, high in ends)

    where, inside = {"age": (8, 15)}, (AGES >= 8) & (AGES <= 15)
    same, people = pools(reps, seed, drawn=False)
    note("count", [one.count(where) for one in same], people[inside].sum())
    mean = people @ AGES / people.sum()
    note("mean", [one.mean("age") for one in same], mean)
    fresh, _ = pools(reps, seed + 1, drawn=True)
    shares = [one.fraction(where, target="population") for one in fresh]
    note("share of a population", shares, LAW[inside].sum())
    means = [one.mean("age", target="population") for one in fresh]
    note("mean of a population", means, LAW @ AGES)
    bars = [one.histogram("age", bins=3, target="population").iloc[1] for one in fresh]
    note("bar of a population", bars, LAW[10:20].sum() * sum(SIZES))
    return held


def test_intervals_hold_as_often_as_they_say():
    """200 runs: a good interval of 94 to 96 % fails here once in a million tests."""
    reps = 200
    held = coverage(reps, 11)
    tail = 1e-6 / (2 * len(held))
    for name, times in held.items():
        assert stats.binom.cdf(times, reps, 0.94) > tail, (name, times)
        assert stats.binom.sf(times - 1, reps, 0.96) > tail, (name, times)


@pytest.mark.slow
def test_intervals_hold_as_often_as_they_say_in_2000_runs():
    """Between 94 and 96 %: an exact 95 % fails with a chance of 4 % for each of the five.

    The seed was fixed before the first run.
    """
    reps = 2000
    held = coverage(reps, 2026)
    assert all(0.94 <= times / reps <= 0.96 for times in held.values()), held


def test_intervals_from_one_error_would_not_hold():
    """The broken twin: as if the second survey had no error of its own."""
    reps = 200
    same, people = pools(reps, 11, drawn=False)
    inside = (AGES >= 8) & (AGES <= 15)
    held = 0
    for one in same:
        whole, part = one.count({"age": (8, 15)}), one.tallies[1].count({"age": (8, 15)})
        off = abs(whole.value - people[inside].sum())
        held += off <= normal_reach(0.95) * part.stderr
    assert stats.binom.cdf(held, reps, 0.94) < 1e-6


# What words mean ---------------------------------------------------------------------------------


def one_of(attribute, n=50):
    """A tally of people who all have the first value."""
    blurred = replace(
        attribute, mechanism="geometric" if attribute.ordered else "randomized-response"
    )
    return tallied(Survey.design({"x": blurred}), {"x": [attribute.values_at(0)[0]] * n}, 1)


BINS = Continuous(0, 100, bins=10, epsilon=1, per=20)
FINER = Continuous(0, 100, bins=20, epsilon=1, per=20)
OTHER = Continuous(0, 100, bins=8, epsilon=1, per=20)
PLACED = Continuous(edges=[0, 10, 30, 50, 100], epsilon=1, per=20)


@pytest.mark.parametrize(
    ("one", "other", "asked", "words"),
    [
        (BINS, OTHER, (20, 50), "tally 2 .* 20 lies between the edges 12.5 and 25"),
        (BINS, PLACED, (20, 50), "tally 2 .* 20 lies between the edges 10 and 30"),
        (FINER, BINS, (45, 50), "tally 2 .* 45 lies between the edges 40 and 50"),
        (
            Integer(0, 9, epsilon=1, per=1),
            Integer(3, 20, epsilon=1, per=1),
            (1, 8),
            "1 to 8 in .* and 3 to 8",
        ),
        (
            Integer(0, 9, epsilon=1, per=1),
            Integer(0, 20, epsilon=1, per=1),
            (5, 12),
            "5 to 9 in .* and 5 to 12",
        ),
        (Integer(0, 100, epsilon=1, per=1), BINS, (20, 50), "whole numbers and bins"),
        (
            Continuous(0, 10, points=6, epsilon=1, rounding="stochastic", per=1),
            Continuous(0, 10, points=11, epsilon=1, per=1, rounding="stochastic"),
            (2, 6),
            "fades",
        ),
        (
            Continuous(0, 100, points=6, epsilon=1, rounding="stochastic", per=1),
            BINS,
            (20, 50),
            "points and bins",
        ),
        (
            Continuous(0, 10, points=6, epsilon=1, per=1, rounding="stochastic"),
            Continuous(0, 20, points=11, epsilon=1, per=1, rounding="stochastic"),
            (2, 10),
            "to 4 in .*out from",
        ),
        (
            Continuous(0, 1, bins=2, epsilon=1, per=1),
            Continuous(edges=[0, 0.500001, 1], epsilon=1, per=1),
            (0, 0.5),
            "tally 2 .* 0.5 lies between the edges 0 and 0.500001",
        ),
        (
            Ordinal(["low", "mid", "high"], epsilon=1),
            Ordinal(["low", "middling", "mid", "high"], epsilon=1),
            ("low", "mid"),
            "x means low, mid in .* and low, middling, mid in .*list the values",
        ),
        (
            Categorical(["a", "b"], epsilon=1),
            Categorical(["b", "c"], epsilon=1),
            "a",
            "tally 2 .*: x has no value 'a'",
        ),
    ],
    ids=str,
)
def test_words_that_mean_different_things_are_refused(one, other, asked, words):
    tallies = [one_of(one), one_of(other)]
    together = pool(tallies)
    asks = [together.count, together.fraction]
    if not one.named and not other.named:
        asks += [partial(ask, "x") for ask in (together.sum, together.mean)]
    for ask in asks:
        with pytest.raises(QueryError, match=words) as refused:
            ask({"x": asked})
        for tally in tallies[1:]:
            assert tally.survey.fingerprint[:16] in str(refused.value)


@pytest.mark.parametrize(
    ("one", "other", "asked"),
    [
        (BINS, FINER, (20, 50)),
        (BINS, PLACED, (30, None)),
        (BINS, OTHER, (50, 100)),
        (
            Continuous(0, 1, bins=10, epsilon=1, per=1),
            Continuous(0, 1, bins=20, epsilon=1, per=1),
            (0.3, 0.7),
        ),
        (
            Continuous(-0.7, 0.7, bins=14, epsilon=1, per=1),
            Continuous(-0.7, 0.7, bins=28, epsilon=1, per=1),
            (0, 0.3),
        ),
        (Integer(0, 99, epsilon=1, per=1), Integer(0, 120, epsilon=2, per=1), (60, None)),
        (Integer(0, 99, epsilon=1, per=1), Integer(-5, 50, epsilon=2, per=1), (None, 20)),
        (Integer(0, 9, epsilon=1, per=1), Integer(2, 8, epsilon=2, per=1), [3, 5]),
        (
            Integer(0, 23, epsilon=1, per=1, cyclic=True),
            Integer(0, 23, epsilon=1, per=1),
            [22, 23, 0],
        ),
        (
            Continuous(0, 10, points=6, epsilon=1, per=1, rounding="stochastic"),
            Continuous(0, 10, points=6, epsilon=3, rounding="stochastic", per=1),
            (2, 6),
        ),
        (
            Continuous(0, 10, points=6, epsilon=1, rounding="stochastic", per=1),
            Continuous(0, 20, points=11, epsilon=3, per=1, rounding="stochastic"),
            (5, 7),
        ),
        (Categorical(["a", "b"], epsilon=1), Ordinal(["b", "c", "a"], epsilon=1), ["a", "b"]),
    ],
    ids=str,
)
def test_words_that_mean_the_same_are_taken(one, other, asked):
    tallies = [one_of(one), one_of(other)]
    found = pool(tallies).count({"x": asked})
    assert found.value == pytest.approx(sum(tally.count({"x": asked}).value for tally in tallies))


def test_bars_have_to_agree():
    together = pool([one_of(BINS), one_of(FINER)])
    assert len(together.histogram("x", bins=10)) == 10
    assert len(together.histogram("x", bins=5)) == 5
    with pytest.raises(QueryError, match=r"bar 1 of x means 0 to 10 in .* and 0 to 5 in"):
        together.histogram("x")
    longer = pool(
        [one_of(Integer(0, 9, epsilon=1, per=1)), one_of(Integer(0, 12, epsilon=1, per=1))]
    )
    with pytest.raises(QueryError, match=r"x has 10 bars in tally 1 .* and more in tally 2"):
        longer.histogram("x")
    shorter = pool(
        [one_of(Integer(0, 9, epsilon=1, per=1)), one_of(Integer(0, 8, epsilon=1, per=1))]
    )
    with pytest.raises(QueryError, match=r"bar 2 of x means 5 to 9 in .* and 5 to 8 in"):
        shorter.histogram("x", bins=[0, 5, 10])


def test_counts_take_attributes_that_are_optional_in_one_survey():
    must, may = Integer(0, 9, epsilon=1, per=1), Integer(0, 9, epsilon=1, optional=2, per=1)
    together = pool([one_of(must), one_of(may)])
    assert together.count({"x": (0, 5)}).value > 0
    with pytest.raises(QueryError, match="tally 1"):
        together.count({"x": None})
    assert pool([one_of(may)]).count({"x": None}).value < 50


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda b: pool([]), "pool takes a list of tallies, and there is none"),
        (lambda b: pool(b[0]), "pool takes a list of tallies, not <Tally"),
        (lambda b: pool([b[0], 3]), "tally 2 of pool is 3, not a tally"),
        (lambda b: pool([b[0], b[0]]), "tallies 1 and 2 have reports in common"),
        (lambda b: pool(b).count({"aeg": 3}), r"tally 1 \(survey .*no attribute 'aeg'"),
        (lambda b: pool(b).sum("aeg"), r"tally 1 \(survey .*no attribute 'aeg'"),
        (lambda b: pool(b).sum("region"), "its values are names"),
        (lambda b: pool(b).count(target="nobody"), "target is"),
    ],
)
def test_mistakes_are_told(both, ask, words):
    with pytest.raises(QueryError, match=words):
        ask(both)


def test_meanings_know_their_words():
    age = Integer(0, 99, epsilon=1, per=1)
    for asked, words in (
        ((18, 29), "18 to 29"),
        ((60, None), "60 and up"),
        ([3, 5, 6], "3 and 5 to 6"),
        ((None, None), "anything"),
        ([3, 98, 99], "3 and 98 to 99"),
    ):
        assert meaning(age, age.choose(asked, "age"), asked).words == words


def test_answers_are_answers(both):
    assert isinstance(pool(both).count(WHERE), Estimate)
    assert pool(both).count(WHERE).to_dict()["estimate"] == pool(both).count(WHERE).value
