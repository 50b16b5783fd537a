"""Noise around a ring that is wound up: cells, and the decoder of grids too large to be solved."""

from fractions import Fraction

import numpy as np
import pytest

from metricldp import QueryError
from metricldp.mechanisms import additive_channel as wound
from metricldp.mechanisms.additive_channel import AdditiveChannel

UNIT = Fraction(1, 2)
SIZES, LENGTHS = (2, 3), (3, 4)
PATTERNS = ((0, 1, 2, 1, 1, 2, 2, 2, 1, 2, 3, 2), (0, 0, 1, 1, 0, 1, 2, 1, 1, 2, 2, 1))


def channel(sizes=SIZES, lengths=LENGTHS, patterns=PATTERNS):
    return AdditiveChannel.of(sizes, lengths, patterns, UNIT)


@pytest.fixture
def unsolved(monkeypatch):
    """Every grid is taken to be too large."""
    monkeypatch.setattr(wound, "MOST_SOLVED", 0)


def shares(made):
    """P(report | cell), by the exact law: (cells, reports)."""
    reports = range(made.outputs)
    return np.array(
        [[float(made.probability(x, np.asarray(y))) for y in reports] for x in range(made.size)]
    )


def test_cells_lie_row_by_row_with_places_between():
    made = channel()
    assert made.places.tolist() == [0, 1, 2, 4, 5, 6]
    assert [made.distribution.place(x) for x in range(6)] == made.places.tolist()
    three = AdditiveChannel.of((2, 1, 2), (2, 2, 3), (tuple(range(12)),), UNIT)
    assert three.places.tolist() == [0, 1, 6, 7]


def test_the_law_is_that_of_the_ring():
    made = channel()
    assert np.allclose(shares(made).sum(axis=1), 1)
    logs = made.log_likelihood(made.every_report())
    assert np.allclose(np.exp(logs).T, shares(made), rtol=1e-12)
    for x in range(6):
        for other in range(6):
            ratio = shares(made)[x] / shares(made)[other]
            worst = float(max(ratio.max(), 1 / ratio.min()))
            assert float(made.distribution.ratio(x, other)) == pytest.approx(worst, rel=1e-12)


def unbiased(made):
    functions = np.random.default_rng(1).normal(size=(4, made.size))
    return np.allclose(made.moments.coefficients(functions) @ shares(made).T, functions, atol=1e-9)


def test_decoders_of_large_grids_are_unbiased_with_exact_moments(unsolved):
    made = channel()
    assert unbiased(made)
    f, g = np.random.default_rng(2).normal(size=(2, 3, made.size))
    product = made.moments.coefficients(f) * made.moments.coefficients(g)
    assert np.allclose(made.moments.second_moment(f, g), product @ shares(made).T, rtol=1e-9)
    moment, decoder = made.moments(f, g)
    assert np.allclose(decoder @ shares(made).T, moment, rtol=1e-9)


@pytest.mark.parametrize("most", [0, 1024])
def test_products_are_decoded_like_any_function(monkeypatch, most):
    monkeypatch.setattr(wound, "MOST_SOLVED", most)
    made, rng = channel(), np.random.default_rng(4)
    first, second = rng.normal(size=(5, 2)), rng.normal(size=(5, 3))
    whole = np.einsum("qa,qb->qab", first, second).reshape(5, 6)
    found = made.product_coefficients([first, second])
    assert np.allclose(found, made.moments.coefficients(whole), rtol=1e-9)


@pytest.mark.parametrize("most", [0, 1024])
def test_the_mean_square_of_products_is_that_of_their_decoders(monkeypatch, most):
    """Of all rows of two workloads, one of which is about everybody: by the moments of each."""
    monkeypatch.setattr(wound, "MOST_SOLVED", most)
    monkeypatch.setattr(wound, "_AT_ONCE", 50)
    made = channel()
    for rows in (np.tril(np.ones((3, 3))), np.ones((1, 3))):
        first, second = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), rows
        whole = np.einsum("pa,qb->pqab", first, second).reshape(-1, made.size)
        expected = made.moments.second_moment(whole).mean(axis=1).sum()
        found = made.product_mean_square([first.T @ first, second.T @ second])
        assert found == pytest.approx(expected, rel=1e-9)


def test_a_broken_decoder_of_large_grids_is_caught(unsolved):
    made = channel()
    made.__dict__["_filter"] = made._filter * 1.001
    assert not unbiased(made)


