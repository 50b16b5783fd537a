"""The best noise for a given strategy: the convex half of the paper's equation 2.

A report is A h_x plus Laplace noise of scale s_k on row k. With u = 1/s and the weights
c_k = (B^T B)_kk of a reconstruction B, the scales solve

    minimise sum_k c_k / u_k^2   where   sum_k |A(h_x - h_x')|_k u_k <= E(x, x')  for every pair.

In short R u <= e, where R has a row per pair and no negative entry. Half the total error is the
minimum, because Laplace noise has variance 2 s^2.

The certificate. For any prices y >= 0 of the pairs and q = R^T y, Hoelder's inequality gives

    sum c^(1/3) q^(2/3) = sum (c/u^2)^(1/3) (q u)^(2/3) <= (sum c/u^2)^(1/3) (y e)^(2/3)

for every feasible u, so no u is below (sum c^(1/3) q^(2/3))^3 / (y e)^2. The solver raises this
bound and lowers u until they meet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from metricldp.errors import SurveyError

Floats = npt.NDArray[np.float64]
Pairs = npt.NDArray[np.int64]

GAP = 1e-8
"""How far, relatively, an objective may be above the certified bound."""
_INNER_GAP = 1e-9
_MOST_STEPS = 200
_PATIENCE = 0.01
_THIN = 0.1
"""Below this share of entries a matrix is kept sparse."""
_AT_ONCE = 2**22
"""Entries of R that are written out at a time."""
_FEW = 8
"""Up to so many pairs for each row of A, all are solved at once; beyond, violated ones are added."""


@dataclass(frozen=True, eq=False)
class Scales:
    """The best u = 1/s for a strategy and weights, and how sure that is."""

    u: Floats
    """1/s for each row: 0 where the row is not used, infinite where it needs no noise."""
    objective: float
    """sum_k c_k / u_k^2."""
    gap: float
    """Objective over the certified lower bound, minus 1."""
    iterations: int
    """Newton steps, all rounds together."""


def best_scales(
    weights: npt.ArrayLike,
    strategy: npt.ArrayLike,
    pairs: npt.ArrayLike,
    distances: npt.ArrayLike,
) -> Scales:
    """The u >= 0 with the smallest sum_k weights_k / u_k^2 that keeps every pair's distance.

    Rows of weight 0 are not used (u = 0). Rows in which no pair differs get no noise (u infinite).
    """
    a = checked_strategy(strategy)
    found, e = checked_pairs(pairs, distances, a.shape[1])
    c = np.asarray(weights, dtype=np.float64)
    if c.shape != (len(a),):
        raise SurveyError(f"weights of shape {c.shape} for a strategy of {len(a)} rows")
    if not (np.isfinite(c) & (c >= 0)).all():
        raise SurveyError("the weights of a strategy's rows must be finite and not negative")
    return Problem(a, found, e).solve(c)


def checked_strategy(strategy: npt.ArrayLike) -> Floats:
    """A as a matrix of finite numbers."""
    a = np.asarray(strategy, dtype=np.float64)
    if a.ndim != 2 or 0 in a.shape:
        raise SurveyError(f"a strategy is a matrix, not an array of shape {a.shape}")
    if not np.isfinite(a).all():
        row = int(np.argwhere(~np.isfinite(a))[0][0])
        raise SurveyError(f"row {row} of the strategy is not finite; use finite numbers")
    return a


def checked_pairs(
    pairs: npt.ArrayLike, distances: npt.ArrayLike, size: int
) -> tuple[Pairs, Floats]:
    """Pairs of different positions and their distances, finite and above zero."""
    found, e = np.asarray(pairs), np.asarray(distances, dtype=np.float64)
    if found.size == 0:
        found = np.empty((0, 2), dtype=np.int64)
    if found.ndim != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu":
        raise SurveyError(
            f"pairs are a table of two whole numbers each, not {found.dtype} of shape {found.shape}"
        )
    if e.shape != (len(found),):
        raise SurveyError(f"distances of shape {e.shape} for {len(found)} pairs; give one for each")
    for bad, why in (
        ((found < 0).any(axis=1) | (found >= size).any(axis=1), f"is outside 0 to {size - 1}"),
        (found[:, 0] == found[:, 1], "is one position twice"),
        (~(np.isfinite(e) & (e > 0)), "needs a finite distance above 0"),
    ):
        if bad.any():
            first = int(np.argmax(bad))
            x, other = found[first]
            raise SurveyError(f"the pair {x}, {other} {why} (its distance is {e[first]:g})")
    return found.astype(np.int64), e


@dataclass(frozen=True, eq=False)
class Problem:
    """A strategy against a metric: what stays the same while the weights change."""

    strategy: Floats
    pairs: Pairs
    distances: Floats
    unit: float = field(init=False)
    """The median distance: the solver works in multiples of it."""
    _columns: Any = field(init=False)
    """A transposed, so that a position is a row; sparse where that is shorter."""
    free: npt.NDArray[np.bool_] = field(init=False)
    """Rows of A in which no pair differs."""
    _kept: dict[str, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        thin = np.count_nonzero(self.strategy) <= _THIN * self.strategy.size
        columns = sparse.csr_array(self.strategy.T) if thin else self.strategy.T.copy()
        unit = float(np.median(self.distances)) if len(self.distances) else 1.0
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "_columns", columns)
        rows = (self.differences(part) for part in self._parts())
        seen = np.zeros(len(self.strategy), dtype=bool)
        for block in rows:
            seen |= np.asarray(block.sum(axis=0)).ravel() > 0
        object.__setattr__(self, "free", ~seen)

    def differences(self, chosen: slice | npt.NDArray[np.int64]) -> Any:  # noqa: ANN401
        """|A(h_x - h_x')| for some pairs, one row each."""
        x, other = self.pairs[chosen].T
        return abs(self._columns[x] - self._columns[other])

    def loads(self, u: Floats) -> Floats:
        """What each pair spends of its distance: R u."""
        finite = np.where(self.free, 0.0, u)
        parts = [self.differences(part) @ finite for part in self._parts()]
        return np.concatenate(parts) if parts else np.empty(0)

    def _parts(self) -> list[slice]:
        """The pairs in blocks that fit into memory."""
        entries = len(self.strategy) if isinstance(self._columns, np.ndarray) else 64
        step = max(1, _AT_ONCE // entries)
        return [slice(start, start + step) for start in range(0, len(self.pairs), step)]

    def kept(self, u: Floats) -> Floats:
        """The same u, shrunk by the least factor with which every pair is kept in floats."""
        loads = self.loads(u)
        over = float(np.max(loads / self.distances, initial=0.0))
        if over > 1:
            u = np.where(self.free, u, u / over)
        while (self.loads(u) > self.distances).any():
            u = np.where(self.free, u, u * (1 - 2**-51))
        return u

    def solve(self, weights: Floats) -> Scales:
        """The best u for these weights, feasible for every pair, with its certificate."""
        u = np.where(weights > 0, np.inf, 0.0)
        used = np.flatnonzero((weights > 0) & ~self.free)
        if not len(used):
            return Scales(np.where(self.free, np.inf, u), 0.0, 0.0, 0)
        c = weights[used] / weights[used].mean()
        e = self.distances / self.unit
        chosen, steps, state = self._first_choice(), 0, None
        while True:
            r = self._matrix(chosen, used)
            solved = interior_point(r, e[chosen], c, state)
            steps += solved.steps
            u[used] = solved.u
            over = self.loads(u) / e
            # Shrinking u by a factor raises the objective by its square.
            if over.max() ** 2 <= 1 + _INNER_GAP:
                break
            chosen, state = self._more(chosen, over, solved)
        bound = certified_bound(r, e[chosen], c, solved.prices)
        u = self.kept(np.where(self.free, np.inf, u * self.unit))
        objective = float(np.sum(weights[used] / u[used] ** 2))
        scale = weights[used].mean() / self.unit**2
        return Scales(u, objective, objective / (bound * scale) - 1, steps)

    def _matrix(self, chosen: npt.NDArray[np.int64], used: npt.NDArray[np.int64]) -> Any:  # noqa: ANN401
        """R for some pairs and the rows in use, dense or sparse, whichever is shorter."""
        r = self.differences(chosen)[:, used]
        filled = r.nnz if sparse.issparse(r) else np.count_nonzero(r)
        if filled <= _THIN * r.shape[0] * r.shape[1]:
            return sparse.csr_array(r)
        return r.toarray() if sparse.issparse(r) else r

    def _first_choice(self) -> npt.NDArray[np.int64]:
        """All pairs, or of many the shortest ones at each position."""
        count, size = len(self.pairs), self.strategy.shape[1]
        thin = sparse.issparse(self._columns)
        if count <= (_AT_ONCE // 4 if thin else _FEW * len(self.strategy)):
            return np.arange(count)
        order = np.argsort(self.distances, kind="stable")
        return np.unique(_first_of_each(self.pairs[order], order, size, 3))

    def _more(
        self, chosen: npt.NDArray[np.int64], over: Floats, solved: _Solved
    ) -> tuple[npt.NDArray[np.int64], _Solved]:
        """The pairs so far and the most violated, and where to go on from."""
        broken = np.flatnonzero(over**2 > 1 + _INNER_GAP)
        order = broken[np.argsort(-over[broken], kind="stable")]
        added = np.setdiff1d(_first_of_each(self.pairs[order], order, self.strategy.shape[1], 3), chosen)
        prices = np.concatenate([solved.prices, np.zeros(len(added))])
        return np.concatenate([chosen, added]), _Solved(solved.u / over.max(), prices, 0)


def _first_of_each(
    pairs: Pairs, names: npt.NDArray[np.int64], size: int, most: int
) -> npt.NDArray[np.int64]:
    """Names of the first few pairs at each position, in the order given."""
    ends = pairs.ravel()
    order = np.argsort(ends, kind="stable")
    starts = np.searchsorted(ends[order], np.arange(size))
    rank = np.arange(len(ends)) - starts[ends[order]]
    found: npt.NDArray[np.int64] = np.unique(names[order[rank < most] // 2])
    return found


@dataclass(frozen=True, eq=False)
class _Solved:
    """A point of the interior: u, the prices of the pairs, and the steps it took."""

    u: Floats
    prices: Floats
    steps: int


def certified_bound(r: Any, e: Floats, c: Floats, prices: Floats) -> float:  # noqa: ANN401
    """The bound of this module's docstring: no feasible u has a smaller objective."""
    return float(np.sum(np.cbrt(c * (r.T @ prices) ** 2)) ** 3 / (prices @ e) ** 2)


def interior_point(r: Any, e: Floats, c: Floats, start: _Solved | None = None) -> _Solved:  # noqa: ANN401
    """Minimise sum c/u^2 where R u <= e: primal-dual, predictor and corrector, all c > 0.

    u stays feasible, so each step has a true objective and a true bound; it ends when they meet.
    """
    u, prices = _start(r, e, c, start)
    slack = e - r @ u
    best = _Solved(u, prices, 0)
    smallest = np.inf
    for step in range(1, _MOST_STEPS + 1):
        objective = float(np.sum(c / u**2))
        gap = objective / certified_bound(r, e, c, prices) - 1
        if gap < smallest:
            smallest, best = gap, _Solved(u, prices, step)
        if gap <= _INNER_GAP:
            break
        # Newton's step for ln u: it never asks for a negative u. At the optimum, where the slope
        # 2 c/u^3 is q = R^T y, its curvature 4 c/u^4 + q/u is the second derivative 6 c/u^4.
        slope, q, spare = 2 * c / u**3, r.T @ prices, float(slack @ prices)
        solve = _newton(r, (2 * slope + q) / u, prices / slack)
        du = solve(slope)
        dslack = -(r @ du)
        dprices = -prices - prices / slack * dslack
        reach = min(_reach(slack, dslack), _reach(prices, dprices))
        # Slacks must not run to zero ahead of the slope, or the steps after them are blocked.
        off = float(np.abs(u * (q - slope)).sum())
        centre = max((1 - reach) ** 3, min(1.0, _PATIENCE * off / spare))
        bend = (1 - centre) ** 2 * dslack * dprices
        aim = (centre * spare / len(e) - bend) / slack
        du = solve(slope - r.T @ aim)
        dslack = -(r @ du)
        dprices = aim - prices - prices / slack * dslack
        reach = 0.995 * min(_reach(slack, dslack), _reach(prices, dprices), _reach(u, du))
        reach = _central(slack, dslack, prices, dprices, reach)
        u, slack = u + reach * du, slack + reach * dslack
        prices = _scaled_prices(r, e, c, prices + reach * dprices)
    return best


def _start(
    r: Any,  # noqa: ANN401
    e: Floats,
    c: Floats,
    start: _Solved | None,
) -> tuple[Floats, Floats]:
    """A point well inside: half of every distance spent at most, prices that fit its slope."""
    if start is None:
        shape = np.cbrt(c / (r.T @ (1 / e)))
        u = 0.5 * shape / np.max(r @ shape / e)
        prices = 1 / (e - r @ u)
    else:
        u = 0.9 * start.u
        slack = e - r @ u
        prices = start.prices + float(start.prices @ slack) / len(e) / slack
    return u, _scaled_prices(r, e, c, prices)


def _scaled_prices(r: Any, e: Floats, c: Floats, prices: Floats) -> Floats:  # noqa: ANN401
    """The multiple t y that fits the slope best: t = 2 S^3 / (y e)^3, S^3 / (y e)^2 the bound."""
    power = np.sum(np.cbrt(c * (r.T @ prices) ** 2))
    found: Floats = prices * (2 * (power / (prices @ e)) ** 3)
    return found


def _central(slack: Floats, dslack: Floats, prices: Floats, dprices: Floats, reach: float) -> float:
    """The step shortened until no product of slack and price is far below their mean."""
    for _ in range(30):
        products = (slack + reach * dslack) * (prices + reach * dprices)
        if products.min() >= 1e-5 * products.mean():
            break
        reach *= 0.8
    return reach


def _newton(r: Any, curvature: Floats, stiffness: Floats) -> Any:  # noqa: ANN401
    """Solves with diag(curvature) + R^T diag(stiffness) R, scaled to a unit diagonal."""
    scaled = r.multiply(stiffness[:, None]) if sparse.issparse(r) else r * stiffness[:, None]
    matrix = r.T @ scaled
    matrix = matrix.toarray() if sparse.issparse(matrix) else matrix
    matrix[np.diag_indices_from(matrix)] += curvature
    unit = 1 / np.sqrt(np.diagonal(matrix))
    matrix *= unit[:, None]
    matrix *= unit
    ridge = 0.0
    while True:
        try:
            factor = linalg.cho_factor(matrix, check_finite=False)
            break
        except linalg.LinAlgError:  # singular to the last digit: a little more on the diagonal
            matrix[np.diag_indices_from(matrix)] += 9 * ridge or 1e-15
            ridge = 10 * ridge or 1e-15
    return lambda right: unit * linalg.cho_solve(factor, unit * right, check_finite=False)


def _reach(values: Floats, step: Floats) -> float:
    """How much of a step keeps all values positive, at most all of it."""
    down = step < 0
    return float(min(1.0, np.min(-values[down] / step[down], initial=np.inf)))
