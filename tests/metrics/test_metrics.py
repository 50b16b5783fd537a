"""Lp metrics, real values rounded at random, and the best number of bins."""

import itertools
import math
import tomllib
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import exact_law
from metricldp import (
    Categorical,
    Continuous,
    Integer,
    InvalidSpecError,
    Lp,
    Randomness,
    Survey,
    SurveySpec,
    Weight,
)
from metricldp.attributes.continuous import AutoBins
from metricldp.mechanisms.bins import trade_off
from metricldp.mechanisms.sampling import FRACTION_BITS
from metricldp_core.exact import at_most_exp, decimal_of, exp_bounds, log_bounds


@given(st.floats(1, 50), st.integers(1, 12))
def test_shares_are_rounded_down_and_tight(p, attributes):
    share = Lp(p).share(attributes)
    assert float(share) == pytest.approx(attributes ** (1 / p - 1), rel=1e-9)
    # share <= D^(1/p - 1) exactly: take logarithms, ln share <= -(1 - 1/p) ln D.
    power = 1 - 1 / decimal_of(p)
    assert log_bounds(share)[0] <= -power * log_bounds(Fraction(attributes))[0]


def test_exact_shares():
    assert Lp(2).share(4) <= Fraction(1, 2)
    assert Lp(2).share(2) ** 2 * 2 <= 1
    assert Lp(math.inf).share(3) == Fraction(1, 3)
    assert Lp(1).share(9) == 1
    assert Lp(7).share(1) == 1


@pytest.mark.parametrize("p", [1, 2, 3.5, math.inf])
def test_the_joint_loss_is_within_the_lp_metric(p):
    """Every pair of joint values of a tiny survey, exactly: the product of the worst ratios."""
    survey = Survey.design(
        SurveySpec(
            {
                "a": Integer(0, 2, epsilon=1, mechanism="geometric", per=1),
                "b": Integer(0, 3, epsilon=0.5, mechanism="threshold", per=1),
                "c": Categorical(["x", "y"], epsilon=0.7),
            },
            metric=Lp(p),
        )
    )
    assert survey.certify().holds
    grids = [range(c.size) for c in survey.channels.values()]
    for x, other in itertools.product(itertools.product(*grids), repeat=2):
        ratio = math.prod(
            (
                c.distribution.ratio(*v)
                for c, v in zip(survey.channels.values(), zip(x, other, strict=True), strict=True)
            ),
            start=Fraction(1),
        )
        distances = [
            float(a.distances.distance(*v))
            for a, v in zip(survey.attributes.values(), zip(x, other, strict=True), strict=True)
        ]
        allowed = Fraction(survey.metric.join(distances)) + Fraction(1, 1 << 45)
        assert at_most_exp(ratio, allowed)
    assert Survey.from_toml(survey.to_toml()) == survey
    assert Survey.from_json(survey.to_json()) == survey


def test_lp_changes_the_fingerprint_and_the_words():
    attributes = {"a": Integer(0, 9, epsilon=1, per=1), "b": Integer(0, 9, epsilon=1, per=1)}
    plain, euclidean = (
        Survey.design(attributes),
        Survey.design(SurveySpec(attributes, metric=Lp(2))),
    )
    assert plain.fingerprint != euclidean.fingerprint
    assert plain == Survey.design(SurveySpec(attributes, metric=Lp(1)))
    text = str(euclidean.explain())
    assert "L2" in text
    assert (
        euclidean.expected_error({"a": (2, 3)}, n=9, prior="worst").stderr
        > plain.expected_error({"a": (2, 3)}, n=9, prior="worst").stderr
    )


@pytest.mark.parametrize("p", [0.99, 0, -1, math.nan, "2", None])
def test_bad_p(p):
    with pytest.raises(InvalidSpecError, match="at least 1"):
        Lp(p)


@pytest.mark.parametrize("p", [2, math.inf])
def test_public_weights_alone_are_refused_under_any_metric(p):
    with pytest.raises(InvalidSpecError, match="at least one attribute that is randomized"):
        Survey.design(SurveySpec({"w": Weight(0, 1)}, metric=Lp(p)))


def test_a_survey_takes_only_lp_metrics():
    with pytest.raises(InvalidSpecError, match="Lp"):
        Survey.design(SurveySpec({"a": Integer(0, 9, epsilon=1, per=1)}, metric="L2"))


def test_logarithm_bounds():
    for value in (Fraction(1, 10**9), Fraction(1), Fraction(2), Fraction(10**9), Fraction(7, 5)):
        lower, upper = log_bounds(value)
        assert exp_bounds(lower)[0] <= value <= exp_bounds(upper)[1]
        assert float(upper - lower) <= 1e-12 * max(1, abs(math.log(value)))


# Real values


