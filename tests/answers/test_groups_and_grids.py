"""Tables by two attributes against counts; differences of groups against repeated randomization."""

import itertools
import math

import numpy as np
import pytest

from metricldp import Categorical, Continuous, Integer, Survey, SurveySpec
from metricldp.basics.errors import QueryError
from metricldp.mechanisms.randomness import Randomness

SURVEY = Survey.design(
    {
        "a": Integer(0, 9, epsilon=1, mechanism="geometric", per=1),
        "t": Integer(0, 9, epsilon=1, mechanism="threshold", per=1),
        "g": Categorical(["x", "y", "z"], epsilon=1.5),
        "h": Categorical(["p", "q"], epsilon=2),
        "c": Continuous(0, 10, bins=5, epsilon=1, mechanism="geometric", per=1),
    }
)


def crowd(n=3000, seed=0):
    random = np.random.default_rng(seed)
    g = random.choice(3, n, p=[0.5, 0.3, 0.2])
    return {
        "a": random.binomial(9, 0.3 + 0.15 * g),
        "t": random.integers(0, 10, n),
        "g": np.array(["x", "y", "z"])[g],
        "h": np.array(["p", "q"])[random.integers(0, 2, n)],
        "c": random.uniform(0, 10, n),
    }


def tally(seed=1, people=None, survey=SURVEY):
    return survey.tally(survey.randomize(people or crowd(), randomness=Randomness.seeded(seed)))


@pytest.mark.parametrize("target", ["respondents", "population"])
@pytest.mark.parametrize("names", [("a", "g"), ("g", "a"), ("t", "h"), ("a", "t")])
@pytest.mark.parametrize("where", [None, {"c": (0, 4)}])
def test_table_by_two_attributes_has_the_counts_of_its_groups(names, where, target):
    made = tally()
    table = made.count(where, by=names, target=target)
    values = [
        [one.name_of(k) if one.named else k for k in range(one.size)]
        for one in (SURVEY.attributes[name] for name in names)
    ]
    pairs = list(itertools.product(*values))
    asked = [{**dict(zip(names, pair, strict=True)), **(where or {})} for pair in pairs]
    counts = made.counts(asked, target=target)
    assert table.labels == pairs
    assert table.values == pytest.approx(counts.values, abs=1e-6)
    assert table.stderr == pytest.approx(counts.stderr, abs=1e-6)
    for (_, mine), (_, other) in zip(table, counts, strict=True):
        assert mine.confidence_interval(0.9) == pytest.approx(other.confidence_interval(0.9))
        assert mine.reports == made.n


def test_labels_and_questions_of_bands():
    table = tally().count({"g": "x"}, by={"a": [0, 5, 10], "c": [0, 4, 8, 10]})
    assert table.labels[:2] == [((0, 5), (0, 4)), ((0, 5), (4, 8))] and len(table) == 6
    assert table.iloc[0].question == "a 0 to 4, c 0 to 4 among g x"


def test_table_by_two_attributes_with_a_joint_mechanism():
    pair = Survey.design(
        SurveySpec(
            {"a": Integer(0, 3, epsilon=1, per=1), "b": Integer(0, 3, epsilon=1, per=1)},
            joint={("a", "b"): "hio"},
        )
    )
    people = {"a": [0, 1, 2, 3] * 50, "b": [3, 2, 1, 0] * 50}
    made = tally(people=people, survey=pair)
    assert pair.blocks
    one = made.count({"a": 2, "b": 1})
    assert made.count(by=["a", "b"])[2, 1].value == pytest.approx(one.value)


# Differences


MEASURES = {
    "count": lambda made, where=None, **how: made.count(where, by="g", **how),
    "mean": lambda made, where=None, **how: made.mean("a", where, by="g", **how),
    "fraction": lambda made, where=None, **how: made.fraction(
        {"a": (2, 5)}, among=where, by="g", **how
    ),
}


