"""Attributes: one private value of a person, its grid of positions, and the metric on it.

An attribute is pure data. It turns values into positions 0 .. size - 1 and the words of a question
("18 to 29", "north") into a function of the position; it never sees a coin.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from metricldp.errors import QueryError, SurveyError
from metricldp.metrics import Line, Metric, Uniform
from metricldp.values import is_number, numbers_of, places_of, plain, refuse, refuse_outside

Positions = npt.NDArray[np.int64]
SMALLEST_STEP = Fraction(1, 1 << 40)
"""Below this epsilon per step 64-bit coins could not tell two positions apart any more."""
LARGEST_STEP = 1 << 10
"""Above this epsilon per step nothing is blurred, and e to that power is only a waste of time."""
LARGEST_SIZE = 1 << 20
"""More positions than this is a survey to think over again."""


@dataclass(frozen=True)
class Chosen:
    """A part of a domain: which positions, in words, and a note where the words were bent."""

    inside: npt.NDArray[np.bool_]
    words: str
    note: str | None = None


@dataclass(frozen=True, kw_only=True)
class Attribute(ABC):
    """What all attributes share: an epsilon, and the mechanism that blurs."""

    epsilon: float
    mechanism: str = "auto"

    kind: ClassVar[str]
    mechanisms: ClassVar[tuple[str, ...]] = (
        "geometric",
        "threshold",
        "threshold-paper",
        "response",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _positive("epsilon", self.epsilon))
        if self.mechanism != "auto" and self.mechanism not in self.mechanisms:
            raise SurveyError(
                f"mechanism {self.mechanism!r} does not serve a {self.kind} attribute; "
                f"choose auto, {', '.join(self.mechanisms)}"
            )

    @property
    @abstractmethod
    def size(self) -> int:
        """How many positions there are."""

    @property
    @abstractmethod
    def metric(self) -> Metric:
        """E on positions."""

    @abstractmethod
    def positions(self, values: pa.Array, name: str, *, clip: bool = False) -> Positions:
        """Values to positions; `name` is for the message when one is refused."""

    @abstractmethod
    def choose(self, words: object, name: str) -> Chosen:
        """The positions that one entry of a where-clause means."""

    @abstractmethod
    def name_of(self, position: int) -> str:
        """A position in the data's own words."""

    def label(self, first: int, last: int | None = None) -> str:
        """A position, or the positions from first to last, in the data's own words."""
        if last is None or first == last:
            return self.name_of(first)
        return f"{self.name_of(first)} to {self.name_of(last)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a survey file, in the order of the fields."""
        data: dict[str, Any] = {"kind": self.kind}
        last = ("epsilon", "per", "mechanism")
        names = [f.name for f in fields(self) if f.name not in last]
        names += [name for name in last if hasattr(self, name)]
        for name in names:
            value = getattr(self, name)
            data[name] = list(value) if isinstance(value, tuple) else value
        return data

    def _check_step(self, step: Fraction) -> None:
        if self.size > LARGEST_SIZE:
            raise SurveyError(
                f"a {self.kind} attribute with {self.size:,} positions is too large; "
                f"use at most {LARGEST_SIZE:,}"
            )
        if step < SMALLEST_STEP:
            raise SurveyError(
                f"epsilon is {float(step):.3g} per step of the grid, too small to be kept with "
                "64-bit coins; use a coarser grid or a larger epsilon"
            )
        if step > LARGEST_STEP:
            raise SurveyError(
                f"epsilon is more than {LARGEST_STEP:,} per step of the grid, which blurs nothing; "
                "use a smaller epsilon"
            )


@dataclass(frozen=True, kw_only=True)
class _OnLine(Attribute):
    """Attributes whose values have an order and a distance: epsilon for every `per` units."""

    per: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "per", _positive("per", self.per))

    @property
    @abstractmethod
    def step(self) -> Fraction:
        """The distance of two neighbouring positions, in the unit of `per`."""

    @property
    def metric(self) -> Metric:
        """Epsilon per unit, times the width of a step."""
        return Line(Fraction(self.epsilon) * self.step / Fraction(self.per))