@pytest.mark.parametrize("mechanism", ["threshold", "geometric", "threshold-paper"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_metric_of_rounded_reals_is_exact(mechanism, epsilon):
    """The exact law at two reals, a mixture of the laws at two points, never differs by more than
    e^(epsilon distance); with bins the same values would."""
    survey = Survey.design(
        {
            "v": Continuous(
                0, 4, points=5, epsilon=epsilon, mechanism=mechanism, rounding="stochastic", per=1
            )
        }
    )
    channel = survey.channels["v"]
    laws = [exact_law(channel, k) for k in range(5)]

    def law(value):
        whole = min(math.floor(value), 3)
        rest = value - whole
        return {r: (1 - rest) * laws[whole][r] + rest * laws[whole + 1][r] for r in laws[0]}

    values = [Fraction(k, 16) for k in (0, 1, 3, 15, 16, 17, 31, 40, 63, 64)]
    for v, other in itertools.product(values, repeat=2):
        one, two = law(v), law(other)
        worst = max(one[r] / two[r] for r in one)
        assert at_most_exp(worst, Fraction(epsilon) * abs(v - other))
    # It is no looser than it must be: at a point the slope is the whole epsilon.
    near = Fraction(1, 1 << 20)
    one, two = law(1 + near), law(Fraction(1))
    worst = max(one[r] / two[r] for r in one)
    assert not at_most_exp(worst, Fraction(epsilon) * near * Fraction(99, 100))


def test_real_values_keep_their_means():
    survey = Survey.design(
        {"v": Continuous(-1, 1, points=5, epsilon=60, rounding="stochastic", per=1)}
    )
    values = np.random.default_rng(1).uniform(-1, 1, 40_000)
    tally = survey.tally(survey.randomize({"v": values}, randomness=Randomness.seeded(3)))
    # Rounding within steps of 1/2: a variance of at most 1/16 per person; six standard errors.
    assert abs(tally.mean("v").value - values.mean()) < 6 * 0.25 / math.sqrt(40_000)


@pytest.mark.parametrize("mechanism", ["threshold", "geometric"])
def test_errors_of_real_values_are_never_understated(mechanism):
    """By enumeration at many reals: the mean of the estimated variance is at least the exact one,
    and equal far from the cuts."""
    from metricldp.reports import arrow

    survey = Survey.design(
        {
            "v": Continuous(
                0, 8, points=9, epsilon=1, mechanism=mechanism, rounding="stochastic", per=1
            )
        }
    )
    channel = survey.channels["v"]
    column = channel.every_report()
    table = arrow.to_table(survey, {"v": column})
    laws = [np.array([float(p) for p in exact_law(channel, k).values()]) for k in range(9)]
    tallies = [survey.tally(table.slice(k, 1)) for k in range(len(column))]
    count = [tally.count({"v": (2, 5)}) for tally in tallies]
    total = [tally.sum("v") for tally in tallies]
    soft = np.interp(np.arange(0, 8.01, 0.25), np.arange(9), [0, 0, 0.5, 1, 1, 0.5, 0, 0, 0])
    for value, inside in zip(np.arange(0, 8.01, 0.25), soft, strict=True):
        whole = min(int(value), 7)
        law = (1 - (value - whole)) * laws[whole] + (value - whole) * laws[whole + 1]
        for answers, truth in ((count, inside), (total, value)):
            values = np.array([a.value for a in answers])
            assert law @ values == pytest.approx(truth, abs=1e-9)
            exact = law @ values**2 - truth**2
            estimated = law @ np.array([a.variance for a in answers])
            assert estimated >= exact - 1e-9
            assert estimated <= exact + 1 + 1e-9
        if value in (0, 7.5, 8):
            estimated = law @ np.array([a.variance for a in count])
            exact = law @ np.array([a.value for a in count]) ** 2 - inside**2
            assert estimated == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 20.0])
def test_means_of_real_values_do_not_understate_their_error(epsilon):
    """2,000 people next to a cut, their values on both sides of zero: the spread of 300 means.

    The mean of the estimated standard errors must not be more than 6 % below it; the sampling error
    of the spread is 4 %. Without the residual it was up to 10 % below.
    """
    survey = Survey.design(
        {
            "v": Continuous(-4, 4, points=9, epsilon=epsilon, rounding="stochastic", per=1),
            "b": Continuous(0, 8, points=9, epsilon=epsilon, per=1, rounding="stochastic"),
        }
    )
    rng = np.random.default_rng(6)
    people = {"v": rng.choice([-3.0, 3.5], 2000, p=[0.3, 0.7]), "b": np.full(2000, 4.5)}
    randomness = Randomness.seeded(7)
    found = [
        survey.tally(survey.randomize(people, randomness=randomness)).mean("v", {"b": (0, 4)})
        for _ in range(300)
    ]
    spread = np.std([mean.value for mean in found])
    assert np.mean([mean.stderr for mean in found]) > 0.94 * spread


