"""Tests of independence and trend, p-values of many comparisons, and the most frequent values."""

import numpy as np
import pytest
from people_with_lines import drawn, rejected, tallied
from scipy import stats

from metricldp import Categorical, Coins, Integer, QueryError, Survey

CLEAR = Survey(
    {
        "g": Categorical(["n", "s", "e"], epsilon=30),
        "h": Categorical(["f", "m"], epsilon=30),
        "x": Integer(0, 9, epsilon=40, mechanism="geometric"),
    }
)


@pytest.fixture(scope="module")
def clear():
    random = np.random.default_rng(5)
    n = 3000
    g = random.integers(0, 3, n)
    h = (random.random(n) < 0.45 + 0.04 * g).astype(int)
    people = {
        "g": np.array(["n", "s", "e"])[g],
        "h": np.array(["f", "m"])[h],
        "x": np.clip(random.integers(0, 9, n) + h, 0, 9),
    }
    return CLEAR.tally(CLEAR.encode(people, coins=Coins.seeded(1))), people


def test_without_noise_independence_is_nearly_pearsons(clear):
    """Pearson's variance is that of the null, Wald's what is there: the same to first order."""
    tally, people = clear
    table = [[np.sum((people["g"] == a) & (people["h"] == b)) for b in ("f", "m")] for a in "nse"]
    statistic, p, df, _ = stats.chi2_contingency(table)
    found = tally.independence("g", "h")
    assert found.df == df == 2
    assert found.statistic == pytest.approx(statistic, rel=0.05)
    assert found.p_value == pytest.approx(p, rel=0.2)
    assert found.p_value == pytest.approx(stats.chi2.sf(found.statistic, 2), rel=1e-12)
    bars = tally.independence("g", "x", widths={"x": 5})
    assert bars.df == 2
    assert tally.independence("g", "x").df == 18
    assert tally.independence("g", "x", {"x": (0, 4)}).df == 8
    assert tally.independence("h", "g").statistic == pytest.approx(found.statistic)


def test_without_noise_a_trend_is_that_of_cochran_and_armitage(clear):
    tally, people = clear
    x, men = people["x"].astype(float), people["h"] == "m"
    found = tally.trend({"h": "m"}, "x")
    slope, correlation = np.polyfit(x, men, 1)[0], np.corrcoef(x, men)[0, 1]
    assert found.estimate.value == pytest.approx(slope, rel=1e-3)
    assert found.statistic == pytest.approx(len(x) * correlation**2, rel=0.1)
    low, high = found.estimate.interval()
    assert low < slope < high
    assert found.df == 1
    assert tally.trend({"g": ["n", "s"], "h": "m"}, "x", {"x": (2, 9)}).df == 1


def test_texts_and_data(clear):
    tally, _ = clear
    found = tally.trend({"h": "m"}, "x")
    assert str(found).startswith("test of a trend in the share of h m along x among everybody")
    assert "of freedom, p-value " in str(found) and str(found).splitlines()[0].endswith("it rises")
    assert "per x" in str(found)
    data = found.to_dict(0.9)
    assert data["p_value"] == found.p_value and data["estimate"]["level"] == 0.9
    assert tally.independence("g", "h").to_dict()["estimate"] is None
    assert "2 degrees of freedom" in str(tally.independence("g", "h"))


def test_a_group_that_may_be_nobody_tells_nothing():
    tally = tallied(drawn(30, 1), 1)
    found = tally.independence("g", "h", {"x": 9, "y": 12})
    assert found.p_value == 1 and any("not clearly above" in note for note in found.notes)
    found = tally.trend({"h": "m"}, "x", {"g": "e", "y": 12})
    assert found.p_value == 1 and any("not clearly above" in note for note in found.notes)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda t: t.independence("g", "g"), "named twice"),
        (lambda t: t.independence("g", "z"), "no attribute 'z'"),
        (lambda t: t.independence("g", "h", widths={"x": 2}), "not asked about"),
        (lambda t: t.independence("g", "h", widths=3), "widths are a dict"),
        (lambda t: t.independence("g", "h", {"g": "n"}), "two values each"),
        (lambda t: t.trend({"h": "m"}, "g"), "has no order"),
        (lambda t: t.trend({"x": 3}, "x"), "of x itself"),
        (lambda t: t.trend({}, "x"), "a share is of conditions"),
        (lambda t: t.trend({"h": "m"}, "x", {"h": "f"}), "in the share and in where"),
        (lambda t: t.top("g", 0), "at least 1"),
        (lambda t: t.top("g", 4), "fewer than 4"),
    ],
)
def test_what_is_refused(clear, make, said):
    with pytest.raises(QueryError, match=said):
        make(clear[0])


