"""What a channel is, and the two shapes of report that channels share.

A channel blurs one attribute. Positions count from 0 to size - 1. Of every report the collector
reads a few integer features, and every unbiased decoder is a weighted sum of them:

    F(report) = sum_j coefficients(f)[j] * feature_j(report),   E[F(report) | x] = f(x).

So anything a survey can answer is a weighted sum of products of features, one factor per
attribute, and sums of features are all that a collector ever has to keep.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from metricldp.basics.canonical import hexadecimal
from metricldp.coins.stream import Coins
from metricldp.coins.tape import Tape

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.integer[Any]]
Column = npt.NDArray[Any]
"""Reports of one attribute: integers of shape (n,), or packed fields of shape (n, bytes)."""

LARGEST_EPSILON = Fraction(64)
"""Beyond this no 64-bit coin could be flipped more rarely; what is kept is then stronger."""
_CHUNK = 1 << 22
"""Bits unpacked at a time where a pass needs every bit of the reports."""
_MOST_BITS = 10
"""Up to this many bits of a report are read as one small integer."""


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


class Field(ABC):
    """A column of a report: how wide it is, and what it may hold."""

    @property
    @abstractmethod
    def bits(self) -> int:
        """The size of one report."""

    @abstractmethod
    def empty(self, count: int) -> Column:
        """A column of `count` reports, to be filled."""

    @abstractmethod
    def invalid(self, column: Column) -> npt.NDArray[np.bool_]:
        """Which rows of a column no device could have sent."""


@dataclass(frozen=True)
class Clear(Field):
    """A public number between low and high, sent as a 64-bit float and not blurred at all."""

    low: float
    high: float

    @property
    def bits(self) -> int:
        """A float."""
        return 64

    def empty(self, count: int) -> Column:
        """A column of floats."""
        return np.empty(count)

    def invalid(self, column: Column) -> npt.NDArray[np.bool_]:
        """Floats outside the interval, and what is no number."""
        wrong: npt.NDArray[np.bool_] = ~((column >= self.low) & (column <= self.high))
        return wrong


class Channel(Field):
    """One attribute's way from a private position to a report and back to unbiased answers."""

    mechanism: ClassVar[str]
    tight: ClassVar[bool] = True
    """Whether the whole epsilon is used: the worst ratio is e^epsilon, up to rounding."""
    size: int
    """How many positions the private value can take."""
    cumulates: ClassVar[bool] = False
    """Whether a report is one value, feature j says whether it is j, and prefix sums make sense."""
    is_bits: ClassVar[bool] = False
    """Whether features are the signs of the report's bits, to be read from bit columns."""
    constant: ClassVar[bool] = False
    """Whether feature 0 is the known constant 1."""
    encodes_in_threads: ClassVar[bool] = False
    """Whether coins come in blocks so large that threads do not wait for each other."""
    made_for_a_line: ClassVar[bool] = False
    """Whether it keeps epsilon per step: of any other metric the steepest line below it."""

    @property
    @abstractmethod
    def features(self) -> int:
        """How many integer features a report has."""

    @abstractmethod
    def encode(self, positions: Integers, coins: Coins) -> Column:
        """Blur positions: the only step that sees private values, and it runs on the device."""

    @abstractmethod
    def blur(self, position: int, tape: Tape) -> int:
        """Blur one position, with the law of `encode`: the report as an integer of `bits` bits."""

    @abstractmethod
    def coefficients(self, functions: Floats) -> Floats:
        """The unbiased decoder of each function of the position: (..., size) -> (..., features)."""

    @abstractmethod
    def moment(self, functions: Floats, others: Floats) -> Floats:
        """E[F G | x] at every x, for the decoders F and G of two functions."""

    def moments(self, functions: Floats, others: Floats) -> tuple[Floats, Floats]:
        """The moment, and an unbiased decoder of it: as a function of the position it is smooth."""
        moment = self.moment(functions, others)
        return moment, self.coefficients(moment)

    @abstractmethod
    def cells(self, totals: Floats) -> Floats:
        """Sums of features along the first axis to estimated frequencies of positions.

        The transpose of `coefficients`: the frequency of x is the sum of the decoder of [x].
        """

    def second_moment(self, functions: Floats) -> Floats:
        """S(x) = E[F^2 | x] for the decoder F of each function: (..., size) -> (..., size)."""
        return self.moment(functions, functions)

    @abstractmethod
    def worst_ratio(self, x: int, other: int) -> Fraction:
        """The largest P(report | x) / P(report | other), either way round: exact, or rounded up."""

    @abstractmethod
    def probability(self, x: int, report: Column) -> Fraction:
        """P(report | x) for one row of a column, exactly, from the integers the sampler uses."""

    def law(self) -> dict[str, Any]:
        """The integers that the sampler uses, as plain data: all that another language needs.

        Probabilities over 2^64 are 16 hexadecimal digits. Without words of its own, a channel says
        its fields, and whole numbers of 2^53 and above are written in the same way.
        """
        found = {f.name: _plain(getattr(self, f.name)) for f in fields(cast(Any, self))}
        return {"law": self.mechanism, **found}

    @abstractmethod
    def every_report(self) -> Column:
        """All possible reports as a column, for proofs by enumeration; only for tiny domains."""

    @abstractmethod
    def influence(self, function: Floats) -> float:
        """The largest |F(report)| of any report: how far one report can move an answer."""

    @abstractmethod
    def levels(self, coefficients: Floats) -> Levels | None:
        """Decoders (k, features) as a table over small codes.

        None where too many different codes would be needed; `values` always works.
        """

    @abstractmethod
    def expand(self, column: Column) -> Integers:
        """Every feature of every report: (n, features)."""

    def bit(self, column: Column, position: int) -> npt.NDArray[np.uint8]:
        """One bit of every report, the lowest is 0."""
        if column.ndim == 1:
            return np.asarray(column >> column.dtype.type(position) & 1, dtype=np.uint8)
        return np.asarray(column[:, position >> 3] >> np.uint8(position & 7) & np.uint8(1))

    def cut(self, first: int, end: int) -> Cut | None:
        """A range of positions, not all of them, in closed form; None where there is none."""
        return None

    @property
    def largest(self) -> int:
        """The largest |feature| of any report."""
        return 1

    @abstractmethod
    def values(self, column: Column, coefficients: Floats) -> Floats:
        """The value of each decoder at each report: (k, n)."""

    @abstractmethod
    def totals(self, column: Column, codes: Integers, count: int) -> npt.NDArray[np.int64]:
        """Sums of every feature over the reports of each code: (features, count), exact."""

    @property
    def same_ratio_for_all_pairs(self) -> bool:
        """Whether every two positions are told apart equally well, so that one pair shows all."""
        return False

    @property
    def free_when_whole(self) -> bool:
        """Whether an attribute that a query leaves out costs nothing: its decoder of 1 is 1."""
        return True

    @property
    def linear(self) -> bool:
        """Whether decoders add up: that of f + g is that of f and that of g together."""
        return True


