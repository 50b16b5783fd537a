"""The inner loops over reports, nothing else: compiled where a job is large, in numpy where not.

Both give the same numbers, bit for bit. numba takes a second or two to load, so it is loaded once
the work of a process, in one call or in many, has been worth that.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from metricldp.kernels import plain
from metricldp.kernels.plain import Counts, Words

__all__ = [
    "LARGE",
    "Words",
    "column_counts",
    "expect",
    "joint_histogram",
    "pair_counts",
    "parity_counts",
    "product_sums",
    "transpose",
]

LARGE = 1 << 26
"""Bit operations from which on the compiled loops are used; an integer counts as one."""

_loaded: list[ModuleType] = []
_done = [0]


def expect(work: int) -> None:
    """Load the compiled loops if so many bit operations, added to those done, are worth it."""
    if _loaded:
        return
    _done[0] += work
    if _done[0] >= LARGE:
        _loaded.append(importlib.import_module("metricldp.kernels.compiled"))


def _loops(work: int) -> ModuleType:
    """The compiled loops if they are loaded or the work is worth loading them, else numpy's."""
    expect(work)
    return _loaded[0] if _loaded else plain


def transpose(rows: npt.NDArray[np.uint8], bits: int) -> Words:
    """Packed rows (n, bytes) to bit columns (bits, words); lanes beyond n are 0."""
    groups = -(-bits // 64)
    if rows.shape[1] != 8 * groups or not rows.flags.c_contiguous:
        padded = np.zeros((len(rows), 8 * groups), dtype=np.uint8)
        padded[:, : rows.shape[1]] = rows
        rows = padded
    return cast(Words, _loops(rows.size * 8).transpose(rows.view("<u8"), bits))


def column_counts(columns: Words) -> Counts:
    """How many lanes of each column are 1."""
    return cast(Counts, _loops(64 * columns.size).column_counts(columns))


def pair_counts(left: Words, right: Words) -> Counts:
    """For each pair of columns, how many lanes differ: (a, words), (b, words) -> (a, b)."""
    if len(left) > len(right):
        return pair_counts(right, left).T
    work = 64 * left.size * len(right)
    return cast(Counts, _loops(work).pair_counts(left, right))


def parity_counts(columns: Words, subsets: npt.NDArray[np.int64]) -> Counts:
    """For each subset of columns, a row of places ended by -1, how many lanes are odd."""
    work = 64 * columns.shape[1] * subsets.size
    return cast(Counts, _loops(work).parity_counts(columns, subsets))


def joint_histogram(columns: Sequence[npt.NDArray[Any]], sizes: Sequence[int]) -> Counts:
    """How often each combination of small integers occurs: an array of shape `sizes`."""
    loops = _loops(len(columns) * len(columns[0]))
    flat = loops.joint_histogram(np.stack(columns), np.array(sizes, dtype=np.int64))
    return cast(Counts, flat.reshape(sizes))


def product_sums(
    tables: npt.NDArray[np.float64],
    places: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """For each row the sum over reports of weight times the table's entries at all its places.

    `tables` (rows, entries), `places` (attributes, n), `weights` (rows, n).
    """
    loops = _loops(weights.size * (1 + len(places)))
    return cast(npt.NDArray[np.float64], loops.product_sums(tables, places, weights))
