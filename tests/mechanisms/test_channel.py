"""Reading reports: features, values, codes, totals and likelihoods of columns."""

from fractions import Fraction

import numpy as np
import pytest

from metricldp.lab.peers.hashing import LocalHashing
from metricldp.lab.peers.hierarchy_unary import UnaryHierarchy
from metricldp.lab.peers.unary import UnaryOptimised
from metricldp.mechanisms import (
    Channel,
    GeometricChannel,
    MatrixChannel,
    RandomizedResponseChannel,
    ThresholdChannel,
    ThresholdDummyChannel,
    ThresholdPaperChannel,
    UnaryChannel,
)
from metricldp.mechanisms import channel as base
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.registry import build
from metricldp.mechanisms.table import TableChannel
from metricldp.metrics import Line
from metricldp_core.distributions import Threshold as ThresholdBits
from metricldp_core.exact import WORD

CHANNELS = {
    "threshold": ThresholdChannel.for_epsilon(30, Fraction(1)),
    "unary": UnaryOptimised.for_epsilon(30, Fraction(1)),
    "hashing": LocalHashing.for_epsilon(30, Fraction(1)),
    "hierarchy": UnaryHierarchy.branched(3, 30, Fraction(1)),
    "matrix": MatrixChannel.of(np.tri(8, dtype=int)[:-1], [Fraction(1)] * 7, 2),
    "geometric": GeometricChannel.for_epsilon(300, Fraction(1)),
}
each = pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS)
WIDE = MatrixChannel.of([[0, 1 << 15]], [Fraction(1)], 3)
"""Its sums need more than the digits of float32."""


def column_of(channel, n=3000):
    return channel.sample(np.arange(n) % channel.size, Randomness.seeded(4))


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
    totals = channel.totals(column, codes, count)
    assert totals.dtype == np.int64
    np.testing.assert_array_equal(totals, expected)


@pytest.mark.parametrize(("chunk", "at_once"), [(1, 1), (29, 1), (30, 1), (100, 3), (270, 9)])
def test_reports_are_read_so_many_features_at_a_time(chunk, at_once, monkeypatch):
    monkeypatch.setattr(base, "_CHUNK", chunk)
    channel = CHANNELS["threshold"]
    parts = list(channel._parts(20))
    assert [k for part in parts for k in range(20)[part]] == list(range(20))
    assert {part.stop - part.start for part in parts} == {at_once}


@pytest.mark.parametrize("count", [1, 30])
def test_sums_that_need_one_digit_more_than_short_floats_have_are_exact(count):
    column = np.full((1001, 1), (1 << 15) + 6, dtype="<u2").view(np.uint8)
    assert 1 << 24 < 1001 * WIDE.largest < 1 << 25
    totals = WIDE.totals(column, np.zeros(1001, dtype=np.int64), count)
    assert totals[:, 0].tolist() == [1001, 1001 * ((1 << 15) + 3), 1001]


@each
def test_chosen_features_are_columns_of_all(channel):
    """And all of them are what the channel says: a constant, signs, or two values."""
    column = column_of(channel)
    constant = int(channel.moments.has_constant)
    features = channel.features(column)
    assert constant == (features[:, 0] == 1).all()
    chosen = np.array([0, 3, features.shape[1] - constant - 1])
    found = channel.features(column, chosen)
    np.testing.assert_array_equal(found, features[:, constant + chosen])
    others = set(features[:, constant:].flat)
    assert channel.is_bits == (others == {-1, 1})
    assert channel.two_values is None or others == set(channel.two_values)


@each
def test_few_features_are_read_as_codes(channel):
    column = column_of(channel)
    coefficients = np.zeros((2, channel.moments.feature_count))
    used = np.random.default_rng(7).choice(channel.moments.feature_count - 1, 3, replace=False) + 1
    coefficients[:, used] = [[1, -2, 0.5], [0, 3, 0]]
    coefficients[:, 0] = [4, 5]
    if isinstance(channel, MatrixChannel):  # reads a row's number and its ends together
        coefficients[:, 1 + len(channel.noises) :] = 0
    levels = channel.levels(coefficients)
    expected = coefficients @ channel.features(column).T
    np.testing.assert_allclose(levels.table[:, levels.codes(column)], expected, atol=1e-12)
    np.testing.assert_allclose(channel.values(column, coefficients), expected, atol=1e-12)
    if channel.two_values is not None:
        assert levels.table.shape == (2, 1 << len(used))


def test_many_bits_have_no_codes_and_few_values_of_numbers_share_them():
    channel = ThresholdChannel.for_epsilon(300, Fraction(1))
    assert channel.levels(channel.moments.coefficients(np.arange(300.0)[None])) is None
    values = np.random.default_rng(16).normal(size=(1, 300))
    assert CHANNELS["geometric"].levels(values).table.shape == (1, 300)
    alike = np.repeat(values[:, :3], 100, axis=1)
    assert CHANNELS["geometric"].levels(alike).table.shape == (1, 3)


LIKELIHOODS = [
    GeometricChannel.for_epsilon(5, Fraction(2, 3)),
    *(
        kind.for_epsilon(4, Fraction(1, 2))
        for kind in (ThresholdChannel, ThresholdPaperChannel, ThresholdDummyChannel)
    ),
    ThresholdChannel(ThresholdBits(4, (WORD // 3, WORD // 5, WORD // 4))),
    RandomizedResponseChannel.for_epsilon(4, Fraction(1)),
    UnaryChannel.for_losses([(1.0, 0.3), (0.4, 0.2), (2.0, 0.1)]),
    TableChannel.of([[WORD // 2, WORD // 2, 0], [WORD // 4, WORD // 2, WORD // 4]]),
    MatrixChannel.of(
        [[0, 2, 1], [1, 1, 0], [3, 0, 5]], [Fraction(1, 3), Fraction(2), Fraction(1)], 2
    ),
    LocalHashing.for_epsilon(3, Fraction(1)),
    UnaryHierarchy.branched(2, 3, Fraction(1)),
]


@pytest.mark.parametrize("channel", LIKELIHOODS, ids=lambda channel: type(channel).__name__)
def test_likelihoods_of_columns_are_those_of_the_integers(channel):
    """In any order, and the same report more than once."""
    every = channel.every_report()
    column = every[np.random.default_rng(3).integers(len(every), size=40)]
    exact = [[channel.probability(x, row) for x in range(channel.size)] for row in column]
    with np.errstate(divide="ignore"):
        logs = np.log(np.array(exact, dtype=float))
    for found in (channel.log_likelihood(column), Channel.log_likelihood(channel, column)):
        np.testing.assert_allclose(found, logs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "kind"), [("threshold", ThresholdChannel), ("geometric", GeometricChannel)]
)
def test_epsilon_beyond_64_changes_nothing(name, kind):
    channel = build(name, 5, Line(Fraction(100)))
    assert channel == kind.for_epsilon(5, Fraction(64))
    assert channel.field.bits == channel.bits
