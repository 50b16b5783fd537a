"""Sums, differences, multiples and ratios of answers: by enumeration, and by coverage."""

import math
from collections import Counter

import numpy as np
import pytest
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
from metricldp.answers import terms
from metricldp.answers.terms import simplified

TINY = {
    "alone": Survey.design(
        {
            "a": Integer(0, 3, epsilon=1, mechanism="geometric", per=1),
            "t": Integer(0, 2, epsilon=0.8, mechanism="threshold", per=1),
            "g": Categorical(["x", "y"], epsilon=1.2),
        }
    ),
    "a block": Survey.design(
        SurveySpec(
            {"a": Integer(0, 2, epsilon=1, per=1), "t": Integer(0, 2, epsilon=0.7, per=1)}
            | {"g": Categorical(["x", "y"], epsilon=0.9)},
            joint={("a", "t"): "planar-laplace"},
        )
    ),
}
LINEAR = {
    "one attribute": (
        lambda t: t.count({"a": 0}) - t.count({"a": (1, 2)}),
        lambda a, t, g: (a == 0) - 1.0 * ((a >= 1) & (a <= 2)),
    ),
    "two attributes": (
        lambda t: 2 * t.count({"a": 1}) + t.count({"t": (1, 2)}),
        lambda a, t, g: 2.0 * (a == 1) + (t >= 1),
    ),
    "crossed": (
        lambda t: t.count({"a": 0, "g": "x"}) - t.count({"t": 2, "g": "y"}) / 2,
        lambda a, t, g: ((a == 0) & (g == 0)) - 0.5 * ((t == 2) & (g == 1)),
    ),
    "sums": (
        lambda t: t.sum("a", {"g": "x"}) - 3 * t.count({"g": "y"}) + 5,
        lambda a, t, g: a * (g == 0) - 3.0 * (g == 1) + 5,
    ),
    "many": (
        lambda t: sum(t.count({"a": k, "g": "x"}) * (k + 1) for k in range(3)) - t.count({"t": 0}),
        lambda a, t, g: (a + 1) * ((a < 3) & (g == 0)) - 1.0 * (t == 0),
    ),
}


@pytest.fixture(scope="module")
def enumerated():
    """The tallies of every single report, the law of the reports, and the people."""
    found = {}
    for name, survey in TINY.items():
        table, laws = every_report_of(survey)
        tallies = [survey.tally(table.slice(k, 1)) for k in range(table.num_rows)]
        sizes = [survey.attributes[attribute].size for attribute in ("a", "t", "g")]
        found[name] = tallies, laws, np.indices(sizes).reshape(3, -1)
    return found


@pytest.mark.parametrize("kind", LINEAR)
@pytest.mark.parametrize("name", TINY)
def test_combinations_are_unbiased_and_tell_their_variance(enumerated, name, kind):
    tallies, laws, people = enumerated[name]
    make, truth = LINEAR[kind]
    answers = [make(tally) for tally in tallies]
    values = np.array([answer.value for answer in answers])
    variances = np.array([answer.variance for answer in answers])
    f = truth(*people)
    near = 1e-9 * max(1.0, np.abs(values).max() ** 2)
    np.testing.assert_allclose(laws @ values, f, atol=near)
    np.testing.assert_allclose(laws @ variances, laws @ values**2 - f**2, atol=near)


@pytest.mark.parametrize("name", TINY)
def test_covariances_are_unbiased(enumerated, name):
    tallies, laws, _ = enumerated[name]
    pairs = [
        ({"a": 0}, {"a": (1, 2)}),
        ({"a": 0, "g": "x"}, {"t": 1}),
        ({"t": (0, 1)}, {"t": (1, 2), "g": "y"}),
    ]
    for one, other in pairs:
        first = np.array([tally.count(one).value for tally in tallies])
        second = np.array([tally.count(other).value for tally in tallies])
        found = np.array([tally.count(one).covariance(tally.count(other)) for tally in tallies])
        exact = laws @ (first * second) - (laws @ first) * (laws @ second)
        np.testing.assert_allclose(laws @ found, exact, atol=1e-8 * max(1, np.abs(exact).max()))


