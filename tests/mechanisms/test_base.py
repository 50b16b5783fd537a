"""What every channel has for nothing: the defaults over features against plain arithmetic."""

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from metricldp import Integer, Survey
from metricldp.lab.peers.hashing import LocalHashing
from metricldp.lab.peers.hierarchy_unary import UnaryHierarchy
from metricldp.lab.peers.unary import UnaryOptimised
from metricldp.mechanisms import (
    Channel,
    Geometric,
    MatrixChannel,
    Response,
    Threshold,
    ThresholdDummy,
    ThresholdPaper,
    UnaryChannel,
    threshold,
)
from metricldp.mechanisms import channel as base
from metricldp.mechanisms.base import Simple
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.registry import build
from metricldp.mechanisms.table import Table
from metricldp.metrics import Line
from metricldp_core.exact import WORD


@dataclass(frozen=True)
class Least(Channel):
    """A channel with only the methods that it must have; all others are those of the base."""

    size: int
    inner: Channel

    mechanism = "least"

    @property
    def field(self):
        return self.inner.field

    @property
    def features(self):
        return self.inner.features

    def encode(self, positions, randomness):
        return self.inner.sample(positions, randomness)

    @property
    def distribution(self):
        return self.inner.distribution

    def probability(self, x, report):
        return self.inner.probability(x, report)

    def coefficients(self, functions):
        return self.inner.coefficients(functions)

    def moment(self, functions, others=None):
        return self.inner.moment(functions, others)

    def expand(self, column):
        return self.inner.expand(column)


CHANNELS = {
    "threshold": Threshold.for_epsilon(30, Fraction(1)),
    "unary": UnaryOptimised.for_epsilon(30, Fraction(1)),
    "hashing": LocalHashing.for_epsilon(30, Fraction(1)),
    "hierarchy": UnaryHierarchy.branched(3, 30, Fraction(1)),
    "matrix": MatrixChannel.of(np.tri(8, dtype=int)[:-1], [Fraction(1)] * 7, 2),
    "geometric": Geometric.for_epsilon(300, Fraction(1)),
}
CHANNELS["least"] = Least(30, CHANNELS["threshold"])
each = pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS)


def column_of(channel, n=3000):
    return channel.sample(np.arange(n) % channel.size, Randomness.seeded(4))


WIDE = MatrixChannel.of(
    [[0, 1 << 15]], [Fraction(1)], 3
)  # its sums need more than the digits of float32


@pytest.mark.parametrize("channel", [*CHANNELS.values(), WIDE], ids=[*CHANNELS, "wide"])
@pytest.mark.parametrize("chunk", [100, 1 << 20])
@pytest.mark.parametrize("count", [1, 5, 24, 25, 700])
def test_totals_are_sums_of_features_by_code(channel, chunk, count, monkeypatch):
    monkeypatch.setattr(base, "_CHUNK", chunk)
    column = column_of(channel)
    codes = np.random.default_rng(5).integers(0, count, len(column)).astype(np.uint16)
    features = channel.features(column).astype(np.int64)
    assert np.issubdtype(channel.features(column).dtype, np.integer)
    assert np.abs(features).max() <= channel.largest
    expected = np.zeros((channel.moments.feature_count, count), dtype=np.int64)
    np.add.at(expected.T, codes, features)
    found = channel.totals(column, codes, count)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("chunk", "at_once"), [(1, 1), (29, 1), (30, 1), (100, 3), (270, 9)])
def test_reports_are_read_so_many_features_at_a_time(chunk, at_once, monkeypatch):
    """At least one report, whatever it has."""
    monkeypatch.setattr(base, "_CHUNK", chunk)
    channel = CHANNELS["threshold"]
    assert channel.moments.feature_count == 30
    parts = list(channel._parts(20))
    assert [k for part in parts for k in range(20)[part]] == list(range(20))
    assert {part.stop - part.start for part in parts} == {at_once}


@pytest.mark.parametrize("count", [1, 30])
def test_sums_that_need_one_digit_more_than_short_floats_have_are_exact(count):
    column = np.full((1001, 1), (1 << 15) + 6, dtype="<u2").view(np.uint8)
    assert 1 << 24 < 1001 * WIDE.largest < 1 << 25
    totals = WIDE.totals(column, np.zeros(1001, dtype=np.int64), count)
    assert totals[:, 0].tolist() == [1001, 1001 * ((1 << 15) + 3), 1001]


