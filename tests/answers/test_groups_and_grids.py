"""Heat maps against single counts; differences of groups against repeated blurring."""

import math

import numpy as np
import pytest

from metricldp import Categorical, Continuous, Integer, Survey
from metricldp.answers.differences import groups, mean_of, share_of
from metricldp.answers.grids import grid
from metricldp.basics.errors import QueryError
from metricldp.coins.stream import Coins

SURVEY = Survey(
    {
        "a": Integer(0, 9, epsilon=1, mechanism="geometric"),
        "t": Integer(0, 9, epsilon=1, mechanism="threshold"),
        "g": Categorical(["x", "y", "z"], epsilon=1.5),
        "h": Categorical(["p", "q"], epsilon=2),
        "c": Continuous(0, 10, bins=5, epsilon=1, mechanism="geometric"),
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
    return survey.tally(survey.encode(people or crowd(), coins=Coins.seeded(seed)))


@pytest.mark.parametrize("about", ["respondents", "population"])
@pytest.mark.parametrize("names", [("a", "g"), ("g", "a"), ("t", "h"), ("a", "t")])
@pytest.mark.parametrize("where", [None, {"c": (0, 4)}])
def test_a_grid_is_its_counts(names, where, about):
    made = tally()
    found = grid(made, names, where, widths=(None, None), about=about)
    values = [
        [one.name_of(k) if one.named else k for k in range(one.size)]
        for one in (SURVEY.attributes[name] for name in names)
    ]
    asked = [{names[0]: x, names[1]: y, **(where or {})} for x in values[0] for y in values[1]]
    counts = made.counts(asked, about=about)
    assert found.shape == (len(values[0]), len(values[1]))
    assert found.values == pytest.approx(counts.values, abs=1e-6)
    assert found.stderr == pytest.approx(counts.stderr, abs=1e-6)
    for mine, other in zip(found, counts, strict=True):
        assert mine.interval(0.9, "normal") == pytest.approx(other.interval(0.9, "normal"))
        assert mine.reports == made.n


def test_wide_bars_and_words():
    found = grid(tally(), ("a", "c"), {"g": "x"}, widths=(5, 4))
    assert found.rows == ("0 to 4", "5 to 9") and len(found.columns) == 3
    assert found[0].question == "a 0 to 4, c 0 to 4 among g x"


def test_a_grid_of_attributes_that_are_blurred_together():
    pair = Survey(
        {"a": Integer(0, 3, epsilon=1), "b": Integer(0, 3, epsilon=1)},
        joint={("a", "b"): "hio"},
    )
    people = {"a": [0, 1, 2, 3] * 50, "b": [3, 2, 1, 0] * 50}
    made = tally(people=people, survey=pair)
    found = grid(made, ("a", "b"))
    assert pair.blocks
    one = made.count({"a": 2, "b": 1})
    assert found["a 2, b 1"].value == pytest.approx(one.value)


@pytest.mark.parametrize(
    ("names", "where", "said"),
    [
        (("a", "a"), None, "two attributes"),
        (("a", "g"), {"g": "x"}, "leave it out of where"),
        (("a", "nothing"), None, "has no attribute"),
    ],
)
def test_grids_that_cannot_be(names, where, said):
    with pytest.raises(QueryError, match=said):
        grid(tally(), names, where)


# Differences


MEASURES = {
    "people": lambda made: None,
    "mean": lambda made: mean_of(made, "a"),
    "share": lambda made: share_of(made, {"a": (2, 5)}),
}


def test_differences_are_what_they_are_called():
    made = tally()
    for make in MEASURES.values():
        found = groups(made, "g", {"h": "p"}, measure=make(made), against="y")
        assert found.differences[1] is None
        for one, other in ((0, 1), (2, 1)):
            apart = found.differences[one]
            assert apart.value == pytest.approx(
                found.answers[one].value - found.answers[other].value
            )
    counts = groups(made, "g")
    for label, one in zip(counts.labels, counts.answers, strict=True):
        assert one.value == pytest.approx(made.count({"g": label}).value)
    means = groups(made, "g", measure=mean_of(made, "a"))
    for label, one in zip(means.labels, means.answers, strict=True):
        single = made.mean("a", {"g": label})
        assert (one.value, one.stderr) == pytest.approx((single.value, single.stderr))


@pytest.mark.parametrize("kind", MEASURES)
def test_the_error_of_a_difference_is_that_of_repeated_blurring(kind):
    """120 blurrings of the same people: a sample deviation is off by 30 % once in 100,000."""
    people = crowd(1500)
    values, errors, apart = [], [], []
    for seed in range(120):
        made = tally(seed, people)
        found = groups(made, "g", measure=MEASURES[kind](made))
        values.append(found.differences[1].value)
        errors.append(found.differences[1].stderr)
        apart.append(math.hypot(found.answers[0].stderr, found.answers[1].stderr))
    ratio = np.mean(errors) / np.std(values)
    assert 0.7 < ratio < 1.42
    if kind == "people":  # as if the two counts had nothing in common
        assert np.mean(apart) / np.std(values) < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("about", ["respondents", "population"])
@pytest.mark.parametrize("kind", MEASURES)
def test_intervals_of_differences_hold(kind, about):
    """1,000 times: at most 80 of 5 % are wrong but once in a hundred thousand."""
    wrong, people = 0, crowd(3000)
    for seed in range(1000):
        if about == "population":
            people = crowd(3000, seed + 1)
        inside = np.isin(people["a"], range(2, 6))
        x, y = (people["g"] == label for label in "xy")
        truths = {
            "people": y.sum() - x.sum() if about == "respondents" else -0.2 * 3000,
            "mean": people["a"][y].mean() - people["a"][x].mean()
            if about == "respondents"
            else 9 * 0.15,
            "share": inside[y].mean() - inside[x].mean()
            if about == "respondents"
            else _binomial(0.45) - _binomial(0.3),
        }
        made = tally(seed, people)
        found = groups(made, "g", measure=MEASURES[kind](made), about=about)
        low, high = found.differences[1].interval(0.95)
        wrong += not low <= truths[kind] <= high
    assert wrong <= 80


def _binomial(p):
    return sum(math.comb(9, k) * p**k * (1 - p) ** (9 - k) for k in range(2, 6))


def test_bins_leave_a_difference_open():
    made = tally()
    found = groups(made, "g", measure=mean_of(made, "c"))
    low, high = found.differences[1].interval(0.95)
    error = found.differences[1].stderr
    assert high - low > 2 * 1.96 * error + 3.9  # bins of 2: 1 off each way, in both groups


def test_of_nobody_nothing_is_known():
    people = {**crowd(300), "g": np.array(["x"] * 300)}
    made = tally(people=people)
    found = groups(made, "g", measure=mean_of(made, "a"))
    (least, most), (low, high) = found.answers[2].interval(0.95), found.answers[0].interval(0.95)
    assert (least, most) == (0, 9), "all that is possible"
    apart = found.differences[2].interval(0.95)
    assert apart == pytest.approx((least - high, most - low))
    assert math.isinf(found.differences[2].stderr)


def test_watching_a_difference_of_means_pays_for_four_sums():
    made = tally()
    found = groups(made, "g", measure=mean_of(made, "a")).differences[1]
    low, high = found.interval(0.95)
    wide, wider = found.interval(0.95, anytime=True)
    assert wide < low < high < wider


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda made: groups(made, "g", {"g": "x"}), "leave it out"),
        (lambda made: groups(made, "g", against="nobody"), "no group"),
        (lambda made: groups(made, "a", measure=mean_of(made, "a")), "makes the groups"),
        (lambda made: groups(made, "b"), "no attribute"),
        (lambda made: share_of(made, {"a": 1, "h": "p"}), "one condition"),
        (lambda made: mean_of(made, "g"), "g"),
    ],
)
def test_groups_that_cannot_be(ask, said):
    with pytest.raises(QueryError, match=said):
        ask(tally())
