"""Readings: what answers want to know of each attribute, as functions and as their decoders.

An answer and its variance are sums over people of products of functions, one factor per attribute.
Each of those sums is a row with a name. A reading holds the factors of one attribute for all rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from metricldp.attributes.base import Attribute
from metricldp.basics.errors import QueryError
from metricldp.basics.text import guess, listed, shown
from metricldp.mechanisms import Channel, Floats, Levels
from metricldp.store.block_readings import BlockReading, CellReading, read_items
from metricldp.store.extremes import KNOWN, Extremes, Sum, varies
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import Block

T = TypeVar("T")
MAX_ROWS_TOGETHER = 256
"""Queries or rows read at a time: their functions and decoders stay in the cache."""
Functions = Mapping[str, Floats]
"""One function of the position for each attribute named; all others are 1."""
Item = tuple[Floats, ...]
"""What a row reads of one attribute: (f,) is f itself, (f, g) the mean of the decoders' product."""
_ONE = ("value", "second", "square")
_PAIR = (
    *("numerator", "numerator_second", "numerator_square"),
    *("denominator", "denominator_second", "denominator_square"),
    *("both", "product"),
)
_PAIRS = ("both", "product")
_WEIGHTED = ("value", "second", "square_weight", "square")


@dataclass(frozen=True)
class Reading:
    """Functions of one attribute's position (k, size), and decoders of them (k, features)."""

    name: str
    channel: Channel
    functions: Floats
    coefficients: Floats

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.name,)

    def terms(self, row: str, rows: Sequence[str]) -> Sum:
        """A row of the first query."""
        function = self.functions[rows.index(row) * (len(self.functions) // len(rows))]
        if not varies(function):
            return [(float(function[0]), {})]
        return [(1.0, {(self.name,): function})]

    def levels(self) -> Levels | None:
        """The decoders as a table over small codes, where there are few."""
        return self.channel.levels(self.coefficients)

    def extremes(self, f: Floats, second: Floats) -> Extremes:
        """Of each query, from the rows of f and of E[F^2]."""
        jump, hidden = (
            self.channel.moments.skewness(f),
            self.channel.moments.unseen_variance(np.maximum(second - f * f, 0.0)),
        )
        return Extremes(f.min(axis=-1), f.max(axis=-1), jump, hidden)

    def values(self, batch: Mapping[str, Any]) -> Floats:
        """The value of each decoder at each report."""
        return self.channel.values(batch[self.name], self.coefficients)


Part = Reading | BlockReading | CellReading


@dataclass(frozen=True)
class Readings:
    """The readings of all attributes that matter, for every row of some queries.

    The rows of many queries come in blocks, one block for each name, so that a block is read at
    once. Nobody else has to know: sums and functions are asked for by the name of the row.
    """

    rows: tuple[str, ...]
    queries: int
    parts: tuple[Any, ...]
    """A reading of each attribute and of each block."""

    @property
    def count(self) -> int:
        """How many sums there are to find."""
        return len(self.rows) * self.queries

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts)

    @property
    def columns(self) -> list[str]:
        """The columns of reports that are read."""
        return [column for part in self.parts for column in part.columns]

    def without(self, name: str) -> Readings:
        """The same with one attribute, which is blurred alone, left open."""
        return replace(self, parts=tuple(part for part in self.parts if part.name != name))

    def named(self, sums: Floats) -> dict[str, Floats]:
        """All sums, (count, ...), by the name of their row: (queries, ...) each."""
        return dict(zip(self.rows, sums.reshape(-1, self.queries, *sums.shape[1:]), strict=True))

    def functions(self, row: str) -> list[Floats]:
        """What a row reads of each attribute, (queries, size)."""
        return [self.named(part.functions)[row] for part in self.parts]

    def extremes(self) -> Extremes:
        """Of the product over all attributes, for every query."""
        rows = zip(self.parts, self.functions("value"), self.functions("second"), strict=True)
        parts = (part.extremes(f, second) for part, f, second in rows)
        return reduce(Extremes.times, parts, KNOWN)

    def pairs(self, second: str = "second", square: str = "square") -> list[tuple[Floats, Floats]]:
        """E[F^2] and f^2 of each attribute: the two that a variance is the difference of."""
        return list(zip(self.functions(second), self.functions(square), strict=True))


def attribute_of(survey: Agreement, name: object) -> Attribute:
    """An attribute by name, or the names there are."""
    if not isinstance(name, str) or name not in survey.attributes:
        there = f"{listed(survey.asked)}{guess(name, survey.asked)}"
        order = "; the attribute comes before where" if isinstance(name, Mapping) else ""
        raise QueryError(f"the survey has no attribute {shown(name)}; it has {there}{order}")
    return survey.attributes[name]


def involved(survey: Agreement, *queries: Collection[str]) -> list[str]:
    """The attributes that matter: those named, and those that cost even when left whole."""
    named = {name for names in queries for name in names}
    alone = [n for n, c in survey.channels.items() if n in named or not c.moments.knows_total]
    return alone + [n for n, block in survey.blocks.items() if named & {n, *block.names}]


def read(survey: Agreement, *queries: Functions) -> Readings:
    """For each query the rows `value`, f; `second`, E[F^2 | x]; and `square`, f^2.

    The last two give the variance.
    """
    parts: list[Part] = []
    for name in involved(survey, *queries):
        if name in survey.blocks:
            parts.append(read_block(survey.blocks[name], *queries))
            continue
        whole = np.ones(survey.channels[name].size)
        functions = np.array([functions.get(name, whole) for functions in queries])
        parts.append(_one(survey, name, functions))
    return Readings(_ONE, len(queries), tuple(parts))


def read_block(block: Block, *queries: Functions) -> BlockReading | CellReading:
    """The same rows of one block alone."""
    f = _factors(block, *queries)
    return read_items(block, [(f,), (f, f), ([g**2 for g in f],)])


def _factors(block: Block, *queries: Functions) -> list[Floats]:
    """For each attribute of a block its function in each query, (queries, size)."""
    sizes = dict(zip(block.names, block.sizes, strict=True))
    return [
        np.array([functions.get(name, np.ones(size)) for functions in queries], dtype=np.float64)
        for name, size in sizes.items()
    ]


def read_one(survey: Agreement, name: str, functions: Floats) -> Readings:
    """The same rows of one attribute alone: (queries, size) functions."""
    return Readings(_ONE, len(functions), (_one(survey, name, functions),))


def _one(survey: Agreement, name: str, f: Floats) -> Reading:
    return _reading(survey, name, [(f,), (f, f), (_square(survey, name, f),)])


def read_pair(survey: Agreement, functions: Functions, others: Functions) -> Readings:
    """Two answers f and g, the numerator and the denominator of a ratio, and their covariance.

    That is `both`, E[F G | x], less `product`, f g.
    """
    parts: list[Part] = []
    for name in involved(survey, functions, others):
        if name in survey.blocks:
            parts.append(_block_pair(survey.blocks[name], functions, others))
            continue
        ones = np.ones(survey.channels[name].size)
        f, g = functions.get(name, ones), others.get(name, ones)
        f_square, g_square = _square(survey, name, f), _square(survey, name, g)
        items: list[Item] = [(f,), (f, f), (f_square,), (g,), (g, g), (g_square,), (f, g), (f * g,)]
        parts.append(_reading(survey, name, items))
    return Readings(_PAIR, 1, tuple(parts))


def read_pairs(
    survey: Agreement, functions: Sequence[Functions], others: Sequence[Functions]
) -> Readings:
    """The covariances of many pairs of answers at once: the rows `both` and `product` alone."""
    parts: list[Part] = []
    for name in involved(survey, *functions, *others):
        if name in survey.blocks:
            block = survey.blocks[name]
            f, g = _factors(block, *functions), _factors(block, *others)
            both = [a * b for a, b in zip(f, g, strict=True)]
            parts.append(read_items(block, [(f, g), (both,)]))
            continue
        ones = np.ones(survey.channels[name].size)
        one, two = (np.array([q.get(name, ones) for q in side]) for side in (functions, others))
        parts.append(_reading(survey, name, [(one, two), (one * two,)]))
    return Readings(_PAIRS, len(functions), tuple(parts))


def _block_pair(
    block: Block, functions: Functions, others: Functions
) -> BlockReading | CellReading:
    f, g = _factors(block, functions), _factors(block, others)
    f2, g2 = [h**2 for h in f], [h**2 for h in g]
    both = [a * b for a, b in zip(f, g, strict=True)]
    return read_items(block, [(f,), (f, f), (f2,), (g,), (g, g), (g2,), (f, g), (both,)])


def read_weighted(survey: Agreement, functions: Functions, weight: str, ends: Floats) -> Readings:
    """With a private weight w as one more attribute: `value`, f w, and `second`, E[F^2 W^2].

    For the f^2 w^2 that no single bit of w could tell, `square_weight`, f^2 w, and `square`, f^2.
    """
    parts: list[Part] = []
    for name in involved(survey, functions, {weight: ends}):
        if name in survey.blocks:
            f = _factors(survey.blocks[name], functions)
            square = [g**2 for g in f]
            items = [(f,), (f, f), (square,), (square,)]
            parts.append(read_items(survey.blocks[name], items))
            continue
        ones = np.ones(survey.channels[name].size)
        if name == weight:
            rows: list[Item] = [(ends,), (ends, ends), (ends,), (ones,)]
        else:
            g = functions.get(name, ones)
            below = _square(survey, name, g)
            rows = [(g,), (g, g), (below,), (below,)]
        parts.append(_reading(survey, name, rows))
    return Readings(_WEIGHTED, 1, tuple(parts))


def _square(survey: Agreement, name: str, f: Floats) -> Floats:
    """f^2; or, where values are rounded at random to the grid, the best that can be said below it.

    Between two points f is the straight line, and the square of a line lies below the line between
    the squares by up to a quarter of the squared step. So the variance takes a smaller square: for
    an indicator none next to a cut, else a quarter of the larger step less.
    """
    square = f**2
    plain = np.array_equal(square, f)
    if not survey.attributes[name].rounded_at_random:
        return f if plain else np.asarray(square)
    steps = np.abs(np.diff(f))
    nothing = np.zeros((*f.shape[:-1], 1))
    nearby = np.maximum(
        np.concatenate([steps, nothing], axis=-1), np.concatenate([nothing, steps], axis=-1)
    )
    indicator = (square == f).all(axis=-1, keepdims=True)
    return np.where(indicator, np.where(nearby > 0, 0.0, f), square - nearby**2 / 4)


def _reading(survey: Agreement, name: str, items: Sequence[Item]) -> Reading:
    channel = survey.channels[name]
    moments = channel.moments
    found: dict[tuple[int, ...], tuple[Floats, Floats]] = {}  # by identity: rows share functions
    for item in items:
        key = tuple(id(function) for function in item)
        if key not in found:
            alone = len(item) == 1
            found[key] = (
                (item[0], moments.coefficients(item[0]))
                if alone
                else moments.second_moment_estimator(*item)
            )
    rows = [found[tuple(id(function) for function in item)] for item in items]
    functions, coefficients = (_joined([row[part] for row in rows]) for part in (0, 1))
    return Reading(name, channel, functions, coefficients)


def _joined(rows: list[Floats]) -> Floats:
    """Rows, or blocks of rows, as one block."""
    return np.stack(rows) if rows[0].ndim == 1 else np.concatenate(rows)


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Some at a time, in their order."""
    remaining = iter(items)
    while some := list(islice(remaining, size)):
        yield some
