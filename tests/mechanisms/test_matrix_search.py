"""The optimiser of the matrix mechanism: against cvxpy, closed forms and its own certificates."""

import itertools

import numpy as np
import pytest
from scipy import optimize

from metricldp.basics.errors import InvalidSpecError, QueryError
from metricldp.mechanisms import matrix_search as search
from metricldp.mechanisms import scales, strategies
from metricldp.mechanisms.interior import interior_point
from metricldp.mechanisms.matrix_search import smooth_error
from metricldp.mechanisms.reconstruction import Reconstruction
from metricldp.mechanisms.scales import ScaleProblem, sensitive_scales
from metricldp.mechanisms.search_cache import CACHE
from metricldp.mechanisms.workloads import Workload


def best_plan(workload, pairs, distances, strategy="auto"):
    pairs, distances = np.array(pairs, dtype=int), np.array(distances, dtype=float)
    return search.best_plan(workload, pairs, distances, strategy)


def best_scales(weights, a, pairs, distances):
    return ScaleProblem(a, pairs, distances).solve(weights)


def least_error(workload, a, s):
    """The total error of the best decoder, from first principles.

    Exact rows are equations: with c = p + N z for a basis N of their kernel, z is estimated.
    """
    gram, s = workload.gram(), np.array(s, dtype=float)
    exact, used = s == 0, np.isfinite(s)
    _, sizes, axes = np.linalg.svd(a[exact]) if exact.any() else (0, np.zeros(0), np.eye(len(gram)))
    basis = axes[int((sizes > 1e-9).sum()) :].T
    rows = a[used & ~exact] @ basis
    precision = rows.T @ (rows / (2 * s[used & ~exact, None] ** 2))
    covariance = basis @ np.linalg.pinv(precision) @ basis.T
    return float((gram * covariance).sum())


def all_pairs(size):
    return np.array(list(itertools.combinations(range(size), 2)), dtype=int).reshape(-1, 2)


def line(size, epsilon=1.0):
    return np.array([(x, x + 1) for x in range(size - 1)]), np.full(size - 1, epsilon)


def uniform(size, epsilon=1.0):
    pairs = all_pairs(size)
    return pairs, np.full(len(pairs), epsilon)


def sensitive(size, count, epsilon):
    """E_S of section 3.2, the first `count` values sensitive; all pairs, implied ones too."""
    pairs = all_pairs(size)
    return pairs, np.where(pairs.min(axis=1) < count, epsilon, 2 * epsilon)


def plane(size, rng):
    """Straight distances of random points: no pair is implied by others."""
    pairs, points = all_pairs(size), rng.random((size, 2))
    return pairs, np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1)


def differences(a, pairs):
    return np.abs(a[:, pairs[:, 0]] - a[:, pairs[:, 1]]).T


def proven_gap(weights, a, pairs, distances, u, prices):
    """Objective over a lower bound, minus 1: both from first principles, u checked to be feasible.

    The bound is weak duality: min over u > 0 of sum c/u^2 + y (R u - e), at u = (2c/q)^(1/3).
    """
    used = weights > 0
    r, c = differences(a, pairs)[:, used], weights[used]
    assert (r @ u[used] <= distances).all()
    q = r.T @ prices
    lowest = (2 * c / q) ** (1 / 3)
    bound = np.sum(c / lowest**2) + prices @ (r @ lowest - distances)
    return np.sum(c / u[used] ** 2) / bound - 1


def instance(seed):
    """Dense, integer, sparse or prefix strategies; plane, uneven or equal distances."""
    rng = np.random.default_rng([22, seed])
    size = int(rng.integers(3, 31))
    rows = int(rng.integers(1, 2 * size))
    a = (
        rng.normal(size=(rows, size)),
        rng.integers(-1, 2, (rows, size)).astype(float),
        (rng.random((rows, size)) < 0.2).astype(float),
        strategies.prefix(size),
    )[seed % 4]
    pairs, distances = plane(size, rng) if seed % 3 else uniform(size, 10.0 ** rng.uniform(-3, 3))
    weights = 10 ** rng.uniform(-2, 2, len(a))
    weights[rng.random(len(a)) < 0.1] = 0
    return weights, a, pairs, distances


