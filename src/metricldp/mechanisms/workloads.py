"""Workloads: many linear queries of one attribute at once, as the rows of a matrix W.

A row states what a respondent at each position adds to its result, so that W c are the results for
counts c (section 1.2 of the paper). All ranges of 1,000 positions are half a million rows: rows
follow from their numbers, and W^T W has a closed form, so W is never written out.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_whole
from metricldp.basics.text import shown

Floats = npt.NDArray[np.float64]
_BLOCK = 1024
_LARGEST = 1e100
"""Sums of squares of entries up to this are finite; those of entries from its inverse on, not 0."""


@dataclass(frozen=True)
class Words:
    """The labels of positions: of those from one to another, and of all up to one."""

    stretch: Callable[[int, int], str]
    until: Callable[[int], str]

    @classmethod
    def of(cls, names: Sequence[str] | range) -> Words:
        def stretch(low: int, high: int) -> str:
            return str(names[low]) if low == high else f"{names[low]} to {names[high]}"

        return cls(stretch, lambda last: str(names[last]))


@dataclass(frozen=True, eq=False)
class Workload(ABC):
    """Rows over `size` positions, made by `all_ranges`, `prefixes`, `bars`, `from_rows`, ..."""

    size: int

    tells_all: ClassVar[bool] = False
    """Whether the results determine the count of every position."""

    def __post_init__(self) -> None:
        if not is_whole(self.size) or self.size < 1:
            raise QueryError(
                f"a workload needs a whole number of positions, at least 1, not {shown(self.size)}"
            )
        object.__setattr__(self, "size", int(self.size))

    @property
    def row_per_value(self) -> bool:
        """Whether row k counts the respondents at position k, and nothing else."""
        return False

    @staticmethod
    def all_ranges(size: int) -> Workload:
        """Every range l to r, ordered by l and then by r: size (size + 1) / 2 rows."""
        return _Ranges(size)

    @staticmethod
    def prefixes(size: int) -> Workload:
        """All ranges that begin at the first position."""
        return _Prefixes(size)

    @staticmethod
    def identity(size: int) -> Workload:
        """Each position by itself: the frequencies."""
        return _Bars(size, size)

    @staticmethod
    def bars(size: int, count: int) -> Workload:
        """Adjacent ranges of nearly equal width: the bins of a histogram."""
        return _Bars(size, count)

    @staticmethod
    def mean(size: int) -> Workload:
        """One row from -1 at the first position to 1 at the last: the mean, up to its scale."""
        size = _Ranges(size).size  # checks it
        return _Rows(size, np.linspace(-1, 1, size)[None] if size > 1 else np.zeros((1, 1)))

    @staticmethod
    def mixture(parts: Sequence[tuple[Workload, float]]) -> Workload:
        """Several workloads, each with its weight in the mean squared error over all rows."""
        return _Mixture(parts[0][0].size, tuple(parts))

    @staticmethod
    def product(parts: Sequence[Workload]) -> Workload:
        """All combinations of a row for each attribute, written out over the cells of a grid."""
        rows = np.ones((1, 1))
        for part in parts:
            rows = np.asarray(np.kron(rows, part.rows_block(0, part.rows)))
        return Workload.from_rows(rows)

    @staticmethod
    def total(size: int) -> Workload:
        """One row of ones: the number of respondents."""
        return _Bars(size, 1)

    @staticmethod
    def from_rows(rows: Any) -> Workload:
        """Any rows: a table of numbers, a numpy array or a scipy sparse matrix."""
        matrix = _checked_rows(rows)
        return _Rows(matrix.shape[1], matrix)

    @property
    @abstractmethod
    def rows(self) -> int: ...

    @abstractmethod
    def gram(self) -> Floats:
        """W^T W, all that a total squared error needs to know of W."""

    @abstractmethod
    def answers(self, counts: npt.ArrayLike) -> Floats:
        """W c for counts per position, a vector or one column for each of several."""

    @abstractmethod
    def rows_block(self, start: int, stop: int) -> Floats:
        """Rows start to stop (not included) written out, for streaming; ends as in a slice."""

    def largest(self) -> float:
        """The largest entry of any row, whatever its sign."""
        starts = range(0, self.rows, _BLOCK)
        return max(float(np.abs(self.rows_block(s, s + _BLOCK)).max()) for s in starts)

    def with_values(self, weight: float) -> Workload:
        """The same rows, and then every position alone, with a weight."""
        rows = self.rows_block(0, self.rows)
        return Workload.from_rows(np.vstack([rows, weight * np.eye(self.size)]))

    @abstractmethod
    def _label(self, row: int, words: Words) -> str: ...

    def label(self, row: int, words: Words | None = None) -> str:
        """What a row asks for, such as "3 to 7"."""
        return self._label(row, words or Words.of(range(self.size)))

    def labels(self, words: Words | None = None) -> list[str]:
        return [self.label(row, words) for row in range(self.rows)]

    def _numbers(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        return np.arange(*slice(start, stop).indices(self.rows), dtype=np.int64)

    def _checked_counts(self, counts: npt.ArrayLike) -> Floats:
        checked = np.asarray(counts, dtype=np.float64)
        if checked.ndim not in (1, 2) or checked.shape[0] != self.size:
            raise QueryError(f"counts of shape {checked.shape} do not fit {self.size} positions")
        return checked


class _Ranges(Workload):
    tells_all = True

    @property
    def rows(self) -> int:
        return self.size * (self.size + 1) // 2

    def _ends(self, rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], ...]:
        """First and last position of the ranges with these numbers."""
        position = np.arange(self.size + 1, dtype=np.int64)
        starts = position * self.size - position * (position - 1) // 2
        low = np.searchsorted(starts, rows, side="right") - 1
        return low, low + rows - starts[low]

    def gram(self) -> Floats:
        first = np.arange(1.0, self.size + 1)
        behind = self.size + 1 - np.maximum.outer(first, first)
        return np.asarray(np.minimum.outer(first, first) * behind)

    def answers(self, counts: npt.ArrayLike) -> Floats:
        sums = _sums(self._checked_counts(counts))
        return np.concatenate([sums[low + 1 :] - sums[low] for low in range(self.size)])

    def rows_block(self, start: int, stop: int) -> Floats:
        low, high = self._ends(self._numbers(start, stop))
        position = np.arange(self.size)
        inside = (low[:, None] <= position) & (position <= high[:, None])
        return inside.astype(np.float64)

    def _label(self, row: int, words: Words) -> str:
        behind = self.rows - 1 - row
        low = self.size - 1 - (math.isqrt(8 * behind + 1) - 1) // 2
        high = low + row - (low * self.size - low * (low - 1) // 2)
        return words.stretch(low, high)


class _Prefixes(Workload):
    tells_all = True

    @property
    def rows(self) -> int:
        return self.size

    def gram(self) -> Floats:
        position = np.arange(float(self.size))
        return np.asarray(self.size - np.maximum.outer(position, position))

    def answers(self, counts: npt.ArrayLike) -> Floats:
        return np.asarray(np.cumsum(self._checked_counts(counts), axis=0))

    def rows_block(self, start: int, stop: int) -> Floats:
        return np.greater_equal.outer(self._numbers(start, stop), np.arange(self.size)).astype(
            np.float64
        )

    def _label(self, row: int, words: Words) -> str:
        return f"up to {words.until(row)}"


@dataclass(frozen=True, eq=False)
class _Bars(Workload):
    """Adjacent ranges of nearly equal width; with as many as positions, each value by itself."""

    count: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.count <= self.size:
            raise QueryError(f"{self.count} bars for {self.size} positions; use 1 to {self.size}")

    @property
    def rows(self) -> int:
        return self.count

    @property
    def tells_all(self) -> bool:  # type: ignore[override]
        return self.count == self.size

    @property
    def row_per_value(self) -> bool:
        return self.count == self.size

    @property
    def _starts(self) -> npt.NDArray[np.int64]:
        return np.arange(self.count) * self.size // self.count

    @property
    def _bar(self) -> npt.NDArray[np.int64]:
        """The bar of each position."""
        return np.repeat(np.arange(self.count), np.diff(self._starts, append=self.size))

    def gram(self) -> Floats:
        return np.equal.outer(self._bar, self._bar).astype(np.float64)

    def answers(self, counts: npt.ArrayLike) -> Floats:
        return np.asarray(np.add.reduceat(self._checked_counts(counts), self._starts, axis=0))

    def rows_block(self, start: int, stop: int) -> Floats:
        return np.equal.outer(self._numbers(start, stop), self._bar).astype(np.float64)

    def _label(self, row: int, words: Words) -> str:
        low, high = np.append(self._starts, self.size)[row : row + 2].tolist()
        return words.stretch(low, high - 1)


@dataclass(frozen=True, eq=False)
class _Mixture(Workload):
    """Rows of part k count sqrt(share_k rows / rows_k): the mean over all rows is the shares'."""

    parts: tuple[tuple[Workload, float], ...]

    @property
    def rows(self) -> int:
        return sum(part.rows for part, _ in self.parts)

    def _scaled(self) -> Iterator[tuple[Workload, float]]:
        whole = sum(share for _, share in self.parts)
        for part, share in self.parts:
            yield part, math.sqrt(share / whole * self.rows / part.rows)

    def gram(self) -> Floats:
        return np.asarray(sum(scale**2 * part.gram() for part, scale in self._scaled()))

    def answers(self, counts: npt.ArrayLike) -> Floats:
        return np.concatenate([scale * part.answers(counts) for part, scale in self._scaled()])

    def rows_block(self, start: int, stop: int) -> Floats:
        first, last, _ = slice(start, stop).indices(self.rows)
        blocks = [np.zeros((0, self.size))]
        for part, scale in self._scaled():
            blocks.append(scale * part.rows_block(max(first, 0), max(last, 0)))
            first, last = first - part.rows, last - part.rows
        return np.concatenate(blocks)

    def _label(self, row: int, words: Words) -> str:
        for part, _ in self.parts:
            if row < part.rows:
                break
            row -= part.rows
        return part._label(row, words)