@dataclass(frozen=True)
class Integer(_OnLine):
    """A whole number from low to high, both included: an age, a rating, a count."""

    low: int = field(kw_only=False)
    high: int = field(kw_only=False)

    kind: ClassVar[str] = "integer"

    def __post_init__(self) -> None:
        super().__post_init__()
        for end in ("low", "high"):
            value = getattr(self, end)
            if isinstance(value, bool) or not _is_whole(value):
                raise SurveyError(f"{end} of an integer attribute must be whole, not {value!r}")
            object.__setattr__(self, end, int(value))
        _check_ends(self.low, self.high)
        self._check_step(self.metric.step)

    @property
    def size(self) -> int:
        """Every whole number once."""
        return self.high - self.low + 1

    @property
    def step(self) -> Fraction:
        """One."""
        return Fraction(1)

    def positions(self, values: pa.Array, name: str, *, clip: bool = False) -> Positions:
        """Subtract the lowest value; fractions are refused, not rounded."""
        numbers = numbers_of(values, name)
        if numbers.dtype.kind == "f":
            refuse(numbers != np.rint(numbers), values, name, "is not a whole number")
        if clip:
            numbers = np.clip(numbers, self.low, self.high)
        refuse_outside(numbers, values, self.low, self.high, name)
        return numbers.astype(np.int64) - self.low

    def choose(self, words: object, name: str) -> Chosen:
        """A number, a pair of ends, or a list of numbers."""
        grid = np.arange(self.low, self.high + 1)
        if isinstance(words, tuple):
            low, high = _ends(words, name)
            inside = _nonempty(_between(grid, low, high), words, name, self._domain)
            return Chosen(inside, _range_words(low, high))
        wanted = _members(words, name)
        for value in wanted:
            if not is_number(value) or value not in grid:
                raise QueryError(f"{name} has no value {value!r}; it goes {self._domain}")
        return Chosen(np.isin(grid, wanted), ", ".join(str(value) for value in wanted))

    @property
    def _domain(self) -> str:
        return f"from {self.low} to {self.high}"

    def name_of(self, position: int) -> str:
        """The number itself."""
        return str(self.low + position)


@dataclass(frozen=True)
class Continuous(_OnLine):
    """A real number between low and high, kept only as one of `bins` equal bins."""

    low: float = field(kw_only=False)
    high: float = field(kw_only=False)
    bins: int

    kind: ClassVar[str] = "continuous"

    def __post_init__(self) -> None:
        super().__post_init__()
        for end in ("low", "high"):
            value = getattr(self, end)
            if not is_number(value) or not math.isfinite(value):
                raise SurveyError(f"{end} of a continuous attribute must be finite, not {value!r}")
            object.__setattr__(self, end, float(value))
        _check_ends(self.low, self.high)
        if isinstance(self.bins, bool) or not _is_whole(self.bins) or self.bins < 2:
            raise SurveyError(f"a continuous attribute needs at least 2 bins, not {self.bins!r}")
        object.__setattr__(self, "bins", int(self.bins))
        if self.size <= LARGEST_SIZE and not (np.diff(self.edges) > 0).all():
            raise SurveyError(f"{self.bins:,} bins between {self.low} and {self.high} are too thin")
        self._check_step(self.metric.step)

    @property
    def size(self) -> int:
        """The bins."""
        return self.bins

    @property
    def step(self) -> Fraction:
        """The width of a bin."""
        return (Fraction(self.high) - Fraction(self.low)) / self.bins

    @property
    def width(self) -> float:
        """The width of a bin, as a number."""
        return float(self.step)

    @property
    def edges(self) -> npt.NDArray[np.float64]:
        """The bins + 1 edges; bin k holds edges[k] <= v < edges[k+1], the last its upper end."""
        return np.linspace(self.low, self.high, self.bins + 1)

    def positions(self, values: pa.Array, name: str, *, clip: bool = False) -> Positions:
        """The bin of each value."""
        numbers = numbers_of(values, name).astype(np.float64)
        if clip:
            numbers = np.clip(numbers, self.low, self.high)
        refuse_outside(numbers, values, self.low, self.high, name)
        bins = ((numbers - self.low) / (self.high - self.low) * self.bins).astype(np.int64)
        np.clip(bins, 0, self.bins - 1, out=bins)
        # The product may be a rounding off; the edges decide.
        edges = self.edges
        bins -= numbers < edges[bins]
        bins += (numbers >= edges[bins + 1]) & (bins < self.bins - 1)
        return bins

    def choose(self, words: object, name: str) -> Chosen:
        """A pair of ends, moved to the nearest edges; or one number, meaning its bin."""
        if isinstance(words, tuple):
            low, high = _ends(words, name)
            edges = self.edges
            first = 0 if low is None else _nearest(edges, low)
            last = self.bins if high is None else _nearest(edges, high)
            grid = np.arange(self.bins)
            inside = _nonempty((grid >= first) & (grid < last), words, name, self._domain)
            moved = [
                end
                for end, edge in ((low, edges[first]), (high, edges[last]))
                if end is not None and not math.isclose(end, edge, abs_tol=1e-9 * self.width)
            ]
            note = f"{name} {_range_words(low, high)} answered between the nearest bin edges, "
            note += f"{plain(edges[first])} to {plain(edges[last])}"
            return Chosen(inside, _range_words(low, high), note if moved else None)
        if not is_number(words):
            raise QueryError(f"{name} takes a range or a number, not {words!r}")
        _nonempty(np.array([self.low <= words <= self.high]), words, name, self._domain)
        position = int(self.positions(pa.array([words]), name)[0])
        note = f"{name} = {plain(words)} answered for its bin, {self.label(position)}"
        return Chosen(np.arange(self.bins) == position, plain(words), note)

    @property
    def _domain(self) -> str:
        return f"from {plain(self.low)} to {plain(self.high)} in bins of {plain(self.width)}"

    def name_of(self, position: int) -> str:
        """The edges of the bin."""
        return self.label(position, position)

    def label(self, first: int, last: int | None = None) -> str:
        """From the lower edge of the first bin to the upper edge of the last."""
        edges = self.edges
        return f"{plain(edges[first])} to {plain(edges[(first if last is None else last) + 1])}"