def by_cvxpy(weights, a, pairs, distances):
    import cvxpy as cp

    r = differences(a, pairs)
    used = (weights > 0) & r.any(axis=0)
    if not used.any():
        return 0.0
    share = r[:, used] / distances[:, None]
    unit = np.cbrt(weights[used] / share.sum(axis=0))  # without it Clarabel calls itself inaccurate
    unit /= np.max(share @ unit)
    costs = weights[used] / unit**2
    v = cp.Variable(int(used.sum()))
    objective = cp.sum(cp.multiply(costs / costs.mean(), cp.square(cp.inv_pos(v))))
    problem = cp.Problem(cp.Minimize(objective), [(share * unit) @ v <= 1])
    problem.solve(solver=cp.CLARABEL)
    return problem.value * costs.mean()


@pytest.mark.parametrize("seed", range(24))
def test_the_objective_of_cvxpy(seed):
    weights, a, pairs, distances = instance(seed)
    found = best_scales(weights, a, pairs, distances)
    assert found.objective == pytest.approx(by_cvxpy(weights, a, pairs, distances), rel=1e-6)


@pytest.mark.parametrize("seed", range(60))
def test_the_certificate_holds_and_the_scales_keep_every_pair(seed):
    weights, a, pairs, distances = instance(seed)
    found = best_scales(weights, a, pairs, distances)
    free = ~differences(a, pairs).any(axis=0)
    assert np.isinf(found.u[free]).all()
    assert (found.u[(weights == 0) & ~free] == 0).all()
    weights = np.where(free, 0, weights)
    if weights.any():
        assert 0 <= found.gap <= scales.GAP
        gap = proven_gap(weights, a, pairs, distances, found.u, found.prices)
        assert abs(gap) <= 2 * scales.GAP


@pytest.mark.parametrize("seed", [0, 1, 4, 5])
def test_a_solver_that_takes_any_feasible_point_is_caught(seed):
    weights, a, pairs, distances = instance(seed)
    found = best_scales(weights, a, pairs, distances)
    even = np.full(len(a), np.min(distances / differences(a, pairs).sum(axis=1)))
    assert proven_gap(weights, a, pairs, distances, even, found.prices) > 1e-3
    near = np.where(np.arange(len(a)) % 2, 0.9999, 1) * found.u
    assert proven_gap(weights, a, pairs, distances, near, found.prices) > 1e-6
    with pytest.raises(AssertionError):
        proven_gap(weights, a, pairs, distances, found.u * (1 + 1e-9), found.prices)


def test_widely_spread_weights_and_distances_are_solved_too():
    rng = np.random.default_rng(23)
    for _ in range(40):
        size = int(rng.integers(2, 30))
        pairs = all_pairs(size)
        a = rng.normal(size=(int(rng.integers(1, 2 * size)), size))
        weights, distances = 10 ** rng.uniform(-8, 8, len(a)), 10 ** rng.uniform(-3, 3, len(pairs))
        found = best_scales(weights, a, pairs, distances)
        assert found.gap <= scales.GAP
        gap = proven_gap(weights, a, pairs, distances, found.u, found.prices)
        assert abs(gap) <= 2 * scales.GAP


@pytest.mark.parametrize("thin", [False, True])
def test_pairs_added_as_they_are_violated_give_the_same_scales(monkeypatch, thin):
    rng = np.random.default_rng(24)
    pairs, distances = plane(40, rng)
    a = strategies.hierarchy(40) if thin else rng.normal(size=(30, 40))
    weights = rng.uniform(1, 9, len(a))
    few = best_scales(weights, a, pairs, distances)
    monkeypatch.setattr(scales, "_FEW", 10**9)
    monkeypatch.setattr(scales, "_SMALL", 0 if thin else 2**18)
    monkeypatch.setattr(scales, "_AT_ONCE", 2**10)
    every = best_scales(weights, a, pairs, distances)
    assert few.objective == pytest.approx(every.objective, rel=2 * scales.GAP)
    assert np.count_nonzero(few.prices) < len(pairs) / 2 < np.count_nonzero(every.prices)


def sensitive_cases():
    for size in (2, 3, 4, 5, 10, 37):
        yield from ((size, count, 1.0) for count in range(1, size + 1))
    yield from ((20, count, epsilon) for count in (0, 1, 2, 10, 11, 20) for epsilon in (0.01, 7.0))
    yield from ((100, count, 1.0) for count in (1, 10, 40, 50, 51, 100))