SURVEY = Survey.design(
    {
        "a": Integer(0, 9, epsilon=1, mechanism="geometric", per=1),
        "t": Integer(0, 9, epsilon=1, mechanism="threshold", per=1),
        "g": Categorical(["x", "y", "z"], epsilon=1.5),
        "r": Continuous(0, 10, points=6, epsilon=2, per=1, rounding="stochastic"),
        "c": Continuous(0, 10, bins=5, epsilon=1, mechanism="geometric", per=1),
        "w": Weight(0, 3),
    }
)


def crowd(n=2000, seed=0):
    random = np.random.default_rng(seed)
    g = random.choice(3, n, p=[0.5, 0.3, 0.2])
    return {
        "a": random.binomial(9, 0.3 + 0.15 * g),
        "t": random.integers(0, 10, n),
        "g": np.array(["x", "y", "z"])[g],
        "r": random.uniform(0, 10, n),
        "c": random.uniform(0, 10, n),
        "w": random.uniform(0, 3, n),
    }


def tallied(seed=1, people=None):
    return SURVEY.tally(SURVEY.randomize(people or crowd(), randomness=Randomness.seeded(seed)))


@pytest.fixture(scope="module")
def tally():
    return tallied()


def test_a_difference_is_a_question_like_any_other(tally):
    """18 to 29 less 30 to 39 is one sum, and has what a count has."""
    apart = tally.count({"a": (0, 4)}) - tally.count({"a": (5, 9)})
    whole = tally.workload("a", [[1.0] * 5 + [-1.0] * 5]).iloc[0]
    assert (apart.value, apart.variance) == pytest.approx((whole.value, whole.variance))
    assert apart.confidence_interval() == pytest.approx(whole.confidence_interval())
    assert apart.unit == "people"
    assert apart.question == "a 0 to 4 less a 5 to 9"
    assert apart.poisoning_bounds(3) == pytest.approx(whole.poisoning_bounds(3))


def test_what_is_the_same_is_nothing(tally):
    one, other = tally.count({"a": (0, 4)}), tally.count({"a": (0, 4)})
    nothing = one - other
    assert (nothing.value, nothing.stderr) == (0, 0)
    assert nothing.confidence_interval() == (0, 0)
    assert nothing.pvalue() == 1
    everybody = tally.count({"a": (0, 4)}) + tally.count({"a": (5, 9)})
    assert (everybody.value, everybody.stderr) == pytest.approx((tally.n, 0))
    twice = 2 * tally.mean("a")
    assert (twice - tally.mean("a") - tally.mean("a")).stderr == pytest.approx(0, abs=1e-6)


def test_numbers(tally):
    one = tally.count({"a": (0, 4)})
    for found, value, times in (
        (one + 10, one.value + 10, 1),
        (10 - one, 10 - one.value, 1),
        (-one, -one.value, 1),
        (one / 4, one.value / 4, 0.25),
        (0.5 * one, one.value / 2, 0.5),
        (sum([one, one]), 2 * one.value, 2),
    ):
        assert found.value == pytest.approx(value)
        assert found.stderr == pytest.approx(times * one.stderr)
        low, high = found.confidence_interval()
        assert low <= found.value <= high
    assert (one + 10).confidence_interval(0.9, method="normal") == pytest.approx(
        tuple(end + 10 for end in one.confidence_interval(0.9, method="normal"))
    )


