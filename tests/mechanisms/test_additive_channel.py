"""Additive noise on a ring and on a torus: sampling, and the estimator of many cells."""

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

from metricldp import QueryError
from metricldp.mechanisms import additive_channel, joint_cells
from metricldp.mechanisms.additive_channel import AdditiveChannel, ExtendedAdditiveMoments
from metricldp.mechanisms.joint_cells import Cells
from metricldp_core.exact import WORD

UNIT = Fraction(1, 2)
RING = ((0, 0, 1, 3, 2, 1), (2, 1, 1, 0, 1, 1), (0, 1, 1, 1, 0, 1), (3, 2, 1, 0, 0, 2))
SIZES, LENGTHS = (2, 3), (3, 4)
PATTERNS = ((0, 1, 2, 1, 1, 2, 2, 2, 1, 2, 3, 2), (0, 0, 1, 1, 0, 1, 2, 1, 1, 2, 2, 1))


def ring(size, patterns=RING):
    return AdditiveChannel.of((size,), (6,), patterns, UNIT)


def torus(sizes=SIZES, lengths=LENGTHS, patterns=PATTERNS):
    return AdditiveChannel.of(sizes, lengths, patterns, UNIT)


@pytest.fixture
def many(monkeypatch):
    """Every grid is taken to be too large for the inverse."""
    for module in (additive_channel, joint_cells):
        monkeypatch.setattr(module, "MOST_SOLVED", 0)


def probabilities(channel):
    """P(report | cell), exactly, as floats."""
    reports = range(channel.outputs)
    rows = [[channel.probability(x, np.asarray(y)) for y in reports] for x in range(channel.size)]
    return np.array(rows, dtype=float)