def test_the_closed_form_of_a_sensitive_set_for_every_number_of_sensitive_values():
    for size, count, epsilon in sensitive_cases():
        pairs, distances = sensitive(size, count, epsilon)
        found = best_scales(np.ones(size), np.eye(size), pairs, distances)
        inside, outside = sensitive_scales(size, count, epsilon)
        formula = np.concatenate([np.full(count, inside), np.full(size - count, outside)])
        assert (differences(np.eye(size), pairs) @ formula <= distances * (1 + 1e-15)).all()
        assert found.objective == pytest.approx(np.sum(formula**-2.0), rel=1e-6)


def test_the_figure_1_ratios():
    for count, ratio in ((1, 0.445), (10, 0.731), (40, 0.987), (50, 1), (77, 1), (100, 1)):
        inside, outside = sensitive_scales(100, count, 1.0)
        error = 2 * (count / inside**2 + (100 - count) / outside**2)
        plain = 2 * 100 / 0.5**2
        assert error / plain == pytest.approx(ratio, abs=5e-4)


@pytest.mark.parametrize("size", [2, 3, 10, 60])
def test_prefixes_on_a_line(size):
    epsilon = 0.3
    workload = Workload.all_ranges(size)
    plan = best_plan(workload, *line(size, epsilon), "prefix")
    np.testing.assert_array_equal(plan.u, [*[epsilon] * (size - 1), np.inf])
    assert plan.error == pytest.approx(2 * size * (size - 1) / epsilon**2)
    # The same from the interior-point method, which `best_scales` does not need here.
    solved = interior_point(np.eye(size - 1), np.ones(size - 1), np.full(size - 1, 1.0), 1e-9)
    np.testing.assert_allclose(solved.u, 1, rtol=1e-8)


def test_the_paper_counts_the_ranges_of_section_3_3_too_low():
    size, epsilon = 12, 1.0
    workload = Workload.all_ranges(size)
    plan = best_plan(workload, *line(size, epsilon), "prefix")
    rows = workload.rows_block(0, workload.rows)
    variances = (rows @ np.linalg.inv(plan.strategy)) ** 2 @ (2 / plan.u**2)
    assert workload.rows == size * (size + 1) // 2
    assert variances.sum() == pytest.approx(2 * size * (size - 1))
    longer = np.array(["to" in label for label in workload.labels()])
    assert longer.sum() == size * (size - 1) // 2
    assert variances[longer].sum() == pytest.approx(2 * (size - 1) * (size - 2))
    assert variances.max() == pytest.approx(4)


def strategy_list(size, rng):
    pairs, distances = plane(size, rng)
    for name in strategies.NAMES:
        yield name, strategies.named(name, Workload.prefixes(size), pairs, distances)
    yield "hierarchy-3", strategies.hierarchy(size, 3)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 13])
def test_strategies_are_small_integers_and_determine_every_count(size):
    for _, a in strategy_list(size, np.random.default_rng(25)):
        assert set(np.unique(a)) <= {-1, 0, 1}
        assert np.linalg.matrix_rank(a) == size
        assert len(np.unique(a, axis=0)) == len(a) or size == 1


def test_the_tree_of_a_line_is_its_prefixes():
    rows = strategies.tree(6, *line(6))
    centred = {tuple(np.sort([row.sum(), 6 - row.sum()])) for row in rows}
    assert centred == {(0, 6), (1, 5), (2, 4), (3, 3)}
    steps = differences(rows, line(6)[0])
    np.testing.assert_array_equal(steps.sum(axis=1), 1)


def test_hierarchy_and_haar_by_hand():
    np.testing.assert_array_equal(
        strategies.hierarchy(3),
        [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]],
    )
    np.testing.assert_array_equal(strategies.haar(3), [[1, 1, 1], [1, 1, -1], [1, -1, 0]])