def test_a_ratio_of_counts_is_a_share_of_a_group(tally):
    share = tally.count({"a": (0, 4), "g": "x"}) / tally.count({"g": "x"})
    points = tally.cdf("a", {"g": "x"})
    at = points[4]
    assert (share.value, share.stderr) == pytest.approx((at.value, at.stderr))
    # The fraction of a group is at most 1; any ratio of counts need not be.
    assert np.clip(share.confidence_interval(0.9), 0, 1) == pytest.approx(
        np.array(at.confidence_interval(0.9)), rel=1e-2
    )
    mean = tally.sum("a", {"g": "x"}) / tally.count({"g": "x"})
    same = tally.mean("a", {"g": "x"})
    assert (mean.value, mean.stderr) == pytest.approx((same.value, same.stderr))
    assert mean.confidence_interval(0.9, method="normal") == pytest.approx(
        same.confidence_interval(0.9, method="normal"), rel=1e-2
    )


def test_two_tallies_are_independent(tally):
    other = tallied(2)
    one, two = tally.count({"a": (0, 4)}), other.count({"a": (0, 4)})
    assert one.covariance(two) == 0
    assert (one - two).stderr == pytest.approx(math.hypot(one.stderr, two.stderr))
    assert (one - two).reports == tally.n + other.n


def test_reports_that_two_tallies_share_are_noticed(tally):
    other = tallied(2)
    both = tally + other
    with pytest.raises(QueryError, match="share reports"):
        both.count({"a": 1}) - other.count({"a": 1})


def test_a_tally_that_grew(tally):
    growing = tallied(3)
    before = growing.count({"a": 1})
    growing.add(SURVEY.randomize(crowd(10, 5), randomness=Randomness.seeded(9)))
    with pytest.raises(QueryError, match="10 reports arrived since"):
        before - growing.count({"a": 2})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda t: t.count({"a": 1}) * t.count({"a": 2}), "cannot be multiplied"),
        (lambda t: t.count({"a": 1}) - t.count({"a": 2}, target="population"), "population and"),
        (lambda t: t.sum("w") - t.sum("w", {"g": "x"}), "covariance is not known"),
        (lambda t: t.count({"a": 1}) / 0, "divided by 0"),
        (lambda t: t.count({"a": 1}).covariance(3), "with another estimate"),
        (lambda t: t.count({"a": 1}).pvalue("x"), "with a number"),
    ],
)
def test_what_is_refused(tally, make, said):
    with pytest.raises(QueryError, match=said):
        make(tally)


def test_other_types_are_not_numbers(tally):
    for bad in ("1", None, [1], math.nan):
        with pytest.raises(TypeError):
            tally.count({"a": 1}) + bad
        with pytest.raises(TypeError):
            tally.count({"a": 1}) / bad


def test_a_group_that_may_be_nobody(tally):
    nobody = tally.mean("a", {"g": "z", "t": 9, "c": (0, 2)})
    if math.isfinite(nobody.variance):
        pytest.skip("the group came out clear")
    whole = tally.mean("a")
    apart = nobody - whole
    low, high = whole.confidence_interval()
    assert apart.confidence_interval() == pytest.approx((0 - high, 9 - low)), (
        "any mean, less a known one"
    )
    assert math.isinf(apart.stderr)
    with pytest.raises(QueryError, match="not estimable"):
        nobody.covariance(tally.mean("a"))


def test_bins_stay_open(tally):
    apart = tally.mean("c", {"g": "x"}) - tally.mean("c", {"g": "y"})
    low, high = apart.confidence_interval()
    closed = [one.confidence_interval() for one in apart.between]
    assert apart.between and low == closed[0][0] and high == closed[1][1]
    assert high - low > 2 * 1.9 * 1.0  # half a bin each way, twice
    over = tally.sum("c", {"g": "x"}) / tally.sum("c", {"g": "y"})
    assert over.between[0].value < over.value < over.between[1].value


def test_sums_are_put_together(tally):
    parts = [tally.count({"a": k, "g": "x"}) for k in range(10)]
    whole = sum(parts)
    assert len(simplified(whole.made.terms)) == 1
    assert whole.stderr == pytest.approx(tally.count({"g": "x"}).stderr)
    crossed = [tally.count({"a": k, "t": k % 7}) * (k + 1) for k in range(6)]
    assert len(simplified(sum(crossed).made.terms)) == 6


