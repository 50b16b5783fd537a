"""Channels: from a private position to a report, and from reports to features.

A channel randomizes one attribute, or the cells of several. Positions count from 0 to size - 1. Its
output distribution belongs to the trusted core, and its moments are all that estimation needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.mechanisms.exact_probability import exact_probability
from metricldp.mechanisms.fields import Bits, Column, Field, Number
from metricldp.mechanisms.moments import Floats, Moments, OneHot
from metricldp.mechanisms.randomness import Randomness
from metricldp_core.distributions import Distribution, OneInteger
from metricldp_core.exact import log_of

Integers = npt.NDArray[np.integer[Any]]

LARGEST_EPSILON = Fraction(64)
"""With a larger epsilon, 64-bit probabilities give a stronger guarantee than was asked for."""
_CHUNK = 1 << 20
"""Features computed at a time, so that they stay in the cache."""
_MOST_READ = 10
"""Up to so many features of a report are read as one small integer."""
_MOST_SELECTED = 24
"""Up to so many codes are summed by one product of matrices, more of them one after the other."""


@dataclass(frozen=True)
class Levels:
    """Estimators that depend on a small code of each report, and their values at each code."""

    table: Floats
    """The value of each estimator at each code, (k, codes)."""
    codes: Callable[[Column], Integers]
    """The code of each report of a column."""


class Channel(ABC):
    """The way of one attribute from private positions to reports and their features."""

    mechanism: ClassVar[str]
    """The name of a baseline, or of a version of threshold bits."""
    size: int
    """The number of positions."""
    is_bits: ClassVar[bool] = False
    """Whether features are the signs of the report's bits, to be read from bit columns."""
    two_values: ClassVar[tuple[int, int] | None] = None
    """The values of every feature but the constant, the lower one first, if there are only two."""

    @property
    @abstractmethod
    def field(self) -> Field: ...

    if TYPE_CHECKING:  # a property would become the default of a dataclass field

        @property
        def distribution(self) -> Distribution:
            """The output distribution: a device draws from it, and a proof examines it."""

    @property
    @abstractmethod
    def moments(self) -> Moments:
        """The estimators, and their variances."""

    @abstractmethod
    def sample(self, positions: Integers, randomness: Randomness) -> Column:
        """Randomize positions: the only step that sees private values; it runs on the device."""

    @abstractmethod
    def features(self, column: Column, chosen: Integers | None = None) -> Integers:
        """All features of every report, or those chosen, counted without the constant."""

    @abstractmethod
    def probability(self, x: int, report: Column) -> Fraction:
        """P(report | x) for one row of a column, exactly."""

    @property
    def bits(self) -> int:
        return self.field.bits

    @property
    def largest(self) -> int:
        """The largest |feature| of any report."""
        return 1

    def log_likelihood(self, column: Column) -> Floats:
        """ln P(report | x) of every report of a column from every position, (n, size), in floats.

        No guarantee depends on it. Channels have faster ways.
        """
        rows, back = np.unique(column, axis=0, return_inverse=True)
        logs = np.full((len(rows), self.size), -np.inf)
        for place, x in np.ndindex(logs.shape):
            if probability := self.probability(x, rows[place]):
                logs[place, x] = log_of(probability)
        return logs[back.reshape(-1)]

    def every_report(self) -> Column:
        """All possible reports as a column, for proofs by enumeration; only for tiny domains."""
        return self.field.every()

    def levels(self, coefficients: Floats) -> Levels | None:
        """Estimators (k, features) as a table over small codes: the features that any of them uses.

        None if too many different codes would be needed; `values` always works.
        """
        constant = int(self.moments.has_constant)
        fixed = coefficients[..., 0] if constant else np.zeros(())
        weights = coefficients[..., constant:]
        used = np.flatnonzero(weights.any(axis=0))
        if self.two_values is None or len(used) > _MOST_READ:
            return None
        low, high = self.two_values
        ones = np.arange(1 << len(used))[:, None] >> np.arange(len(used)) & 1
        table = weights[:, used] @ (low + (high - low) * ones.T)

        def read(column: Column) -> Integers:
            codes = np.zeros(len(column), dtype=np.min_scalar_type(len(ones)))
            for j, feature in enumerate(self.features(column, used).T):
                codes |= (feature == high).astype(codes.dtype) << codes.dtype.type(j)
            return codes

        return Levels(table + np.expand_dims(fixed, -1), read)

    def values(self, column: Column, coefficients: Floats) -> Floats:
        """The value of each estimator at each report: (k, n)."""
        result = np.empty((len(coefficients), len(column)))
        for part in self._parts(len(column)):
            result[:, part] = coefficients @ self.features(column[part]).astype(np.float64).T
        return result

    def totals(self, column: Column, codes: Integers, count: int) -> npt.NDArray[np.int64]:
        """Sums of every feature over the reports of each code: (features, count), exact.

        In floats that hold every sum as it is: a part is at most 2^21 features below 2^32.
        """
        result = np.zeros((self.moments.feature_count, count), dtype=np.int64)
        order = np.argsort(codes, kind="stable") if count > _MOST_SELECTED else slice(None)
        column, codes = column[order], codes[order]
        for part in self._parts(len(column)):
            features, here = self.features(column[part]), codes[part]
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
        step = max(1, _CHUNK // self.moments.feature_count)
        return (slice(start, start + step) for start in range(0, count, step))


class CoreChannel(Channel):
    """A channel whose numbers are those of a distribution of the trusted core."""

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.distribution.size

    def probability(self, x: int, report: Column) -> Fraction:
        number = int.from_bytes(report.tobytes(), "little") if np.ndim(report) else int(report)
        return exact_probability(self.distribution, x, number)


class NumberChannel(Channel):
    """A report is one integer below `outputs`, whatever its features are."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """The number of different reports."""

    @cached_property
    def field(self) -> Number:
        return Number(self.outputs)


class IntegerChannel(NumberChannel):
    """Feature j of a report, one integer below `outputs`, says whether the report is j."""

    @property
    def outputs(self) -> int:
        assert isinstance(self.distribution, OneInteger)
        return self.distribution.outputs

    @property
    @abstractmethod
    def moments(self) -> OneHot: ...

    def log_likelihood(self, column: Column) -> Floats:
        reports, back = np.unique(column, return_inverse=True)
        with np.errstate(divide="ignore"):
            return np.log(self.moments.mean(self.features(reports).astype(np.float64)))[back]

    def features(self, column: Column, chosen: Integers | None = None) -> npt.NDArray[np.int8]:
        chosen = np.arange(self.outputs) if chosen is None else chosen
        return np.asarray(column[:, None] == chosen, dtype=np.int8)

    def levels(self, coefficients: Floats) -> Levels | None:
        """Reports with equal coefficients share a code: a range has half a dozen of them."""
        table, code_of = np.unique(coefficients, axis=1, return_inverse=True)
        narrow = code_of.reshape(-1).astype(np.min_scalar_type(table.shape[1]))
        return Levels(table, lambda column: narrow[column])

    def values(self, column: Column, coefficients: Floats) -> Floats:
        return np.asarray(coefficients[:, column])

    def totals(self, column: Column, codes: Integers, count: int) -> npt.NDArray[np.int64]:
        """A histogram of reports by code."""
        joint = codes.astype(np.int64) * self.outputs + column
        counts = np.bincount(joint, minlength=count * self.outputs)
        return counts.reshape(count, self.outputs).T


class BitChannel(Channel):
    """A report is `bits` bits; the features behind the constant are +1 or -1 for each."""

    is_bits: ClassVar[bool] = True
    two_values: ClassVar[tuple[int, int] | None] = (-1, 1)

    @property
    def bits(self) -> int:
        return self.distribution.bits

    @cached_property
    def field(self) -> Bits:
        return Bits(self.bits)

    def features(self, column: Column, chosen: Integers | None = None) -> npt.NDArray[np.int8]:
        if chosen is not None:
            picked = column[:, chosen >> 3] >> (chosen & 7).astype(np.uint8) & np.uint8(1)
            return 2 * picked.view(np.int8) - np.int8(1)
        constant = int(self.moments.has_constant)
        signs = np.ones((len(column), constant + self.bits), dtype=np.int8)
        bits = np.unpackbits(column, axis=1, count=self.bits, bitorder="little").view(np.int8)
        signs[:, constant:] = 2 * bits - np.int8(1)
        return signs
