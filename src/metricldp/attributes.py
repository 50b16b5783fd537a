"""Attributes: one private value of a person, its grid of positions, and the metric on it.

An attribute is pure data. It turns values into positions 0 .. size - 1 and the words of a question
("18 to 29", "north") into a function of the position; it never sees a coin.
"""

from __future__ import annotations

import math
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from metricldp.errors import QueryError, SurveyError, ValueRefused
from metricldp.exact import as_written
from metricldp.messages import guess, listed, shown
from metricldp.metrics import Line, Metric, MetricInWords, Uniform, Value
from metricldp.metrics import from_dict as metric_from_dict
from metricldp.plans import (
    GIVEN,
    MOST_POSITIONS,
    Rows,
    checked_epsilons,
    checked_reach,
    checked_strategy,
    checked_workload,
)
from metricldp.values import is_number, numbers_of, places_of, plain, refuse, refuse_outside
from metricldp.wording import (
    Chosen,
    Span,
    between,
    choose_names,
    members_of,
    nonempty,
    place_of,
    range_ends,
    range_words,
)
from metricldp.workloads import Workload

Positions = npt.NDArray[np.int64]
SMALLEST_STEP = Fraction(1, 1 << 40)
"""Below this epsilon per step 64-bit coins could not tell two positions apart any more."""
LARGEST_STEP = 1 << 10
"""Above this epsilon per step nothing is blurred, and e to that power is only a waste of time."""
LARGEST_DISTANCE = 1 << 20
"""Two values this far apart are told apart for certain."""
LARGEST_END = 1 << 53
"""Up to here integers and floats are the same numbers."""
ORACLES: tuple[str, ...] = (
    "unary-symmetric",
    "unary-optimised",
    "histogram-sum",
    "histogram-threshold",
    "local-hashing",
    "hadamard",
)
"""Peers that tell the frequency of each value."""
RANGE_PEERS: tuple[str, ...] = (
    "hierarchy-2",
    "hierarchy-4",
    "hierarchy-2-unary",
    "haar",
    "prefix",
)
"""Peers that need an order of values; hierarchies have any other branching as well."""
_HIERARCHY = re.compile(r"hierarchy-([1-9][0-9]{0,8})(?:-(plain|unary))?", re.ASCII)
_JOINT = {"hio": "Hio", "hio-hashing": "HashedHio", "planar-laplace": "PlanarLaplace"}
"""Peers that are no mechanism of one attribute."""
LARGEST_SIZE = 1 << 20
"""More positions than this is a survey to think over again."""


