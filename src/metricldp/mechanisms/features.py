"""The shapes of report that channels share: a number, the indicators of one, bits."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.mechanisms.channel import FAINT, Channel, Floats, Integers, Levels
from metricldp.mechanisms.fields import Bits, Column, Number


class NumberChannel(Channel):
    """A report is one integer below `outputs`, whatever is read of it."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many integers a report can be."""

    @cached_property
    def field(self) -> Number:
        return Number(self.outputs)


class IntegerChannel(NumberChannel):
    """Feature j of a report, one integer below `outputs`, says whether it is j."""

    cumulates: ClassVar[bool] = True

    @property
    def outputs(self) -> int:
        return self.size

    @property
    def features(self) -> int:
        return self.outputs

    @abstractmethod
    def mean(self, values: Floats) -> Floats:
        """E[v(report) | x] at every x, for functions v of the report."""

    def spread(self, shares: Floats) -> Floats:
        """How likely each report is, if people are spread so: (..., size) -> (..., outputs).

        The transpose of `mean`; channels have quicker ways.
        """
        return np.asarray(shares @ self.chances.T)

    @cached_property
    def chances(self) -> Floats:
        """P(report | x) in floats, (outputs, size)."""
        return self.mean(np.eye(self.outputs))

    def log_chances(self, column: Column) -> Floats:
        reports, back = np.unique(column, return_inverse=True)
        with np.errstate(divide="ignore"):
            return np.log(self.mean(self.expand(reports).astype(np.float64)))[back]

    def moment(self, functions: Floats, others: Floats | None = None) -> Floats:
        return self.mean(self._product(functions, others))

    def moments(self, functions: Floats, others: Floats) -> tuple[Floats, Floats]:
        """F G is its own decoder, and with as many reports as positions the only one there is."""
        if self.outputs > self.size:
            return super().moments(functions, others)
        product = self._product(functions, others)
        return self.mean(product), product

    def _product(self, functions: Floats, others: Floats | None) -> Floats:
        first = self.coefficients(functions)
        if others is None or others is functions:
            return first * first
        return first * self.coefficients(others)

    def jump(self, functions: Floats) -> Floats:
        """The root of E[(F - f)^4 | x] / E[(F - f)^2 | x] at the worst x."""
        middle = functions.mean(axis=-1, keepdims=True)
        f, values = functions - middle, self.coefficients(functions) - middle
        squares, f2 = values * values, f * f
        second, third, fourth = map(self.mean, (squares, squares * values, squares * squares))
        variance = second - f2
        peak = fourth - 4 * f * third + 3 * f2 * (2 * second - f2)
        least = FAINT * second.max(axis=-1, keepdims=True)
        ratio = np.divide(peak, variance, out=np.zeros_like(peak), where=variance > least)
        return np.asarray(np.sqrt(ratio.max(axis=-1)))

    def influence(self, function: Floats) -> float:
        """The largest coefficient, because exactly one feature is 1."""
        return float(np.abs(self.coefficients(function)).max())

    def ends(self, function: Floats) -> tuple[float, float]:
        found = self.coefficients(function)
        return float(found.min()), float(found.max())

    def expand(self, column: Column) -> npt.NDArray[np.int8]:
        return np.asarray(column[:, None] == np.arange(self.outputs), dtype=np.int8)

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
    encodes_in_threads: ClassVar[bool] = True

    @property
    @abstractmethod
    def bits(self) -> int: ...

    @cached_property
    def field(self) -> Bits:
        return Bits(self.bits)

    @property
    def features(self) -> int:
        return self.bits + self.constant

    def jump(self, functions: Floats) -> Floats:
        """What turning one bit does."""
        return np.asarray(2 * np.abs(self._split(self.coefficients(functions))[1]).max(axis=-1))

    def expand(self, column: Column) -> npt.NDArray[np.int8]:
        signs = np.ones((len(column), self.features), dtype=np.int8)
        bits = np.unpackbits(column, axis=1, count=self.bits, bitorder="little").view(np.int8)
        signs[:, self.constant :] = 2 * bits - np.int8(1)
        return signs

    def raised(self, column: Column, feature: int) -> npt.NDArray[np.uint8]:
        return self.bit(column, feature)
