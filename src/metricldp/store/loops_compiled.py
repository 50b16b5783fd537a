"""The inner loops of counting, compiled by numba; the same numbers as those of `counting_plain`.

A table of bits is counted with whole vectors: full adders on 256 counters at a time, emitted for
LLVM. A counter is spread over planes: plane p holds bit p of 256 counters side by side. For three
rows of 256 bits all eight sums of a choice of them are made once, as two planes each; a column of
64 lanes then names 22 such sums, and adding them up takes a full adder for each plane, five
instructions for 256 counters.

All in one file: numba compiles anew when a file changes, but not when one that it imports does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

LANES = 4
"""Words of a vector."""
PLANES = 17
"""Binary digits of a counter: it holds up to 2^17 - 1."""
ENTRY = 2 * LANES
"""Words of one sum of at most three rows: two planes."""
GROUP = 8 * ENTRY
"""Words of all sums of a choice of three rows."""
GROUPS = 22
"""Threes of 64 rows; the last is a single one."""
TOGETHER = 2
"""Words whose rows are added at once: so many tables stay in the nearest cache."""

_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, LANES)
_Planes = list[ir.Value]


@intrinsic
def ones(typing_context: Any, word: Any) -> Any:
    """The number of ones of a word, one machine instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


class _Emitter:
    """Instructions on vectors in the arrays that an intrinsic was called with."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.build = builder
        kinds = zip(signature.args, arguments, strict=True)
        arrays = [context.make_array(kind)(context, builder, value) for kind, value in kinds]
        self._starts = [array.data for array in arrays]

    def word(self, array: int, place: int) -> ir.Value:
        start = self._starts[array]
        return self.build.load(self.build.gep(start, [ir.Constant(_WORD, place)]))

    def load(self, array: int, place: ir.Value) -> ir.Value:
        return self.build.load(self._at(array, place), align=8)

    def store(self, vector: ir.Value, array: int, place: int) -> None:
        self.build.store(vector, self._at(array, ir.Constant(_WORD, place)), align=8)

    def _at(self, array: int, place: ir.Value) -> ir.Value:
        pointer = self.build.gep(self._starts[array], [place])
        return self.build.bitcast(pointer, _VECTOR.as_pointer())

    def half_adder(self, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
        return self.build.xor(x, y), self.build.and_(x, y)

    def full_adder(self, x: ir.Value, y: ir.Value, z: ir.Value) -> tuple[ir.Value, ir.Value]:
        either, both = self.half_adder(x, y)
        total, carried = self.half_adder(either, z)
        return total, self.build.or_(both, carried)


@intrinsic
def sums_of_three(typing_context: Any, rows: Any, sums: Any) -> Any:
    """The sums of every choice of three rows: 8 entries."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
        emit = _Emitter(context, builder, signature, arguments)
        found: list[_Planes] = [[ir.Constant(_VECTOR, [0] * LANES)] * 2]
        for row in range(3):
            added = emit.load(0, ir.Constant(_WORD, LANES * row))
            found += [_plus_one_row(emit, planes, added) for planes in found]
        for choice, planes in enumerate(found):
            for p, plane in enumerate(planes):
                emit.store(plane, 1, ENTRY * choice + LANES * p)
        return context.get_dummy_value()

    return types.void(rows, sums), generate


def _plus_one_row(emit: _Emitter, planes: _Planes, row: ir.Value) -> _Planes:
    ones, carry = emit.half_adder(planes[0], row)
    return [ones, emit.build.xor(planes[1], carry)]


