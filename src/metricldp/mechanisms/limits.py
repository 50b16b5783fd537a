"""What no channel that keeps a metric can do better: a limit that is proved, not searched for.

With shapes scaled to prior v = 1, every channel has M = sum_y p_y v_y v_y' with M prior = 1 (see
`extremal_search.py`). A point of the dual is a matrix B, positive semidefinite, with prices l such
that v'Bv <= l v for every shape. Then <B, M> <= sum l, and

    tr(G M^-1) >= (tr (G^1/2 B G^1/2)^1/2)^2 / sum l.

So whatever point a search ends at, its limit holds once the point is checked, and a `Proof` checks
it anew. There are two ways to see that v'Bv <= l v. Where the extreme shapes are few enough to be
listed, each of them is looked at, and the limit is what the best channel has: for all pairs and
windows of few values, lines up to 18, grids of 5 x 5 and 3 x 3 x 3. Elsewhere l v - v'Bv is written
as a sum of forms that are at least 0 on all shapes, times multipliers of at least 0: see
`limit_forms.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from metricldp.mechanisms.channel import Floats
from metricldp.mechanisms.extremal_search import (
    BestMixture,
    Heights,
    best_mixture,
    extreme_shapes,
    scaled,
)
from metricldp.mechanisms.limit_forms import ULPS, Dual, lift, roots
from metricldp.metrics import Metric

MOST_LIMITED = 128
"""Positions up to which a limit is found in a minute or so."""
_CLOSE = 1e-4
"""A search among listed shapes ends when none makes the channel better by more."""
_TOGETHER = 1 << 14


@dataclass(frozen=True, eq=False)
class Asked:
    """What a limit is about: a metric on positions, a workload, and how people are spread."""

    metric: Metric
    gram: Floats
    prior: Floats

    @property
    def size(self) -> int:
        return len(self.gram)

    @property
    def apart(self) -> Heights:
        return np.asarray(self.metric.whole(self.size), dtype=np.int64)


class Proof(ABC):
    """A point of the dual, and how to see that it is one."""

    asked: Asked

    @abstractmethod
    def worth(self) -> float:
        """The total that no channel is below, from the point alone; 0 where it proves nothing."""


@dataclass(frozen=True)
class Limit:
    """No channel that keeps the metric has a smaller sum of mean squares of a workload's rows."""

    total: float
    exact: bool
    """Whether it is what the best channel has, but for a thousandth; else it may be too small."""
    proof: Proof | None = field(default=None, compare=False)
    """None for a limit of 0, which needs none."""

    def holds(self) -> bool:
        """Whether the proof, worked out anew, proves as much."""
        return self.total <= (0 if self.proof is None else self.proof.worth())


def limit(size: int, metric: Metric, gram: Floats, prior: Floats | None = None) -> Limit:
    """A proved limit for a workload's Gram matrix and people spread by a prior, or evenly."""
    spread = np.full(size, 1 / size) if prior is None else prior / prior.sum()
    asked = Asked(metric, gram, spread)
    listed = extreme_shapes(asked.apart)
    if listed is None:
        proof: Proof = ByForms(asked, Dual(size, metric, gram, spread).best())
        return Limit(proof.worth(), False, proof)
    unit = float(metric.step)
    try:
        found = best_mixture(
            asked.apart, unit, gram, prior=spread, listed=listed, target=1 + _CLOSE
        )
        proof = ByShapes.of(asked, found)
        total = proof.worth()
    except np.linalg.LinAlgError:  # distances beyond what floats tell apart
        return Limit(0.0, False)
    return Limit(total, total > (1 - 1e-3) * found.total, proof)


@dataclass(frozen=True, eq=False)
class ByShapes(Proof):
    """B and prices; every extreme shape is looked at."""

    asked: Asked
    matrix: Floats
    prices: Floats

    @classmethod
    def of(cls, asked: Asked, found: BestMixture) -> ByShapes:
        """From a channel: B = M^-1 G M^-1, and v'Bv = l v on its shapes if it is the best."""
        shapes = scaled(found.heights, float(asked.metric.step), asked.prior)
        often = found.tops / shapes.max(axis=1)
        root = np.linalg.inv(np.linalg.cholesky((shapes.T * often) @ shapes))
        inverse = root.T @ root
        matrix = inverse @ asked.gram @ inverse
        return cls(asked, (matrix + matrix.T) / 2, found.prices)

    def worth(self) -> float:
        asked, size = self.asked, self.asked.size
        listed = extreme_shapes(asked.apart)
        if listed is None or not np.array_equal(self.matrix, self.matrix.T):
            return 0.0
        matrix = self.matrix + lift(self.matrix) * np.eye(size)
        largest = 0.0
        for first in range(0, len(listed), _TOGETHER):
            shapes = scaled(
                listed[first : first + _TOGETHER], float(asked.metric.step), asked.prior
            )
            square = np.einsum("ij,ij->i", shapes @ matrix, shapes)
            astray = np.einsum("ij,ij->i", shapes @ np.abs(matrix), shapes)
            price = shapes @ self.prices - ULPS * size * (shapes @ np.abs(self.prices))
            if price.min() <= 0:
                return 0.0
            largest = max(largest, float(((square + ULPS * size * astray) / price).max()))
        return roots(asked.gram, matrix) ** 2 / (largest * float(self.prices.sum()))


@dataclass(frozen=True, eq=False)
class ByForms(Proof):
    """Prices, and the multipliers of forms that are at least 0 on all shapes."""

    asked: Asked
    point: Floats

    def worth(self) -> float:
        asked = self.asked
        return Dual(asked.size, asked.metric, asked.gram, asked.prior).proved(self.point)
