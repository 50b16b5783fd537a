"""Quantiles and distribution functions: exact where nothing is blurred, honest where it is."""

import json
import math
import re
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
import theorems
from scipy import stats
from scipy.optimize import isotonic_regression

from metricldp import (
    Categorical,
    Continuous,
    EstimateTable,
    Integer,
    Ordinal,
    QueryError,
    Randomness,
    Survey,
)
from metricldp.answers import searches
from metricldp.answers.answer import Estimate, normal_reach, together
from metricldp.cli import main as cli
from metricldp.reports.arrow import to_table

LEVELS = ["never", "rarely", "often", "always"]
PROBABILITIES = [0.001, 0.07, 0.1, 0.25, 1 / 3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.9, 0.93, 0.999]
MECHANISMS = ["threshold", "geometric", "threshold-paper"]


def exact_place(positions, p, size):
    """The definition itself, in whole numbers: the first x with #(<= x) >= p n."""
    below = np.cumsum(np.bincount(positions, minlength=size))
    return next(x for x in range(size) if below[x] / len(positions) >= p)


def error_of(place, shares, p):
    """The paper's Err: how far p is from the percentile interval of the place."""
    before = shares[place - 1] if place else 0.0
    return max(0.0, p - shares[place], before - p)


def literal_search(sigma, m, p):
    """Section 4.4 line by line, counting from 1; sigma(0) = 0. None where the scan finds none."""
    L, R = 1, m
    M = math.ceil((L + R) / 2)
    while R - L > 10:
        if sigma(M) < p:
            L = M
        else:
            R = M
        M = math.ceil((L + R) / 2)
    for x in range(L, R + 1):
        if sigma(x - 1) < p <= sigma(x):
            return x
    return None


# Nothing blurred


@pytest.fixture(scope="module", params=MECHANISMS)
def clear(request):
    """Epsilon 40 per step: a report is the value itself, but for one in 10^17."""
    survey = Survey.design(
        {
            "age": Integer(10, 39, epsilon=40, mechanism=request.param, per=1),
            "pay": Continuous(0, 100, bins=20, epsilon=40, per=5, mechanism=request.param),
            "mood": Ordinal(LEVELS, epsilon=40, mechanism=request.param),
            "region": Categorical(["x", "y"], epsilon=40),
        }
    )
    rng = np.random.default_rng(4)
    people = {
        "age": 10 + np.minimum(rng.geometric(0.15, 200) - 1, 29) // 3 * 3,  # gaps and ties
        "pay": rng.gamma(2, 12, 200).clip(0, 100),
        "mood": np.array(LEVELS)[np.minimum(rng.geometric(0.5, 200) - 1, 3)],
        "region": np.repeat(["x", "y"], 100),
    }
    return survey.tally(survey.randomize(people, randomness=Randomness.seeded(1))), people


