"""Variances, deviations, covariances and correlations: by enumeration, and by coverage."""

import json
import math
import re

import numpy as np
import pytest
from people_with_lines import drawn, held, tallied
from scipy import stats

from checks import every_report_of
from metricldp import (
    Categorical,
    Continuous,
    Integer,
    QueryError,
    Randomness,
    Survey,
    SurveySpec,
    Weight,
)
from metricldp.answers.smooth import covariances

TINY = {
    "alone": Survey.design(
        {
            "a": Integer(0, 2, epsilon=1, mechanism="geometric", per=1),
            "t": Integer(0, 2, epsilon=0.8, mechanism="threshold", per=1),
        }
    ),
    "a block": Survey.design(
        SurveySpec(
            {"a": Integer(0, 2, epsilon=1, per=1), "t": Integer(0, 1, epsilon=0.7, per=1)},
            joint={("a", "t"): "planar-laplace"},
        )
    ),
}


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("kind", ["variance", "covariance"])
def test_of_two_people_they_are_unbiased(name, kind):
    """Every pair of reports of a pair of people; with one person there is no variance."""
    survey = TINY[name]
    table, laws = every_report_of(survey)
    sizes = [survey.attributes[attribute].size for attribute in ("a", "t")]
    people = np.indices(sizes).reshape(2, -1)
    count = table.num_rows
    picked = np.random.default_rng(4).choice(people.shape[1], 2, replace=False)
    one, other = picked
    a, t = people[:, picked].astype(float)
    expected = a.var() if kind == "variance" else np.mean((a - a.mean()) * (t - t.mean()))
    found = 0.0
    for first in range(count):
        for second in range(first, count):
            chance = laws[one, first] * laws[other, second]
            if second > first:
                chance += laws[one, second] * laws[other, first]
            tally = survey.tally(table.take([first, second]))
            answer = tally.variance("a") if kind == "variance" else tally.covariance("a", "t")
            found += chance * answer.value
    assert found == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("target", ["respondents", "population"])
@pytest.mark.parametrize("name", TINY)
def test_many_covariances_at_once_are_those_of_each_two(name, target):
    survey = TINY[name]
    people = {"a": [0, 1, 2, 1, 0] * 20, "t": [0, 1, 1, 0, 1] * 20}
    tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(2)))
    answers = [
        tally.count(where, target=target)
        for where in ({"a": 0}, {"a": (1, 2)}, {"t": 1}, {"a": 1, "t": 0}, {})
    ]
    queries = [answer.made.terms[0].query for answer in answers]
    found = covariances(tally, queries, target)
    each = [[one.covariance(other) for other in answers] for one in answers]
    np.testing.assert_allclose(found, each, atol=1e-9)


def test_of_a_population_they_are_unbiased():
    """Two people drawn from two kinds, reports without much noise: n - 1, and not n."""
    survey = Survey.design({"a": Integer(0, 1, epsilon=1.5, mechanism="geometric", per=1)})
    table, laws = every_report_of(survey)
    share = np.array([0.3, 0.7])
    mixed = share @ laws
    found = 0.0
    for first in range(table.num_rows):
        for second in range(table.num_rows):
            tally = survey.tally(table.take([first, second]))
            value = tally.variance("a", target="population").value
            found += mixed[first] * mixed[second] * value
    assert found == pytest.approx(0.3 * 0.7, abs=1e-9)


SURVEY = Survey.design(
    {
        "a": Integer(0, 9, epsilon=30, mechanism="geometric", per=1),
        "b": Integer(0, 9, epsilon=30, mechanism="threshold", per=1),
        "r": Continuous(0, 10, points=6, epsilon=30, rounding="stochastic", per=1),
        "c": Continuous(0, 10, bins=5, epsilon=30, mechanism="geometric", per=1),
        "g": Categorical(["x", "y"], epsilon=25),
        "w": Weight(0, 3),
        "o": Integer(0, 3, epsilon=20, optional=20, per=1),
    }
)


@pytest.fixture(scope="module")
def clear():
    """People who blur next to nothing, and what they are."""
    random = np.random.default_rng(2)
    n = 4000
    a = random.integers(0, 10, n)
    people = {
        "a": a,
        "b": np.clip(a + random.integers(-3, 4, n), 0, 9),
        "r": np.clip(a + random.uniform(-1, 1, n), 0, 10),
        "c": np.clip(a + random.uniform(0, 1, n), 0, 10),
        "g": np.array(["x", "y"])[random.integers(0, 2, n)],
        "w": random.uniform(0, 3, n),
        "o": [None if k % 3 == 0 else int(k % 4) for k in range(n)],
    }
    return SURVEY.tally(SURVEY.randomize(people, randomness=Randomness.seeded(3))), people