@intrinsic
def add_chosen(typing_context: Any, tables: Any, words: Any, counters: Any) -> Any:
    """Add to 256 counters the rows that the lanes of some words choose, each from its table."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
        emit = _Emitter(context, builder, signature, arguments)
        waiting: list[_Planes] = [[] for _ in range(PLANES + 1)]
        for word in range(TOGETHER):
            chosen = emit.word(1, word)
            for group in range(GROUPS):
                shifted = builder.lshr(chosen, ir.Constant(_WORD, 3 * group))
                choice = builder.and_(shifted, ir.Constant(_WORD, 7))
                entry = builder.mul(choice, ir.Constant(_WORD, ENTRY))
                for p in range(2 if group < GROUPS - 1 else 1):
                    start = GROUP * (GROUPS * word + group) + LANES * p
                    waiting[p].append(emit.load(0, builder.add(entry, ir.Constant(_WORD, start))))
                    _carry(emit, waiting, p, at_least=3)
        for p in range(PLANES):
            waiting[p].append(emit.load(2, ir.Constant(_WORD, LANES * p)))
            _carry(emit, waiting, p, at_least=2)
            emit.store(waiting[p][0], 2, LANES * p)
        return context.get_dummy_value()

    return types.void(tables, words, counters), generate


def _carry(emit: _Emitter, waiting: list[_Planes], plane: int, at_least: int) -> None:
    """Add up what waits at a plane while it is so many, and hand the carries on."""
    while len(waiting[plane]) >= at_least:
        add = emit.full_adder if len(waiting[plane]) >= 3 else emit.half_adder
        taken = 3 if len(waiting[plane]) >= 3 else 2
        total, carry = add(*waiting[plane][:taken])
        waiting[plane] = [*waiting[plane][taken:], total]
        if plane + 1 < PLANES:
            waiting[plane + 1].append(carry)
            if at_least == 3:
                _carry(emit, waiting, plane + 1, at_least)


# Loops


@njit(nogil=True, cache=True)
def transpose(rows, bits, lead):
    """Rows of words to bit columns behind `lead` columns of zeros, 512 x 256 bits at a time."""
    n, groups = rows.shape
    words = (n + 63) // 64
    columns = np.empty((lead + bits, words), dtype=np.uint64)
    columns[:lead] = 0
    block = np.zeros(64 * LANES, dtype=np.uint64)
    lines = np.zeros((64 * LANES, 8), dtype=np.uint64)  # whole cache lines, written out at once
    for start in range(0, words, 8):
        stop = min(start + 8, words)
        for group in range(0, groups, LANES):
            lanes = min(LANES, groups - group)
            for word in range(start, stop):
                last = min(64, n - 64 * word)
                if last < 64 or lanes < LANES:
                    block[:] = 0
                for row in range(last):
                    for lane in range(lanes):
                        block[LANES * row + lane] = rows[64 * word + row, group + lane]
                _turn(block)
                for bit in range(64):
                    for lane in range(LANES):
                        lines[64 * lane + bit, word - start] = block[LANES * bit + lane]
            for bit in range(min(64 * LANES, bits - 64 * group)):
                for k in range(stop - start):
                    columns[lead + 64 * group + bit, start + k] = lines[bit, k]
    return columns


@njit(nogil=True, cache=True)
def _turn(block):
    """Transpose LANES blocks of 64 x 64 bits side by side: swap halves, then quarters, and so on.

    Word `LANES * row + lane` is a row of one block, so every step works on whole vectors.
    """
    step = 32
    mask = np.uint64(0x00000000FFFFFFFF)
    while step:
        shift = np.uint64(step)
        for row in range(0, 64, 2 * step):
            for place in range(LANES * row, LANES * (row + step)):
                swap = ((block[place] >> shift) ^ block[place + LANES * step]) & mask
                block[place] ^= swap << shift
                block[place + LANES * step] ^= swap
        step >>= 1
        if step:
            mask ^= mask << np.uint64(step)


@njit(nogil=True, cache=True)
def column_counts(columns):
    """How many lanes of each column are 1."""
    height, words = columns.shape
    counts = np.zeros(height, dtype=np.int64)
    for row in range(height):
        total = np.uint64(0)
        for w in range(words):
            total += ones(columns[row, w])
        counts[row] = np.int64(total)
    return counts


@njit(nogil=True, cache=True)
def common_counts(left, right):
    """How many lanes are 1 in both columns of each pair, 256 columns of the right at a time.

    The right columns are turned to rows, and each left column adds up the rows where it is 1.
    """
    a, words = left.shape
    b = right.shape[0]
    width = 64 * LANES
    common = np.zeros((a, b), dtype=np.int64)
    tables = np.zeros(TOGETHER * GROUPS * GROUP, dtype=np.uint64)
    rows = np.zeros((8, 3 * GROUPS * LANES), dtype=np.uint64)
    choosing = np.zeros((8 // TOGETHER, a, TOGETHER), dtype=np.uint64)
    counters = np.zeros((a, PLANES * LANES), dtype=np.uint64)
    totals = np.zeros(width, dtype=np.int64)
    longest = ((1 << PLANES) - 1) // 512 * 8  # words until a counter may be full
    for first in range(0, b, width):
        columns = min(width, b - first)
        for begin in range(0, words, longest):
            end = min(words, begin + longest)
            counters[:] = 0
            for start in range(begin, end, 8):
                many = min(8, end - start)
                rows[:] = 0
                if many < 8:
                    choosing[:] = 0
                for i in range(a):
                    for k in range(many):
                        choosing[k // TOGETHER, i, k % TOGETHER] = left[i, start + k]
                for j in range(columns):
                    for k in range(many):
                        rows[k, LANES * (j & 63) + (j >> 6)] = right[first + j, start + k]
                for some in range(8 // TOGETHER):
                    for k in range(TOGETHER):
                        row = rows[TOGETHER * some + k]
                        _turn(row)
                        for group in range(GROUPS):
                            place = GROUP * (GROUPS * k + group)
                            three = row[3 * LANES * group : 3 * LANES * (group + 1)]
                            sums_of_three(three, tables[place : place + GROUP])
                    for i in range(a):
                        add_chosen(tables, choosing[some, i], counters[i])
            for i in range(a):
                totals[:] = 0
                for lane in range(LANES):
                    for p in range(PLANES):
                        plane = counters[i, LANES * p + lane]
                        for bit in range(64):
                            digit = plane >> np.uint64(bit) & np.uint64(1)
                            totals[64 * lane + bit] += np.int64(digit << np.uint64(p))
                for j in range(columns):
                    common[i, first + j] += totals[j]
    return common


@njit(nogil=True, cache=True)
def digit_sums(columns, firsts, seconds, n):
    """Sums over n lanes of products of digits, a block of words at a time in the cache."""
    words = columns.shape[1]
    terms, most = firsts.shape
    sums = np.zeros(terms, dtype=np.int64)
    counted = np.empty(1024, dtype=np.uint64)
    minus = np.empty(1024, dtype=np.uint64)
    for term in range(terms):
        pairs = False
        for k in range(most):
            pairs |= seconds[term, k] >= 0
        if not pairs:
            sums[term] = n
        if most == 2 and seconds[term, 0] >= 0 and seconds[term, 1] >= 0:
            sums[term] = _two_digits(columns, firsts[term], seconds[term])
            continue
        for start in range(0, words, 1024):
            block = min(1024, words - start)
            counted[:block] = np.uint64(0xFFFFFFFFFFFFFFFF)
            minus[:block] = np.uint64(0)
            for k in range(most):
                if firsts[term, k] < 0:
                    continue
                first = columns[firsts[term, k], start : start + block]
                for w in range(block):
                    minus[w] ^= first[w]
                if seconds[term, k] >= 0:
                    second = columns[seconds[term, k], start : start + block]
                    for w in range(block):
                        counted[w] &= first[w] ^ second[w]
            total = np.uint64(0)
            negative = np.uint64(0)
            if pairs:
                for w in range(block):
                    total += ones(counted[w])
            for w in range(block):
                negative += ones(counted[w] & minus[w])
            sums[term] += np.int64(total) - 2 * np.int64(negative)
    return sums


@njit(nogil=True, cache=True)
def _two_digits(columns, firsts, seconds):
    """The usual case, two ranges cut at both ends, as fast as memory delivers the columns."""
    one, two = columns[firsts[0]], columns[firsts[1]]
    one_end, two_end = columns[seconds[0]], columns[seconds[1]]
    total = np.uint64(0)
    negative = np.uint64(0)
    for w in range(len(one)):
        counted = (one[w] ^ one_end[w]) & (two[w] ^ two_end[w])
        total += ones(counted)
        negative += ones(counted & (one[w] ^ two[w]))
    return np.int64(total) - 2 * np.int64(negative)


@njit(nogil=True, cache=True)
def joint_histogram(columns, sizes):
    """How often each combination occurs, flat: (attributes, n) small integers."""
    attributes, n = columns.shape
    cells = 1
    for size in sizes:
        cells *= size
    counts = np.zeros(cells, dtype=np.int64)
    for report in range(n):
        cell = np.int64(columns[0, report])
        for attribute in range(1, attributes):
            cell = cell * sizes[attribute] + np.int64(columns[attribute, report])
        counts[cell] += 1
    return counts


@njit(nogil=True, cache=True)
def product_sums(tables, places, weights):
    """For each row the sum over reports of weight times the table's entries at all its places."""
    rows = len(tables)
    attributes, n = places.shape
    sums = np.zeros(rows)
    for report in range(n):
        for row in range(rows):
            product = weights[row, report]
            for attribute in range(attributes):
                product *= tables[row, places[attribute, report]]
            sums[row] += product
    return sums


def try_out() -> None:
    """Compile something small: raises OSError where the cache cannot be written."""
    column_counts(np.zeros((1, 1), dtype=np.uint64))
