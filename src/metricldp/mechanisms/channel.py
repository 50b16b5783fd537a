"""What a channel is; the shapes of report that channels share are in `kinds.py`.

A channel blurs one attribute. Positions count from 0 to size - 1. Of every report the collector
reads a few integer features, and every unbiased decoder is a weighted sum of them:

    F(report) = sum_j coefficients(f)[j] * feature_j(report),   E[F(report) | x] = f(x).

So anything a survey can answer is a weighted sum of products of features, one factor per
attribute, and sums of features are all that a collector ever has to keep.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from metricldp.basics.numbers import root_of
from metricldp.mechanisms.fields import Column, Field
from metricldp.mechanisms.randomness import Randomness
from metricldp_core.distributions import Distribution
from metricldp_core.exact import log_of

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.integer[Any]]

LARGEST_EPSILON = Fraction(64)
"""Beyond this no 64-bit coin could be flipped more rarely; what is kept is then stronger."""
_CHUNK = 1 << 20
"""Features written out at a time, so that they stay in the cache."""
FAINT = 1e-12
"""Variances below this share of the largest are rounding."""
_MOST_READ = 10
"""Up to so many features of a report are read as one small integer."""
_MOST_SELECTED = 24
"""Up to so many codes are summed by one product of matrices, more of them one after the other."""


@dataclass(frozen=True)
class Levels:
    """Decoders that tell few reports apart: a small code per report, and their values at each."""

    table: Floats
    """The value of each decoder at each code, (k, codes)."""
    codes: Callable[[Column], Integers]
    """The code of each report of a column."""


class Cut(NamedTuple):
    """The decoder of a range as F = constant + weight g, with E[F^2 | x] = f(x) + noise for all x.

    The digit g is the sign of one bit, or half the difference of the signs of two: -1, 0 or 1.
    """

    first: int
    second: int | None
    constant: float
    weight: float
    noise: float


class Channel(ABC):
    """One attribute's way from a private position to a report and back to unbiased answers."""

    mechanism: ClassVar[str]
    size: int
    """How many positions the private value can take."""
    cumulates: ClassVar[bool] = False
    """Whether a report is one value, feature j says whether it is j, and prefix sums make sense."""
    is_bits: ClassVar[bool] = False
    """Whether features are the signs of the report's bits, to be read from bit columns."""
    constant: ClassVar[bool] = False
    """Whether feature 0 is the known constant 1."""
    two_values: ClassVar[tuple[int, int] | None] = None
    """What every other feature is, the lower one first, where there are just two such values."""
    encodes_in_threads: ClassVar[bool] = False
    """Whether coins come in blocks so large that threads do not wait for each other."""
    free_when_whole: ClassVar[bool] = True
    """Whether an attribute that a query leaves out costs nothing: its decoder of 1 is 1."""
    linear: ClassVar[bool] = True
    """Whether decoders add up: that of f + g is that of f and that of g together."""

    @property
    @abstractmethod
    def field(self) -> Field: ...

    @property
    @abstractmethod
    def features(self) -> int:
        """How many integer features a report has."""

    @property
    def bits(self) -> int:
        return self.field.bits

    @property
    def largest(self) -> int:
        """The largest |feature| of any report."""
        return 1

    # The device ----------------------------------------------------------------------------------

    @abstractmethod
    def encode(self, positions: Integers, randomness: Randomness) -> Column:
        """Blur positions: the only step that sees private values, and it runs on the device."""

    @property
    @abstractmethod
    def distribution(self) -> Distribution:
        """The output distribution: what a device draws from and a proof examines."""

    @abstractmethod
    def probability(self, x: int, report: Column) -> Fraction:
        """P(report | x) for one row of a column, exactly, from the integers the sampler uses."""

    def log_chances(self, column: Column) -> Floats:
        """ln P(report | x) of every report of a column from every position, (n, size), in floats.

        This is for numeric work that decides no guarantee; channels have quicker ways.
        """
        rows, back = np.unique(column, axis=0, return_inverse=True)
        found = np.full((len(rows), self.size), -np.inf)
        for place, x in np.ndindex(found.shape):
            if chance := self.probability(x, rows[place]):
                found[place, x] = log_of(chance)
        return found[back.reshape(-1)]

    def bit_chances(self) -> Floats | None:
        """P(bit = 1 | x), (bits, size), where a report is bits that are drawn independently."""
        return None

    def every_report(self) -> Column:
        """All possible reports as a column, for proofs by enumeration; only for tiny domains."""
        return self.field.every()

    @property
    def lifetime(self) -> Channel:
        """What all reports of one value together go through; one that remembers has another."""
        return self

    # Decoding ------------------------------------------------------------------------------------

    @abstractmethod
    def coefficients(self, functions: Floats) -> Floats:
        """The unbiased decoder of each function of the position: (..., size) -> (..., features)."""

    @abstractmethod
    def moment(self, functions: Floats, others: Floats | None = None) -> Floats:
        """E[F G | x] at every x, for the decoders F and G of two functions, or E[F^2 | x] of one.

        From (..., size) to (..., size).
        """

    def moments(self, functions: Floats, others: Floats) -> tuple[Floats, Floats]:
        """The moment, and an unbiased decoder of it: as a function of the position it is smooth."""
        moment = self.moment(functions, others)
        return moment, self.coefficients(moment)

    def cells(self, totals: Floats) -> Floats:
        """Sums of features along the first axis to estimated frequencies of positions.

        The transpose of `coefficients`: the frequency of x is the sum of the decoder of [x].
        """
        return np.tensordot(self.coefficients(np.eye(self.size)), totals, axes=1)

    def influence(self, function: Floats) -> float:
        """The largest |F(report)| of any report, or a bound: how far one can move an answer."""
        fixed, weights = self._split(self.coefficients(function))
        return farthest(fixed, np.outer(self._feature_ends, weights))

    @property
    def _feature_ends(self) -> tuple[int, int]:
        """The least and the most that a feature can be."""
        return self.two_values or (-self.largest, self.largest)

    def ends(self, function: Floats) -> tuple[float, float]:
        """The least and the most that F(report) can be, or bounds: as exact as `influence`.

        Where the decoder of a constant is that constant, a function that is raised far enough has
        its largest decoded value by `influence`, and one that is lowered its smallest.
        """
        if self.free_when_whole and self.linear:
            far = 2 * self.influence(function) + 1
            return far - self.influence(function - far), self.influence(function + far) - far
        fixed, weights = self._split(self.coefficients(function))
        ends = np.outer(self._feature_ends, weights)
        return float(fixed + ends.min(axis=0).sum()), float(fixed + ends.max(axis=0).sum())

    def jump(self, functions: Floats) -> Floats:
        """How far one coin can move each answer, (k, size) -> (k,): the largest, or a bound of it.

        The errors of an answer are a sum of independent jumps; how far they are from normal is
        decided by the square of the largest, against their variance. Where one coin has many
        outcomes, the fourth moment over the second stands for that square, as it does where jumps
        are rare and all alike.
        """
        influence = np.array([self.influence(function) for function in functions])
        return np.asarray(influence + np.abs(functions).max(axis=-1))

    def hidden(self, moments: Floats) -> Floats:
        """How much of a variance chance can hide, from what one person at x adds to it.

        Estimated variances come in steps, too. For a sum whose variance is c times its mean, c is
        the size of its steps, or more: (k, size) -> (k,).
        """
        most = moments.max(axis=-1, keepdims=True)
        found = np.zeros(len(moments))
        differ = (moments.min(axis=-1) < (1 - FAINT) * most[:, 0]).nonzero()[0]
        if len(differ):
            some = moments[differ]
            spread = self.moment(some) - some * some
            seen = some > FAINT * most[differ]
            ratio = np.divide(spread, some, out=np.zeros_like(spread), where=seen)
            found[differ] = ratio.max(axis=-1, initial=0.0)
        return found

    def mean_square(self, gram: Floats, prior: Floats | None = None) -> float:
        """The sum over a workload's rows of their decoders' squares, mean over people.

        Of linear decoders: the rows of any root of the workload's Gram matrix have the same sum.
        """
        assert self.linear
        rows = root_of(gram)
        parts = (self.moment(rows[part]) for part in self._parts(len(rows)))
        return float(sum(np.average(part, axis=-1, weights=prior).sum() for part in parts))

    def mean_frequency_variance(self) -> float:
        """The variance one person adds to a frequency, mean over all values and positions."""
        values = np.eye(self.size)
        return float((self.moment(values) - values).mean())

    def mean_range_variance(self) -> float:
        """The variance one person adds to a count, mean over all ranges and positions."""
        size = self.size
        return self.mean_square(ranges_gram(size)) / (size * (size + 1) / 2) - (size + 2) / (
            3 * size
        )

    def cut(self, first: int, end: int) -> Cut | None:
        """A range of positions, not all of them, in closed form; None where there is none."""
        return None

    # Reading reports -----------------------------------------------------------------------------

    @abstractmethod
    def expand(self, column: Column) -> Integers:
        """Every feature of every report: (n, features)."""

    def bit(self, column: Column, position: int) -> npt.NDArray[np.uint8]:
        if column.ndim == 1:
            return np.asarray(column >> column.dtype.type(position) & 1, dtype=np.uint8)
        return np.asarray(column[:, position >> 3] >> np.uint8(position & 7) & np.uint8(1))

    def raised(self, column: Column, feature: int) -> npt.NDArray[np.uint8]:
        """1 where a feature, counted without the constant, has the higher of its two values."""
        assert self.two_values
        higher: npt.NDArray[np.bool_] = (
            self.expand(column)[:, feature + self.constant] == self.two_values[1]
        )
        return higher.view(np.uint8)

    def levels(self, coefficients: Floats) -> Levels | None:
        """Decoders (k, features) as a table over small codes: the features that any of them uses.

        None where too many different codes would be needed; `values` always works.
        """
        fixed, weights = self._split(coefficients)
        used = np.flatnonzero(weights.any(axis=0)).tolist()
        if self.two_values is None or len(used) > _MOST_READ:
            return None
        low, high = self.two_values
        ones = np.arange(1 << len(used))[:, None] >> np.arange(len(used)) & 1
        table = weights[:, used] @ (low + (high - low) * ones.T)

        def read(column: Column) -> Integers:
            codes = np.zeros(len(column), dtype=np.min_scalar_type(len(ones)))
            for j, feature in enumerate(used):
                codes |= self.raised(column, feature).astype(codes.dtype) << codes.dtype.type(j)
            return codes

        return Levels(table + np.expand_dims(fixed, -1), read)

    def _split(self, coefficients: Floats) -> tuple[Floats, Floats]:
        """What is multiplied with the constant, and with all other features."""
        fixed = coefficients[..., 0] if self.constant else np.zeros(())
        return fixed, coefficients[..., self.constant :]

    def values(self, column: Column, coefficients: Floats) -> Floats:
        """The value of each decoder at each report: (k, n)."""
        result = np.empty((len(coefficients), len(column)))
        for part in self._parts(len(column)):
            result[:, part] = coefficients @ self.expand(column[part]).astype(np.float64).T
        return result

    def totals(self, column: Column, codes: Integers, count: int) -> npt.NDArray[np.int64]:
        """Sums of every feature over the reports of each code: (features, count), exact.

        In floats that hold every sum as it is: a part is at most 2^21 features below 2^32.
        """
        result = np.zeros((self.features, count), dtype=np.int64)
        order = np.argsort(codes, kind="stable") if count > _MOST_SELECTED else slice(None)
        column, codes = column[order], codes[order]
        for part in self._parts(len(column)):
            features, here = self.expand(column[part]), codes[part]
            kind = np.float32 if len(here) * self.largest < 1 << 24 else np.float64
            if count > _MOST_SELECTED:
                first = np.flatnonzero(np.diff(here, prepend=-1))
                sums = np.add.reduceat(features.astype(kind), first, axis=0).T
                result[:, here[first]] += sums.astype(np.int64)
            else:
                chosen = (here[:, None] == np.arange(count)).astype(kind)
                result += (features.T.astype(kind) @ chosen).astype(np.int64)
        return result

    def _parts(self, count: int) -> Iterator[slice]:
        """Some reports after the other, so that their features stay in the cache."""
        step = max(1, _CHUNK // self.features)
        return (slice(start, start + step) for start in range(0, count, step))


def ranges_gram(size: int) -> Floats:
    """How many ranges hold both of two positions."""
    at = np.arange(size)
    return np.asarray((np.minimum(at[:, None], at) + 1.0) * (size - np.maximum(at[:, None], at)))


def farthest(fixed: Floats | float, ends: Floats) -> float:
    """The largest |fixed + sum| that can be reached with one of two ends for each part."""
    most, least = (fixed + pick(axis=0).sum() for pick in (ends.max, ends.min))
    return float(max(most, -least))
