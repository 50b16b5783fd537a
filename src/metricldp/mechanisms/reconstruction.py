"""From summed reports back to counts: weighted least squares for a strategy and its scales.

B A = W leaves a choice of B when A has more rows than it needs. The best is
B = W (A^T D A)^+ A^T D with D = diag(1 / (2 s^2)), and the total error of W is then the sum of
W^T W times the covariance (A^T D A)^+, entry by entry (Proposition 3): W is never written out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import InvalidSpecError, QueryError
from metricldp.basics.optional import lazy
from metricldp.mechanisms.interior import Floats
from metricldp.mechanisms.scales import checked_strategy
from metricldp.mechanisms.workloads import Workload

linalg = lazy("scipy.linalg")

_EXACT = 1e-8
"""B A may differ from W by this share of W's largest entries: rounding, and no more."""
_SINGULAR = 1e-11
"""Eigenvalues of A^T A below this share of the largest are zero."""
_BLOCK = 1024


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """How summed reports become counts: for a row w of W, w @ decoder is its row of B."""

    decoder: Floats
    """One row for each position, one column for each row of A."""
    covariance: Floats
    """Of the decoded counts of one person, as far as A determines them."""
    error: float
    """Total variance over all rows of W, for one person."""
    weights: Floats
    """(B^T B)_kk for each row of A."""


def reconstruction(
    workload: Workload | npt.ArrayLike, strategy: npt.ArrayLike, s: npt.ArrayLike
) -> Reconstruction:
    """The decoder of smallest variance for noise of scales s; `workload` may also be W^T W.

    Rows with s = 0 are exact: in the limit they are equations that the counts must satisfy. Rows
    with infinite s tell nothing.
    """
    a, scale = checked_strategy(strategy), np.asarray(s, dtype=np.float64)
    if scale.shape != (len(a),):
        raise InvalidSpecError(f"scales of shape {scale.shape} for a strategy of {len(a)} rows")
    if not (scale >= 0).all():
        raise InvalidSpecError("the scale of a row's noise must be a number of at least 0")
    gram = gram_of(workload, a.shape[1])
    with np.errstate(divide="ignore"):
        u = 1 / scale
    decoding = Decoding.of(a, u)
    decoding.refuse_undetermined(workload, gram)
    return decoding.solve(gram, u)


def gram_of(workload: Workload | npt.ArrayLike, size: int) -> Floats:
    """W^T W of a workload over as many positions as the strategy has."""
    if isinstance(workload, Workload):
        if workload.size != size:
            raise QueryError(
                f"the workload has {workload.size} positions, the strategy {size}; "
                "make both for the same attribute"
            )
        return workload.gram()
    gram = np.asarray(workload, dtype=np.float64)
    if gram.shape != (size, size) or not np.isfinite(gram).all():
        raise QueryError(f"W^T W needs {size} rows and columns of finite numbers")
    return gram


