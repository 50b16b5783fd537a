"""The compiled loops over bit columns: transposition, joint counts, and sums of products of digits.

A bit column is one bit of all reports, 64 reports to a word. Callers import this module inside the
function that runs a kernel, because loading numba takes about a second.
"""

from __future__ import annotations

import numpy as np

from metricldp.basics.kernel import kernel, popcount
from metricldp.store.bits import Counts, Words

ALL_ONES = np.uint64(2**64 - 1)
BLOCK = 256
"""Words of a column that are combined at a time, so that they stay in the nearest cache."""


@kernel
def transpose(rows: Words, bits: int, lead: int) -> Words:
    """Rows of words (n, groups) to bit columns (lead + bits, words); the first `lead` are zeros.

    Eight blocks of 64 x 64 bits are transposed side by side: halves are swapped, then quarters,
    and so on. Word `8 * row + w` is a row of block w, so that every step works on whole vectors,
    and columns are written in whole cache lines.
    """
    n, groups = rows.shape
    words = (n + 63) // 64
    columns = np.empty((lead + bits, words), dtype=np.uint64)
    columns[:lead] = 0
    block = np.zeros(512, dtype=np.uint64)
    for start in range(0, words, 8):
        count = min(8, words - start)
        for group in range(groups):
            if 64 * (start + 8) > n:
                block[:] = 0
            for w in range(count):
                for row in range(min(64, n - 64 * (start + w))):
                    block[8 * row + w] = rows[64 * (start + w) + row, group]
            step = 256
            mask = np.uint64(0x00000000FFFFFFFF)
            while step > 4:
                shift = np.uint64(step >> 3)
                for first in range(0, 512, 2 * step):
                    for place in range(first, first + step):
                        swap = ((block[place] >> shift) ^ block[place + step]) & mask
                        block[place] ^= swap << shift
                        block[place + step] ^= swap
                step >>= 1
                mask ^= mask << np.uint64(step >> 3)
            for bit in range(min(64, bits - 64 * group)):
                for w in range(count):
                    columns[lead + 64 * group + bit, start + w] = block[8 * bit + w]
    return columns


@kernel
def differing_bits(left: Words, right: Words) -> Counts:
    """For each pair of columns, how many bits differ: (a, words), (b, words) -> (a, b)."""
    a, words = left.shape
    b = right.shape[0]
    counts = np.empty((a, b), dtype=np.int64)
    for i in range(a):
        for j in range(b):
            total = np.uint64(0)
            for w in range(words):
                total += popcount(left[i, w] ^ right[j, w])
            counts[i, j] = total
    return counts


@kernel
def digit_sums(columns: Words, firsts: Counts, seconds: Counts, n: int) -> Counts:
    """Sums over n reports of products of digits, one for each row of `firsts` and `seconds`.

    A digit is the sign of a column, -1 where its bit is 1, or half the difference of the signs of
    two columns. Rows of places end in -1. Bits beyond the n-th report are 0 in all columns.
    """
    words = columns.shape[1]
    terms, most = firsts.shape
    sums = np.zeros(terms, dtype=np.int64)
    nonzero = np.empty(BLOCK, dtype=np.uint64)
    minus = np.empty(BLOCK, dtype=np.uint64)
    for term in range(terms):
        if most == 2 and seconds[term].min() >= 0:
            sums[term] = _two_differences(columns, firsts[term], seconds[term])
            continue
        differences = False
        for k in range(most):
            differences |= seconds[term, k] >= 0
        for start in range(0, words, BLOCK):
            count = min(BLOCK, words - start)
            nonzero[:] = ALL_ONES
            minus[:] = 0
            for k in range(most):
                if firsts[term, k] < 0:
                    continue
                first = columns[firsts[term, k], start : start + count]
                for w in range(count):
                    minus[w] ^= first[w]
                if seconds[term, k] >= 0:
                    second = columns[seconds[term, k], start : start + count]
                    for w in range(count):
                        nonzero[w] &= first[w] ^ second[w]
            total = np.uint64(0)
            negative = np.uint64(0)
            for w in range(count):
                total += popcount(nonzero[w])
                negative += popcount(nonzero[w] & minus[w])
            sums[term] += (np.int64(total) if differences else 0) - 2 * np.int64(negative)
        if not differences:
            sums[term] += n
    return sums


@kernel
def _two_differences(columns: Words, firsts: Counts, seconds: Counts) -> np.int64:
    """Two ranges with two ends each, the usual query: each column is read once, at full speed."""
    one, two = columns[firsts[0]], columns[firsts[1]]
    one_end, two_end = columns[seconds[0]], columns[seconds[1]]
    total = np.uint64(0)
    negative = np.uint64(0)
    for w in range(len(one)):
        nonzero = (one[w] ^ one_end[w]) & (two[w] ^ two_end[w])
        total += popcount(nonzero)
        negative += popcount(nonzero & (one[w] ^ two[w]))
    return np.int64(total) - 2 * np.int64(negative)
