"""Tests of independence and trend, p-values of many comparisons, and the most frequent values."""

import numpy as np
import pytest
from people_with_lines import drawn, rejected, tallied
from scipy import stats

from metricldp import Categorical, Integer, QueryError, Randomness, Survey
from metricldp.answers.top import CERTAIN, COMPLETE, INCOMPLETE, top_k

CLEAR = Survey.design(
    {
        "g": Categorical(["n", "s", "e"], epsilon=30),
        "h": Categorical(["f", "m"], epsilon=30),
        "x": Integer(0, 9, epsilon=40, mechanism="geometric", per=1),
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
    return CLEAR.tally(CLEAR.randomize(people, randomness=Randomness.seeded(1))), people


def test_without_noise_independence_is_nearly_pearsons(clear):
    """Pearson's variance is that of the null, Wald's what is there: the same to first order."""
    tally, people = clear
    table = [[np.sum((people["g"] == a) & (people["h"] == b)) for b in ("f", "m")] for a in "nse"]
    statistic, p, df, _ = stats.chi2_contingency(table)
    found = tally.independence_test("g", "h")
    assert found.df == df == 2
    assert found.statistic == pytest.approx(statistic, rel=0.05)
    assert found.pvalue == pytest.approx(p, rel=0.2)
    assert found.pvalue == pytest.approx(stats.chi2.sf(found.statistic, 2), rel=1e-12)
    bars = tally.independence_test("g", "x", widths={"x": 5})
    assert bars.df == 2
    assert tally.independence_test("g", "x").df == 18
    assert tally.independence_test("g", "x", {"x": (0, 4)}).df == 8
    assert tally.independence_test("h", "g").statistic == pytest.approx(found.statistic)


def test_without_noise_a_trend_is_that_of_cochran_and_armitage(clear):
    tally, people = clear
    x, men = people["x"].astype(float), people["h"] == "m"
    found = tally.trend_test({"h": "m"}, "x")
    slope, correlation = np.polyfit(x, men, 1)[0], np.corrcoef(x, men)[0, 1]
    assert found.estimate.value == pytest.approx(slope, rel=1e-3)
    assert found.statistic == pytest.approx(len(x) * correlation**2, rel=0.1)
    low, high = found.estimate.confidence_interval()
    assert low < slope < high
    assert found.df == 1
    assert tally.trend_test({"g": ["n", "s"], "h": "m"}, "x", {"x": (2, 9)}).df == 1


def test_texts_and_data(clear):
    tally, _ = clear
    found = tally.trend_test({"h": "m"}, "x")
    assert str(found).startswith(
        "test of a trend in the fraction with h m along x, for the population: chi-square "
    )
    assert "of freedom, p-value " in str(found)
    assert str(found).splitlines()[0].endswith("the fraction rises")
    assert "per x" in str(found)
    data = found.to_dict(0.9)
    assert data["pvalue"] == found.pvalue and data["estimate"]["confidence_level"] == 0.9
    assert tally.independence_test("g", "h").to_dict()["estimate"] is None
    assert "2 degrees of freedom" in str(tally.independence_test("g", "h"))


def test_trend_whose_slope_cannot_be_estimated_has_the_direction_of_the_change():
    survey = Survey.design(
        {
            "age": Integer(0, 9, epsilon=0.3, per=1, mechanism="geometric"),
            "vote": Categorical(["yes", "no"], epsilon=6),
        }
    )
    for votes, finding in ((["no", "yes"], "the fraction rises"), (["yes", "no"], "falls")):
        people = {"age": np.repeat([3, 6], 60), "vote": np.repeat(votes, 60)}
        tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(0)))
        found = tally.trend_test({"vote": "yes"}, "age")
        assert np.isnan(found.estimate.value) and found.pvalue < 0.001
        assert found.finding.endswith(finding)


def test_a_group_that_may_be_nobody_tells_nothing():
    tally = tallied(drawn(30, 1), 1)
    found = tally.independence_test("g", "h", {"x": 9, "y": 12})
    assert found.pvalue == 1
    assert found.notes == ("the group is estimated at fewer than 5 people (SE 3)",)
    found = tally.trend_test({"h": "m"}, "x", {"g": "e", "y": 12})
    assert found.pvalue == 1
    assert any("the group is estimated at" in note for note in found.notes)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda t: t.independence_test("g", "g"), "named twice"),
        (lambda t: t.independence_test("g", "z"), "no attribute 'z'"),
        (
            lambda t: t.independence_test("g", "h", widths={"x": 2}),
            "is not an attribute of the test",
        ),
        (lambda t: t.independence_test("g", "h", widths=3), "widths are a dict"),
        (lambda t: t.independence_test("g", "h", {"g": "n"}), "two values each"),
        (lambda t: t.trend_test({"h": "m"}, "g"), "has no order"),
        (lambda t: t.trend_test({"x": 3}, "x"), "the event has a condition on x"),
        (lambda t: t.trend_test({}, "x"), "event is a condition"),
        (lambda t: t.trend_test({"h": "m"}, "x", {"h": "f"}), "in the event and in where"),
        (lambda t: t.top_k("g", 0), "at least 1"),
    ],
)
def test_what_is_refused(clear, make, said):
    with pytest.raises(QueryError, match=said):
        make(clear[0])


