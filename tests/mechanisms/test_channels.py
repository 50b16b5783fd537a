"""Samplers on every sequence of random words, negative controls, and settings of real size."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from checks import (
    MECHANISMS,
    PEERS,
    EveryCoin,
    assert_counts,
    check_sampler,
    enumerated_ratio,
    exact_law,
    key,
    prove,
    sampled_law,
)
from metricldp import Categorical, Integer, Survey
from metricldp.basics.errors import CertificateError
from metricldp.mechanisms import (
    GeometricChannel,
    RandomizedResponseChannel,
    ThresholdChannel,
    ThresholdPaperChannel,
)
from metricldp.mechanisms.auto import choose
from metricldp.mechanisms.base import Problem
from metricldp.mechanisms.exact_probability import noise_probability
from metricldp.mechanisms.geometric import geometric_distribution
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.registry import build
from metricldp.metrics import Line, Uniform
from metricldp_core import distributions as core
from metricldp_core.exact import WORD, at_most_exp, exp_bounds


def metric_for(name, epsilon):
    alike = name in ("randomized-response", "unary", *PEERS)
    return Uniform(epsilon) if alike else Line(epsilon)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("size", [2, 9, 10, 257])
def test_tallies_merge_and_bytes_return(name, size):
    if name == "randomized-response":
        attribute = Categorical([f"c{k}" for k in range(size)], epsilon=1)
        values = np.array(attribute.categories)
    else:
        attribute = Integer(0, size - 1, epsilon=1, mechanism=name, per=1)
        values = np.arange(size)
    survey = Survey.design({"v": attribute})
    rng = np.random.default_rng(8)
    people = {"v": rng.choice(values, 400)}
    reports = survey.randomize(people, randomness=Randomness.seeded(2))
    whole = survey.tally(reports)
    parts = survey.tally(reports.slice(0, 150)) + survey.tally(reports.slice(150))
    assert parts == whole
    where = {"v": values[0].item()}
    assert parts.count(where) == whole.count(where)
    swapped = survey.tally(reports.slice(150)) + survey.tally(reports.slice(0, 150))
    assert swapped == whole
    assert swapped.count(where) == whole.count(where)
    from metricldp.reports import bytes as pack

    assert pack.unpack(survey, pack.pack(survey, reports)).equals(reports)


# The sampler itself, run on every possible coin
# With thresholds of a few binary digits the sampler needs a few coins per person, so all of them
# can be tried: the law of the code that runs, as exact fractions, without a single sample.


def test_threshold_bits_on_every_coin():
    for cls, bits in ((ThresholdChannel, 2), (ThresholdPaperChannel, 3)):
        channel = cls(core.Threshold(3, (5 << 60,) * bits))  # 5/16: four planes
        for x in range(3):
            randomness = EveryCoin(4 * bits, lanes=bits, stride=8)
            assert sampled_law(channel, x, randomness) == exact_law(channel, x)


def test_response_on_every_coin():
    channel = RandomizedResponseChannel(core.RandomizedResponse(5, 11 << 60))
    for x in range(5):
        law = sampled_law(channel, x, EveryCoin(6, word=2))
        assert law == exact_law(channel, x)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_geometric_noise_on_every_coin(size):
    channel = GeometricChannel(core.Geometric(size, zero=3 << 62, digits=(1 << 62,), block=1 << 63))
    for x in range(size):
        law = sampled_law(channel, x, EveryCoin(14))
        assert law == {report: p for report, p in exact_law(channel, x).items() if p}


def test_geometric_noise_of_two_digits_on_every_coin():
    channel = GeometricChannel(core.Geometric(6, 1 << 62, (1 << 63, 3 << 62), 1 << 63))
    for x in (0, 2, 5):
        assert sampled_law(channel, x, EveryCoin(12)) == exact_law(channel, x)


def bits_before_blurring(channel, positions):
    """The bits x <= k as bytes."""
    bits = np.asarray(positions)[:, None] <= np.arange(channel.bits)
    return np.packbits(bits, axis=1, bitorder="little")


def with_flips(channel, tenths):
    """Bits that are flipped with a probability of so many tenths of that of the channel."""
    flips = (channel.distribution.flips[0] * tenths // 10,) * channel.bits
    return ThresholdChannel(core.Threshold(channel.size, flips))


# Negative controls: each must be caught


@dataclass(frozen=True)
class LastBitBare(ThresholdChannel):
    """The last bit is sent as it is."""

    def sample(self, positions, randomness):
        column = super().sample(positions, randomness)
        last = self.bits - 1
        bare = bits_before_blurring(self, positions)[:, last >> 3] & np.uint8(1 << (last & 7))
        column[:, last >> 3] &= np.uint8(0xFF ^ 1 << (last & 7))
        column[:, last >> 3] |= bare
        return column


@dataclass(frozen=True)
class CoinReused(ThresholdChannel):
    """Bits 0 and 1 are flipped by the same coin."""

    def sample(self, positions, randomness):
        column = super().sample(positions, randomness)
        truth = bits_before_blurring(self, positions)
        flipped = (column ^ truth)[:, 0] & 1
        column[:, 0] &= np.uint8(0xFD)
        column[:, 0] |= (truth[:, 0] & 2) ^ (flipped << 1)
        return column


@dataclass(frozen=True)
class FlipsLess(ThresholdChannel):
    """Flips 10 % less often than it says."""

    def sample(self, positions, randomness):
        return with_flips(self, 9).sample(positions, randomness)


@dataclass(frozen=True)
class FlipsMore(ThresholdChannel):
    """Flips 10 % more often than it says: private, but the answers are biased."""

    def sample(self, positions, randomness):
        return with_flips(self, 11).sample(positions, randomness)


@pytest.mark.parametrize("twin", [LastBitBare, CoinReused, FlipsLess, FlipsMore])
def test_samplers_that_do_not_follow_their_integers_are_rejected(twin):
    channel = twin.for_epsilon(3, Fraction(1))
    with pytest.raises(AssertionError):
        check_sampler(channel)


@pytest.mark.parametrize("twin", [LastBitBare, CoinReused])
def test_samplers_that_break_the_promise_are_rejected_on_every_coin(twin):
    channel = twin(core.Threshold(3, (5 << 60,) * 2))
    laws = [sampled_law(channel, x, EveryCoin(8, lanes=2, stride=8)) for x in range(3)]
    reports = {key(r) for r in channel.every_report()}
    full = [{r: law.get(r, Fraction(0)) for r in reports} for law in laws]
    assert full[0] != exact_law(channel, 0)
    assert any(enumerated_ratio(full[x], full[x + 1]) > Fraction(11, 5) for x in range(2))


def test_one_unit_less_than_shipped_is_not_certified():
    for cls in (ThresholdChannel, ThresholdPaperChannel):
        flips = cls.for_epsilon(4, Fraction(1)).distribution.flips
        less = core.Threshold(4, tuple(flip - 1 for flip in flips))
        assert not prove(cls(less), Line(Fraction(1)))[0].holds
    keep = RandomizedResponseChannel.for_epsilon(4, Fraction(1)).distribution.keep
    more = RandomizedResponseChannel(core.RandomizedResponse(4, keep + 1))
    assert not prove(more, Uniform(Fraction(1)))[0].holds


@pytest.mark.parametrize("name", ["threshold", "geometric", "randomized-response", "unary"])
def test_of_bounds_around_an_exponential_the_safe_one_is_taken(name, monkeypatch):
    """However far apart the two are: the promise holds, and the other one would break it."""

    def far_apart(exponent, off=Fraction(1, 1 << 20)):
        lower, upper = exp_bounds(exponent)
        return lower * (1 - off), upper * (1 + off)

    def turned(exponent):
        return far_apart(exponent)[::-1]

    for bounds, safe in ((far_apart, True), (turned, False)):
        for file in ("geometric", "threshold", "randomized_response", "unary_channel"):
            monkeypatch.setattr(f"metricldp.mechanisms.{file}.exp_bounds", bounds)
        for epsilon in (Fraction(1, 10), Fraction(3, 2)):
            metric = metric_for(name, epsilon)
            assert all(p.holds for p in prove(build(name, 5, metric), metric)) == safe


@pytest.mark.parametrize("part", ["zero", "digit", "block"])
def test_geometric_integers_off_by_a_unit_are_not_certified(part):
    epsilon = Fraction(3, 10)
    noise = geometric_distribution(12, epsilon)
    assert noise.digits
    broken = {
        "zero": replace(noise, zero=noise.zero + 1),
        "digit": replace(noise, digits=(noise.digits[0] - 1, *noise.digits[1:])),
        "block": replace(noise, block=noise.block - 1),
    }[part]
    assert not all(pair.holds for pair in prove(GeometricChannel(broken), Line(epsilon)))


# Shipped settings of real size


EPSILONS = ["0.0001", "0.01", "0.2", "1", "2.5", "30", "60"]


@pytest.mark.parametrize(
    ("name", "epsilon"),
    [
        pytest.param(name, epsilon, marks=pytest.mark.slow)
        if name == "condensed" and epsilon not in ("0.0001", "1")  # some seconds each
        else (name, epsilon)
        for name in MECHANISMS
        for epsilon in EPSILONS
    ],
)
def test_large_domains_are_certified(name, epsilon):
    metric = metric_for(name, Fraction(epsilon))
    size = 40 if isinstance(metric, Uniform) else 700
    pairs = prove(build(name, size, metric), metric)
    assert all(pair.holds for pair in pairs)


def test_long_blocks_keep_the_promise_exactly():
    """Where all reports of a domain could never be listed: each within e^(u d), and just so."""
    for u in ("1e-3", "2e-5", "1e-6", "3e-9", "2.4e-10"):
        epsilon = Fraction(u)
        channel = GeometricChannel.for_epsilon(1 << 20, epsilon)
        assert len(channel.distribution.digits) > 8
        for x, other in ((0, 1), (5, 8), (1000, 3), (0, (1 << 20) - 1), (99, 2**15 + 98)):
            ratio, allowed = channel.distribution.ratio(x, other), epsilon * abs(x - other)
            assert at_most_exp(ratio, allowed)
            assert not at_most_exp(ratio * (1 + abs(x - other) * Fraction(1, 1 << 59)), allowed)


def test_geometric_noise_never_rises_beyond_its_epsilon():
    """The zero is a whole number of 2^-64: of a tiny epsilon it may round away what is promised."""
    rng = np.random.default_rng(5)
    for exponent in range(-44, -28):
        kept = 0
        for mantissa in rng.uniform(1, 2, 20):
            epsilon = Fraction(float(mantissa)) * Fraction(2) ** exponent
            try:
                noise = geometric_distribution(9, epsilon)
            except CertificateError as wrong:
                assert "too small for 64-bit words" in str(wrong)
                continue
            kept += 1
            for near, far in ((0, 1), (1, 0), (1, 2), (2, 3)):
                pair = [noise_probability(noise, value) for value in (near, far)]
                assert at_most_exp(pair[0] / pair[1], epsilon)
        assert kept == 20 or exponent < -32
    with pytest.raises(CertificateError, match=r"epsilon 1e-12 per step is too small"):
        geometric_distribution(9, Fraction("1e-12"))
    assert choose(Problem.single(10, Line(Fraction("1e-12"))))[0].name == "threshold"


def test_geometric_law_is_the_one_of_the_theory():
    channel = GeometricChannel.for_epsilon(7, Fraction(1, 2))
    a = np.exp(-0.5)
    for x in range(7):
        law = [float(p) for p in exact_law(channel, x).values()]
        expected = (1 - a) / (1 + a) * a ** np.abs(np.arange(7.0) - x)
        expected[0], expected[-1] = a**x / (1 + a), a ** (6 - x) / (1 + a)
        np.testing.assert_allclose(law, expected, rtol=1e-14)
        for values in np.eye(7):
            np.testing.assert_allclose(channel.moments.mean(values)[x], law @ values, rtol=1e-13)


@pytest.mark.parametrize("size", [2, 9, 10, 18, 70])
@pytest.mark.parametrize("block", [1, 2, 5, 1 << 14])
def test_rows_stand_one_after_the_other_however_many_are_made_at_a_time(size, block, monkeypatch):
    """Where no bit is flipped or all are, a report is the truth or its opposite."""
    monkeypatch.setattr("metricldp.mechanisms.threshold.BLOCK", block)
    positions = np.random.default_rng(3).integers(0, size, 100)
    for cls in (ThresholdChannel, ThresholdPaperChannel):
        for flip in (0, WORD):
            channel = cls(core.Threshold(size, (flip,) * (size - 1 + cls.extra_bits)))
            truth = positions[:, None] <= np.arange(channel.bits)
            found = channel.field.pack(channel.sample(positions, Randomness.seeded(1)))
            assert (found == truth ^ bool(flip)).all()


def test_no_epsilon_is_so_large_that_the_truth_is_certain():
    for epsilon in (40, 64, 1000):
        keeps = [
            RandomizedResponseChannel.for_epsilon(k, Fraction(epsilon)).distribution.keep
            for k in (2, 3, 500)
        ]
        assert max(keeps) < WORD


@pytest.mark.parametrize("epsilon", ["1e-25", "1e-20"])
@pytest.mark.parametrize("size", [2, 4, 5])
@pytest.mark.parametrize("cls", [ThresholdChannel, GeometricChannel, RandomizedResponseChannel])
def test_an_epsilon_that_coins_cannot_keep_is_refused(cls, size, epsilon):
    with pytest.raises(
        CertificateError, match=f"epsilon {epsilon}.* is too small for 64-bit words"
    ):
        cls.for_epsilon(size, Fraction(epsilon))


def test_the_paper_pays_for_attributes_that_are_left_whole():
    """A factor kappa^2, as it reads them by their noisy last bit; elsewhere they are free."""
    kappa = (np.e + 1) / (np.e - 1)
    for name, whole in (("threshold-paper", kappa**2), ("threshold", 1.0), ("geometric", 1.0)):
        pair = {d: Integer(0, 9, epsilon=1, mechanism=name, per=1) for d in "ab"}
        survey, inside = Survey.design(pair), np.arange(10) <= 4
        second = survey.channels["a"].moments.second_moment(inside.astype(float))
        worst = (second * whole - inside).max()
        assert survey.expected_error(
            {"a": (0, 4)}, n=1, prior="worst"
        ).stderr ** 2 == pytest.approx(worst, rel=1e-9)


@pytest.mark.parametrize("cls", [ThresholdChannel, ThresholdPaperChannel])
def test_rows_of_a_large_domain(cls):
    large = cls.for_epsilon(5001, Fraction(1))
    n = 40
    column = large.sample(np.full(n, 2500), Randomness.seeded(8))
    truth = bits_before_blurring(large, np.full(n, 2500))
    expanded = np.unpackbits(truth, axis=1, bitorder="little")[0]
    assert expanded[:2500].sum() == 0
    assert expanded[2500 : large.bits].all()
    flips = int(np.bitwise_count(column ^ truth).sum())
    p = Fraction(large.distribution.flips[0], WORD)
    assert_counts([flips, n * large.bits - flips], [p, 1 - p], false_alarm=1e-9)
