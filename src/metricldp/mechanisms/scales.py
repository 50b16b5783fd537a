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

from metricldp.basics.optional import lazy
from metricldp.mechanisms.interior import Floats, certified_bound, interior_point

sparse = lazy("scipy.sparse")

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


def sensitive_scales(size: int, sensitive: int, epsilon: float) -> tuple[float, float]:
    """u on sensitive values and u elsewhere, for frequencies under E_S with A = I (section 3.2).

    By symmetry u is a on S and b elsewhere, and k/a^2 + (m - k)/b^2 is smallest on a + b = epsilon
    at a/b = r = (k/(m - k))^(1/3). Two sensitive values also ask for 2a <= epsilon, that is r <= 1;
    one alone does not, but there r <= 1 in any case. So r = min(1, (k/(m - k))^(1/3)) for every k.
    """
    others = size - sensitive
    ratio = 1.0 if sensitive >= others else math.cbrt(sensitive / others)
    return epsilon * ratio / (1 + ratio), epsilon / (1 + ratio)


class ScaleProblem:
    """R and e of a strategy and a metric, which stay the same while the weights change."""

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
        """|A(h_x - h_x')| for all pairs, if that is one block."""
        self._terms = 0
        """The most rows in which a pair differs."""
        self._tightest = np.zeros(rows, dtype=np.int64)
        """For each row of A the pair that bounds its u most, if no other row is used."""
        most = np.zeros(rows)
        for part in parts:
            block = self.differences(part)
            self._terms = max(self._terms, int(np.asarray((block != 0).sum(axis=1)).max()))
            inverse = 1 / distances[part, None]
            loads = block.multiply(inverse).tocsc() if sparse.issparse(block) else block * inverse
            first = np.asarray(loads.argmax(axis=0)).ravel()
            top = np.asarray(loads.max(axis=0).toarray() if thin else loads.max(axis=0)).ravel()
            self._tightest = np.where(top > most, part.start + first, self._tightest)
            most = np.maximum(top, most)
        self.free = most == 0
        """Rows of A in which no pair differs."""
        with np.errstate(divide="ignore"):
            self._bound = 1 / most
            """The largest u of each row alone."""

    def differences(self, chosen: slice | Pairs) -> Any:
        """|A(h_x - h_x')| for some pairs, one row each."""
        if self._whole is None:
            return self._differences(chosen)
        return self._whole if isinstance(chosen, slice) else self._whole[chosen]

    def _differences(self, chosen: slice | Pairs) -> Any:
        x, other = self.pairs[chosen].T
        return abs(self._columns[x] - self._columns[other])

    def loads(self, u: Floats) -> Floats:
        """R u: the part of each pair's distance that is used."""
        finite = np.where(self.free, 0.0, u)
        return np.concatenate([np.empty(0), *(self.differences(p) @ finite for p in self._parts())])

    def filled(self, u: Floats) -> Floats:
        """The multiple of u with which some pair spends all its distance, and none more."""
        most = float(np.max(self.loads(u) / self.distances, initial=0.0))
        return self.feasible(np.where(self.free, u, u / (most or 1.0)))

    def feasible(self, u: Floats) -> Floats:
        """The same u, scaled down until it is feasible for every pair in floats.

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
            return self._separable(weights, used)
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
        u = self.feasible(u * self._unit)
        objective = float(np.sum(weights[used] / u[used] ** 2))
        return Scales(u, objective, float(objective / bound - 1), prices)

    def _separable(self, weights: Floats, used: Pairs) -> Scales:
        """No pair differs in two rows: each u is as large as the pairs of its own row allow."""
        u = self.feasible(np.where((weights > 0) | self.free, self._bound, 0.0))
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
    """Whether a matrix is better sparse: large, and most of it zero."""
    return entries > _SMALL and filled <= _THIN