def test_a_table_that_is_too_large():
    survey = Survey.design(
        {"a": Integer(0, 99, epsilon=1, per=5), "g": Categorical(["n", "s", "e"], epsilon=1)}
    )
    people = {"a": [1, 2, 3], "g": ["n", "s", "e"]}
    tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(1)))
    with pytest.raises(QueryError, match=r"198 degrees of freedom.*widths=.'a': 10."):
        tally.independence_test("a", "g")


def test_p_values_of_many_answers(clear):
    tally, _ = clear
    counts = tally.histogram("g", target="population")
    alone = counts.pvalues(1000)
    np.testing.assert_allclose(alone, [one.pvalue(1000) for _, one in counts])


TESTS = {
    "a small table": lambda tally: tally.independence_test("g", "h").pvalue,
    "a larger one": lambda tally: tally.independence_test("g", "x", widths={"x": 2}).pvalue,
    "a trend": lambda tally: tally.trend_test({"h": "m"}, "x").pvalue,
    "a trend in a group": lambda tally: tally.trend_test({"g": ["n", "s"]}, "y", {"h": "m"}).pvalue,
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
    return tally.independence_test("g", "h", target="respondents").pvalue


def test_what_goes_together_is_noticed():
    """The table and the trend of people whose attributes do go together."""
    tally = tallied(drawn(4000, 3), 3)
    assert tally.independence_test("g", "x", widths={"x": 2}).pvalue < 1e-4
    assert tally.trend_test({"g": "e"}, "x").pvalue < 1e-6
    assert tally.trend_test({"h": "m"}, "y").pvalue < 0.01


@pytest.mark.slow
def test_the_noise_of_blurring_alone_is_too_little_for_a_population():
    """The twin: with the error of these respondents, tests of a population alarm too often."""
    found = rejected(_by_respondents, 600, 2500)
    print(f"respondents only: {found}")
    assert found > 0.069


# The most frequent ------------------------------------------------------------------------------


def test_the_most_frequent(clear):
    tally, people = clear
    found = tally.top_k("x", 3)
    values, counts = np.unique(people["x"], return_counts=True)
    order = values[np.argsort(-counts, kind="stable")][:3]
    assert found.labels == order.tolist()
    assert all(CERTAIN in one.notes and COMPLETE in one.notes for _, one in found)
    whole = tally.top_k("g", 3)
    assert len(whole) == len(tally.top_k("g", 9)) == 3
    assert not any({COMPLETE, INCOMPLETE}.intersection(one.notes) for _, one in whole)
    assert tally.top_k("g", 1, {"h": "m"}).labels[0] in "nse"


def test_order_is_that_of_the_estimates_if_no_error_is_known():
    """One report has no variance between respondents."""
    survey = Survey.design({"g": Categorical(["a", "b"], epsilon=30)})
    tally = survey.tally(survey.randomize({"g": ["b"]}, randomness=Randomness.seeded(1)))
    found = tally.top_k("g", 2, target="population")
    assert found.labels == ["b", "a"] and np.isnan(found.values).all()


def test_ranks_that_noise_hides_are_not_certain():
    tally = tallied(drawn(500, 1), 1)
    found = tally.top_k("x", 4)
    assert not all(CERTAIN in one.notes for _, one in found)
    assert all(INCOMPLETE in one.notes for _, one in found)
    low, high = found.confidence_interval(simultaneous=True)
    every = tally.histogram("x").confidence_interval(simultaneous=True)
    places = found.labels
    np.testing.assert_allclose(low, every[0][places])
    np.testing.assert_allclose(high, every[1][places])


class AtLevel:
    """A histogram whose intervals have another level."""

    def __init__(self, counts, level):
        self._counts, self._level = counts, level

    def __getattr__(self, name):
        return getattr(self._counts, name)

    def __len__(self):
        return len(self._counts)

    def confidence_interval(self, **how):
        return self._counts.confidence_interval(self._level, **how)


def wrong(runs, n, level):
    """The share of runs in which something that is called certain is not true."""
    cells, found = drawn(n, 9), 0
    counts = np.bincount(cells[2], minlength=3)
    for seed in range(runs):
        top = top_k(AtLevel(tallied(cells, seed).histogram("g"), level), 2)
        ranks = [np.sum(counts > counts["nse".index(label)]) for label in top.labels]
        certain = [CERTAIN in one.notes for _, one in top]
        found += any(sure and ranks[k] != k for k, sure in enumerate(certain))
    return found / runs


def test_what_is_certain_is_true():
    """At the low level of 0.5, so that something can go wrong; more once in a million."""
    assert 60 * wrong(60, 80, 0.5) <= stats.binom.ppf(1 - 1e-6, 60, 0.5)
