"""The metric E_S of section 3.2: some values are more sensitive than others.

E_S(x, x') is epsilon if x or x' is in S and 2 epsilon otherwise. More than 2 epsilon could not be
promised away: two values outside S are each within epsilon of any value in S, so the way round
through S bounds them by 2 epsilon, and the pairs with one end in S generate the metric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from metricldp.basics.errors import SurveyError
from metricldp.basics.text import shown
from metricldp.metrics.base import Integers, Metric
from metricldp.metrics.words import MetricInWords, Value, positions_in, value_of

_MOST_NAMES = 5


@dataclass(frozen=True)
class Sensitive(Metric):
    """E(x, x') = step if x or x' is one of `places`, else 2 step; there is at least one place."""

    places: frozenset[int]
    step: Fraction

    def distance(self, x: int, other: int) -> Fraction:
        if x == other:
            return Fraction(0)
        return self.step if x in self.places or other in self.places else 2 * self.step

    def scaled(self, share: Fraction) -> Sensitive:
        return Sensitive(self.places, self.step * share)

    def nearest(self, size: int) -> tuple[int, int]:
        first = min(self.places)
        return (0, first) if first else (0, 1)

    def farthest(self, size: int) -> tuple[int, int]:
        outside = (x for x in range(size) if x not in self.places)
        x, other = next(outside, None), next(outside, None)
        return self.nearest(size) if x is None or other is None else (x, other)

    def generating_pairs(self, size: int) -> Iterator[tuple[int, int]]:
        for x in sorted(self.places):
            for other in range(size):
                if other not in self.places or other > x:
                    yield min(x, other), max(x, other)

    def generating_count(self, size: int) -> int:
        outside = size - len(self.places)
        return (size * (size - 1) - outside * (outside - 1)) // 2

    def whole(self, size: int) -> Integers:
        numbers = np.full((size, size), 2, dtype=np.int64)
        chosen = sorted(self.places)
        numbers[chosen] = numbers[:, chosen] = 1
        np.fill_diagonal(numbers, 0)
        return numbers

    def sensitive_positions(self, size: int) -> frozenset[int]:
        return self.places

    def telling_pairs(self, size: int, names: Callable[[int], str]) -> list[tuple[str, Fraction]]:
        places = sorted(self.places)
        told = ", ".join(names(place) for place in places[:_MOST_NAMES])
        more = len(places) - _MOST_NAMES
        told += f" and {more:,} more" if more > 0 else ""
        near = f"a sensitive value ({told}) against any other", self.smallest(size)
        return [near, ("any two others", self.diameter(size))]

    def per_step(self, size: int) -> Fraction:
        """By the sensitive value and the end farthest from it."""
        return self.step / max(max(x, size - 1 - x) for x in self.places)

    def within(self, other: Metric, size: int) -> bool:
        if isinstance(other, Sensitive) and other.places == self.places:
            return self.step <= other.step
        return super().within(other, size)


@dataclass(frozen=True)
class SensitiveSet(MetricInWords):
    """Distance 1 where one of these values is concerned, and 2 between any two others.

    >>> from metricldp import Categorical, SensitiveSet
    >>> visit = Categorical(["news", "games", "clinic"], epsilon=1, metric=SensitiveSet(["clinic"]))
    >>> float(visit.distance("clinic", "news")), float(visit.distance("games", "news"))
    (1.0, 2.0)
    """

    values: Sequence[Value]

    kind: ClassVar[str] = "sensitive-set"

    def __post_init__(self) -> None:
        if isinstance(self.values, str) or not isinstance(self.values, Sequence | set | frozenset):
            raise SurveyError(f"a sensitive set is a list of values, not {shown(self.values)}")
        ordered = self.values if isinstance(self.values, Sequence) else sorted(self.values, key=str)
        values = tuple(value_of(value) for value in ordered)
        if not values:
            raise SurveyError(
                "a sensitive set needs at least one value; where none is sensitive, leave metric "
                "out and double epsilon"
            )
        repeated = next((value for value in values if values.count(value) > 1), None)
        if repeated is not None:
            raise SurveyError(f"the sensitive set names {shown(repeated)} twice")
        object.__setattr__(self, "values", values)

    def settled(self, values: Sequence[Value]) -> Self:
        """In the order of the attribute's values: the same set is the same agreement."""
        return type(self)(tuple(sorted(self.values, key=positions_in(values).__getitem__)))

    def on(self, values: Sequence[Value], unit: Fraction) -> Sensitive:
        positions = positions_in(values)
        return Sensitive(frozenset(positions[value] for value in self.values), unit)
