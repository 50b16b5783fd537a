"""The matrix mechanism of section 3, optimised: which rows to report, and with how much noise.

A report is A h_x plus Laplace noise of scale s_k on row k; W c is decoded as B times the summed
reports, with B A = W. Given A and s the best B is `reconstruction`, given A and B the best s is in
`scales`; here the two alternate, for every strategy A there is, and the best A is improved.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from metricldp.basics.errors import InvalidSpecError, QueryError
from metricldp.basics.optional import lazy
from metricldp.basics.progress import Progress, silent
from metricldp.mechanisms import strategies
from metricldp.mechanisms.effort import DEFAULT, Effort
from metricldp.mechanisms.interior import Floats
from metricldp.mechanisms.reconstruction import Reconstruction
from metricldp.mechanisms.scales import GAP, Pairs, ScaleProblem
from metricldp.mechanisms.search_cache import cached_search
from metricldp.mechanisms.workloads import Workload

linalg, sparse = lazy("scipy.linalg"), lazy("scipy.sparse")
threadpoolctl = lazy("threadpoolctl")

Smooth = Callable[[Floats], tuple[float, Floats]]
_STILL = 1e-7
"""Alternation ends when a round lowers the error by less than this share."""
_LOOSE = 1e-2
"""How well the first rounds are solved."""
_MAX_ROUNDS = 100
_FIRST_ROUNDS, _NEXT_ROUNDS, _FINALISTS, _LAST_ROUNDS = 3, 6, 2, 10
"""Rounds for all strategies, then for the best few, then for the best and its improvement."""
_TIE = 1 + 1e-6
"""Of strategies as near as this the first is taken, in the order of their names."""
_NOTHING = 1e-13
"""Weights below this share of the largest are rounding."""
_IDLE = 1e-4
"""Rows that spend less than this share of an even part are tried without."""
_GRID = 2**8
"""Entries of an improved strategy are multiples of 1 / _GRID."""
MAX_WORK_OF_EXTRA_ROWS = 1 << 28
"""Rows times the square of positions, where a strategy that is named has far more rows."""
_MAX_WORK = 2**26
"""Products that one step of the descent may take to be tried: some 350 positions on a graph."""
_CLEAR, _WORTH = 0.9, 0.999
"""An improved strategy is taken at once for a clear gain; otherwise the best with a name gets all
rounds first, and must be beaten by what entries are worth that are no small integers."""
_DESCENT = ((30, 1e-2), (100, 1e-3), (400, 1e-4))
"""Stages of the descent: the norm that stands for the largest load, the rounding of |x| at 0."""


@dataclass(frozen=True, eq=False)
class MatrixPlan:
    """A strategy with its scales: what a survey has to write down."""

    name: str
    strategy: Floats
    """A: the rows that are reported of a respondent."""
    u: Floats
    """1/s for each row, infinite for a row without noise."""
    error: float
    """Total variance over all rows of the workload, for one respondent."""
    gap: float
    """How far, relatively, the scales can be from the best for this reconstruction."""


@dataclass(frozen=True, eq=False)
class _Task:
    """A workload and the distances of pairs of positions."""

    workload: Workload
    gram: Floats
    pairs: Pairs
    distances: Floats

    def named(self, name: str) -> Floats:
        return strategies.named(name, self.workload, self.pairs, self.distances)


@cached_search
def best_plan(
    workload: Workload,
    pairs: Pairs,
    distances: Floats,
    strategy: str | Floats = "auto",
    effort: Effort = DEFAULT,
    progress: Progress = silent,
) -> MatrixPlan:
    """The smallest total error of a workload within the distance of every pair.

    `strategy` is a matrix, the name of one (see `strategies.NAMES`), or "auto": the best of them
    all after a few rounds, improved where that helps. Beyond some 350 positions "auto" stops there;
    the same strategy by its name, with all rounds, can be a little better. The search uses no
    random numbers. A time limit ends it after a step, with the best plan so far.
    """
    task = _Task(workload, workload.gram(), pairs, distances)
    began, rounds = time.monotonic(), max(1, int(effort.scale * _MAX_ROUNDS))
    if not task.gram.any():
        raise QueryError("the workload is empty: all its rows are zero")
    # Linear algebra without threads: the matrices are small, and the thread pools of numpy and
    # scipy wait for each other, so that a search on a busy machine takes fifty times as long.
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        if not isinstance(strategy, str) or strategy != "auto":
            a = task.named(strategy) if isinstance(strategy, str) else strategy
            _check_work(a)
            name = strategy if isinstance(strategy, str) else "given"
            return _pruned(task, _alternated(task, name, a, rounds), rounds)
        best = _best_named(task)
        progress(1 / 3)
        if effort.seconds is not None and time.monotonic() - began > effort.seconds:
            return best
        if len(best.u) * (workload.size**2 + 16 * len(pairs)) > _MAX_WORK:
            longer = _alternated(task, best.name, best.strategy, _LAST_ROUNDS, best.u)
            return _pruned(task, longer, _LAST_ROUNDS)
        improved = _improved(task, best)
        progress(2 / 3)
        late = effort.seconds is not None and time.monotonic() - began > effort.seconds
        if improved is not None and (late or improved.error <= _CLEAR * best.error):
            return improved
        a = task.named(best.name)
        alone = _pruned(task, _alternated(task, best.name, a, rounds), rounds)
    best = min(best, alone, key=lambda plan: plan.error)
    return best if improved is None or improved.error > _WORTH * best.error else improved


def _check_work(strategy: Floats) -> None:
    """Reject what would take minutes: many more rows than positions, over many positions."""
    rows, size = strategy.shape
    if 2 * rows > 3 * size and rows * size**2 > MAX_WORK_OF_EXTRA_ROWS:
        raise InvalidSpecError(
            f"the epsilons of {rows:,} rows over {size:,} positions take too long to be computed; "
            "give epsilons, or leave strategy out"
        )


def _best_named(task: _Task) -> MatrixPlan:
    """The best strategy that has a name: more and more rounds for fewer and fewer of them."""
    plans: list[MatrixPlan] = []
    tried: list[Floats] = []
    for name in strategies.candidates(task.workload):
        a = task.named(name)
        if not any(np.array_equal(a, other) for other in tried):
            tried.append(a)
            plans.append(_alternated(task, name, a, _FIRST_ROUNDS))
    limit = sorted(plan.error for plan in plans)[:_FINALISTS][-1]
    finalists = [
        _alternated(task, plan.name, plan.strategy, _NEXT_ROUNDS, plan.u)
        for plan in plans
        if plan.error <= limit
    ]
    lowest = min(plan.error for plan in finalists)
    return next(plan for plan in finalists if plan.error <= _TIE * lowest)


def _alternated(
    task: _Task, name: str, a: Floats, rounds: int, start: Floats | None = None
) -> MatrixPlan:
    """Best B for s, best s for B, and so on, until a round gains next to nothing.

    Each half minimises sum_k 2 (B^T B)_kk s_k^2 over its own unknown with the other fixed, so no
    round raises the error: after a round it is min_B f(B, s') <= f(B, s') <= f(B, s), where s' is
    the best s for B. Early rounds are solved loosely, and used only if they gain; a trial further
    along the way from s to s' is used if it is better still. The last round is solved to GAP and
    carries the certificate. Together the two are not convex, so the end is a local minimum. If A
    is square and invertible, B is fixed, and the first solution is the best.
    """
    problem = ScaleProblem(a, task.pairs, task.distances)
    u = _even(problem) if start is None else start
    least_squares = Reconstruction.of(a, u)
    least_squares.check_determined(task.workload, task.gram)
    fixed = least_squares.inverse is not None
    gram = least_squares.projected(task.gram)
    error, weights = least_squares.error(gram, u)
    ahead, prices, goal = 1.0, None, GAP if fixed else _LOOSE
    heights, total = np.abs(a).max(axis=1), float(np.trace(task.gram))
    for left in range(rounds - 1, -1, -1):
        goal = goal if left else GAP
        scales = problem.solve(_significant(weights, heights, total), goal, prices)
        new_u, prices = scales.u, scales.prices
        if fixed or not scales.objective:
            u, error = new_u, 2 * scales.objective
            break
        if ((u > 0) != (new_u > 0)).any():
            least_squares = Reconstruction.of(a, new_u)
            gram = least_squares.projected(task.gram)
        new, new_weights = least_squares.error(gram, new_u)
        if goal > GAP:
            further = _extrapolated(problem, u, new_u, ahead)
            trial, trial_weights = least_squares.error(gram, further)
            ahead = 2 * ahead if trial < new else max(1.0, ahead / 4)
            if trial < new:
                new, new_weights, new_u = trial, trial_weights, further
        gain = 1 - new / error
        if goal == GAP or gain > 0:
            u, error, weights = new_u, new, new_weights
        if goal == GAP and gain < _STILL:
            break
        goal = GAP if gain < 10 * _STILL else min(goal, max(GAP, gain / 10))
    used = u > 0
    return MatrixPlan(name, a[used], u[used], error, scales.gap)


def _even(problem: ScaleProblem) -> Floats:
    """The same u for all rows that tell different things, as large as the pairs allow.

    Of rows that tell the same, one with all the u is best and an even split is worst, but the
    alternation would stay there: the best B for equal rows is even.
    """
    a = problem.strategy
    known = bool((np.ptp(a, axis=1) == 0)[np.any(a != 0, axis=1)].any())
    rows = a - a.mean(axis=1, keepdims=True) if known else a.copy()
    rows /= np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-300)
    first = rows[np.arange(len(a)), np.argmax(np.abs(rows) > 1e-9, axis=1)]
    _, new = np.unique(np.round(rows * np.sign(first)[:, None], 9), axis=0, return_index=True)
    u = np.zeros(len(a))
    u[new] = 1.0
    return problem.filled(np.where(problem.free, np.inf, u))


def _significant(weights: Floats, heights: Floats, total: float) -> Floats:
    """Weights with what is only rounding set to zero: small for the row's entries and W's."""
    sizes = weights * heights**2
    return np.where(sizes > _NOTHING * max(_NOTHING * total, sizes.max()), weights, 0.0)


def _extrapolated(problem: ScaleProblem, before: Floats, after: Floats, ahead: float) -> Floats:
    """Further along the way that u went, in logarithms, then scaled to what the pairs allow."""
    moved = (after > 0) & (before > 0) & ~problem.free
    u = after.copy()
    u[moved] *= np.clip((after[moved] / before[moved]) ** ahead, 1e-3, 1e3)
    return problem.filled(u)


def _pruned(task: _Task, plan: MatrixPlan, rounds: int) -> MatrixPlan:
    """Without rows that spend almost nothing, if the error is no larger without them."""
    least_squares = Reconstruction.of(plan.strategy, plan.u)
    error, weights = least_squares.error(least_squares.projected(task.gram), plan.u)
    spent = np.where(np.isfinite(plan.u), weights / plan.u**2, np.inf)
    used = spent > _IDLE * error / 2 / len(plan.u)
    if used.all():
        return plan
    try:
        fewer = _alternated(task, plan.name, plan.strategy[used], rounds, plan.u[used])
    except QueryError:
        return plan
    return fewer if fewer.error <= plan.error * (1 + _STILL) else plan


def _improved(task: _Task, plan: MatrixPlan) -> MatrixPlan | None:
    """A plan whose entries were moved downhill, rounded to a grid, with the best scales for it.

    The sum of all counts is known, so constants in a row do not matter. On a line, where the
    prefixes sit in a corner that no smooth step leaves for the better, nothing comes of this.
    """
    noisy = np.isfinite(plan.u)
    if not noisy.any():
        return None
    x = plan.strategy[noisy] * plan.u[noisy, None]
    for power, rounding in _DESCENT:
        width = rounding * float(np.abs(x).max())
        x = downhill(smooth_error(task.gram, task.pairs, task.distances, power, width), x)
    x -= x.min(axis=1, keepdims=True)
    x = x[x.max(axis=1) > 0]
    grid = np.round(_GRID * x / x.max(axis=1, keepdims=True)) / _GRID
    a = np.vstack([strategies.without_repeats(grid), np.ones(task.workload.size)])
    try:
        trial = _alternated(task, f"{plan.name}, improved", a, _NEXT_ROUNDS)
    except QueryError:
        return None
    if trial.error > plan.error:
        return None
    longer = _alternated(task, trial.name, trial.strategy, _LAST_ROUNDS, trial.u)
    return _pruned(task, longer, _LAST_ROUNDS)


# Downhill from a strategy: its entries moved to lower the error, smoothly -------------------------


def smooth_error(
    gram: Floats, pairs: Pairs, distances: Floats, power: int, rounding: float
) -> Smooth:
    """ln of the error of the rows X and its gradient.

    With u in the rows, X = diag(u) A, the error is t(X)^2 tr(W (X^T X)^+ W^T) up to a constant,
    where t is the largest share of its distance that a pair spends. Maxima and absolute values have
    corners; here a high norm stands for the maximum, and |x| is rounded at 0.
    """
    size = len(gram)
    centred = gram - gram.mean(axis=0)
    centred -= centred.mean(axis=1, keepdims=True)
    count = np.arange(len(pairs))
    ends = (np.concatenate([count, count]), pairs.T.ravel())
    signs = np.repeat([1.0, -1.0], len(count))
    steps = sparse.csr_array((signs, ends), shape=(len(count), size))
    back = steps.T.tocsr()

    def error(x: Floats) -> tuple[float, Floats]:
        seen = x - x.mean(axis=1, keepdims=True)
        normal = seen.T @ seen
        normal += normal.trace() / size  # the direction of the known sum, which `centred` ignores
        try:
            factor = linalg.cho_factor(normal, check_finite=False)
        except linalg.LinAlgError:
            return np.inf, x
        covered = linalg.cho_solve(factor, centred, check_finite=False)
        total = float(np.trace(covered))
        slope = -2 / total * (seen @ linalg.cho_solve(factor, covered.T, check_finite=False))
        difference = steps @ x.T
        rounded = difference * difference
        rounded += rounding**2
        np.sqrt(rounded, out=rounded)
        loads = rounded.sum(axis=1) / distances
        shares = (loads / loads.max()) ** power
        pull = 2 * shares / loads / shares.sum() / distances
        value = np.log(total) + 2 * (np.log(loads.max()) + np.log(shares.sum()) / power)
        difference /= rounded
        difference *= pull[:, None]
        return float(value), slope + (back @ difference).T

    return error


def downhill(error: Smooth, x: Floats, most: int = 50, memory: int = 10) -> Floats:
    """Limited-memory quasi-Newton steps (L-BFGS) with backtracking; never ends above its start."""
    value, slope = error(x)
    if not np.isfinite(value):  # X does not tell all positions apart; there is no slope to follow
        return x
    past: list[tuple[Floats, Floats, float]] = []
    for _ in range(most):
        step = slope.copy()
        parts = []
        for dx, dslope, curvature in reversed(past):
            parts.append(np.vdot(dx, step) / curvature)
            step -= parts[-1] * dslope
        if past:
            dx, dslope, curvature = past[-1]
            step *= curvature / np.vdot(dslope, dslope)
        else:
            step *= 0.01 * np.linalg.norm(x) / max(float(np.linalg.norm(slope)), 1e-300)
        for (dx, dslope, curvature), part in zip(past, reversed(parts), strict=True):
            step += (part - np.vdot(dslope, step) / curvature) * dx
        reach, fall = 1.0, float(np.vdot(slope, step))
        while reach > 1e-6:
            next_value, next_slope = error(x - reach * step)
            if next_value <= value - 1e-4 * reach * fall:
                break
            reach /= 2
        else:
            return x
        moved, bent = -reach * step, next_slope - slope
        if np.vdot(moved, bent) > 1e-12 * np.vdot(moved, moved):
            past = [*past, (moved, bent, float(np.vdot(moved, bent)))][-memory:]
        gained = value - next_value
        x, value, slope = x + moved, next_value, next_slope
        if gained < 1e-4:
            break
    return x
