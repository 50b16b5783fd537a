"""Forms that are at least 0 on every shape, and the best limit that a sum of them proves.

With B = (l prior' + prior l') / 2 - sum_Q z_Q Q and multipliers z of at least 0, v'Bv <= l v holds
for every shape that is scaled to prior v = 1 (see `limits.py`).

The forms are of three kinds. Products of two differences v(x) - e^-E(x, x') v(x'), none of which is
below 0. For two positions, (v(x) - e^(k u) v(x')) (v(x) - e^((k + 1) u) v(x')): the best shapes
have heights that are whole multiples of the unit u, and none of these lies between k and k + 1. For
three positions that are a unit apart each, all forms that are at least 0 on their seven shapes. The
best limit of this kind is the maximum of a concave function. On a line of 0.05 per step or more it
is the optimum for ranges, or nearly; for smaller distances, and for few questions such as a mean,
it may be far below.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from metricldp.basics.numbers import root_of
from metricldp.basics.optional import lazy
from metricldp.mechanisms.moments import Floats
from metricldp.metrics import Metric

scipy_optimize = lazy("scipy.optimize")

_MOST_ROWS, _MOST_PAIRS, _MOST_TRIPLES = 400, 6000, 3000
_MOST_UNITS = 4
"""Pairs at more units are left to the products."""
_STEPS, _FLAT, _WORTH, _ROUNDING = 1000, 1e-6, 1e-4, 1e-6
ULPS = 8 * 2.0**-53
"""What rounding can do to a sum, for each of its terms."""


class Dual:
    """The multipliers: l free, and of the forms at least 0.

    M(x, x) <= reach(x), the largest that v(x) can be, follows from the rest; with it there is a
    point to start from.
    """

    def __init__(self, size: int, metric: Metric, gram: Floats, prior: Floats) -> None:
        self.size, self.gram, self.prior = size, gram, prior
        self.scale = float(gram.trace())
        self.root = root_of(gram / self.scale).T
        falls = np.exp(-metric.matrix(size))
        self.reach = 1 / (falls @ prior)
        self.rows = _rows(size, metric, falls)
        self.upper = np.triu_indices(len(self.rows))
        self.at, self.parts, self.owner = _local_forms(size, metric)
        self.forms = int(self.owner[-1]) + 1 if len(self.owner) else 0

    def matrix(self, z: Floats) -> Floats:
        m, local = self.size, z[2 * self.size : 2 * self.size + self.forms]
        some = np.bincount(self.at, self.parts * local[self.owner], m * m).reshape(m, m)
        pairs = np.zeros((len(self.rows), len(self.rows)))
        pairs[self.upper] = z[2 * m + self.forms :]
        matrix = np.outer(z[:m], self.prior) - some - self.rows.T @ pairs @ self.rows
        return np.asarray((matrix + matrix.T) / 2 + np.diag(z[m : 2 * m]))

    def price(self, z: Floats) -> float:
        return float(z[: self.size].sum() + z[self.size : 2 * self.size] @ self.reach)

    def objective(self, z: Floats) -> tuple[float, Floats]:
        """Minus 2 tr (G^1/2 B G^1/2)^1/2 - price, and its slope; linear where B is singular."""
        values, vectors = np.linalg.eigh(self.root.T @ self.matrix(z) @ self.root)
        flat = _FLAT * max(float(values[-1]), 1e-300)
        roots = np.sqrt(np.maximum(values, flat))
        half = self.root @ vectors
        best = (half / roots) @ half.T
        total = 2 * (roots + np.minimum(values - flat, 0) / (2 * roots)).sum() - self.price(z)
        local = np.bincount(self.owner, self.parts * best.ravel()[self.at], self.forms)
        products = (self.rows @ best @ self.rows.T)[self.upper]
        slopes = (best @ self.prior - 1, np.diag(best) - self.reach, -local, -products)
        return -float(total), -np.concatenate(slopes)

    def proved(self, z: Floats) -> float:
        """The limit of a point, lifted to where B is positive semidefinite."""
        if (z[self.size :] < 0).any():
            return 0.0
        lifted = z.copy()
        lifted[self.size : 2 * self.size] += lift(self.matrix(z))
        price = self.price(lifted)
        if price <= 0:
            return 0.0
        return float(root_trace(self.gram, self.matrix(lifted)) ** 2 / price) * (1 - _ROUNDING)

    def best(self) -> Floats:
        """The best point that L-BFGS-B reaches."""
        start = np.zeros(2 * self.size + self.forms + len(self.upper[0]))
        start[: self.size], start[self.size : 2 * self.size] = 1, 0.1
        start *= self.proved(start) / self.scale / self.price(start)
        bounds = [(None, None)] * self.size + [(0, None)] * (len(start) - self.size)
        best, left, before = start, _STEPS, 0.0
        while left > 0:  # a search that stops early continues from its end
            settings = {"maxiter": left, "maxfun": 2 * left, "maxcor": 20, "ftol": 1e-12}
            end = scipy_optimize.minimize(
                self.objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=settings
            )
            best, start = max(best, end.x, key=self.proved), end.x
            left -= max(end.nit, 1)
            if end.fun > before * (1 + _WORTH):
                break
            before = end.fun
        return best


def lift(matrix: Floats) -> float:
    """What makes it positive semidefinite, rounding and all, when added to the diagonal."""
    values = np.linalg.eigvalsh(matrix)
    return max(0.0, ULPS * len(matrix) * float(np.abs(values).max()) - float(values[0]))


def root_trace(gram: Floats, matrix: Floats) -> float:
    """tr (G^1/2 B G^1/2)^1/2, and no more than that where values are mere rounding."""
    root = root_of(gram)
    values = np.linalg.eigvalsh(root @ matrix @ root.T)
    sizes = np.abs(root) @ np.abs(matrix) @ np.abs(root.T)
    rounding = ULPS * len(gram) * float(np.linalg.norm(sizes))
    return float(np.sqrt(np.maximum(values - rounding, 0)).sum()) * (1 - ULPS * len(gram))


def _rows(size: int, metric: Metric, falls: Floats) -> Floats:
    """v(x) - e^-E(x, x') v(x') for generating pairs, both ways; of many the nearest."""
    ends = np.array(list(metric.generating_pairs(size)), dtype=np.int64).reshape(-1, 2)
    near = np.lexsort((np.abs(ends[:, 0] - ends[:, 1]), -falls[ends[:, 0], ends[:, 1]]))
    ends = ends[near[: _MOST_ROWS // 2]]
    ends = np.concatenate([ends, ends[:, ::-1]])
    rows, each = np.zeros((len(ends), size)), np.arange(len(ends))
    rows[each, ends[:, 0]] = 1
    rows[each, ends[:, 1]] -= falls[ends[:, 0], ends[:, 1]]
    return rows


def _local_forms(
    size: int, metric: Metric
) -> tuple[npt.NDArray[np.int64], Floats, npt.NDArray[np.int64]]:
    """Entries of all forms on two and three positions: where, how much, of which form."""
    apart, unit = np.asarray(metric.whole(size), dtype=np.int64), float(metric.step)
    places, parts = [], []
    few = [p for p in combinations(range(size), 2) if apart[p] <= _MOST_UNITS]
    for x, other in sorted(few, key=lambda p: (apart[p], p[1] - p[0]))[:_MOST_PAIRS]:
        far = int(apart[x, other])
        for k in range(-far, far):
            low, high = np.exp(unit * k), np.exp(unit * (k + 1))
            form = np.array([1, -(low + high), low * high])
            places.append(np.array([x * size + x, x * size + other, other * size + other]))
            parts.append(form / np.abs(form).max())
    close = {x: [y for y in range(x + 1, size) if apart[x, y] == 1] for x in range(size)}
    triples = [(x, *p) for x in close for p in combinations(close[x], 2) if apart[p] == 1]
    forms = _triple_forms(unit) if triples else np.empty((0, 6))
    for triple in sorted(triples, key=lambda t: (t[2] - t[0], t))[:_MOST_TRIPLES]:
        for form in forms:
            places.append(np.array([x * size + y for x, y in _within(triple)]))
            parts.append(form)
    counts = [len(place) for place in places]
    owner = np.repeat(np.arange(len(places)), counts).astype(np.int64)
    if not places:
        return owner, np.empty(0), owner
    return np.concatenate(places), np.concatenate(parts), owner


def _within(triple: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(x, y) for k, x in enumerate(triple) for y in triple[k:]]


def _triple_forms(unit: float) -> Floats:
    """The extreme forms that are at least 0 on (1 or e^u, three times), but for their scale."""
    shapes = np.array(list(product((1.0, np.exp(unit)), repeat=3)))[:-1]  # the last is the first
    squares = np.array([[v[x] * v[y] for x, y in _within((0, 1, 2))] for v in shapes])
    squares /= np.linalg.norm(squares, axis=1, keepdims=True)
    forms = []
    for some in combinations(range(len(squares)), 5):
        _, sizes, axes = np.linalg.svd(squares[list(some)])
        values = squares @ axes[-1]
        least = 1e-9 * np.abs(values).max()
        if sizes[-1] > 1e-9 and (values.min() > -least or values.max() < least):
            forms.append(axes[-1] * np.sign(values[np.argmax(np.abs(values))]))
    return np.array(forms)