class NumberChannel(Channel):
    """A report is one integer below `outputs`, whatever is read of it."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many integers a report can be."""

    @property
    def bits(self) -> int:
        """The binary digits of the largest report."""
        return (self.outputs - 1).bit_length()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned integer that holds a report."""
        return np.min_scalar_type(self.outputs - 1)

    def empty(self, count: int) -> Column:
        """A column of integers."""
        return np.empty(count, dtype=self.dtype)

    def every_report(self) -> Column:
        """Every integer once."""
        return np.arange(self.outputs, dtype=self.dtype)

    def invalid(self, column: Column) -> npt.NDArray[np.bool_]:
        """Integers outside 0 .. outputs - 1."""
        wrong: npt.NDArray[np.bool_] = (column < 0) | (column >= self.outputs)
        return wrong


class IntegerChannel(NumberChannel):
    """Feature j of a report, one integer below `outputs`, says whether it is j."""

    cumulates: ClassVar[bool] = True

    @property
    def outputs(self) -> int:
        """As many as there are positions, unless a channel says otherwise."""
        return self.size

    @property
    def features(self) -> int:
        """One indicator for each integer."""
        return self.outputs

    @abstractmethod
    def mean(self, values: Floats) -> Floats:
        """E[v(report) | x] at every x, for functions v of the report."""

    def moment(self, functions: Floats, others: Floats) -> Floats:
        """The mean of F G, which is a function of the report."""
        return self.mean(self._product(functions, others))

    def moments(self, functions: Floats, others: Floats) -> tuple[Floats, Floats]:
        """F G is its own decoder, and with as many reports as positions the only one there is."""
        if self.outputs > self.size:
            return super().moments(functions, others)
        product = self._product(functions, others)
        return self.mean(product), product

    def _product(self, functions: Floats, others: Floats) -> Floats:
        first = self.coefficients(functions)
        return first * (first if others is functions else self.coefficients(others))

    def influence(self, function: Floats) -> float:
        """The largest coefficient, because exactly one feature is 1."""
        return float(np.abs(self.coefficients(function)).max())

    def levels(self, coefficients: Floats) -> Levels | None:
        """Reports with equal coefficients share a code: a range has half a dozen of them."""
        table, code_of = np.unique(coefficients, axis=1, return_inverse=True)
        narrow = code_of.reshape(-1).astype(np.min_scalar_type(table.shape[1]))
        return Levels(table, lambda column: narrow[column])

    def expand(self, column: Column) -> npt.NDArray[np.int8]:
        """A one where the report is."""
        return np.asarray(column[:, None] == np.arange(self.outputs), dtype=np.int8)

    def values(self, column: Column, coefficients: Floats) -> Floats:
        """One look-up per report."""
        return np.asarray(coefficients[:, column])

    def totals(self, column: Column, codes: Integers, count: int) -> npt.NDArray[np.int64]:
        """A histogram of reports by code."""
        joint = codes.astype(np.int64) * self.outputs + column
        counts = np.bincount(joint, minlength=count * self.outputs)
        return counts.reshape(count, self.outputs).T


class BitChannel(Channel):
    """A report is `bits` bits, first bit lowest in its byte; features are +1 or -1 for each.

    Where `constant` is true, feature 0 is the known constant 1 and the bits follow it.
    """

    is_bits: ClassVar[bool] = True
    encodes_in_threads: ClassVar[bool] = True

    @property
    def features(self) -> int:
        """The bits, and the constant where it is used."""
        return self.bits + self.constant

    @property
    def width(self) -> int:
        """Bytes of one report."""
        return -(-self.bits // 8)

    def empty(self, count: int) -> Column:
        """A matrix of bytes, one row a report."""
        return np.empty((count, self.width), dtype=np.uint8)

    def every_report(self) -> Column:
        """All 2^bits patterns."""
        patterns = np.arange(1 << self.bits, dtype="<u8")
        return patterns.view(np.uint8).reshape(-1, 8)[:, : self.width].copy()

    def invalid(self, column: Column) -> npt.NDArray[np.bool_]:
        """Rows whose padding bits are not zero."""
        spare = 8 * self.width - self.bits
        wrong: npt.NDArray[np.bool_] = column[:, -1] >= 1 << (8 - spare)
        return wrong

    def expand(self, column: Column) -> npt.NDArray[np.int8]:
        """A sign for each bit."""
        bits = np.unpackbits(column, axis=1, count=self.bits, bitorder="little").view(np.int8)
        signs = 2 * bits - np.int8(1)
        if self.constant:
            signs = np.concatenate([np.ones((len(column), 1), dtype=np.int8), signs], axis=1)
        return signs

    def influence(self, function: Floats) -> float:
        """The largest of a constant plus signed coefficients."""
        weights = self.coefficients(function)
        fixed = abs(weights[0]) if self.constant else 0.0
        return float(fixed + np.abs(weights[self.constant :]).sum())

    def levels(self, coefficients: Floats) -> Levels | None:
        """The bits that any decoder uses, read as one small integer."""
        used = np.flatnonzero(coefficients[:, self.constant :].any(axis=0))
        if len(used) > _MOST_BITS:
            return None
        signs = 2.0 * (np.arange(1 << len(used))[:, None] >> np.arange(len(used)) & 1) - 1.0
        table = coefficients[:, used + self.constant] @ signs.T
        if self.constant:
            table += coefficients[:, :1]
        return Levels(table, lambda column: self._read(column, used))

    def _read(self, column: Column, positions: Integers) -> Integers:
        codes = np.zeros(len(column), dtype=np.min_scalar_type(1 << len(positions)))
        for j, position in enumerate(positions):
            codes |= self.bit(column, int(position)).astype(codes.dtype) << codes.dtype.type(j)
        return codes

    def values(self, column: Column, coefficients: Floats) -> Floats:
        """A weighted sum of all bits of each report, a chunk of reports at a time."""
        result = np.empty((len(coefficients), len(column)))
        for part in self._parts(column):
            signs = self.expand(column[part]).astype(np.float64)
            result[:, part] = coefficients @ signs.T
        return result

    def _parts(self, column: Column) -> Iterator[slice]:
        """Slices of at most 2^22 bits, and so of less than 2^24 reports."""
        step = max(1, _CHUNK // self.features)
        return (slice(start, start + step) for start in range(0, len(column), step))

    def totals(self, column: Column, codes: Integers, count: int) -> npt.NDArray[np.int64]:
        """Sums of signs by code; float32 products of at most a chunk of signs are exact."""
        result = np.zeros((self.features, count), dtype=np.int64)
        for part in self._parts(column):
            signs = self.expand(column[part]).astype(np.float32)
            chosen = codes[part, None] == np.arange(count)
            result += (signs.T @ chosen.astype(np.float32)).astype(np.int64)
        return result


def _plain(value: Any) -> Any:
    """What a channel is made of, as plain data."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, int) and value >= 1 << 53:
        return hexadecimal(value)
    return value
