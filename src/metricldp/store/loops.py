"""The inner loops of counting: columns of bits and small integers in, sums over reports out."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from metricldp.basics.compiled import Loops, Words
from metricldp.store import loops_plain as counting_plain
from metricldp.store.loops_plain import Counts

LARGE = 1 << 26
"""Bit operations from which on the compiled loops are used; an integer counts as one."""

loops = Loops(counting_plain, "metricldp.store.loops_compiled", LARGE)


def expect(work: int) -> None:
    """Say that so many operations are coming; with those before, compiled loops may pay."""
    loops.expect(work)


def _loops(work: int) -> ModuleType:
    expect(work)
    return loops.now


def transpose(rows: npt.NDArray[np.uint8], bits: int, lead: int = 0) -> Words:
    """Packed rows (n, bytes) to bit columns (lead + bits, words); lanes beyond n are 0.

    The first `lead` columns are all zeros.
    """
    groups = -(-bits // 64)
    if rows.shape[1] != 8 * groups or not rows.flags.c_contiguous:
        padded = np.zeros((len(rows), 8 * groups), dtype=np.uint8)
        padded[:, : rows.shape[1]] = rows
        rows = padded
    return cast(Words, _loops(rows.size * 8).transpose(rows.view("<u8"), bits, lead))


def column_counts(columns: Words) -> Counts:
    """How many lanes of each column are 1."""
    return cast(Counts, _loops(64 * columns.size).column_counts(columns))


def pair_counts(left: Words, right: Words) -> Counts:
    """For each pair of columns, how many lanes differ: (a, words), (b, words) -> (a, b)."""
    if len(left) > len(right):
        return pair_counts(right, left).T
    common = _loops(64 * left.size * len(right)).common_counts(left, right)
    return column_counts(left)[:, None] + column_counts(right) - 2 * cast(Counts, common)


def digit_sums(columns: Words, firsts: Counts, seconds: Counts, n: int) -> Counts:
    """Sums over n lanes of products of digits, one for each row of `firsts` and `seconds`.

    A digit is the sign of a column, -1 where it is 1, or half the difference of the signs of two;
    rows of places are filled up with -1. Lanes beyond n are 0 in all columns.
    """
    work = 64 * columns.shape[1] * firsts.size
    return cast(Counts, _loops(work).digit_sums(columns, firsts, seconds, n))


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