@pytest.mark.parametrize("method", searches.METHODS)
@pytest.mark.parametrize("where", [{}, {"region": "x"}], ids=str)
def test_without_blurring_quantiles_are_exact(clear, where, method):
    tally, people = clear
    chosen = people["region"] == "x" if where else np.ones(200, dtype=bool)
    age = people["age"][chosen] - 10
    pay = np.minimum(people["pay"][chosen] // 5, 19).astype(int)
    mood = np.array([LEVELS.index(level) for level in people["mood"][chosen]])
    for p in PROBABILITIES:
        found = tally.quantiles("age", [p], where, method=method)[0]
        expected = 10 + exact_place(age, p, 30)
        assert found.value == expected
        assert found.confidence_interval() == (expected, expected)
        level = LEVELS[exact_place(mood, p, 4)]
        assert tally.quantiles("mood", [p], where, method=method)[0].value == level
        found = tally.quantiles("pay", [p], where, method=method)[0]
        place = exact_place(pay, p, 20)
        assert found.position == place
        assert 5 * place <= found.value <= 5 * place + 5
        assert found.confidence_interval() == (5 * place, 5 * place + 5)


def test_without_blurring_the_distribution_is_exact(clear):
    tally, people = clear
    for where, chosen in (({}, slice(None)), ({"region": "y"}, people["region"] == "y")):
        positions = people["age"][chosen] - 10
        shares = np.cumsum(np.bincount(positions, minlength=30)) / len(positions)
        found = tally.cdf("age", where)
        np.testing.assert_allclose(found.values, shares, atol=1e-9)
        np.testing.assert_allclose(
            found.confidence_interval(simultaneous=True), [shares, shares], atol=1e-6
        )
        assert found.ends == tuple(range(10, 40))


def test_a_group_cut_by_the_attribute_itself(clear):
    tally, people = clear
    inside = people["age"][(people["age"] >= 16) & (people["age"] <= 25)]
    for p in PROBABILITIES:
        found = tally.quantile("age", p, {"age": (16, 25)})
        assert found.value == 10 + exact_place(inside - 10, p, 30)
    listed = tally.cdf("age", {"age": [10, 16, 22]})
    assert listed.ends == (10, 16, 22)
    one = tally.quantile("age", 0.5, {"age": 16})
    assert (one.value, one.confidence_interval()) == (16, (16, 16))


def test_continuous_values_are_interpolated_evenly_inside_their_bin(clear):
    tally, people = clear
    found = tally.quantile("pay", 0.4)
    shares = np.append(0, np.cumsum(np.histogram(people["pay"], 20, (0, 100))[0]) / 200)
    expected = np.interp(0.4, shares, np.linspace(0, 100, 21))
    assert found.value == pytest.approx(expected, abs=1e-6)
    assert "interpolated evenly inside its bin" in str(found)
    middle = tally.quantiles("pay", [0.4], method="binary-search")[0]
    assert middle.value == 5 * found.position + 2.5
    assert "middle" in str(middle)


# The two methods


@pytest.mark.parametrize("size", [2, 10, 11, 12, 13, 40, 257])
def test_binary_search_is_the_papers(size):
    rng = np.random.default_rng(size)
    for _ in range(200):
        shares = np.linspace(0, 1, size) + rng.normal(0, 0.2, size)
        p = float(rng.uniform(0.01, 0.99))
        literal = literal_search(lambda x, s=shares: 0.0 if x == 0 else s[x - 1], size, p)
        if literal is None:  # only where even the last share is below p
            assert shares[-1] < p
            literal = size
        assert searches.binary_search(shares, p) == literal - 1


def test_binary_search_of_a_tally_searches_the_raw_estimates():
    survey = Survey.design({"a": Integer(0, 59, epsilon=0.3, mechanism="threshold-paper", per=1)})
    values = np.random.default_rng(1).integers(0, 60, 3000)
    tally = survey.tally(survey.randomize({"a": values}, randomness=Randomness.seeded(2)))
    counts = [tally.count({"a": (0, x)}).value / 3000 for x in range(60)]
    for p in (0.1, 0.5, 0.9):
        literal = literal_search(lambda x: 0.0 if x == 0 else counts[x - 1], 60, p)
        assert tally.quantiles("a", [p], method="binary-search")[0].position == literal - 1


@pytest.mark.parametrize("where", [{}, {"b": "y"}, {"a": (10, 30), "b": "y"}], ids=str)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_estimates_are_monotone_and_lie_in_their_intervals(mechanism, where):
    survey = Survey.design(
        {
            "a": Integer(0, 39, epsilon=0.5, mechanism=mechanism, per=1),
            "b": Categorical(["x", "y"], epsilon=2),
        }
    )
    rng = np.random.default_rng(3)
    people = {"a": rng.integers(0, 40, 4000), "b": rng.choice(["x", "y"], 4000)}
    tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(4)))
    found = tally.cdf("a", where)
    raw = np.array([point.value for point in found.points])
    assert (np.diff(raw) < 0).any()
    assert (np.diff(found.values) >= 0).all()
    assert found.values.min() >= 0
    assert found.values[-1] == 1
    low, high = found.confidence_interval(simultaneous=True)
    assert (np.diff(low) >= 0).all()
    assert (np.diff(high) >= 0).all()
    assert (low <= found.values).all()
    assert (found.values <= high).all()
    many = tally.quantiles("a", PROBABILITIES, where)
    assert [one.value for one in many] == sorted(one.value for one in many)
    for method in searches.METHODS:
        for one in tally.quantiles("a", PROBABILITIES, where, method=method):
            for level in (0.01, 0.5, 0.95, 0.999):
                first, last = one.confidence_interval(level, method="normal")
                assert first <= one.value <= last


