"""Policy graphs, as in Blowfish: which values lie next to each other, and how far apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from metricldp.basics.errors import SurveyError
from metricldp.basics.text import shown
from metricldp.metrics.words import (
    Length,
    Stated,
    Value,
    as_length,
    between,
    length_of,
    place_of,
    places_in,
    value_of,
)


@dataclass(frozen=True)
class Graph(Stated):
    """Edges (value, value) or (value, value, length); distances are shortest paths.

    >>> from metricldp import Graph, Ordinal
    >>> edges = Graph([("never", "rarely"), ("rarely", "often", 2)])
    >>> use = Ordinal(["never", "rarely", "often"], epsilon=1, metric=edges)
    >>> float(use.distance("never", "often"))
    3.0
    """

    edges: Sequence[Sequence[Any]]

    kind: ClassVar[str] = "graph"

    def __post_init__(self) -> None:
        if isinstance(self.edges, str) or not isinstance(self.edges, Sequence):
            raise SurveyError(f"a graph is a list of edges, not {shown(self.edges)}")
        edges = tuple(_edge(edge) for edge in self.edges)
        seen: set[frozenset[Value]] = set()
        for x, other, _ in edges:
            if frozenset((x, other)) in seen:
                raise SurveyError(f"the graph has two edges {between(x, other)}; give one")
            seen.add(frozenset((x, other)))
        object.__setattr__(self, "edges", edges)

    def said(self, values: Sequence[Value]) -> dict[tuple[int, int], Fraction]:
        """The edges by position."""
        places = places_in(values)
        stated = {}
        for x, other, length in self.edges:
            pair = sorted((place_of(x, places), place_of(other, places)))
            stated[pair[0], pair[1]] = length_of(length, between(x, other))
        return stated

    def replaced(self, changes: Mapping[tuple[int, int], Length], values: Sequence[Value]) -> Self:
        """The same edges, some of them shorter."""
        places = places_in(values)
        edges = []
        for x, other, length in self.edges:
            pair = sorted((places[x], places[other]))
            edges.append((x, other, changes.get((pair[0], pair[1]), length)))
        return type(self)(tuple(edges))


def _edge(edge: Any) -> tuple[Value, Value, Length]:
    if isinstance(edge, str) or not isinstance(edge, Sequence) or len(edge) not in (2, 3):
        raise SurveyError(f"an edge is (value, value) or (value, value, length), not {shown(edge)}")
    x, other = value_of(edge[0]), value_of(edge[1])
    if x == other:
        raise SurveyError(f"the edge {between(x, other)} leads nowhere; leave it out")
    return x, other, as_length(length_of(edge[2] if len(edge) == 3 else 1, between(x, other)))
