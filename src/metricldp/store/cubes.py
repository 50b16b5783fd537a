"""The three layouts of the paper's Table 1: sums over people from cells, prefix sums or reports.

All three answer the same question: for readings of some attributes, the sum over people of the
product of their decoders, row by row. "reports" passes over the reports and keeps no table. The
others pass once, into a table of feature sums over just the attributes in question:

cells    the estimated frequency of every combination of positions; a range adds its cells
prefix   sums of features up to every position; a range combines a few corners of them
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import QueryError
from metricldp.mechanisms import Channel, Column, Floats, IntegerChannel
from metricldp.store.bits import Batch, Counts, Words, transposed
from metricldp.store.readings import Readings

LAYOUTS = ("auto", "cells", "prefix", "reports")
MAX_TABLE_BYTES = 1 << 27
"""Bytes of a table that "auto" will build; asked for by name, a table may be sixteen times that."""
MAX_ENTRIES_AT_ONCE = 1 << 22
"""Entries of an expanded batch while a table is built."""
WORDS_AT_ONCE = 256
"""Words of each bit column whose pairs are counted together: 256 such columns fit in the cache."""
MAX_FEATURE_PRODUCT = 1 << 32
"""With products of features up to here, sums over two thousand million reports fit 64 bits."""


# Tables


@dataclass(frozen=True)
class Table:
    """Sums over reports of all products of features of some attributes: exact integers."""

    channels: Mapping[str, Channel]
    sums: Counts

    def __add__(self, other: Table) -> Table:
        return Table(self.channels, self.sums + other.sums)

    @property
    def largest_product(self) -> int:
        """The most that one report adds to an entry, or takes from it."""
        return _largest_product(self.channels.values())

    def over(self, names: Sequence[str]) -> Table:
        """The same reports over some of the attributes: the others are summed out, left whole."""
        sums = self.sums
        for axis, (name, channel) in reversed(list(enumerate(self.channels.items()))):
            if name not in names:
                sums = np.asarray(_left_whole(sums, axis, channel))
        return Table({name: c for name, c in self.channels.items() if name in names}, sums)

    def opened(self, readings: Readings, name: str) -> Floats:
        """Sums of every feature of one attribute times the others' decoders: (count, features)."""
        axis = list(self.channels).index(name)
        opened = np.moveaxis(self.sums, axis, 0)
        rows = range(readings.count)
        vectors = [[part.coefficients[row] for part in readings.parts] for row in rows]
        return np.array([[_contract(part, v) for part in opened] for v in vectors])

    @cached_property
    def frequencies(self) -> Floats:
        """Equation 7: the estimated frequency of every cell, decoded along one axis at a time."""
        cells: Floats = self.sums.astype(np.float64)
        for channel in self.channels.values():
            # Decode the first axis and send it to the back: after all, the order is restored.
            cells = np.moveaxis(channel.moments.frequencies(cells), 0, -1)
        return np.ascontiguousarray(cells)

    @cached_property
    def prefixes(self) -> Counts:
        """Feature sums, cumulated where features are single values; bits are prefixes already."""
        prefixes = self.sums
        for axis, channel in enumerate(self.channels.values()):
            if isinstance(channel, IntegerChannel):
                prefixes = np.cumsum(prefixes, axis=axis)
        return prefixes

    def from_cells(self, readings: Readings) -> Floats:
        """Add up the cells where every function of a row differs from zero."""
        for name, channel in self.channels.items():
            if not channel.moments.is_linear:
                raise QueryError(
                    f"cells of {name} do not add up to the estimates of {channel.mechanism}; "
                    "use layout 'prefix' or 'reports'"
                )
        functions = [part.functions for part in readings.parts]
        if len(functions) == 1:
            return np.asarray(functions[0] @ self.frequencies)
        rows = range(readings.count)
        return np.array([_contract(self.frequencies, [f[row] for f in functions]) for row in rows])

    def from_prefixes(self, readings: Readings) -> Floats:
        """Combine the prefix sums at the few places where a decoder changes, all rows at once."""
        steps = [_Steps.of(part) for part in readings.parts]
        if math.prod(step.most for step in steps) * readings.count > MAX_ENTRIES_AT_ONCE:
            changes = [_changes(part) for part in readings.parts]
            rows = range(readings.count)
            return np.array([_contract(self.prefixes, [c[row] for c in changes]) for row in rows])
        return _combine(self.prefixes, steps)