@pytest.mark.parametrize("seed", range(8))
def test_error_is_that_of_the_best_decoder(seed):
    """And the derivatives of the error by the variances are the weights (B^T B)_kk."""
    rng = np.random.default_rng([26, seed])
    size = int(rng.integers(2, 9))
    a = rng.integers(-2, 3, (size + 3, size)).astype(float)
    a[0] = 1
    workload = Workload.from_rows(rng.normal(size=(4, len(a))) @ a)
    s = rng.uniform(0.5, 3, len(a))
    s[0] = 0
    s[1] = np.inf if np.linalg.matrix_rank(np.delete(a, 1, axis=0)) == size else 1

    def error(s):
        with np.errstate(divide="ignore"):
            u = 1 / s
        solver = Reconstruction.of(a, u)
        solver.check_determined(workload, workload.gram())
        return solver.error(solver.projected(workload.gram()), u)

    total, weights = error(s)
    assert total == pytest.approx(least_error(workload, a, s), rel=1e-8)
    for row in range(2, len(a)):
        step = np.where(np.arange(len(a)) == row, 1e-6, 0)
        slope = (error(s + step)[0] - error(s - step)[0]) / 2e-6
        assert slope == pytest.approx(4 * s[row] * weights[row], rel=1e-4, abs=1e-6)


def test_a_workload_outside_the_row_space_is_rejected_by_its_row():
    rows = Workload.from_rows([[1, 1, 0], [0, 0, 1], [1, 0, 0]])
    a = np.array([[1.0, 1, 0], [0, 0, 1], [1, 1, 1]])
    with pytest.raises(QueryError, match=r"row 2 \(row 2\) is not a combination of its rows"):
        best_plan(rows, *line(3), a)
    with pytest.raises(QueryError, match=r"row 0 \(0\) is not a combination"):
        best_plan(Workload.all_ranges(3), *line(3), a)
    inside = Workload.from_rows([[2, 2, 5]])
    assert best_plan(inside, *line(3), a).error == pytest.approx(2 * 3**2)


@pytest.mark.parametrize("name", ["hierarchy", "hierarchy-4", "identity-total", "workload"])
def test_more_rounds_never_raise_the_error(monkeypatch, name):
    monkeypatch.setattr(CACHE, "enabled", False)
    rng, workload = np.random.default_rng(28), Workload.prefixes(20)
    for pairs, distances in (line(20), uniform(20), plane(20, rng)):
        errors = []
        for rounds in (1, 2, 4, 100):
            monkeypatch.setattr(search, "_MAX_ROUNDS", rounds)
            plan = best_plan(workload, pairs, distances, name)
            errors.append(plan.error)
            assert plan.gap <= scales.GAP
            u, a = plan.u, plan.strategy
            assert plan.error == pytest.approx(least_error(workload, a, 1 / u), rel=1e-6)
            finite = np.isfinite(u)
            assert (differences(a[finite], pairs) @ u[finite] <= distances).all()
        assert (np.diff(errors) <= 1e-6 * errors[0]).all()


def test_for_a_square_strategy_one_solution_is_the_best():
    pairs, distances = plane(12, np.random.default_rng(29))
    workload = Workload.all_ranges(12)
    plan = best_plan(workload, pairs, distances, "haar")
    b = workload.rows_block(0, workload.rows) @ np.linalg.inv(plan.strategy)
    weights = np.sum(b**2, axis=0)
    assert plan.error == pytest.approx(2 * by_cvxpy(weights, plan.strategy, pairs, distances))


def test_with_b_free_the_problem_is_not_convex():
    """One row reported twice: the best B gives 2/(u1^2 + u2^2), worst in the middle of u1 + u2 = 1.

    So the paper's "convex for fixed A" needs B fixed as well.
    """
    a, workload = np.array([[0.0, 1], [0, 1], [1, 1]]), Workload.from_rows([[0, 1]])

    def error(u):
        u = np.array([*u, np.inf])
        solver = Reconstruction.of(a, u)
        return solver.error(solver.projected(workload.gram()), u)[0]

    assert error((1, 0)) == pytest.approx(2)
    assert error((0.5, 0.5)) == pytest.approx(4)


def test_of_rows_that_tell_the_same_only_one_is_kept():
    twice = np.array([[0.0, 0, 1], [1, 1, 0], [0, 0, 2], [0, 1, 1], [1, 1, 1]])
    plan = best_plan(Workload.from_rows([[0, 0, 1]]), *line(3), twice)
    assert plan.error == pytest.approx(2)
    np.testing.assert_array_equal(plan.strategy, [[0, 0, 1], [1, 1, 1]])
    plan = best_plan(Workload.identity(3), *line(3), twice)
    assert plan.error == pytest.approx(best_plan(Workload.identity(3), *line(3), "prefix").error)
    assert len(plan.u) == 3


