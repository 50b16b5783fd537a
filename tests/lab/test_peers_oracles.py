"""The frequency oracles of plain LDP: published formulas, exact laws, simulated errors."""

import math
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize, stats

from checks import ORACLES, PEERS, EveryCoin, exact_law, sampled_law
from metricldp import Categorical, Integer, Randomness, Survey
from metricldp.basics.errors import CertificateError, InvalidSpecError
from metricldp.lab.peers import subset
from metricldp.lab.peers.hadamard import Hadamard
from metricldp.lab.peers.hashing import LocalHashing, prime_from
from metricldp.lab.peers.histogram import (
    HistogramSum,
    HistogramThreshold,
    _variance,
    best_threshold,
)
from metricldp.lab.peers.unary import UnaryOptimised, UnarySymmetric
from metricldp.lab.peers.walsh import transform
from metricldp.mechanisms import RandomizedResponseChannel
from metricldp.mechanisms.channels import channel_of
from metricldp.mechanisms.registry import mechanism
from metricldp_core.exact import WORD

EPSILONS = [Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4)]
each_epsilon = pytest.mark.parametrize("epsilon", EPSILONS, ids=float)
each_oracle = pytest.mark.parametrize("name", ORACLES)


def build(name, size, epsilon):
    return channel_of(mechanism(name).make(size, epsilon))


def test_every_oracle_is_registered_under_its_own_name():
    assert set(ORACLES) <= set(PEERS)
    for name in ORACLES:
        assert mechanism(name).name == name


# Published formulas, of Wang et al. (2017) where nothing else is said


@each_epsilon
def test_symmetric_unary_encoding_has_the_published_variance(epsilon):
    other, own = UnarySymmetric.for_epsilon(10, epsilon).moments.noise
    half = math.exp(epsilon / 2)
    np.testing.assert_allclose(other, half / (half - 1) ** 2, rtol=1e-12)
    np.testing.assert_allclose(own, other, rtol=1e-12)


@each_epsilon
def test_optimised_unary_encoding_has_the_published_variance(epsilon):
    other, own = UnaryOptimised.for_epsilon(10, epsilon).moments.noise
    np.testing.assert_allclose(other, perfect(epsilon), rtol=1e-12)
    np.testing.assert_allclose(own, other + 1, rtol=1e-12)


def perfect(epsilon):
    """4 e^epsilon / (e^epsilon - 1)^2: of optimised unary encoding and of perfect hashing."""
    return 4 * math.exp(epsilon) / math.expm1(epsilon) ** 2


@each_epsilon
def test_thresholds_have_the_published_variance_at_the_best_theta(epsilon):
    def published(theta):
        both = 2 * math.exp(epsilon * theta / 2)
        return (both - 1) / (1 + math.exp(epsilon * (theta - 0.5)) - both) ** 2

    other, _ = HistogramThreshold.for_epsilon(10, epsilon).moments.noise
    np.testing.assert_allclose(other, published(float(best_threshold(epsilon))), rtol=1e-9)
    best = optimize.minimize_scalar(published, bounds=(0.5, 1), method="bounded")
    assert best.fun * (1 - 1e-12) <= other[0] <= best.fun * (1 + 1e-5)


@each_epsilon
def test_halving_finds_the_best_of_all_thresholds(epsilon):
    grid = [Fraction(k, 1024) for k in range(512, 1025, 1 if epsilon == 1 else 16)]
    best = best_threshold(epsilon)
    assert _variance(best, epsilon) <= min(_variance(theta, epsilon) for theta in grid)


@each_epsilon
def test_summed_noise_is_the_published_one_but_for_whole_steps(epsilon):
    """Laplace noise of scale 2/epsilon has 8/epsilon^2; the difference is a series."""
    u = float(epsilon)
    less = 8 / u**2 - HistogramSum.for_epsilon(10, epsilon).moments.variances
    np.testing.assert_allclose(less, 1 / 6 - u**2 / 480, rtol=1e-9, atol=u**4 / 48000)


@each_epsilon
def test_hadamard_signs_have_the_published_variance(epsilon):
    """Acharya, Sun and Zhang (2019): H / t, whose square is 1/t^2 whatever the report."""
    channel = Hadamard.for_epsilon(6, epsilon)
    assert channel.gap == pytest.approx(math.tanh(epsilon / 2), rel=1e-12)
    signs = transform(np.eye(8), 8)[1:7]
    for x in range(6):
        law = np.array([float(p) for p in exact_law(channel, x).values()])
        np.testing.assert_allclose(signs @ law / channel.gap, np.arange(6) == x, atol=1e-12)