def weights(channel, j):
    """By the definition: from its top down, each level over e^UNIT, rounded up."""
    levels = [channel.distribution.tops[j]]
    for _ in range(max(channel.distribution.depths[j])):
        levels.append(-(-levels[-1] * channel.distribution.fall // WORD))
    return [levels[depth] for depth in channel.distribution.depths[j]]


class Given:
    """A byte for each pattern first, then words."""

    def __init__(self, patterns, words):
        self.patterns, self.left = bytes(patterns), list(words)

    def draw(self, count):
        assert count == len(self.patterns)
        return self.patterns

    def words(self, count):
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count
        return np.array(taken, dtype=np.uint64)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_reports_by_every_pattern_and_around_every_border(count):
    """Position, pattern and word determine the report."""
    channel, n = ring(4, RING[:count]), 6
    positions, drawn, words, expected = [], [], [], []
    for x, j in product(range(4), range(count)):
        sums = np.cumsum([0, *weights(channel, j)], dtype=object).tolist()
        for d, (first, end) in enumerate(pairwise(sums)):
            for word in (first, end - 1):
                positions.append(x)
                drawn.append(j + 4 * count)  # only its lowest bits count
                words.append(word)
                expected.append(n * j + (x + d) % n)
    randomness = Given(drawn, words)
    column = channel.sample(np.array(positions), randomness)
    assert column.tolist() == expected and column.dtype == channel.field.dtype
    assert not randomness.left


@pytest.mark.parametrize("channel", [ring(4), torus()], ids=["ring", "torus"])
def test_likelihoods_and_ratios_are_those_of_the_exact_probabilities(channel):
    exact = probabilities(channel)
    np.testing.assert_allclose(exact.sum(axis=1), 1)
    logs = channel.log_likelihood(channel.every_report())
    np.testing.assert_allclose(np.exp(logs).T, exact, rtol=1e-12)
    np.testing.assert_allclose(channel.moments.probabilities, exact, atol=1e-12)
    for x, other in product(range(channel.size), repeat=2):
        ratio = exact[x] / exact[other]
        worst = float(max(ratio.max(), 1 / ratio.min()))
        assert float(channel.distribution.ratio(x, other)) == pytest.approx(worst, rel=1e-12)


def test_cells_lie_row_by_row_with_places_between():
    channel = torus()
    assert channel.places.tolist() == [0, 1, 2, 4, 5, 6]
    assert [channel.distribution.place(x) for x in range(6)] == channel.places.tolist()
    three = AdditiveChannel.of((2, 1, 2), (2, 2, 3), (tuple(range(12)),), UNIT)
    assert three.places.tolist() == [0, 1, 6, 7]


def is_unbiased(channel):
    functions = np.random.default_rng(1).normal(size=(4, channel.size))
    estimators = channel.moments.coefficients(functions)
    return np.allclose(estimators @ probabilities(channel).T, functions, atol=1e-9)


def test_estimators_of_many_cells_are_unbiased_with_exact_moments(many):
    channel = torus()
    assert isinstance(channel.moments, ExtendedAdditiveMoments)
    assert is_unbiased(channel)
    f, g = np.random.default_rng(2).normal(size=(2, 3, channel.size))
    outputs = channel.moments.coefficients(f) * channel.moments.coefficients(g)
    expected = outputs @ probabilities(channel).T
    assert np.allclose(channel.moments.second_moment(f, g), expected, rtol=1e-9)
    assert np.allclose(channel.moments.coefficients(np.ones((1, 6))), 1, atol=1e-12)
    totals = np.random.default_rng(3).integers(0, 9, (channel.outputs, 2, 3)).astype(float)
    expected = np.tensordot(channel.moments.coefficients(np.eye(6)), totals, axes=1)
    assert np.allclose(channel.moments.frequencies(totals), expected, rtol=1e-9)


def test_a_wrong_spectrum_is_caught(many):
    channel = torus()
    channel.moments.__dict__["_power"] = channel.moments._power * 1.001
    with pytest.raises(QueryError, match="does not determine"):
        is_unbiased(channel)


@pytest.mark.parametrize("most", [0, 1024])
def test_mean_square_of_products_is_that_of_their_estimators(monkeypatch, most):
    for module in (additive_channel, joint_cells):
        monkeypatch.setattr(module, "MOST_SOLVED", most)
    monkeypatch.setattr(joint_cells, "_AT_ONCE", 50)
    channel = torus()
    for rows in (np.tril(np.ones((3, 3))), np.ones((1, 3))):
        first, second = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), rows
        whole = np.einsum("pa,qb->pqab", first, second).reshape(-1, channel.size)
        expected = channel.moments.second_moment(whole).mean(axis=1).sum()
        found = Cells(SIZES, channel).mean_square([first.T @ first, second.T @ second])
        assert found == pytest.approx(expected, rel=1e-9)


def test_values_between_cells_change_the_variance_and_no_mean(many):
    channel, other = torus(), torus()
    onward = [np.eye(n, m) for n, m in zip(LENGTHS, SIZES, strict=True)]
    other.moments.__dict__["_onward"] = onward
    assert is_unbiased(other)
    ranges = [[1, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0], [0, 1, 1, 0, 1, 1], [0, 1, 0, 0, 0, 0]]
    squares = [c.moments.second_moment(np.array(ranges) * 1.0).mean() for c in (channel, other)]
    assert squares[0] < squares[1]


def test_estimator_of_many_cells_is_near_the_best():
    """12 x 12 cells, noise that falls off in both directions: ranges of columns."""
    away = np.minimum(np.arange(15), 15 - np.arange(15))
    flat = tuple(int(a + b) for a in away for b in away)
    other = tuple(int((a + 1) // 2 + b) for a in away for b in away)
    at = np.arange(12)
    ranges = [(at >= a) & (at <= b) for a in range(12) for b in range(a, 12)]
    boxes = np.array([np.outer((at > 2) & (at < 8), one).ravel() for one in ranges], dtype=float)

    def variance():
        channel = AdditiveChannel.of((12, 12), (15, 15), (flat, other), UNIT)
        return channel.moments.second_moment(boxes).mean()

    best = variance()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(additive_channel, "MOST_SOLVED", 0)
        assert best < variance() < 1.15 * best


@pytest.mark.parametrize(
    ("size", "pattern"), [(6, (0, 0, 0, 0, 0, 0)), (4, (0, 1, 0, 1, 0, 1)), (6, (0, 1, 1, 0, 1, 1))]
)
def test_noise_that_does_not_determine_counts_is_rejected(size, pattern):
    with pytest.raises(QueryError, match="these patterns does not determine the counts of values"):
        ring(size, (pattern,)).moments.coefficients(np.eye(size))


def test_noise_that_does_not_determine_many_cells_is_rejected(many):
    with pytest.raises(QueryError, match="does not determine the counts"):
        torus(patterns=((0, 1) * 6,)).moments.coefficients(np.eye(6))


def test_few_cells_on_a_long_ring_need_no_large_matrix():
    assert not isinstance(torus().moments, ExtendedAdditiveMoments)
    pattern = (0, *[1] * (128 * 128 - 1))
    long = AdditiveChannel.of((32, 32), (128, 128), (pattern,), UNIT)
    assert isinstance(long.moments, ExtendedAdditiveMoments)
    assert long.moments.coefficients(np.ones((1, 1024))).shape == (1, 128 * 128)


def cost_around(channel, onward):
    """The mean square of all products of ranges on the ring, by the transform of each of them."""
    noise = np.fft.fft2(channel.moments._patterns.reshape(-1, *channel.distribution.lengths))
    power, ranges = (np.abs(noise) ** 2).mean(axis=0), []
    for n in channel.distribution.sizes:
        at, pairs = np.arange(n), [(low, high) for low in range(n) for high in range(low, n)]
        ranges.append([((low <= at) & (at <= high)) * 1.0 for low, high in pairs])
    total = 0.0
    for one, other in product(*ranges):
        along = np.outer(onward[0] @ one, onward[1] @ other)
        total += float((np.abs(np.fft.fft2(along)) ** 2 / power).sum())
    return total


@pytest.mark.parametrize("lengths", [(3, 4), (2, 4), (3, 3)])
def test_values_between_cells_have_the_least_mean_square(many, lengths):
    """The attribute that was gone through last cannot do better; the others hardly."""
    rows = np.random.default_rng(6).integers(0, 4, (2, np.prod(lengths))).tolist()
    channel = torus(lengths=lengths, patterns=tuple(map(tuple, rows)))
    onward, rng = channel.moments._onward, np.random.default_rng(7)
    best = cost_around(channel, onward)
    assert best < cost_around(channel, [np.eye(*pair) for pair in zip(lengths, SIZES, strict=True)])
    last = max(d for d in range(2) if lengths[d] > SIZES[d])
    for d in range(2):
        more = lengths[d] - SIZES[d]
        for _ in range(5 if more else 0):
            step = 1e-3 * rng.normal(size=(more, SIZES[d]))
            for sign in (-1, 1):
                moved = [way.copy() for way in onward]
                moved[d][SIZES[d] :] += sign * step
                assert cost_around(channel, moved) > best * (1 if d == last else 1 - 1e-4)
