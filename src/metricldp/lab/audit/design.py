"""Whom an audit asks: values of each attribute, whole people, and the pairs that are held together.

Everybody in the sample is drawn independently and evenly: half of them with a random value of every
attribute, half of them one of a few people who differ in one attribute, or in all. So of the
reports of two values that have something in common, each comes from the first with the probability
p/(p + p'), and whether p is at most e^E p' is a question about a coin: an exact binomial test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from metricldp.attributes.base import Attribute
from metricldp.basics.errors import InvalidValueError
from metricldp.basics.text import plain
from metricldp.survey.agreement import Agreement

Person = Mapping[str, Any]
Rows = npt.NDArray[Any]

MAX_PAIRS = 256
"""Pairs of values that are looked at, shared by all attributes."""
_LISTED = 1 << 16
"""Pairs that are gone through to choose some."""
_MOST_MATCHINGS = 8
_FAR = 1.5
"""About how far apart the people are who differ by more than a step."""
_WIDEST = 30.0
"""Beyond this distance no sample could show anything."""
SEVERAL = "several at once"


class Pair(NamedTuple):
    """Two of the values or people asked, how far they may be told apart, and what to call them."""

    first: int
    second: int
    allowed: float
    words: str
    about: str
    """The attribute in which they differ, or that there are several."""


@dataclass(frozen=True)
class Values:
    """The values of one attribute that are asked."""

    name: str
    values: list[Any]
    pairs: list[Pair]
    pools: list[list[Pair]]
    """Pairs without a common value and with one distance: their counts can be added up."""


@dataclass(frozen=True)
class People:
    """The people who are asked as a whole."""

    people: list[dict[str, Any]]
    pairs: list[Pair]


@dataclass(frozen=True)
class Design:
    """All that is asked of an encoder."""

    survey: Agreement
    attributes: list[Values]
    people: People
    outside: list[tuple[str, Person]]
    """People that have to be refused, and of which attribute their value is outside."""

    def drawn(self, count: int, random: np.random.Generator) -> Asked:
        """So many people, drawn independently."""
        whole = random.random(count) < 0.5
        kinds = random.integers(len(self.people.people), size=count)
        values = [random.integers(len(a.values), size=count) for a in self.attributes]
        return Asked(self, np.where(whole, kinds, -1), values)


@dataclass(frozen=True)
class Asked:
    """People of a sample: which of the people, or -1 and which values."""

    design: Design
    kinds: Rows
    values: list[Rows]

    def __len__(self) -> int:
        return len(self.kinds)

    def part(self, rows: slice) -> Asked:
        return Asked(self.design, self.kinds[rows], [values[rows] for values in self.values])

    def columns(self) -> dict[str, Rows]:
        """Their values, attribute by attribute."""
        found = {}
        for asked, codes in zip(self.design.attributes, self.values, strict=True):
            known = [person[asked.name] for person in self.design.people.people]
            listed = np.array([*asked.values, *known])
            found[asked.name] = listed[
                np.where(self.kinds < 0, codes, len(asked.values) + self.kinds)
            ]
        return found

    def persons(self) -> list[dict[str, Any]]:
        """One after the other, in Python's own numbers and texts."""
        columns = self.columns()
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]


# Choosing ----------------------------------------------------------------------------------------


