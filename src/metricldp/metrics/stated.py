"""The metrics that a survey can state: a sensitive set, a graph, a table or a tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from metricldp.basics.checks import is_list
from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.text import guess, listed, shown
from metricldp.metrics.line import Sensitive
from metricldp.metrics.words import (
    Length,
    MetricInWords,
    Stated,
    Value,
    as_length,
    between,
    length_of,
    positions_in,
    value_of,
)
from metricldp_core.canonical import is_line

_HALF = Fraction(1, 2)


@dataclass(frozen=True)
class SensitiveSet(MetricInWords):
    """Distance 1 between one of these values and any other value, and 2 between any two others.

    >>> from metricldp import Categorical, SensitiveSet
    >>> visit = Categorical(["news", "games", "clinic"], epsilon=1, metric=SensitiveSet(["clinic"]))
    >>> float(visit.distance("clinic", "news")), float(visit.distance("games", "news"))
    (1.0, 2.0)
    """

    values: Sequence[Value]

    kind: ClassVar[str] = "sensitive-set"

    def __post_init__(self) -> None:
        if not is_list(self.values) and not isinstance(self.values, set | frozenset):
            raise InvalidSpecError(f"a sensitive set is a list of values, not {shown(self.values)}")
        ordered = self.values if isinstance(self.values, Sequence) else sorted(self.values, key=str)
        values = tuple(value_of(value) for value in ordered)
        if not values:
            raise InvalidSpecError(
                "a sensitive set needs at least one value; where none is sensitive, leave metric "
                "out and double epsilon"
            )
        repeated = next((value for value in values if values.count(value) > 1), None)
        if repeated is not None:
            raise InvalidSpecError(f"the sensitive set names {shown(repeated)} twice")
        object.__setattr__(self, "values", values)

    def settled(self, values: Sequence[Value]) -> Self:
        """In the order of the attribute's values: the same set is the same agreement."""
        return type(self)(tuple(sorted(self.values, key=positions_in(values).__getitem__)))

    def on(self, values: Sequence[Value], unit: Fraction) -> Sensitive:
        positions = positions_in(values)
        return Sensitive(frozenset(positions[value] for value in self.values), unit)


@dataclass(frozen=True)
class Graph(Stated):
    """A policy graph, as in Blowfish: edges (value, value) or (value, value, length).

    >>> from metricldp import Graph, Ordinal
    >>> edges = Graph([("never", "rarely"), ("rarely", "often", 2)])
    >>> use = Ordinal(["never", "rarely", "often"], epsilon=1, metric=edges)
    >>> float(use.distance("never", "often"))
    3.0
    """

    edges: Sequence[Sequence[Any]]

    kind: ClassVar[str] = "graph"

    def __post_init__(self) -> None:
        if not is_list(self.edges):
            raise InvalidSpecError(f"a graph is a list of edges, not {shown(self.edges)}")
        edges = tuple(_edge(edge) for edge in self.edges)
        seen: set[frozenset[Value]] = set()
        for x, other, _ in edges:
            if frozenset((x, other)) in seen:
                raise InvalidSpecError(f"the graph has two edges {between(x, other)}; give one")
            seen.add(frozenset((x, other)))
        object.__setattr__(self, "edges", edges)

    def _with_positions(self, values: Sequence[Value]) -> Iterator[tuple[tuple[int, int], Any]]:
        """Each edge with its two positions, the smaller one first."""
        positions = positions_in(values)
        for edge in self.edges:
            x, other = sorted((positions[edge[0]], positions[edge[1]]))
            yield (x, other), edge

    def said(self, values: Sequence[Value]) -> dict[tuple[int, int], Fraction]:
        return {
            pair: length_of(length, between(x, other))
            for pair, (x, other, length) in self._with_positions(values)
        }

    def replaced(self, changes: Mapping[tuple[int, int], Length], values: Sequence[Value]) -> Self:
        edges = self._with_positions(values)
        return type(self)([(x, y, changes.get(pair, length)) for pair, (x, y, length) in edges])