@dataclass(frozen=True, kw_only=True)
class Attribute(ABC):
    """What all attributes share: an epsilon, and the mechanism that blurs."""

    epsilon: float
    mechanism: str = "auto"

    kind: ClassVar[str]

    def __new__(cls, *_: Any, **said: Any) -> Self:  # noqa: ANN401
        """A word that this kind does not know is refused like any other mistake."""
        unknown = said.keys() - {f.name for f in fields(cls)}
        if unknown:
            raise SurveyError(_unknown(cls, min(unknown)))
        return super().__new__(cls)

    mechanisms: ClassVar[tuple[str, ...]] = (
        "geometric",
        "threshold",
        "threshold-paper",
        "threshold-dummy",
        "response",
        "matrix",
        *ORACLES,
        *RANGE_PEERS,
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        if self.mechanism != "auto" and not self._served():
            raise SurveyError(
                f"mechanism {self.mechanism!r} does not serve {self.kind} attributes; "
                f"choose auto, {', '.join(_choices(self.mechanisms))}"
                f"{_meant(self.mechanism, ('auto', *self.mechanisms))}"
            )

    def _served(self) -> bool:
        """Whether the mechanism is one of those listed, or a hierarchy where these are."""
        name = self.mechanism
        if "haar" in self.mechanisms and isinstance(name, str) and name.startswith("hierarchy"):
            branching_of(name)
            return True
        return name in self.mechanisms

    @property
    @abstractmethod
    def size(self) -> int:
        """How many positions there are."""

    @property
    def unit(self) -> Fraction:
        """The epsilon of one unit of length."""
        return as_written(self.epsilon)

    @property
    @abstractmethod
    def usual(self) -> Metric:
        """The metric on positions where nothing else is said."""

    @cached_property
    def distances(self) -> Metric:
        """E on positions."""
        return self.usual

    def distance(self, x: object, other: object, metric: Metric | None = None) -> Fraction:
        """E of two values in the data's own words, or what another metric on positions says."""
        try:
            here, there = (int(self.positions(_column(v), "")[0]) for v in (x, other))
        except ValueRefused as wrong:
            raise ValueRefused(wrong.why, attribute=f"the {self.kind} value") from None
        return (metric or self.distances).distance(here, there)

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
    def place(self, value: object) -> int | None:
        """The position of one plain Python value; None where only `positions` can tell."""

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

    def _check_size(self) -> None:
        if self.size > LARGEST_SIZE:
            raise SurveyError(
                f"{self.size:,} positions are too many for one attribute; "
                f"use at most {LARGEST_SIZE:,}"
            )

    def _check_metric(self) -> None:
        self._check_size()
        step = self.distances.smallest(self.size)
        if step < SMALLEST_STEP:
            raise SurveyError(
                f"epsilon is {float(step):.3g} {self._where_nearest}, too small to be kept with "
                "64-bit coins; use a coarser grid or a larger epsilon"
            )
        if step > LARGEST_STEP:
            raise SurveyError(
                f"epsilon is more than {LARGEST_STEP:,} {self._where_nearest}, which blurs "
                "nothing; use a smaller epsilon"
            )

    @property
    def _where_nearest(self) -> str:
        return "per step of the grid"


@dataclass(frozen=True, kw_only=True)
class Planned(Attribute):
    """Attributes that the matrix mechanism serves: what it is to be good for, and its plan.

    `workload` and `strategy` are wishes until the survey is made; then the epsilon of each row of
    the strategy is settled, and the file holds all that a device needs.
    """

    workload: str | Workload | None = None
    strategy: str | Rows | None = None
    epsilons: float | tuple[float, ...] | None = None
    reach: int | None = None

    usual_workload: ClassVar[str] = "ranges"

    def _check_metric(self) -> None:
        super()._check_metric()
        stated = [key for key in PLAN if getattr(self, key) is not None]
        if self.mechanism != "matrix":
            if stated:
                raise SurveyError(
                    f"{stated[0]} belongs to mechanism 'matrix', not {self.mechanism!r}; "
                    "leave it out, or say mechanism='matrix'"
                )
            return
        if self.size > MOST_POSITIONS:
            raise SurveyError(
                f"{self.size:,} positions are too many for the matrix mechanism; "
                f"use at most {MOST_POSITIONS:,}"
            )
        said = {key: getattr(self, key) for key in stated}
        workload = checked_workload(said.get("workload", self.usual_workload), self.size)
        object.__setattr__(self, "workload", workload)
        strategy = checked_strategy(said.get("strategy", "auto"), self.size)
        object.__setattr__(self, "strategy", strategy)
        if self.epsilons is not None:
            object.__setattr__(self, "epsilons", checked_epsilons(self.epsilons))
        if self.reach is not None:
            object.__setattr__(self, "reach", checked_reach(self.reach))

    def to_dict(self) -> dict[str, Any]:
        """The plan comes last, and only where there is one."""
        data = super().to_dict()
        plan = {key: data.pop(key) for key in PLAN}
        if isinstance(plan["workload"], Workload):
            plan["workload"] = GIVEN
        if isinstance(self.strategy, tuple):
            plan["strategy"] = [list(row) for row in self.strategy]
        return data | {key: value for key, value in plan.items() if value is not None}


PLAN = ("workload", "strategy", "epsilons", "reach")
"""The keys of a matrix mechanism's plan."""


@dataclass(frozen=True, kw_only=True)
class Discrete(Planned):
    """Attributes whose positions are values with names of their own, so that any metric fits.

    `metric` states it in those names; lengths are in units of epsilon (per `per`, on a line).
    `bits` is what the bit of each value tells by being 1 and by being 0, of unary encoding only:
    settled with the survey, and saved with it.
    """

    metric: MetricInWords | None = None
    bits: Sequence[tuple[float, float]] | None = None

    mechanisms: ClassVar[tuple[str, ...]] = (*Attribute.mechanisms, "unary")

    @property
    @abstractmethod
    def values(self) -> Sequence[Value]:
        """The value of each position."""

    @cached_property
    def distances(self) -> Metric:
        """What `metric` states, or else the usual."""
        return self.usual if self.metric is None else self.metric.on(self.values, self.unit)

    def to_dict(self) -> dict[str, Any]:
        """Bits and metric come last, and only where there are any."""
        data = super().to_dict()
        del data["metric"], data["bits"]
        if self.bits is not None:
            data["bits"] = [list(pair) for pair in self.bits]
        return data if self.metric is None else {**data, "metric": self.metric.to_dict()}

    def _check_metric(self) -> None:
        self._check_size()
        if isinstance(self.metric, Mapping):
            object.__setattr__(self, "metric", metric_from_dict(self.metric))
        if self.metric is not None:
            if not isinstance(self.metric, MetricInWords):
                raise SurveyError(
                    "the metric of an attribute is a SensitiveSet, Graph, Tree or Table, in a file "
                    f'a table such as {{kind = "graph", edges = [...]}}, not {shown(self.metric)}'
                )
            object.__setattr__(self, "metric", self.metric.settled(self.values))
            self._check_farthest()
        super()._check_metric()
        if self.bits is not None:
            object.__setattr__(self, "bits", self._checked_bits(self.bits))

    def _checked_bits(self, bits: object) -> tuple[tuple[float, float], ...]:
        if self.mechanism != "unary":
            raise SurveyError(
                f"bits belong to mechanism 'unary', not {self.mechanism!r}; leave them out"
            )
        if not isinstance(bits, Sequence) or isinstance(bits, str) or len(bits) != self.size:
            raise SurveyError(
                f"bits must be a list of {self.size:,} pairs, one for each value, "
                f"not {shown(bits)}; leave them out, and they are found"
            )
        found = []
        for place, pair in enumerate(bits):
            if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
                raise SurveyError(
                    f"the bits of {self.name_of(place)} must be a pair, not {shown(pair)}"
                )
            yes, no = (positive(f"a number of the bits of {self.name_of(place)}", n) for n in pair)
            found.append((yes, no))
        return tuple(found)

    @property
    def _where_nearest(self) -> str:
        if self.metric is None:
            return super()._where_nearest
        x, other = self.distances.nearest(self.size)
        return f"between {self.name_of(x)} and {self.name_of(other)}, the nearest two"

    def _check_farthest(self) -> None:
        x, other = self.distances.farthest(self.size)
        if self.distances.distance(x, other) > LARGEST_DISTANCE:
            raise SurveyError(
                f"epsilon is more than {LARGEST_DISTANCE:,} between {self.name_of(x)} and "
                f"{self.name_of(other)}, which blurs nothing; use smaller lengths"
            )


@dataclass(frozen=True, kw_only=True)
class OnLine(Planned):
    """Attributes whose values have an order and a distance: epsilon for every `per` units."""

    per: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "per", positive("per", self.per))

    @property
    @abstractmethod
    def step(self) -> Fraction:
        """The distance of two neighbouring positions, in the unit of `per`."""

    @property
    def unit(self) -> Fraction:
        """Epsilon for every `per` units."""
        return as_written(self.epsilon) / as_written(self.per)

    @property
    def usual(self) -> Line:
        """Epsilon per unit, times the width of a step."""
        return Line(self.unit * self.step)


