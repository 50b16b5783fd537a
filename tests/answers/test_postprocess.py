"""Norm-Sub is the projection onto the simplex."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from metricldp import Categorical, QueryError, Survey
from metricldp.answers.postprocess import norm_sub

COUNTS = st.lists(st.floats(-1000, 1000), min_size=1, max_size=12)


@settings(deadline=None, max_examples=60)
@given(COUNTS, st.floats(0.5, 2000))
def test_norm_sub_is_optimal(counts, total):
    """The conditions that a projection alone meets: one number taken from all that stay."""
    found = norm_sub(counts, total)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(total)
    taken = np.asarray(counts) - found
    kept = found > 0
    assert np.ptp(taken[kept]) <= 1e-9 * max(1000, total)
    assert (np.asarray(counts)[~kept] <= taken[kept].min() + 1e-9 * max(1000, total)).all()


@pytest.mark.parametrize("seed", range(5))
def test_norm_sub_against_an_optimiser(seed):
    rng = np.random.default_rng(seed)
    counts, total = rng.normal(10, 30, size=6), 50.0
    best = optimize.minimize(
        lambda v: ((v - counts) ** 2).sum(),
        np.full(6, total / 6),
        jac=lambda v: 2 * (v - counts),
        bounds=[(0, None)] * 6,
        constraints={"type": "eq", "fun": lambda v: v.sum() - total},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    np.testing.assert_allclose(norm_sub(counts, total), best.x, atol=1e-5)


def test_norm_sub_leaves_counts_that_are_right():
    np.testing.assert_allclose(norm_sub([3.0, 0.0, 5.0], 8), [3, 0, 5])
    np.testing.assert_allclose(norm_sub([-4.0, 2.0, 10.0], 6), [0, 0, 6])


def test_norm_sub_of_huge_counts():
    """Beside them the total is less than rounding."""
    np.testing.assert_allclose(norm_sub([1e20], 1), [1])
    np.testing.assert_allclose(norm_sub([1e20, 1e20, -1e20], 3), [1.5, 1.5, 0])
    np.testing.assert_allclose(norm_sub([1e308, -1e308, -1e308], 2), [2, 0, 0])


@pytest.mark.parametrize(
    ("counts", "total", "words"),
    [
        ([], 3, "a list of finite counts, not []"),
        ([1.0, np.nan], 3, "a list of finite counts"),
        ([[1.0]], 3, "a list of finite counts"),
        ([1.0], 0, "above 0, not 0"),
        ([1.0], "all", "above 0, not 'all'"),
    ],
)
def test_norm_sub_refuses(counts, total, words):
    with pytest.raises(QueryError) as refused:
        norm_sub(counts, total)
    assert words in str(refused.value)


def test_norm_sub_is_biased():
    """On average a value that no respondent has gets a positive count, by enumeration."""
    survey = Survey.design({"x": Categorical(["a", "b", "c"], epsilon=1)})
    channel = survey.channels["x"]
    raw, moved = np.zeros(3), np.zeros(3)
    for first in range(3):
        for second in range(3):
            chance = float(channel.probability(0, first) * channel.probability(0, second))
            sums = np.bincount([first, second], minlength=3).astype(float)
            raw += chance * channel.moments.frequencies(sums)
            moved += chance * norm_sub(channel.moments.frequencies(sums), 2)
    np.testing.assert_allclose(raw, [2, 0, 0], atol=1e-12)
    assert moved[0] < 1.7
    assert (moved[1:] > 0.15).all()