@pytest.mark.parametrize("size", [100, 1000])
def test_hashing_is_near_the_published_variance(size):
    """Within 5 %: buckets are a whole number, and P residues fill them unevenly by one."""
    for epsilon in (Fraction(k, 20) for k in range(1, 81)):
        p, d, _, _ = LocalHashing.for_epsilon(size, epsilon).moments_of_supports
        other = float(d * (1 - d) / (p - d) ** 2)
        assert 1 <= other / perfect(epsilon) < 1.05


def test_hashing_into_even_buckets_is_perfect():
    """With g = P the buckets are even, and d is 1/g."""
    channel = LocalHashing.for_epsilon(5, Fraction(2))
    assert channel.buckets == channel.prime == 5
    p, d = math.exp(2) / (math.exp(2) + 4), 1 / 5
    variance = d * (1 - d) / (p - d) ** 2
    assert channel.moments._everybody == pytest.approx(variance, rel=1e-12)


@pytest.mark.parametrize("name", ["unary-symmetric", "unary-optimised", "histogram-threshold"])
def test_a_frequency_costs_less_than_published_by_one_part_in_size(name):
    channel, m = build(name, 8, Fraction(1)), 8
    v, w = (noise[0] for noise in channel.moments.noise)
    variance = channel.moments.second_moment(np.eye(m)[:1])[0] - np.eye(m)[0]
    assert variance[0] == pytest.approx(v * (1 - 1 / m) + (w - v) * (1 - 1 / m) ** 2, rel=1e-12)
    np.testing.assert_allclose(variance[1:], v * (1 - 1 / m) + (w - v) / m**2, rtol=1e-12)
    assert variance[0] < w
    assert variance[1] < v


def test_summing_costs_less_than_published_by_one_part_in_size():
    channel = HistogramSum.for_epsilon(8, Fraction(1))
    variance = channel.moments.second_moment(np.eye(8)[:1])[0] - np.eye(8)[0]
    np.testing.assert_allclose(variance, channel.moments.variances[0, 0] * (1 - 1 / 8), rtol=1e-12)


def test_thresholds_throw_a_part_of_epsilon_away():
    """What the page says of it: the bits of epsilon 1 keep 0.896."""
    loss = math.log(HistogramThreshold.for_epsilon(10, Fraction(1)).distribution.ratio(0, 1))
    assert loss == pytest.approx(0.896, abs=5e-4)


# Hash functions


def meetings(channel, values, polynomials):
    """How often some values have each combination of buckets, over a list of polynomials."""
    buckets = np.array([[channel._hashed(h, x) for x in values] for h in polynomials])
    joint = np.zeros((channel.buckets,) * len(values), dtype=int)
    np.add.at(joint, tuple(buckets.T), 1)
    return joint


