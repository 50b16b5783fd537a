"""Minimise sum_k c_k / u_k^2 where R u <= e: an interior-point method with a certificate.

R has no negative entry and no column of zeros, e and c are positive.

The certificate. For any prices y >= 0 of the rows of R and q = R^T y, Hölder's inequality gives

    sum c^(1/3) q^(2/3) = sum (c/u^2)^(1/3) (q u)^(2/3) <= (sum c/u^2)^(1/3) (y e)^(2/3)

for every feasible u, so no u is below (sum c^(1/3) q^(2/3))^3 / (y e)^2. The method lowers the
objective and raises this bound until they meet: where u^3 q = 2 c, and y is zero off tight rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.basics.optional import lazy

linalg, blas = lazy("scipy.linalg"), lazy("scipy.linalg.blas")
sparse = lazy("scipy.sparse")

Floats = npt.NDArray[np.float64]
_MOST_STEPS = 200
_PATIENCE = 0.1
"""How much of the slope's misfit counts against going on to smaller slacks."""


@dataclass(frozen=True, eq=False)
class Solved:
    """A feasible u, and prices whose bound nearly meets its objective."""

    u: Floats
    prices: Floats


def certified_bound(r: Any, e: Floats, c: Floats, prices: Floats) -> float:
    """The bound of this module's docstring: no feasible u has a smaller objective."""
    return float(np.sum(np.cbrt(c * (r.T @ prices) ** 2)) ** 3 / (prices @ e) ** 2)


def interior_point(
    r: Any, e: Floats, c: Floats, goal: float, start: Floats | None = None
) -> Solved:
    """Predictor and corrector steps until the gap is at most `goal`; `start` are prices.

    u stays feasible, so every step has a true objective and a true bound.
    """
    u, prices = _start(r, e, c, start)
    slack = e - r @ u
    best, smallest = Solved(u, prices), np.inf
    for _ in range(_MOST_STEPS):
        gap = float(np.sum(c / u**2)) / certified_bound(r, e, c, prices) - 1
        if gap < smallest:
            best, smallest = Solved(u, prices), gap
        if gap <= goal:
            break
        # Newton's step for ln u: it never asks for a negative u. At the optimum, where the slope
        # 2 c/u^3 is q, its curvature 4 c/u^4 + q/u is the second derivative 6 c/u^4.
        slope, q, spare = 2 * c / u**3, r.T @ prices, float(slack @ prices)
        solve = _newton(r, (2 * slope + q) / u, prices / slack)
        du = solve(slope)
        dslack = -(r @ du)
        dprices = -prices - prices / slack * dslack
        reach = min(_reach(slack, dslack), _reach(prices, dprices))
        # Slacks must not run to zero ahead of the slope, or the steps after them are blocked.
        off = float(np.abs(u * (q - slope)).sum())
        centre = max((1 - reach) ** 3, min(0.1, gap), min(1.0, _PATIENCE * off / spare))
        bend = (1 - centre) ** 2 * dslack * dprices
        aim = (centre * spare / len(e) - bend) / slack
        du = solve(slope - r.T @ aim)
        dslack = -(r @ du)
        dprices = aim - prices - prices / slack * dslack
        reach = 0.995 * min(_reach(slack, dslack), _reach(prices, dprices), _reach(u, du))
        reach = _central(slack, dslack, prices, dprices, reach)
        u, slack, prices = u + reach * du, slack + reach * dslack, prices + reach * dprices
    return best


def _start(r: Any, e: Floats, c: Floats, start: Floats | None) -> tuple[Floats, Floats]:
    """A point well inside, half of every e spent at most, with prices that fit its slope."""
    prices = 1 / e
    if start is not None:
        prices = start / float(start @ e) + 0.1 * prices / len(e)
    u = np.cbrt(2 * c / (r.T @ prices))
    load = 2 * float(np.max(r @ u / e))
    return u / load, prices * load**3


def _reach(values: Floats, step: Floats) -> float:
    """How much of a step keeps all values positive, at most all of it."""
    down = step < 0
    return float(min(1.0, np.min(-values[down] / step[down], initial=np.inf)))


def _central(slack: Floats, dslack: Floats, prices: Floats, dprices: Floats, reach: float) -> float:
    """The step shortened until no product of slack and price is far below their mean."""
    for _ in range(30):
        products = (slack + reach * dslack) * (prices + reach * dprices)
        if products.min() >= 1e-5 * products.mean():
            break
        reach *= 0.8
    return reach


def _newton(r: Any, curvature: Floats, stiffness: Floats) -> Callable[[Floats], Floats]:
    """Solves with diag(curvature) + R^T diag(stiffness) R, scaled to a unit diagonal."""
    if sparse.issparse(r):
        data = r.data * np.repeat(stiffness, np.diff(r.indptr))
        matrix = (r.T.tocsr() @ sparse.csr_array((data, r.indices, r.indptr), r.shape)).toarray()
    else:
        # The upper triangle is enough; seen as Fortran order, no array is copied.
        matrix = blas.dsyrk(1.0, (r * np.sqrt(stiffness)[:, None]).T)
    diagonal = np.einsum("ii->i", matrix)
    diagonal += curvature
    unit = 1 / np.sqrt(diagonal)
    matrix *= unit[:, None]
    matrix *= unit
    ridge = 1e-15
    while True:
        try:
            factor = linalg.cho_factor(matrix, check_finite=False)
            break
        except linalg.LinAlgError:  # singular to the last digit: a little more on the diagonal
            diagonal += ridge
            ridge *= 10
    return lambda right: unit * linalg.cho_solve(factor, unit * right, check_finite=False)
