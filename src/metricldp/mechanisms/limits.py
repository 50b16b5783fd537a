"""Lower bounds of the error of every mechanism under a metric, with proofs.

With shapes scaled to prior v = 1, every mechanism has M = sum_y p_y v_y v_y' with M prior = 1 (see
`extremal_search.py`). A point of the dual is a positive semidefinite matrix B with prices l such
that v'Bv <= l v for every shape. Then <B, M> <= sum l, and

    tr(G M^-1) >= (tr (G^1/2 B G^1/2)^1/2)^2 / sum l.

So the limit of any point holds if the point is checked; `holds` checks it again. There are two ways
to prove v'Bv <= l v. If the extreme shapes are few enough to be listed, each of them is checked,
and the best mechanism attains the limit: uniform metrics and windows of few values, lines up to 18,
grids of 5 x 5 and 3 x 3 x 3. Otherwise l v - v'Bv is a sum of forms that are at least 0 on all
shapes, times multipliers of at least 0: see `limit_forms.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from metricldp.basics.progress import Progress, silent
from metricldp.mechanisms.effort import DEFAULT, Effort
from metricldp.mechanisms.extremal_search import (
    BestMixture,
    Heights,
    best_mixture,
    extreme_shapes,
    scaled,
)
from metricldp.mechanisms.limit_forms import ULPS, Dual, lift, root_trace
from metricldp.mechanisms.moments import Floats
from metricldp.mechanisms.search_cache import cached_search
from metricldp.metrics import Metric

MAX_LIMITED = 128
"""Positions up to which a limit takes about a minute."""
_GAP = 1e-4
"""A search among listed shapes ends when none improves the mechanism by more."""
_BLOCK = 1 << 14


@dataclass(frozen=True, eq=False)
class LimitProblem:
    """A metric on positions, the Gram matrix of a workload, and a prior."""

    metric: Metric
    gram: Floats
    prior: Floats

    @property
    def size(self) -> int:
        return len(self.gram)

    @property
    def unit(self) -> float:
        return float(self.metric.step)

    @property
    def distances(self) -> Heights:
        return np.asarray(self.metric.whole(self.size), dtype=np.int64)


@dataclass(frozen=True)
class Limit:
    """No mechanism under the metric has a smaller sum of mean squares of a workload's rows."""

    total: float
    exact: bool
    """Whether the best mechanism attains it up to a thousandth; otherwise it may be too small."""
    proof: ByShapes | ByForms | None = field(default=None, compare=False)
    """None for a limit of 0, which needs none."""

    def holds(self) -> bool:
        """Whether the proof, computed again, proves as much."""
        return self.total <= (0 if self.proof is None else self.proof.total())


@cached_search
def limit(
    size: int,
    metric: Metric,
    gram: Floats,
    prior: Floats | None = None,
    effort: Effort = DEFAULT,
    progress: Progress = silent,
) -> Limit:
    """A proved limit for a workload's Gram matrix and a prior, by default uniform."""
    spread = np.full(size, 1 / size) if prior is None else prior / prior.sum()
    problem = LimitProblem(metric, gram, spread)
    listed = extreme_shapes(problem.distances)
    if listed is None:
        forms = ByForms(problem, Dual(size, metric, gram, spread).best())
        return Limit(forms.total(), False, forms)
    try:
        best = best_mixture(
            *(problem.distances, problem.unit, gram),
            prior=spread,
            listed=listed,
            target=1 + _GAP,
            effort=effort,
            progress=progress,
        )
        proof = ByShapes.of(problem, best)
        total = proof.total()
    except np.linalg.LinAlgError:  # distances that floats do not distinguish
        return Limit(0.0, False)
    return Limit(total, total > (1 - 1e-3) * best.total, proof)


@dataclass(frozen=True, eq=False)
class ByShapes:
    """B and prices; the proof checks every extreme shape."""

    problem: LimitProblem
    matrix: Floats
    prices: Floats

    @classmethod
    def of(cls, problem: LimitProblem, best: BestMixture) -> ByShapes:
        """From a mechanism: B = M^-1 G M^-1, and v'Bv = l v on its shapes if it is the best."""
        shapes = scaled(best.heights, problem.unit, problem.prior)
        weights = best.tops / shapes.max(axis=1)
        root = np.linalg.inv(np.linalg.cholesky((shapes.T * weights) @ shapes))
        inverse = root.T @ root
        matrix = inverse @ problem.gram @ inverse
        return cls(problem, (matrix + matrix.T) / 2, best.prices)

    def total(self) -> float:
        """The total that no mechanism is below; 0 if the point proves nothing."""
        problem, size = self.problem, self.problem.size
        listed = extreme_shapes(problem.distances)
        if listed is None or not np.array_equal(self.matrix, self.matrix.T):
            return 0.0
        matrix = self.matrix + lift(self.matrix) * np.eye(size)
        largest = 0.0
        for start in range(0, len(listed), _BLOCK):
            shapes = scaled(listed[start : start + _BLOCK], problem.unit, problem.prior)
            square = np.einsum("ij,ij->i", shapes @ matrix, shapes)
            rounding = ULPS * size * np.einsum("ij,ij->i", shapes @ np.abs(matrix), shapes)
            price = shapes @ self.prices - ULPS * size * (shapes @ np.abs(self.prices))
            if price.min() <= 0:
                return 0.0
            largest = max(largest, float(((square + rounding) / price).max()))
        return root_trace(problem.gram, matrix) ** 2 / (largest * float(self.prices.sum()))


@dataclass(frozen=True, eq=False)
class ByForms:
    """Prices, and the multipliers of forms that are at least 0 on all shapes."""

    problem: LimitProblem
    point: Floats

    def total(self) -> float:
        """The total that no mechanism is below; 0 if the point proves nothing."""
        problem = self.problem
        return Dual(problem.size, problem.metric, problem.gram, problem.prior).proved(self.point)
