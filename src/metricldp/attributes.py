"""Attributes: one private value of a person, its grid of positions, and the metric on it.

An attribute is pure data. It turns values into positions 0 .. size - 1 and the words of a question
("18 to 29", "north") into a function of the position; it never sees a coin.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from metricldp.errors import QueryError, SurveyError
from metricldp.exact import as_written
from metricldp.messages import guess, listed, shown
from metricldp.metrics import Line, Metric, Uniform
from metricldp.values import is_number, numbers_of, places_of, plain, refuse, refuse_outside
from metricldp.wording import (
    Chosen,
    between,
    choose_names,
    members_of,
    nearest,
    nonempty,
    place_of,
    range_ends,
    range_words,
)

Positions = npt.NDArray[np.int64]
SMALLEST_STEP = Fraction(1, 1 << 40)
"""Below this epsilon per step 64-bit coins could not tell two positions apart any more."""
LARGEST_STEP = 1 << 10
"""Above this epsilon per step nothing is blurred, and e to that power is only a waste of time."""
LARGEST_END = 1 << 53
"""Up to here integers and floats are the same numbers."""
LARGEST_SIZE = 1 << 20
"""More positions than this is a survey to think over again."""


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
        "threshold-dummy",
        "response",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _positive("epsilon", self.epsilon))
        if self.mechanism != "auto" and self.mechanism not in self.mechanisms:
            raise SurveyError(
                f"mechanism {self.mechanism!r} does not serve {self.kind} attributes; "
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

    @property
    def clear(self) -> bool:
        """Whether the value is sent as it is: public weights only."""
        return False

    @property
    def rounds(self) -> bool:
        """Whether positions are in units of 2^-32 and rounded at random on the device."""
        return False

    @abstractmethod
    def positions(self, values: pa.Array, name: str, *, clip: bool = False) -> Positions:
        """Values to positions; `name` is for the message when one is refused."""

    @abstractmethod
    def choose(self, words: object, name: str) -> Chosen:
        """The positions that one entry of a where-clause means."""

    @abstractmethod
    def name_of(self, position: int) -> str:
        """A position in the data's own words."""

    def numbers(self, name: str) -> tuple[npt.NDArray[np.float64], str | None]:
        """The number that each position stands for, and a note where it stands for several."""
        raise QueryError(f"{name} is {self.kind}: its values are names and have no sum or mean")

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
                f"{self.size:,} positions are too many for one attribute; "
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
class OnLine(Attribute):
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
        return Line(as_written(self.epsilon) * self.step / as_written(self.per))


@dataclass(frozen=True)
class Integer(OnLine):
    """A whole number from low to high, both included: an age, a rating, a count.

    From 0 to 1, and only then, its values and questions may also say True and False.
    """

    low: int = field(kw_only=False)
    high: int = field(kw_only=False)

    kind: ClassVar[str] = "integer"

    def __post_init__(self) -> None:
        super().__post_init__()
        for end in ("low", "high"):
            value = getattr(self, end)
            if isinstance(value, bool) or not is_whole(value):
                raise SurveyError(
                    f"{end} of an integer attribute must be whole, not {shown(value)}"
                )
            if abs(value) > LARGEST_END:
                raise SurveyError(f"{end} is {value}; use whole numbers up to {LARGEST_END:,}")
            object.__setattr__(self, end, int(value))
        check_ends(self.low, self.high)
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
        numbers = numbers_of(values, name, booleans=self._yes_or_no)
        if numbers.dtype.kind == "f":
            refuse(
                numbers != np.rint(numbers), values, name, "is not a whole number; round it first"
            )
        if clip:
            numbers = np.clip(numbers, self.low, self.high)
        refuse_outside(numbers, values, self.low, self.high, name)
        return numbers.astype(np.int64) - self.low

    def choose(self, words: object, name: str) -> Chosen:
        """A number, a pair of ends, or a list of numbers."""
        grid = np.arange(self.low, self.high + 1)
        if isinstance(words, tuple):
            low, high = range_ends(words, name)
            inside = nonempty(between(grid, low, high), words, name, self._domain)
            return Chosen(inside, range_words(low, high))
        wanted = members_of(words, name)
        if self._yes_or_no:
            wanted = [int(value) if isinstance(value, bool) else value for value in wanted]
        for value in wanted:
            if not is_number(value) or value not in grid:
                raise QueryError(f"{name} has no value {shown(value)}; it goes {self._domain}")
        return Chosen(np.isin(grid, wanted), ", ".join(str(value) for value in wanted))

    @property
    def _yes_or_no(self) -> bool:
        return (self.low, self.high) == (0, 1)

    @property
    def _domain(self) -> str:
        return f"from {self.low} to {self.high}"

    def numbers(self, name: str) -> tuple[npt.NDArray[np.float64], str | None]:
        """The numbers themselves."""
        return np.arange(self.low, self.high + 1, dtype=np.float64), None

    def name_of(self, position: int) -> str:
        """The number itself."""
        return str(self.low + position)


