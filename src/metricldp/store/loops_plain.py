"""The inner loops in numpy: small jobs run here, and the compiled ones are tested against these."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from metricldp.basics.compiled import Words

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def transpose(rows: Words, bits: int, lead: int) -> Words:
    """Rows of words (n, groups) to bit columns behind `lead` columns of zeros."""
    unpacked = np.unpackbits(rows.view(np.uint8), axis=1, count=bits, bitorder="little")
    packed = np.packbits(unpacked.T, axis=1, bitorder="little")
    columns = np.zeros((lead + bits, 8 * -(-len(rows) // 64)), dtype=np.uint8)
    columns[lead:, : packed.shape[1]] = packed
    return columns.view("<u8")


def column_counts(columns: Words) -> Counts:
    """How many lanes of each column are 1."""
    return np.asarray(np.bitwise_count(columns).sum(axis=1, dtype=np.int64))


def common_counts(left: Words, right: Words) -> Counts:
    """For each pair of columns, how many lanes are 1 in both: (a, words), (b, words) -> (a, b)."""
    counts = np.empty((len(left), len(right)), dtype=np.int64)
    for place, column in enumerate(left):
        counts[place] = np.bitwise_count(column & right).sum(axis=1, dtype=np.int64)
    return counts


def digit_sums(columns: Words, firsts: Counts, seconds: Counts, n: int) -> Counts:
    """Sums over n lanes of products of digits: each is the sign of a column, -1 where it is 1, or
    half the difference of two signs, which is 0 where the two columns agree.
    """
    sums = np.zeros(len(firsts), dtype=np.int64)
    for term, (ones, others) in enumerate(zip(firsts, seconds, strict=True)):
        counted = np.full(columns.shape[1], 2**64 - 1, dtype=np.uint64)
        minus = np.zeros(columns.shape[1], dtype=np.uint64)
        for one, other in zip(ones[ones >= 0], others[ones >= 0], strict=True):
            minus ^= columns[one]
            if other >= 0:
                counted &= columns[one] ^ columns[other]
        pairs = (others >= 0).any()
        total = np.bitwise_count(counted).sum(dtype=np.int64) if pairs else n
        sums[term] = total - 2 * np.bitwise_count(counted & minus).sum(dtype=np.int64)
    return sums


def joint_histogram(columns: npt.NDArray[np.unsignedinteger], sizes: Counts) -> Counts:
    """How often each combination occurs, flat: (attributes, n) small integers."""
    cells = columns[0].astype(np.int64)
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        cells *= size
        cells += column
    return np.bincount(cells, minlength=int(np.prod(sizes)))


def product_sums(tables: Floats, places: npt.NDArray[np.int64], weights: Floats) -> Floats:
    """For each row the sum over reports of weight times the table's entries at all its places.

    Reports are added one after the other, as the compiled loop adds them.
    """
    products = weights.copy()
    for place in places:
        products *= tables[:, place]
    return np.asarray(np.cumsum(products, axis=1)[:, -1])