def _edge(edge: Any) -> tuple[Value, Value, Length]:
    if not is_list(edge) or len(edge) not in (2, 3):
        raise InvalidSpecError(
            f"an edge is (value, value) or (value, value, length), not {shown(edge)}"
        )
    x, other = value_of(edge[0]), value_of(edge[1])
    if x == other:
        raise InvalidSpecError(f"the edge {between(x, other)} leads nowhere; leave it out")
    return x, other, as_length(length_of(edge[2] if len(edge) == 3 else 1, between(x, other)))


@dataclass(frozen=True)
class DistanceMatrix(Stated):
    """A square of distances in the order of the attribute's values.

    >>> from metricldp import Categorical, DistanceMatrix
    >>> rows = DistanceMatrix([[0, 1, 2], [1, 0, 1.5], [2, 1.5, 0]])
    >>> float(Categorical(["a", "b", "c"], epsilon=2, metric=rows).distance("b", "c"))
    3.0
    """

    rows: Sequence[Sequence[Any]]

    kind: ClassVar[str] = "distance-matrix"

    def __post_init__(self) -> None:
        rows = self.rows.tolist() if isinstance(self.rows, np.ndarray) else self.rows
        if not is_list(rows) or not all(is_list(row) for row in rows):
            raise InvalidSpecError(f"a table of distances is a list of rows, not {shown(rows)}")
        entries = tuple(
            tuple(_entry(said, x, other) for other, said in enumerate(row))
            for x, row in enumerate(rows)
        )
        object.__setattr__(self, "rows", entries)

    def said(self, values: Sequence[Value]) -> dict[tuple[int, int], Fraction]:
        size = len(values)
        if len(self.rows) != size:
            raise InvalidSpecError(
                f"the table has {len(self.rows)} rows for {size} values; give a row for each, "
                "in the order of the values"
            )
        for value, row in zip(values, self.rows, strict=True):
            if len(row) != size:
                raise InvalidSpecError(
                    f"the row of {shown(value)} has {len(row)} distances for {size} values; "
                    "give one for each, 0 for the value itself"
                )
        stated = {}
        for x in range(size):
            if self.rows[x][x] != 0:
                raise InvalidSpecError(
                    f"the distance {between(values[x], values[x])} must be 0, "
                    f"not {shown(self.rows[x][x])}"
                )
            for other in range(x + 1, size):
                there, back = self.rows[x][other], self.rows[other][x]
                stated[x, other] = length_of(there, between(values[x], values[other]))
                if length_of(back, between(values[other], values[x])) != stated[x, other]:
                    raise InvalidSpecError(
                        f"the distance {between(values[x], values[other])} is {shown(there)} but "
                        f"{between(values[other], values[x])} is {shown(back)}; give one to both"
                    )
        return stated

    def replaced(self, changes: Mapping[tuple[int, int], Length], values: Sequence[Value]) -> Self:
        rows = [list(row) for row in self.rows]
        for (x, other), length in changes.items():
            rows[x][other] = rows[other][x] = length
        return type(self)(rows)


def _entry(said: Any, row: int, column: int) -> Any:
    """An entry in the one way that files write it; a wrong number waits for the pair's names."""
    if not isinstance(said, int | float | str | Fraction):
        raise InvalidSpecError(
            f"the table has {shown(said)} in row {row + 1}, column {column + 1}; "
            "distances are numbers"
        )
    try:
        return as_length(length_of(said, ""))
    except InvalidSpecError:
        return 0 if said == 0 else said


