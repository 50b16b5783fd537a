"""What every channel has for nothing: the defaults over features against plain arithmetic."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from metricldp.channels import Channel, Matrix, Threshold, base
from metricldp.coins.stream import Coins
from metricldp.lab.peers.hashing import LocalHashing
from metricldp.lab.peers.hierarchy_unary import UnaryHierarchy
from metricldp.lab.peers.unary import UnaryOptimised


@dataclass(frozen=True)
class Least(Channel):
    """A channel that says only what it must; everything else comes with the protocol."""

    size: int
    inner: Channel

    mechanism = "least"

    @property
    def field(self):
        return self.inner.field

    @property
    def features(self):
        return self.inner.features

    def encode(self, positions, coins):
        return self.inner.encode(positions, coins)

    def blur(self, position, tape):
        return self.inner.blur(position, tape)

    def worst_ratio(self, x, other):
        return self.inner.worst_ratio(x, other)

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
    "matrix": Matrix.of(np.tri(8, dtype=int)[:-1], [Fraction(1)] * 7, 2),
}
CHANNELS["least"] = Least(30, CHANNELS["threshold"])
each = pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS)


def column_of(channel, n=3000):
    return channel.encode(np.arange(n) % channel.size, Coins.seeded(4))


@each
@pytest.mark.parametrize("chunk", [64, 1 << 20])
@pytest.mark.parametrize("count", [1, 5, 24, 25, 700])
def test_totals_are_sums_of_features_by_code(channel, chunk, count, monkeypatch):
    monkeypatch.setattr(base, "_CHUNK", chunk)
    column = column_of(channel)
    codes = np.random.default_rng(5).integers(0, count, len(column)).astype(np.uint16)
    features = channel.expand(column).astype(np.int64)
    assert np.abs(features).max() <= channel.largest
    expected = np.zeros((channel.features, count), dtype=np.int64)
    np.add.at(expected.T, codes, features)
    found = channel.totals(column, codes, count)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, expected)


@each
def test_values_are_weighted_sums_of_features(channel, monkeypatch):
    monkeypatch.setattr(base, "_CHUNK", 1000)
    column = column_of(channel)
    decoders = channel.coefficients(np.random.default_rng(6).normal(size=(4, channel.size)))
    expected = decoders @ channel.expand(column).T
    np.testing.assert_allclose(channel.values(column, decoders), expected, atol=1e-9)
    assert np.abs(expected[0]).max() <= channel.influence(
        np.random.default_rng(6).normal(size=(4, channel.size))[0]
    ) * (1 + 1e-12)


@each
def test_few_features_are_read_as_codes(channel):
    column = column_of(channel)
    coefficients = np.zeros((2, channel.features))
    used = np.random.default_rng(7).choice(channel.features - 1, 3, replace=False) + 1
    coefficients[:, used] = [[1, -2, 0.5], [0, 3, 0]]
    coefficients[:, 0] = [4, 5]
    levels = channel.levels(coefficients)
    if channel.two_values is None and not isinstance(channel, Matrix):
        assert levels is None
        return
    expected = coefficients @ channel.expand(column).T
    if isinstance(channel, Matrix):  # reads a row's number and its ends together
        coefficients[:, 1 + len(channel.noises) :] = 0
        levels = channel.levels(coefficients)
        expected = coefficients @ channel.expand(column).T
    np.testing.assert_allclose(levels.table[:, levels.codes(column)], expected, atol=1e-12)


@each
def test_cells_are_the_transpose_of_coefficients(channel):
    totals = np.random.default_rng(8).normal(size=(channel.features, 4))
    expected = channel.coefficients(np.eye(channel.size)) @ totals
    np.testing.assert_allclose(channel.cells(totals), expected, atol=1e-9)
    np.testing.assert_allclose(Channel.cells(channel, totals), expected, atol=1e-12)


@each
def test_one_function_is_its_own_pair(channel):
    functions = np.random.default_rng(9).normal(size=(3, channel.size))
    alone, pair = channel.moment(functions), channel.moment(functions, functions.copy())
    np.testing.assert_allclose(alone, pair, rtol=1e-12)


def test_bits_of_any_column():
    for channel in (CHANNELS["threshold"], CHANNELS["hashing"], CHANNELS["matrix"]):
        column = column_of(channel, 200)
        packed = channel.field.pack(column)
        bits = np.stack([channel.bit(column, k) for k in range(channel.bits)], axis=1)
        np.testing.assert_array_equal(bits, packed)


def test_what_a_range_is_in_closed_form():
    channel = CHANNELS["threshold"]
    column = column_of(channel)
    signs = channel.expand(column)[:, 1:].astype(float)
    for first, end in ((0, 7), (12, 30), (5, 21)):
        cut, inside = channel.cut(first, end), np.zeros(30)
        inside[first:end] = 1
        digit = signs[:, cut.first]
        if cut.second is not None:
            digit = (digit - signs[:, cut.second]) / 2
        decoded = channel.values(column, channel.coefficients(inside)[None])[0]
        np.testing.assert_allclose(cut.constant + cut.weight * digit, decoded, atol=1e-12)
        np.testing.assert_allclose(channel.moment(inside), inside + cut.noise, rtol=1e-12)
    assert all(CHANNELS[name].cut(0, 7) is None for name in ("unary", "hashing", "least"))
