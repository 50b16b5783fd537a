"""Isotonic regression: scipy's numbers without scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from metricldp.answers.isotonic import isotonic

VALUES = st.floats(-1e6, 1e6)
WEIGHTS = st.floats(1e-3, 1e3)


@given(st.lists(st.tuples(VALUES, WEIGHTS), max_size=60))
def test_it_is_that_of_scipy(pairs):
    values, weights = (np.array([pair[k] for pair in pairs]) for k in (0, 1))
    found = isotonic(values, weights)
    assert (np.diff(found) >= 0).all()
    expected = isotonic_regression(values, weights=weights).x if pairs else values
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 1000])
def test_it_is_that_of_scipy_on_noisy_shares(n):
    rng = np.random.default_rng(n)
    values = np.linspace(0, 1, n) + rng.normal(0, 0.3, n)
    weights = rng.uniform(0.1, 9, n)
    expected = isotonic_regression(values, weights=weights).x
    np.testing.assert_allclose(isotonic(values, weights), expected, atol=1e-12)
