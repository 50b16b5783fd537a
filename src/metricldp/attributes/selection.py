"""The words of a question: what "18 to 29" or "north, south" means on a grid of positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import guess, listed, plain, shown


class Span(NamedTuple):
    """The positions from `first` up to but without `end`, of `size` in all."""

    first: int
    end: int
    size: int

    @property
    def inside(self) -> npt.NDArray[np.bool_]:
        """Whether each position is one of them."""
        inside = np.zeros(self.size, dtype=bool)
        inside[self.first : self.end] = True
        return inside


@dataclass(frozen=True)
class Chosen:
    """A part of a domain: which positions, in words, and a note where the words were bent."""

    part: Span | npt.NDArray[np.bool_]
    words: str
    note: str | None = None

    @classmethod
    def of(cls, inside: npt.NDArray[np.bool_], words: str, note: str | None = None) -> Chosen:
        """From whether each position is in; positions that follow each other are a span."""
        places = np.flatnonzero(inside)
        first, end = int(places[0]), int(places[-1]) + 1
        unbroken = end - first == len(places)
        return cls(Span(first, end, len(inside)) if unbroken else inside, words, note)

    @property
    def inside(self) -> npt.NDArray[np.bool_]:
        """Whether each position is in."""
        return self.part.inside if isinstance(self.part, Span) else self.part

    @property
    def whole(self) -> bool:
        """Whether it is everything."""
        return isinstance(self.part, Span) and self.part.end - self.part.first == self.part.size


def range_ends(words: tuple[Any, ...], name: str) -> tuple[Any, Any]:
    """The two ends of a range, None where it is open."""
    if len(words) != 2:
        raise QueryError(f"a range of {name} is a pair (low, high), not {shown(words)}")
    for end in words:
        if end is not None and (not is_number(end) or math.isnan(end)):
            raise QueryError(f"a range of {name} has numbers or None as ends, not {shown(end)}")
    low, high = words
    if low is not None and high is not None and low > high:
        asked, meant = range_words(low, high), f"({plain(high)}, {plain(low)})"
        raise QueryError(f"{name} {asked} is an empty range: its ends are swapped; use {meant}")
    return None if low == -math.inf else low, None if high == math.inf else high


def between(grid: npt.NDArray[Any], low: float | None, high: float | None) -> Any:
    """Which values of a grid lie between two ends."""
    inside = np.ones(len(grid), dtype=bool)
    if low is not None:
        inside &= grid >= low
    if high is not None:
        inside &= grid <= high
    return inside


def nonempty(
    inside: npt.NDArray[np.bool_], words: object, name: str, domain: str
) -> npt.NDArray[np.bool_]:
    """The same places, or a refusal if there are none."""
    if not inside.any():
        shown = range_words(*words) if isinstance(words, tuple) else str(words)
        raise QueryError(f"{name} {shown} is an empty range; {name} goes {domain}")
    return inside


def nearest(edges: npt.NDArray[np.float64], value: float) -> int:
    """The place of the edge that is nearest to a value."""
    return int(np.argmin(np.abs(edges - min(max(value, edges[0]), edges[-1]))))


def members_of(words: object, name: str) -> list[Any]:
    """One value or several as a list."""
    if isinstance(words, np.ndarray):
        words = np.atleast_1d(words).tolist()
    members = list(words) if isinstance(words, list | set | frozenset | range) else [words]
    if not members:
        raise QueryError(f"{name} has an empty list of values; leave it out to mean all")
    return members


def place_of(value: object, names: Sequence[str], name: str) -> int:
    """The place of a name in a list of names."""
    if value not in names:
        raise QueryError(
            f"{name} has no value {shown(value)}; it can be {listed(names)}{guess(value, names)}"
        )
    return list(names).index(str(value))


def choose_names(words: object, names: Sequence[str], name: str) -> Chosen:
    """The places of one name or several."""
    members = members_of(words, name)
    places = [place_of(member, names, name) for member in members]
    return Chosen.of(np.isin(np.arange(len(names)), places), ", ".join(members))


def range_words(low: object, high: object) -> str:
    """A range as people say it."""
    if low is None and high is None:
        return "anything"
    if low is None:
        return f"up to {plain(high)}"
    return f"{plain(low)} and up" if high is None else f"{plain(low)} to {plain(high)}"
