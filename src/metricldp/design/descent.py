"""Downhill from a strategy: its entries moved to lower the error, smoothly.

With u in the rows, X = diag(u) A, the error is t(X)^2 tr(W (X^T X)^+ W^T) up to a constant, where t
is the largest share of its distance that a pair spends. Maxima and absolute values have corners;
here a high norm stands for the maximum, and |x| is rounded at 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from metricldp.basics.optional import optional
from metricldp.design.interior import Floats
from metricldp.design.scales import Pairs

linalg, sparse = optional("scipy.linalg"), optional("scipy.sparse")

Smooth = Callable[[Floats], tuple[float, Floats]]


def smooth_error(
    gram: Floats, pairs: Pairs, distances: Floats, power: int, rounding: float
) -> Smooth:
    """ln of the error of the rows X and its gradient, with a norm of the loads for the largest."""
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
