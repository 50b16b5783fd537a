"""Square waves: exact integers, distributions by expectation maximisation, and means."""

import math
from fractions import Fraction

import numpy as np
import pytest
from mean_mechanisms import MeanTable, duchi, hybrid, piecewise

from checks import mechanism_of
from metricldp import Integer, InvalidSpecError, QueryError, Survey
from metricldp.basics.errors import CertificateError
from metricldp.lab.peers.reconstruct import expectation_maximisation
from metricldp.lab.peers.waves import SquareWave, wave
from metricldp.mechanisms import RandomizedResponseChannel
from metricldp.mechanisms.base import ANY_TWO
from metricldp.mechanisms.conformance import check_mechanism
from metricldp.mechanisms.randomness import seeded
from metricldp_core.exact import WORD, at_most_exp

MEANS = (duchi, piecewise, hybrid)
each_mean = pytest.mark.parametrize("make", MEANS, ids=lambda make: make.__name__)


def published_reach(epsilon):
    e = math.exp(epsilon)
    return (epsilon * e - e + 1) / (2 * e * (e - 1 - epsilon))


@pytest.mark.parametrize("size", [2, 5, 74, 256])
@pytest.mark.parametrize("epsilon", [0.1, 0.8, 1.6, 4.0])
def test_square_wave_is_the_published_one(size, epsilon):
    """b = floor(b_cont m), q = 1/((2b + 1) e^E + m - 1), p = e^E q, outputs 0 .. m + 2b - 1."""
    channel = SquareWave.for_epsilon(size, Fraction(str(epsilon)))
    b, e = math.floor(published_reach(epsilon) * size), math.exp(epsilon)
    assert channel.outputs == size + 2 * b
    q = 1 / ((2 * b + 1) * e + size - 1)
    for x in (0, size // 2, size - 1):
        expected = np.full(size + 2 * b, q)
        expected[x : x + 2 * b + 1] = e * q
        found = np.array(channel.distribution.weights[x]) / WORD
        np.testing.assert_allclose(found.astype(float), expected, rtol=1e-12)


@pytest.mark.parametrize(("size", "width"), [(2, 1), (2, 6), (3, 3), (7, 4), (7, 30)])
def test_all_pairs_have_the_same_ratio_to_the_last_unit(size, width):
    rows = SquareWave.of(wave(size, width, Fraction(1)))
    ratios = {rows.distribution.ratio(x, y) for x in range(size) for y in range(x)}
    assert len(ratios) == 1
    assert at_most_exp(max(ratios), Fraction(1))
    assert float(max(ratios)) == pytest.approx(math.e, rel=1e-12)


def test_a_wave_that_is_too_flat_or_too_long_is_refused():
    with pytest.raises(CertificateError, match="too small for 64-bit words"):
        wave(5, 3, Fraction(1, 10**30))
    with pytest.raises(InvalidSpecError, match="1,025 positions are too many for a square wave"):
        SquareWave.for_epsilon(1025, Fraction(1))


def test_a_wave_that_is_higher_by_a_little_is_refused():
    def twin(size, epsilon):
        rows = wave(size, 3, epsilon)
        for row in rows:
            row[row.index(max(row))] += WORD >> 20
            row[row.index(min(row))] -= WORD >> 20
        return SquareWave.of(rows)

    found = check_mechanism(mechanism_of("twin", twin, ANY_TWO), sizes=(5,), epsilons=(1.0,))
    assert {"loss within the metric"} == {finding.what for finding in found.failures}


def test_a_survey_answers_without_bias_from_square_waves():
    survey = Survey.design({"v": Integer(0, 19, epsilon=1, mechanism="square-wave", per=1)})
    assert survey.certify().together == pytest.approx(1, abs=1e-9)
    people = np.arange(40_000) % 20
    tally = survey.tally(survey.randomize({"v": people}, randomness=seeded(5)))
    answer = tally.count({"v": (3, 9)})
    assert abs(answer.value - 14_000) < 6 * answer.stderr


# Expectation maximisation

ADULT_AGES = (
    *(395, 550, 712, 753, 720, 765, 877, 798, 841, 785, 835, 867, 813, 861, 888, 828, 875, 886),
    *(876, 898, 858, 827, 816, 794, 808, 780, 770, 724, 734, 737, 708, 543, 577, 602, 595, 478),
    *(464, 415, 419, 366, 358, 366, 355, 312, 300, 258, 230, 208, 178, 150, 151, 120, 108, 89),
    *(72, 67, 64, 51, 45, 46, 29, 23, 22, 22, 20, 12, 6, 10, 3, 1, 1, 3, 0, 43),
)
"""How many people of the Adult census data (UCI, training set) are 17, 18, ... 90 years old."""
PUBLISHED = {0.4: (2.28e-3, 2.42e-3), 0.8: (7.07e-4, 4.46e-4), 1.6: (4.29e-4, 1.08e-4)}
"""Mean squared error of shares, EM and EMS, five runs of the authors' programs on these ages."""


def half_ranges(shares, truth):
    """The mean squared error over all ranges of half the domain."""
    sums = np.append(0, np.cumsum(shares - truth))
    return float(((sums[len(truth) // 2 :] - sums[: -(len(truth) // 2)]) ** 2).mean())


class AsPublished:
    """Square Wave as its authors' program has it: reports are real numbers, counted in m cells.

    Value i stands at i/(m - 1), but is read as if it were anywhere in the i-th of m cells.
    """

    def __init__(self, size, epsilon):
        self.size = self.outputs = size
        self.b, self.e = published_reach(epsilon), math.exp(epsilon)
        self.q = 1 / (2 * self.b * self.e + 1)
        edges = np.linspace(-self.b, 1 + self.b, size + 1)
        inside = np.zeros((size, size))
        for part in (np.arange(32) + 0.5) / 32:
            at = (np.arange(size) + part) / size
            low = np.maximum(edges[:-1, None], at - self.b)
            inside += np.maximum(0, np.minimum(edges[1:, None], at + self.b) - low) / 32
        self.law = self.chances = self.q * (np.diff(edges)[:, None] + (self.e - 1) * inside)
        self.edges, self.moments = edges, self
        self.probabilities = self.law.T

    def mean(self, values):
        return values @ self.law

    def counts(self, positions, rng):
        at = positions / (self.size - 1)
        near = rng.random(len(at)) < 2 * self.b * self.e * self.q
        far = rng.random(len(at))
        shifted = at + self.b * (2 * rng.random(len(at)) - 1)
        noisy = np.where(near, shifted, far - self.b + 2 * self.b * (far > at))
        return np.histogram(noisy, bins=self.edges)[0]


@pytest.mark.parametrize("epsilon", PUBLISHED)
def test_published_errors_on_adult_ages(epsilon):
    truth = np.array(ADULT_AGES) / sum(ADULT_AGES)
    ages = np.repeat(np.arange(74), ADULT_AGES)
    channel, theirs = SquareWave.for_epsilon(74, Fraction(str(epsilon))), AsPublished(74, epsilon)
    np.testing.assert_allclose(theirs.law.sum(axis=0), 1, rtol=1e-9)
    errors = np.zeros((2, 2))
    runs = 10
    for seed in range(runs):
        counts = np.bincount(channel.sample(ages, seeded(seed)), minlength=channel.outputs)
        published = theirs.counts(ages, np.random.default_rng(seed))
        for k, smooth in enumerate((False, True)):
            ours = expectation_maximisation(channel, counts, smooth=smooth)
            shares = expectation_maximisation(theirs, published, smooth=smooth)
            errors[:, k] += half_ranges(ours, truth) / runs, half_ranges(shares, truth) / runs
    # Errors of five runs vary by a half or so.
    assert (errors[1] < 2 * np.array(PUBLISHED[epsilon])).all(), errors
    assert (errors[1] > np.array(PUBLISHED[epsilon]) / 2).all(), errors
    # In exact integers EM has the same errors, and EMS half of them or less.
    assert (errors[0] < 2 * np.array(PUBLISHED[epsilon])).all(), errors
    assert errors[0, 1] < 0.85 * errors[1, 1], errors


def test_fitted_shares_of_randomized_response_are_the_closed_form():
    """The most likely shares of k-ary response: small counts are 0, the rest is rescaled."""
    channel = RandomizedResponseChannel.for_epsilon(6, Fraction(2))
    counts = np.array([500.0, 40, 300, 90, 130, 160])
    p, q = channel.moments._gap + channel.moments._other, channel.moments._other
    shares = np.sort(counts / counts.sum())
    left, zeros = 1.0, 0
    while q * left > (1 - zeros * q) * shares[zeros]:
        left -= shares[zeros]
        zeros += 1
    expected = ((1 - zeros * q) * shares - left * q) / (left * (p - q))
    expected[:zeros] = 0
    found = expectation_maximisation(channel, counts, enough=1e-12, rounds=100_000)
    np.testing.assert_allclose(np.sort(found), expected, atol=1e-5)
    assert zeros == 2


def test_smoothing_takes_neighbours_in():
    channel = RandomizedResponseChannel.for_epsilon(5, Fraction(30))
    found = expectation_maximisation(channel, [0, 0, 12, 0, 0], smooth=True, rounds=1)
    np.testing.assert_allclose(found, np.array([0, 1, 2, 1, 0]) / 4, atol=1e-9)
    ends = expectation_maximisation(channel, [12, 0, 0, 0, 0], smooth=True, rounds=1)
    np.testing.assert_allclose(ends, np.array([8, 3, 0, 0, 0]) / 11, atol=1e-9)


@pytest.mark.parametrize("counts", [[1, 2], [1, -1, 3], [0, 0, 0], [1, math.nan, 2], [[1, 2, 3]]])
def test_counts_that_are_none_are_refused(counts):
    with pytest.raises(QueryError, match="a count for each of the 3 reports, not"):
        expectation_maximisation(RandomizedResponseChannel.for_epsilon(3, Fraction(1)), counts)


# Means


def published_variances(make, epsilon, t):
    e, h = math.exp(epsilon), math.exp(epsilon / 2)
    two = ((e + 1) / (e - 1)) ** 2 - t**2
    pieces = t**2 / (h - 1) + (h + 3) / (3 * (h - 1) ** 2)
    share = 1 - 1 / h if epsilon > 0.61 else 0
    return {duchi: two, piecewise: pieces, hybrid: share * pieces + (1 - share) * two}[make]


@each_mean
@pytest.mark.parametrize("epsilon", [0.2, 0.6, 1.0, 2.0, 4.0])
def test_means_have_the_published_variance(make, epsilon):
    channel = make(1001, Fraction(str(epsilon)))
    expected = published_variances(make, epsilon, np.linspace(-1, 1, 1001))
    np.testing.assert_allclose(channel.variances(), expected, rtol=2e-3)


@each_mean
@pytest.mark.parametrize("size", [2, 3, 6])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
def test_means_are_exact_on_few_positions(make, size, epsilon):
    """Law, loss, bias and variance by listing all reports."""
    channel = make(size, Fraction(epsilon))
    laws = [[channel.probability(x, y) for y in range(channel.outputs)] for x in range(size)]
    for x in range(size):
        assert sum(laws[x]) == 1
        for other in range(x):
            worst = max(max(a / b, b / a) for a, b in zip(laws[x], laws[other], strict=True))
            assert at_most_exp(worst, Fraction(epsilon))
    shares = np.array(laws, dtype=float)
    lines = np.stack([np.ones(size), 3 - 2.0 * np.arange(size)])
    decoded = channel.moments.coefficients(lines)
    np.testing.assert_allclose(decoded @ shares.T, lines, atol=1e-9 * np.abs(decoded).max())
    np.testing.assert_allclose(
        channel.moments.second_moment(lines), decoded**2 @ shares.T, rtol=1e-9
    )
    worst = channel.distribution.ratio(0, size - 1) * (1 + Fraction(1, 1 << 40))
    assert not at_most_exp(worst, Fraction(epsilon))  # the whole epsilon is used


@each_mean
def test_means_conform_but_tell_nothing_else(make):
    two = check_mechanism(mechanism_of("mean", make, ANY_TWO), sizes=(2,))
    assert two.holds, str(two)
    more = check_mechanism(mechanism_of("mean", make, ANY_TWO), sizes=(3, 5))
    assert {finding.what for finding in more.failures} == {"no bias", "second moments", "features"}
    assert all("sums and means only" in finding.detail for finding in more.failures)


def test_hybrid_is_never_worse_at_the_worst_position():
    for epsilon in (0.3, 0.8, 1.5, 3.0):
        worst = {make: make(501, Fraction(str(epsilon))).variances().max() for make in MEANS}
        assert worst[hybrid] <= min(worst[duchi], worst[piecewise]) * 1.001


def test_reports_that_stand_for_wrong_numbers_are_refused():
    def twin(size, epsilon):
        honest = piecewise(size, epsilon)
        return MeanTable(honest.distribution, tuple(1.01 * number for number in honest.numbers))

    found = check_mechanism(mechanism_of("twin", twin, ANY_TWO), sizes=(2,), epsilons=(1.0,))
    assert "no bias" in {finding.what for finding in found.failures}
