"""The words of a question: what "18 to 29" or "north, south" means on a grid of positions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import plain, plain_or_exact, shown


class Span(NamedTuple):
    """The positions from `first` up to but without `end`, of `size` in all."""

    first: int
    end: int
    size: int

    @property
    def inside(self) -> npt.NDArray[np.bool_]:
        inside = np.zeros(self.size, dtype=bool)
        inside[self.first : self.end] = True
        return inside


@dataclass(frozen=True, eq=False)
class Stretches:
    """Parts of a line, in order and apart, whose ends need not lie between two positions.

    Each position stands for the cell around it, and counts by how much of its cell lies in them.
    What is put together are the parts themselves: a position that counts half for one range and
    half for another counts for both, for none or for something between, as their ends say.
    """

    ends: tuple[tuple[float, float], ...]
    cells: npt.NDArray[np.float64]
    """Where cells meet, from the low end of the domain to its high end."""

    @cached_property
    def inside(self) -> npt.NDArray[np.float64]:
        """How far each position counts, from 0 to 1."""
        found = np.zeros(len(self.cells) - 1)
        for start, end in self.ends:
            there = np.minimum(end, self.cells[1:]) - np.maximum(start, self.cells[:-1])
            found += np.maximum(there, 0.0)
        # Nine digits: an end that was meant to lie on a point is not lost to rounding.
        return np.clip(np.round(found / np.diff(self.cells), 9), 0.0, 1.0)

    def __and__(self, other: Stretches) -> Stretches:
        pairs = product(self.ends, other.ends)
        both = [(max(a, c), min(b, d)) for (a, b), (c, d) in pairs]
        return Stretches(tuple(sorted((a, b) for a, b in both if a < b)), self.cells)

    def __invert__(self) -> Stretches:
        cuts = [self.cells[0], *chain.from_iterable(self.ends), self.cells[-1]]
        rest = zip(cuts[::2], cuts[1::2], strict=True)
        return Stretches(tuple((float(a), float(b)) for a, b in rest if a < b), self.cells)

    def __or__(self, other: Stretches) -> Stretches:
        return ~(~self & ~other)


Part = Span | Stretches | npt.NDArray[Any]
"""Some of all positions: without a gap, in part, or those where an array is not 0."""


def inside(part: Part) -> npt.NDArray[Any]:
    """How far each position counts."""
    return part if isinstance(part, np.ndarray) else part.inside


def both(one: Part, other: Part) -> Part:
    """What is in one part and in the other."""
    if isinstance(one, Stretches) and isinstance(other, Stretches):
        return one & other
    if isinstance(one, Span) and isinstance(other, Span):
        first, end = max(one.first, other.first), min(one.end, other.end)
        if first < end:
            return Span(first, end, one.size)
    return inside(one) * inside(other).astype(np.float64)


def either(one: Part, other: Part) -> Part:
    """What is in one part, in the other, or in both."""
    if isinstance(one, Stretches) and isinstance(other, Stretches):
        return one | other
    return np.where(inside(one), 1.0, inside(other))


def rest(part: Part) -> Part:
    """What is not in a part."""
    if isinstance(part, Span) and part.first == 0 < part.size - part.end:
        return Span(part.end, part.size, part.size)
    if isinstance(part, Span) and part.first > 0 and part.end == part.size:
        return Span(0, part.first, part.size)
    return ~part if isinstance(part, Stretches) else 1.0 - inside(part)


def same(one: Part, other: Part) -> bool:
    if isinstance(one, Stretches) and isinstance(other, Stretches):
        return one.ends == other.ends
    return np.array_equal(inside(one), inside(other))


@dataclass(frozen=True)
class Chosen:
    """A part of a domain: which positions, in words, and a note where the words were bent."""

    part: Part
    words: str
    note: str | None = None

    @classmethod
    def of(cls, inside: npt.NDArray[np.bool_], words: str, note: str | None = None) -> Chosen:
        """From whether each position is in; positions that follow each other are a span."""
        places = np.flatnonzero(inside)
        first, end = int(places[0]), int(places[-1]) + 1
        unbroken = end - first == len(places)
        return cls(Span(first, end, len(inside)) if unbroken else inside, words, note)

    @classmethod
    def between(
        cls, first: int, end: int, size: int, words: str, note: str | None = None
    ) -> Chosen:
        """From first up to but without end; over the end of a ring where that comes before."""
        if first < end:
            return cls(Span(first, end, size), words, note)
        places = np.arange(size)
        return cls.of((places >= first) | (places < end), words, note)

    @property
    def inside(self) -> npt.NDArray[Any]:
        return inside(self.part)

    @property
    def first_and_last(self) -> tuple[int, int]:
        """The ends of the part, as positions."""
        if isinstance(self.part, Span):
            return self.part.first, self.part.end - 1
        places = np.flatnonzero(self.inside)
        return int(places[0]), int(places[-1])

    @property
    def whole(self) -> bool:
        if isinstance(self.part, Span):
            return self.part.end - self.part.first == self.part.size
        return isinstance(self.part, Stretches) and bool((self.part.inside == 1).all())


def pair_of(words: tuple[Any, ...], name: str) -> tuple[Any, Any]:
    if len(words) != 2:
        raise QueryError(f"a range of {name} is a pair (low, high), not {shown(words)}")
    return words


def range_ends(words: tuple[Any, ...], name: str) -> tuple[Any, Any]:
    """The two ends of a range of numbers, None where it is open; in order."""
    low, high = any_ends(words, name)
    if is_reversed(low, high):
        raise swapped(low, high, name)
    return low, high


def any_ends(words: tuple[Any, ...], name: str) -> tuple[Any, Any]:
    """The same, in any order."""
    low, high = pair_of(words, name)
    for end in words:
        if end is not None and (not is_number(end) or math.isnan(end)):
            raise QueryError(f"a range of {name} has numbers or None as ends, not {shown(end)}")
    return None if low == -math.inf else low, None if high == math.inf else high


def is_reversed(low: Any, high: Any) -> bool:
    return low is not None and high is not None and bool(low > high)


def swapped(low: object, high: object, name: str, *, may_go_round: bool = False) -> QueryError:
    """The refusal of a range that ends before it begins, where values do not go round."""
    asked, meant = range_words(low, high), range_words(high, low)
    why = f"{name} {asked} is an empty range: its ends are swapped; use {meant}"
    around = (
        f", or make {name} cyclic in the survey if its ranges should wrap around; here it is not"
    )
    return QueryError(why + around if may_go_round else why)


def empty(words: object, name: str, domain: str) -> QueryError:
    """The error for a range or a value outside the domain."""
    if isinstance(words, tuple):
        return QueryError(f"{name} {range_words(*words)} is an empty range; {name} is {domain}")
    return QueryError(f"{name} has no value {words}; {name} is {domain}")


def partly_outside(name: str, low: Any, high: Any, least: float, most: float) -> str | None:
    """The note of a range that reaches beyond the domain, from least to most."""
    if (low is None or low >= least) and (high is None or high <= most):
        return None
    domain = f"{plain(least)} to {plain(most)}"
    return f"{name} {range_words(low, high)} is partly outside of the domain, {domain}"


def members_of(words: object, name: str) -> list[Any]:
    """One value or several as a list."""
    if isinstance(words, np.ndarray):
        words = np.atleast_1d(words).tolist()
    members = list(words) if isinstance(words, list | set | frozenset | range) else [words]
    if not members:
        raise QueryError(f"{name} has an empty list of values; leave it out to mean all")
    return members


def range_words(low: object, high: object) -> str:
    if low is None and high is None:
        return "anything"
    if low is None:
        return f"up to {plain_or_exact(high)}"
    if high is None:
        return f"{plain_or_exact(low)} and up"
    return f"{plain_or_exact(low)} to {plain_or_exact(high)}"
