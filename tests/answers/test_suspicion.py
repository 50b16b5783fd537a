"""The alarm: its bounds by enumeration, its false alarms by simulation, fakes to be caught."""

import math
import sys
from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy import stats

from metricldp import Categorical, Integer, QueryError, Randomness, Survey, SurveySpec
from metricldp.answers.suspicion import least_divergence
from metricldp.reports.bytes import pack

pytestmark = pytest.mark.filterwarnings("ignore::metricldp.SeededRandomnessWarning")


def law_of_counts(people):
    """The exact law of the counts of independent reports, one from each row of probabilities."""
    law = Counter({(0,) * len(people[0]): 1.0})
    for row in people:
        after = Counter()
        for counts, chance in law.items():
            for y, p in enumerate(row):
                after[tuple(c + (k == y) for k, c in enumerate(counts))] += chance * p
        law = after
    return law


def divergence(counts, expected):
    n = sum(counts)
    return sum(c * math.log(c / (n * p)) for c, p in zip(counts, expected, strict=True) if c)


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_of_all_reports_together_by_enumeration(seed):
    """Of people with different laws: generating function and tail, at every value that occurs."""
    rng = np.random.default_rng(seed)
    k = 3 + seed % 2
    rows = rng.dirichlet(np.full(k, 0.7), size=3)
    people = [rows[who] for who in rng.integers(0, 3, 7)]
    law = law_of_counts(people)
    told = {counts: divergence(counts, np.mean(people, axis=0)) for counts in law}
    for power in (0.1, 0.5, 0.9):
        mean = sum(p * math.exp(power * told[counts]) for counts, p in law.items())
        assert mean <= (1 - power) ** -(k - 1)
    for x in told.values():
        if x > k - 1:
            tail = sum(p for counts, p in law.items() if told[counts] >= x)
            assert tail <= math.exp(-x) * (math.e * x / (k - 1)) ** (k - 1)


def test_no_people_are_nearer_than_the_least_divergence():
    """Below that of every theta of a fine grid, and hardly so."""
    rng = np.random.default_rng(2)
    chances = rng.dirichlet(np.ones(5), size=3).T
    seen = np.array([400.0, 20, 30, 150, 7])
    grid = [(a, b, 100 - a - b) for a, b in product(range(101), repeat=2) if a + b <= 100]
    expected = [chances @ (np.array(theta) / 100) for theta in grid]
    nearest = min(divergence(seen, one) for one in expected)
    found = least_divergence(seen, chances)
    assert nearest * 0.99 < found <= nearest
    honest = 1000 * chances @ [0.2, 0.5, 0.3]
    assert least_divergence(honest, chances) == pytest.approx(0, abs=1e-4)


MECHANISMS = (
    *("geometric", "tight-constraints", "randomized-response"),
    *("threshold", "unary", "additive"),
)


def survey_with(mechanism):
    return Survey.design({"x": Integer(0, 9, epsilon=1, mechanism=mechanism, per=1)})


def crowds(rng, n):
    """All at one value, at both ends, spread, heaped: the corners are where alarms would be."""
    yield np.full(n, rng.integers(10))
    yield rng.choice([0, 9], n)
    yield rng.integers(0, 10, n)
    yield rng.choice(10, n, p=rng.dirichlet(np.full(10, 0.2)))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_honest_people_raise_no_alarm_too_often(mechanism):
    """At a rate of 0.2 over 100 crowds of any kind; more than 38 have a chance of 1e-5."""
    survey, rng, alarms = survey_with(mechanism), np.random.default_rng(7), 0
    for seed in range(25):
        for people in crowds(rng, 300):
            randomness = Randomness.seeded(1000 * seed + int(people.sum()) % 997)
            alarms += (
                survey.tally(survey.randomize({"x": people}, randomness=randomness))
                .goodness_of_fit_test()
                .alarm(0.2)
            )
    assert stats.binom.sf(alarms - 1, 100, 0.2) > 1e-5, alarms


@pytest.mark.parametrize(
    ("mechanism", "fake"),
    [
        ("geometric", [3]),
        ("tight-constraints", [3, 7]),
        ("randomized-response", [3]),
        ("additive", [5]),
        ("threshold", [0b000000001]),
        ("unary", [0b0111111111]),
    ],
)
def test_fakes_that_no_people_send_are_caught(mechanism, fake):
    """A third of 6,000 reports are one and the same: the broken twin of the crowds above."""
    survey, rng = survey_with(mechanism), np.random.default_rng(8)
    people = rng.integers(0, 10, 4000)
    honest = list(pack(survey, survey.randomize({"x": people}, randomness=Randomness.seeded(9))))
    body = -(-survey.report_bits // 8)
    lies = [honest[0][:17] + fake[k % len(fake)].to_bytes(body, "little") for k in range(2000)]
    found = survey.tally(honest + lies).goodness_of_fit_test()
    assert survey.tally(honest).goodness_of_fit_test().pvalue > 1e-3
    assert found.alarm(1e-6), str(found)
    assert "could not have produced" in str(found)
    assert found.to_dict()["attributes"][0]["attribute"] == "x"


def test_liars_who_imitate_people_are_not_seen():
    """They send what some people send honestly; only `moved_by` bounds them."""
    survey, rng = survey_with("geometric"), np.random.default_rng(3)
    people = rng.integers(0, 4, 4000)
    lied = np.concatenate([people, np.full(4000, 9)])
    tally = survey.tally(survey.randomize({"x": lied}, randomness=Randomness.seeded(4)))
    found = tally.goodness_of_fit_test()
    assert not found.alarm(0.2)
    verdict = "no evidence of impossible reports; consistent false responses cannot be detected"
    assert str(found).endswith(f"8,000 reports: {verdict}")


def test_pvalue_is_positive_and_printed_as_a_bound():
    survey = survey_with("geometric")
    found = survey.tally([survey.report({"x": 3})] * 20_000).goodness_of_fit_test()
    assert found.parts[0].pvalue == found.pvalue == found.to_dict()["pvalue"] == sys.float_info.min
    assert "  less than 1e-12  report " in str(found)


def test_blocks_several_attributes_and_what_has_no_test():
    survey = Survey.design(
        SurveySpec(
            {
                "a": Integer(0, 3, epsilon=1, per=1),
                "b": Integer(0, 3, epsilon=1, per=1),
                "c": Categorical(["x", "y"], epsilon=1),
                "d": Categorical(["x", "y", "z"], epsilon=1, mechanism="subset"),
            },
            joint={("a", "b"): "tight-constraints"},
        )
    )
    rng = np.random.default_rng(5)
    people = {name: rng.integers(0, 4, 3000) for name in "ab"}
    people |= {name: rng.choice(["x", "y"], 3000) for name in "cd"}
    found = survey.tally(
        survey.randomize(people, randomness=Randomness.seeded(1))
    ).goodness_of_fit_test()
    assert {part.attribute for part in found.parts} == {"a+b", "c"}
    assert found.untested == ("d",)
    assert not found.alarm()
    kept = survey.tally(
        survey.randomize(people, randomness=Randomness.seeded(2)), keep=[["c"]]
    ).goodness_of_fit_test()
    assert [part.attribute for part in kept.parts] == ["c"]
    assert survey.tally([]).goodness_of_fit_test().pvalue == 1
    with pytest.raises(QueryError, match="a false-alarm rate"):
        found.alarm(0)
