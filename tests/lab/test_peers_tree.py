"""Counts of a tree that are made to add up are the weighted least squares estimate."""

import numpy as np
import pytest

from metricldp.lab.peers.tree import add_up


def leaves_of_nodes(sizes, branching):
    """Which leaves each node of each level has, a row for each node."""
    rows, leaves = [], np.arange(sizes[-1])
    for level, size in enumerate(sizes):
        span = branching ** (len(sizes) - 1 - level)
        rows += [leaves // span == node for node in range(size)]
    return np.array(rows, dtype=float)


@pytest.mark.parametrize(
    ("sizes", "branching"),
    [((1, 2, 4, 8), 2), ((1, 2, 3, 5), 2), ((1, 4, 16), 4), ((1, 2, 5), 3), ((3, 7), 3), ((4,), 2)],
)
@pytest.mark.parametrize("even", [True, False])
def test_counts_that_add_up_are_least_squares(sizes, branching, even):
    rng = np.random.default_rng([sum(sizes), branching])
    levels = [rng.normal(50, 20, (2, size)) for size in sizes]
    variances = [np.full(s, 2.0) if even else rng.uniform(0.5, 9, s) for s in sizes]
    nodes, counts = leaves_of_nodes(sizes, branching), np.concatenate(levels, axis=-1)
    root = 1 / np.sqrt(np.concatenate(variances))
    leaves = np.linalg.lstsq(nodes * root[:, None], (counts * root).T, rcond=None)[0]
    estimates = add_up(levels, variances, branching)
    np.testing.assert_allclose(np.concatenate(estimates, axis=-1), (nodes @ leaves).T, rtol=1e-10)
    assert [level.shape for level in estimates] == [(2, size) for size in sizes]


def test_known_counts_stay():
    root, leaves = add_up(
        [np.array([100.0]), np.array([10.0, 20.0, 30.0, 60.0])], [np.zeros(1), np.ones(4)], 4
    )
    np.testing.assert_allclose(root, [100])
    np.testing.assert_allclose(leaves, [5, 15, 25, 55])
    root, leaves = add_up([np.array([9.0]), np.array([1.0, 7.0])], [np.ones(1), np.zeros(2)], 2)
    np.testing.assert_allclose(root, [8])
    np.testing.assert_allclose(leaves, [1, 7])
