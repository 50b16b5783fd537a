"""The inner loops in numpy: small jobs run here, and the compiled ones are tested against these."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]


def transpose(rows: npt.NDArray[np.uint8], bits: int) -> Words:
    """Packed rows (n, bytes) to bit columns (bits, words); lanes beyond n are 0."""
    unpacked = np.unpackbits(rows, axis=1, count=bits, bitorder="little")
    packed = np.packbits(unpacked.T, axis=1, bitorder="little")
    columns = np.zeros((bits, 8 * -(-len(rows) // 64)), dtype=np.uint8)
    columns[:, : packed.shape[1]] = packed
    return columns.view("<u8")


def pair_counts(left: Words, right: Words) -> npt.NDArray[np.int64]:
    """For each pair of columns, how many lanes differ: (a, words), (b, words) -> (a, b)."""
    counts = np.empty((len(left), len(right)), dtype=np.int64)
    for place, column in enumerate(left):
        counts[place] = np.bitwise_count(column ^ right).sum(axis=1, dtype=np.int64)
    return counts


def parity_counts(columns: Words, subsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each subset of columns, a row of places ended by -1, how many lanes are odd."""
    counts = np.zeros(len(subsets), dtype=np.int64)
    for row, subset in enumerate(subsets):
        parity = np.zeros(columns.shape[1], dtype=np.uint64)
        for place in subset[subset >= 0]:
            parity ^= columns[place]
        counts[row] = np.bitwise_count(parity).sum(dtype=np.int64)
    return counts
