"""Moments: unbiased estimators of functions of the position, and their variances.

A report has a few integer features. An estimator is a weighted sum of them,

    F(report) = sum_j coefficients(f)[j] feature_j(report),   E[F(report) | x] = f(x),

so a collector only keeps sums of features. The generic classes derive the best linear unbiased
estimator, the one with the least mean square under a prior, from the means and variances of the
features. A mechanism with a closed form overrides them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import root_of, spread_of

Floats = npt.NDArray[np.float64]
Prior = tuple[float, ...] | None

NEGLIGIBLE = 1e-12
"""Variances below this fraction of the largest are rounding errors."""
TOLERANCE = 1e-6
"""An estimator with a larger bias for some position is rejected."""
_LEAST_MEAN = 1e-14
"""Reports with a smaller mean probability count as this, relative to the largest."""
_AT_ONCE = 1 << 20
"""Coefficients computed at a time, so that they stay in the cache."""


class Moments(ABC):
    """All that estimation has to know about a mechanism."""

    size: int
    """The number of positions."""
    feature_count: int
    has_constant: bool = False
    """Whether feature 0 is the known constant 1."""
    knows_total: bool = True
    """Whether the estimator of the constant 1 is 1, so that an attribute left out costs nothing."""
    is_linear: ClassVar[bool] = True
    """Whether the estimator of f + g is that of f plus that of g."""

    @abstractmethod
    def coefficients(self, functions: Floats) -> Floats:
        """The unbiased estimator of each function: (..., size) -> (..., features)."""

    @abstractmethod
    def frequencies(self, totals: Floats) -> Floats:
        """Sums of features along the first axis to estimated frequencies of positions.

        The transpose of `coefficients`: the frequency of x is the estimate of [x].
        """

    @abstractmethod
    def second_moment(self, functions: Floats, others: Floats | None = None) -> Floats:
        """E[F G | x] at every x, for the estimators of two functions, or E[F^2 | x] of one."""

    def second_moment_estimator(self, functions: Floats, others: Floats) -> tuple[Floats, Floats]:
        """The second moment, and the coefficients of an unbiased estimator of it."""
        moment = self.second_moment(functions, others)
        return moment, self.coefficients(moment)

    @abstractmethod
    def output_range(self, function: Floats) -> tuple[float, float]:
        """The smallest and the largest F(report) of any report, or bounds."""

    def skewness(self, functions: Floats) -> Floats:
        """The size of the largest independent part of the error of each estimate, or a bound of it.

        Its square, against the variance, limits how far the errors of an estimate, a sum over
        respondents, are from normal. (k, size) -> (k,).
        """
        ends = np.array([self.output_range(function) for function in functions])
        return np.asarray(np.abs(ends).max(axis=-1) + np.abs(functions).max(axis=-1))

    def unseen_variance(self, variances: Floats) -> Floats:
        """How much of a variance chance can hide, from what a respondent at x adds to it.

        An estimated variance has a variance too. If that is c times its mean, c is the size of its
        steps, or more: (k, size) -> (k,).
        """
        most = variances.max(axis=-1, keepdims=True)
        unseen = np.zeros(len(variances))
        differ = (variances.min(axis=-1) < (1 - NEGLIGIBLE) * most[:, 0]).nonzero()[0]
        if len(differ):
            some = variances[differ]
            spread = self.second_moment(some) - some * some
            seen = some > NEGLIGIBLE * most[differ]
            ratio = np.divide(spread, some, out=np.zeros_like(spread), where=seen)
            unseen[differ] = ratio.max(axis=-1, initial=0.0)
        return unseen

    def mean_square(self, gram: Floats, prior: Floats | None = None) -> float:
        """The mean over respondents of the sum of F^2 over a workload's rows, from its Gram matrix.

        Of linear estimators: all roots of the Gram matrix have the same sum.
        """
        return self.mean_square_of_rows(root_of(gram), prior)

    def mean_square_of_rows(self, rows: Floats, prior: Floats | None = None) -> float:
        assert self.is_linear
        parts = (self.second_moment(rows[part]) for part in self._parts(len(rows)))
        return float(sum(np.average(part, axis=-1, weights=prior).sum() for part in parts))

    def mean_frequency_variance(self) -> float:
        """The variance per respondent of a frequency, mean over values and positions."""
        values = np.eye(self.size)
        return float((self.second_moment(values) - values).mean())

    def mean_range_variance(self) -> float:
        """The variance per respondent of a count, mean over ranges and positions.

        Of prefixes C_0 = 0, ..., C_m a range is a difference. The sum over all ranges of
        E[(C_b - C_a)^2] is (m + 1) sum_b E[C_b^2] - E[(sum_b C_b)^2].
        """
        assert self.is_linear
        size = self.size
        prefixes = (np.tri(part.stop - part.start, size, part.start) for part in self._rows())
        squares = sum(float(self.second_moment(part).sum()) for part in prefixes)
        together = float(self.second_moment(np.arange(size, 0.0, -1.0)).sum())
        ranges = size * (size + 1) / 2
        return ((size + 1) * squares - together) / size / ranges - (size + 2) / (3 * size)

    def _rows(self) -> Iterator[slice]:
        """The positions, some at a time."""
        return (slice(part.start, min(part.stop, self.size)) for part in self._parts(self.size))

    def _parts(self, count: int) -> Iterator[slice]:
        step = max(1, _AT_ONCE // self.feature_count)
        return (slice(start, start + step) for start in range(0, count, step))


class OneHot(Moments):
    """Feature j is 1 if the report is j, else 0. Its means are an operator or a matrix."""

    @abstractmethod
    def mean(self, values: Floats) -> Floats:
        """E[v(report) | x] at every x, for functions v: (..., outputs) -> (..., size)."""

    def spread(self, shares: Floats) -> Floats:
        """The distribution of reports from one of positions: (..., size) -> (..., outputs)."""
        return np.asarray(shares @ self.probabilities)

    @cached_property
    def probabilities(self) -> Floats:
        """P(report | x), (size, outputs)."""
        return np.asarray(self.mean(np.eye(self.feature_count)).T)

    def second_moment(self, functions: Floats, others: Floats | None = None) -> Floats:
        return self.mean(self._product(functions, others))

    def second_moment_estimator(self, functions: Floats, others: Floats) -> tuple[Floats, Floats]:
        """F G estimates its mean; the only estimator if there are as many reports as positions."""
        if self.feature_count > self.size:
            return super().second_moment_estimator(functions, others)
        product = self._product(functions, others)
        return self.mean(product), product

    def _product(self, functions: Floats, others: Floats | None) -> Floats:
        first = self.coefficients(functions)
        if others is None or others is functions:
            return first * first
        return first * self.coefficients(others)

    def output_range(self, function: Floats) -> tuple[float, float]:
        values = self.coefficients(function)
        return float(values.min()), float(values.max())

    def skewness(self, functions: Floats) -> Floats:
        """The root of E[(F - f)^4 | x] / E[(F - f)^2 | x] at the worst x."""
        middle = functions.mean(axis=-1, keepdims=True)
        f, values = functions - middle, self.coefficients(functions) - middle
        squares, f2 = values * values, f * f
        second, third, fourth = map(self.mean, (squares, squares * values, squares * squares))
        variance = second - f2
        peak = fourth - 4 * f * third + 3 * f2 * (2 * second - f2)
        least = NEGLIGIBLE * second.max(axis=-1, keepdims=True)
        ratio = np.divide(peak, variance, out=np.zeros_like(peak), where=variance > least)
        return np.asarray(np.sqrt(ratio.max(axis=-1)))


class OneHotMatrix(OneHot):
    """One-hot features with a matrix P(report | x), and the best estimator under a prior.

    With m(y) the mean of P(y | x), it minimises sum_y m(y) F(y)^2 subject to P F = f: of all
    solutions of W G = f with W = P m^(-1/2), G = m^(1/2) F is the shortest.
    """

    def __init__(self, probabilities: Floats, prior: Prior = None) -> None:
        self.size, self.feature_count = probabilities.shape
        self.probabilities = probabilities
        self._prior = spread_of(prior, self.size)

    @cached_property
    def _decoder(self) -> Floats:
        """The coefficients of the indicators of all positions, (size, outputs)."""
        for solve in (_by_qr, np.linalg.pinv):
            try:
                decoder = self._unbiased(solve)
            except np.linalg.LinAlgError:
                continue
            bias = np.abs(decoder @ self.probabilities.T - np.eye(self.size)).max(axis=1)
            if bias.max() <= TOLERANCE:
                return decoder
        raise QueryError(
            f"the reports do not determine the count of position {int(np.argmax(bias))}; "
            "change the probabilities"
        )

    def _unbiased(self, solve: Any) -> Floats:
        p = self.probabilities
        if p.shape[0] == p.shape[1]:
            return np.asarray(solve(p.T))
        means = self._prior @ p
        scale = np.sqrt(np.maximum(means, _LEAST_MEAN * means.max()))
        return np.asarray(solve(p.T / scale[:, None]) / scale)

    def coefficients(self, functions: Floats) -> Floats:
        return np.asarray(functions @ self._decoder)

    def frequencies(self, totals: Floats) -> Floats:
        return np.tensordot(self._decoder, totals, axes=1)

    def mean(self, values: Floats) -> Floats:
        return np.asarray(values @ self.probabilities.T)


def _by_qr(tall: Floats) -> Floats:
    """The pseudoinverse of a matrix with independent columns, without squaring its condition."""
    q, r = np.linalg.qr(tall)
    return np.asarray(np.linalg.solve(r, q.T))


class Independent(Moments):
    """Independent features that the position determines up to noise, with a constant in front.

    The mean square is f(x)^2 plus the sum of b_k^2 times the variance of feature k, so the best
    estimator solves a weighted least-squares problem. Functions are counted from their value at the
    last position, which the constant estimates.
    """

    has_constant = True

    def __init__(self, means: Floats, variances: Floats, lows: Any, highs: Any) -> None:
        """`means` and `variances` of each feature at each position, (k, size); their ends, (k,)."""
        self.size, self.feature_count = means.shape[1], 1 + len(means)
        self.means, self.variances, self.lows, self.highs = means, variances, lows, highs

    means: Floats
    variances: Floats
    lows: Any
    highs: Any

    @cached_property
    def _decoder(self) -> Floats:
        """The weights of the indicators of all positions but the last, (size - 1, k)."""
        seen = self.means[:, :-1] - self.means[:, -1:]
        decoder = _inverse(seen)
        if decoder is None:
            mean = self.variances.mean(axis=1)
            deviation = np.sqrt(np.maximum(mean, NEGLIGIBLE * mean.max()))
            decoder = np.linalg.pinv(seen / deviation[:, None]) / deviation
        bias = np.abs(decoder @ seen - np.eye(self.size - 1)).max(axis=1)
        if bias.max() > TOLERANCE:
            raise QueryError(
                f"the {len(self.means)} rows of the matrix mechanism do not determine the count "
                f"of position {int(np.argmax(bias))}; use a strategy with more rows"
            )
        return decoder

    def coefficients(self, functions: Floats) -> Floats:
        weights = (functions[..., :-1] - functions[..., -1:]) @ self._decoder
        constant = functions[..., -1] - weights @ self.means[:, -1]
        return np.concatenate([constant[..., None], weights], axis=-1)

    def second_moment(self, functions: Floats, others: Floats | None = None) -> Floats:
        others = functions if others is None else others
        first = self._weights(functions)
        second = first if others is functions else self._weights(others)
        return np.asarray(functions * others + (first * second) @ self.variances)

    def frequencies(self, totals: Floats) -> Floats:
        """The last position takes what is left of the total."""
        above = totals[1:] - np.multiply.outer(self.means[:, -1], totals[0])
        estimated = np.tensordot(self._decoder, above, axes=1)
        return np.concatenate([estimated, (totals[0] - estimated.sum(axis=0))[None]])

    def _weights(self, functions: Floats) -> Floats:
        """The coefficients of the independent features alone."""
        return Independent.coefficients(self, functions)[..., 1:]

    def output_range(self, function: Floats) -> tuple[float, float]:
        constant = int(self.has_constant)
        coefficients = self.coefficients(function)
        fixed, weights = coefficients[:constant].sum(), coefficients[constant:]
        return reached(fixed, weights, self.lows, self.highs)

    def skewness(self, functions: Floats) -> Floats:
        """What the largest change of one feature does."""
        weights = np.abs(self.coefficients(functions)[..., int(self.has_constant) :])
        return np.asarray((weights * (self.highs - self.lows)).max(axis=-1))


def _inverse(matrix: Floats) -> Floats | None:
    """The inverse of a matrix, None where there is none.

    The inverse of a matrix of prefixes is integer; with rounding errors it would read every row.
    """
    try:
        inverse: Floats = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    whole: Floats = np.rint(inverse)
    return whole if np.array_equal(whole @ matrix, np.eye(len(matrix))) else inverse


class Exchangeable(Moments):
    """A constant 1, then a support S_v for each value, in which all values are alike.

    Given the value x, and for any two others v and w, E[S_x], E[S_v], E[S_x S_v] and E[S_v S_w] are
    four numbers. A support has one of two values, `low` or `high`, for S_v = 0 or 1.

    Any level l gives an unbiased F = l + sum_v (f(v) - l) (S_v - E[S_v]) / (E[S_x] - E[S_v]),
    because exactly one value is true. The mean of f is the best level under a uniform prior.
    """

    has_constant = True

    def __init__(self, size: int, supports: Any, low: int = 0, high: int = 1) -> None:
        self.size, self.feature_count, self.low, self.high = size, 1 + size, low, high
        own, other, own_other, others = supports
        self._gap = float((own - other) * (high - low))
        variance, own_variance = other * (1 - other), own * (1 - own)
        shared, own_shared = others - other * other, own_other - own * other
        scale = (own - other) ** 2
        self._everybody = float((variance - shared) / scale)
        self._own = float((own_variance - variance + 2 * shared - 2 * own_shared) / scale)

    def coefficients(self, functions: Floats) -> Floats:
        level = functions.mean(axis=-1, keepdims=True)
        return np.concatenate([level, (functions - level) / self._gap], axis=-1)

    def second_moment(self, functions: Floats, others: Floats | None = None) -> Floats:
        """The weights w sum to 0, so covariances enter through sum w_v^2 and w_x^2 alone."""
        others = functions if others is None else others
        rest = functions - functions.mean(axis=-1, keepdims=True)
        products = rest * (others - others.mean(axis=-1, keepdims=True))
        everybody = self._everybody * products.sum(axis=-1, keepdims=True)
        return np.asarray(functions * others + everybody + self._own * products)

    def frequencies(self, totals: Floats) -> Floats:
        rest = totals[1:] - totals[1:].mean(axis=0)
        return np.asarray(rest / self._gap + totals[0] / self.size)

    def output_range(self, function: Floats) -> tuple[float, float]:
        coefficients = self.coefficients(function)
        return reached(coefficients[0], coefficients[1:], self.low, self.high)


def reached(fixed: float, weights: Floats, lows: Any, highs: Any) -> tuple[float, float]:
    """The smallest and the largest fixed + sum of weights times features between their ends."""
    ends = np.stack([weights * lows, weights * highs])
    return float(fixed + ends.min(axis=0).sum()), float(fixed + ends.max(axis=0).sum())


def ranges_gram(size: int) -> Floats:
    """The number of ranges that contain both of two positions."""
    at = np.arange(size)
    return np.asarray((np.minimum(at[:, None], at) + 1.0) * (size - np.maximum(at[:, None], at)))
