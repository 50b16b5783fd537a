"""The matrix mechanism of section 3, optimised: which rows to report, and with how much noise.

A report is A h_x plus Laplace noise of scale s_k on row k; W c is decoded as B times the summed
reports, with B A = W. Given A and s the best B is `reconstruction`, given A and B the best s is in
`scales`; here the two alternate, for every strategy A there is, and the best A is improved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from metricldp import strategies
from metricldp.errors import QueryError
from metricldp.reconstruction import Decoding, Reconstruction, gram_of, reconstruction
from metricldp.scales import GAP, Floats, Pairs, Problem, Scales, checked_pairs, checked_strategy
from metricldp.workloads import Workload

_STILL = 1e-9
"""Alternation ends when a round lowers the error by less than this share."""
_MOST_ROUNDS = 300
_TRIAL_ROUNDS = 10
_NEAR = 1.25
"""Strategies within this factor of the best after the trial rounds are finished."""
_TIE = 1 + 1e-6
_NOTHING = 1e-13
"""Weights below this share of the largest are rounding."""
_IDLE = 1e-4
"""Rows that spend less than this share of an even part are tried without."""
_GRID = 2**8
"""Entries of an improved strategy are multiples of 1 / _GRID."""
_MOST_WORK = 2**24
"""Pairs times rows up to which a strategy is improved: beyond, a step takes too long."""
_DESCENT = ((30, 1e-2), (100, 1e-3), (400, 1e-4))
"""Stages of the descent: the norm that stands for the largest load, the rounding of |x| at 0."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A strategy with its scales: what a survey needs to write down."""

    name: str
    strategy: Floats
    """A: what is reported of a person."""
    u: Floats
    """1/s for each row, infinite for a row without noise."""
    error: float
    """Total variance over all rows of the workload, for one person."""
    gap: float
    """How far, relatively, the scales can be from the best for this reconstruction."""
    history: tuple[float, ...]
    """The error before the first round and after each."""

    @property
    def s(self) -> Floats:
        """The scale of the Laplace noise of each row."""
        return 1 / self.u

    def reconstruction(self, workload: Workload) -> Reconstruction:
        """Decoder, covariance and error for any workload that these rows determine."""
        return reconstruction(workload, self.strategy, self.s)


@dataclass(frozen=True, eq=False)
class _Task:
    """What is asked and what is allowed."""

    workload: Workload
    gram: Floats
    pairs: Pairs
    distances: Floats


def optimised(
    workload: Workload,
    pairs: npt.ArrayLike,
    distances: npt.ArrayLike,
    strategy: str | npt.ArrayLike = "auto",
) -> Plan:
    """The smallest total error for a workload that keeps the distance of every pair.

    `strategy` is a matrix, the name of one (see `strategies.NAMES`), or "auto": the best of them
    all, improved where that helps.
    """
    found, e = checked_pairs(pairs, distances, workload.size)
    task = _Task(workload, workload.gram(), found, e)
    if not isinstance(strategy, str):
        a = checked_strategy(strategy)
        gram_of(workload, a.shape[1])
        return _pruned(task, _alternated(task, "given", a, _MOST_ROUNDS))
    if strategy != "auto":
        a = strategies.named(strategy, workload, found, e)
        return _pruned(task, _alternated(task, strategy, a, _MOST_ROUNDS))
    best = _best_named(task)
    return _better(best, _improved(task, best))


def _better(plan: Plan, other: Plan | None) -> Plan:
    """The one with the smaller error; of two alike the one with fewer rows, then the first."""
    if other is None:
        return plan
    if other.error <= plan.error * _TIE and len(other.u) < len(plan.u):
        return other
    return other if other.error * _TIE < plan.error else plan


