"""Norm-Sub is the projection onto the simplex; a consistent tree is weighted least squares."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from metricldp import Categorical, Coins, Integer, QueryError, Survey
from metricldp.answers.postprocess import NOTE, consistent_tree, norm_sub

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


# On a histogram


def a_tally():
    survey = Survey(
        {
            "age": Integer(0, 19, epsilon=0.5),
            "region": Categorical(["north", "south"], epsilon=1),
        }
    )
    people = {"age": np.arange(300) % 4, "region": ["north", "south"] * 150}
    return survey.tally(survey.encode(people, coins=Coins.seeded(3)))


def test_a_histogram_made_consistent():
    bars = a_tally().histogram("age")
    assert min(a.value for a in bars) < 0, "nothing to do"
    moved = bars.norm_sub()
    values = [a.value for a in moved]
    assert min(values) >= 0
    assert sum(values) == pytest.approx(300)
    np.testing.assert_allclose(values, norm_sub([a.value for a in bars], 300))
    assert [a.stderr for a in moved] == [a.stderr for a in bars]
    assert all(a.notes == (NOTE,) and NOTE in str(a) for a in moved)
    assert all(a.notes == () for a in bars), "the estimates themselves are left alone"


def test_the_note_is_said_once():
    bars = a_tally().histogram("age").norm_sub()
    assert str(bars).count(NOTE) == 1
    assert str(bars).splitlines()[-1] == f"all: {NOTE}"
    twice = bars.norm_sub()
    assert all(a.notes == (NOTE,) for a in twice)
    np.testing.assert_allclose([a.value for a in twice], [a.value for a in bars], atol=1e-9)


def test_a_group_of_unknown_size_needs_its_size():
    bars = a_tally().histogram("age", {"region": "north"})
    with pytest.raises(QueryError, match=r"unknown size; say how many people.*norm_sub\(total="):
        bars.norm_sub()
    assert sum(a.value for a in bars.norm_sub(total=150)) == pytest.approx(150)


def test_norm_sub_is_biased():
    """Why it is off by default: on average a value that nobody has gets people, by enumeration."""
    survey = Survey({"x": Categorical(["a", "b", "c"], epsilon=1)})
    channel = survey.channels["x"]
    raw, moved = np.zeros(3), np.zeros(3)
    for first in range(3):
        for second in range(3):
            chance = float(channel.probability(0, first) * channel.probability(0, second))
            sums = np.bincount([first, second], minlength=3).astype(float)
            raw += chance * channel.cells(sums)
            moved += chance * norm_sub(channel.cells(sums), 2)
    np.testing.assert_allclose(raw, [2, 0, 0], atol=1e-12)
    assert moved[0] < 1.7
    assert (moved[1:] > 0.15).all()


# Trees


def design(sizes, branching):
    """Which leaves each node of each level holds."""
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
def test_a_consistent_tree_is_least_squares(sizes, branching, even):
    rng = np.random.default_rng([sum(sizes), branching])
    levels = [rng.normal(50, 20, size) for size in sizes]
    variances = [2.0] * len(sizes) if even else [rng.uniform(0.5, 9, size) for size in sizes]
    a, y = design(sizes, branching), np.concatenate(levels)
    weights = np.concatenate([np.broadcast_to(v, s) for v, s in zip(variances, sizes, strict=True)])
    root = 1 / np.sqrt(weights)
    leaves = np.linalg.lstsq(a * root[:, None], y * root, rcond=None)[0]
    found = consistent_tree(levels, variances, branching)
    np.testing.assert_allclose(np.concatenate(found), a @ leaves, rtol=1e-10)
    assert [len(level) for level in found] == list(sizes)


def test_a_known_root_and_a_level_that_nobody_saw():
    levels = [[100.0], [np.nan, np.nan], [10.0, 20.0, 30.0, 60.0]]
    root, middle, leaves = consistent_tree(levels, [0.0, np.inf, 1.0], 2)
    np.testing.assert_allclose(root, [100])
    np.testing.assert_allclose(leaves, [5, 15, 25, 55])
    np.testing.assert_allclose(middle, [20, 80])
    known = consistent_tree([[9.0], [1.0, 7.0]], [1.0, 0.0], 2)
    np.testing.assert_allclose(known[0], [8])


@pytest.mark.parametrize(
    ("levels", "variances", "branching", "words"),
    [
        ([[1.0], [1.0, 2.0]], [1.0], 2, "1 levels of variances do not fit 2 levels"),
        ([[1.0], [1.0, 2.0, 3.0]], [1.0, 1.0], 2, "level 1 has 3 nodes, so level 0 has 2, not 1"),
        ([[1.0], [1.0, 2.0]], [1.0, -1.0], 2, "level 1 has a variance below zero"),
        ([[1.0], [1.0, 2.0]], [1.0, np.inf], 2, "a leaf has an infinite variance"),
        ([[1.0]], [1.0], 1, "at least 2 branches at a node, not 1"),
        ([], [], 2, "a tree has at least one level, and there is none"),
        ([[1.0], [np.nan, 2.0]], [1.0, 1.0], 2, "node 0 of level 1 is nan; give a finite count"),
        ([[np.inf], [1.0, 2.0]], [1.0, 1.0], 2, "node 0 of level 0 is inf; give a finite count"),
        ([["many"], [1.0, 2.0]], [1.0, 1.0], 2, "counts of level 0 are numbers, not ['many']"),
        ([["3"], [1.0, 2.0]], [1.0, 1.0], 2, "counts of level 0 are numbers, not ['3']"),
        ([[1.0], [1.0, [2.0]]], [1.0, 1.0], 2, "counts of level 1 are numbers"),
        ([[1.0], [1.0, 2.0]], [1.0, "few"], 2, "variances of level 1 are numbers, not 'few'"),
        ([[1.0], [1.0, 2.0]], [1.0, [1.0] * 3], 2, "one for each of its 2 nodes, not [1.0, 1.0"),
        ([3.0, [1.0, 2.0]], [1.0, 1.0], 2, "level 0 is a list of counts, one for each node, not 3"),
        ([[1.0], []], [1.0, 1.0], 2, "level 1 is a list of counts, one for each node, not []"),
        (7, [1.0], 2, "counts are a list with an entry for each level, not 7"),
        ("tree", [1.0], 2, "counts are a list with an entry for each level, not 'tree'"),
        ([[1.0]], 1.0, 2, "variances are a list with an entry for each level, not 1.0"),
        ([[9.0], [1.0, 7.0]], [0.0, 0.0], 2, "node 0 of level 0 is known to be 9, but the known"),
        (
            [[9.0], [5.0, 5.0], [1.0, 2.0, 3.0, 4.0]],
            [0.0, np.inf, 0.0],
            2,
            "node 0 of level 0 is known to be 9, but the known counts below it add up to 10",
        ),
    ],
)
def test_a_tree_that_is_none(levels, variances, branching, words):
    with pytest.raises(QueryError) as refused:
        consistent_tree(levels, variances, branching)
    assert words in str(refused.value)