def test_real_positions_are_fixed_point():
    attribute = Continuous(0, 10, points=11, epsilon=1, rounding="stochastic", per=1)
    one = 1 << FRACTION_BITS
    places = attribute.positions(np.array([0, 0.5, 3.25, 10.0]))
    assert places.tolist() == [0, one // 2, 3 * one + one // 4, 10 * one]
    with pytest.raises(InvalidSpecError, match="too wide"):
        Continuous(-1e308, 1e308, points=5, epsilon=1, per=1e300, rounding="stochastic")
    with pytest.raises(InvalidSpecError, match="too close"):
        Continuous(1e16, 1e16 + 4, points=1000, epsilon=1, rounding="stochastic", per=1)
    for bad in ({"points": 1}, {"points": 2.5}, {"low": 10}):
        with pytest.raises(InvalidSpecError):
            Continuous(
                **{"low": 0, "high": 10, "points": 5, "epsilon": 1, **bad}, rounding="stochastic"
            )


# Bins


def test_the_best_bins_grow_with_people_and_with_epsilon():
    def best(n, epsilon, **more):
        bins = AutoBins(n=n, **more)
        return trade_off(Continuous(0, 100, bins=bins, epsilon=epsilon, per=10)).best

    assert best(1_000, 1) < best(100_000, 1) < best(10_000_000, 1)
    assert best(10_000, 0.5) < best(10_000, 2)
    assert best(10_000, 1) < best(10_000, 1, smoothness=8)
    even = best(10_000, 1, prior=(1.0,) * 20)
    assert even == best(10_000, 1)
    assert best(10_000, 1, prior=(1.0, *[0.0] * 19)) > even


@pytest.mark.parametrize(("low", "high"), [(0, 200_000), (0, 1), (-37.5, 62.5), (0, 37)])
@pytest.mark.parametrize("n", [1000, 10_000, 1_000_000])
def test_best_bins_have_round_widths_where_they_cost_little(low, high, n):
    bins = AutoBins(n=n)
    curve = trade_off(Continuous(low, high, bins=bins, epsilon=1, within=(high - low) / 20))
    width = Fraction(high - low) / curve.best
    mantissa = width / Fraction(10) ** math.floor(math.log10(width))
    chosen = curve.total[list(curve.bins).index(curve.best)]
    assert chosen <= 1.25 * curve.total.min()
    assert mantissa in (1, 2, Fraction(5, 2), 5, 10) or (n == 1000 and high == 37)


def test_bins_of_a_domain_without_round_widths_have_the_smallest_error():
    curve = trade_off(Continuous(0, 99.9, bins="auto", epsilon=1, within=5))
    assert curve.best == curve.bins[np.argmin(curve.total)]


def test_the_curve_is_what_it_says():
    attribute = Continuous(0, 100, bins="auto", epsilon=1, per=10)
    curve = trade_off(attribute)
    assert curve.best == Survey.design({"v": attribute}).attributes["v"].bins
    for bins, estimation in zip(curve.bins[:6], curve.estimation[:6], strict=True):
        survey = Survey.design({"v": Continuous(0, 100, bins=int(bins), epsilon=1, per=10)})
        each = [
            survey.expected_error(
                {"v": (100 * a / bins, 100 * b / bins)}, n=10_000, prior="uniform"
            ).stderr
            ** 2
            for a in range(bins)
            for b in range(a + 1, bins + 1)
        ]
        assert estimation == pytest.approx(np.mean(each), rel=1e-9)
    assert curve.to_arrow().column_names == ["bins", "estimation", "truncation", "total"]
    assert (np.diff(curve.truncation) < 0).all()


def test_truncation_is_the_mean_square_of_moved_ends():
    """10,000 random ranges over evenly spread people, 20 bins; sampling error about 2 %."""
    rng = np.random.default_rng(7)
    n, bins = 10_000, 20
    ends = rng.uniform(0, 1, (20_000, 2))
    moved = np.rint(ends * bins) / bins
    change = n * ((moved[:, 1] - ends[:, 1]) - (moved[:, 0] - ends[:, 0]))
    attribute = Continuous(0, 1, bins=AutoBins(n=n), epsilon=1, per=0.1)
    curve = trade_off(attribute)
    expected = curve.truncation[list(curve.bins).index(bins)]
    assert np.mean(change**2) == pytest.approx(expected, rel=0.06)


def designed(text):
    return Survey.design(SurveySpec.from_dict(tomllib.loads(text)))


def test_bins_are_settled_in_the_file():
    survey = Survey.design({"v": Continuous(0, 1, bins=AutoBins(n=500), epsilon=1, per=0.1)})
    assert "auto" not in survey.to_toml()
    text = '[attributes.v]\nkind = "continuous"\nlow = 0\nhigh = 1\n'
    text += "epsilon = 1\nper = 0.1\n"
    assert designed(text + "bins = {n = 500}\n") == survey
    assert designed(text + 'bins = "auto"\n').attributes["v"].bins > 2
    for wrong in (
        '"many"',
        "{people = 5}",
        "{n = 0}",
        "{smoothness = 2, prior = [1.0, 2.0]}",
        "{smoothness = -1}",
        "{prior = [-1.0, 2.0]}",
    ):
        with pytest.raises(InvalidSpecError):
            designed(text + f"bins = {wrong}\n")
    with pytest.raises(
        InvalidSpecError, match="compares threshold and geometric, not randomized-response"
    ):
        Survey.design(
            {"v": Continuous(0, 1, bins="auto", epsilon=1, mechanism="randomized-response", per=1)}
        )
