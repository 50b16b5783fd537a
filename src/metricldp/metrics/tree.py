"""Trees of categories: website types over websites, counties over towns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from metricldp.basics.errors import SurveyError
from metricldp.basics.text import guess, listed, shown
from metricldp.metrics.words import (
    Length,
    Stated,
    Value,
    as_length,
    length_of,
    place_of,
    places_in,
    value_of,
)

_HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Tree(Stated):
    """Groups of values and of other groups; the distance of two values is the path between them.

    The edge above a value or group has length 1/2 unless `lengths` says otherwise. So two values
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
            raise SurveyError("the groups of the tree are nested too deeply") from None
        object.__setattr__(self, "lengths", _lengths(self.lengths))
        nodes = list(_nodes(self.groups))
        seen: set[Value] = set()
        for name in nodes:
            if name in seen:
                raise SurveyError(f"the tree names {shown(name)} twice; every name stands once")
            seen.add(name)
        for name, _ in self.lengths:
            if name not in seen:
                raise SurveyError(
                    f"the tree has no {shown(name)} to give a length; it has {listed(nodes)}"
                    f"{guess(name, nodes)}"
                )

    def said(self, values: Sequence[Value]) -> dict[tuple[int, int], Fraction]:
        """All pairs of leaves: up from one to the group that both are in, and down to the other."""
        places = places_in(values)
        above = {name: length_of(length, "") for name, length in self.lengths}
        stated: dict[tuple[int, int], Fraction] = {}

        def depths(children: tuple[Any, ...]) -> dict[int, Fraction]:
            """How far each leaf below a group is from it; pairs that meet here are stated."""
            found: dict[int, Fraction] = {}
            for child in children:
                name, inside = child if isinstance(child, tuple) else (child, None)
                edge = above.get(name, _HALF)
                below = {place_of(name, places): Fraction(0)} if inside is None else depths(inside)
                there = {leaf: depth + edge for leaf, depth in below.items()}
                for leaf, depth in there.items():
                    for other, far in found.items():
                        stated[min(leaf, other), max(leaf, other)] = depth + far
                found.update(there)
            return found

        missing = set(range(len(values))) - set(depths(self.groups))
        if missing:
            raise SurveyError(
                f"the tree has no place for {shown(values[min(missing)])}; "
                "put every value into a group, if need be one of its own"
            )
        return stated

    def replaced(self, changes: Mapping[tuple[int, int], Length], values: Sequence[Value]) -> Self:
        """A tree is closed as it stands."""
        raise AssertionError("the paths of a tree obey the triangle inequality")

    def to_dict(self) -> dict[str, Any]:
        """Groups as tables; lengths only where there are any."""
        data: dict[str, Any] = {"kind": self.kind, "groups": _as_mapping(self.groups)}
        if self.lengths:
            data["lengths"] = [list(pair) for pair in self.lengths]
        return data


def _groups(groups: Any) -> tuple[Any, ...]:
    """Groups as (name, children) and values as themselves, all in tuples."""
    if isinstance(groups, str) or not isinstance(groups, Mapping | Sequence):
        raise SurveyError(f"a group of a tree holds values or groups, not {shown(groups)}")
    if not groups:
        raise SurveyError("a group of a tree is empty; leave it out")
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
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise SurveyError(f"a group of a tree has a line of text as its name, not {shown(name)}")
    return name


def _lengths(lengths: Any) -> tuple[tuple[Value, Length], ...]:
    pairs = list(lengths.items()) if isinstance(lengths, Mapping) else lengths
    whole = isinstance(pairs, Sequence) and not isinstance(pairs, str)
    if not whole or any(not isinstance(p, Sequence) or len(p) != 2 for p in pairs):
        raise SurveyError(f"lengths of a tree are pairs of a name and a number, not {lengths!r}")
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