@dataclass(frozen=True)
class Ordinal(_OnLine):
    """Named levels in order, one step apart: never, rarely, often, always."""

    levels: Sequence[str] = field(kw_only=False)

    kind: ClassVar[str] = "ordinal"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "levels", _names(self.levels, "levels", self.kind))
        self._check_step(self.metric.step)

    @property
    def size(self) -> int:
        """The levels."""
        return len(self.levels)

    @property
    def step(self) -> Fraction:
        """One level."""
        return Fraction(1)

    def positions(self, values: pa.Array, name: str, *, clip: bool = False) -> Positions:
        """The place of each level; there is nothing to clip."""
        return places_of(values, self.levels, name)

    def choose(self, words: object, name: str) -> Chosen:
        """A level, a pair of levels as ends, or a list of levels."""
        if isinstance(words, tuple):
            if len(words) != 2:
                raise QueryError(f"a range of {name} is a pair (low, high), not {words!r}")
            ends = [None if end is None else _place(end, self.levels, name) for end in words]
            inside = _between(np.arange(self.size), ends[0], ends[1])
            _nonempty(inside, words, name, f"from {self.levels[0]} to {self.levels[-1]}")
            return Chosen(inside, _range_words(words[0], words[1]))
        return _choose_names(words, self.levels, name)

    def name_of(self, position: int) -> str:
        """The level."""
        return self.levels[position]


@dataclass(frozen=True)
class Categorical(Attribute):
    """Named categories without an order; every two are equally far apart."""

    categories: Sequence[str] = field(kw_only=False)

    kind: ClassVar[str] = "categorical"
    mechanisms: ClassVar[tuple[str, ...]] = ("response",)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "categories", _names(self.categories, "categories", self.kind))
        self._check_step(self.metric.step)

    @property
    def size(self) -> int:
        """The categories."""
        return len(self.categories)

    @property
    def metric(self) -> Metric:
        """Epsilon between any two."""
        return Uniform(Fraction(self.epsilon))

    def positions(self, values: pa.Array, name: str, *, clip: bool = False) -> Positions:
        """The place of each category; there is nothing to clip."""
        return places_of(values, self.categories, name)

    def choose(self, words: object, name: str) -> Chosen:
        """A category or a list of them."""
        if isinstance(words, tuple):
            raise QueryError(f"{name} has no order, so no range; give a list of categories")
        return _choose_names(words, self.categories, name)

    def name_of(self, position: int) -> str:
        """The category."""
        return self.categories[position]


KINDS: dict[str, type[Attribute]] = {
    attribute.kind: attribute for attribute in (Integer, Continuous, Ordinal, Categorical)
}