@pytest.mark.parametrize("where", [{}, {"b": "y"}, {"a": (5, None), "b": "y"}], ids=str)
def test_excess_is_the_answer_to_its_own_question(where):
    """D(k) by two routes: from prefixes and covariances, and as one function asked directly."""
    from metricldp.answers.queries import parse

    survey = Survey.design(
        {
            "a": Integer(0, 9, epsilon=1, mechanism="geometric", per=1),
            "b": Categorical(["x", "y"], epsilon=1.5),
        }
    )
    rng = np.random.default_rng(6)
    people = {"a": rng.integers(0, 10, 3000), "b": rng.choice(["x", "y"], 3000)}
    tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(7)))
    found = tally.cdf("a", where)
    for p in (0.1, 0.5, 0.8):
        functions = [(np.arange(10) <= k) - p for k in found.positions[:-1]]
        group = parse(survey, where)
        asked = tally.profile("a", group, functions, [""] * len(functions))
        for excess, answer in zip(found.excess(p), asked, strict=True):
            assert excess.value == pytest.approx(answer.value, abs=1e-8)
            assert excess.stderr == pytest.approx(answer.stderr, rel=1e-9)
            assert excess.reach(0.95) == pytest.approx(answer.reach(0.95), rel=0.02)


def test_monotone_is_the_weighted_least_squares_fit():
    rng = np.random.default_rng(8)
    shares, variances = rng.normal(size=30), rng.uniform(0.5, 2, 30)
    fit = searches.monotone(shares, variances)
    weights = 1 / variances
    # The max-min formula, which the bound's derivation rests on.
    means = np.array(
        [
            [np.average(shares[a : c + 1], weights=weights[a : c + 1]) if a <= c else np.nan
             for c in range(30)]
            for a in range(30)
        ]
    )  # fmt: skip
    formula = [max(np.min(means[a, k:]) for a in range(k + 1)) for k in range(30)]
    np.testing.assert_allclose(fit, formula, atol=1e-12)
    np.testing.assert_allclose(
        searches.monotone(shares, np.zeros(30)), isotonic_regression(shares).x
    )
    assert len(searches.monotone(np.array([]), np.array([]))) == 0


# Coverage


def repeated(mechanism, n, seed, size=24, repetitions=500):
    """Tallies of the same skewed people, blurred again and again."""
    survey = Survey.design(
        {
            "a": Integer(0, size - 1, epsilon=0.8, mechanism=mechanism, per=1),
            "b": Categorical(["x", "y"], epsilon=2),
        }
    )
    rng = np.random.default_rng(seed)
    people = {
        "a": np.minimum(rng.geometric(0.12, n) - 1, size - 1),
        "b": rng.choice(["x", "y"], n, p=[0.35, 0.65]),
    }
    randomness = Randomness.seeded(seed)
    tallies = (
        survey.tally(survey.randomize(people, randomness=randomness)) for _ in range(repetitions)
    )
    return people, tallies


@pytest.mark.parametrize("where", [{}, {"b": "y"}], ids=str)
@pytest.mark.parametrize("mechanism", ["threshold", "geometric"])
def test_intervals_and_bands_cover(mechanism, where):
    """500 repetitions: 95 % intervals of two quantiles, and the 95 % band for all shares.

    With a true rate of 95 % each count is below its limit with probability 1e-3 at most. Besides
    the median there is a p that equals a share exactly: one of its tests sits on its edge. The
    twins, intervals of half the reach and a band of single 95 % intervals, must fail that limit.
    """
    people, tallies = repeated(mechanism, 4000, seed=30)
    chosen = people["b"] == "y" if where else np.ones(4000, dtype=bool)
    positions = people["a"][chosen]
    shares = np.cumsum(np.bincount(positions, minlength=24)) / len(positions)
    median, edge = exact_place(positions, 0.5, 24), float(shares[6])
    half = 2 * stats.norm.cdf(stats.norm.ppf(0.975) / 2) - 1
    limit = stats.binom.ppf(1e-3, 500, 0.95)
    covered = dict.fromkeys(("median", "edge", "half", "band", "single"), 0)
    for tally in tallies:
        found = tally.cdf("a", where)
        for name, p, place, level in (
            ("median", 0.5, median, 0.95),
            ("edge", edge, 6, 0.95),
            ("half", edge, 6, half),
        ):
            first, last = found.quantile(p).confidence_interval(level)
            covered[name] += first <= place <= last
        low, high = found.confidence_interval(simultaneous=True)
        covered["band"] += bool(((low <= shares + 1e-9) & (shares <= high + 1e-9)).all())
        ends = np.array([point.confidence_interval() for point in found.points[:-1]])
        covered["single"] += bool(((ends[:, 0] <= shares[:-1]) & (shares[:-1] <= ends[:, 1])).all())
    print(mechanism, where, covered)
    assert min(covered["median"], covered["edge"]) >= max(limit, 0.93 * 500)
    assert covered["band"] >= limit
    assert max(covered["half"], covered["single"]) < limit