@pytest.mark.parametrize(("size", "buckets"), [(3, 2), (4, 3), (5, 5), (7, 4)])
def test_any_three_values_are_hashed_independently(size, buckets):
    channel = LocalHashing(size, buckets, WORD // 2)
    prime = channel.prime
    sizes = np.bincount(np.arange(prime) % buckets, minlength=buckets)
    expected = np.einsum("i,j,k->ijk", sizes, sizes, sizes)
    for values in permutations(range(size), 3):
        np.testing.assert_array_equal(meetings(channel, values, range(prime**3)), expected)


def test_straight_lines_would_not_do():
    """The broken twin: pairs meet alike on lines, triples do not."""
    channel = LocalHashing(7, 3, WORD // 2)
    lines = range(channel.prime**2)
    pairs = {meetings(channel, pair, lines).tobytes() for pair in permutations(range(7), 2)}
    triples = {meetings(channel, three, lines).tobytes() for three in permutations(range(7), 3)}
    assert len(pairs) == 1
    assert len(triples) > 1


def test_many_hashes_are_those_of_one_by_one():
    channel = LocalHashing.for_epsilon(1 << 16, Fraction(1))
    rng = np.random.default_rng(4)
    drawn = rng.integers(0, channel.prime**3, 500)
    drawn[:2] = 0, channel.prime**3 - 1
    x = rng.integers(0, channel.size, 500)
    x[:2] = channel.size - 1
    found = channel._hashed(drawn.astype(np.uint64), x.astype(np.uint64))
    expected = [channel._hashed(int(h), int(v)) for h, v in zip(drawn, x, strict=True)]
    assert found.tolist() == expected


def test_primes():
    assert [prime_from(k) for k in (2, 3, 4, 8, 9, 24, 100, 1 << 20)] == [
        *(2, 3, 5, 11, 11, 29, 101),
        1_048_583,
    ]


def test_the_largest_influence_is_never_below_that_of_a_report():
    """Of small domains all reports are tried; of large ones the bound is above all those drawn."""
    small, large = (LocalHashing.for_epsilon(m, Fraction(1)) for m in (5, 60))
    for channel in (small, large):
        function = np.random.default_rng(3).normal(size=channel.size)
        column = channel.sample(np.arange(2000) % channel.size, Randomness.seeded(3))
        found = np.abs(channel.values(column, channel.moments.coefficients(function[None])))
        assert max(map(abs, channel.moments.output_range(function))) >= found.max() - 1e-12


# Samplers on every coin


def test_hadamard_on_every_coin():
    channel = Hadamard(3, 11 << 60)
    for x in range(3):
        assert sampled_law(channel, x, EveryCoin(6, word=2)) == exact_law(channel, x)


def test_hashing_on_every_coin():
    channel = LocalHashing(2, 2, 11 << 60)
    for x in range(2):
        assert sampled_law(channel, x, EveryCoin(7, word=3)) == exact_law(channel, x)


class HalfFlipped(Hadamard):
    """The highest bit is flipped instead of one that the row reads."""

    def sample(self, positions, randomness):
        drawn = super().sample(positions, randomness)
        return drawn ^ self.field.dtype.type(self.outputs // 2)


class BucketBare(LocalHashing):
    """The bucket is sent as it is."""

    def sample(self, positions, randomness):
        return LocalHashing(self.size, self.buckets, WORD).sample(positions, randomness)


def test_broken_samplers_are_caught_on_every_coin():
    flipped, bare = HalfFlipped(3, 11 << 60), BucketBare(2, 2, 11 << 60)
    assert sampled_law(flipped, 1, EveryCoin(6, word=2)) != exact_law(flipped, 1)
    assert sampled_law(bare, 1, EveryCoin(3, word=3)) != exact_law(bare, 1)


# Large domains


@each_oracle
def test_cells_are_the_transpose_of_the_decoder(name):
    channel = build(name, 150, Fraction(1))
    totals = np.random.default_rng(2).normal(size=(channel.moments.feature_count, 3))
    expected = np.tensordot(channel.moments.coefficients(np.eye(150)), totals, axes=1)
    np.testing.assert_allclose(channel.moments.frequencies(totals), expected, atol=1e-9)
    np.testing.assert_allclose(channel.moments.frequencies(totals[:, 0]), expected[:, 0], atol=1e-9)


def test_hadamard_of_thousands_of_values():
    channel = Hadamard.for_epsilon(4096, Fraction(3))
    positions = np.random.default_rng(1).integers(0, 4096, 3000)
    column = channel.sample(positions, Randomness.seeded(1))
    rows = positions + 1
    agree = int((np.bitwise_count(rows & column.astype(np.int64)) % 2 == 0).sum())
    chance = stats.binomtest(agree, 3000, channel.keep / WORD).pvalue
    assert chance > 1e-9
    function = (np.arange(4096.0) < 700)[None]
    means = channel.moments.mean(channel.moments.coefficients(function))
    np.testing.assert_allclose(means, function, atol=1e-9)


# Simulated errors


SETTINGS = [(5, Fraction(1)), (20, Fraction(2))]
BATCHES, PER = 4000, 100


def people_of(size):
    """A hundred people, half of them with value 1."""
    places = np.arange(PER)
    return np.where(places % 2 == 0, 1, places % size)


def check_errors(channel, column, *, false_alarm=1e-9):
    """4,000 counts of 100 people each: no bias, and the variance of the formula.

    In units of the predicted error they are nearly normal, so the sum of their squares is nearly
    chi-squared, and 15 % too much or too little is rejected.
    """
    size = channel.size
    people, function = people_of(size), (np.arange(size) == 1).astype(float)
    moment = channel.moments.second_moment(function)
    variance = (moment - function**2)[people].sum()
    values = channel.values(column, channel.moments.coefficients(function[None]))[0]
    errors = values.reshape(BATCHES, PER).sum(axis=1) - function[people].sum()
    z = errors / math.sqrt(variance)
    squares = float(z @ z)
    chances = (
        2 * stats.norm.sf(abs(z.sum()) / math.sqrt(BATCHES)),
        2 * stats.chi2.sf(squares, BATCHES),
        2 * stats.chi2.cdf(squares, BATCHES),
    )
    assert min(chances) > false_alarm / 3, f"mean {z.mean():.3f}, squares {squares / BATCHES:.3f}"


def encoded(channel, seed):
    return channel.sample(np.tile(people_of(channel.size), BATCHES), Randomness.seeded(seed))


def ten_percent_off(name, size, epsilon):
    """The same channel with the coins of an epsilon that is 10 % larger."""
    if name == "local-hashing":
        honest = LocalHashing.for_epsilon(size, epsilon)
        keep = RandomizedResponseChannel.for_epsilon(
            honest.buckets, epsilon * 11 / 10
        ).distribution.keep
        return replace(honest, keep=keep)
    return build(name, size, epsilon * 11 / 10)


@each_oracle
@pytest.mark.parametrize(("size", "epsilon"), SETTINGS)
def test_simulated_errors_are_those_of_the_formula(name, size, epsilon):
    channel = build(name, size, epsilon)
    column = encoded(channel, 21)
    check_errors(channel, column)
    with pytest.raises(AssertionError):  # coins used twice: every report counts for two people
        halves = column.reshape(BATCHES, 2, PER // 2, *column.shape[1:])
        check_errors(channel, np.concatenate([halves[:, :1]] * 2, axis=1).reshape(column.shape))


@each_oracle
@pytest.mark.parametrize(("size", "epsilon"), SETTINGS)
def test_coins_of_another_epsilon_are_rejected(name, size, epsilon):
    channel, twin = build(name, size, epsilon), ten_percent_off(name, size, epsilon)
    if name == "histogram-sum":  # other windows: the same numbers, counted from another end
        column = twin.sample(np.tile(people_of(size), BATCHES), Randomness.seeded(22))
        with pytest.raises(AssertionError):
            check_errors(_Misjudged(channel, twin), column)
        return
    with pytest.raises(AssertionError):
        check_errors(channel, encoded(twin, 22))


class _Misjudged:
    """What one channel says of its errors, and the reports of another."""

    def __init__(self, says, sends):
        self.size, self.values = says.size, sends.values
        self.moments = SimpleNamespace(
            second_moment=says.moments.second_moment, coefficients=sends.moments.coefficients
        )


# Whole surveys


@each_oracle
def test_a_survey_from_values_to_answers(name, tmp_path):
    names = [f"c{k}" for k in range(12)]
    survey = Survey.design({"c": Categorical(names, epsilon=1, mechanism=name)})
    assert survey.certify().holds
    survey.save(tmp_path / "survey.toml")
    again = Survey.load(tmp_path / "survey.toml")
    assert again.fingerprint == survey.fingerprint
    assert again.mechanisms["c"].name == name
    distributions = [one.channels["c"].distribution.to_data() for one in (survey, again)]
    assert distributions[0] == distributions[1]
    n = 4000
    people = np.array(names)[np.arange(n) % 12]
    tally = again.tally(again.randomize({"c": people}, randomness=Randomness.seeded(30)))
    for where in ({"c": "c3"}, {"c": names[:5]}):
        answer = tally.count(where)
        truth = int(np.isin(people, where["c"]).sum())
        predicted = survey.expected_error(
            where, n=n, prior=dict.fromkeys(["c"], np.ones(12))
        ).stderr
        assert answer.stderr == pytest.approx(predicted, rel=0.05)
        assert 2 * stats.norm.sf(abs(answer.value - truth) / predicted) > 1e-9
    assert tally.count({"c": names}).value == pytest.approx(n)
    assert tally.count({"c": names}).stderr == pytest.approx(0, abs=1e-3)


@each_oracle
def test_on_a_line_the_epsilon_of_a_step_is_kept_by_all_pairs(name):
    survey = Survey.design({"v": Integer(0, 4, epsilon=1, per=2, mechanism=name)})
    channel = survey.channels["v"]
    assert survey.certify().holds
    assert math.log(channel.distribution.ratio(0, 4)) <= 0.5


def test_sets_of_a_million_values_are_not_counted(monkeypatch):
    """How many there are has a million digits; only the ratio of two such numbers is needed."""
    small = subset.SubsetSelection.for_epsilon(7, Fraction(1, 2))
    assert small.distribution.ratio(0, 1) == small._chance(True) / small._chance(False)

    def counted(*numbers):
        raise AssertionError(numbers)

    monkeypatch.setattr(subset, "comb", counted)
    survey = Survey.design(
        {"v": Integer(0, (1 << 20) - 1, epsilon=0.0001, mechanism="subset", per=1)}
    )
    assert survey.channels["v"].ones == 524_262
    assert survey.certify().holds


# Refusals


def test_what_cannot_be_kept_is_refused():
    tiny = Fraction(1, 1 << 70)
    for cls in (UnarySymmetric, UnaryOptimised, HistogramThreshold, Hadamard):
        with pytest.raises(CertificateError, match="64-bit words; use"):
            cls.for_epsilon(5, tiny)


def test_what_does_not_fit_is_refused():
    assert LocalHashing.for_epsilon(1 << 20, Fraction(1)).bits == 63
    with pytest.raises(InvalidSpecError, match="1,000,000 positions into 21 buckets needs"):
        LocalHashing.for_epsilon(1_000_000, Fraction(3))
    with pytest.raises(InvalidSpecError, match=r"5,000 positions are too many .* at most 4,096"):
        Survey.design({"v": Integer(1, 5000, epsilon=1, mechanism="histogram-sum", per=1)})


def test_importing_the_package_loads_no_peers():
    code = "import sys, metricldp; print([m for m in sys.modules if 'metricldp.lab.peers' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