def test_what_lies_between_cells_is_free(unsolved):
    """Another function there is no bias, but more variance."""
    made, other = channel(), channel()
    other.__dict__["_onward"] = [np.eye(n, m) for n, m in zip(LENGTHS, SIZES, strict=True)]
    assert unbiased(other)
    ranges = [[1, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0], [0, 1, 1, 0, 1, 1], [0, 1, 0, 0, 0, 0]]
    squares = [m.moment(np.array(ranges, dtype=float)).mean() for m in (made, other)]
    assert squares[0] < squares[1]


@pytest.mark.parametrize("most", [0, 1024])
def test_estimated_cells_are_the_transpose_of_decoders(monkeypatch, most):
    monkeypatch.setattr(wound, "MOST_SOLVED", most)
    made = channel()
    totals = np.random.default_rng(3).integers(0, 9, (made.outputs, 2, 3)).astype(float)
    expected = np.tensordot(made.moments.coefficients(np.eye(made.size)), totals, axes=1)
    assert np.allclose(made.moments.frequencies(totals), expected, rtol=1e-9)


def test_the_decoder_of_large_grids_is_near_the_best():
    """12 x 12 cells, noise that falls off in both directions: ranges of columns."""
    away = np.minimum(np.arange(15), 15 - np.arange(15))
    flat = tuple(int(a + b) for a in away for b in away)
    other = tuple(int((a + 1) // 2 + b) for a in away for b in away)
    made = AdditiveChannel.of((12, 12), (15, 15), (flat, other), UNIT)
    at = np.arange(12)
    ranges = [(at >= a) & (at <= b) for a in range(12) for b in range(a, 12)]
    boxes = np.array([np.outer((at > 2) & (at < 8), one).ravel() for one in ranges], dtype=float)
    solved = made.moments.second_moment(boxes).mean()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(wound, "MOST_SOLVED", 0)
        assert solved < made.moments.second_moment(boxes).mean() < 1.15 * solved


def test_what_is_known_of_everybody_costs_nothing(unsolved):
    assert np.allclose(channel().coefficients(np.ones((1, 6))), 1, atol=1e-12)


def test_noise_that_tells_nothing_is_refused(unsolved):
    with pytest.raises(QueryError, match="does not determine the counts of cells"):
        channel(patterns=((0, 1) * 6,)).coefficients(np.eye(6))


def test_few_cells_on_a_long_ring_are_not_solved_for():
    """Equations of places by cells would not fit into memory."""
    assert channel()._solved
    long = AdditiveChannel.of((32, 32), (128, 128), ((0, *[1] * (128 * 128 - 1)),), UNIT)
    assert not long._solved
    assert long.moments.coefficients(np.ones((1, 1024))).shape == (1, 128 * 128)


def cost_around(made, onward):
    """What all products of ranges cost on the ring, by the transform of each of them."""
    noise = np.fft.fft2(made._shares.reshape(-1, *made.lengths))
    strength = (np.abs(noise) ** 2).mean(axis=0)
    ranges = [
        [
            np.where((low <= np.arange(n)) & (np.arange(n) <= high), 1.0, 0.0)
            for low in range(n)
            for high in range(low, n)
        ]
        for n in made.sizes
    ]
    total = 0.0
    for one in ranges[0]:
        for other in ranges[1]:
            along = np.outer(onward[0] @ one, onward[1] @ other)
            total += float((np.abs(np.fft.fft2(along)) ** 2 / strength).sum())
    return total


@pytest.mark.parametrize("lengths", [(3, 4), (2, 4), (3, 3)])
def test_functions_go_on_between_cells_as_is_cheapest(unsolved, lengths):
    """The attribute that was gone through last cannot do better; the others hardly."""
    patterns = tuple(
        tuple(row)
        for row in np.random.default_rng(6).integers(0, 4, (2, np.prod(lengths))).tolist()
    )
    made = channel(lengths=lengths, patterns=patterns)
    best, rng = cost_around(made, made._onward), np.random.default_rng(7)
    plain = [np.eye(n, size) for n, size in zip(made.lengths, made.sizes, strict=True)]
    assert best < cost_around(made, plain)
    last = max(d for d in range(2) if lengths[d] > made.sizes[d])
    for d in range(2):
        size, more = made.sizes[d], lengths[d] - made.sizes[d]
        for _ in range(5 if more else 0):
            step = 1e-3 * rng.normal(size=(more, size))
            for sign in (-1, 1):
                moved = [way.copy() for way in made._onward]
                moved[d][size:] += sign * step
                assert cost_around(made, moved) > best * (1 if d == last else 1 - 1e-4)