@pytest.mark.parametrize("name", [name for name in CHANNELS if name != "least"])
def test_a_channel_says_of_its_features_what_they_are(name):
    channel = CHANNELS[name]
    features = channel.features(column_of(channel))
    assert channel.constant == (features[:, 0] == 1).all()
    assert channel.cumulates == ((features.sum(axis=1) == 1).all() and (features >= 0).all())
    others = set(features[:, channel.constant :].flat)
    assert channel.is_bits == (others == {-1, 1})
    if channel.two_values:
        assert others == set(channel.two_values)


@each
def test_values_are_weighted_sums_of_features(channel, monkeypatch):
    monkeypatch.setattr(base, "_CHUNK", 1000)
    column = column_of(channel)
    decoders = channel.moments.coefficients(np.random.default_rng(6).normal(size=(4, channel.size)))
    expected = decoders @ channel.features(column).T
    np.testing.assert_allclose(channel.values(column, decoders), expected, atol=1e-9)
    assert np.abs(expected[0]).max() <= channel.influence(
        np.random.default_rng(6).normal(size=(4, channel.size))[0]
    ) * (1 + 1e-12)


@each
def test_few_features_are_read_as_codes(channel):
    column = column_of(channel)
    coefficients = np.zeros((2, channel.moments.feature_count))
    used = np.random.default_rng(7).choice(channel.moments.feature_count - 1, 3, replace=False) + 1
    coefficients[:, used] = [[1, -2, 0.5], [0, 3, 0]]
    coefficients[:, 0] = [4, 5]
    levels = channel.levels(coefficients)
    if channel is CHANNELS["least"]:
        assert levels is None
        return
    expected = coefficients @ channel.features(column).T
    if isinstance(channel, MatrixChannel):  # reads a row's number and its ends together
        coefficients[:, 1 + len(channel.noises) :] = 0
        levels = channel.levels(coefficients)
        expected = coefficients @ channel.features(column).T
    np.testing.assert_allclose(levels.table[:, levels.codes(column)], expected, atol=1e-12)
    if channel.two_values is not None:
        assert levels.table.shape == (2, 1 << len(used))


def test_as_many_codes_as_reports_are_told_apart():
    channel = CHANNELS["geometric"]
    decoder = np.random.default_rng(16).normal(size=(1, 300))
    levels = channel.levels(decoder)
    column = np.arange(300, dtype=np.uint16)
    np.testing.assert_array_equal(levels.table[:, levels.codes(column)], decoder)
    alike = np.repeat(decoder[:, :3], 100, axis=1)
    assert channel.levels(alike).table.shape == (1, 3)


@each
def test_cells_are_the_transpose_of_coefficients(channel):
    totals = np.random.default_rng(8).normal(size=(channel.moments.feature_count, 4))
    expected = channel.moments.coefficients(np.eye(channel.size)) @ totals
    np.testing.assert_allclose(channel.moments.frequencies(totals), expected, atol=1e-9)
    np.testing.assert_allclose(Channel.cells(channel, totals), expected, atol=1e-12)


@each
def test_one_function_is_its_own_pair(channel):
    functions = np.random.default_rng(9).normal(size=(3, channel.size))
    alone, pair = channel.moments.second_moment(functions), channel.moments.second_moment(functions, functions.copy())
    np.testing.assert_allclose(alone, pair, rtol=1e-12)


def test_bits_of_any_column():
    for channel in (CHANNELS["threshold"], CHANNELS["hashing"], CHANNELS["matrix"]):
        column = column_of(channel, 200)
        packed = channel.field.pack(column)
        bits = [channel.bit(column, k) for k in range(channel.bits)]
        assert {part.dtype for part in bits} == {np.dtype(np.uint8)}
        np.testing.assert_array_equal(np.stack(bits, axis=1), packed)


@pytest.mark.parametrize("name", ["threshold", "unary", "hashing", "hierarchy"])
def test_where_a_feature_has_the_higher_of_its_two_values(name):
    """As the features say themselves, and as a channel reads it faster."""
    channel = CHANNELS[name]
    column = column_of(channel, 200)
    features = channel.features(column)[:, channel.constant :]
    assert set(features.flat) == set(channel.two_values)
    for k in range(features.shape[1]):
        higher = features[:, k] == max(channel.two_values)
        for found in (channel.raised(column, k), Channel.raised(channel, column, k)):
            assert found.dtype == np.uint8
            np.testing.assert_array_equal(found, higher)