def test_half_the_error_of_the_papers_search():
    """Epsilon 0.2 per year, 100 ages, 10,000 people: the literal search against the default.

    On the same threshold-paper reports, and with the default channel, in years and in Err.
    """
    n, m, repetitions = 10_000, 100, 60
    rng = np.random.default_rng(5)
    ages = np.clip(np.rint(rng.normal(45, 18, n)), 0, m - 1).astype(int)
    shares = np.cumsum(np.bincount(ages, minlength=m)) / n
    asked = (0.25, 0.5, 0.9)
    errors = {}
    for name, mechanism in (("paper", "threshold-paper"), ("default", "auto")):
        survey = Survey.design({"age": Integer(0, m - 1, epsilon=0.2, mechanism=mechanism, per=1)})
        randomness = Randomness.seeded(3)
        for _ in range(repetitions):
            tally = survey.tally(survey.randomize({"age": ages}, randomness=randomness))
            for method in searches.METHODS if name == "paper" else [searches.ISOTONIC]:
                for found in tally.quantiles("age", asked, method=method):
                    p = found.probability
                    years = abs(found.position - exact_place(ages, p, m))
                    one = (years, error_of(found.position, shares, p))
                    errors.setdefault((name, method), []).append(one)
    means = {key: np.mean(values, axis=0) for key, values in errors.items()}
    search = means["paper", searches.BINARY_SEARCH]
    for key, (years, err) in means.items():
        shown = (years / search[0], err / search[1])
        print(key, f"years {years:.2f} ({shown[0]:.2f}), Err {err:.4f} ({shown[1]:.2f})")
    assert (means["paper", searches.ISOTONIC] <= search / 2).all()
    assert (means["default", searches.ISOTONIC] <= search / 2).all()


# Bounds


def test_formulas_of_the_bounds():
    kappa = (math.e + 1) / (math.e - 1)
    assert theorems.paper_percentile_bound(1, 200, 0.05) == pytest.approx(
        kappa * math.sqrt(2 / 200 * math.log(20))
    )
    assert theorems.paper_quantile_bound(1, 200, 64, 0.05) == pytest.approx(
        2 * kappa * math.sqrt(2 / 200 * math.log(2 * 6 / 0.05))
    )
    assert theorems.percentile_bound(1, 200, 0.05) == pytest.approx(
        kappa * math.sqrt(math.log(40) / 400)
    )
    assert theorems.quantile_bound(1, 200, 64, 0.05) == pytest.approx(
        theorems.percentile_bound(1, 200, 0.05 / 63)
    )
    for m in (2, 100, 10**6):
        assert theorems.quantile_bound(1, 200, m, 0.05) < theorems.paper_quantile_bound(
            1, 200, m, 0.05
        )


def test_the_algebra_of_the_papers_lemma():
    """A prefix [1, r] is kappa (o_m + o_r) / 2 and not, as the proof says, (o_1 + o_r)."""
    survey = Survey.design({"a": Integer(0, 5, epsilon=1, mechanism="threshold-paper", per=1)})
    channel = survey.channels["a"]
    kappa = 1 / math.tanh(0.5)
    for r in range(5):
        decoder = channel.moments.coefficients((np.arange(6) <= r).astype(float))
        expected = np.zeros(6)
        expected[r] += kappa / 2
        expected[5] += kappa / 2
        np.testing.assert_allclose(decoder, expected, atol=1e-12)
    # Two-sided Hoeffding for its 2n signs is below the lemma up to delta = 1/2, not beyond.
    for delta, below in ((0.01, True), (0.5, True), (0.6, False)):
        correct = kappa * math.sqrt(math.log(2 / delta) / 100)
        assert (correct <= theorems.paper_percentile_bound(1, 100, delta) * (1 + 1e-12)) is below