@dataclass(frozen=True)
class Integer(Discrete, OnLine):
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
        self._check_metric()

    @property
    def size(self) -> int:
        """Every whole number once."""
        return self.high - self.low + 1

    @property
    def values(self) -> Sequence[Value]:
        """The numbers."""
        return range(self.low, self.high + 1)

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

    def place(self, value: object) -> int | None:
        """An int, a float that is whole, or True and False where they may be."""
        if type(value) is float and value.is_integer():
            value = int(value)
        elif type(value) is bool and self._yes_or_no:
            return int(value)
        if type(value) is int and self.low <= value <= self.high:
            return value - self.low
        return None

    def choose(self, words: object, name: str) -> Chosen:
        """A number, a pair of ends, or a list of numbers."""
        if isinstance(words, tuple):
            low, high = range_ends(words, name)
            before, size = self.low, self.size
            first = 0 if low is None else math.ceil(min(max(low - before, 0), size))
            end = size if high is None else math.floor(min(max(high - before, -1), size - 1)) + 1
            if first >= end:
                nonempty(np.zeros(1, dtype=bool), words, name, self._domain)
            return Chosen(Span(first, end, size), range_words(low, high))
        grid = np.arange(self.low, self.high + 1)
        wanted = members_of(words, name)
        if self._yes_or_no:
            wanted = [int(value) if isinstance(value, bool) else value for value in wanted]
        for value in wanted:
            if not is_number(value) or value not in grid:
                text = ", in numbers and not in text" if isinstance(value, str) else ""
                raise QueryError(
                    f"{name} has no value {shown(value)}; it goes {self._domain}{text}"
                )
        return Chosen.of(np.isin(grid, wanted), ", ".join(str(value) for value in wanted))

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
class Ordinal(Discrete, OnLine):
    """Named levels in order, one step apart: never, rarely, often, always."""

    levels: Sequence[str] = field(kw_only=False)

    kind: ClassVar[str] = "ordinal"

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

    def positions(self, values: pa.Array, name: str, *, clip: bool = False) -> Positions:
        """The place of each level; there is nothing to clip."""
        return places_of(values, self.levels, name, clip=clip)

    def place(self, value: object) -> int | None:
        """A level."""
        return self._places.get(value) if type(value) is str else None

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.levels)}

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

    def name_of(self, position: int) -> str:
        """The level."""
        return self.levels[position]


