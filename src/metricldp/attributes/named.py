"""Attributes: one private value of a person, its grid of positions, and the metric on it.

An attribute is pure data. It turns values into positions 0 .. size - 1 and the words of a question
("18 to 29", "north") into a function of the position; it never sees a coin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.attributes.base import Discrete, OnLine, Positions
from metricldp.attributes.scalars import codes_within, named_position
from metricldp.attributes.selection import (
    Chosen,
    between,
    choose_names,
    nonempty,
    place_of,
    range_words,
)
from metricldp.basics.errors import QueryError, SurveyError
from metricldp.basics.text import shown
from metricldp.metrics import Metric, Uniform, Value


@dataclass(frozen=True, repr=False)
class Ordinal(Discrete, OnLine):
    """Named levels in order, one step apart: never, rarely, often, always."""

    levels: Sequence[str] = field(kw_only=False)

    kind: ClassVar[str] = "ordinal"
    named: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "levels", _names(self.levels, "levels"))
        self._check_metric()

    @property
    def size(self) -> int:
        """The levels."""
        return len(self.levels)

    @property
    def values(self) -> Sequence[Value]:
        """The levels themselves."""
        return self.levels

    @property
    def step(self) -> Fraction:
        """One level."""
        return Fraction(1)

    def position(self, value: object, name: str = "", *, clip: bool = False) -> int:
        """Where it stands; there is nothing to clip."""
        return named_position(value, self._positions, name, clip)

    def positions(
        self, numbers: npt.NDArray[Any], name: str = "", *, clip: bool = False
    ) -> Positions:
        """Codes are positions."""
        return codes_within(numbers, self.size, name)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.levels)}

    def choose(self, words: object, name: str) -> Chosen:
        """A level, a pair of levels as ends, or a list of levels."""
        if isinstance(words, tuple):
            if len(words) != 2:
                raise QueryError(f"a range of {name} is a pair (low, high), not {shown(words)}")
            ends = [None if end is None else place_of(end, self.levels, name) for end in words]
            inside = between(np.arange(self.size), ends[0], ends[1])
            nonempty(inside, words, name, f"from {self.levels[0]} to {self.levels[-1]}")
            return Chosen.of(inside, range_words(words[0], words[1]))
        return choose_names(words, self.levels, name)

    def describe(self) -> str:
        return f"{self.size} levels from {self.levels[0]} to {self.levels[-1]}"

    def name_of(self, position: int) -> str:
        """The level."""
        return self.levels[position]


@dataclass(frozen=True, repr=False)
class Categorical(Discrete):
    """Named categories without an order; every two are equally far apart, unless `metric` says."""

    categories: Sequence[str] = field(kw_only=False)

    kind: ClassVar[str] = "categorical"
    named: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "categories", _names(self.categories, "categories"))
        self._check_metric()

    @property
    def size(self) -> int:
        """The categories."""
        return len(self.categories)

    @property
    def values(self) -> Sequence[Value]:
        """The categories themselves."""
        return self.categories

    @property
    def usual(self) -> Metric:
        """Epsilon between any two."""
        return Uniform(self.unit)

    def position(self, value: object, name: str = "", *, clip: bool = False) -> int:
        """Where it stands; there is nothing to clip."""
        return named_position(value, self._positions, name, clip)

    def positions(
        self, numbers: npt.NDArray[Any], name: str = "", *, clip: bool = False
    ) -> Positions:
        """Codes are positions."""
        return codes_within(numbers, self.size, name)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.categories)}

    def choose(self, words: object, name: str) -> Chosen:
        """A category or a list of them."""
        if isinstance(words, tuple):
            raise QueryError(f"{name} has no order, so no range; give a list of categories")
        return choose_names(words, self.categories, name)

    def describe(self) -> str:
        return f"{self.size} categories"

    def name_of(self, position: int) -> str:
        """The category."""
        return self.categories[position]


def _names(names: object, what: str) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise SurveyError(f"{what} must be a list of names, not {shown(names)}")
    for name in names:
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise SurveyError(f"{what} must be non-empty names, not {shown(name)}")
    repeated = sorted({name for name in names if list(names).count(name) > 1})
    if repeated:
        raise SurveyError(f"{what} repeat {repeated[0]!r}; every name must be there once")
    if len(names) < 2:
        raise SurveyError(f"{what} {list(names)} leave nothing to tell apart; give at least two")
    return tuple(names)