def test_without_noise_they_are_what_numpy_says(clear):
    tally, people = clear
    a, b = people["a"], people["b"]
    x = people["g"] == "x"
    assert tally.variance("a").value == pytest.approx(a.var(), abs=1e-6)
    assert tally.std("a", {"g": "x"}).value == pytest.approx(a[x].std(), abs=1e-6)
    assert tally.covariance("a", "b").value == pytest.approx(np.cov(a, b)[0, 1])
    respondents = tally.covariance("a", "b", target="respondents")
    assert respondents.value == pytest.approx(np.cov(a, b, bias=True)[0, 1])
    assert tally.correlation("a", "b", {"g": "x"}).value == pytest.approx(
        np.corrcoef(a[x], b[x])[0, 1], abs=1e-6
    )
    drawn_from = tally.variance("a", target="population")
    assert drawn_from.value == pytest.approx(a.var(ddof=1))
    fourth = np.mean((a - a.mean()) ** 4) - a.var() ** 2
    assert drawn_from.stderr == pytest.approx(math.sqrt(fourth / len(a)), rel=0.01)
    o = np.array([value for value in people["o"] if value is not None])
    assert tally.variance("o").value == pytest.approx(o.var(), rel=1e-3)
    assert "o is not missing" in tally.variance("o").question


def test_what_bins_and_rounding_leave_open_is_in_the_interval(clear):
    tally, people = clear
    a, r, c = people["a"], people["r"], people["c"]
    x = people["g"] == "x"
    for answer, truth in (
        (tally.variance("c"), c.var()),
        (tally.std("c", {"g": "x"}), c[x].std()),
        (tally.variance("r"), r.var()),
        (tally.std("r"), r.std()),
        (tally.covariance("a", "c"), np.cov(a, c, bias=True)[0, 1]),
        (tally.correlation("a", "c"), np.corrcoef(a, c)[0, 1]),
        (tally.correlation("r", "c"), np.corrcoef(r, c)[0, 1]),
    ):
        low, high = answer.confidence_interval()
        assert low < truth < high
        assert answer.between[0].value <= answer.value <= answer.between[1].value
        assert answer.notes
        # The bound is nearly all of it: next to no noise is left.
        assert low == pytest.approx(answer.between[0].value, abs=0.3)
        json.dumps(answer.to_dict())
    assert not tally.covariance("a", "r").between  # rounding at random keeps products
    middles = np.floor(c / 2).clip(0, 4) * 2 + 1
    for moved in (c.min() + 0 * c, np.where(c > 5, middles + 1, middles - 1)):
        inside = np.clip(moved, middles - 1, middles + 1)
        low, high = tally.variance("c").confidence_interval()
        assert low <= inside.var() <= high


def test_a_deviation_can_be_combined(clear):
    tally, _ = clear
    apart = tally.std("a", {"g": "x"}) - tally.std("a", {"g": "y"})
    low, high = apart.confidence_interval()
    assert low < apart.value < high
    twice = 2 * tally.std("a")
    assert twice.confidence_interval() == pytest.approx(
        [2 * end for end in tally.std("a").confidence_interval()]
    )
    turned = -1 * tally.std("c")
    assert turned.confidence_interval() == pytest.approx(
        [-end for end in tally.std("c").confidence_interval()[::-1]]
    )
    data = tally.correlation("a", "b").to_dict()
    assert data["ci_low"] <= data["estimate"] <= data["ci_high"]


def test_correlation_that_cannot_be_estimated_names_the_attribute():
    text = str(tallied(drawn(60, 1), 1).correlation("x", "y", {"g": "e", "h": "m"}))
    assert re.fullmatch(
        "cannot be estimated; the variance of [xy] is not distinguishable from zero", text
    )