@pytest.mark.parametrize("name", ["threshold", "geometric", "unary"])
def test_the_mean_over_all_ranges_is_the_same_in_parts(name, monkeypatch):
    channel = build(name, 30, Line(Fraction(1)))
    whole = channel.moments.mean_range_variance()
    ranges = np.array([[a <= x < b for x in range(30)] for b in range(31) for a in range(b)]) * 1.0
    each = channel.moments.second_moment(ranges) - ranges
    assert whole == pytest.approx(each.mean(), rel=1e-9)
    monkeypatch.setattr(base, "_CHUNK", 7 * channel.moments.feature_count)
    assert channel.moments.mean_range_variance() == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("prior", [None, [0.5, 0.2, 0.1, 0.1, 0.1]])
def test_squares_of_a_workload_are_a_mean_over_people_as_they_are_spread(prior):
    """Row by row and person by person; the root of its Gram matrix says the same."""
    channel = build("geometric", 5, Line(Fraction(1)))
    rows = np.random.default_rng(18).normal(size=(3, 5))
    shares = [0.2] * 5 if prior is None else prior
    squares = channel.moments.second_moment(rows)
    expected = sum(share * squares[:, x].sum() for x, share in enumerate(shares))
    found = channel.moments.mean_square(rows.T @ rows, prior if prior is None else np.array(prior))
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("block", [1, 3, 1 << 14])
def test_threshold_bits_of_many_people_are_made_in_parts(block, monkeypatch):
    """Eight people at least, however wide their reports; without flips, bits are the truth."""
    monkeypatch.setattr(threshold, "BLOCK", block)
    channel, people = Threshold(20, 0), np.arange(100) % 20
    sent = channel.sample(people, Randomness.seeded(2))
    bits = np.unpackbits(sent, axis=1, count=19, bitorder="little")
    np.testing.assert_array_equal(bits, people[:, None] <= np.arange(19))


def test_what_a_range_is_in_closed_form():
    channel = CHANNELS["threshold"]
    column = column_of(channel)
    signs = channel.features(column)[:, 1:].astype(float)
    for first, end in ((0, 7), (12, 30), (5, 21)):
        cut, inside = channel.cut(first, end), np.zeros(30)
        inside[first:end] = 1
        digit = signs[:, cut.first]
        if cut.second is not None:
            digit = (digit - signs[:, cut.second]) / 2
        decoded = channel.values(column, channel.moments.coefficients(inside)[None])[0]
        np.testing.assert_allclose(cut.constant + cut.weight * digit, decoded, atol=1e-12)
        np.testing.assert_allclose(channel.moments.second_moment(inside), inside + cut.noise, rtol=1e-12)
    assert all(CHANNELS[name].cut(0, 7) is None for name in ("unary", "hashing", "least"))


# How far answers are from normal


