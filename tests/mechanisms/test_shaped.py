"""Shaped noise around a ring: drawn, proved and decoded as the table of its probabilities says."""

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

from metricldp.basics.errors import QueryError
from metricldp.mechanisms.additive_channel import AdditiveChannel
from metricldp_core.exact import WORD

UNIT = Fraction(1, 2)
PATTERNS = ((0, 0, 1, 3, 2, 1), (2, 1, 1, 0, 1, 1), (0, 1, 1, 1, 0, 1), (3, 2, 1, 0, 0, 2))
SIZES = [2, 4, 6]


def channel(size, patterns=PATTERNS):
    return Shaped.of(size, patterns, UNIT)


def weights(made, j):
    """By the definition: from its top down, each level over e^UNIT, rounded up."""
    heights = [made.tops[j]]
    for _ in range(max(made.depths[j])):
        heights.append(-(-heights[-1] * made.fall // WORD))
    return [heights[depth] for depth in made.depths[j]]


def table(made):
    """P(report | x), (size, reports)."""
    n, rows = len(made.depths[0]), []
    for x in range(made.size):
        row = []
        for j in range(len(made.depths)):
            noise = weights(made, j)
            row += [Fraction(noise[(y - x) % n], sum(noise) * len(made.depths)) for y in range(n)]
        rows.append(row)
    return rows


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
    """Position, pattern and word make the report."""
    made, n = channel(4, PATTERNS[:count]), 6
    people, drawn, words, expected = [], [], [], []
    for x, j in product(range(4), range(count)):
        sums = np.cumsum([0, *weights(made, j)], dtype=object).tolist()
        for d, (first, end) in enumerate(pairwise(sums)):
            for word in (first, end - 1):
                people.append(x)
                drawn.append(j + 4 * count)  # only its lowest bits count
                words.append(word)
                expected.append(n * j + (x + d) % n)
    randomness = Given(drawn, words)
    found = made.sample(np.array(people), randomness)
    assert found.tolist() == expected and found.dtype == made.field.dtype
    assert not randomness.left


@pytest.mark.parametrize("size", SIZES)
def test_probabilities_and_worst_ratios(size):
    made = channel(size)
    expected = table(made)
    assert (made.outputs, made.patterns, made.around) == (24, 4, 6)
    found = [[made.probability(x, np.int64(y)) for y in range(24)] for x in range(size)]
    assert found == expected
    assert all(sum(row) == 1 for row in found)
    logs = made.log_likelihood(np.arange(24, dtype=np.uint8))
    np.testing.assert_allclose(np.exp(logs), np.array(expected, dtype=float).T, rtol=1e-12)
    for x, other in product(range(size), repeat=2):
        ratios = [p / q for p, q in zip(expected[x], expected[other], strict=True)]
        assert made.distribution.ratio(x, other) == max(*ratios, *(1 / ratio for ratio in ratios))


def priors(size):
    """Nothing said, and two that are not even."""
    rising = np.arange(1.0, size + 1)
    return [None, *(tuple((few / few.sum()).tolist()) for few in (rising, rising[::-1] ** 2))]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("which", range(3))
def test_decoders_are_unbiased_and_best_for_people_as_they_are_spread(size, which):
    """Against normal equations with the whole table: F = f (P D^-1 P^T)^-1 P D^-1."""
    prior = priors(size)[which]
    made = Shaped.of(size, PATTERNS, UNIT, prior)
    shares = np.array(table(made), dtype=float)
    mean = np.average(shares, axis=0, weights=prior)
    best = np.linalg.solve(shares / mean @ shares.T, shares / mean)
    draw = np.random.default_rng(size)
    for shape in [(size,), (3, size), (2, 3, size)]:
        functions = draw.normal(size=shape)
        found = made.moments.coefficients(functions)
        np.testing.assert_allclose(found, functions @ best, atol=1e-10)
        np.testing.assert_allclose(made.mean(found), functions, atol=1e-10)
        reports = draw.normal(size=(*shape[:-1], 24))
        np.testing.assert_allclose(made.mean(reports), reports @ shares.T, atol=1e-12)
    rows = draw.normal(size=(5, size))
    squares = ((rows @ best) ** 2 @ shares.T).sum(axis=0)
    for people in priors(size):
        expected = np.average(squares, weights=people)
        asked = None if people is None else np.array(people)
        assert made.moments.mean_square(rows.T @ rows, asked) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("size", "pattern"), [(6, (0, 0, 0, 0, 0, 0)), (4, (0, 1, 0, 1, 0, 1)), (6, (0, 1, 1, 0, 1, 1))]
)
def test_noise_that_tells_nothing_is_refused_when_it_is_decoded(size, pattern):
    with pytest.raises(QueryError, match="these patterns does not determine the counts of values"):
        channel(size, (pattern,)).coefficients(np.eye(size))


@pytest.mark.parametrize("size", SIZES)
def test_whole_columns_are_spread_and_estimated_as_the_table_says(size):
    """For any number of columns at once: the transforms are the sums over the table."""
    made, rng = channel(size), np.random.default_rng(8)
    law = np.array(table(made), dtype=float)
    shares = rng.random((2, 3, size))
    np.testing.assert_allclose(made.spread(shares), shares @ law, rtol=1e-9)
    np.testing.assert_allclose(made.spread(shares[0, 0]), shares[0, 0] @ law, rtol=1e-9)
    totals = rng.random((made.outputs, 3, 2))
    decoders = made.moments.coefficients(np.eye(size))
    np.testing.assert_allclose(
        made.moments.frequencies(totals), np.tensordot(decoders, totals, axes=1), rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(made.moments.frequencies(totals[:, 0, 0]), decoders @ totals[:, 0, 0], atol=1e-9)
    assert made.distribution.size == size
