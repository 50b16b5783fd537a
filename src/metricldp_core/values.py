"""Domains of attributes: a response to a position, or an error that does not show the response.

Responses that are accepted or clipped take the same steps whatever their size: there are no
shortcuts and no exceptions on the way. A missing response to an optional attribute takes the
position of the middle of the domain, by the same steps.
"""

from __future__ import annotations

import math
import re
import struct
import sys
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NoReturn, Self

from metricldp_core.canonical import LARGEST_NUMBER, Entry, is_line
from metricldp_core.distributions import MOST_POSITIONS
from metricldp_core.errors import InvalidValueError
from metricldp_core.exact import decimal_of
from metricldp_core.random_words import FRACTION_BITS

_NUMBER = re.compile(
    r"([+-]?(inf|infinity|nan|(\d+\.?\d*|\.\d+)(e[+-]?\d+)?))?", re.ASCII | re.IGNORECASE
)
_MISSING = ("NAType", "NaTType")
"""Types of missing values of pandas."""
_LONGEST_TEXT = 1_000
_LARGEST = int(sys.float_info.max)
_ZERO = Decimal(0)
_MOST_NAMES = 1 << 12
_LISTED = 8


@dataclass(frozen=True)
class Domain(ABC):
    """The values of an attribute."""

    name: str
    optional: bool = False
    within: str | None = None
    """Which values the survey calls close: at most so far apart, as decimal text."""
    ratio: str | None = None
    """Or one larger than the other by at most this part of it."""

    kind: ClassVar[str]
    stochastic: ClassVar[bool] = False
    """Whether positions are in units of 2^-32, to be rounded at random."""

    @property
    def middle(self) -> Any:
        """The value that stands for a missing response."""
        return None

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of positions."""

    @abstractmethod
    def position_of(self, value: object, clip: bool) -> int:
        """The position of a value that is there."""

    def position(self, value: object, *, clip: bool = False) -> int:
        """The position of a response."""
        value = scalar(value)
        missing = is_missing(value) & self.optional
        return self.position_of((value, self._stand_in(value))[missing], clip)

    def _stand_in(self, value: object) -> object:
        """The middle in the type of a missing response, so that it takes the same steps."""
        kind = isinstance(value, str) + 2 * isinstance(value, float)
        kind += 3 * isinstance(value, Decimal)
        middle = self.middle
        return (middle, str(middle), float(middle), Decimal(middle))[kind]

    def reject(self, why: str, reason: str = "kind") -> NoReturn:
        raise InvalidValueError(why, attribute=self.name or None, reason=reason)

    def check_missing(self, value: object) -> None:
        if is_missing(value):
            why = "is missing; each response needs a value, so fill it in or leave the row out"
            self.reject(why, "missing")


@dataclass(frozen=True)
class _Numbers(Domain):
    """Numbers from low to high."""

    low: Any = 0
    high: Any = 1
    cyclic: bool = False

    step: ClassVar[int] = 0
    """What a circle is longer than high - low."""

    @property
    def middle(self) -> int | float:
        return float(self.low + (self.high - self.low) / 2)

    def _within(self, number: Any, clip: bool) -> Any:
        """The number, or the nearest end if it is clipped; values of a ring are not clipped."""
        nearest = min(max(number, self.low), self.high)
        if (nearest != number) & (self.cyclic | (not clip)):
            remedy = "correct it or clip it (clip=True, --clip)"
            if self.cyclic:
                period = float(self.high - self.low + self.step)
                remedy = f"cyclic values are not clipped; reduce it modulo {period:g}"
            self.reject(f"is outside {_plain(self.low)} to {_plain(self.high)}; {remedy}", "range")
        return nearest

    def _real(self, value: Any, clip: bool) -> float:
        """A value as a float from low to high."""
        exact: Any = self._number(value)
        # The nearest float, and infinity for whatever is beyond the largest one.
        number: float = float(min(max(exact, -_LARGEST), _LARGEST)) * (1 + (abs(exact) > _LARGEST))
        return float(self._within(number, clip))

    def _number(self, value: Any, *, booleans: bool = False) -> int | float | Fraction:
        """A finite number, also from its text; true and false only if they are values."""
        value = scalar(value)
        if isinstance(value, str):
            value = self._parsed(value.strip())
        if isinstance(value, Decimal):
            value = math.nan if value.is_nan() else float(value)
        self.check_missing(value)
        if isinstance(value, bool) and booleans:
            return int(value)
        if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
            kind = type(value).__name__
            self.reject(f"holds {kind} values where numbers are needed; convert them to numbers")
        if math.isinf((0.0, value)[isinstance(value, float)]):
            self.reject("is not a finite number; correct it or leave the row out", "range")
        return value

    def _parsed(self, text: str) -> int | float:
        """The number that a text states, or NaN if it is blank."""
        if not _NUMBER.fullmatch(text) or len(text) > _LONGEST_TEXT:
            self.reject("is not a number; correct it or leave the row out")
        whole = text.lstrip("+-").isdigit()
        return (float(text or "nan"), int(("0", text)[whole]))[whole]


@dataclass(frozen=True)
class WholeNumbers(_Numbers):
    """Whole numbers from low to high; if these are 0 and 1, also false and true."""

    kind: ClassVar[str] = "integer"
    step: ClassVar[int] = 1

    @property
    def size(self) -> int:
        return int(self.high - self.low + 1)

    @property
    def middle(self) -> int:
        return int(self.low + self.size // 2)

    def position_of(self, value: Any, clip: bool) -> int:
        if type(value) is not int:
            exact = self._number(value, booleans=(self.low, self.high) == (0, 1))
            value = int(exact)
            if value != exact:
                self.reject("is not a whole number; round it first", "whole")
        return int(self._within(value, clip)) - int(self.low)

    @classmethod
    def read(cls, entry: Entry, kind: str, **common: Any) -> Self:
        low = entry.whole("low", -LARGEST_NUMBER, LARGEST_NUMBER)
        high = entry.whole("high", low + 1, min(low + MOST_POSITIONS - 1, LARGEST_NUMBER))
        return cls(low=low, high=high, cyclic=entry.true("cyclic"), **common)


@dataclass(frozen=True)
class Bins(_Numbers):
    """Real numbers in bins: position k holds edges[k] <= v < edges[k + 1], the last one its end.

    Edge k of equal bins is the double next to low + k (high - low) / bins, with low and high as
    decimals. So decimals of up to 15 digits are in the bin that they are in exactly. On a circle
    high is the same value as low.
    """

    bins: int = 0
    given: tuple[float, ...] = ()
    """Edges, in place of `bins`."""

    kind: ClassVar[str] = "continuous"

    @property
    def size(self) -> int:
        return self.bins or len(self.given) - 1

    @cached_property
    def edges(self) -> tuple[float, ...]:
        if self.given:
            return self.given
        low, high = decimal_of(self.low), decimal_of(self.high)
        start, width = low * self.bins, high - low
        scale = math.lcm(start.denominator, width.denominator)
        first, step = int(start * scale), int(width * scale)
        # The quotient of two integers is rounded once.
        return tuple((first + k * step) / (scale * self.bins) for k in range(self.bins + 1))

    def position_of(self, value: object, clip: bool) -> int:
        place = bisect_right(self.edges, self._real(value, clip)) - 1
        return (min(place, self.size - 1), place % self.size)[self.cyclic]

    @classmethod
    def read(cls, entry: Entry, kind: str, **common: Any) -> Self:
        if not entry.has("edges"):
            bins, cyclic = entry.whole("bins", 2, MOST_POSITIONS), entry.true("cyclic")
            ends = _ends(entry)
            digits = sum(decimal_of(end).denominator.bit_length() for end in ends.values())
            digits += max(abs(int(end)) for end in ends.values()).bit_length()
            entry.charge((bins >> 2) * (1 + (digits >> 7)))  # its edges
            return cls(**ends, cyclic=cyclic, bins=bins, **common)
        edges = tuple(entry.number(e, "edges") for e in entry.list("edges", 3, _MOST_NAMES))
        if any(lower >= upper for lower, upper in pairwise(edges)):
            entry.reject("needs edges that rise")
        return cls(low=edges[0], high=edges[-1], given=edges, **common)


@dataclass(frozen=True)
class Points(_Numbers):
    """Real numbers, rounded at random to one of the two nearest of `points` evenly spaced points.

    The position is (v - low) / (high - low) (points - 1) in units of 2^-32; with 2 points it is
    also the position of a private weight.
    """

    points: int = 2
    weight: bool = False

    stochastic: ClassVar[bool] = True

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "weight" if self.weight else "continuous"

    @property
    def size(self) -> int:
        return self.points

    def position_of(self, value: object, clip: bool) -> int:
        steps = (self._real(value, clip) - self.low) / (self.high - self.low) * (self.points - 1)
        whole: int = min(math.floor(steps), self.points - 2)
        rest: int = round((steps - whole) * (1 << FRACTION_BITS))
        return (whole << FRACTION_BITS) + min(max(rest, 0), 1 << FRACTION_BITS)

    @classmethod
    def read(cls, entry: Entry, kind: str, **common: Any) -> Self:
        weight = entry.true("private") if kind == "weight" else False
        points = 2 if weight else entry.whole("points", 2, MOST_POSITIONS)
        return cls(**_ends(entry), points=points, weight=weight, **common)


@dataclass(frozen=True)
class PublicWeight(_Numbers):
    """A number that is sent as it is; the position is the 64 bits of the double."""

    kind: ClassVar[str] = "weight"

    @property
    def size(self) -> int:
        return 1 << 64

    def position_of(self, value: object, clip: bool) -> int:
        return int.from_bytes(struct.pack("<d", self._real(value, clip)), "little")

    def is_possible(self, bits: int) -> bool:
        """Whether 64 bits are a number in the domain."""
        return bool(self.low <= struct.unpack("<d", bits.to_bytes(8, "little"))[0] <= self.high)

    @classmethod
    def read(cls, entry: Entry, kind: str, **common: Any) -> Self:
        return cls(**_ends(entry), **common)


@dataclass(frozen=True)
class Names(Domain):
    """Names: categories, or levels in order. Whole numbers and truth values may be names."""

    names: tuple[str, ...] = ()
    ordered: bool = False
    cyclic: bool = False

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "ordinal" if self.ordered else "categorical"

    @property
    def size(self) -> int:
        return len(self.names)

    @property
    def middle(self) -> str:
        return self.names[self.size // 2]

    def _stand_in(self, value: object) -> object:
        return self.middle

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    def position_of(self, value: object, clip: bool) -> int:
        name = as_name(value)
        self.check_missing(name)
        if not isinstance(name, str):
            kind = type(name).__name__
            self.reject(f"holds {kind} values where names are needed; convert them to text")
        if name not in self._positions:
            rest = "; only numbers can be clipped" if clip else ""
            self.reject(f"is not one of {listed(self.names)}{rest}", "name")
        return self._positions[name]

    @classmethod
    def read(cls, entry: Entry, kind: str, **common: Any) -> Self:
        names = entry.list("names", 2, _MOST_NAMES)
        if len(set(map(str, names))) < len(names) or not all(map(is_line, names)):
            entry.reject("needs names, different lines of text")
        ordered = kind == "ordinal"
        cyclic = entry.true("cyclic") if ordered else False
        return cls(names=tuple(names), ordered=ordered, cyclic=cyclic, **common)


@dataclass(frozen=True)
class Response(Domain):
    """Whether there is a response to an optional attribute: 0 if it is missing, else 1."""

    kind: ClassVar[str] = "response"

    @property
    def size(self) -> int:
        return 2

    def position(self, value: object, *, clip: bool = False) -> int:
        return 1 - is_missing(value)

    def position_of(self, value: object, clip: bool) -> int:
        return self.position(value)

    @classmethod
    def read(cls, entry: Entry, kind: str, **common: Any) -> Self:
        return cls(**common)


def read_domain(entry: Entry) -> Domain:
    """Read the domain of an attribute."""
    name, kind, optional = entry.text("name"), entry.text("kind"), entry.true("optional")
    within, ratio = (entry.decimal(key) if entry.has(key) else None for key in ("within", "ratio"))
    kinds: dict[str, Any] = {
        "integer": WholeNumbers,
        "continuous": Points if entry.has("points") else Bins,
        "ordinal": Names,
        "categorical": Names,
        "weight": Points if entry.has("private") else PublicWeight,
        "response": Response,
    }
    if kind not in kinds or "=" in name:
        entry.reject(f"has a kind {kind!r:.40} that is not supported, or a name with '='")
    common = {"name": name, "optional": optional, "within": within, "ratio": ratio}
    found: Domain = kinds[kind].read(entry, kind, **common)
    if optional and isinstance(found, Response | PublicWeight):
        entry.reject("is optional, but is sent as it is or says whether there is a response")
    if within and (ratio or kind not in ("integer", "continuous", "ordinal")):
        entry.reject("has within, but no order or also a ratio")
    if ratio and not (isinstance(found, WholeNumbers | Bins) and found.low > 0):
        entry.reject("has a ratio, but not whole numbers or bins above 0")
    entry.charge(found.size << 2 if ratio else 0)  # its sentence
    return found


def _plain(number: float) -> str:
    """A number of a domain in a message: 10, not 10.0."""
    whole = abs(number) <= LARGEST_NUMBER and number == int(number)
    return f"{int(number) if whole else number:,}"


def _ends(entry: Entry) -> dict[str, Any]:
    low, high = (entry.number(entry.any(key), key) for key in ("low", "high"))
    if not low < high or not math.isfinite(high - low):
        entry.reject("needs low below high")
    return {"low": low, "high": high}


def scalar(value: Any) -> Any:
    """A scalar of numpy as Python has it; others take the same steps. Spans of time stay."""
    kind = type(value)
    of_numpy = (kind.__module__ == "numpy") & (not hasattr(value, "__len__"))
    of_numpy |= isinstance(value, float | str) & hasattr(value, "item")
    return value.item() if of_numpy & (kind.__name__ != "timedelta64") else value


def as_name(value: Any) -> Any:
    """A whole number or a truth value as the name that it is; all others as they are."""
    value = scalar(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(min(max(value, -_LARGEST), _LARGEST))
    return value


def is_missing(value: Any) -> bool:
    """Whether a response is missing: None, NaN or blank text. The same steps for all."""
    value = scalar(value)
    nothing = (value is None) | (type(value).__name__ in _MISSING)
    nan = math.isnan((0.0, value)[isinstance(value, float)])
    no_decimal = (_ZERO, value)[isinstance(value, Decimal)].is_nan()
    blank = not ("-", value)[isinstance(value, str)].strip()
    return nothing | nan | no_decimal | blank


def listed(names: Sequence[str]) -> str:
    """Names in quotes, the first few of many."""
    quoted = [repr(name)[:80] for name in names]
    if len(quoted) <= _LISTED + 1:
        return ", ".join(quoted)
    return f"{', '.join(quoted[:_LISTED])} and {len(quoted) - _LISTED} more"
