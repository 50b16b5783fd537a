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
from metricldp.metrics.words import MetricInWords, Value, place_of, places_in, value_of

_MOST_NAMES = 5


@dataclass(frozen=True)
class Sensitive(Metric):
    """E(x, x') = step if x or x' is one of `places`, else 2 step; there is at least one place."""

    places: frozenset[int]
    step: Fraction

    def distance(self, x: int, other: int) -> Fraction:
        """One step with a sensitive end, two without."""
        if x == other:
            return Fraction(0)
        return self.step if x in self.places or other in self.places else 2 * self.step

    def scaled(self, share: Fraction) -> Sensitive:
        """The same places."""
        return Sensitive(self.places, self.step * share)

    def nearest(self, size: int) -> tuple[int, int]:
        """A sensitive value and any other."""
        first = min(self.places)
        return (0, first) if first else (0, 1)

    def farthest(self, size: int) -> tuple[int, int]:
        """Two values that are not sensitive, where there are two."""
        outside = (x for x in range(size) if x not in self.places)
        pair = next(outside, None), next(outside, None)
        return self.nearest(size) if pair[0] is None or pair[1] is None else (pair[0], pair[1])

    def generating_pairs(self, size: int) -> Iterator[tuple[int, int]]:
        """The pairs with a sensitive end."""
        for x in sorted(self.places):
            for other in range(size):
                if other not in self.places or other > x:
                    yield min(x, other), max(x, other)

    def generating_count(self, size: int) -> int:
        """All pairs but those outside."""
        outside = size - len(self.places)
        return (size * (size - 1) - outside * (outside - 1)) // 2

    def whole(self, size: int) -> tuple[Integers, Fraction]:
        """Ones, twos, and zeros on the diagonal."""
        numbers = np.full((size, size), 2, dtype=np.int64)
        chosen = sorted(self.places)
        numbers[chosen] = numbers[:, chosen] = 1
        np.fill_diagonal(numbers, 0)
        return numbers, self.step

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
        """One comparison where the places are the same."""
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
        places = places_in(values)
        ordered = sorted(self.values, key=lambda value: place_of(value, places))
        return type(self)(tuple(ordered))

    def on(self, values: Sequence[Value], unit: Fraction) -> Sensitive:
        """The places of the sensitive values."""
        places = places_in(values)
        return Sensitive(frozenset(place_of(value, places) for value in self.values), unit)