@dataclass(frozen=True)
class Tree(Stated):
    """Groups of values and of other groups; the distance of two values is the path between them.

    The edge above a value or group has length 1/2 unless `lengths` has another one. So two values
    of one group are 1 apart, and 1 more for each group that has to be left on both sides.

    >>> from metricldp import Categorical, Tree
    >>> types = Tree({"health": ["clinic", "pharmacy"], "play": ["games"]}, {"play": 2})
    >>> site = Categorical(["clinic", "pharmacy", "games"], epsilon=1, metric=types)
    >>> float(site.distance("clinic", "pharmacy")), float(site.distance("clinic", "games"))
    (1.0, 3.5)
    """

    groups: Any
    lengths: Any = ()

    kind: ClassVar[str] = "tree"

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "groups", _groups(self.groups))
        except RecursionError:
            raise InvalidSpecError("the groups of the tree are nested too deeply") from None
        object.__setattr__(self, "lengths", _lengths(self.lengths))
        nodes = Counter(_nodes(self.groups))
        for name, count in nodes.items():
            if count > 1:
                raise InvalidSpecError(f"the tree names {shown(name)} twice; write each name once")
        for name, _ in self.lengths:
            if name not in nodes:
                raise InvalidSpecError(
                    f"the tree has no {shown(name)} to give a length; it has {listed(nodes)}"
                    f"{guess(name, nodes)}"
                )

    def said(self, values: Sequence[Value]) -> dict[tuple[int, int], Fraction]:
        """All pairs of leaves: up from one to the group that both are in, and down to the other."""
        positions = positions_in(values)
        above = {name: length_of(length, "") for name, length in self.lengths}
        stated: dict[tuple[int, int], Fraction] = {}

        def depths(children: tuple[Any, ...]) -> dict[int, Fraction]:
            """How far each leaf below a group is from it; pairs that meet here are stated."""
            found: dict[int, Fraction] = {}
            for child in children:
                name, inside = child if isinstance(child, tuple) else (child, None)
                edge = above.get(name, _HALF)
                below = {positions[name]: Fraction(0)} if inside is None else depths(inside)
                there = {leaf: depth + edge for leaf, depth in below.items()}
                for leaf, depth in there.items():
                    for other, far in found.items():
                        stated[min(leaf, other), max(leaf, other)] = depth + far
                found.update(there)
            return found

        missing = set(range(len(values))) - set(depths(self.groups))
        if missing:
            raise InvalidSpecError(
                f"the tree does not contain {shown(values[min(missing)])}; add it to a group"
            )
        return stated

    def replaced(self, changes: Mapping[tuple[int, int], Length], values: Sequence[Value]) -> Self:
        raise AssertionError("the paths of a tree obey the triangle inequality")

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"kind": self.kind, "groups": _as_mapping(self.groups)}
        if self.lengths:
            data["lengths"] = [list(pair) for pair in self.lengths]
        return data


def _groups(groups: Any) -> tuple[Any, ...]:
    """Groups as (name, children) and values as themselves, all in tuples."""
    if not is_list(groups) and not isinstance(groups, Mapping):
        raise InvalidSpecError(f"a group of a tree holds values or groups, not {shown(groups)}")
    if not groups:
        raise InvalidSpecError("a group of a tree is empty; leave it out")
    if isinstance(groups, Mapping):
        return tuple((_name(name), _groups(inside)) for name, inside in groups.items())
    found: list[Any] = []
    for child in groups:
        if isinstance(child, Mapping):
            found += _groups(child)
        elif isinstance(child, tuple) and len(child) == 2:
            found.append((_name(child[0]), _groups(child[1])))
        else:
            found.append(value_of(child))
    return tuple(found)


def _name(name: object) -> str:
    if not is_line(name):
        raise InvalidSpecError(
            f"a group of a tree has a line of text as its name, not {shown(name)}"
        )
    return name


def _lengths(lengths: Any) -> tuple[tuple[Value, Length], ...]:
    pairs = list(lengths.items()) if isinstance(lengths, Mapping) else lengths
    if not is_list(pairs) or any(not isinstance(p, Sequence) or len(p) != 2 for p in pairs):
        told = shown(lengths)
        raise InvalidSpecError(f"lengths of a tree are pairs of a name and a number, not {told}")
    found = []
    for name, length in pairs:
        named = value_of(name)
        found.append((named, as_length(length_of(length, f"above {shown(named)}"))))
    return tuple(found)


def _nodes(children: tuple[Any, ...]) -> Iterator[Value]:
    """Every name of the tree, groups and values."""
    for child in children:
        if isinstance(child, tuple):
            yield child[0]
            yield from _nodes(child[1])
        else:
            yield child


def _as_mapping(children: tuple[Any, ...]) -> Any:
    """Groups as a table; a list where values stand among them."""
    if all(isinstance(child, tuple) for child in children):
        return {name: _as_mapping(inside) for name, inside in children}
    return [
        {child[0]: _as_mapping(child[1])} if isinstance(child, tuple) else child
        for child in children
    ]
