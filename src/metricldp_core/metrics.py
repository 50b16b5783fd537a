"""Metrics on positions: what a field guarantees, and the pairs of positions that prove it.

E(x, x') bounds the logarithm of the likelihood ratio of x and x'. Likelihood ratios multiply along
a path of positions as distances add, so it is enough to examine *generating* pairs: those whose
distance is not the sum of the distances of two parts of a path. All distances are fractions.
"""

from __future__ import annotations

import heapq
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import accumulate, groupby, islice, product
from math import ceil, floor, prod
from operator import itemgetter
from typing import Any, ClassVar, Self

from metricldp_core.canonical import LARGEST_FRACTION, LARGEST_NUMBER, Entry
from metricldp_core.exact import CERTAIN, at_most_exp, log_of

MOST_PAIRS = 1 << 16
"""Generating pairs that a manifest lists."""
_LARGE = re.compile("[1-9][0-9]{15,1999}")
_MOST_STEPS = 1 << 19
"""Steps in which all shortest paths are computed; longer ones are bounded."""


@dataclass(frozen=True)
class Limit:
    """The largest likelihood ratio of a pair: e^epsilon, or 1 + epsilon if `linear`."""

    epsilon: Fraction
    linear: bool = False

    def allows(self, ratio: Fraction) -> bool:
        if ratio >= CERTAIN:
            return False
        if self.linear:
            return ratio <= 1 + self.epsilon
        return at_most_exp(ratio, self.epsilon)

    @property
    def strictness(self) -> tuple[bool, Fraction]:
        """Orders the limits of a metric; only the smallest one can be linear."""
        return not self.linear, self.epsilon

    @property
    def allowed(self) -> float:
        """The largest privacy loss, the logarithm of the ratio."""
        return log_of(1 + self.epsilon) if self.linear else float(self.epsilon)


Pairs = Iterator[tuple[int, int]]


@dataclass(frozen=True)
class Group:
    """Generating pairs with the same limit."""

    limit: Limit
    pairs: Callable[[bool], Pairs]
    """All of them if true, else one for each difference of cells."""
    widest: tuple[int, int]
    """A pair with the largest difference of positions."""


def strictest(groups: Iterable[Group]) -> Group:
    """The first of some groups with the smallest limit."""
    return min(groups, key=lambda group: group.limit.strictness)


class Metric(ABC):
    """E(x, x') on positions 0 to size - 1."""

    kind: ClassVar[str]
    size: int

    @property
    def grid(self) -> tuple[int, ...]:
        """The sizes of the grid of which positions are the flattened cells."""
        return (self.size,)

    @abstractmethod
    def groups(self) -> Iterator[Group]:
        """Pairs of positions that imply all others by the triangle inequality, by their limit."""

    @abstractmethod
    def distance(self, x: int, other: int) -> Fraction:
        """E(x, x'), or an upper bound of it."""

    @abstractmethod
    def largest(self) -> Fraction:
        """The largest distance of two positions, or an upper bound of it."""

    def between_points(self) -> Metric:
        """What points of a grid must keep for values that are rounded to them at random."""
        return self


@dataclass(frozen=True)
class Uniform(Metric):
    """E(x, x') = epsilon for any two positions: plain local differential privacy.

    A value that is rounded at random has a mixture of the distributions of two points, which has no
    larger ratios. So points keep the metric itself.
    """

    size: int
    epsilon: Fraction

    kind: ClassVar[str] = "uniform"

    def distance(self, x: int, other: int) -> Fraction:
        return self.epsilon * (x != other)

    def groups(self) -> Iterator[Group]:
        yield Group(Limit(self.epsilon), self._pairs, (0, self.size - 1))

    def _pairs(self, every: bool) -> Pairs:
        for x in range(self.size if every else 1):
            yield from ((x, other) for other in range(x + 1, self.size))

    def largest(self) -> Fraction:
        return self.epsilon

    @classmethod
    def read(cls, entry: Entry, size: int) -> Self:
        return cls(size, entry.fraction("epsilon"))