@dataclass(frozen=True)
class AutoBins:
    """What the best number of bins depends on: how many people, and how unevenly they lie.

    `smoothness` is how dense people lie where ranges end, as a multiple of an even spread; a
    `prior`, shares of people in equal parts of the domain, says the same in more detail.
    """

    n: int = 10_000
    smoothness: float = 1.0
    prior: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not is_whole(self.n) or self.n < 1:
            raise SurveyError(f"the best bins are for n people, at least 1, not {self.n!r}")
        _positive("smoothness", self.smoothness)
        if self.prior is not None:
            try:
                shares = np.asarray(self.prior, dtype=np.float64)
            except (TypeError, ValueError):
                shares = np.empty((0, 0))
            if shares.ndim != 1 or not np.isfinite(shares).all() or shares.min() < 0:
                raise SurveyError("a prior for bins is a list of shares, none below zero")
            _positive("the sum of the prior", float(shares.sum()))
            object.__setattr__(self, "prior", tuple(shares.tolist()))

    @property
    def density(self) -> float:
        """The root mean square density where ranges end, 1 for an even spread."""
        if self.prior is None:
            return self.smoothness
        shares = np.asarray(self.prior) / math.fsum(self.prior)
        return math.sqrt(len(shares) * float(shares @ shares))


@dataclass(frozen=True)
class Continuous(OnLine):
    """A real number between low and high, kept only as one of `bins` equal bins.

    `bins="auto"`, or an AutoBins that says more, is settled when the survey is made.
    """

    low: float = field(kw_only=False)
    high: float = field(kw_only=False)
    bins: int | str | AutoBins

    kind: ClassVar[str] = "continuous"

    def __post_init__(self) -> None:
        super().__post_init__()
        for end in ("low", "high"):
            value = getattr(self, end)
            if not is_number(value) or not math.isfinite(value):
                raise SurveyError(
                    f"{end} of a continuous attribute must be finite, not {shown(value)}"
                )
            object.__setattr__(self, end, float(value))
        check_ends(self.low, self.high)
        if not math.isfinite(self.high - self.low):
            raise SurveyError(f"the domain {self.low} to {self.high} is too wide for a float")
        if self.bins == "auto":
            object.__setattr__(self, "bins", AutoBins())
        if isinstance(self.bins, Mapping):
            object.__setattr__(self, "bins", _auto_bins(self.bins))
        if isinstance(self.bins, AutoBins):
            return
        if isinstance(self.bins, bool) or not is_whole(self.bins) or int(self.bins) < 2:
            raise SurveyError(
                f"a continuous attribute needs at least 2 bins, not {shown(self.bins)}"
            )
        object.__setattr__(self, "bins", int(self.bins))
        if self.size <= LARGEST_SIZE and not (np.diff(self.edges) > 0).all():
            raise SurveyError(f"{self.bins:,} bins between {self.low} and {self.high} are too thin")
        self._check_step(self.metric.step)

    @property
    def size(self) -> int:
        """The bins."""
        if isinstance(self.bins, int):
            return self.bins
        raise SurveyError("the number of bins is not chosen yet; put the attribute in a survey")

    @property
    def step(self) -> Fraction:
        """The width of a bin."""
        return (as_written(self.high) - as_written(self.low)) / self.size

    @property
    def width(self) -> float:
        """The width of a bin, as a number."""
        return float(self.step)

    @property
    def edges(self) -> npt.NDArray[np.float64]:
        """The bins + 1 edges; bin k holds edges[k] <= v < edges[k+1], the last its upper end."""
        return np.linspace(self.low, self.high, self.size + 1)

    def positions(self, values: pa.Array, name: str, *, clip: bool = False) -> Positions:
        """The bin of each value."""
        numbers = numbers_of(values, name).astype(np.float64)
        if clip:
            numbers = np.clip(numbers, self.low, self.high)
        refuse_outside(numbers, values, self.low, self.high, name)
        bins = ((numbers - self.low) / (self.high - self.low) * self.size).astype(np.int64)
        np.clip(bins, 0, self.size - 1, out=bins)
        # The product may be a rounding off; the edges decide.
        edges = self.edges
        bins -= numbers < edges[bins]
        bins += (numbers >= edges[bins + 1]) & (bins < self.size - 1)
        return bins

    def choose(self, words: object, name: str) -> Chosen:
        """A pair of ends, moved to the nearest edges; or one number, meaning its bin."""
        if isinstance(words, tuple):
            return self._choose_range(words, name)
        if not is_number(words):
            raise QueryError(f"{name} takes a range or a number, not {shown(words)}")
        nonempty(np.array([self.low <= words <= self.high]), words, name, self._domain)
        position = int(self.positions(pa.array([words]), name)[0])
        note = f"{name} = {plain(words)} answered for its bin, {self.label(position)}"
        return Chosen(np.arange(self.size) == position, plain(words), note)

    def _choose_range(self, words: tuple[Any, ...], name: str) -> Chosen:
        low, high = range_ends(words, name)
        said = range_words(low, high)
        start = self.low if low is None else max(low, self.low)
        end = self.high if high is None else min(high, self.high)
        nonempty(np.array([start <= end]), words, name, self._domain)
        edges = self.edges
        first, last = nearest(edges, start), nearest(edges, end)
        if first == last:
            middle = pa.array([start + (end - start) / 2])
            bin_there = self.label(int(self.positions(middle, name)[0]))
            raise QueryError(f"{name} {said} is narrower than a bin; the nearest is {bin_there}")
        moved = [
            edge
            for value, edge in ((start, edges[first]), (end, edges[last]))
            if not math.isclose(value, edge, abs_tol=1e-9 * self.width)
        ]
        note = f"{name} {said} answered between the nearest bin edges, "
        note += f"{plain(edges[first])} to {plain(edges[last])}"
        grid = np.arange(self.size)
        return Chosen((grid >= first) & (grid < last), said, note if moved else None)

    def numbers(self, name: str) -> tuple[npt.NDArray[np.float64], str | None]:
        """The middle of each bin."""
        edges = self.edges
        note = f"{name} taken at the middle of its bins, at most {plain(self.width / 2)} off each"
        return (edges[:-1] + edges[1:]) / 2, note

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
class Ordinal(OnLine):
    """Named levels in order, one step apart: never, rarely, often, always."""

    levels: Sequence[str] = field(kw_only=False)

    kind: ClassVar[str] = "ordinal"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "levels", _names(self.levels, "levels"))
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
                raise QueryError(f"a range of {name} is a pair (low, high), not {shown(words)}")
            ends = [None if end is None else place_of(end, self.levels, name) for end in words]
            inside = between(np.arange(self.size), ends[0], ends[1])
            nonempty(inside, words, name, f"from {self.levels[0]} to {self.levels[-1]}")
            return Chosen(inside, range_words(words[0], words[1]))
        return choose_names(words, self.levels, name)

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
        object.__setattr__(self, "categories", _names(self.categories, "categories"))
        self._check_step(self.metric.step)

    @property
    def size(self) -> int:
        """The categories."""
        return len(self.categories)

    @property
    def metric(self) -> Metric:
        """Epsilon between any two."""
        return Uniform(as_written(self.epsilon))

    def positions(self, values: pa.Array, name: str, *, clip: bool = False) -> Positions:
        """The place of each category; there is nothing to clip."""
        return places_of(values, self.categories, name)

    def choose(self, words: object, name: str) -> Chosen:
        """A category or a list of them."""
        if isinstance(words, tuple):
            raise QueryError(f"{name} has no order, so no range; give a list of categories")
        return choose_names(words, self.categories, name)

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
    if not isinstance(kind, str) or kind not in KINDS:
        raise SurveyError(f"attribute {name} has kind {kind!r}; choose {', '.join(KINDS)}")
    cls = KINDS[kind]
    known = {f.name for f in fields(cls)}
    for key in rest:
        if key not in known:
            raise SurveyError(
                f"attribute {name} has an unknown entry {key!r}; known: {listed(sorted(known))}"
                f"{guess(key, known)}"
            )
    required = [f.name for f in fields(cls) if f.default is MISSING]
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
        raise SurveyError(f"{what} must be a positive finite number, not {shown(value)}")
    return float(value)


def _auto_bins(entries: Mapping[str, Any]) -> AutoBins:
    try:
        return AutoBins(**entries)
    except TypeError:
        raise SurveyError(f"bins may say n, smoothness and prior, not {list(entries)}") from None


def is_whole(value: Any) -> bool:  # noqa: ANN401
    """Whether a value is a whole number, be it an int or a float."""
    return is_number(value) and math.isfinite(value) and value == int(value)


def check_ends(low: float, high: float) -> None:
    """Refuse a domain without two values."""
    if low >= high:
        same = "holds one value only" if low == high else "is empty"
        raise SurveyError(
            f"the domain {plain(low)} to {plain(high)} {same}; low must be below high"
        )


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