@dataclass(frozen=True)
class _Steps:
    """Where the decoders of some rows change, and by how much; short rows end in zeros."""

    places: Counts
    by: Floats

    @classmethod
    def of(cls, reading: Any) -> _Steps:
        changes = _changes(reading)
        row, place = np.nonzero(changes)
        counts = np.bincount(row, minlength=len(changes))
        rank = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        shape = (len(changes), max(1, int(counts.max())))
        places, by = np.zeros(shape, dtype=np.int64), np.zeros(shape)
        places[row, rank], by[row, rank] = place, changes[row, place]
        return cls(places, by)

    @property
    def most(self) -> int:
        """The most changes that a row has."""
        return int(self.places.shape[1])


def _changes(reading: Any) -> Floats:
    """What to multiply each prefix with: the step of the decoder behind it; bits are prefixes."""
    changes: Floats = reading.coefficients
    if not isinstance(reading.channel, IntegerChannel):
        return changes
    changes = changes.copy()
    changes[:, :-1] -= reading.coefficients[:, 1:]
    return changes


def _combine(prefixes: Counts, steps: list[_Steps]) -> Floats:
    """For each row the sum over all corners, added in an order that other rows cannot change."""
    rows = len(steps[0].places)
    flat = np.zeros((rows, 1), dtype=np.int64)
    for step, size in zip(steps, prefixes.shape, strict=True):
        flat = (flat[:, :, None] * size + step.places[:, None, :]).reshape(rows, -1)
    found: Floats = prefixes.reshape(-1)[flat].astype(np.float64)
    for step in reversed(steps):
        terms = found.reshape(rows, -1, step.most) * step.by[:, None, :]
        found = terms[:, :, 0]
        for place in range(1, step.most):
            found = found + terms[:, :, place]
    return found[:, 0]


def _contract(table: npt.NDArray[np.generic], vectors: list[Floats]) -> float:
    """sum of table times an outer product of vectors, visiting only where none of them is zero."""
    places = [np.flatnonzero(vector) for vector in vectors]
    if any(len(place) < len(v) for place, v in zip(places, vectors, strict=True)):
        table = table[np.ix_(*places)]
    result: Floats = np.asarray(table, dtype=np.float64)
    for vector, place in zip(reversed(vectors), reversed(places), strict=True):
        result = result @ vector[place]
    return float(result)


def table_bytes(channels: Iterable[Channel]) -> int:
    """The memory that a table over these channels takes."""
    return 8 * math.prod(channel.moments.feature_count for channel in channels)


def _largest_product(channels: Iterable[Channel]) -> int:
    return math.prod(channel.largest for channel in channels)


def check_size(
    channels: list[Channel], names: Sequence[str], remedy: str = "use layout 'reports'"
) -> None:
    """Refuse a table, asked for by name, that no collector should hold in memory."""
    if _largest_product(channels) > MAX_FEATURE_PRODUCT:
        raise QueryError(
            f"sums over {', '.join(names)} could outgrow 64 bits, because their rows need noise of "
            "millions; use layout 'reports'"
        )
    size = table_bytes(channels)
    if size > 16 * MAX_TABLE_BYTES:
        raise QueryError(f"a table over {', '.join(names)} takes {size / 1e9:,.0f} GB; {remedy}")


def fits(channels: list[Channel]) -> bool:
    """Whether a collector may hold a table over these channels."""
    small = table_bytes(channels) <= 16 * MAX_TABLE_BYTES
    return small and _largest_product(channels) <= MAX_FEATURE_PRODUCT


def _left_whole(sums: Counts, axis: int, channel: Channel) -> Any:
    """Sums of all other features: what is decoded for 1 is 1, whatever the features are."""
    if channel.moments.has_constant:
        return sums.take(0, axis=axis)
    if isinstance(channel, IntegerChannel):  # exactly one feature is 1
        return sums.sum(axis=axis)
    decoder = channel.moments.coefficients(np.ones(channel.size))
    return np.rint(np.tensordot(decoder, sums, (0, axis))).astype(np.int64)


def worth_a_table(channels: list[Channel], queries: int) -> bool:
    """Whether so many questions about the same attributes pay for a table of them.

    Small integers are counted in about the time of two questions. A product of bits takes one
    multiplication per report and entry, of which a hundred cost about as much as one question.
    """
    if table_bytes(channels) > MAX_TABLE_BYTES or _largest_product(channels) > MAX_FEATURE_PRODUCT:
        return False
    if all(isinstance(channel, IntegerChannel) for channel in channels):
        return queries > 2
    return queries > 2 + math.prod(channel.moments.feature_count for channel in channels) / 100


def quickest(channels: Mapping[str, Channel], blocks: Collection[str]) -> str:
    """The layout of a table that answers soonest.

    A decoder of cells of a grid changes everywhere; estimated cells need none, where they add up.
    """
    joint = any(name in blocks for name in channels)
    return "cells" if joint and all(c.moments.is_linear for c in channels.values()) else "prefix"


