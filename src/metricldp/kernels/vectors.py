"""Instructions that numba has no name for: ones of a word, full adders on 256 counters at a time.

A counter is spread over planes: plane p holds bit p of 256 counters side by side. For four rows of
256 bits all sixteen sums of a choice of them are made once, as three planes each; a column of 64
lanes then names sixteen such sums, and adding them up takes a full adder for each plane, five
instructions for 256 counters.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

LANES = 4
"""Words of a vector."""
PLANES = 17
"""Binary digits of a counter: it holds up to 2^17 - 1."""
ENTRY = 3 * LANES
"""Words of one sum of at most four rows: three planes."""
TABLE = 16 * 16 * ENTRY
"""Words of the sums of 64 rows: sixteen groups of four, sixteen choices each."""

_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, LANES)
_Planes = list[ir.Value]


@intrinsic
def ones(typing_context: Any, word: Any) -> Any:  # noqa: ANN401 - numba's own types
    """The number of ones of a word, one machine instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:  # noqa: ANN401
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


class _Emitter:
    """Instructions on vectors in the arrays that an intrinsic was called with."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:  # noqa: ANN401
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
def sums_of_four(typing_context: Any, rows: Any, table: Any) -> Any:  # noqa: ANN401 - numba's types
    """Fill the table (TABLE words) with the sums of every choice of four rows out of 64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:  # noqa: ANN401
        emit = _Emitter(context, builder, signature, arguments)
        nothing = ir.Constant(_VECTOR, [0] * LANES)
        for group in range(16):
            sums: list[_Planes] = [[nothing] * 3]
            for row in range(4):
                added = emit.load(0, ir.Constant(_WORD, LANES * (4 * group + row)))
                sums += [_plus_one_row(emit, planes, added) for planes in sums]
            for choice, planes in enumerate(sums):
                for p, plane in enumerate(planes):
                    emit.store(plane, 1, ENTRY * (16 * group + choice) + LANES * p)
        return context.get_dummy_value()

    return types.void(rows, table), generate


def _plus_one_row(emit: _Emitter, planes: _Planes, row: ir.Value) -> _Planes:
    ones, carry = emit.half_adder(planes[0], row)
    twos, carry = emit.half_adder(planes[1], carry)
    return [ones, twos, emit.build.xor(planes[2], carry)]


@intrinsic
def add_chosen(typing_context: Any, table: Any, word: Any, counters: Any) -> Any:  # noqa: ANN401
    """Add to 256 counters the rows that the lanes of one word choose."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:  # noqa: ANN401
        emit = _Emitter(context, builder, signature, arguments)
        chosen = emit.word(1, 0)
        waiting: list[_Planes] = [[] for _ in range(PLANES + 1)]
        for group in range(16):
            shifted = builder.lshr(chosen, ir.Constant(_WORD, 4 * group))
            choice = builder.and_(shifted, ir.Constant(_WORD, 15))
            entry = builder.mul(choice, ir.Constant(_WORD, ENTRY))
            for p in range(3):
                place = builder.add(entry, ir.Constant(_WORD, 16 * ENTRY * group + LANES * p))
                waiting[p].append(emit.load(0, place))
                _carry(emit, waiting, p, at_least=3)
        for p in range(PLANES):
            waiting[p].append(emit.load(2, ir.Constant(_WORD, LANES * p)))
            _carry(emit, waiting, p, at_least=2)
            emit.store(waiting[p][0], 2, LANES * p)
        return context.get_dummy_value()

    return types.void(table, word, counters), generate


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
