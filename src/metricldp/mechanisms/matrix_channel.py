"""The matrix mechanism of section 3: noisy linear functions of the position, one for each row.

Row k of a strategy A is an integer a_k(x) for every position x. A report is one integer for each
row, y_k = clip(a_k(x) + noise_k, low_k, high_k), with two-sided geometric noise of its own epsilon
u_k per unit: the discrete twin of Laplace noise of scale 1/u_k.

Privacy. The rows are drawn independently, so the worst ratio of two positions is the product over
rows, and geometric noise moved by d has a worst ratio of e^(u d): x and x' differ by at most
sum_k u_k |a_k(x) - a_k(x')|. Clipping is done to what was drawn and can only take away.

No bias, for any window. The noise has no memory: given that it was clipped at an end, it lies
beyond it by a geometric number G with mean c = q/(1-q) and variance q/(1-q)^2, q = e^-u. So

    Y_k = y_k inside, low_k - c at the low end, high_k + c at the high end

is the mean of a_k(x) + noise_k given the report: E[Y_k | x] = a_k(x), and its variance is that of
the noise less what was clipped, q/(1-q)^2 (2 - P(low end | x) - P(high end | x)). A window that
reaches `reach` beyond all values of the row is literally the paper's mechanism if the reach is
large; with a reach of 0 a row of zeros and ones is one bit, randomized response, with half the
variance. (Of the integers in use this is true up to their rounding, far below any error; privacy is
proved from the integers themselves.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import CertificateError, InvalidSpecError
from metricldp.mechanisms.channel import LARGEST_EPSILON, CoreChannel, Integers, Levels
from metricldp.mechanisms.fields import Column, Struct
from metricldp.mechanisms.geometric import GeometricChannel, geometric_distribution
from metricldp.mechanisms.moments import Floats, Independent, reached
from metricldp.mechanisms.randomness import Randomness
from metricldp_core import distributions as core
from metricldp_core.exact import ceil_of

LARGEST_ENTRY = 1 << 15
LARGEST_REACH = 1 << 30
"""However small its epsilon, a field has no more than 32 bits."""
_BEYOND = Fraction(45)
"""e^-45 is below 2^-64: noise of 45/u or more is a thing that never happens."""
_WIDEST = 1 << 32
"""Positions of a window: 2^21 of them add up in floats."""
_MOST_CODES = 1 << 14
"""Up to so many combinations of the rows that a decoder reads are told apart by codes."""


@dataclass(frozen=True)
class MatrixChannel(CoreChannel):
    """A clipped geometric draw for each row; rows that are the same for everybody are left out.

    Features: the constant 1, then y_k of every row, then -1, 0 or 1 for low end, inside, high end.
    """

    distribution: core.Matrix

    @classmethod
    def of(
        cls, entries: npt.ArrayLike, epsilons: Sequence[Fraction], reach: int | None = None
    ) -> Self:
        """Rows with an epsilon per unit each; rows with epsilon 0 or a single value are not sent.

        Without a reach a window goes 45/u beyond the values, so that noise is clipped with a
        probability below 2^-64; but no farther than 2^30, which is less where u is below 4.2e-8.
        """
        a = np.asarray(entries, dtype=np.int64)
        spread = a.max(axis=1) - a.min(axis=1)
        sent = [k for k, u in enumerate(epsilons) if u > 0 and spread[k]]
        rows = []
        known: dict[tuple[Fraction, int], core.Geometric] = {}
        for k in sent:
            u = min(epsilons[k], LARGEST_EPSILON)
            beyond = min(ceil_of(_BEYOND / u), LARGEST_REACH) if reach is None else reach
            window = int(spread[k]) + 2 * beyond + 1
            if window > _WIDEST:
                raise InvalidSpecError(
                    f"row {k} of the strategy has a window of {window:,} positions; "
                    f"use entries and a reach of {LARGEST_ENTRY:,} and {LARGEST_REACH:,} at most"
                )
            if (u, window) not in known:
                try:
                    known[u, window] = geometric_distribution(window, u)
                except CertificateError as wrong:
                    raise CertificateError(f"row {k} of the strategy: {wrong}") from None
            low = int(a[k].min()) - beyond
            rows.append(core.Row(tuple(a[k].tolist()), low, known[u, window]))
        return cls(core.Matrix(a.shape[1], tuple(rows)))

    @cached_property
    def entries(self) -> npt.NDArray[np.int64]:
        """a_k(x), (rows, size)."""
        entries = [row.entries for row in self.distribution.rows]
        return np.array(entries, dtype=np.int64).reshape(-1, self.size)

    @cached_property
    def lows(self) -> npt.NDArray[np.int64]:
        """The low end of the window of each row."""
        return np.array([row.low for row in self.distribution.rows], dtype=np.int64)

    @cached_property
    def noises(self) -> tuple[GeometricChannel, ...]:
        """The clipped noise of each row: a geometric channel on its window."""
        return tuple(GeometricChannel(row.noise) for row in self.distribution.rows)

    @cached_property
    def field(self) -> Struct:
        return Struct(tuple(noise.size for noise in self.noises))

    def sample(self, positions: Integers, randomness: Randomness) -> Column:
        column = np.zeros_like(self.field.empty(len(positions)))
        for k, (steps, noise) in enumerate(zip(self._above, self.noises, strict=True)):
            self.field.write(column, k, noise.sample(steps[positions], randomness))
        return column

    @cached_property
    def _above(self) -> npt.NDArray[np.int64]:
        """a_k(x) counted from the low end of its window, (rows, size)."""
        return self.entries - self.lows[:, None]

    def log_likelihood(self, column: Column) -> Floats:
        """The sum over rows, each of which takes few different values."""
        logs, places = [], []
        for row, (steps, noise) in enumerate(zip(self._above, self.noises, strict=True)):
            values = np.unique(steps)
            logs.append(noise.log_likelihood_from(values, self.field.read(column, row)))
            places.append(values[:, None] == steps)
        return np.asarray(np.concatenate(logs, axis=1) @ np.concatenate(places).astype(np.float64))

    @cached_property
    def _highs(self) -> npt.NDArray[np.int64]:
        return np.asarray(self.lows + [noise.size - 1 for noise in self.noises])

    @cached_property
    def largest(self) -> int:
        return int(max(1, *np.abs(self.lows), *np.abs(self._highs)))

    @cached_property
    def moments(self) -> MatrixMoments:
        u = np.array([[noise.epsilon] for noise in self.noises])
        left, right = self._above, (self._highs - self.entries.T).T
        clipped = np.exp(-u * left) + np.exp(-u * right)
        variances = np.exp(-u) / np.expm1(-u) ** 2 * (2 - clipped / (1 + np.exp(-u)))
        beyond = 1 / np.expm1(u[:, 0])
        return MatrixMoments(
            self.entries.astype(np.float64),
            variances,
            self.lows - beyond,
            self._highs + beyond,
            beyond,
        )

    def levels(self, coefficients: Floats) -> Levels | None:
        rows = len(self.noises)
        used = np.flatnonzero(coefficients[:, 1 : 1 + rows].any(axis=0)).tolist()
        sizes = [self.noises[row].size for row in used]
        if math.prod(sizes) > _MOST_CODES:
            return None
        table = coefficients[:, :1]
        for row, size in zip(used, sizes, strict=True):
            values = coefficients[:, 1 + row, None] * (self.lows[row] + np.arange(size))
            values[:, [0, -1]] += np.outer(coefficients[:, 1 + rows + row], [-1, 1])
            table = (table[:, :, None] + values[:, None, :]).reshape(len(table), -1)

        def read(column: Column) -> Integers:
            found = np.zeros(len(column), dtype=np.int64)
            for row, size in zip(used, sizes, strict=True):
                found = found * size + self.field.read(column, row)
            return found

        return Levels(table, read)

    def features(self, column: Column, chosen: Integers | None = None) -> Integers:
        rows = len(self.noises)
        features = np.ones((len(column), 1 + 2 * rows), dtype=np.int64)
        for row, noise in enumerate(self.noises):
            field = self.field.read(column, row)
            features[:, 1 + row] = field + self.lows[row]
            features[:, 1 + rows + row] = _ends(field, noise.size)
        return features if chosen is None else features[:, 1 + chosen]


class MatrixMoments(Independent):
    """Y_k as the features, each of which is a sum of two integer features of the report."""

    def __init__(
        self, means: Floats, variances: Floats, lows: Floats, highs: Floats, beyond: Floats
    ) -> None:
        super().__init__(means, variances, lows, highs)
        self.feature_count = 1 + 2 * len(means)
        self._beyond = beyond
        """c = q/(1-q) of each row: how far beyond an end the noise lies that was clipped there."""

    def coefficients(self, functions: Floats) -> Floats:
        weights = super().coefficients(functions)
        return np.concatenate([weights, weights[..., 1:] * self._beyond], axis=-1)

    def frequencies(self, totals: Floats) -> Floats:
        rows = len(self.means)
        sums = totals[1 : 1 + rows] + (self._beyond * totals[1 + rows :].T).T
        return super().frequencies(np.concatenate([totals[:1], sums]))

    def output_range(self, function: Floats) -> tuple[float, float]:
        weights = Independent.coefficients(self, function)
        return reached(weights[0], weights[1:], self.lows, self.highs)

    def skewness(self, functions: Floats) -> Floats:
        """That of one row; the fourth cumulant of its noise is 1 + 3 v times its variance v."""
        peaks = np.sqrt(1 + 3 * self.variances.max(axis=1))
        return np.asarray(np.abs(self._weights(functions) * peaks).max(axis=-1))


def _ends(field: Integers, size: int) -> Integers:
    """-1 at the low end of a window, 1 at its high end."""
    return np.asarray((field == size - 1).astype(np.int64) - (field == 0))
