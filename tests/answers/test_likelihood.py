"""EM by enumeration: steps, likelihoods and gaps are those of the whole table of probabilities."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce

import numpy as np
import pytest

from checks import MECHANISMS, designed_channel, mechanism_of
from metricldp.answers import likelihood, maximise
from metricldp.answers.likelihood import Listed, Tabled
from metricldp.answers.maximise import Run, climb, closure, ladder
from metricldp.mechanisms import GeometricChannel, IntegerChannel, RandomizedResponseChannel
from metricldp.mechanisms.additive_channel import AdditiveChannel
from metricldp.mechanisms.conformance import check_mechanism
from metricldp.mechanisms.geometric import GeometricMoments
from metricldp.mechanisms.registry import mechanism
from metricldp.metrics import Line, Uniform

WOUND = AdditiveChannel.of(
    (2, 3),
    (3, 4),
    ((0, 1, 2, 1, 1, 2, 2, 2, 1, 2, 3, 2), (0, 0, 1, 1, 0, 1, 2, 1, 1, 2, 2, 1)),
    Fraction(1, 2),
)


def geometric(size, epsilon="0.7"):
    return GeometricChannel.for_epsilon(size, Fraction(epsilon))


def response(size, epsilon="1.5"):
    return RandomizedResponseChannel.for_epsilon(size, Fraction(epsilon))


CHANNELS = {
    "one": (geometric(5),),
    "two": (geometric(3), response(4)),
    "three": (response(2), geometric(4), geometric(3, "2")),
    "block and one": (WOUND, geometric(3)),
}


def whole_law(channels):
    """P(reports | cells) as one matrix, by the product of the tables."""
    return reduce(np.kron, [channel.moments.probabilities.T for channel in channels])


def random_counts(channels, seed=1, most=50):
    shape = [channel.outputs for channel in channels]
    return np.random.default_rng(seed).integers(0, most, shape)


def random_shares(channels, seed=2):
    found = np.random.default_rng(seed).random([channel.size for channel in channels])
    return found / found.sum()


def listed(channels, counts):
    """The same reports one by one."""
    places = np.argwhere(counts > 0)
    chances = tuple(
        channel.moments.probabilities.T[places[:, d]].astype(np.float32)
        for d, channel in enumerate(channels)
    )
    return Listed(chances, counts[counts > 0])


# Channels


@pytest.mark.parametrize("name", MECHANISMS)
def test_both_ways_through_a_channel_are_transposes(name):
    for size, epsilon in ((2, 3), (5, 1), (7, Fraction(1, 3))):
        made = mechanism(name)
        metric = (Uniform if "any" in made.guarantee else Line)(Fraction(epsilon))
        channel = designed_channel(made, size, metric, ordered=made.needs_order)
        if not isinstance(channel, IntegerChannel):
            return
        rng = np.random.default_rng(3)
        shares, values = rng.normal(size=(4, size)), rng.normal(size=(4, channel.outputs))
        there = (channel.moments.spread(shares) * values).sum(axis=1)
        back = (channel.moments.mean(values) * shares).sum(axis=1)
        np.testing.assert_allclose(there, back, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            channel.moments.spread(np.eye(size)).T, channel.moments.probabilities.T, atol=1e-12
        )


def test_both_ways_through_a_wound_ring_are_transposes():
    exact = [[float(WOUND.probability(x, np.asarray(y))) for y in range(24)] for x in range(6)]
    np.testing.assert_allclose(WOUND.moments.spread(np.eye(6)), exact, atol=1e-12)
    np.testing.assert_allclose(WOUND.moments.probabilities, exact, atol=1e-12)


def test_a_channel_that_spreads_in_another_way_is_refused():
    class TwinMoments(GeometricMoments):
        def spread(self, shares):
            return super().spread(shares) * 1.01

    class Twin(GeometricChannel):
        @property
        def moments(self):
            return TwinMoments(self.size, self.epsilon)

    found = check_mechanism(mechanism_of("twin", Twin.for_epsilon), sizes=(3,), epsilons=(1.0,))
    assert [finding.what for finding in found.failures] == ["probabilities"]
    assert "`spread`" in str(found)


# Steps


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("way", ["dense", "quick", "short", "listed"])
def test_gradients_and_likelihoods_are_those_of_the_whole_table(monkeypatch, name, way):
    channels = CHANNELS[name]
    if way == "quick":
        monkeypatch.setattr(likelihood, "_MOST_DENSE", 0)
    if way == "short":
        monkeypatch.setattr(likelihood, "_MANY", 1)
    counts, shares = random_counts(channels), random_shares(channels)
    reports = listed(channels, counts) if way == "listed" else Tabled(channels, counts)
    law, h = whole_law(channels), counts.reshape(-1)
    expected = law @ shares.reshape(-1)
    exact = law.T @ (h / expected)
    found, gradient = reports.gradient(shares)
    close = 1e-5 if way in ("short", "listed") else 1e-12
    np.testing.assert_allclose(gradient.reshape(-1), exact, rtol=close)
    assert found == pytest.approx(h @ np.log(expected), rel=close)
    assert reports.likelihood(shares) == pytest.approx(found, rel=1e-12)
    assert reports.n == h.sum()
    one = Run(reports, shares).to(1)
    np.testing.assert_allclose(one.reshape(-1), shares.reshape(-1) * exact / h.sum(), rtol=close)


@pytest.mark.parametrize("name", CHANNELS)
def test_no_step_and_no_leap_makes_reports_less_likely(monkeypatch, name):
    channels = CHANNELS[name]
    reports, found = Tabled(channels, random_counts(channels)), []
    monkeypatch.setattr(
        Tabled, "gradient", lambda self, p, of=Tabled.gradient: (found.append(p), of(self, p))[1]
    )
    run, before = Run(reports, random_shares(channels)), -np.inf
    for steps in [*range(1, 40), *np.geomspace(40, 4000, 60).astype(int)]:
        run.to(steps)
        assert run.steps == pytest.approx(steps)
        now = reports.likelihood(run.shares)
        assert now >= before - 1e-9 * abs(now)
        assert run.shares.min() >= 0
        assert run.shares.sum() == pytest.approx(1)
        before = now
    assert len(found) < 1000  # and not 4,000


def test_where_nothing_moves_any_more_leaps_go_on(monkeypatch):
    """At the top every step is rounding, or none: taken one by one, a million would never end."""
    (channel,) = CHANNELS["one"]
    reports, asked = Tabled([channel], random_counts([channel])), []
    top = Run(reports, random_shares([channel])).to(20_000)
    monkeypatch.setattr(
        Tabled, "gradient", lambda self, p, of=Tabled.gradient: (asked.append(p), of(self, p))[1]
    )
    found = Run(reports, top).to(1_000_000)
    np.testing.assert_allclose(found, top, atol=1e-6)
    assert len(asked) < 1000


def test_leaps_end_where_steps_do(monkeypatch):
    channels = (geometric(12, "0.3"), geometric(8, "0.5"))
    reports = Tabled(channels, random_counts(channels, most=900))
    start = np.full(reports.shape, 1 / 96)
    quick = Run(reports, start).to(1000)
    monkeypatch.setattr(maximise, "_BY_ONE", 10**9)
    one_by_one = Run(reports, start).to(1000)
    apart = abs(quick - one_by_one).sum()
    assert apart < 0.02 * abs(one_by_one - start).sum()


def gap(reports, shares):
    """No distribution is more likely than this one by more, in logarithms."""
    return max(0.0, float(reports.gradient(shares)[1].max()) - reports.n)


@pytest.mark.parametrize("name", CHANNELS)
def test_no_distribution_is_more_likely_than_the_gap_allows(name):
    channels = CHANNELS[name]
    reports = Tabled(channels, random_counts(channels))
    for seed in range(20):
        shares = random_shares(channels, seed)
        best = max(
            reports.likelihood(Run(reports, random_shares(channels, seed + 100)).to(300)),
            *(reports.likelihood(random_shares(channels, 200 + k)) for k in range(5)),
        )
        assert best - reports.likelihood(shares) <= gap(reports, shares) * (1 + 1e-9) + 1e-9
    at_its_end = Run(reports, random_shares(channels)).to(20_000)
    assert gap(reports, at_its_end) < 0.01 * gap(reports, random_shares(channels))


@pytest.mark.parametrize("name", CHANNELS)
def test_exact_counts_of_reports_lead_back_to_the_people(name):
    channels = CHANNELS[name]
    truth = random_shares(channels)
    shape = [channel.outputs for channel in channels]
    exact = whole_law(channels) @ truth.reshape(-1)
    counts = np.rint(2.0**48 * exact).astype(np.int64).reshape(shape)
    found = Run(Tabled(channels, counts), np.full(truth.shape, 1 / truth.size)).to(60_000)
    np.testing.assert_allclose(found, truth, atol=2e-4)


# Halves, margins and the ladder


def test_halves_are_drawn_again_alike_and_add_up():
    channels = CHANNELS["three"]
    counts = random_counts(channels, most=1000)
    for reports in (Tabled(channels, counts), listed(channels, counts)):
        one, other = reports.halves()
        again, _ = reports.halves()
        np.testing.assert_array_equal(one.counts, again.counts)
        assert one.n + other.n == reports.n
        # 12,000 or so fair coins: six standard errors are left with probability 2e-9
        assert abs(one.n - other.n) < 6 * np.sqrt(reports.n)
    one, other = Tabled(channels, counts).halves()
    np.testing.assert_array_equal(one.counts + other.counts, counts)


def test_margins_are_sums():
    channels = CHANNELS["three"]
    counts = random_counts(channels)
    found = Tabled(channels, counts).over((2, 0))
    np.testing.assert_array_equal(found.counts, counts.sum(axis=1).T)
    assert found.channels == (channels[2], channels[0])
    shares = random_shares(channels)
    some = listed(channels, counts).over((0, 2))
    exact = Tabled(channels, counts).over((0, 2))
    margin = shares.sum(axis=1)
    np.testing.assert_allclose(some.gradient(margin)[1], exact.gradient(margin)[1], rtol=1e-5)


def test_the_stop_is_the_best_for_the_other_half():
    channels = (geometric(30, "0.2"),)
    rng = np.random.default_rng(5)
    people = np.clip(rng.normal(12, 4, 20_000).astype(int), 0, 29)
    noise = rng.geometric(1 - np.exp(-0.2), (2, 20_000))
    reports = np.clip(people + noise[0] - noise[1], 0, 29)
    whole = Tabled(channels, np.bincount(reports, minlength=30))
    every = (whole, *whole.halves())
    starts = [np.full(30, 1 / 30)] * 3
    done = []
    found = climb(every, starts, done.append)
    assert done[-1] == 1.0
    assert done == sorted(done)
    stops = list(found.scores)
    assert stops == [0, *(2**k for k in range(len(stops) - 1))]
    assert found.stop == max(found.scores, key=found.scores.get)
    assert found.steps in [max(2 * found.stop, 4) * 2**k for k in range(10)]
    assert stops[-1] == max(16, 4 * found.stop)
    parts = [Run(r, s).to(found.stop) for r, s in zip(every[1:], starts[1:], strict=True)]
    crossed = every[2].likelihood(parts[0]) + every[1].likelihood(parts[1])
    assert found.scores[found.stop] == pytest.approx(crossed, rel=1e-12)
    run = Run(whole, starts[0])
    np.testing.assert_array_equal(found.early[0], run.to(found.stop))
    np.testing.assert_array_equal(found.early[1], parts[0])
    np.testing.assert_array_equal(found.shares, run.to(found.steps))


@pytest.mark.parametrize("name", CHANNELS)
def test_what_is_farther_from_the_truth_is_told_without_bias(name):
    """With exact counts it is the difference of the squared errors over all ranges."""
    channels = CHANNELS[name]
    kinds = tuple(
        ((2, True), (3, False)) if channel is WOUND else ((channel.size, True),)
        for channel in channels
    )
    truth, later, earlier = (random_shares(channels, seed) for seed in (1, 2, 3))
    shape = [channel.outputs for channel in channels]
    exact = whole_law(channels) @ truth.reshape(-1)
    counts = np.rint(2.0**48 * exact).astype(np.int64).reshape(shape)
    found, variance = Tabled(channels, counts, kinds).farther(later, earlier)

    def rows(size, ordered):
        """All ranges; or all values, and everybody."""
        if not ordered:
            return np.vstack([np.eye(size), np.ones(size)])
        return np.array(
            [[a <= x < b for x in range(size)] for a in range(size) for b in range(a + 1, size + 1)]
        )

    every = [rows(*kind) for axis in kinds for kind in axis]
    asked = reduce(np.kron, every)
    scale = np.prod([(part.T @ part).max() for part in (r.astype(float) for r in every)])
    errors = [((asked @ (p - truth).reshape(-1)) ** 2).sum() / scale for p in (later, earlier)]
    assert found == pytest.approx(errors[0] - errors[1], abs=1e-9)
    assert 0 < variance < 1e-10


def test_steps_go_on_while_ranges_come_nearer():
    """Two people in each cell, and a few large crowds: cells stop at once, crowds do not."""
    rng = np.random.default_rng(9)
    channels = (geometric(60, "1"), geometric(60, "1"))
    people = rng.integers(0, 60, (2, 20_000))
    people[:, :10_000] = rng.integers(0, 60, (2, 8))[:, np.arange(10_000) % 8]
    noise = rng.geometric(1 - np.exp(-1), (2, 2, 20_000))
    reports = np.clip(people + noise[0] - noise[1], 0, 59)
    counts = np.zeros((60, 60), dtype=np.int64)
    np.add.at(counts, tuple(reports), 1)
    found = ladder(Tabled(channels, counts)).climbed[0, 1]
    assert found.steps > max(4 * found.stop, 4)


def test_a_product_is_the_closure_of_its_own_pairs():
    rng = np.random.default_rng(6)
    alone = [rng.random(size) for size in (3, 4, 2, 5)]
    product = reduce(np.multiply.outer, [part / part.sum() for part in alone])
    pairs = {
        (a, b): product.sum(axis=tuple(d for d in range(4) if d not in (a, b)))
        for a in range(4)
        for b in range(a + 1, 4)
    }
    np.testing.assert_allclose(closure(pairs, product.shape), product, rtol=1e-6)
    # Any distribution: the closure has its pairs, and no less entropy.
    other = rng.random(product.shape)
    other /= other.sum()
    pairs = {(a, b): other.sum(axis=tuple({0, 1, 2, 3} - {a, b})) for a, b in pairs}
    found = closure(pairs, other.shape)
    for (a, b), wanted in pairs.items():
        margin = found.sum(axis=tuple({0, 1, 2, 3} - {a, b}))
        np.testing.assert_allclose(margin, wanted, atol=1e-6)
    assert (-found * np.log(found)).sum() >= (-other * np.log(other)).sum()


def test_a_ladder_has_every_set_and_starts_from_those_below():
    channels = CHANNELS["three"]
    found = ladder(Tabled(channels, random_counts(channels, most=500)))
    assert list(found.climbed) == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    np.testing.assert_array_equal(found.shares, found.climbed[0, 1, 2].shares)
    assert found.shares.sum() == pytest.approx(1)


def test_two_threads_find_the_same(monkeypatch):
    channels = CHANNELS["two"]
    reports = Tabled(channels, random_counts(channels, most=500))
    alone = ladder(reports).shares
    monkeypatch.setattr(maximise, "_LARGE", 0)
    np.testing.assert_array_equal(ladder(reports).shares, alone)
