"""The inner loops over reports, nothing else: compiled where a job is large, in numpy where not.

Both give the same integers. numba takes about a second to load, so a job has to be worth that.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import cast

import numpy as np
import numpy.typing as npt

from metricldp.kernels import plain
from metricldp.kernels.plain import Words

__all__ = ["LARGE", "Words", "expect", "pair_counts", "parity_counts", "transpose"]

LARGE = 1 << 26
"""Bit operations from which on the compiled loops are used."""

_loaded: list[ModuleType] = []


def expect(work: int) -> None:
    """Load the compiled loops if so many bit operations are coming, in one call or in many."""
    if not _loaded and work >= LARGE:
        _loaded.append(importlib.import_module("metricldp.kernels.compiled"))


def _loops(work: int) -> ModuleType:
    """The compiled loops if they are loaded or the work is worth loading them, else numpy's."""
    expect(work)
    return _loaded[0] if _loaded else plain


def transpose(rows: npt.NDArray[np.uint8], bits: int) -> Words:
    """Packed rows (n, bytes) to bit columns (bits, words); lanes beyond n are 0."""
    return cast(Words, _loops(rows.size * 8).transpose(rows, bits))


def pair_counts(left: Words, right: Words) -> npt.NDArray[np.int64]:
    """For each pair of columns, how many lanes differ: (a, words), (b, words) -> (a, b)."""
    work = 64 * left.size * len(right)
    return cast(npt.NDArray[np.int64], _loops(work).pair_counts(left, right))


def parity_counts(columns: Words, subsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each subset of columns, a row of places ended by -1, how many lanes are odd."""
    work = 64 * columns.shape[1] * subsets.size
    return cast(npt.NDArray[np.int64], _loops(work).parity_counts(columns, subsets))