def _best_named(task: _Task) -> Plan:
    """The best strategy that has a name: a few rounds for all of them, the rest for the best."""
    trials = []
    for name in strategies.candidates(task.workload.size, task.workload.rows):
        a = strategies.named(name, task.workload, task.pairs, task.distances)
        try:
            trials.append(_alternated(task, name, a, _TRIAL_ROUNDS))
        except QueryError:  # the workload alone need not determine itself once rows are dropped
            continue
    limit = _NEAR * min(plan.error for plan in trials)
    best: Plan | None = None
    for plan in trials:
        if plan.error <= limit:
            more = _alternated(task, plan.name, plan.strategy, _MOST_ROUNDS, plan.u)
            finished = _pruned(task, replace(more, history=plan.history + more.history[1:]))
            best = finished if best is None else _better(best, finished)
    assert best is not None
    return best


def _alternated(
    task: _Task, name: str, a: Floats, rounds: int, start: Floats | None = None
) -> Plan:
    """Best B for s, best s for B, and so on, until a round gains next to nothing.

    Each half minimises sum_k 2 (B^T B)_kk s_k^2 over its own unknown with the other held, so no
    round raises the error: after a round it is min_B f(B, s') <= f(B, s') <= f(B, s), where s' is
    the best s for B. A trial further along the way from s to s' is taken only if it is better
    still, and a round in which rounding or a loose solution gained nothing is not taken at all.
    Together the two are not convex, so the end is a local minimum. If A is square and can be
    inverted B is fixed, and the first solution is the best.
    """
    problem = Problem(a, task.pairs, task.distances)
    u = _even(problem) if start is None else start
    decoding = Decoding.of(a, u)
    decoding.refuse_undetermined(task.workload, task.gram)
    current = decoding.solve(task.gram, u)
    history, ahead = [current.error], 1.0
    goal, prices = GAP if decoding.inverse is not None else 1e-2, None
    for left in range(rounds - 1, -1, -1):
        goal = goal if left else GAP
        scales = problem.solve(_significant(current.weights), goal, prices)
        prices = scales.prices
        if decoding.inverse is not None:
            u, history = scales.u, [*history, 2 * scales.objective]
            break
        decoding = decoding if ((u > 0) == (scales.u > 0)).all() else Decoding.of(a, scales.u)
        new, taken = decoding.solve(task.gram, scales.u), scales.u
        if goal > GAP:
            further = _extrapolated(problem, u, scales.u, ahead)
            trial = decoding.solve(task.gram, further)
            ahead = 2 * ahead if trial.error < new.error else max(1.0, ahead / 4)
            new, taken = (trial, further) if trial.error < new.error else (new, taken)
        gain = 1 - new.error / current.error
        if goal == GAP or gain > 0:
            u, current, history = taken, new, [*history, new.error]
        if goal == GAP and gain < _STILL:
            break
        goal = GAP if gain < 10 * GAP else min(goal, max(GAP, gain / 10))
    return _plan(name, a, u, scales, history)


def _plan(name: str, a: Floats, u: Floats, scales: Scales, history: list[float]) -> Plan:
    """Without the rows that are not used."""
    used = u > 0
    return Plan(name, a[used], u[used], history[-1], scales.gap, tuple(history))


def _even(problem: Problem) -> Floats:
    """The same u for all rows, as large as the pairs allow."""
    return problem.filled(np.where(problem.free, np.inf, 1.0))


def _significant(weights: Floats) -> Floats:
    """Weights with what is only rounding set to zero."""
    return np.where(weights > _NOTHING * weights.max(), weights, 0.0)


def _extrapolated(problem: Problem, before: Floats, after: Floats, ahead: float) -> Floats:
    """Further along the way that u went, in logarithms, then scaled to what the pairs allow."""
    moved = (after > 0) & (before > 0) & ~problem.free
    u = after.copy()
    u[moved] *= np.clip((after[moved] / before[moved]) ** ahead, 1e-3, 1e3)
    return problem.filled(u)