def build(batches: Iterable[Batch], channels: Mapping[str, Channel]) -> Table:
    """One pass over the reports into a table, batch by batch on all cores."""
    batches = list(batches)
    kinds = list(channels.values())
    sums = np.zeros([channel.moments.feature_count for channel in kinds], dtype=np.int64)
    reports = sum(len(next(iter(batch.values()))) for batch in batches)
    if all(isinstance(channel, IntegerChannel) for channel in kinds):
        count = _histogram
    elif all(channel.is_bits for channel in kinds) and _worth_a_kernel(reports, sums.size):
        count = _sign_products
    else:
        count = _feature_products
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = pool.map(lambda batch: count([batch[name] for name in channels], kinds), batches)
        for part in parts:
            sums += part
    return Table(channels, sums)


def _worth_a_kernel(reports: int, entries: int) -> bool:
    """Whether a matrix product would take longer than loading numba, which is about a second."""
    return reports >= 1 << 16 or reports * entries >= 1 << 31


def _histogram(columns: list[Column], channels: list[Channel]) -> Counts:
    """How many reports have each combination of integers."""
    sizes = [channel.moments.feature_count for channel in channels]
    cells = columns[0].astype(np.int64)
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        cells *= size
        cells += column
    return np.bincount(cells, minlength=math.prod(sizes)).reshape(sizes)


def _sign_products(columns: list[Column], channels: list[Channel]) -> Counts:
    """Sums of products of signs, from counts of bits.

    A bit of ~column is 1 where the sign is -1, so a product is -1 where an odd number of its bits
    is 1; a constant is a column of zeros. The attributes are divided into two halves. Within a half
    all combinations are expanded by XOR, some words at a time, and then all pairs are counted.
    """
    from metricldp.store import kernels

    sizes = [channel.moments.feature_count for channel in channels]
    half = _balanced(sizes)
    shape = math.prod(sizes[:half]), math.prod(sizes[half:])
    pairs = zip(columns, channels, strict=True)
    bits = [transposed(~column, c.bits, int(c.moments.has_constant)) for column, c in pairs]
    step = max(16, min(WORDS_AT_ONCE, MAX_ENTRIES_AT_ONCE // max(shape) // 8))
    odd = np.zeros(shape, dtype=np.int64)
    for start in range(0, bits[0].shape[1], step):
        parts = [part[:, start : start + step] for part in bits]
        words = parts[0].shape[1]
        left, right = _combined(parts[:half], words), _combined(parts[half:], words)
        odd += kernels.differing_bits(left, right)
    return np.asarray(len(columns[0]) - 2 * odd).reshape(sizes)


def _combined(parts: list[Words], words: int) -> Words:
    """The XOR of one column of each part, for all combinations."""
    product = parts[0] if parts else np.zeros((1, words), dtype=np.uint64)
    for part in parts[1:]:
        product = (product[:, None, :] ^ part[None, :, :]).reshape(-1, part.shape[1])
    return np.ascontiguousarray(product)


def _feature_products(columns: list[Column], channels: list[Channel]) -> Counts:
    """Expand each half of the attributes, then multiply the halves as matrices, exactly.

    A sum of products over a chunk is at most its rows times the largest product of features. Below
    2^24 float32 holds it as it is; 2^16 rows of products up to 2^32 are far below float64's 2^53.
    """
    sizes = [channel.moments.feature_count for channel in channels]
    half = _balanced(sizes)
    widest = max(math.prod(sizes[:half]), math.prod(sizes[half:]))
    step = max(1, min(1 << 16, MAX_ENTRIES_AT_ONCE // widest))
    most = step * math.prod(channel.largest for channel in channels)
    kind = np.float32 if most < 1 << 24 else np.float64
    result = np.zeros((math.prod(sizes[:half]), math.prod(sizes[half:])), dtype=np.int64)
    for start in range(0, len(columns[0]), step):
        parts = [
            channel.features(column[start : start + step]).astype(kind)
            for column, channel in zip(columns, channels, strict=True)
        ]
        rows = len(parts[0])
        left, right = _expanded(parts[:half], rows), _expanded(parts[half:], rows)
        result += (left.T @ right).astype(np.int64)
    return result.reshape(sizes)


def _balanced(sizes: list[int]) -> int:
    """Where to cut the attributes in two so that the larger half is as small as can be."""
    cuts = range(len(sizes) + 1)
    return min(cuts, key=lambda cut: max(math.prod(sizes[:cut]), math.prod(sizes[cut:])))


def _expanded(parts: list[npt.NDArray[Any]], rows: int) -> npt.NDArray[Any]:
    product = np.ones((rows, 1), dtype=np.float32)  # the wider kind of the parts prevails
    for part in parts:
        product = (product[:, :, None] * part[:, None, :]).reshape(rows, -1)
    return product