def test_the_bounds_hold_and_a_third_of_them_does_not():
    """400 repetitions at delta = 0.05; with that rate a failure count above the limit has 1e-3.

    Hoeffding's bound is about 2.8 standard errors here, so a third of it must be caught.
    """
    n, m, repetitions, delta = 2000, 12, 400, 0.05
    survey = Survey.design({"a": Integer(0, m - 1, epsilon=0.5, mechanism="threshold", per=1)})
    values = np.random.default_rng(9).integers(0, m, n)
    shares = np.cumsum(np.bincount(values, minlength=m)) / n
    randomness = Randomness.seeded(10)
    one, whole = theorems.percentile_bound(0.5, n, delta), theorems.quantile_bound(0.5, n, m, delta)
    failed = {"one": 0, "third": 0, "isotonic": 0, "binary-search": 0}
    for _ in range(repetitions):
        found = survey.tally(survey.randomize({"a": values}, randomness=randomness)).cdf("a")
        off = abs(found.points[5].value - shares[5])
        failed["one"] += off > one
        failed["third"] += off > one / 3
        for method in searches.METHODS:
            place = found.quantile(0.37, method).position
            failed[method] += error_of(place, shares, 0.37) > whole
    limit = stats.binom.ppf(1 - 1e-3, repetitions, delta)
    assert max(failed["one"], failed["isotonic"], failed["binary-search"]) <= limit
    assert failed["third"] > limit


@pytest.mark.parametrize(
    ("arguments", "needle"),
    [
        ((0, 10, 5, 0.1), "epsilon above 0"),
        ((math.nan, 10, 5, 0.1), "epsilon above 0"),
        ((1, 0, 5, 0.1), "n of at least 1"),
        ((1, 10, 1, 0.1), "m of at least 2"),
        ((1, 10, 5, 0), "delta between"),
        ((1, 10, 5, "half"), "delta between"),
    ],
)
def test_bounds_of_nothing(arguments, needle):
    for bound in (theorems.quantile_bound, theorems.paper_quantile_bound):
        with pytest.raises(QueryError, match=needle):
            bound(*arguments)


# Questions that have no answer, and how answers look


@pytest.fixture(scope="module")
def tally():
    survey = Survey.design(
        {
            "income": Continuous(0, 200_000, bins=100, epsilon=1, per=10_000),
            "mood": Ordinal(LEVELS, epsilon=2),
            "region": Categorical(["x", "y", "z"], epsilon=2),
        }
    )
    rng = np.random.default_rng(12)
    people = {
        "income": rng.gamma(2, 25_000, 20_000).clip(0, 200_000),
        "mood": rng.choice(LEVELS, 20_000),
        "region": rng.choice(["x", "y"], 20_000),
    }
    return survey.tally(survey.randomize(people, randomness=Randomness.seeded(13)))


@pytest.mark.parametrize("p", [0, 1, -0.1, 1.5, math.nan, math.inf, "0.5", None, True, [0.5]])
def test_probabilities_lie_between_0_and_1(tally, p):
    for ask in (tally.quantile, lambda a, p: tally.quantiles(a, [0.5, p])):
        with pytest.raises(QueryError, match="between 0 and 1") as caught:
            ask("income", p)
        assert "\n" not in str(caught.value)


def test_questions_without_an_answer(tally):
    cases = [
        (lambda: tally.quantile("region", 0.5), "region is categorical and has no quantiles"),
        (lambda: tally.cdf("region"), "region is categorical"),
        (lambda: tally.quantile("height", 0.5), "no attribute 'height'"),
        (
            lambda: tally.quantiles("income", [0.5], method="magic"),
            "one of isotonic, binary-search",
        ),
        (lambda: tally.quantiles("income", 0.5), "a list of probabilities"),
        (lambda: tally.quantiles("income", "0.5"), "a list of probabilities"),
        (lambda: tally.quantile("income", 0.5) - tally.quantile("income", 0.1), "compare their"),
        (lambda: 5 - tally.quantile("income", 0.5), "compare their"),
        (
            lambda: tally.quantile("income", 0.5).confidence_interval(1),
            "a confidence level is between 0 and 1",
        ),
        (
            lambda: tally.cdf("income").confidence_interval(0, simultaneous=True),
            "a confidence level is between 0 and 1",
        ),
    ]
    for ask, needle in cases:
        with pytest.raises(QueryError, match=needle) as caught:
            ask()
        assert "\n" not in str(caught.value)
    nobody = tally.survey.tally(tally.store.table.slice(0, 0))
    with pytest.raises(QueryError, match="there are no reports"):
        nobody.quantile("income", 0.5)