def _pruned(task: _Task, plan: Plan) -> Plan:
    """Without rows that spend almost nothing, if the error is no larger without them."""
    current = Decoding.of(plan.strategy, plan.u).solve(task.gram, plan.u)
    noisy = np.isfinite(plan.u)
    spent = np.where(noisy, current.weights / plan.u**2, np.inf)
    kept = spent > _IDLE * current.error / 2 / len(plan.u)
    if kept.all():
        return plan
    try:
        fewer = _alternated(task, plan.name, plan.strategy[kept], _MOST_ROUNDS, plan.u[kept])
    except QueryError:
        return plan
    joined = replace(fewer, history=plan.history + fewer.history[1:])
    return joined if fewer.error <= plan.error * (1 + _STILL) else plan


def _improved(task: _Task, plan: Plan) -> Plan | None:
    """A plan whose entries were moved downhill, rounded to a grid, with the best scales for it.

    With u in the rows, X = diag(u) A, the error is t(X)^2 tr(W (X^T X)^+ W^T) up to a constant,
    where t is the largest load of a pair. Its smooth twin goes downhill by quasi-Newton steps.
    The sum of all counts is known, so constants in a row do not matter. The caller compares: on a
    line, where the prefixes sit in a corner that no smooth step leaves for the better, this fails.
    """
    noisy = np.isfinite(plan.u)
    if not noisy.any() or noisy.sum() * len(task.pairs) > _MOST_WORK:
        return None
    x = plan.strategy[noisy] * plan.u[noisy, None]
    x /= np.abs(x).max()
    for power, rounding in _DESCENT:
        x = _downhill(_smooth_error(task, power, rounding * np.abs(x).max()), x)
    x -= x.min(axis=1, keepdims=True)
    height = x.max(axis=1, keepdims=True)
    grid = np.round(_GRID * x[height[:, 0] > 0] / height[height[:, 0] > 0]) / _GRID
    a = np.vstack([strategies.without_repeats(grid), np.ones(task.workload.size)])
    try:
        return _pruned(task, _alternated(task, f"{plan.name}, improved", a, _MOST_ROUNDS))
    except QueryError:
        return None


Smooth = Callable[[Floats], tuple[float, Floats]]


def _smooth_error(task: _Task, power: int, rounding: float) -> Smooth:
    """ln of the error of the rows X and its gradient, with a norm of the loads for the largest."""
    size = task.workload.size
    basis = linalg.null_space(np.ones((1, size)))
    gram = basis.T @ task.gram @ basis
    count = np.arange(len(task.pairs))
    ends = (np.concatenate([count, count]), task.pairs.T.ravel())
    signs = np.repeat([1.0, -1.0], len(count))
    steps = sparse.csr_array((signs, ends), shape=(len(count), size))

    def error(x: Floats) -> tuple[float, Floats]:
        seen = x @ basis
        try:
            factor = linalg.cho_factor(seen.T @ seen, check_finite=False)
        except linalg.LinAlgError:
            return np.inf, x
        covered = linalg.cho_solve(factor, gram, check_finite=False)
        total = float(np.trace(covered))
        slope = -2 / total * (seen @ linalg.cho_solve(factor, covered.T, check_finite=False))
        difference = (steps @ x.T).T
        rounded = np.sqrt(difference**2 + rounding**2)
        loads = rounded.sum(axis=0) / task.distances
        shares = (loads / loads.max()) ** power
        pull = 2 * shares / loads / shares.sum() / task.distances
        value = np.log(total) + 2 * (np.log(loads.max()) + np.log(shares.sum()) / power)
        return float(value), slope @ basis.T + (steps.T @ (difference / rounded * pull).T).T

    return error


def _downhill(error: Smooth, x: Floats, most: int = 40, memory: int = 10) -> Floats:
    """Limited-memory quasi-Newton steps (L-BFGS) with backtracking; never ends above its start."""
    value, slope = error(x)
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
        if gained < 1e-5:
            break
    return x
