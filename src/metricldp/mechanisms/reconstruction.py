"""Least squares from summed reports to counts, for a strategy A and scales s of its noise.

B A = W leaves a choice of B if A has more rows than it needs. The best is
B = W (A^T D A)^+ A^T D with D = diag(1 / (2 s^2)), and the total error of W is then the sum of
W^T W times the covariance (A^T D A)^+, entry by entry (Proposition 3): W is never written out.
Rows with s = 0 are equations that the counts satisfy; rows with infinite s are not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import QueryError
from metricldp.basics.optional import lazy
from metricldp.mechanisms.interior import Floats
from metricldp.mechanisms.workloads import Workload

linalg = lazy("scipy.linalg")

_EXACT = 1e-8
"""B A may differ from W by rounding: by this fraction of W's largest entries."""
_SINGULAR = 1e-11
"""Eigenvalues of A^T A below this fraction of the largest are zero."""
_BLOCK = 1024


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The part of least squares that depends only on which rows are exact, noisy or not used.

    Counts are `pinned` times the exact reports plus `basis` times an estimate from the noisy rows.
    If A is square and invertible, B = W A^-1 for all scales.
    """

    strategy: Floats
    exact: npt.NDArray[np.bool_]
    inverse: Floats | None
    pinned: Floats
    basis: Floats

    @classmethod
    def of(cls, a: Floats, u: Floats) -> Reconstruction:
        """For a strategy and u = 1/s."""
        exact, used, size = np.isinf(u), u > 0, a.shape[1]
        inverse = _inverse(a) if len(a) == size and used.all() else None
        if inverse is not None:
            return cls(a, exact, inverse, np.empty((size, 0)), np.empty((size, 0)))
        pinned = linalg.pinv(a[exact]) if exact.any() else np.empty((size, 0))
        noisy = a[used & ~exact]
        rest = noisy - (noisy @ pinned) @ a[exact]
        length = np.linalg.norm(rest, axis=1)
        informative = length > _EXACT * np.linalg.norm(noisy, axis=1)
        rest = rest[informative] / length[informative, None]
        values, vectors = linalg.eigh(rest.T @ rest)
        return cls(a, exact, None, pinned, vectors[:, values > _SINGULAR * max(values[-1], 1.0)])

    def check_determined(self, workload: Workload, gram: Floats) -> None:
        """Raise an error if a row of W is not a combination of the rows that are used."""
        if self.inverse is not None:
            return
        spanned = self.pinned @ self.strategy[self.exact] + self.basis @ self.basis.T
        missing = np.eye(len(spanned)) - spanned
        if np.sum((gram @ missing) * missing) > _EXACT**2 * np.trace(gram):
            raise QueryError(
                "the strategy does not determine the workload"
                f"{_first_missing(workload, missing)}; add rows to the strategy or choose another"
            )

    def projected(self, gram: Floats) -> Floats:
        """W^T W in the basis, the argument of `error`."""
        return gram if self.inverse is not None else self.basis.T @ gram @ self.basis

    @cached_property
    def _features(self) -> Floats:
        """The noisy rows in the basis."""
        return self.strategy[~self.exact] @ self.basis

    def error(self, projected: Floats, u: Floats) -> tuple[float, Floats]:
        """The total error of W for one respondent, and (B^T B)_kk for each row that is not exact.

        Directions of the basis are scaled to variance about 1 in the normal equations.
        """
        variance = _variance(u)
        if self.inverse is not None:
            weights = np.einsum("ik,ik->k", self.inverse, projected @ self.inverse)
            return float(weights @ variance), weights
        weighted = self._features.T * (u[~self.exact] ** 2 / 2)
        unit = 1 / np.sqrt(np.einsum("jk,kj->j", weighted, self._features))
        matrix = (weighted @ self._features) * unit * unit[:, None]
        factor = linalg.cho_factor(matrix, check_finite=False)

        def solve(right: Floats) -> Floats:
            solution: Floats = linalg.cho_solve(factor, right, check_finite=False)
            return solution

        weighted = unit[:, None] * weighted
        middle = solve(solve(projected * unit * unit[:, None]).T)
        weights = np.zeros(len(u))
        weights[~self.exact] = np.einsum("jk,jk->k", middle @ weighted, weighted)
        return float(weights @ variance), weights


def _variance(u: Floats) -> Floats:
    """Of each row's noise: 2/u^2, 0 for rows that are exact or not used."""
    noisy = (u > 0) & np.isfinite(u)
    return np.divide(2, u**2, out=np.zeros(len(u)), where=noisy)


def _inverse(a: Floats) -> Floats | None:
    """The inverse of a square matrix, None if it is singular or nearly so."""
    try:
        inverse = np.linalg.inv(a).astype(np.float64)
    except np.linalg.LinAlgError:
        return None
    sound = np.linalg.norm(a, 1) * np.linalg.norm(inverse, 1) * _SINGULAR < 1
    return inverse if sound else None


def _first_missing(workload: Workload, missing: Floats) -> str:
    """The first row of W that the strategy does not span, in words."""
    for start in range(0, workload.rows, _BLOCK):
        block = workload.rows_block(start, start + _BLOCK)
        off = np.abs(block @ missing).max(axis=1) > _EXACT * np.abs(block).max(axis=1)
        if off.any():
            row = start + int(np.argmax(off))
            return f": row {row} ({workload.label(row)}) is not a combination of its rows"
    return ""
