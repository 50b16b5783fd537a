"""Readings of blocks: attributes that are blurred together.

Rows are asked for as items: (f,) is f itself, (f, g) the mean of the product of two decoders, where
f is a function of each attribute of the block, whose product is meant, for all queries at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from metricldp.mechanisms import Channel, Floats, Levels
from metricldp.mechanisms.joint import (
    Functions,
    JointChannel,
    Term,
    constant,
    kinds,
    products,
    summed,
)
from metricldp.store.extremes import Extremes, Sum, varies
from metricldp.survey.blocks import Block

Item = tuple[Functions, ...]
_AT_ONCE = 1 << 18
"""Values of decoders at a time, so that they stay in the cache."""


@dataclass(frozen=True)
class BlockReading:
    """Functions of the positions of a block of attributes, and their decoders.

    Each row is a sum of products, one factor for each attribute, for all queries at once.
    """

    block: Block
    rows: tuple[tuple[Term, ...], ...]

    @property
    def name(self) -> str:
        return self.block.name

    @property
    def channel(self) -> JointChannel:
        return self.block.channel

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.block.columns.values())

    def terms(self, row: str, rows: Sequence[str]) -> Sum:
        """A row of the first query; factors that are the same for everybody are in the numbers."""
        found: Sum = []
        for term in self.rows[rows.index(row)]:
            functions: dict[tuple[str, ...], Floats] = {}
            scale = float(term.scale[0])
            for name, factor in zip(self.block.names, term.factors or (), strict=False):
                if varies(factor[0]):
                    functions[(name,)] = factor[0]
                else:
                    scale *= float(factor[0, 0])
            found += [(scale, functions)] if scale else []
        return found

    def levels(self) -> None:
        return None

    def extremes(self, f: Floats, second: Floats) -> Extremes:
        """Of each query; steps of its estimated variance are jumps squared at most."""
        del second
        (term, *_), *_ = self.rows
        jump = self.channel.skewness(term.factors or ())
        return Extremes(f.min(axis=-1), f.max(axis=-1), jump, jump**2)

    def values(self, batch: Mapping[str, Any]) -> Floats:
        columns = {part: batch[name] for part, name in self.block.columns.items()}
        return np.concatenate([self.channel.valued(terms, columns) for terms in self.rows])

    @cached_property
    def functions(self) -> Floats:
        """What each row is, wherever people can be different: (rows times queries, kinds)."""
        return kinds(self.rows)

    def summed(self, row: int) -> Floats:
        """A row, the sum over all queries: an axis for each attribute."""
        return summed(self.rows[row])


@dataclass(frozen=True)
class CellReading:
    """The same of a block whose report is one integer: functions of its cells.

    Decoders are made when reports are read; estimated cells need none.
    """

    block: Block
    functions: Floats
    """(rows times queries, cells)."""
    jump: Floats
    """How far one report can move each query, or a bound of it."""

    @property
    def name(self) -> str:
        return self.block.name

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def channel(self) -> Channel:
        assert self.block.channel.one is not None
        return self.block.channel.one

    @cached_property
    def coefficients(self) -> Floats:
        found, known = (
            self.channel.moments.coefficients(self.functions),
            np.ptp(self.functions, axis=1) == 0,
        )
        found[known] = self.functions[known, :1]  # what is the same for everybody needs no report
        return found

    def terms(self, row: str, rows: Sequence[str]) -> Sum:
        """A row of the first query."""
        function = self.functions[rows.index(row) * (len(self.functions) // len(rows))]
        if not varies(function):
            return [(float(function[0]), {})]
        return [(1.0, {self.block.names: function.reshape(self.block.sizes)})]

    def levels(self) -> Levels:
        """Every report has a value of its own."""
        return Levels(self.coefficients, lambda column: column)

    def extremes(self, f: Floats, second: Floats) -> Extremes:
        """Of each query; steps of its estimated variance are jumps squared at most."""
        del second
        return Extremes(f.min(axis=-1), f.max(axis=-1), self.jump, self.jump**2)

    def values(self, batch: Mapping[str, Any]) -> Floats:
        return np.asarray(self.coefficients[:, batch[self.name]])

    def summed(self, row: int) -> Floats:
        """A row, the sum over all queries: an axis for each attribute."""
        queries = len(self.jump)
        rows = self.functions[row * queries : (row + 1) * queries]
        return np.asarray(rows.sum(axis=0).reshape(self.block.sizes))


def read_items(block: Block, items: Sequence[Item]) -> BlockReading | CellReading:
    """The rows of a block."""
    if block.channel.one is not None:
        return _read_cells(block, items)
    rows = (
        tuple(block.channel.second_moment(*item)) if item[1:] else _product(item[0])
        for item in items
    )
    return BlockReading(block, tuple(rows))


def _product(factors: Functions) -> tuple[Term, ...]:
    return (Term(np.ones(len(factors[0])), tuple(factors)),)


def _read_cells(block: Block, items: Sequence[Item]) -> CellReading:
    """Some queries at a time, on all cores; the first item is what is asked."""
    one, queries = block.channel.one, len(items[0][0][0])
    assert one is not None
    asked = list({id(f): f for item in items for f in item}.values())
    numbers = {id(f): place for place, f in enumerate(asked)}
    places = [[numbers[id(f)] for f in item] for item in items]
    step = max(1, _AT_ONCE // one.moments.feature_count)
    one.moments.coefficients(np.zeros((1, one.size)))  # prepared once, before there are threads
    rows, jump = np.empty((len(items), queries, one.size)), np.empty(queries)

    def read(start: int) -> None:
        chosen = slice(start, start + step)
        factors = [[factor[chosen] for factor in functions] for functions in asked]
        values = cache(lambda place: products(factors[place]))
        decoders = cache(lambda place: block.channel.mended(factors[place]))
        squares = cache(lambda place, other: decoders(place) * decoders(other))
        for row, (first, *second) in enumerate(places):
            if second:
                rows[row, chosen] = one.moments.mean(squares(first, *second))
            else:
                rows[row, chosen] = values(first)
        most = np.prod([np.abs(f).max(axis=1) for f in factors[0]], axis=0)
        known = constant(factors[0])
        jump[chosen] = np.where(known, 0.0, np.sqrt(squares(0, 0).max(axis=1)) + most)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(read, range(0, queries, step)))
    return CellReading(block, rows.reshape(-1, one.size), jump)
