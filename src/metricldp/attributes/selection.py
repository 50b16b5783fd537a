"""The words of a question: what "18 to 29" or "north, south" means on a grid of positions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import plain, shown


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


@dataclass(frozen=True)
class Chosen:
    """A part of a domain: which positions, in words, and a note where the words were bent.

    Where values are rounded at random, positions may count in part: numbers from 0 to 1.
    """

    part: Span | npt.NDArray[Any]
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
    def between(cls, first: int, end: int, size: int, words: str) -> Chosen:
        """From first up to but without end; over the end of a ring where that comes before."""
        if first < end:
            return cls(Span(first, end, size), words)
        places = np.arange(size)
        return cls.of((places >= first) | (places < end), words)

    @property
    def inside(self) -> npt.NDArray[Any]:
        return self.part.inside if isinstance(self.part, Span) else self.part

    @property
    def first_and_last(self) -> tuple[int, int]:
        """The ends of the part, as positions."""
        if isinstance(self.part, Span):
            return self.part.first, self.part.end - 1
        places = np.flatnonzero(self.part)
        return int(places[0]), int(places[-1])

    @property
    def whole(self) -> bool:
        return isinstance(self.part, Span) and self.part.end - self.part.first == self.part.size


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
    why = f"{name} {asked} is an empty range: its ends are swapped; ask for {meant}"
    around = (
        f", or make {name} cyclic in the survey if its ranges should wrap around; here it is not"
    )
    return QueryError(why + around if may_go_round else why)


def empty(words: object, name: str, domain: str) -> QueryError:
    """The refusal of a range that holds nothing."""
    asked = range_words(*words) if isinstance(words, tuple) else str(words)
    return QueryError(f"{name} {asked} is an empty range; {name} goes {domain}")


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
        return f"up to {plain(high)}"
    return f"{plain(low)} and up" if high is None else f"{plain(low)} to {plain(high)}"