def test_a_table_that_is_too_large():
    survey = Survey(
        {"a": Integer(0, 99, epsilon=1, per=5), "g": Categorical(["n", "s", "e"], epsilon=1)}
    )
    people = {"a": [1, 2, 3], "g": ["n", "s", "e"]}
    tally = survey.tally(survey.encode(people, coins=Coins.seeded(1)))
    with pytest.raises(QueryError, match=r"198 degrees of freedom.*widths=.'a': 10."):
        tally.independence("a", "g")


def test_p_values_of_many_answers(clear):
    tally, _ = clear
    counts = tally.histogram("g", about="population")
    alone = counts.p_values(1000)
    np.testing.assert_allclose(alone, [one.p_value(1000) for one in counts])


TESTS = {
    "a small table": lambda tally: tally.independence("g", "h").p_value,
    "a larger one": lambda tally: tally.independence("g", "x", widths={"x": 2}).p_value,
    "a trend": lambda tally: tally.trend({"h": "m"}, "x").p_value,
    "a trend in a group": lambda tally: tally.trend({"g": ["n", "s"]}, "y", {"h": "m"}).p_value,
}


@pytest.mark.parametrize("kind", TESTS)
def test_few_false_alarms(kind):
    """40 runs; more than this many once in 100,000 if the size is 0.05."""
    most = stats.binom.ppf(1 - 1e-5, 40, 0.05)
    assert 40 * rejected(TESTS[kind], 40, 2500) <= most


@pytest.mark.slow
@pytest.mark.parametrize("kind", TESTS)
def test_size(kind):
    """1,000 runs: more than 6.9% once in 200 if the size is 0.05."""
    found = rejected(TESTS[kind], 1000, 2500)
    print(f"{kind}: {found}")
    assert 0.033 <= found <= 0.069


def _by_respondents(tally):
    return tally.independence("g", "h", about="respondents").p_value


def test_what_goes_together_is_noticed():
    """The table and the trend of people whose attributes do go together."""
    tally = tallied(drawn(4000, 3), 3)
    assert tally.independence("g", "x", widths={"x": 2}).p_value < 1e-4
    assert tally.trend({"g": "e"}, "x").p_value < 1e-6
    assert tally.trend({"h": "m"}, "y").p_value < 0.01


@pytest.mark.slow
def test_the_noise_of_blurring_alone_is_too_little_for_a_population():
    """The twin: with the error of these respondents, tests of a population alarm too often."""
    found = rejected(_by_respondents, 600, 2500)
    print(f"respondents only: {found}")
    assert found > 0.069


# The most frequent ------------------------------------------------------------------------------


def test_the_most_frequent(clear):
    tally, people = clear
    found = tally.top("x", 3)
    values, counts = np.unique(people["x"], return_counts=True)
    order = values[np.argsort(-counts, kind="stable")][:3]
    assert list(found.labels) == [str(value) for value in order]
    assert found.certain.all() and found.complete
    assert "this rank is certain" in str(found) and "no other value" in str(found)
    data = found.to_dict()
    assert [row["rank"] for row in data["answers"]] == [1, 2, 3]
    assert data["complete"] is True
    whole = tally.top("g", 3)
    assert whole.complete and len(whole) == 3
    assert tally.top("g", 1, {"h": "m"}).labels[0] in "nse"
    assert found.to_arrow().num_rows == 3


def test_ranks_that_noise_hides_are_not_certain():
    tally = tallied(drawn(500, 1), 1)
    found = tally.top("x", 4)
    assert not found.certain.all() and not found.complete
    assert "other values may be among these" in str(found)
    low, high = found.interval(simultaneous=True)
    every = tally.histogram("x").interval(simultaneous=True)
    places = [int(label) for label in found.labels]
    np.testing.assert_allclose(low, every[0][places])
    np.testing.assert_allclose(high, every[1][places])


def wrong(runs, n, level):
    """The share of runs in which something that is called certain is not true."""
    cells, found = drawn(n, 9), 0
    counts = np.bincount(cells[2], minlength=3)
    for seed in range(runs):
        top = tallied(cells, seed).top("g", 2)
        ranks = [np.sum(counts > counts["nse".index(label)]) for label in top.labels]
        certain = top.certain_at(level)
        found += any(sure and ranks[k] != k for k, sure in enumerate(certain))
    return found / runs


def test_what_is_certain_is_true():
    """At the low level of 0.5, so that something can go wrong; more once in a million."""
    assert 60 * wrong(60, 80, 0.5) <= stats.binom.ppf(1 - 1e-6, 60, 0.5)