def test_what_is_possible_is_kept():
    clear, tally = tallied(drawn(200, 1), 1), tallied(drawn(60, 1), 1)
    for answer in (
        clear.correlation("x", "y"),
        clear.correlation("x", "y", target="population"),
    ):
        low, high = answer.confidence_interval()
        assert -1 < low < answer.value < high == 1
    for answer in (
        tally.correlation("x", "y"),
        tally.correlation("x", "y", {"g": "e"}),
        tally.correlation("x", "y", {"g": "e", "h": "m"}, target="population"),
    ):
        assert answer.confidence_interval() == (-1, 1)
        assert math.isnan(answer.value) and not answer.estimable
    nobody = tally.variance("x", {"g": "e", "h": "m", "y": 12})
    assert nobody.confidence_interval()[0] >= 0
    assert nobody.confidence_interval()[1] <= 81 / 4
    assert tally.std("x", {"g": "e", "h": "m", "y": 12}).confidence_interval()[1] <= 4.5


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda t: t.variance("g"), "values are names"),
        (lambda t: t.variance("w"), "is a weight"),
        (lambda t: t.variance("z"), "no attribute 'z'"),
        (lambda t: t.covariance("a", "a"), "named twice"),
        (lambda t: t.variance("r", {"r": (2, 7)}), "leave r out of where"),
        (lambda t: t.variance("a", target="all"), "target is"),
        (lambda t: t.variance("o", {"o": None}), "excluded by where"),
        (
            lambda t: t.variance("a").confidence_interval(anytime=True),
            "no confidence sequence of the variance of a",
        ),
        (lambda t: SURVEY.tally([]).variance("a"), "no reports"),
    ],
)
def test_what_is_refused(clear, make, said):
    with pytest.raises(QueryError, match=said):
        make(clear[0])


# Coverage ---------------------------------------------------------------------------------------


def _variance(x, share):
    return share @ (x - share @ x / share.sum()) ** 2 / share.sum()


def _covariance(x, y, share):
    return share @ ((x - share @ x / share.sum()) * (y - share @ y / share.sum())) / share.sum()


def asked(tally, target):
    return [
        tally.variance("x", target=target),
        tally.std("y", {"h": "m"}, target=target),
        tally.covariance("x", "y", {"h": "f"}, target=target),
        tally.correlation("x", "y", target=target),
        tally.correlation("x", "y", {"h": "f"}, target=target),
    ]


def real(cells, share):
    x, y, _, h = cells
    men, women = share * (h == 1), share * (h == 0)
    return [
        _variance(x, share),
        math.sqrt(_variance(y, men)),
        _covariance(x, y, women),
        _covariance(x, y, share) / math.sqrt(_variance(x, share) * _variance(y, share)),
        _covariance(x, y, women) / math.sqrt(_variance(x, women) * _variance(y, women)),
    ]


@pytest.mark.parametrize("target", ["respondents", "population"])
def test_intervals_hold(target):
    """20 runs of five answers; a false alarm in 100,000 if the coverage is 0.95."""
    found = held(asked, real, 20, 2000, target)
    assert (20 * found >= stats.binom.ppf(1e-5 / 10, 20, 0.95)).all(), found


@pytest.mark.slow
@pytest.mark.parametrize("target", ["respondents", "population"])
def test_coverage(target):
    """2,000 runs: a coverage of 0.95 is outside of 0.93 to 0.97 less than once in 10,000."""
    found = held(asked, real, 2000, 3000, target)
    print(f"{target}: {found}")
    assert (found >= 0.93).all() and (found <= 0.97).all()


class Naive:
    """The variance with an error as if the sums of x and of x^2 shared nothing: the broken twin."""

    def __init__(self, tally, target):
        whole = tally.workload("x", [np.arange(10.0), np.arange(10.0) ** 2], target=target)
        (first, second), n = (one for _, one in whole), tally.n
        mean = first.value / n
        self.value = second.value / n - mean**2
        self.error = math.hypot(second.stderr, 2 * mean * first.stderr) / n

    def confidence_interval(self, level, method):
        return self.value - 1.96 * self.error, self.value + 1.96 * self.error


def test_an_error_as_if_nothing_were_shared_is_another():
    tally = tallied(drawn(2000, 77), 5)
    assert Naive(tally, "respondents").error > 1.5 * tally.variance("x").stderr


@pytest.mark.slow
def test_errors_as_if_nothing_were_shared_fail():
    found = held(
        lambda tally, target: [Naive(tally, target)],
        lambda cells, share: [_variance(cells[0], share)],
        600,
        2000,
        "respondents",
    )
    print(f"naive: {found}")
    assert not 0.93 <= found[0] <= 0.975