@dataclass(frozen=True)
class Categorical(Discrete):
    """Named categories without an order; every two are equally far apart, unless `metric` says."""

    categories: Sequence[str] = field(kw_only=False)

    kind: ClassVar[str] = "categorical"
    mechanisms: ClassVar[tuple[str, ...]] = ("response", "unary", "matrix", *ORACLES)
    usual_workload: ClassVar[str] = "values"

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

    def positions(self, values: pa.Array, name: str, *, clip: bool = False) -> Positions:
        """The place of each category; there is nothing to clip."""
        return places_of(values, self.categories, name, clip=clip)

    def place(self, value: object) -> int | None:
        """A category."""
        return self._places.get(value) if type(value) is str else None

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.categories)}

    def choose(self, words: object, name: str) -> Chosen:
        """A category or a list of them."""
        if isinstance(words, tuple):
            raise QueryError(f"{name} has no order, so no range; give a list of categories")
        return choose_names(words, self.categories, name)

    def name_of(self, position: int) -> str:
        """The category."""
        return self.categories[position]


def plain_number(value: object, low: float, high: float) -> float | None:
    """A Python int or float from low to high, as a float; None for anything else."""
    if type(value) is float or (type(value) is int and -LARGEST_END <= value <= LARGEST_END):
        return float(value) if low <= value <= high else None
    return None


KINDS: dict[str, type[Attribute]] = {
    attribute.kind: attribute for attribute in (Integer, Ordinal, Categorical)
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
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            made = cls(**rest)
        except SurveyError as wrong:
            raise SurveyError(f"attribute {name}: {wrong}") from None
    for warning in told:
        warnings.warn(f"attribute {name}: {warning.message}", warning.category, stacklevel=2)
    return made


def _unknown(cls: type[Attribute], key: str) -> str:
    known = [f.name for f in fields(cls)]
    why = f"a {cls.kind} attribute has no {key!r}; it has {listed(known)}{guess(key, known)}"
    if key != "metric":
        return why
    return f"a {cls.kind} attribute takes no metric; integer, ordinal and categorical ones do"


# Checks of a description -------------------------------------------------------------------------


def positive(what: str, value: object) -> float:
    """A positive finite number, or a refusal."""
    if not is_number(value) or not math.isfinite(value) or value <= 0:
        raise SurveyError(f"{what} must be a positive finite number, not {shown(value)}")
    return float(value)


def branching_of(mechanism: str) -> tuple[int, str]:
    """The branching that the name of a hierarchy states, and "plain", "unary" or nothing."""
    found = _HIERARCHY.fullmatch(mechanism)
    if not found or int(found[1]) < 2:
        raise SurveyError(
            f"mechanism {shown(mechanism)} names no tree; write hierarchy-B, hierarchy-B-plain or "
            "hierarchy-B-unary with a whole number B of at least 2, such as hierarchy-4"
        )
    return int(found[1]), found[2] or ""


def _choices(mechanisms: Sequence[str]) -> list[str]:
    """The names to choose from, with one for hierarchies of any branching."""
    trees = [name for name in mechanisms if _HIERARCHY.fullmatch(name)]
    named = [name for name in mechanisms if name not in trees]
    return (
        [*named, "hierarchy-B, hierarchy-B-plain or hierarchy-B-unary (B = 2, 3, ...)"]
        if trees
        else named
    )


def _meant(mechanism: object, mechanisms: Sequence[str]) -> str:
    """The rest of a sentence about a mechanism that is none: where it is, or what was meant."""
    joint = _JOINT.get(str(mechanism).lower())
    if joint is None:
        return guess(mechanism, mechanisms)
    return f"; it blurs several attributes together: build metricldp.peers.{joint} from the survey"


def is_whole(value: Any) -> bool:  # noqa: ANN401
    """Whether a value is a whole number, be it an int or a float."""
    return is_number(value) and math.isfinite(value) and value == int(value)


def real_ends(low: object, high: object, kind: str) -> tuple[float, float]:
    """The ends of a domain of real numbers: finite, in order, not too wide for a float."""
    ends = []
    for end, value in (("low", low), ("high", high)):
        if not is_number(value) or not math.isfinite(value):
            raise SurveyError(f"{end} of a {kind} attribute must be finite, not {shown(value)}")
        ends.append(float(value))
    check_ends(ends[0], ends[1])
    if not math.isfinite(ends[1] - ends[0]):
        raise SurveyError(f"the domain {ends[0]} to {ends[1]} is too wide for a float")
    return ends[0], ends[1]


def _column(value: object) -> pa.Array:
    try:
        return pa.array([value])
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        raise ValueRefused(f"is {shown(value)}, which is no value at all") from None


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
