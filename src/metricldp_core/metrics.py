"""Metrics on positions: what a field guarantees, and the pairs of positions that prove it.

E(x, x') bounds the logarithm of the likelihood ratio of x and x'. Likelihood ratios multiply along
a path of positions as distances add, so it is enough to examine *generating* pairs: those whose
distance is not the sum of the distances of two parts of a path. All distances are fractions.
"""

from __future__ import annotations

import heapq
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, product
from math import ceil, floor, prod
from typing import Any, ClassVar, Self

from metricldp_core.canonical import LARGEST_FRACTION, LARGEST_NUMBER, Entry
from metricldp_core.exact import CERTAIN, at_most_exp, log_of

MOST_PAIRS = 1 << 20
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
    def allowed(self) -> float:
        """The largest privacy loss, the logarithm of the ratio."""
        return log_of(1 + self.epsilon) if self.linear else float(self.epsilon)


class Metric(ABC):
    """E(x, x') on positions 0 to size - 1."""

    kind: ClassVar[str]
    size: int

    @property
    def grid(self) -> tuple[int, ...]:
        """The sizes of the grid of which positions are the flattened cells."""
        return (self.size,)

    @abstractmethod
    def generating_pairs(self) -> Iterator[tuple[int, int]]:
        """Pairs of positions that imply all others by the triangle inequality."""

    @abstractmethod
    def distance(self, x: int, other: int) -> Fraction:
        """E(x, x'), or an upper bound of it."""

    def limit(self, x: int, other: int) -> Limit:
        """What a generating pair allows."""
        return Limit(self.distance(x, other))

    @abstractmethod
    def smallest(self) -> tuple[int, int]:
        """A pair at the smallest distance."""

    @abstractmethod
    def largest(self) -> Fraction:
        """The largest distance of two positions, or an upper bound of it."""

    def representatives(self) -> Iterator[tuple[int, int]]:
        """One generating pair for each difference, for distributions that depend on it alone."""
        return self.generating_pairs()

    @abstractmethod
    def count(self) -> int:
        """How many generating pairs there are."""

    def between_points(self) -> Metric:
        """What points of a grid must keep for values that are rounded to them at random."""
        return self

    @abstractmethod
    def to_data(self) -> dict[str, Any]:
        """Return the metric as plain data for a manifest."""


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

    def generating_pairs(self) -> Iterator[tuple[int, int]]:
        return ((x, other) for x in range(self.size) for other in range(x + 1, self.size))

    def representatives(self) -> Iterator[tuple[int, int]]:
        return ((0, x) for x in range(1, self.size))

    def count(self) -> int:
        return self.size * (self.size - 1) // 2

    def smallest(self) -> tuple[int, int]:
        return 0, 1

    def largest(self) -> Fraction:
        return self.epsilon

    def to_data(self) -> dict[str, Any]:
        return {"kind": self.kind, "epsilon": str(self.epsilon)}

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

    def at(self, difference: int) -> Fraction:
        """The distance of positions that differ by so much."""
        if self.ring:
            difference = min(difference, self.size - difference)
        far = self.epsilon * ceil(difference / self.width)
        return far if self.cap is None else min(far, self.cap)

    def distance(self, x: int, other: int) -> Fraction:
        return self.at(abs(x - other))

    def limit(self, x: int, other: int) -> Limit:
        return Limit(self.distance(x, other), self.linear and abs(x - other) == 1)

    @cached_property
    def differences(self) -> list[int]:
        """The generating differences, in rising order."""
        widest = self.size // 2 if self.ring else self.size - 1
        found = set(range(1, min(floor(self.width), widest) + 1))
        steps = widest if self.cap is None else min(widest, floor(self.cap / self.epsilon))
        least = self.width % 1
        for k in range(2, steps + 1):
            rest = k * self.width % 1
            if rest < least:
                least = rest
                found.add(floor(k * self.width))
            if not least or k * self.width > widest:
                break
        if self.cap is not None:
            found |= set(range(floor(self.width * (self.cap // self.epsilon)) + 1, widest + 1))
        return sorted(d for d in found if d <= widest)

    def generating_pairs(self) -> Iterator[tuple[int, int]]:
        for d in self.differences:
            yield from ((x, x + d) for x in range(self.size - d))
            if self.ring and 2 * d < self.size:
                yield from ((x, x + self.size - d) for x in range(d))

    def representatives(self) -> Iterator[tuple[int, int]]:
        for d in self.differences:
            yield 0, d
            if self.ring and 2 * d < self.size:
                yield 0, self.size - d

    def count(self) -> int:
        if self.ring:
            return sum(self.size if 2 * d < self.size else d for d in self.differences)
        return sum(self.size - d for d in self.differences)

    def smallest(self) -> tuple[int, int]:
        return 0, 1

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

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"kind": self.kind, "epsilon": str(self.epsilon)}
        data |= {} if self.width == 1 else {"width": str(self.width)}
        data |= {} if self.cap is None else {"cap": str(self.cap)}
        return data | ({"ring": True} if self.ring else {})

    @classmethod
    def read(cls, entry: Entry, size: int) -> Self:
        epsilon, cap = entry.fraction("epsilon"), None
        width = entry.fraction("width") if entry.has("width") else Fraction(1)
        if entry.has("cap"):
            cap = entry.fraction("cap")
        if width < 1 or (cap is not None and cap < epsilon):
            entry.reject("needs a width of at least 1, and a cap of at least epsilon")
        return cls(size, epsilon, width, cap, entry.true("ring"))


@dataclass(frozen=True)
class Graph(Metric):
    """E is the length of the shortest path over listed pairs; lengths are multiples of `step`."""

    size: int
    step: Fraction
    pairs: tuple[tuple[int, int], ...]
    lengths: tuple[int, ...]

    kind: ClassVar[str] = "graph"

    def generating_pairs(self) -> Iterator[tuple[int, int]]:
        return iter(self.pairs)

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
        if self.pairs != _neighbours(self.size):
            return None
        return list(accumulate(self.lengths, initial=0))

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

    @cached_property
    def _listed(self) -> dict[tuple[int, int], int]:
        return dict(zip(self.pairs, self.lengths, strict=True))

    def limit(self, x: int, other: int) -> Limit:
        return Limit(self.step * self._listed[x, other])

    def distance(self, x: int, other: int) -> Fraction:
        if self._line is not None:
            return self.step * abs(self._line[x] - self._line[other])
        if self._all is None:
            return self.largest()
        return self.step * self._all[x][other]

    def smallest(self) -> tuple[int, int]:
        return self.pairs[self.lengths.index(min(self.lengths))]

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

    def count(self) -> int:
        return len(self.pairs)

    def sensitive(self) -> list[int]:
        """Positions at the smallest distance of all others, if all pairs contain one of them."""
        if len(set(self.lengths)) > 1:
            return []
        pairs = set(self.pairs)
        found = [x for x in range(self.size) if len(self._edges[x]) == self.size - 1]
        touched = all(x in found or other in found for x, other in pairs)
        return found if touched and len(found) < self.size else []

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"kind": self.kind, "step": str(self.step)}
        if self.pairs != _neighbours(self.size):
            data["pairs"] = [list(pair) for pair in self.pairs]
        return data | {"lengths": [n if n < LARGEST_NUMBER else str(n) for n in self.lengths]}

    @classmethod
    def read(cls, entry: Entry, size: int) -> Self:
        step = entry.fraction("step")
        pairs = list(_neighbours(size))
        if entry.has("pairs"):
            pairs = [_pair(entry, pair, size) for pair in entry.list("pairs", 1, MOST_PAIRS)]
        numbers = entry.list("lengths", len(pairs), len(pairs))
        found = cls(size, step, tuple(pairs), _lengths(entry, numbers, step))
        if len(found._listed) < len(pairs) or min(found.distances_from(0)) < 0:
            entry.reject("needs different pairs that connect all positions")
        return found


def _neighbours(size: int) -> tuple[tuple[int, int], ...]:
    return tuple((x, x + 1) for x in range(size - 1))


def _pair(entry: Entry, pair: object, size: int) -> tuple[int, int]:
    if not isinstance(pair, list) or len(pair) != 2:
        entry.reject("needs pairs of positions")
    x = entry.whole_of(pair[0], "pairs", 0, size - 2)
    return x, entry.whole_of(pair[1], "pairs", x + 1, size - 1)


def _lengths(entry: Entry, numbers: list[Any], step: Fraction) -> tuple[int, ...]:
    """Positive integers, as text from 2^53 on."""
    lengths = tuple(
        int(number)
        if isinstance(number, str) and _LARGE.fullmatch(number)
        else entry.whole_of(number, "lengths", 1, LARGEST_NUMBER - 1)
        for number in numbers
    )
    if step * max(lengths) > LARGEST_FRACTION:
        entry.reject("has a distance above 2^40")
    return lengths


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

    @cached_property
    def _directions(self) -> list[tuple[tuple[int, ...], int]]:
        """Each step in all directions, of two opposite ones the first, with its length."""
        found = []
        for step, length in zip(self.steps, self.lengths, strict=True):
            signs = list(product(*((1, -1) if part else (1,) for part in step)))
            half = signs[: max(1, len(signs) // 2)]
            found += [(tuple(map(int.__mul__, step, sign)), length) for sign in half]
        return found

    def _start(self, step: tuple[int, ...]) -> list[range]:
        """Along each attribute, where a step can begin."""
        return [range(max(0, -s), n - max(0, s)) for s, n in zip(step, self.sizes, strict=True)]

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

    def generating_pairs(self) -> Iterator[tuple[int, int]]:
        for step, _ in self._directions:
            for cell in product(*self._start(step)):
                yield self.flat(cell), self.flat(tuple(map(int.__add__, cell, step)))

    def representatives(self) -> Iterator[tuple[int, int]]:
        for step, _ in self._directions:
            cell = tuple(starts[0] for starts in self._start(step))
            yield self.flat(cell), self.flat(tuple(map(int.__add__, cell, step)))

    def count(self) -> int:
        return sum(prod(map(len, self._start(step))) for step, _ in self._directions)

    @cached_property
    def _by_difference(self) -> dict[tuple[int, ...], int]:
        """The shortest path for each number of positions along each attribute."""
        moves = list(zip(self.steps, self.lengths, strict=True))
        found = {(0,) * len(self.sizes): 0}
        for apart in product(*map(range, self.sizes)):
            if any(apart):
                ways = [
                    found[tuple(rest)] + length
                    for step, length in moves
                    if min(rest := [a - s for a, s in zip(apart, step, strict=True)]) >= 0
                ]
                found[apart] = min(ways)
        return found

    def distance(self, x: int, other: int) -> Fraction:
        apart = zip(self.cell(x), self.cell(other), strict=True)
        return self.step * self._by_difference[tuple(abs(a - b) for a, b in apart)]

    def smallest(self) -> tuple[int, int]:
        return 0, self.flat(self.steps[self.lengths.index(min(self.lengths))])

    def largest(self) -> Fraction:
        return self.step * max(self._by_difference.values())

    def to_data(self) -> dict[str, Any]:
        pairs = zip(self.steps, self.lengths, strict=True)
        steps = [[*step, n if n < LARGEST_NUMBER else str(n)] for step, n in pairs]
        return {
            "kind": self.kind,
            "step": str(self.step),
            "sizes": list(self.sizes),
            "steps": steps,
        }

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
        if found.size != size or size * len(steps) > 32 * _MOST_STEPS:
            entry.reject("has sizes or steps that do not fit the distribution, or too many")
        return found


KINDS: dict[str, Any] = {metric.kind: metric for metric in (Uniform, Line, Graph, Grid)}


def read_metric(entry: Entry, size: int) -> Metric:
    """Read a metric on so many positions."""
    kind = entry.text("kind")
    if kind not in KINDS:
        entry.reject(f"has a metric {kind!r:.40} that is not supported")
    found: Metric = KINDS[kind].read(entry, size)
    entry.done()
    return found
