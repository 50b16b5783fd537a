"""The inner loops, compiled by numba. Imported only when a job is large enough to pay for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic


@intrinsic
def _ones(typing_context: Any, word: Any) -> Any:  # noqa: ANN401 - numba's own types
    """The number of ones of a word, one machine instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:  # noqa: ANN401
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@njit(nogil=True, cache=True)
def transpose(rows, bits):  # noqa: ANN001, ANN201 - compiled for the types it meets
    """Packed rows (n, bytes) to bit columns (bits, words), in blocks of 64 x 64."""
    n, width = rows.shape
    words = (n + 63) // 64
    columns = np.zeros((bits, words), dtype=np.uint64)
    block = np.zeros(64, dtype=np.uint64)
    for word in range(words):
        first = 64 * word
        last = min(first + 64, n)
        for group in range((bits + 63) // 64):
            start = 8 * group
            stop = min(start + 8, width)
            for row in range(64):
                value = np.uint64(0)
                if first + row < last:
                    for place in range(start, stop):
                        byte = np.uint64(rows[first + row, place])
                        value |= byte << np.uint64(8 * (place - start))
                block[row] = value
            _turn(block)
            for bit in range(min(64, bits - 64 * group)):
                columns[64 * group + bit, word] = block[bit]
    return columns


@njit(nogil=True, cache=True)
def _turn(block):  # noqa: ANN001, ANN202
    """Transpose a 64 x 64 block of bits in place: swap halves, then quarters, and so on."""
    step = 32
    mask = np.uint64(0x00000000FFFFFFFF)
    while step:
        shift = np.uint64(step)
        row = 0
        while row < 64:
            swap = ((block[row] >> shift) ^ block[row + step]) & mask
            block[row] ^= swap << shift
            block[row + step] ^= swap
            row = (row + step + 1) & ~step
        step >>= 1
        if step:
            mask ^= mask << np.uint64(step)


@njit(nogil=True, cache=True)
def pair_counts(left, right):  # noqa: ANN001, ANN201
    """How many lanes differ for each pair of columns, four by two pairs at a time in registers."""
    a, words = left.shape
    b = right.shape[0]
    counts = np.zeros((a, b), dtype=np.int64)
    full_a, full_b = a - a % 4, b - b % 2
    for start in range(0, words, 512):
        stop = min(start + 512, words)
        for i in range(0, full_a, 4):
            for j in range(0, full_b, 2):
                c00 = c01 = c10 = c11 = np.uint64(0)
                c20 = c21 = c30 = c31 = np.uint64(0)
                for w in range(start, stop):
                    x, y = right[j, w], right[j + 1, w]
                    p, q = left[i, w], left[i + 1, w]
                    r, s = left[i + 2, w], left[i + 3, w]
                    c00 += _ones(p ^ x)
                    c01 += _ones(p ^ y)
                    c10 += _ones(q ^ x)
                    c11 += _ones(q ^ y)
                    c20 += _ones(r ^ x)
                    c21 += _ones(r ^ y)
                    c30 += _ones(s ^ x)
                    c31 += _ones(s ^ y)
                counts[i, j] += np.int64(c00)
                counts[i, j + 1] += np.int64(c01)
                counts[i + 1, j] += np.int64(c10)
                counts[i + 1, j + 1] += np.int64(c11)
                counts[i + 2, j] += np.int64(c20)
                counts[i + 2, j + 1] += np.int64(c21)
                counts[i + 3, j] += np.int64(c30)
                counts[i + 3, j + 1] += np.int64(c31)
        for i in range(a):
            for j in range(full_b if i < full_a else 0, b):
                rest = np.uint64(0)
                for w in range(start, stop):
                    rest += _ones(left[i, w] ^ right[j, w])
                counts[i, j] += np.int64(rest)
    return counts


@njit(nogil=True, cache=True)
def parity_counts(columns, subsets):  # noqa: ANN001, ANN201
    """Odd lanes of the XOR of each subset of columns, a block of words at a time."""
    words = columns.shape[1]
    rows, most = subsets.shape
    counts = np.zeros(rows, dtype=np.int64)
    for start in range(0, words, 1024):
        stop = min(start + 1024, words)
        for row in range(rows):
            total = np.uint64(0)
            one = subsets[row, 0] if most > 0 else -1
            two = subsets[row, 1] if most > 1 else -1
            if one < 0:
                continue
            if two < 0:
                for w in range(start, stop):
                    total += _ones(columns[one, w])
            elif most == 2 or subsets[row, 2] < 0:
                for w in range(start, stop):
                    total += _ones(columns[one, w] ^ columns[two, w])
            else:
                for w in range(start, stop):
                    parity = columns[one, w] ^ columns[two, w]
                    for k in range(2, most):
                        if subsets[row, k] >= 0:
                            parity ^= columns[subsets[row, k], w]
                    total += _ones(parity)
            counts[row] += np.int64(total)
    return counts