@dataclass(frozen=True)
class Line(Metric):
    """E = epsilon ceil(d / width), at most `cap`, for positions d apart along a line or a ring.

    With width 1 it is epsilon per step; else it is epsilon for all positions at most `width` apart,
    twice that up to twice as far, and so on. On a ring d = min(|x - x'|, size - |x - x'|). The cap
    is at least epsilon. E is a metric, as rounding up a sum gives at most the sum of the parts
    rounded up, and so is min(E, cap).

    Generating differences: d is the sum of two others with the same total distance except for
    d <= width; d = floor(k width) for k with a smaller fractional part of k width than all before;
    and all d whose distance is the cap.
    """

    size: int
    epsilon: Fraction
    width: Fraction = Fraction(1)
    cap: Fraction | None = None
    ring: bool = False
    linear: bool = False
    """Whether neighbours keep a ratio of 1 + epsilon, see `between_points`."""

    kind: ClassVar[str] = "line"

    def at(self, difference: Fraction | int) -> Fraction:
        """The distance of positions that differ by so much."""
        if self.ring:
            difference = min(difference, self.size - difference)
        far = self.epsilon * ceil(difference / self.width)
        return far if self.cap is None else min(far, self.cap)

    def distance(self, x: int, other: int) -> Fraction:
        return self.at(abs(x - other))

    def groups(self) -> Iterator[Group]:
        for differences in self._ranges:
            first, last = differences[0], differences[-1]
            limit = Limit(self.at(first), self.linear and first == 1)
            widest = self.size - first if self.ring else last
            yield Group(limit, partial(self._pairs, differences), (0, widest))

    def _pairs(self, differences: range, every: bool) -> Pairs:
        for d in differences:
            yield from ((x, x + d) for x in range(self.size - d if every else 1))
            if self.ring and 2 * d < self.size:
                yield from ((x, x + self.size - d) for x in range(d if every else 1))

    @cached_property
    def _ranges(self) -> list[range]:
        """The generating differences in rising order, in ranges of equal distance."""
        widest = self.size // 2 if self.ring else self.size - 1
        found = [range(1, min(floor(self.width), widest) + 1)]
        most = widest if self.cap is None else self.cap // self.epsilon
        part, whole = self.width.numerator, self.width.denominator
        rest = least = part % whole
        for k in range(2, most + 1):
            if not least or (d := k * part // whole) > widest:
                break
            rest = (rest + part) % whole
            if rest < least:
                least = rest
                found.append(range(d, d + 1))
        if self.cap is not None:
            found.append(range(floor(self.width * most) + 1, widest + 1))
        return [differences for differences in found if differences]

    def largest(self) -> Fraction:
        return self.at(self.size // 2 if self.ring else self.size - 1)

    def between_points(self) -> Line:
        """The metric on points such that values rounded to them at random keep this one.

        Per step: with p and p' the probabilities of a report from neighbouring points, a value
        between them has (1 - t) p + t p'. If p' <= (1 + e) p, its logarithm changes by at most e
        for each unit of t. So a ratio of 1 + e between neighbours keeps e per step between values.
        Within a width: values at most that far apart are rounded to points at most one step more
        apart.
        """
        if self.width == 1:
            return replace(self, linear=True)
        return replace(self, width=Fraction(ceil(self.width) + 1))

    @classmethod
    def read(cls, entry: Entry, size: int) -> Self:
        epsilon = entry.fraction("epsilon")
        width, cap = (entry.fraction(key) if entry.has(key) else None for key in ("width", "cap"))
        if (width is not None and width <= 1) or (cap is not None and cap < epsilon):
            entry.reject(
                "needs a width of at least 1 (1 is left out), and a cap of at least epsilon"
            )
        width = width or Fraction(1)
        rounds = min(width.denominator, floor(size / width))
        entry.charge(rounds * (1 + (width.denominator.bit_length() >> 7)))
        return cls(size, epsilon, width, cap, entry.true("ring"))


@dataclass(frozen=True)
class Graph(Metric):
    """E is the length of the shortest path over listed pairs; lengths are multiples of `step`."""

    size: int
    step: Fraction
    pairs: tuple[tuple[int, int], ...]
    lengths: tuple[int, ...]

    kind: ClassVar[str] = "graph"

    def groups(self) -> Iterator[Group]:
        limits = {length: Limit(self.step * length) for length in set(self.lengths)}
        listed = zip(self.lengths, self.pairs, strict=True)
        for length, run in groupby(listed, key=itemgetter(0)):
            pairs = [pair for _, pair in run]
            widest = max(pairs, key=lambda pair: pair[1] - pair[0])
            yield Group(limits[length], partial(_listed, pairs), widest)

    @cached_property
    def _edges(self) -> list[list[tuple[int, int]]]:
        edges: list[list[tuple[int, int]]] = [[] for _ in range(self.size)]
        for (x, other), length in zip(self.pairs, self.lengths, strict=True):
            edges[x].append((other, length))
            edges[other].append((x, length))
        return edges

    @cached_property
    def _line(self) -> list[int] | None:
        """Lengths from position 0, if the pairs are all neighbours."""
        if self.pairs != neighbours(self.size):
            return None
        return list(accumulate(self.lengths, initial=0))

    @property
    def is_line(self) -> bool:
        """Whether the pairs are all neighbours, so that distances rise along the positions."""
        return self._line is not None

    def distances_from(self, start: int) -> list[int]:
        """Lengths of shortest paths (Dijkstra's algorithm); -1 for positions without a path."""
        if self._line is not None:
            return [abs(length - self._line[start]) for length in self._line]
        found = [-1] * self.size
        queue = [(0, start)]
        while queue:
            length, x = heapq.heappop(queue)
            if found[x] < 0:
                found[x] = length
                for other, more in self._edges[x]:
                    if found[other] < 0:
                        heapq.heappush(queue, (length + more, other))
        return found

    @cached_property
    def _all(self) -> list[list[int]] | None:
        """All distances, if there are few enough pairs."""
        if self.size * len(self.pairs) > _MOST_STEPS:
            return None
        return [self.distances_from(x) for x in range(self.size)]

    def distance(self, x: int, other: int) -> Fraction:
        if self._line is not None:
            return self.step * abs(self._line[x] - self._line[other])
        if self._all is None:
            return self.largest()
        return self.step * self._all[x][other]

    def largest(self) -> Fraction:
        return self._largest

    @cached_property
    def _largest(self) -> Fraction:
        if self._line is not None:
            return self.step * self._line[-1]
        if self._all is not None:
            return self.step * max(map(max, self._all))
        # Over the middle position any two are at most twice its largest distance apart.
        return self.step * 2 * max(self.distances_from(self.size // 2))

    def sensitive(self) -> list[int]:
        """Positions at the smallest distance of all others, if all pairs contain one of them."""
        if len(set(self.lengths)) > 1:
            return []
        pairs = set(self.pairs)
        found = [x for x in range(self.size) if len(self._edges[x]) == self.size - 1]
        touched = all(x in found or other in found for x, other in pairs)
        return found if touched and len(found) < self.size else []

    @classmethod
    def read(cls, entry: Entry, size: int) -> Self:
        step = entry.fraction("step")
        pairs, listed = list(neighbours(size)), entry.has("pairs")
        if listed:
            pairs = [_pair(entry, pair, size) for pair in entry.list("pairs", 1, MOST_PAIRS)]
        numbers = entry.list("lengths", len(pairs), len(pairs))
        found = cls(size, step, tuple(pairs), _lengths(entry, numbers, step))
        if len(set(pairs)) < len(pairs) or min(found.distances_from(0)) < 0:
            entry.reject("needs different pairs that connect all positions")
        if listed and found.is_line:
            entry.reject("has pairs of all neighbours, which are left out")
        return found


def _listed(pairs: list[tuple[int, int]], every: bool) -> Pairs:
    """Pairs of a graph, each with a difference of its own."""
    return iter(pairs)


def neighbours(size: int) -> tuple[tuple[int, int], ...]:
    return tuple((x, x + 1) for x in range(size - 1))


def _pair(entry: Entry, pair: object, size: int) -> tuple[int, int]:
    if not isinstance(pair, list) or len(pair) != 2:
        entry.reject("needs pairs of positions")
    x = entry.whole_of(pair[0], "pairs", 0, size - 2)
    return x, entry.whole_of(pair[1], "pairs", x + 1, size - 1)


def _lengths(entry: Entry, numbers: list[Any], step: Fraction) -> tuple[int, ...]:
    """Positive integers, as text from 2^53 on."""
    lengths = []
    for number in numbers:
        large = int(number) if isinstance(number, str) and _LARGE.fullmatch(number) else 0
        if large < LARGEST_NUMBER:
            large = entry.whole_of(number, "lengths", 1, LARGEST_NUMBER - 1)
        lengths.append(large)
    if step * max(lengths) > LARGEST_FRACTION:
        entry.reject("has a distance above 2^40")
    return tuple(lengths)


@dataclass(frozen=True)
class Grid(Metric):
    """E on the cells of a grid: the length of the shortest path over listed steps.

    A step moves by a number of positions along each attribute, up or down. Cells are flattened, the
    last attribute fastest. Paths are monotone along each attribute.
    """

    sizes: tuple[int, ...]
    step: Fraction
    steps: tuple[tuple[int, ...], ...]
    lengths: tuple[int, ...]

    kind: ClassVar[str] = "grid"

    @property
    def size(self) -> int:  # type: ignore[override]
        return prod(self.sizes)

    @property
    def grid(self) -> tuple[int, ...]:
        return self.sizes

    def groups(self) -> Iterator[Group]:
        for step, length in zip(self.steps, self.lengths, strict=True):
            signs = product(*((1, -1) if part else (1,) for part in step))
            # Of two opposite directions one is enough: the first half of the signs.
            ways = [tuple(map(int.__mul__, step, sign)) for sign in signs]
            ways = ways[: max(1, len(ways) // 2)]
            limit, widest = Limit(self.step * length), (0, self.flat(step))
            yield Group(limit, partial(self._pairs, ways), widest)

    def _pairs(self, ways: list[tuple[int, ...]], every: bool) -> Pairs:
        for way in ways:
            sizes = zip(way, self.sizes, strict=True)
            starts = product(*(range(max(0, -s), n - max(0, s)) for s, n in sizes))
            for cell in islice(starts, None if every else 1):
                yield self.flat(cell), self.flat(tuple(map(int.__add__, cell, way)))

    def flat(self, cell: tuple[int, ...]) -> int:
        """The position of a cell."""
        position = 0
        for x, size in zip(cell, self.sizes, strict=True):
            position = position * size + x
        return position

    def cell(self, position: int) -> tuple[int, ...]:
        """The cell at a position."""
        found = []
        for size in reversed(self.sizes):
            position, x = divmod(position, size)
            found.append(x)
        return tuple(reversed(found))

    @cached_property
    def _shortest(self) -> list[int]:
        """The shortest path for each difference of cells, flattened; one step after the other."""
        shortest = [0] + [max(self.lengths) * self.size] * (self.size - 1)
        for step, length in zip(self.steps, self.lengths, strict=True):
            back, (*heads, last) = self.flat(step), map(range, step, self.sizes)
            for head in product(*heads):
                row = self.flat((*head, 0))
                for here in range(row + last.start, row + last.stop):
                    way = shortest[here - back] + length
                    shortest[here] = min(shortest[here], way)
        return shortest

    def distance(self, x: int, other: int) -> Fraction:
        apart = map(int.__sub__, self.cell(x), self.cell(other))
        return self.step * self._shortest[self.flat(tuple(map(abs, apart)))]

    def largest(self) -> Fraction:
        return self.step * max(self._shortest)

    @classmethod
    def read(cls, entry: Entry, size: int) -> Self:
        step = entry.fraction("step")
        sizes = tuple(entry.whole_of(n, "sizes", 2, size) for n in entry.list("sizes", 2, 8))
        steps, numbers = [], []
        for data in entry.list("steps", len(sizes), MOST_PAIRS):
            if not isinstance(data, list) or len(data) != len(sizes) + 1:
                entry.reject("needs steps, lists of a number for each attribute and a length")
            pairs = zip(data[:-1], sizes, strict=True)
            steps.append(tuple(entry.whole_of(s, "steps", 0, n - 1) for s, n in pairs))
            numbers.append(data[-1])
        units = {tuple(int(d == k) for k in range(len(sizes))) for d in range(len(sizes))}
        if not units <= set(steps) or len(set(steps)) < len(steps) or not all(map(any, steps)):
            entry.reject("needs different steps, with one position along each attribute")
        found = cls(sizes, step, tuple(steps), _lengths(entry, numbers, step))
        entry.charge(sum(4 << sum(map(bool, step)) for step in steps))  # in all directions
        if found.size != size or size * len(steps) > 32 * _MOST_STEPS:
            entry.reject("has sizes or steps that do not fit the distribution, or too many")
        return found


KINDS: dict[str, Any] = {metric.kind: metric for metric in (Uniform, Line, Graph, Grid)}