def from_dict(data: dict[str, Any], name: str) -> Attribute:
    """An attribute from plain data, as `to_dict` wrote it."""
    rest = dict(data)
    kind = rest.pop("kind", None)
    if kind not in KINDS:
        raise SurveyError(f"attribute {name} has kind {kind!r}; choose {', '.join(KINDS)}")
    cls = KINDS[kind]
    known = {f.name for f in fields(cls)}
    for key in rest:
        if key not in known:
            raise SurveyError(
                f"attribute {name} has an unknown entry {key!r}; known: {sorted(known)}"
            )
    required = [f.name for f in fields(cls) if f.name not in ("mechanism", "per")]
    for key in required:
        if key not in rest:
            raise SurveyError(f"attribute {name} of kind {kind} needs {key!r}")
    try:
        return cls(**rest)
    except SurveyError as wrong:
        raise SurveyError(f"attribute {name}: {wrong}") from None


# Checks of a description -------------------------------------------------------------------------


def _positive(what: str, value: object) -> float:
    if not is_number(value) or not math.isfinite(value) or value <= 0:
        raise SurveyError(f"{what} must be a positive finite number, not {value!r}")
    return float(value)


def _is_whole(value: Any) -> bool:  # noqa: ANN401
    return is_number(value) and math.isfinite(value) and value == int(value)


def _check_ends(low: float, high: float) -> None:
    if low >= high:
        same = "holds one value only" if low == high else "is empty"
        raise SurveyError(
            f"the domain {plain(low)} to {plain(high)} {same}; low must be below high"
        )


def _names(names: object, what: str, kind: str) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise SurveyError(f"{what} of a {kind} attribute must be a list of names, not {names!r}")
    for name in names:
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise SurveyError(f"{what} must be non-empty names, not {name!r}")
    repeated = sorted({name for name in names if list(names).count(name) > 1})
    if repeated:
        raise SurveyError(f"{what} repeat {repeated[0]!r}; every name must be there once")
    if len(names) < 2:
        raise SurveyError(f"{what} {list(names)} leave nothing to tell apart; give at least two")
    return tuple(names)


# Words of a question -----------------------------------------------------------------------------


def _ends(words: tuple[Any, ...], name: str) -> tuple[Any, Any]:
    if len(words) != 2:
        raise QueryError(f"a range of {name} is a pair (low, high), not {words!r}")
    for end in words:
        if end is not None and (not is_number(end) or math.isnan(end)):
            raise QueryError(f"a range of {name} has numbers or None as ends, not {end!r}")
    return words[0], words[1]


def _between(grid: npt.NDArray[Any], low: float | None, high: float | None) -> Any:  # noqa: ANN401
    inside = np.ones(len(grid), dtype=bool)
    if low is not None:
        inside &= grid >= low
    if high is not None:
        inside &= grid <= high
    return inside


def _nonempty(
    inside: npt.NDArray[np.bool_], words: object, name: str, domain: str
) -> npt.NDArray[np.bool_]:
    if not inside.any():
        shown = _range_words(*words) if isinstance(words, tuple) else str(words)
        raise QueryError(f"{name} {shown} is an empty range; {name} goes {domain}")
    return inside


def _nearest(edges: npt.NDArray[np.float64], value: float) -> int:
    return int(np.argmin(np.abs(edges - value)))


def _members(words: object, name: str) -> list[Any]:
    members = list(words) if isinstance(words, list | set | frozenset | np.ndarray) else [words]
    if not members:
        raise QueryError(f"{name} has an empty list of values; leave it out to mean all")
    return members


def _place(value: object, names: Sequence[str], name: str) -> int:
    if value not in names:
        raise QueryError(f"{name} has no value {value!r}; it can be {', '.join(names)}")
    return list(names).index(str(value))


def _choose_names(words: object, names: Sequence[str], name: str) -> Chosen:
    members = _members(words, name)
    places = [_place(member, names, name) for member in members]
    return Chosen(np.isin(np.arange(len(names)), places), ", ".join(members))


def _range_words(low: object, high: object) -> str:
    if low is None and high is None:
        return "anything"
    if low is None:
        return f"up to {plain(high)}"
    return f"{plain(low)} and up" if high is None else f"{plain(low)} to {plain(high)}"
