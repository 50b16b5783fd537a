"""Metrics pair by pair: the shortest-path closure and its generating pairs, in exact integers.

Proposition 1 of the paper: a function that breaks the triangle inequality promises nothing more
than its closure does, because ratios multiply along a path as distances add. All distances are put
over a common denominator. Where the integers fit into 64 bits whole matrices are compared at once;
where they do not, floats find the pairs that could matter and Python's integers decide them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.text import shown
from metricldp.metrics.base import Integers, Metric

MOST_POSITIONS = 1000
"""Closing a table takes its size to the third power; this many are a few seconds."""
_LARGEST_DENOMINATOR = 1 << 12
"""Binary digits: every distance becomes a whole number about as long."""
_SLACK = 1 + 2.0**-40
"""Floats of exact integers are off by 2^-53, their sums by 2^-51 at most: nothing is overlooked."""


@dataclass(frozen=True)
class Change:
    """A stated distance that a way round undercuts."""

    x: int
    other: int
    before: Fraction
    after: Fraction


@dataclass(frozen=True, eq=False)
class Closed:
    """A symmetric matrix of whole numbers that obeys the triangle inequality."""

    numbers: Integers

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Closed) and np.array_equal(self.numbers, other.numbers)

    def __hash__(self) -> int:
        return hash((len(self.numbers), int(self.numbers.max()), int(self.numbers[0].sum())))

    @cached_property
    def generating(self) -> npt.NDArray[np.intp]:
        """The pairs that are not the sum of two others, (count, 2)."""
        found = []
        for x, implied in enumerate(_implied(self.numbers)):
            beyond = x + 1 + np.flatnonzero(~implied)
            found.append(np.column_stack([np.full(len(beyond), x), beyond]))
        return np.concatenate(found)


@dataclass(frozen=True)
class Distances(Metric):
    """E(x, x') = step times a whole number, from a table; made by `tightened` and `added`."""

    table: Closed
    step: Fraction

    @classmethod
    def of(cls, numbers: Integers, step: Fraction) -> Distances:
        """In the largest step there is, so that equal metrics are equal."""
        factor = int(np.gcd.reduce(numbers, axis=None))
        return cls(Closed(numbers // factor), step * factor)

    def distance(self, x: int, other: int) -> Fraction:
        return self.step * int(self.table.numbers[x, other])

    def scaled(self, share: Fraction) -> Distances:
        return Distances(self.table, self.step * share)

    def nearest(self, size: int) -> tuple[int, int]:
        numbers = self.table.numbers.copy()
        np.fill_diagonal(numbers, numbers.max() + 1)
        return divmod(int(np.argmin(numbers)), len(numbers))

    def farthest(self, size: int) -> tuple[int, int]:
        numbers = self.table.numbers
        return divmod(int(np.argmax(numbers)), len(numbers))

    def generating_pairs(self, size: int) -> Iterator[tuple[int, int]]:
        return ((int(x), int(other)) for x, other in self.table.generating)

    def generating_count(self, size: int) -> int:
        return len(self.table.generating)

    def whole(self, size: int) -> Integers:
        return self.table.numbers

    def is_ring(self, size: int) -> bool:
        """Of four positions or more: three are on a ring whatever their distances."""
        ring = {(x, x + 1) for x in range(size - 1)} | {(0, size - 1)}
        return 3 < size == len(self.table.generating) and ring == set(self.generating_pairs(size))


def tightened(
    said: Mapping[tuple[int, int], Fraction], names: Sequence[object]
) -> tuple[Distances, tuple[Change, ...]]:
    """The shortest-path closure of positive distances, and the stated pairs that it changed.

    `said` has each pair of positions once, either way round; names are for the message where
    nothing leads from one value to another.
    """
    unit = common_unit(said.values())
    whole = {pair: int(length / unit) for pair, length in said.items()}
    size = len(names)
    none = size * max(whole.values(), default=0) + 1  # longer than any path
    numbers: Integers = np.full((size, size), none, dtype=kind_for(none))
    for (x, other), number in whole.items():
        numbers[x, other] = numbers[other, x] = number
    np.fill_diagonal(numbers, 0)
    closed = closure(numbers)
    if (closed >= none).any():
        x, other = np.argwhere(closed >= none)[0]
        raise InvalidSpecError(
            f"nothing leads from {shown(names[x])} to {shown(names[other])}; "
            "state distances that connect all values"
        )
    metric = Distances.of(closed, unit)
    pairs = [(x, other, said[x, other], metric.distance(x, other)) for x, other in said]
    changes = [Change(*pair) for pair in pairs if pair[3] < pair[2]]
    return metric, tuple(sorted(changes, key=lambda change: (change.x, change.other)))


def common_unit(lengths: Iterable[Fraction]) -> Fraction:
    """The largest unit of which all lengths are whole multiples."""
    numerator, denominator = 0, 1
    for length in lengths:
        numerator = math.gcd(numerator, length.numerator)
        denominator = math.lcm(denominator, length.denominator)
        if denominator.bit_length() > _LARGEST_DENOMINATOR:
            raise InvalidSpecError(
                "the distances have no common denominator of a reasonable length; "
                "use decimals, or fractions with few different denominators"
            )
    return Fraction(numerator or 1, denominator)


def added(metrics: Sequence[Metric], size: int) -> Metric:
    """E = E_1 + E_2 + ..., a metric again: the triangle inequalities add up.

    What several reports about the same value give away together (appendix B of the paper).
    """
    if len({metric.scaled(1 / metric.step) for metric in metrics}) == 1:
        return metrics[0].scaled(sum(metric.step for metric in metrics) / metrics[0].step)
    if size > MOST_POSITIONS:
        raise InvalidSpecError(
            f"metrics of different kinds are added up for {MOST_POSITIONS:,} positions at most, "
            f"not {size:,}"
        )
    unit = common_unit(metric.step for metric in metrics)
    tables = [(metric.whole(size), int(metric.step / unit)) for metric in metrics]
    largest = sum(int(numbers.max()) * factor for numbers, factor in tables)
    total: Integers = np.zeros((size, size), dtype=kind_for(largest))
    for numbers, factor in tables:
        total += numbers.astype(total.dtype) * factor
    return Distances.of(total, unit)


def kind_for(largest: int) -> type:
    """The type of whole numbers up to `largest`, sums of three included."""
    return np.int64 if 3 * largest < 1 << 63 else object


def closure(numbers: Integers) -> Integers:
    """All shortest paths (Floyd and Warshall), every z as a way round for all pairs at once."""
    closed = numbers.copy()
    if closed.dtype == np.int64:
        for z in range(len(closed)):
            np.minimum(closed, closed[:, z, None] + closed[z], out=closed)
        return closed
    scale = numbers.max()
    floats = _floats(closed, scale)
    for z in range(len(closed)):
        possible = floats[:, z, None] + floats[z] <= floats * _SLACK
        x, other = np.nonzero(np.triu(possible, 1))
        way = closed[x, z] + closed[z, other]
        shorter = (way < closed[x, other]).astype(bool)
        x, other, way = x[shorter], other[shorter], way[shorter]
        closed[x, other] = closed[other, x] = way
        floats[x, other] = floats[other, x] = _floats(way, scale)
    return closed


def _implied(numbers: Integers) -> Iterator[npt.NDArray[np.bool_]]:
    """For each x, which of the pairs with x + 1, x + 2, ... are the sum of two other pairs."""
    ways = numbers.copy()
    np.fill_diagonal(ways, 2 * numbers.max() + 1)  # neither x nor x' is a way round
    if numbers.dtype == np.int64:
        for x in range(len(numbers)):
            beyond = slice(x + 1, None)
            shortest = (ways[x, :, None] + ways[:, beyond]).min(axis=0)
            yield np.asarray(numbers[x, beyond] >= shortest)
        return
    scale = numbers.max()
    floats, far = _floats(numbers, scale), _floats(ways, scale)
    for x in range(len(numbers)):
        beyond = slice(x + 1, None)
        sums = far[x, :, None] + far[:, beyond]
        direct, to, rest = numbers[x, beyond], ways[x], ways[:, beyond]
        best, columns = sums.argmin(axis=0), np.arange(len(direct))
        implied = (to[best] + rest[best, columns] <= direct).astype(bool)
        # Where the shortest way by floats fails, others as short within rounding may not.
        z, other = np.nonzero((sums <= floats[x, beyond] * _SLACK) & ~implied)
        implied[other[(to[z] + rest[z, other] <= direct[other]).astype(bool)]] = True
        yield implied


def _floats(numbers: Integers, scale: int) -> npt.NDArray[np.float64]:
    """Large integers over one of them, each rounded once."""
    return np.asarray(numbers / scale, dtype=np.float64)