LISTED = {
    "threshold": Threshold.for_epsilon(4, Fraction(1)),
    "geometric": Geometric.for_epsilon(5, Fraction(1)),
    "randomized-response": Response.for_epsilon(5, Fraction(1)),
    "twice": Table.of([[WORD // 2, WORD // 4, WORD // 4], [WORD // 8, WORD // 4, 5 * (WORD // 8)]]),
    "matrix": MatrixChannel.of(np.tri(4, dtype=int)[:-1], [Fraction(1)] * 3, 2),
    "least": Least(4, Threshold.for_epsilon(4, Fraction(1))),
}
each_listed = pytest.mark.parametrize("channel", LISTED.values(), ids=LISTED)


def decoded_with_law(channel, functions):
    """The decoders at every report, and P(report | x) of every report: (k, reports), (x, ...)."""
    reports = channel.every_report()
    law = [[float(channel.probability(x, row)) for row in reports] for x in range(channel.size)]
    return channel.values(reports, channel.moments.coefficients(functions)), np.array(law)


@each_listed
def test_how_much_of_a_variance_is_hidden(channel):
    """The variance of its decoder over its value, at the worst position that adds something."""
    moments = np.random.default_rng(10).uniform(0.5, 3, size=(4, channel.size))
    moments[1, -1] = 0
    moments[2] = 2.5  # the same for everybody, so nothing is decoded
    moments[3] = 1
    moments[3, 0] = 1 - 1e-9
    decoded, law = decoded_with_law(channel, moments)
    means = decoded @ law.T
    np.testing.assert_allclose(means, moments, atol=1e-9)
    spread = decoded**2 @ law.T - moments**2
    pairs = zip(spread, moments, strict=True)
    expected = [max(v / m for v, m in zip(*row, strict=True) if m) for row in pairs]
    expected[2] = 0
    found = channel.moments.unseen_variance(moments)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(channel.moments.unseen_variance(moments[2:3]), [0])


@pytest.mark.parametrize("name", ["geometric", "randomized-response", "twice"])
def test_the_jump_of_a_number_is_its_fourth_moment_over_its_second(name):
    channel = LISTED[name]
    functions = np.random.default_rng(11).normal(size=(5, channel.size))
    functions[3] = 7  # nothing is decoded, and nothing jumps
    functions[4] += 1e6  # a level changes nothing
    decoded, law = decoded_with_law(channel, functions)
    expected = np.zeros(5)
    for k, (values, function) in enumerate(zip(decoded, functions, strict=True)):
        for x in range(channel.size):
            second, fourth = (law[x] @ (values - function[x]) ** power for power in (2, 4))
            if k != 3:
                expected[k] = max(expected[k], np.sqrt(fourth / second))
    np.testing.assert_allclose(channel.moments.skewness(functions), expected, rtol=1e-7, atol=1e-12)


@each_listed
def test_every_function_jumps_in_its_own_units(channel):
    """Whatever is asked beside it."""
    function = np.random.default_rng(17).normal(size=(1, channel.size))
    units = np.array([[1], [1e9], [-1e-9]])
    expected = channel.moments.skewness(function) * np.abs(units[:, 0])
    np.testing.assert_allclose(channel.moments.skewness(units * function), expected, rtol=1e-9)
    hidden = channel.moments.unseen_variance(np.abs(units * function))
    np.testing.assert_allclose(hidden, channel.moments.unseen_variance(np.abs(function)) * np.abs(units[:, 0]))


def test_moments_of_more_reports_than_positions_are_decoded_like_any_function():
    """F G has the right mean, too; but where reports tell the same, it need not be the same."""
    channel = LISTED["twice"]
    f, g = np.random.default_rng(15).normal(size=(2, 3, 2))
    moment, decoder = channel.moments.second_moment_estimator(f, g)
    np.testing.assert_allclose(decoder, channel.moments.coefficients(moment), rtol=1e-12)
    np.testing.assert_allclose(moment, channel.moments.second_moment(f, g), rtol=1e-12)


def test_the_jump_of_bits_is_what_turning_one_does():
    channel = LISTED["threshold"]
    functions = np.random.default_rng(12).normal(size=(5, 4))
    reports = channel.every_report()
    values = channel.values(reports, channel.moments.coefficients(functions))
    code = {row.tobytes(): k for k, row in enumerate(reports)}
    turned = [
        np.abs(values - values[:, [code[(row ^ np.uint8(1 << bit)).tobytes()] for row in reports]])
        for bit in range(channel.bits)
    ]
    np.testing.assert_allclose(channel.moments.skewness(functions), np.max(turned, axis=(0, 2)), rtol=1e-12)
    least = LISTED["least"].jump(functions)
    farthest = np.abs(values[:, :, None] - functions[:, None]).max(axis=(1, 2))
    assert (least >= farthest * (1 - 1e-12)).all()
    most = np.abs(values).max(axis=1) + np.abs(functions).max(axis=1)
    np.testing.assert_allclose(least, most, rtol=1e-12)


def test_the_jump_of_a_matrix_is_that_of_its_worst_row():
    """The fourth cumulant of a row over its variance, by summing over its noise."""
    epsilons = [Fraction(1, 2), Fraction(1), Fraction(2)]
    channel = MatrixChannel.of(np.tri(4, dtype=int)[:-1], epsilons, 200)
    functions = np.random.default_rng(13).normal(size=(6, 4))
    rows = channel.moments.coefficients(functions)[:, 1:4]
    sizes = np.arange(-400, 401)
    peaks = []
    for u in map(float, epsilons):
        weights = np.exp(-u * np.abs(sizes))
        second, fourth = (weights @ sizes.astype(float) ** k / weights.sum() for k in (2, 4))
        peaks.append((fourth - 3 * second**2) / second)
    expected = np.sqrt((rows**2 * peaks).max(axis=1))
    np.testing.assert_allclose(channel.moments.skewness(functions), expected, rtol=1e-9)
    # Clipped, a row varies with the position; the position where it varies most decides.
    narrow = MatrixChannel.of([[0, 10, 20], [0, 10, 30]], [Fraction(1, 4)] * 2, 0)
    rows, most = narrow.coefficients(functions[:, :3])[:, 1:3], narrow.variances.max(axis=1)
    assert (most > 1.1 * narrow.variances.min(axis=1)).all()
    expected = (np.abs(rows) * np.sqrt(1 + 3 * most)).max(axis=1)
    np.testing.assert_allclose(narrow.jump(functions[:, :3]), expected, rtol=1e-12)


# What is the same for all


def exact_logs(channel, column):
    law = [[channel.probability(x, row) for x in range(channel.size)] for row in column]
    with np.errstate(divide="ignore"):
        return np.log(np.array(law, dtype=float))


UNEVEN = UnaryChannel.for_losses([(1.0, 0.3), (0.4, 0.2), (2.0, 0.1)])
NEVER = Table.of([[WORD // 2, WORD // 2, 0], [WORD // 4, WORD // 2, WORD // 4]])
ROWS = MatrixChannel.of(
    [[0, 2, 1], [1, 1, 0], [3, 0, 5]], [Fraction(1, 3), Fraction(2), Fraction(1)], 2
)


@pytest.mark.parametrize(
    "channel",
    [
        Geometric.for_epsilon(5, Fraction(2, 3)),
        *(kind.for_epsilon(4, Fraction(1, 2)) for kind in (Threshold, ThresholdPaper)),
        ThresholdDummy.for_epsilon(4, Fraction(1, 2)),
        Response.for_epsilon(4, Fraction(1)),
        UNEVEN,
        NEVER,
        ROWS,
        LocalHashing.for_epsilon(3, Fraction(1)),
        UnaryHierarchy.branched(2, 3, Fraction(1)),
    ],
    ids=lambda channel: channel.mechanism,
)
def test_columns_are_as_likely_as_their_integers_say(channel):
    """In any order, and the same report more than once; by a way of their own, and without one."""
    every = channel.every_report()
    column = every[np.random.default_rng(3).integers(len(every), size=40)]
    exact = exact_logs(channel, column)
    for found in (channel.log_likelihood(column), Channel.log_likelihood(channel, column)):
        assert found.shape == (40, channel.size)
        np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-12)


def least(kind):
    """A mechanism that says only what it must, with the law of another."""
    return Simple("least", lambda size, epsilon: Least(size, kind.for_epsilon(size, epsilon)))


@pytest.mark.parametrize("kind", [Threshold, Geometric])
@pytest.mark.parametrize("layout", ["auto", "reports", "totals"])
def test_a_channel_that_says_only_what_it_must_answers_as_the_one_it_is(kind, layout):
    people = {"a": np.arange(600) % 7, "b": np.arange(600) % 2}
    where = [{"a": (2, 4)}, {"a": (0, 3), "b": 1}, {"b": 0}, {"a": [0, 6], "b": 1}, {}]
    asked = []
    for mechanism in (kind.mechanism, least(kind)):
        a = Integer(0, 6, epsilon=1, mechanism=mechanism, per=1)
        survey = Survey.design(
            {"a": a, "b": Integer(0, 1, epsilon=2, mechanism="threshold", per=1)}
        )
        reports = survey.randomize(people, randomness=Randomness.seeded(6))
        how = {"keep": [("a", "b")]} if layout == "totals" else {"layout": layout}
        tally = survey.tally(reports, **how)
        answers = [tally.count(w) for w in where] + [tally.mean("a", where={"b": 1})]
        asked.append(
            [(answer.value, answer.stderr, answer.confidence_interval()) for answer in answers]
        )
    for (value, stderr, (low, high)), other in zip(*asked, strict=True):
        np.testing.assert_allclose(other[:2], (value, stderr), rtol=1e-9, atol=1e-9)
        # Of coins that nothing is said about, more is expected.
        assert other[2][0] <= low + 1e-9
        assert high - 1e-9 <= other[2][1]


def test_what_a_report_can_move_is_bounded_by_the_two_values_of_its_features():
    """Where each feature may be either: all combinations of them, and none goes farther."""
    channel = LocalHashing.for_epsilon(5, Fraction(1))
    low, high = channel.two_values
    for function in np.random.default_rng(14).normal(size=(4, 5)):
        fixed, *weights = channel.moments.coefficients(function)
        sums = [
            fixed + np.dot(weights, chosen) for chosen in itertools.product((low, high), repeat=5)
        ]
        bound = Channel.influence(channel, function)
        assert bound == pytest.approx(np.abs(sums).max(), rel=1e-12)
        assert max(map(abs, channel.moments.output_range(function))) <= bound * (1 + 1e-12)


@pytest.mark.parametrize("kind", [Threshold, Geometric])
def test_beyond_64_no_epsilon_makes_a_coin_rarer(kind):
    """A promise of 100 is kept with the law of 64, whose flips are the rarest of 64-bit words."""
    made = build(kind.mechanism, 5, Line(Fraction(100)))
    assert made == kind.for_epsilon(5, Fraction(64))
    assert made.field.bits == made.bits
    plan = MatrixChannel.of([[0, 1]], [Fraction(100)], 0)
    assert plan.noises[0] == Geometric.for_epsilon(2, Fraction(64))