@pytest.mark.parametrize("kind", MEASURES)
def test_differences_are_those_of_the_rows(kind):
    table = MEASURES[kind](tally(), {"h": "p"})
    apart = table.differences("y")
    assert apart.labels == ["x", "z"]
    for label, difference in apart:
        assert difference.value == pytest.approx(table[label].value - table["y"].value)


@pytest.mark.parametrize("kind", MEASURES)
def test_the_error_of_a_difference_is_that_of_repeated_randomization(kind):
    """120 randomizations of the same people: a sample deviation is off by 30% once in 100,000."""
    people = crowd(1500)
    values, errors, apart = [], [], []
    for seed in range(120):
        table = MEASURES[kind](tally(seed, people))
        difference = table.differences("x")["y"]
        values.append(difference.value)
        errors.append(difference.stderr)
        apart.append(math.hypot(table["x"].stderr, table["y"].stderr))
    ratio = np.mean(errors) / np.std(values)
    assert 0.7 < ratio < 1.42
    if kind == "count":  # as if the two counts were independent
        assert np.mean(apart) / np.std(values) < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("target", ["respondents", "population"])
@pytest.mark.parametrize("kind", MEASURES)
def test_intervals_of_differences_hold(kind, target):
    """1,000 times: at most 80 of 5 % are wrong but once in a hundred thousand."""
    wrong, people = 0, crowd(3000)
    for seed in range(1000):
        if target == "population":
            people = crowd(3000, seed + 1)
        inside = np.isin(people["a"], range(2, 6))
        x, y = (people["g"] == label for label in "xy")
        truths = {
            "count": y.sum() - x.sum() if target == "respondents" else -0.2 * 3000,
            "mean": people["a"][y].mean() - people["a"][x].mean()
            if target == "respondents"
            else 9 * 0.15,
            "fraction": inside[y].mean() - inside[x].mean()
            if target == "respondents"
            else _binomial(0.45) - _binomial(0.3),
        }
        table = MEASURES[kind](tally(seed, people), target=target)
        low, high = table.differences("x")["y"].confidence_interval(0.95)
        wrong += not low <= truths[kind] <= high
    assert wrong <= 80


def _binomial(p):
    return sum(math.comb(9, k) * p**k * (1 - p) ** (9 - k) for k in range(2, 6))


def test_interval_of_a_difference_covers_all_values_in_bins():
    difference = tally().mean("c", by="g").differences("x")["y"]
    low, high = difference.confidence_interval(0.95)
    # Bins of 2: 1 off each way, in both groups.
    assert high - low > 2 * 1.96 * difference.stderr + 3.9


def test_difference_from_an_empty_group_is_only_bounded():
    table = tally(people={**crowd(300), "g": np.array(["x"] * 300)}).mean("a", by="g")
    (least, most), (low, high) = (
        table["z"].confidence_interval(0.95),
        table["x"].confidence_interval(0.95),
    )
    assert (least, most) == (0, 9), "all that is possible"
    difference = table.differences("x")["z"]
    assert difference.confidence_interval(0.95) == pytest.approx((least - high, most - low))
    assert not difference.estimable


def test_confidence_sequence_of_a_difference_of_means_is_wider():
    difference = tally().mean("a", by="g").differences("x")["y"]
    low, high = difference.confidence_interval(0.95)
    wide, wider = difference.confidence_interval(0.95, anytime=True)
    assert wide < low < high < wider


@pytest.mark.parametrize(
    ("query", "needle"),
    [
        (lambda made: made.count(by=["a", "a"]), "twice"),
        (lambda made: made.count({"g": "x"}, by=["a", "g"]), "remove it from the condition"),
        (lambda made: made.count(by=["a", "nothing"]), "no attribute"),
        (lambda made: made.count({"g": "x"}, by="g"), "remove it from the condition"),
        (lambda made: made.count(by="g").differences("nobody"), "no row 'nobody'"),
        (lambda made: made.mean("a", by="a"), "group by another one"),
        (lambda made: made.mean("g", by="h"), "names"),
    ],
)
def test_invalid_groups_are_rejected(query, needle):
    with pytest.raises(QueryError, match=needle):
        query(tally())