@dataclass(frozen=True, eq=False)
class Decoding:
    """The part of least squares that depends only on which rows are exact, noisy or not used.

    Counts are `pinned` times the exact reports plus `basis` times what the noisy rows tell beyond
    them. If A is square and can be inverted, the inverse is the decoder whatever the scales are.
    """

    strategy: Floats
    exact: npt.NDArray[np.bool_]
    inverse: Floats | None
    pinned: Floats
    basis: Floats

    @cached_property
    def _seen(self) -> Floats:
        """What the noisy rows see of each direction of the basis."""
        return self.strategy[~self.exact] @ self.basis

    @classmethod
    def of(cls, a: Floats, u: Floats) -> Decoding:
        """For a strategy, infinite u exact, zero u not used."""
        exact, used, size = np.isinf(u), u > 0, a.shape[1]
        inverse = _inverse(a) if len(a) == size and used.all() else None
        if inverse is not None:
            return cls(a, exact, inverse, np.empty((size, 0)), np.empty((size, 0)))
        pinned = linalg.pinv(a[exact]) if exact.any() else np.empty((size, 0))
        noisy = a[used & ~exact]
        beyond = noisy - (noisy @ pinned) @ a[exact]
        length = np.linalg.norm(beyond, axis=1)
        seen = length > _EXACT * np.linalg.norm(noisy, axis=1)
        beyond = beyond[seen] / length[seen, None]
        values, vectors = linalg.eigh(beyond.T @ beyond)
        return cls(a, exact, None, pinned, vectors[:, values > _SINGULAR * max(values[-1], 1.0)])

    def refuse_undetermined(self, workload: Workload | npt.ArrayLike, gram: Floats) -> None:
        """W must be B A: every row of W has to lie in what the exact and noisy rows span."""
        if self.inverse is not None:
            return
        fixed = self.pinned @ self.strategy[self.exact] + self.basis @ self.basis.T
        missing = np.eye(len(fixed)) - fixed
        if np.sum((gram @ missing) * missing) <= _EXACT**2 * np.trace(gram):
            return
        raise QueryError(
            f"the strategy does not determine the workload{_first_missing(workload, missing)}; "
            "add rows to the strategy or choose another"
        )

    def solve(self, gram: Floats, u: Floats) -> Reconstruction:
        variance = _variance(u)
        if self.inverse is not None:
            decoder = self.inverse
            covariance = (decoder * variance) @ decoder.T
        else:
            fit = self._fit(u)
            decoder = np.empty(self.strategy.T.shape)
            decoder[:, ~self.exact] = fit.basis @ fit.solve(fit.weighted)
            rest = self.strategy[~self.exact] @ self.pinned
            decoder[:, self.exact] = self.pinned - decoder[:, ~self.exact] @ rest
            covariance = fit.basis @ fit.solve(fit.basis.T)
        weights = np.einsum("ik,ik->k", decoder, gram @ decoder)
        return Reconstruction(decoder, covariance, float(weights @ variance), weights)

    def projected(self, gram: Floats) -> Floats:
        """W^T W in the basis, for `weigh`; it depends on no scale."""
        return gram if self.inverse is not None else self.basis.T @ gram @ self.basis

    def weigh(self, projected: Floats, u: Floats) -> tuple[float, Floats]:
        """Only the error and the weights, those of exact rows left at zero."""
        if self.inverse is not None:
            found = self.solve(projected, u)
            return found.error, found.weights
        fit = self._fit(u)
        middle = fit.solve(fit.solve(projected * fit.unit * fit.unit[:, None]).T)
        weights = np.zeros(len(u))
        weights[~self.exact] = np.einsum("jk,jk->k", middle @ fit.weighted, fit.weighted)
        return float(weights @ _variance(u)), weights

    def _fit(self, u: Floats) -> _Fit:
        """The normal equations, each direction of the basis scaled to variance about 1."""
        seen, precision = self._seen, u[~self.exact] ** 2 / 2
        weighted = seen.T * precision
        unit = 1 / np.sqrt(np.einsum("jk,kj->j", weighted, seen))
        matrix = weighted @ seen
        factor = linalg.cho_factor(matrix * unit * unit[:, None], check_finite=False)
        return _Fit(unit, self.basis * unit, unit[:, None] * weighted, factor)


@dataclass(frozen=True, eq=False)
class _Fit:
    """Least squares: basis (basis^T A^T D A basis)^-1 basis^T A^T D, in a scaled basis."""

    unit: Floats
    basis: Floats
    weighted: Floats
    factor: tuple[Floats, bool]

    def solve(self, right: Floats) -> Floats:
        found: Floats = linalg.cho_solve(self.factor, right, check_finite=False)
        return found


def _variance(u: Floats) -> Floats:
    """Of each row's noise: 2/u^2, nothing for rows that are exact or not used."""
    noisy = (u > 0) & np.isfinite(u)
    variance = np.zeros(len(u))
    variance[noisy] = 2 / u[noisy] ** 2
    return variance


def _inverse(a: Floats) -> Floats | None:
    """The inverse of a square matrix, or nothing if it is singular or nearly so."""
    try:
        inverse = np.linalg.inv(a).astype(np.float64)
    except np.linalg.LinAlgError:
        return None
    sound = np.linalg.norm(a, 1) * np.linalg.norm(inverse, 1) * _SINGULAR < 1
    return inverse if sound else None


def _first_missing(workload: Workload | npt.ArrayLike, missing: Floats) -> str:
    """Which row of W is the first that the strategy does not span, in words."""
    if not isinstance(workload, Workload):
        return ""
    for start in range(0, workload.rows, _BLOCK):
        block = workload.rows_block(start, start + _BLOCK)
        off = np.abs(block @ missing).max(axis=1) > _EXACT * np.abs(block).max(axis=1)
        if off.any():
            row = start + int(np.argmax(off))
            return f": row {row} ({workload.label(row)}) is not a combination of its rows"
    return ""