def test_of_a_group_that_may_be_nobody_nothing_is_known(tally):
    found = tally.quantile("income", 0.5, {"region": "z"})
    assert str(found).startswith("cannot be estimated: the group is not distinguishable from empty")
    assert "the group is estimated at" in str(found)
    table = EstimateTable.single(found)
    assert math.isnan(table.values[0]) and str(table) == str(found)
    low, high = tally.cdf("income", {"region": "z"}).confidence_interval(simultaneous=True)
    assert (low[:-1].min(), high.max()) == (0, 1)


def test_a_band_holds_everything_at_a_level_at_which_the_group_may_be_empty():
    """Reports written down, not drawn: 185 of 400 say x, an estimate of 3.5 errors above zero."""
    survey = Survey.design(
        {
            "a": Integer(0, 3, epsilon=1, mechanism="geometric", per=1),
            "b": Categorical(["x", "y"], epsilon=0.5),
        }
    )
    rows = np.arange(400)
    columns = {"a": (rows % 4).astype(np.uint8), "b": (rows >= 185).astype(np.uint8)}
    found = survey.tally(to_table(survey, columns)).cdf("a", {"b": "x"})
    assert found.confidence_interval(0.5, simultaneous=True)[0][-2] > 0
    low, high = found.confidence_interval(0.999999, simultaneous=True)
    assert (low[:-1].tolist(), high.tolist()) == ([0, 0, 0], [1, 1, 1, 1])


def test_text_and_data_of_quantiles_and_distributions(tally):
    found = tally.quantile("income", 0.5)
    assert re.match(r"4\d,\d00 \(95% CI ", str(found))
    low, high = found.confidence_interval()
    assert low < found.value < high
    assert low % 2000 == high % 2000 == 0
    data = found.to_dict(0.9)
    assert json.loads(json.dumps(data)) == data
    assert (data["confidence_level"], data["label"]) == (
        0.9,
        "0.5-quantile of income among all respondents",
    )
    assert found == tally.quantile("income", 0.5)

    shares = tally.cdf("mood", {"region": "x"})
    table = shares.to_arrow()
    assert table["mood"].to_pylist() == LEVELS
    assert json.loads(json.dumps(shares.to_dict())) == shares.to_dict()
    last = dict.fromkeys(("estimate", "ci_low", "ci_high"), 1) | {"mood": "always", "std_error": 0}
    assert shares.to_dict()["rows"][3] == {**last, "n": tally.n, "note": None}
    assert shares["always"].question == "mood up to always among region x"


# Command line


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["metricldp", *words])
    code = 0
    try:
        cli.main()
    except SystemExit as stopped:
        code = stopped.code
    out, err = capsys.readouterr()
    return code, out, err