def test_too_many_sums(tally, monkeypatch):
    monkeypatch.setattr(terms, "MOST_TERMS", 3)
    with pytest.raises(QueryError, match="compute it in parts"):
        sum(tally.count({"a": k, "t": k % 7}) for k in range(5))


# Coverage ---------------------------------------------------------------------------------------


def _apart(one, other):
    """As if the two had nothing in common: the twin that has to fail."""
    error = math.hypot(one.stderr, other.stderr)
    return one.value - other.value, error


KINDS = {
    "counts": (lambda t: (t.count({"a": (0, 3)}), t.count({"a": (4, 7)})), "-"),
    "crossed counts": (lambda t: (t.count({"a": (2, 5)}), t.count({"t": (0, 4), "g": "x"})), "-"),
    "means": (lambda t: (t.mean("a", {"g": "x"}), t.mean("a", {"g": "y"})), "-"),
    "shares": (
        lambda t: (t.count({"a": (0, 4)}) / t.count(), t.count({"a": (0, 4), "g": "x"}) / t.n),
        "-",
    ),
    "a ratio": (lambda t: (t.count({"a": (0, 3)}), t.count({"t": (0, 6)})), "/"),
    "rounded": (lambda t: (t.sum("r", {"g": "x"}), t.sum("r", {"g": "y"})), "-"),
}
"""Six kinds; in all of them both answers are of the same reports."""


def coverage(kind, runs, independent=False, naive=False):
    make, sign = KINDS[kind]
    people = crowd(1500, 3)
    held = 0
    for seed in range(runs):
        tally = tallied(seed, people)
        one, other = make(tally)
        if independent:
            other = make(tallied(runs + seed, people))[1]
        if naive:
            value, error = _apart(one, other)
            low, high = value - 1.96 * error, value + 1.96 * error
        else:
            found = one / other if sign == "/" else one - other
            low, high = found.confidence_interval(0.95, method="normal")
        held += low <= truth(kind, people) <= high
    return held / runs


