"""Moments: closed forms against the generic estimators, and numerical edge cases of both."""

from fractions import Fraction

import numpy as np
import pytest

from metricldp.basics.errors import QueryError
from metricldp.mechanisms import (
    GeometricChannel,
    MatrixChannel,
    RandomizedResponseChannel,
    ThresholdChannel,
    ThresholdDummyChannel,
    ThresholdPaperChannel,
    UnaryChannel,
    moments,
)
from metricldp.mechanisms.additive_channel import AdditiveChannel
from metricldp.mechanisms.moments import Independent, OneHotMatrix
from metricldp.mechanisms.table import TableChannel
from metricldp_core.distributions import Threshold as ThresholdBits
from metricldp_core.exact import WORD

ONE = Fraction(1)
UNEQUAL = ThresholdChannel(ThresholdBits(6, tuple(WORD // k for k in (3, 5, 4, 9, 3))))
ONE_HOT = [
    GeometricChannel.for_epsilon(12, Fraction(1, 3)),
    RandomizedResponseChannel.for_epsilon(12, ONE),
    AdditiveChannel.of((4,), (6,), ((0, 0, 1, 3, 2, 1), (2, 1, 1, 0, 1, 1)), Fraction(1, 2)),
]
BITS = [
    ThresholdChannel.for_epsilon(12, ONE),
    UNEQUAL,
    UnaryChannel.for_losses([(1.0, 0.3), (0.4, 0.2), (2.0, 0.1), (0.5, 0.5)]),
]
LISTED = {
    "threshold": ThresholdChannel.for_epsilon(4, ONE),
    "unequal": ThresholdChannel(ThresholdBits(4, tuple(WORD // k for k in (3, 5, 4)))),
    "geometric": GeometricChannel.for_epsilon(5, ONE),
    "randomized-response": RandomizedResponseChannel.for_epsilon(5, ONE),
    "more reports": TableChannel.of(
        [[WORD // 2, WORD // 4, WORD // 4], [WORD // 8, WORD // 4, 5 * (WORD // 8)]]
    ),
    "matrix": MatrixChannel.of(np.tri(4, dtype=int)[:-1], [ONE] * 3, 2),
}
each_listed = pytest.mark.parametrize("channel", LISTED.values(), ids=LISTED)


def functions_of(size, seed=1):
    return np.random.default_rng(seed).normal(size=(4, size))


def assert_equal_estimators(closed, generic):
    f, g = functions_of(closed.size), functions_of(closed.size, 2)
    np.testing.assert_allclose(closed.coefficients(f), generic.coefficients(f), atol=1e-8)
    np.testing.assert_allclose(closed.second_moment(f, g), generic.second_moment(f, g), atol=1e-8)
    totals = np.random.default_rng(3).normal(size=(closed.feature_count, 2, 3))
    np.testing.assert_allclose(closed.frequencies(totals), generic.frequencies(totals), atol=1e-8)
    np.testing.assert_allclose(closed.output_range(f[0]), generic.output_range(f[0]), atol=1e-8)
    np.testing.assert_allclose(closed.skewness(f), generic.skewness(f), rtol=1e-7)


@pytest.mark.parametrize("channel", ONE_HOT, ids=lambda channel: type(channel).__name__)
def test_closed_forms_of_one_hot_features_are_the_generic_estimator(channel):
    assert_equal_estimators(channel.moments, OneHotMatrix(channel.moments.probabilities))
    shares = functions_of(channel.size)
    spread = shares @ channel.moments.probabilities
    np.testing.assert_allclose(channel.moments.spread(shares), spread, atol=1e-12)


@pytest.mark.parametrize("channel", BITS, ids=["threshold", "unequal", "unary"])
def test_closed_forms_of_bits_are_the_generic_estimator(channel):
    means = channel.moments.means
    assert_equal_estimators(channel.moments, Independent(means, 1 - means**2, -1, 1))


def test_additive_noise_has_the_best_estimator_for_its_prior():
    prior = (0.5, 0.25, 0.125, 0.125)
    pattern = ((0, 0, 1, 3, 2, 1),)
    channel = AdditiveChannel.of((4,), (6,), pattern, Fraction(1, 2), prior)
    generic = OneHotMatrix(channel.moments.probabilities, prior)
    assert_equal_estimators(channel.moments, generic)
    rows = functions_of(4)
    for people in (None, np.array(prior)):
        expected = generic.mean_square(rows.T @ rows, people)
        assert channel.moments.mean_square(rows.T @ rows, people) == pytest.approx(expected)


def test_best_estimator_minimises_the_mean_square_under_the_prior():
    """Weighted least squares by normal equations; another unbiased estimator is worse."""
    probabilities = np.random.default_rng(4).dirichlet(np.ones(6), size=3)
    for prior in (None, (0.7, 0.2, 0.1)):
        weights = np.ones(3) / 3 if prior is None else np.array(prior)
        scaled = probabilities / (weights @ probabilities)
        expected = np.linalg.solve(scaled @ probabilities.T, scaled)
        found = OneHotMatrix(probabilities, prior)
        np.testing.assert_allclose(found.coefficients(np.eye(3)), expected, rtol=1e-9)
        plain = np.linalg.pinv(probabilities.T)
        assert found.mean_square(np.eye(3), weights) < weights @ probabilities @ (plain**2).sum(0)


def test_reports_that_nobody_sends_and_reports_in_proportion_change_nothing():
    """The matrix has linearly dependent columns, one of which is 0."""
    base = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    wide = np.concatenate([base[:, :1] / 2, base[:, :1] / 2, base[:, 1:], np.zeros((2, 1))], axis=1)
    one, other = OneHotMatrix(base), OneHotMatrix(wide)
    f = functions_of(2)
    np.testing.assert_allclose(other.second_moment(f), one.second_moment(f), rtol=1e-9)
    assert (other.coefficients(f)[:, -1] == 0).all()


@pytest.mark.parametrize("prior", [(1.0, 0.0, 0.0), (0.5, 0.5, 0.0)])
def test_positions_without_prior_mass_are_estimated_without_bias(prior):
    """Report 3 comes from the last position only, so its mean probability is 0."""
    probabilities = np.array([[0.6, 0.2, 0.2, 0.0], [0.2, 0.6, 0.2, 0.0], [0.1, 0.1, 0.2, 0.6]])
    found = OneHotMatrix(probabilities, prior)
    np.testing.assert_allclose(found.mean(found.coefficients(np.eye(3))), np.eye(3), atol=1e-9)


def test_positions_that_no_report_distinguishes_are_named():
    alike = OneHotMatrix(np.array([[0.25, 0.75], [0.5, 0.5], [0.5, 0.5]]))
    with pytest.raises(QueryError, match=r"do not determine the count of position [12];"):
        alike.coefficients(np.eye(3))
    square = OneHotMatrix(np.full((3, 3), 1 / 3))
    with pytest.raises(QueryError, match="do not determine the count"):
        square.coefficients(np.eye(3))


def test_generic_estimator_of_many_values_keeps_its_digits():
    """Normal equations lose up to five digits at 1,000 values; here 300, small epsilon."""
    geometric = GeometricChannel.for_epsilon(300, Fraction(1, 50)).moments
    rows = np.tri(300)[[20, 150, 290]]
    padded = np.concatenate([geometric.probabilities / 2] * 2, axis=1)
    exact = geometric.coefficients(rows)
    found = OneHotMatrix(padded).coefficients(rows)
    np.testing.assert_allclose(found, np.tile(exact, 2), atol=1e-9 * np.abs(exact).max())


@pytest.mark.parametrize(
    "kind",
    [
        ThresholdChannel,
        ThresholdPaperChannel,
        ThresholdDummyChannel,
        GeometricChannel,
        RandomizedResponseChannel,
    ],
)
def test_mean_range_variance_is_the_mean_over_all_ranges(kind, monkeypatch):
    channel = kind.for_epsilon(9, ONE)
    ranges = np.array([[a <= x < b for x in range(9)] for b in range(10) for a in range(b)]) * 1.0
    expected = (channel.moments.second_moment(ranges) - ranges).mean()
    assert channel.moments.mean_range_variance() == pytest.approx(expected, rel=1e-9)
    generic = moments.Moments.mean_range_variance
    assert generic(channel.moments) == pytest.approx(expected, rel=1e-9)
    monkeypatch.setattr(moments, "_AT_ONCE", 20)
    assert generic(channel.moments) == pytest.approx(expected, rel=1e-9)


def test_mean_square_is_a_mean_under_the_prior():
    channel, prior = GeometricChannel.for_epsilon(5, ONE), np.array([0.5, 0.2, 0.1, 0.1, 0.1])
    rows = functions_of(5)
    expected = (channel.moments.second_moment(rows) @ prior).sum()
    assert channel.moments.mean_square(rows.T @ rows, prior) == pytest.approx(expected)


def test_the_paper_extends_functions_and_reads_its_noisy_last_bit():
    """Section 4: the factors kappa^2 and (kappa^2 - 1)/2 + 1 for an attribute left out."""
    square = ((np.e + 1) / (np.e - 1)) ** 2
    expected = {
        ThresholdChannel: 1.0,
        ThresholdPaperChannel: square,
        ThresholdDummyChannel: (square - 1) / 2 + 1,
    }
    for kind, second in expected.items():
        found = kind.for_epsilon(7, ONE).moments
        np.testing.assert_allclose(found.second_moment(np.ones(7)), second, rtol=1e-9)
        assert found.knows_total == (second == 1)


# Skewness and unseen variance


def outputs_and_law(channel, functions):
    """The estimators at every report, and P(report | x) of every report."""
    reports = channel.every_report()
    law = [[float(channel.probability(x, row)) for row in reports] for x in range(channel.size)]
    return channel.values(reports, channel.moments.coefficients(functions)), np.array(law)


@each_listed
def test_unseen_variance_is_the_variance_of_an_estimated_variance_over_its_mean(channel):
    variances = np.random.default_rng(10).uniform(0.5, 3, size=(3, channel.size))
    variances[1, -1] = 0
    variances[2] = 2.5  # the same for everybody, so it is known
    outputs, law = outputs_and_law(channel, variances)
    spread = outputs**2 @ law.T - variances**2
    pairs = zip(spread, variances, strict=True)
    expected = [max(v / m for v, m in zip(*row, strict=True) if m) for row in pairs]
    expected[2] = 0
    found = channel.moments.unseen_variance(variances)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["geometric", "randomized-response", "more reports"])
def test_skewness_of_one_hot_features_is_the_fourth_moment_over_the_second(name):
    channel = LISTED[name]
    functions = np.random.default_rng(11).normal(size=(5, channel.size))
    functions[3] = 7  # known without a report
    functions[4] += 1e6  # a level changes nothing
    outputs, law = outputs_and_law(channel, functions)
    expected = np.zeros(5)
    for k in (0, 1, 2, 4):
        for x in range(channel.size):
            second, fourth = (law[x] @ (outputs[k] - functions[k, x]) ** p for p in (2, 4))
            expected[k] = max(expected[k], np.sqrt(fourth / second))
    np.testing.assert_allclose(channel.moments.skewness(functions), expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("name", ["threshold", "unequal"])
def test_skewness_of_bits_is_the_largest_effect_of_one_bit(name):
    channel = LISTED[name]
    functions, reports = functions_of(4), channel.every_report()
    values = channel.values(reports, channel.moments.coefficients(functions))
    numbers = reports[:, 0]
    turned = [np.abs(values - values[:, numbers ^ (1 << bit)]) for bit in range(channel.bits)]
    expected = np.max(turned, axis=(0, 2))
    np.testing.assert_allclose(channel.moments.skewness(functions), expected, rtol=1e-12)


def test_skewness_of_a_matrix_is_that_of_its_worst_row():
    """The fourth cumulant of a row over its variance, by summing over its noise."""
    epsilons = [Fraction(1, 2), ONE, Fraction(2)]
    channel = MatrixChannel.of(np.tri(4, dtype=int)[:-1], epsilons, 200)
    functions, sizes, peaks = functions_of(4), np.arange(-400, 401), []
    rows = channel.moments.coefficients(functions)[:, 1:4]
    for u in map(float, epsilons):
        weights = np.exp(-u * np.abs(sizes))
        second, fourth = (weights @ sizes.astype(float) ** k / weights.sum() for k in (2, 4))
        peaks.append((fourth - 3 * second**2) / second)
    expected = np.sqrt((rows**2 * peaks).max(axis=1))
    np.testing.assert_allclose(channel.moments.skewness(functions), expected, rtol=1e-9)


@each_listed
def test_skewness_and_unseen_variance_have_the_units_of_the_function(channel):
    function, units = functions_of(channel.size)[:1], np.array([[1], [1e9], [-1e-9]])
    one = channel.moments.skewness(function) * np.abs(units[:, 0])
    np.testing.assert_allclose(channel.moments.skewness(units * function), one, rtol=1e-9)
    two = channel.moments.unseen_variance(np.abs(function)) * np.abs(units[:, 0])
    found = channel.moments.unseen_variance(np.abs(units * function))
    np.testing.assert_allclose(found, two, rtol=1e-6)
