"""Metrics in the data's own words: values by name, lengths in units of epsilon.

A survey says `metric=Graph([("never", "rarely"), ...])`; the attribute turns it into a metric on
positions by `on(values, unit)`. What is said here is what survey files hold.
"""

from __future__ import annotations

import math
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from metricldp.basics.checks import as_lists, refuse_unknown
from metricldp.basics.errors import InvalidSpecError, TightenedMetricWarning
from metricldp.basics.numbers import is_number, is_whole
from metricldp.basics.text import guess, listed, plain, shown
from metricldp.metrics.base import Metric
from metricldp.metrics.closed import MOST_POSITIONS, Change, Distances, tightened
from metricldp_core.exact import decimal_of

Value = str | int
"""A value of an attribute: a name or a whole number."""
Length = int | float | str
"""A positive number as it is written; text such as "1/3" where no decimal says it."""

_FRACTION = re.compile(r"[0-9]{1,4000}/[0-9]{1,4000}")
_MOST_DIGITS = 40
"""Of a numerator or denominator: what sums of decimals need, and short enough to add up many."""
_SHORTEST, _LONGEST = Fraction(1, 1 << 60), 1 << 60
_ROUNDING = Fraction(1, 10**9)
"""Distances that differ by less than this share differ by rounding."""
_MOST_PAIRS = 3
"""So many changed pairs are named in a warning."""


@dataclass(frozen=True)
class MetricInWords(ABC):
    """A metric before it meets an attribute."""

    kind: ClassVar[str]

    @abstractmethod
    def on(self, values: Sequence[Value], unit: Fraction) -> Metric:
        """The metric on the positions of these values, lengths times `unit`."""

    def settled(self, values: Sequence[Value]) -> Self:
        """The same metric in final words: what could not hold is tightened, with a warning."""
        return self

    def to_dict(self) -> dict[str, Any]:
        listed = {f.name: as_lists(getattr(self, f.name)) for f in fields(self)}
        return {"kind": self.kind, **listed}

    @classmethod
    def from_entries(cls, entries: Mapping[str, Any]) -> Self:
        """From what `to_dict` wrote, without its kind."""
        known = [f.name for f in fields(cls)]
        refuse_unknown(f"a metric of kind {cls.kind}", entries, known)
        if known[0] not in entries:
            raise InvalidSpecError(f"a metric of kind {cls.kind} needs {known[0]!r}")
        return cls(**entries)


class Stated(MetricInWords):
    """A metric that states the distances of some pairs; all others are shortest paths."""

    @abstractmethod
    def said(self, values: Sequence[Value]) -> dict[tuple[int, int], Fraction]:
        """The stated distance of each pair of positions, smaller one first."""

    @abstractmethod
    def replaced(self, changes: Mapping[tuple[int, int], Length], values: Sequence[Value]) -> Self:
        """The same words with some distances replaced."""

    def on(self, values: Sequence[Value], unit: Fraction) -> Distances:
        return self._closure(values)[0].scaled(unit)

    def settled(self, values: Sequence[Value]) -> Self:
        """Distances that the way round undercuts are set to the way round."""
        changes = self._closure(values)[1]
        if not changes:
            return self
        warnings.warn(_told(changes, values), TightenedMetricWarning, stacklevel=6)
        return self.replaced({(c.x, c.other): as_length(c.after) for c in changes}, values)

    def _closure(self, values: Sequence[Value]) -> tuple[Distances, tuple[Change, ...]]:
        return _closure(self, values if isinstance(values, range) else tuple(values))


@lru_cache(maxsize=16)
def _closure(words: Stated, values: Any) -> tuple[Distances, tuple[Change, ...]]:
    """Kept, because an attribute is made again several times on the way into a survey."""
    if len(values) > MOST_POSITIONS:
        raise InvalidSpecError(
            f"a {words.kind} metric supports up to {MOST_POSITIONS:,} values, "
            f"not {len(values):,}; use fewer values"
        )
    return tightened(words.said(values), values)


def _told(changes: Sequence[Change], values: Sequence[Value]) -> str:
    if all(c.before - c.after <= _ROUNDING * c.before for c in changes):
        first = between(values[changes[0].x], values[changes[0].other])
        others = f" and {len(changes) - 1:,} more" if changes[1:] else ""
        return f"by rounding only, distances were shortened to the shortest path: {first}{others}"
    pairs = []
    for change in changes[:_MOST_PAIRS]:
        before, after = _told_apart(float(change.before), float(change.after))
        pairs.append(f"{between(values[change.x], values[change.other])} from {before} to {after}")
    more = len(changes) - len(pairs)
    tail = f" and {more:,} more, {len(changes):,} in all" if more else ""
    return (
        "some distances were longer than the shortest path and were shortened to it: "
        f"{', '.join(pairs)}{tail}"
    )


def _told_apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to see that they differ."""
    texts = plain(one), plain(other)
    for digits in range(7, 18):
        if texts[0] != texts[1]:
            break
        texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
    return texts


# Values and lengths ------------------------------------------------------------------------------


def value_of(value: object) -> Value:
    if isinstance(value, str):
        return value
    if is_whole(value):
        return int(value)
    raise InvalidSpecError(f"a metric names values by name or whole number, not {shown(value)}")


class _Positions(dict[Value, int]):
    def __missing__(self, value: Value) -> NoReturn:
        text = f"; write {str(value)!r}" if str(value) in self else guess(value, self)
        raise InvalidSpecError(
            f"the metric names {shown(value)}, which is not a value of the attribute; it can be "
            f"{listed(self)}{text}"
        )


def positions_in(values: Sequence[Value]) -> dict[Value, int]:
    """The position of each value; one that a metric names but an attribute has not is refused."""
    return _Positions((value, position) for position, value in enumerate(values))


def between(x: Value, other: Value) -> str:
    return f"{shown(x)} to {shown(other)}"


def as_length(length: Fraction) -> Length:
    """A fraction as it is written: a whole number up to 2^53, a decimal, or "1/3"."""
    if length.denominator == 1 and length.numerator <= 1 << 53:
        return length.numerator
    near = float(length)
    return near if decimal_of(near) == length else f"{length.numerator}/{length.denominator}"


def length_of(said: object, pair: str) -> Fraction:
    """A stated distance as a fraction; a decimal means what is written."""
    length = None
    if isinstance(said, Fraction):
        length = said
    elif isinstance(said, str) and _FRACTION.fullmatch(said) and int(said.split("/")[1]):
        length = Fraction(said)
    elif is_number(said) and math.isfinite(said):
        length = Fraction(int(said)) if isinstance(said, int | np.integer) else decimal_of(said)
    if length is None or length <= 0:
        same = "; merge values that must be indistinguishable" if length == 0 else ""
        raise InvalidSpecError(
            f"the distance {pair} must be a positive finite number, not {shown(said)}{same}"
        )
    if not _SHORTEST <= length <= _LONGEST:
        raise InvalidSpecError(
            f"the distance {pair} must lie between 1e-18 and 1e18, not {shown(said)}"
        )
    if max(length.as_integer_ratio()) >= 10**_MOST_DIGITS:
        raise InvalidSpecError(
            f"the distance {pair} must be a fraction of at most {_MOST_DIGITS} digits above and "
            f"below, not {shown(said)}; round it"
        )
    return length