def truth(kind, people):
    a, t, g, r = (np.asarray(people[name]) for name in "atgr")
    x, y = g == "x", g == "y"
    return {
        "counts": np.sum(a <= 3) - np.sum((a >= 4) & (a <= 7)),
        "crossed counts": np.sum((a >= 2) & (a <= 5)) - np.sum((t <= 4) & x),
        "means": a[x].mean() - a[y].mean(),
        "shares": np.mean(a <= 4) - np.mean((a <= 4) & x),
        "a ratio": np.sum(a <= 3) / np.sum(t <= 6),
        "rounded": r[x].sum() - r[y].sum(),
    }[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_hold(kind):
    """60 runs, and a false alarm in a million if the coverage is 0.95."""
    assert 60 * coverage(kind, 60) >= stats.binom.ppf(1e-6, 60, 0.95)


SMALL = Survey.design(
    {
        "x": Integer(0, 9, epsilon=1, mechanism="geometric", per=1),
        "g": Categorical(["a", "b"], epsilon=3),
    }
)


def small_groups(runs, seed=0, level=0.95):
    """How often differences and ratios hold of a mean or a share of 5 of 400 people."""
    g = np.repeat(["a", "b"], [395, 5])
    people = {"x": np.where(g == "a", 2, 8), "g": g}
    held, naive = Counter(), 0
    for run in range(runs):
        tally = SMALL.tally(SMALL.randomize(people, randomness=Randomness.seeded(seed + run)))
        many, few = (tally.mean("x", {"g": name}) for name in "ab")
        shares = [tally.fraction({"x": (6, 9)}, among={"g": name}) for name in "ab"]
        found = {
            "few less many": (few - many, 6),
            "many less few": (many - few, -6),
            "few over many": (few / many, 4),
            "many over few": (many / few, 1 / 4),
            "shares": (shares[1] - shares[0], 1),
            "twice a share": (2 * shares[1] + 1, 3),
            "both": ((few - many) + (shares[1] - shares[0]), 7),
            "few less the middle of both": (few - (few + many) / 2, 3),
            "mean less ten shares": (few - 10 * shares[1], -2),
            "count and mean": (tally.count({"g": "b"}) + 10 * few, 85),
        }
        for what, (answer, true) in found.items():
            low, high = answer.confidence_interval(level)
            held[what] += low <= true <= high
        apart = few - many
        naive += abs(apart.value - 6) <= 1.96 * apart.stderr if few.clear else True
    return {what: count / runs for what, count in held.items()}, naive / runs


def test_intervals_of_small_groups_hold():
    """100 runs, and a false alarm in a million if all cover 0.95."""
    found, _ = small_groups(100)
    least = stats.binom.ppf(1e-6 / len(found), 100, 0.95) / 100
    assert min(found.values()) >= least, found


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_coverage_of_small_groups(level):
    """1,000 runs; what first order and infinity made of it is the broken twin."""
    found, naive = small_groups(1000, 10_000, level)
    print(f"small groups at {level}: {found}; to first order at 0.95 {naive:.3f}")
    least = stats.binom.ppf(1e-6 / len(found), 1000, level) / 1000
    assert min(found.values()) >= least
    assert naive < 0.92


def test_parts_of_a_combination_stand_once(tally):
    """What is added and taken away again leaves the interval of what is left."""
    one, other = (tally.mean("a", {"g": name}) for name in "xy")
    again = (one - other) + other
    assert again.confidence_interval() == pytest.approx(
        one.confidence_interval(0.95, method="normal")
    )
    twice = (one - other) + (one - other)
    low, high = (one - other).confidence_interval()
    assert twice.confidence_interval() == pytest.approx((2 * low, 2 * high))


@pytest.mark.parametrize("factor", [100, -1, -0.1])
def test_multiples_of_combinations_have_multiples_of_their_intervals(tally, factor):
    one, other = (tally.mean("a", {"g": name}) for name in "xy")
    for apart in (one - other, one + 2 * other - 1, 3 * (one - other) + one):
        ends = sorted(factor * end for end in apart.confidence_interval())
        assert (factor * apart).confidence_interval() == pytest.approx(ends)
        assert (factor * apart).pvalue(2 * factor) == pytest.approx(apart.pvalue(2))
    assert (2 * one - one).confidence_interval() == pytest.approx(
        one.confidence_interval(0.95, method="normal")
    )
    assert (one - (one + other) / 2).confidence_interval() == pytest.approx(
        ((one - other) / 2).confidence_interval()
    )


def test_a_ratio_is_the_inverse_of_its_inverse(tally):
    one, other = (tally.mean("a", {"g": name}) for name in "xy")
    low, high = (one / other).confidence_interval()
    assert (other / one).confidence_interval() == pytest.approx((1 / high, 1 / low), rel=1e-9)
    assert (one / -other).confidence_interval() == pytest.approx((-high, -low), rel=1e-9)
    assert (3 * (one / other)).confidence_interval() == pytest.approx((3 * low, 3 * high), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_coverage(kind, independent):
    """2,000 runs: outside of 0.935 to 0.967 once in 500 if it is 0.95; rounding has a bound."""
    found = coverage(kind, 2000, independent)
    print(f"{kind}, {'independent' if independent else 'the same reports'}: {found:.4f}")
    assert found >= 0.935
    assert found <= (1 if kind == "rounded" else 0.967)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["counts", "shares"])
def test_errors_as_if_nothing_were_shared_fail(kind):
    found = coverage(kind, 600, naive=True)
    print(f"{kind}, naive: {found:.4f}")
    assert not 0.935 <= found <= 0.967