@dataclass(frozen=True, eq=False)
class _Rows(Workload):
    matrix: Any
    """A float array, or a scipy sparse matrix by rows."""

    @property
    def rows(self) -> int:
        return int(self.matrix.shape[0])

    def gram(self) -> Floats:
        return _dense(self.matrix.T @ self.matrix)

    def answers(self, counts: npt.ArrayLike) -> Floats:
        return np.asarray(self.matrix @ self._checked_counts(counts))

    def rows_block(self, start: int, stop: int) -> Floats:
        return _dense(self.matrix[slice(start, stop)])

    def _label(self, row: int, words: Words) -> str:
        return f"row {row}"


def _sums(counts: Floats) -> Floats:
    """Sums of the first 0, 1, 2, ... entries."""
    return np.concatenate([np.zeros((1, *counts.shape[1:])), np.cumsum(counts, axis=0)])


def _dense(matrix: Any) -> Floats:
    """A copy as an array, from an array or a sparse matrix."""
    plain = matrix.toarray() if hasattr(matrix, "toarray") else matrix
    return np.array(plain, dtype=np.float64)


def _checked_rows(rows: Any) -> Any:
    """Rows as floats in an array or a sparse matrix by rows, or a refusal that says where."""
    sparse = hasattr(rows, "tocsr")
    matrix: Any
    try:
        matrix = rows.tocsr().astype(np.float64) if sparse else np.array(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise QueryError(
            f"the rows of a workload are numbers, all rows equally long, not {shown(rows)}"
        ) from None
    if matrix.ndim == 1:
        raise QueryError(
            f"a workload is a list of rows, not {shown(rows)}; write one row as [[...]]"
        )
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise QueryError(f"a workload is a table of rows, not an array of shape {matrix.shape}")
    sizes = np.abs(matrix.data if sparse else matrix)
    bad = (sizes != 0) & ~((sizes >= 1 / _LARGEST) & (sizes <= _LARGEST))
    if bad.any():
        where = np.argwhere(bad)[0]
        row = np.searchsorted(matrix.indptr, where[0], side="right") - 1 if sparse else where[0]
        value = matrix.data[where[0]] if sparse else matrix[tuple(where)]
        raise QueryError(
            f"row {row} of the workload holds {value}; use finite numbers, neither larger than "
            f"{_LARGEST:g} nor, but for 0, smaller than {1 / _LARGEST:g}"
        )
    return matrix
