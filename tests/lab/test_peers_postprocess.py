"""The published post-processings: by hand, against slow and plain versions, and biased all."""

import numpy as np
import pytest
from scipy import optimize

from metricldp import QueryError
from metricldp.lab.peers import postprocess
from metricldp.lab.peers.postprocess import (
    base_cut,
    base_pos,
    mle_apx,
    norm,
    norm_cut,
    norm_mul,
    norm_sub,
    power,
    power_ns,
)

COUNTS = np.array([60.0, -10, 35, 5, 25, -3])
"""They add up to 112 people, of 100."""


def test_each_of_them_by_hand():
    np.testing.assert_allclose(base_pos(COUNTS), [60, 0, 35, 5, 25, 0])
    np.testing.assert_allclose(norm(COUNTS, 100), COUNTS - 2)
    np.testing.assert_allclose(norm_mul(COUNTS, 100), np.array([60, 0, 35, 5, 25, 0]) * 0.8)
    np.testing.assert_allclose(norm_sub(COUNTS, 100), [160 / 3, 0, 85 / 3, 0, 55 / 3, 0])
    # 60 + 35 has not passed 100, with 25 it has; 5 is cut.
    np.testing.assert_allclose(norm_cut(COUNTS, 100), np.array([60, 0, 35, 0, 25, 0]) / 1.2)
    # Of six values one is expected above Phi^-1(5/6) = 0.967 deviations.
    np.testing.assert_allclose(base_cut(COUNTS, 26, alarms=1), [60, 0, 35, 0, 0, 0])
    np.testing.assert_allclose(base_cut(COUNTS, 1), [60, 0, 35, 5, 25, 0])


def test_norm_sub_is_constrained_least_squares():
    found = optimize.minimize(
        lambda x: ((x - COUNTS) ** 2).sum(),
        np.full(6, 100 / 6),
        bounds=[(0, None)] * 6,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 100},
    )
    np.testing.assert_allclose(norm_sub(COUNTS, 100), found.x, atol=1e-3)


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.27), (0.7, 0.1), (0.3, 0.02)])
def test_mle_apx_is_the_published_recursion(p, q):
    """In the authors' terms: the share of people who support each value, and p and q."""
    shares = COUNTS / 100
    support = shares * (p - q) + q
    while True:
        left = shares > 0
        others = left.sum() - 1
        x = (support[left].sum() - p - others * q) / (p * (1 - p) + others * q * (1 - q))
        new = (support - q - q * (1 - q) * x) / (p - q + (p * (1 - p) - q * (1 - q)) * x)
        shares = np.where(left, new, 0)
        if shares.min() >= 0:
            break
    scale = (p - q) ** 2
    found = mle_apx(COUNTS, 100, q * (1 - q) / scale, p * (1 - p) / scale)
    np.testing.assert_allclose(found, 100 * shares, atol=1e-9)
    assert found.sum() == pytest.approx(100)


def test_mle_apx_with_one_variance_for_all_is_norm_sub():
    np.testing.assert_allclose(mle_apx(COUNTS, 100, 3, 3), norm_sub(COUNTS, 100), atol=1e-9)


def test_power_is_what_to_expect_of_a_power_law():
    """Against sums over all counts, with the exponent that a root finder gives."""
    n, deviation = 400, 7.0
    counts = np.array([250.0, 90, 40, 12, -9, 3, 20, -2])
    x = np.arange(1.0, n + 1)
    a = optimize.brentq(lambda a: (x ** (1 - a)).sum() / (x**-a).sum() - counts.mean(), 0, 30)
    weights = np.exp(-((x - counts[:, None]) ** 2) / (2 * deviation**2)) * x**-a
    expected = weights @ x / weights.sum(axis=1)
    np.testing.assert_allclose(power(counts, n, deviation), expected, rtol=1e-6)
    np.testing.assert_allclose(power_ns(counts, n, deviation), norm_sub(expected, n), rtol=1e-6)


def test_power_of_estimates_that_no_count_is_near():
    found = power([-5000.0, 5000.0, 300.0], 1000, 10.0)
    assert 1 <= found[0] < 1.2
    assert found[1] == pytest.approx(1000, abs=1)


def test_they_add_up_and_are_never_negative():
    rng = np.random.default_rng(3)
    for _ in range(20):
        counts = rng.normal(20, 60, 50)
        for found in (norm_sub(counts, 1000), norm_mul(counts, 1000), norm_cut(counts, 1000)):
            assert found.sum() == pytest.approx(1000)
            assert found.min() >= 0
        assert mle_apx(counts, 1000, 2, 3).min() >= 0


def test_all_but_norm_are_biased():
    """One value has everybody: the mean of 2,000 noisy runs is off for all the others."""
    noisy = np.random.default_rng(1).normal(0, 100, (2000, 10)) + 1000 * np.eye(10)[0]
    for name in postprocess.__all__:
        more = {"base_cut": (100,), "mle_apx": (1000, 1, 1), "base_pos": ()}.get(name, (1000,))
        more = (1000, 100) if name.startswith("power") else more
        means = np.mean([getattr(postprocess, name)(one, *more)[1] for one in noisy])
        assert (abs(means) > 5) == (name != "norm"), name


@pytest.mark.parametrize("counts", [[], [[1, 2]], [1, np.nan], [np.inf, 1]])
def test_what_is_no_list_of_counts_is_refused(counts):
    with pytest.raises(QueryError, match="takes a list of finite counts, not"):
        base_pos(counts)


def test_nothing_above_zero_is_refused():
    for call in (lambda: norm_mul([-1, 0], 5), lambda: mle_apx([-1, -2], 5, 1, 1)):
        with pytest.raises(QueryError, match="no count is above 0"):
            call()
