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
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import CertificateError, InvalidSpecError, QueryError
from metricldp.mechanisms.channel import (
    LARGEST_EPSILON,
    Channel,
    Floats,
    Integers,
    Levels,
    farthest,
)
from metricldp.mechanisms.fields import Column, Struct
from metricldp.mechanisms.geometric import Geometric
from metricldp.mechanisms.randomness import Randomness
from metricldp_core.distributions import Matrix, Row
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
_FAINT = 1e-12
"""Variances below this share of the largest count as that much in least squares."""
_ASTRAY = 1e-6
"""A decoder that is off by more than this tells nothing."""


@dataclass(frozen=True, eq=False)
class MatrixChannel(Channel):
    """A clipped geometric draw for each row; rows that are the same for everybody are left out.

    Features: the constant 1, then y_k of every row, then -1, 0 or 1 for low end, inside, high end.
    """

    size: int
    entries: npt.NDArray[np.int64]
    """a_k(x), (rows, size)."""
    lows: npt.NDArray[np.int64]
    """The low end of the window of each row."""
    noises: tuple[Geometric, ...]
    """The clipped noise of each row: a geometric channel on its window."""

    mechanism: ClassVar[str] = "matrix"
    constant: ClassVar[bool] = True

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
        lows, noises = [], []
        known: dict[tuple[Fraction, int], Geometric] = {}
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
                    known[u, window] = Geometric.for_epsilon(window, u)
                except CertificateError as wrong:
                    raise CertificateError(f"row {k} of the strategy: {wrong}") from None
            noises.append(known[u, window])
            lows.append(int(a[k].min()) - beyond)
        return cls(a.shape[1], a[sent], np.array(lows, dtype=np.int64), tuple(noises))

    @cached_property
    def field(self) -> Struct:
        return Struct(tuple(noise.size for noise in self.noises))

    def encode(self, positions: Integers, randomness: Randomness) -> Column:
        column = np.zeros_like(self.field.empty(len(positions)))
        for k, (steps, noise) in enumerate(zip(self._above, self.noises, strict=True)):
            self.field.write(column, k, noise.encode(steps[positions], randomness))
        return column

    @cached_property
    def _above(self) -> npt.NDArray[np.int64]:
        """a_k(x) counted from the low end of its window, (rows, size)."""
        return self.entries - self.lows[:, None]

    @cached_property
    def _steps(self) -> list[list[int]]:
        """The same for each position, (size, rows)."""
        found: list[list[int]] = self._above.T.tolist()
        return found

    @cached_property
    def distribution(self) -> Matrix:
        parts = zip(self.entries.tolist(), self.lows.tolist(), self.noises, strict=True)
        rows = (Row(tuple(row), low, noise.distribution) for row, low, noise in parts)
        return Matrix(self.size, tuple(rows))

    def probability(self, x: int, report: Column) -> Fraction:
        found = Fraction(1)
        for row, (step, noise) in enumerate(zip(self._steps[x], self.noises, strict=True)):
            found *= noise.probability(step, self.field.read(report[None], row)[0])
        return found

    def log_chances(self, column: Column) -> Floats:
        """The sum over rows, each of which takes few different values."""
        logs, places = [], []
        for row, (steps, noise) in enumerate(zip(self._above, self.noises, strict=True)):
            values = np.unique(steps)
            logs.append(noise.log_chances_from(values, self.field.read(column, row)))
            places.append(values[:, None] == steps)
        return np.asarray(np.concatenate(logs, axis=1) @ np.concatenate(places).astype(np.float64))

    @property
    def features(self) -> int:
        return 1 + 2 * len(self.noises)

    @cached_property
    def _highs(self) -> npt.NDArray[np.int64]:
        return np.asarray(self.lows + [noise.size - 1 for noise in self.noises])

    @cached_property
    def largest(self) -> int:
        return int(max(1, *np.abs(self.lows), *np.abs(self._highs)))

    @cached_property
    def _beyond(self) -> Floats:
        """c = q/(1-q) of each row: how far beyond an end the noise lies that was clipped there."""
        u = np.array([noise.epsilon for noise in self.noises])
        return np.asarray(1 / np.expm1(u))

    @cached_property
    def variances(self) -> Floats:
        """Var(Y_k | x) of every row at every position, (rows, size)."""
        u = np.array([[noise.epsilon] for noise in self.noises])
        left, right = self._above, (self._highs - self.entries.T).T
        clipped = np.exp(-u * left) + np.exp(-u * right)
        spread = np.exp(-u) / np.expm1(-u) ** 2
        return np.asarray(spread * (2 - clipped / (1 + np.exp(-u))))

    @cached_property
    def _decoder(self) -> Floats:
        """(size - 1, rows): what b is for each position, everything counted from the last one.

        sum_k b_k (a_k(x) - a_k(last)) = f(x) - f(last) for all x, with the least sum of variances.
        """
        seen = (self.entries[:, :-1] - self.entries[:, -1:]).astype(np.float64)
        decoder = _inverse(seen)
        if decoder is None:
            mean = self.variances.mean(axis=1)
            deviation = np.sqrt(np.maximum(mean, _FAINT * mean.max()))
            decoder = np.linalg.pinv(seen / deviation[:, None]) / deviation
        astray = np.abs(decoder @ seen - np.eye(self.size - 1)).max(axis=1)
        if astray.max() > _ASTRAY:
            raise QueryError(
                f"the {len(self.noises)} rows of the matrix mechanism do not determine the count "
                f"of position {int(np.argmax(astray))}; use a strategy with more rows"
            )
        return decoder

    def coefficients(self, functions: Floats) -> Floats:
        """Weighted least squares: f(x) = f(last) + sum_k b_k (a_k(x) - a_k(last))."""
        b = (functions[..., :-1] - functions[..., -1:]) @ self._decoder
        constant = functions[..., -1] - b @ self.entries[:, -1]
        return np.concatenate([constant[..., None], b, b * self._beyond], axis=-1)

    def moment(self, functions: Floats, others: Floats | None = None) -> Floats:
        """f g, and the variance of every row that both read."""
        others = functions if others is None else others
        rows = slice(1, 1 + len(self.noises))
        first = self.coefficients(functions)[..., rows]
        second = first if others is functions else self.coefficients(others)[..., rows]
        return np.asarray(functions * others + (first * second) @ self.variances)

    def cells(self, totals: Floats) -> Floats:
        """The decoder seen from the positions; the last takes what is left."""
        rows = len(self.noises)
        everybody = totals[0]
        means = totals[1 : 1 + rows] + (self._beyond * totals[1 + rows :].T).T
        means = means - np.multiply.outer(self.entries[:, -1], everybody)
        found = np.tensordot(self._decoder, means, axes=1)
        return np.concatenate([found, (everybody - found.sum(axis=0))[None]])

    def jump(self, functions: Floats) -> Floats:
        """That of one row; the fourth cumulant of its noise is 1 + 3 v times its variance v."""
        b = self.coefficients(functions)[..., 1 : 1 + len(self.noises)]
        peaks = np.sqrt(1 + 3 * self.variances.max(axis=1))
        return np.asarray(np.abs(b * peaks).max(axis=-1))

    def influence(self, function: Floats) -> float:
        weights = self.coefficients(function)
        constant, b = weights[0], weights[1 : 1 + len(self.noises)]
        ends = np.stack([b * (self.lows - self._beyond), b * (self._highs + self._beyond)])
        return farthest(constant, ends)

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

    def expand(self, column: Column) -> Integers:
        rows = len(self.noises)
        found = np.ones((len(column), self.features), dtype=np.int64)
        for row, noise in enumerate(self.noises):
            field = self.field.read(column, row)
            found[:, 1 + row] = field + self.lows[row]
            found[:, 1 + rows + row] = _ends(field, noise.size)
        return found


def _ends(field: Integers, size: int) -> Integers:
    """-1 at the low end of a window, 1 at its high end."""
    return np.asarray((field == size - 1).astype(np.int64) - (field == 0))


def _inverse(matrix: Floats) -> Floats | None:
    """The inverse of a matrix, None where there is none.

    That of prefixes and their like is whole; rounding would make it read every row.
    """
    try:
        found: Floats = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    whole: Floats = np.rint(found)
    return whole if np.array_equal(whole @ matrix, np.eye(len(matrix))) else found
