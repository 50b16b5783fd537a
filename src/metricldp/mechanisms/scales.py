"""The best noise for a given strategy: the convex half of the paper's equation 1.

A report is A h_x plus Laplace noise of scale s_k on row k. With u = 1/s and the weights
c_k = (B^T B)_kk of a reconstruction B, the scales solve

    minimise sum_k c_k / u_k^2   where   sum_k |A(h_x - h_x')|_k u_k <= E(x, x')  for every pair.

In short R u <= e, with a row of R for each pair. The total error is twice the minimum, because
Laplace noise has variance 2 s^2. All here is in floats; whoever certifies rounds u once more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.optional import lazy
from metricldp.mechanisms.interior import Floats, certified_bound, interior_point

sparse, threadpoolctl = lazy("scipy.sparse"), lazy("threadpoolctl")

Pairs = npt.NDArray[np.int64]

GAP = 1e-8
"""How far, relatively, an objective may be above the certified bound."""
_FEW = 2
"""Up to so many pairs for each row of A, all are solved at once; of more, violated ones join."""
_EACH = 3
"""Of many pairs, how many are taken at each position first; twice as many in each later round."""
_AT_ONCE = 2**22
"""Entries of R that are written out at a time."""
_THIN, _SMALL = 0.1, 2**18
"""Matrices of more than _SMALL entries, of which at most a share of _THIN is used, are sparse."""


@dataclass(frozen=True, eq=False)
class Scales:
    """The best u = 1/s for a strategy and weights, and how sure that is."""

    u: Floats
    """1/s for each row: 0 where the row is not used, infinite where it needs no noise."""
    objective: float
    """sum_k c_k / u_k^2."""
    gap: float
    """Objective over the certified lower bound, minus 1."""
    prices: Floats
    """The certificate: prices of the pairs that give the bound (see `interior`)."""


def best_scales(
    weights: npt.ArrayLike, strategy: npt.ArrayLike, pairs: npt.ArrayLike, distances: npt.ArrayLike
) -> Scales:
    """The u with the smallest sum_k weights_k / u_k^2 that keeps every pair's distance.

    Rows of weight 0 are not used (u = 0). Rows in which no pair differs get no noise (u infinite).
    """
    a = checked_strategy(strategy)
    found, e = checked_pairs(pairs, distances, a.shape[1])
    c = np.asarray(weights, dtype=np.float64)
    if c.shape != (len(a),):
        raise InvalidSpecError(f"weights of shape {c.shape} for a strategy of {len(a)} rows")
    if not (np.isfinite(c) & (c >= 0)).all():
        raise InvalidSpecError("the weights of a strategy's rows must be finite and not negative")
    with one_thread():
        return Problem(a, found, e).solve(c)


def one_thread() -> Any:
    """Linear algebra without threads, as a context.

    The matrices are small, and numpy and scipy bring a pool of threads each: on a busy machine
    they wait for one another, and the whole takes fifty times as long.
    """
    return threadpoolctl.threadpool_limits(1, user_api="blas")


def sensitive_scales(size: int, sensitive: int, epsilon: float) -> tuple[float, float]:
    """u on sensitive values and u elsewhere, for frequencies under E_S with A = I (section 3.2).

    By symmetry u is a on S and b elsewhere, and k/a^2 + (m - k)/b^2 is smallest on a + b = epsilon
    at a/b = r = (k/(m - k))^(1/3). Two sensitive values also ask for 2a <= epsilon, that is r <= 1;
    one alone does not, but there r <= 1 in any case. So r = min(1, (k/(m - k))^(1/3)) for every k.
    """
    if size < 2 or not 0 <= sensitive <= size:
        raise InvalidSpecError(
            f"{sensitive} sensitive values of {size}; use 0 to all of at least 2"
        )
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InvalidSpecError(f"epsilon must be a finite number above 0, not {epsilon}")
    others = size - sensitive
    ratio = 1.0 if sensitive >= others else math.cbrt(sensitive / others)
    return epsilon * ratio / (1 + ratio), epsilon / (1 + ratio)


def checked_strategy(strategy: npt.ArrayLike) -> Floats:
    try:
        a = np.asarray(strategy, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidSpecError("a strategy is a matrix of numbers, all rows equally long") from None
    if a.ndim != 2 or 0 in a.shape:
        raise InvalidSpecError(f"a strategy is a matrix, not an array of shape {a.shape}")
    if not np.isfinite(a).all():
        row = int(np.argwhere(~np.isfinite(a))[0][0])
        raise InvalidSpecError(f"row {row} of the strategy is not finite; use finite numbers")
    return a


def checked_pairs(
    pairs: npt.ArrayLike, distances: npt.ArrayLike, size: int
) -> tuple[Pairs, Floats]:
    """Pairs of different positions and their distances, finite and above zero."""
    found, e = np.asarray(pairs), np.asarray(distances, dtype=np.float64)
    if found.size == 0:
        found = np.empty((0, 2), dtype=np.int64)
    if found.ndim != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu":
        raise InvalidSpecError(
            f"pairs are a table of two whole numbers each, not {found.dtype} of shape {found.shape}"
        )
    if e.shape != (len(found),):
        raise InvalidSpecError(
            f"distances of shape {e.shape} for {len(found)} pairs; give one for each"
        )
    for bad, why in (
        (((found < 0) | (found >= size)).any(axis=1), f"is not within 0 to {size - 1}"),
        (found[:, 0] == found[:, 1], "is one position twice"),
        (~(np.isfinite(e) & (e > 0)), "needs a finite distance above 0"),
    ):
        if bad.any():
            first = int(np.argmax(bad))
            x, other = found[first]
            raise InvalidSpecError(f"the pair {x}, {other} at distance {e[first]:g} {why}")
    return found.astype(np.int64), e


class Problem:
    """A strategy against a metric: what stays the same while the weights change."""

    def __init__(self, strategy: Floats, pairs: Pairs, distances: Floats) -> None:
        self.strategy, self.pairs, self.distances = strategy, pairs, distances
        rows, filled = len(strategy), np.count_nonzero(strategy) / strategy.size
        thin = _is_thin(filled, len(pairs) * rows)
        self._unit = float(np.median(distances)) if len(distances) else 1.0
        """The solver works in multiples of it."""
        self._columns: Any = sparse.csr_array(strategy.T) if thin else strategy.T.copy()
        """A transposed, so that a position is a row; sparse where that is shorter."""
        parts = self._parts()
        self._whole = self._differences(parts[0]) if len(parts) == 1 else None
        """|A(h_x - h_x')| for all pairs, where that is one block."""
        self._terms = 0
        """The most rows in which a pair differs."""
        self._tightest = np.zeros(rows, dtype=np.int64)
        """For each row of A the pair that bounds its u most, if no other row is used."""
        most = np.zeros(rows)
        for part in parts:
            block = self.differences(part)
            self._terms = max(self._terms, int(np.asarray((block != 0).sum(axis=1)).max()))
            inverse = 1 / distances[part, None]
            share = block.multiply(inverse).tocsc() if sparse.issparse(block) else block * inverse
            first = np.asarray(share.argmax(axis=0)).ravel()
            found = np.asarray(share.max(axis=0).toarray() if thin else share.max(axis=0)).ravel()
            self._tightest = np.where(found > most, part.start + first, self._tightest)
            most = np.maximum(found, most)
        self.free = most == 0
        """Rows of A in which no pair differs."""
        with np.errstate(divide="ignore"):
            self._bound = 1 / most
            """What the tightest pair of each row leaves to its u."""

    def differences(self, chosen: slice | Pairs) -> Any:
        """|A(h_x - h_x')| for some pairs, one row each."""
        if self._whole is None:
            return self._differences(chosen)
        return self._whole if isinstance(chosen, slice) else self._whole[chosen]

    def _differences(self, chosen: slice | Pairs) -> Any:
        x, other = self.pairs[chosen].T
        return abs(self._columns[x] - self._columns[other])

    def loads(self, u: Floats) -> Floats:
        """What each pair spends of its distance: R u."""
        finite = np.where(self.free, 0.0, u)
        parts = [self.differences(part) @ finite for part in self._parts()]
        return np.concatenate(parts) if parts else np.empty(0)

    def filled(self, u: Floats) -> Floats:
        """The multiple of u with which some pair spends all its distance, and none more."""
        most = float(np.max(self.loads(u) / self.distances, initial=0.0))
        return self.kept(np.where(self.free, u, u / (most or 1.0)))

    def kept(self, u: Floats) -> Floats:
        """The same u, shrunk a little more than needed for every pair to be kept, in floats.

        A sum of n positive terms is within n roundings of the truth, in whatever order it is
        added up; so much is left over.
        """
        most = 1 - 4 * self._terms * 2.0**-53 if self._terms > 1 else 1.0
        while (over := float(np.max(self.loads(u) / self.distances, initial=0.0))) > most:
            u = np.where(self.free, u, u * (most / over * (1 - 2**-52)))
        return u

    def solve(self, weights: Floats, goal: float = GAP, start: Floats | None = None) -> Scales:
        """The best u for these weights, feasible for every pair, certified within `goal`.

        `start` are prices of the pairs from a similar problem.
        """
        used = np.flatnonzero((weights > 0) & ~self.free)
        if self._terms <= 1:
            return self._alone(weights, used)
        u, prices = np.where(self.free, np.inf, 0.0), np.zeros(len(self.pairs))
        if not len(used):
            return Scales(u, 0.0, 0.0, prices)
        c, e = weights[used] / weights[used].mean(), self.distances / self._unit
        chosen, each = self._first_choice(used, start), _EACH
        begin = None if start is None else start[chosen]
        while True:
            r = self._matrix(chosen, used)
            solved = interior_point(r, e[chosen], c, goal / 10, begin)
            u[used] = solved.u
            over = self.loads(u) / e
            # Shrinking u by a factor raises the objective by its square.
            broken = np.setdiff1d(np.flatnonzero(over**2 > 1 + goal / 10), chosen)
            if not len(broken):
                break
            worst = broken[np.argsort(-over[broken], kind="stable")]
            added, each = self._first_of_each(worst, each), 2 * each
            chosen = np.concatenate([chosen, added])
            begin = np.concatenate([solved.prices, np.zeros(len(added))])
        scale = weights[used].mean() / self._unit**2
        prices[chosen] = solved.prices * scale / self._unit
        bound = certified_bound(r, e[chosen], c, solved.prices) * scale
        u = self.kept(u * self._unit)
        objective = float(np.sum(weights[used] / u[used] ** 2))
        return Scales(u, objective, float(objective / bound - 1), prices)

    def _alone(self, weights: Floats, used: Pairs) -> Scales:
        """No pair differs in two rows: each u is as large as the pairs of its own row allow."""
        u = self.kept(np.where((weights > 0) | self.free, self._bound, 0.0))
        prices, tightest = np.zeros(len(self.pairs)), self._tightest[used]
        step = self.distances[tightest] / self._bound[used]
        prices[tightest] = 2 * weights[used] / u[used] ** 3 / step
        return Scales(u, float(np.sum(weights[used] / u[used] ** 2)), 0.0, prices)

    def _first_choice(self, used: Pairs, start: Floats | None) -> Pairs:
        """All pairs; of many, those with a price or the shortest ones, and one for each row."""
        if len(self.pairs) <= _FEW * len(self.strategy):
            return np.arange(len(self.pairs))
        if start is None:
            likely = self._first_of_each(np.argsort(self.distances, kind="stable"), _EACH)
        else:
            likely = np.flatnonzero(start > 1e-6 * start.max())
        return np.union1d(likely, self._tightest[used])

    def _first_of_each(self, order: Pairs, each: int) -> Pairs:
        """The first few pairs at each position, in this order of the pairs."""
        ends = self.pairs[order].ravel()
        by_end = np.argsort(ends, kind="stable")
        starts = np.searchsorted(ends[by_end], np.arange(self.strategy.shape[1]))
        rank = np.arange(len(ends)) - starts[ends[by_end]]
        return np.unique(order[by_end[rank < each] // 2])

    def _matrix(self, chosen: Pairs, used: Pairs) -> Any:
        """R for some pairs and the rows in use, dense or sparse, whichever is faster."""
        r = self.differences(chosen)[:, used]
        dense, size = isinstance(r, np.ndarray), r.shape[0] * r.shape[1]
        if _is_thin((np.count_nonzero(r) if dense else r.nnz) / size, size):
            return sparse.csr_array(r)
        return r if dense else r.toarray()

    def _parts(self) -> list[slice]:
        entries = len(self.strategy) if isinstance(self._columns, np.ndarray) else 64
        step = max(1, _AT_ONCE // entries)
        return [slice(start, start + step) for start in range(0, len(self.pairs), step)]


def _is_thin(filled: float, entries: int) -> bool:
    """Whether a matrix is better kept sparse: large, and most of it zero."""
    return entries > _SMALL and filled <= _THIN
