"""Fields: what a column of a report may hold, and how it is written down, bit after bit.

Number   one integer
Bits     so many bits
Struct   several integers one after the other
Clear    a public number, not blurred at all

Everything is written lowest bit first, bytes with their lowest bit first, integers lowest byte
first. A column of numbers has the shape (n,), one of bits or structs is bytes (n, width).
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, product
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
"""Reports of one attribute: integers of shape (n,), or packed fields of shape (n, bytes)."""
Mask = npt.NDArray[np.bool_]
BitMatrix = npt.NDArray[np.uint8]
"""A row for each report, a zero or one for each of its bits, (n, bits)."""
_LARGEST_DICTIONARY = 1 << 18
"""Integers of four bytes in a page of Parquet."""


class Field(ABC):
    """A column of a report: how wide it is, and what it may hold."""

    @property
    @abstractmethod
    def bits(self) -> int: ...

    @property
    def small_numbers(self) -> bool:
        """Whether values are so few that a file had better store them in a dictionary."""
        return False

    @property
    @abstractmethod
    def possible(self) -> str:
        """What a row may hold, in words."""

    @abstractmethod
    def empty(self, count: int) -> Column:
        """A column of `count` reports, to be filled."""

    @abstractmethod
    def invalid(self, column: Column) -> Mask:
        """Which rows of a column no device could have sent."""

    def impossible(self) -> Callable[[int], bool] | None:
        """Whether no device could have sent a field, as a plain integer; None if each can be sent.

        The same as `invalid`, of one report at a time and without arrays.
        """
        width = -(-self.bits // 8)

        def through_arrays(number: int) -> bool:
            row = np.frombuffer(number.to_bytes(width, "little"), dtype=np.uint8)[np.newaxis]
            bits = np.unpackbits(row, axis=1, count=self.bits, bitorder="little")
            return bool(self.invalid(self.unpack(bits))[0])

        return through_arrays

    def every(self) -> Column:
        """All that can be sent, for proofs by enumeration; only for few bits."""
        raise NotImplementedError(f"all values of {self} are too many to be listed")

    def numbers(self, column: Column) -> list[Column]:
        """The integers that stand in a row, where bits mean a number together."""
        return []

    def pack(self, column: Column) -> BitMatrix:
        if column.ndim == 1:
            little = column.astype(column.dtype.newbyteorder("<"))
            column = little.view(np.uint8).reshape(len(column), -1)
        return np.unpackbits(column, axis=1, count=self.bits, bitorder="little")

    def unpack(self, bits: BitMatrix) -> Column:
        packed, empty = np.packbits(bits, axis=1, bitorder="little"), self.empty(0)
        if empty.ndim == 2:
            return packed
        wide = np.zeros((len(packed), empty.itemsize), dtype=np.uint8)
        wide[:, : packed.shape[1]] = packed
        return np.asarray(wide.view(empty.dtype.newbyteorder("<")).reshape(-1), dtype=empty.dtype)


@dataclass(frozen=True)
class Number(Field):
    """An integer below `outputs`, in the smallest unsigned type that holds it."""

    outputs: int

    @property
    def bits(self) -> int:
        return (self.outputs - 1).bit_length()

    @property
    def possible(self) -> str:
        return f"whole numbers from 0 to {self.outputs - 1}"

    @property
    def small_numbers(self) -> bool:
        return self.outputs <= _LARGEST_DICTIONARY

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        return np.min_scalar_type(self.outputs - 1)

    def empty(self, count: int) -> Column:
        return np.empty(count, dtype=self.dtype)

    def invalid(self, column: Column) -> Mask:
        return np.asarray((column < 0) | (column >= self.outputs))

    def impossible(self) -> Callable[[int], bool] | None:
        return None if self.outputs == 1 << self.bits else self.outputs.__le__

    def numbers(self, column: Column) -> list[Column]:
        return [column]

    def every(self) -> Column:
        return np.arange(self.outputs, dtype=self.dtype)


@dataclass(frozen=True)
class Clear(Field):
    """A public number between low and high, sent as a 64-bit float."""

    low: float
    high: float

    @property
    def bits(self) -> int:
        return 64

    @property
    def possible(self) -> str:
        return f"numbers from {self.low:g} to {self.high:g}"

    def empty(self, count: int) -> Column:
        return np.empty(count)

    def invalid(self, column: Column) -> Mask:
        """Floats outside the interval, and what is no number."""
        return np.asarray(~((column >= self.low) & (column <= self.high)))

    def impossible(self) -> Callable[[int], bool] | None:
        def outside(number: int) -> bool:
            return not self.low <= struct.unpack("<d", number.to_bytes(8, "little"))[0] <= self.high

        return outside


class Bytes(Field):
    """Bits in whole bytes, with zeros behind the last one."""

    @property
    def width(self) -> int:
        return -(-self.bits // 8)

    @property
    def possible(self) -> str:
        return f"{self.width} bytes with {self.bits} bits, the rest 0"

    def empty(self, count: int) -> Column:
        return np.empty((count, self.width), dtype=np.uint8)

    def invalid(self, column: Column) -> Mask:
        return np.asarray(column[:, -1] >= 1 << (8 - (8 * self.width - self.bits)))

    def listed(self, reports: Sequence[int]) -> Column:
        raw = b"".join(report.to_bytes(self.width, "little") for report in reports)
        return np.frombuffer(raw, dtype=np.uint8).reshape(-1, self.width)


@dataclass(frozen=True)
class Bits(Bytes):
    """So many bits, each of them 0 or 1."""

    count: int

    @property
    def bits(self) -> int:
        return self.count

    def impossible(self) -> Callable[[int], bool] | None:
        return None

    def every(self) -> Column:
        return self.listed(range(1 << self.count))


@dataclass(frozen=True)
class Struct(Bytes):
    """An integer below each of `outputs`, one after the other."""

    outputs: tuple[int, ...]

    @cached_property
    def _widths(self) -> list[int]:
        return [(outputs - 1).bit_length() for outputs in self.outputs]

    @cached_property
    def starts(self) -> list[int]:
        return list(accumulate(self._widths[:-1], initial=0))

    @property
    def bits(self) -> int:
        return sum(self._widths)

    @property
    def possible(self) -> str:
        return f"{len(self.outputs)} whole numbers in {self.bits} bits, each below a limit"

    def read(self, column: Column, part: int) -> npt.NDArray[np.int64]:
        return read_number(column, self.starts[part], self._widths[part])

    def write(self, column: Column, part: int, numbers: npt.NDArray[np.integer[Any]]) -> None:
        """Into a column that has zeros there."""
        write_number(column, self.starts[part], self._widths[part], numbers)

    def numbers(self, column: Column) -> list[Column]:
        return [self.read(column, part) for part in range(len(self.outputs))]

    def joined(self, numbers: Sequence[int]) -> int:
        return sum(number << start for number, start in zip(numbers, self.starts, strict=True))

    def invalid(self, column: Column) -> Mask:
        wrong = super().invalid(column)
        for part, outputs in enumerate(self.outputs):
            wrong |= self.read(column, part) >= outputs
        return wrong

    def impossible(self) -> Callable[[int], bool] | None:
        parts = zip(self.starts, self._widths, self.outputs, strict=True)
        limits = [(s, (1 << w) - 1, outputs) for s, w, outputs in parts if outputs != 1 << w]

        def outside(number: int) -> bool:
            return any(number >> s & mask >= outputs for s, mask, outputs in limits)

        return outside if limits else None

    def every(self) -> Column:
        return self.listed([self.joined(numbers) for numbers in product(*map(range, self.outputs))])


def read_number(column: Column, start: int, bits: int) -> npt.NDArray[np.int64]:
    """The number that stands in some bits of each row of bytes: at most 56 of them."""
    found = np.zeros(len(column), dtype=np.int64)
    for k, byte in enumerate(range(start >> 3, (start + bits + 7) >> 3)):
        found |= column[:, byte].astype(np.int64) << (8 * k)
    return found >> (start & 7) & ((1 << bits) - 1)


def write_number(
    column: Column, start: int, bits: int, numbers: npt.NDArray[np.integer[Any]]
) -> None:
    """The other way round; the bits there are zeros before."""
    shifted = numbers.astype(np.uint64) << np.uint64(start & 7)
    for byte in range(start >> 3, (start + bits + 7) >> 3):
        column[:, byte] |= shifted.astype(np.uint8)
        shifted >>= np.uint64(8)


def bit_of(column: Column, position: int) -> npt.NDArray[np.uint8]:
    """One bit of each row of bytes."""
    return np.asarray(column[:, position >> 3] >> np.uint8(position & 7) & np.uint8(1))