def design_for(survey: Agreement, *, clip: bool) -> Design:
    private = [name for name, a in survey.asked.items() if not a.is_public]
    most = max(16, MAX_PAIRS // len(private))
    attributes = [_values(survey, name, most) for name in survey.asked]
    return Design(survey, attributes, _people(survey, private, clip), _outside(survey, clip))


def value_at(attribute: Attribute, position: int) -> Any:
    """A value that stands at a position: of a bin its middle."""
    low, high = attribute.values_at(position)
    return low if low == high else (float(low) + float(high)) / 2


def _distance(survey: Agreement, first: Person, second: Person) -> float:
    """What is promised for two people; who leaves out a value counts with the middle, apart."""
    found = []
    for name, attribute in survey.attributes.items():
        source = attribute.source(name)
        if attribute.is_public or source not in first:
            continue
        ends: list[Any] = [first[source], second[source]]
        if attribute.asks_whether:
            left_out = (ends[0] is None) != (ends[1] is None)
            found.append(float(attribute.distances.distance(0, 1)) * left_out)
        else:
            ends = [attribute.middle if value is None else value for value in ends]
            found.append(float(attribute.distance(*ends)))
    return survey.metric.join(found)


def _values(survey: Agreement, name: str, most: int) -> Values:
    attribute = survey.attributes[name]
    if attribute.public_ends is not None:
        low, high = attribute.public_ends
        return Values(name, [low, (low + high) / 2, high], [], [])
    chosen = _chosen_pairs(attribute, most)
    positions = sorted({position for pair in chosen for position in pair})
    values = [value_at(attribute, position) for position in positions]
    place = {position: at for at, position in enumerate(positions)}
    pairs = []
    for x, other in chosen:
        first, second = place[x], place[other]
        words = f"{name} {attribute.label(x)} and {attribute.label(other)}"
        allowed = _distance(survey, {name: values[first]}, {name: values[second]})
        pairs.append(Pair(first, second, allowed, words, name))
    if attribute.optional is not None:
        middle = len(values) // 2
        allowed = _distance(survey, {name: values[middle]}, {name: None})
        words = f"{name} {attribute.label(positions[middle])} and no response"
        pairs.append(Pair(middle, len(values), allowed, words, name))
        values.append(None)
    pairs = [pair for pair in pairs if pair.allowed <= _WIDEST]
    return Values(name, values, pairs, _matched(pairs))


def _chosen_pairs(attribute: Attribute, most: int) -> list[tuple[int, int]]:
    """Pairs that generate the metric, spread over them; of very many, neighbours."""
    size, metric = attribute.size, attribute.distances
    count = metric.generating_count(size)
    if count > _LISTED:
        places = np.unique(np.linspace(0, size - 2, most).astype(int)).tolist()
        return [(x, x + 1) for x in places]
    kept = set(np.unique(np.linspace(0, count - 1, min(most, count)).astype(int)).tolist())
    listed = enumerate(islice(metric.generating_pairs(size), count))
    return [pair for at, pair in listed if at in kept]


def _matched(pairs: list[Pair]) -> list[list[Pair]]:
    pools: list[tuple[float, set[int], list[Pair]]] = []
    for pair in pairs:
        ends = {pair.first, pair.second}
        for allowed, used, pool in pools:
            if allowed == pair.allowed and not used & ends:
                used.update(ends)
                pool.append(pair)
                break
        else:
            pools.append((pair.allowed, ends, [pair]))
    longest = sorted((pool for *_, pool in pools), key=len, reverse=True)
    return longest[:_MOST_MATCHINGS]


def _people(survey: Agreement, names: list[str], clip: bool) -> People:
    """Somebody in the middle and somebody at the end of everything; and those who are not quite so.

    In one attribute a step away, in one some steps away, in all of them a step away; at two
    places of one bin, or between two points of a grid; beyond an end, where values are clipped.
    """
    people: list[dict[str, Any]] = []
    pairs: list[Pair] = []
    public = {n: a.values_at(0)[0] for n, a in survey.asked.items() if n not in names}

    def place(person: dict[str, Any]) -> int:
        whole = {name: (public | person)[name] for name in survey.asked}
        if whole not in people:
            people.append(whole)
        return people.index(whole)

    def compare(first: dict[str, Any], second: dict[str, Any]) -> None:
        apart = {n: (first[n], second[n]) for n in names if first[n] != second[n]}
        if not apart:
            return
        allowed = _distance(survey, first, second)
        told = [f"{n} {_words(x)} and {_words(y)}" for n, (x, y) in list(apart.items())[:3]]
        if allowed <= _WIDEST:
            words = ", ".join(told) + (", ..." if len(apart) > 3 else "")
            about = next(iter(apart)) if len(apart) == 1 else SEVERAL
            pairs.append(Pair(place(first), place(second), allowed, words, about))

    for middle in (True, False):
        steps = {n: _step(survey.attributes[n], middle) for n in names}
        base = {n: value_at(survey.attributes[n], x) for n, (x, _) in steps.items()}
        moved = {n: value_at(survey.attributes[n], y) for n, (_, y) in steps.items()}
        place(base)
        for name in names:
            attribute = survey.attributes[name]
            compare(base, base | {name: moved[name]})
            compare(base, base | {name: value_at(attribute, _far(attribute, steps[name][0]))})
            if len(names) > 1:
                compare(base | {name: moved[name]}, moved)
            if middle and attribute.optional is not None:
                compare(base | {name: attribute.middle}, base | {name: None})
            if middle:
                for pair in _fine(attribute, steps[name]):
                    compare(*(base | {name: value} for value in pair))
            if clip and middle:
                for beyond, end in _beyond(attribute):
                    ends = place(base | {name: beyond}), place(base | {name: end})
                    words = f"{name} beyond its end and at its end"
                    pairs.append(Pair(*ends, 0.0, words, name))
        if len(names) > 1:
            compare(base, moved)
    return People(people, pairs)


def _words(value: Any) -> str:
    return "no response" if value is None else plain(value)


def _step(attribute: Attribute, middle: bool) -> tuple[int, int]:
    """A pair of neighbours in the middle, or the nearest two."""
    if not middle:
        return attribute.distances.nearest(attribute.size)
    chosen = _chosen_pairs(attribute, 3)
    return chosen[len(chosen) // 2]


def _far(attribute: Attribute, x: int) -> int:
    size, distance = attribute.size, attribute.distances.distance
    places: list[int] = np.unique(np.linspace(0, size - 1, min(size, 256)).astype(int)).tolist()
    near = [p for p in range(max(0, x - 64), min(size, x + 65)) if p != x]
    return min({*places, *near} - {x}, key=lambda p: (abs(float(distance(x, p)) - _FAR), p))


def _fine(attribute: Attribute, step: tuple[int, int]) -> list[tuple[Any, Any]]:
    """Values that a grid does not tell apart, or not quite."""
    low, high = attribute.values_at(step[0])
    if low != high:
        width = (float(high) - float(low)) / 16
        return [(float(low) + width, float(high) - width)]
    if attribute.rounded_at_random:
        first, second = (float(value_at(attribute, position)) for position in step)
        return [(first, (first + second) / 2)]
    return []


def _beyond(attribute: Attribute) -> list[tuple[Any, Any]]:
    """Values outside of a domain of numbers, near and far, and the end that each is clipped to."""
    if attribute.named:
        return []
    low: Any = attribute.values_at(0)[0]
    high: Any = attribute.values_at(attribute.size - 1)[1]
    wide = high - low
    found = [(low - 1, low), (low - 50 * wide, low), (high + 1, high), (high + 50 * wide, high)]
    return [pair for pair in found if _refuses(attribute, pair[0])]


def _outside(survey: Agreement, clip: bool) -> list[tuple[str, Person]]:
    inside = {name: value_at(a, 0) for name, a in survey.asked.items()}
    found: list[tuple[str, Person]] = []
    for name, attribute in survey.asked.items():
        ends = [] if attribute.is_public or clip else [x for x, _ in _beyond(attribute)]
        for value in (*ends, None, "no such value", True, [1]):
            if _refuses(attribute, value):
                found.append((name, inside | {name: value}))
        if attribute.optional is None:
            found.append((name, {key: value for key, value in inside.items() if key != name}))
    return found


def _refuses(attribute: Attribute, value: Any) -> bool:
    try:
        attribute.position_if_any(value)
    except InvalidValueError:
        return True
    return False