def test_a_row_that_counts_everybody_is_free_and_helps():
    workload, metric = Workload.identity(10), uniform(10)
    plain = best_plan(workload, *metric, "identity")
    known = best_plan(workload, *metric, "identity-total")
    assert plain.error == pytest.approx(80)
    assert known.error == pytest.approx(80 * 9 / 10)
    assert np.isinf(known.u[-1])


@pytest.mark.parametrize("kind", ["all_ranges", "prefixes", "identity"])
def test_auto_is_at_least_as_good_as_every_named_strategy(kind):
    size = 16
    workload = getattr(Workload, kind)(size)
    for metric in (line(size), uniform(size), sensitive(size, 3, 1.0)):
        best = best_plan(workload, *metric)
        for name in strategies.candidates(workload):
            named = best_plan(workload, *metric, name)
            assert best.error <= named.error * (1 + 1e-3), (name, best.name)


def test_improvement_of_a_pays_on_a_plane_and_stays_on_its_grid():
    pairs, distances = plane(16, np.random.default_rng(30))
    workload = Workload.prefixes(16)
    best = best_plan(workload, pairs, distances)
    named = min(
        best_plan(workload, pairs, distances, name).error
        for name in strategies.candidates(workload)
    )
    assert best.name.endswith(", improved")
    assert best.error < 0.9 * named
    np.testing.assert_array_equal(best.strategy * search._GRID % 1, 0)
    finite = np.isfinite(best.u)
    assert (differences(best.strategy[finite], pairs) @ best.u[finite] <= distances).all()
    error = least_error(workload, best.strategy, 1 / best.u)
    assert error == pytest.approx(best.error, rel=1e-6)


def test_an_improvement_that_fails_is_not_taken(monkeypatch):
    def worse(_, x):
        return np.roll(x, 1, axis=1) ** 2 + 1e-3 * np.arange(x.size).reshape(x.shape)

    pairs, distances = plane(12, np.random.default_rng(31))
    workload = Workload.all_ranges(12)
    monkeypatch.setattr(search, "downhill", worse)
    monkeypatch.setattr(CACHE, "enabled", False)
    plan = best_plan(workload, pairs, distances)
    assert "improved" not in plan.name
    assert plan.error <= best_plan(workload, pairs, distances, plan.name).error * (1 + 1e-6)


def test_the_gradient_of_the_descent():
    rng = np.random.default_rng(32)
    pairs, distances = plane(6, rng)
    error = smooth_error(Workload.all_ranges(6).gram(), pairs, distances, 30, 0.1)
    x = rng.normal(size=(7, 6))
    wrong = optimize.check_grad(
        lambda flat: error(flat.reshape(7, 6))[0],
        lambda flat: error(flat.reshape(7, 6))[1].ravel(),
        x.ravel(),
    )
    assert wrong < 1e-5


def test_small_and_degenerate_questions():
    nothing = best_plan(Workload.identity(1), np.empty((0, 2), dtype=int), [])
    assert nothing.error == 0
    for kind in (Workload.identity, Workload.all_ranges, Workload.prefixes):
        assert best_plan(kind(2), [[0, 1]], [2.0]).error > 0
    everybody = best_plan(Workload.total(5), *line(5), "identity-total")
    assert everybody.error == 0
    np.testing.assert_array_equal(everybody.strategy, np.ones((1, 5)))
    one = best_plan(Workload.from_rows([[0, 1, 1, 0]]), *line(4))
    assert one.error == pytest.approx(2)
    assert len(one.u) <= 2


BAD = [
    (
        lambda: best_plan(Workload.identity(3), [[0, 1]], [1.0]),
        "no chain of pairs joins position 2",
    ),
    (lambda: best_plan(Workload.identity(3), *line(3), "haa"), "no strategy is called 'haa'"),
    (lambda: best_plan(Workload.identity(3), *line(3), "hierarchy-1"), "not 1"),
    (lambda: best_plan(Workload.all_ranges(9), *line(9), "workload"), "too long"),
    (lambda: best_plan(Workload.from_rows([[0, 0]]), *line(2)), "workload is empty"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for *_, message in BAD])
def test_bad_input_raises_an_error_of_one_line(call, message):
    with pytest.raises((InvalidSpecError, QueryError), match=message) as error:
        call()
    assert "\n" not in str(error.value)