def test_command_line(tally, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tally.survey.save("survey.toml")
    tally.save("reports.parquet")
    files, text = ("survey.toml", "reports.parquet"), "region in ['x', 'y']"
    where = {"region": ["x", "y"]}
    for kind, words, answer in (
        ("quantile", ["income", text, "--q", "0.25"], tally.quantile("income", 0.25, where)),
        ("quantile", ["mood"], tally.quantile("mood", 0.5)),
        ("mean", ["income", text], tally.mean("income", where)),
        ("sum", ["income", text], tally.sum("income", where)),
        ("fraction", [text], tally.fraction(where)),
    ):
        assert run(monkeypatch, capsys, "query", kind, *files, *words) == (0, f"{answer}\n", "")
        code, out, err = run(monkeypatch, capsys, "query", kind, *files, *words, "--json")
        assert (code, err) == (0, "")
        (row,) = json.loads(out)["rows"]
        expected = answer.to_dict()
        assert json.loads(out)["label"] == expected["label"]
        numbers = ("estimate", "std_error", "ci_low", "ci_high", "n")
        assert [row[name] for name in numbers] == pytest.approx(
            [expected[name] for name in numbers]
        )
    for words, needle in (
        (["quantile", *files, "income", "--q", "half"], "is not a number"),
        (["quantile", *files, "income", "--q", "1.5"], "between 0 and 1"),
        (["quantile", *files, "region"], "region"),
        (["mean", *files, "region"], "region"),
        (["sum", *files, "height"], "height"),
        (["fraction", *files, "income"], "income"),
    ):
        code, out, err = run(monkeypatch, capsys, "query", *words)
        assert (code, out) == (2, "")
        assert needle in err
        assert err.count("\n") == 1


def test_counts_over_reports_of_one_integer_load_neither_numba_nor_scipy(tmp_path):
    survey = Survey.design({"a": Integer(0, 3, epsilon=1, per=1)})
    survey.save(tmp_path / "survey.toml")
    pq.write_table(survey.randomize({"a": [0, 1, 2]}), tmp_path / "reports.parquet")
    program = """
import sys
from metricldp import Survey
tally = Survey.load("survey.toml").tally("reports.parquet")
tally.count({"a": 1}), tally.fraction({"a": 1}), tally.mean("a"), tally.histogram("a")
assert not {"numba", "scipy"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)


@pytest.mark.parametrize("unseen", [3, 0])
def test_the_band_holds_in_the_empty_tail_of_a_small_group(unseen, monkeypatch):
    """60 repetitions; at a true rate of 95 % fewer than 50 bands hold with probability 1e-4.

    Nearly nobody of the group is in the upper half of the domain, so the estimated variances there
    are often zero by chance. The twin, normal intervals without the rule of three, must fail.
    """
    if not unseen:
        monkeypatch.setattr("metricldp.answers.estimate.UNSEEN", 0)
        monkeypatch.setattr(
            Estimate, "reach", lambda self, level: normal_reach(level) * self.stderr
        )
    survey = Survey.design(
        {k: Integer(0, 59, epsilon=0.3, mechanism="geometric", per=1) for k in ("age", "income")}
    )
    rng = np.random.default_rng(40)
    n = 20_000
    people = {"age": rng.integers(0, 60, n), "income": np.minimum(rng.geometric(0.2, n), 59)}
    chosen = people["income"][(people["age"] >= 10) & (people["age"] <= 24)]
    shares = np.cumsum(np.bincount(chosen, minlength=60)) / len(chosen)
    randomness = Randomness.seeded(41)
    held = 0
    for _ in range(60):
        tally = survey.tally(survey.randomize(people, randomness=randomness))
        low, high = tally.cdf("income", {"age": (10, 24)}).confidence_interval(simultaneous=True)
        held += bool(((low <= shares + 1e-9) & (shares <= high + 1e-9)).all())
    assert (held >= 50) == (unseen == 3), held


def test_a_quantile_is_bracketed_for_one_look_and_tested_at_all_values_for_many():
    survey = Survey.design({"a": Integer(0, 29, epsilon=0.3, mechanism="geometric", per=1)})
    ages = np.clip(np.random.default_rng(1).normal(12, 4, 3000).round(), 0, 29).astype(int)
    found = survey.tally(survey.randomize({"a": ages}, randomness=Randomness.seeded(1))).quantile(
        "a", 0.5
    )
    assert found.confidence_interval() == found.confidence_interval(method="normal")
    (low, high), (first, last) = (
        found.confidence_interval(method="envelope"),
        found.confidence_interval(),
    )
    assert first <= low and high < last
    tests = found.cdf.excess(0.5)
    ends = [
        test.confidence_interval(together(0.95, len(tests)), method="normal", anytime=True)
        for test in tests
    ]
    wide = (
        min(k for k, (_, end) in enumerate(ends) if end >= 0),
        max(k for k, (end, _) in enumerate(ends) if end < 0) + 1,
    )
    assert found.confidence_interval(anytime=True) == wide
    single = [test.confidence_interval(0.95, method="normal", anytime=True) for test in tests]
    assert max(k for k, (end, _) in enumerate(single) if end < 0) + 1 < wide[1]
    for wrong in ("yes", 0):
        with pytest.raises(QueryError, match="anytime is True or False"):
            found.confidence_interval(anytime=wrong)
