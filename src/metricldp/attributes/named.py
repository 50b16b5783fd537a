"""Values with names: levels in order, and categories without one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from metricldp.attributes.base import Discrete, Numbers, Positions
from metricldp.attributes.ordered import OnLine
from metricldp.attributes.scalars import codes_within
from metricldp.attributes.selection import Chosen, members_of, pair_of, range_words, swapped
from metricldp.basics.checks import is_list
from metricldp.basics.errors import InvalidSpecError, QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import guess, listed, shown
from metricldp.metrics import Metric, Uniform
from metricldp_core.canonical import is_line
from metricldp_core.values import Domain, Names, as_name


@dataclass(frozen=True, kw_only=True, repr=False)
class Named(Discrete):
    """Attributes whose values are names; `field_name` says which field lists them."""

    field_name: ClassVar[str]
    named: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        names = _names(getattr(self, self.field_name), self.field_name)
        object.__setattr__(self, self.field_name, names)
        self._check_metric()

    @property
    def values(self) -> tuple[str, ...]:
        names: tuple[str, ...] = getattr(self, self.field_name)
        return names

    @property
    def size(self) -> int:
        return len(self.values)

    def domain_of(self, name: str) -> Domain:
        kind: dict[str, Any] = {"ordered": self.ordered, "cyclic": self.is_cyclic and self.ordered}
        return Names(name, self.optional is not None, **self._close, names=self.values, **kind)

    def positions(self, numbers: Numbers, name: str = "", *, clip: bool = False) -> Positions:
        return codes_within(numbers, self.size, name)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.values)}

    def choose(self, words: object, name: str) -> Chosen:
        """One of the names or a list of them."""
        positions = [self._asked(member, name) for member in members_of(words, name)]
        said = ", ".join(self.values[position] for position in positions)
        return Chosen.of(np.isin(np.arange(self.size), positions), said)

    def _asked(self, value: Any, name: str) -> int:
        """The position of a value that a question names."""
        value = as_name(value)
        if not isinstance(value, str) or value not in self._positions:
            choice = f"{listed(self.values)}{guess(value, self.values)}"
            raise QueryError(f"{name} has no value {shown(value)}; it can be {choice}")
        return self._positions[value]

    def describe(self) -> str:
        return f"{self.size} {self.field_name}"

    def name_of(self, position: int) -> str:
        return self.values[position]


@dataclass(frozen=True, repr=False)
class Ordinal(Named, OnLine):
    """Named levels in order, one step apart: never, rarely, often, always.

    Parameters:
        levels: The names, from the lowest to the highest.
        epsilon: The privacy loss between neighbouring levels, unless `within`, `per` or `metric`
            states otherwise; distances are numbers of steps.
        within, per, metric, max_epsilon, cyclic, optional, mechanism, workload: As for Integer.
    """

    levels: Sequence[str] = field(kw_only=False)

    kind: ClassVar[str] = "ordinal"
    field_name: ClassVar[str] = "levels"

    @property
    def step(self) -> Fraction:
        return Fraction(1)

    def choose(self, words: object, name: str) -> Chosen:
        """A level, a pair of levels as ends, or a list of levels."""
        if not isinstance(words, tuple):
            return super().choose(words, name)
        low, high = pair_of(words, name)
        first = 0 if low is None else self._asked(low, name)
        end = self.size if high is None else self._asked(high, name) + 1
        if first >= end and not self.is_cyclic:
            raise swapped(low, high, name, may_go_round=True)
        return Chosen.between(first, end, self.size, range_words(low, high))

    def describe(self) -> str:
        return f"{super().describe()} from {self.levels[0]} to {self.levels[-1]}"


@dataclass(frozen=True, repr=False)
class Categorical(Named):
    """Named categories without an order; without `metric`, all pairs are equally far apart.

    Parameters:
        categories: The names.
        epsilon: The privacy loss between any two categories.
        metric: Other distances, in units of epsilon: Graph, Tree, SensitiveSet or DistanceMatrix.
        max_epsilon, optional, workload: As for Integer.
        mechanism: As for Integer, without "geometric" and "threshold".
    """

    categories: Sequence[str] = field(kw_only=False)

    kind: ClassVar[str] = "categorical"
    field_name: ClassVar[str] = "categories"

    @property
    def usual(self) -> Metric:
        return Uniform(self.unit)

    def choose(self, words: object, name: str) -> Chosen:
        if isinstance(words, tuple):
            raise QueryError(f"{name} has no order, so no range; give a list of categories")
        return super().choose(words, name)


def _names(names: object, what: str) -> tuple[str, ...]:
    if not is_list(names):
        raise InvalidSpecError(f"{what} must be a list of names, not {shown(names)}")
    names = [as_name(name) for name in names]
    for name in names:
        if not is_line(name):
            text = f"; write {shown(str(name))}" if is_number(name) else ""
            raise InvalidSpecError(f"{what} must be non-empty names, not {shown(name)}{text}")
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise InvalidSpecError(f"{what} repeat {shown(repeated[0])}; write each name once")
    if len(names) < 2:
        raise InvalidSpecError(f"{what} {list(names)} have fewer than two names; give at least two")
    return tuple(names)
