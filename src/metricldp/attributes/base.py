"""Attributes: one private value of a person, its grid of positions, and the metric on it.

An attribute is pure data. It turns values into positions 0 .. size - 1 and the words of a question
("18 to 29", "north") into a function of the position; it never sees a coin.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from metricldp.attributes.selection import (
    Chosen,
)
from metricldp.basics.errors import QueryError, SurveyError, ValueRefused
from metricldp.basics.exact import as_written
from metricldp.basics.numbers import is_number
from metricldp.basics.text import guess, listed, plain, shown
from metricldp.design.plans import (
    GIVEN,
    MOST_POSITIONS,
    Rows,
    checked_epsilons,
    checked_reach,
    checked_strategy,
    checked_workload,
)
from metricldp.design.workloads import Workload
from metricldp.metrics import Line, Metric, MetricInWords, Value
from metricldp.metrics import from_dict as metric_from_dict

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
    ordered: ClassVar[bool] = False
    """Whether its values have an order, so that a question may be about a range of them."""
    named: ClassVar[bool] = False
    """Whether its values are names and not numbers."""

    def __new__(cls, *_: Any, **said: Any) -> Self:
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
        here, there = (self.position(value, f"the {self.kind} value") for value in (x, other))
        return (metric or self.distances).distance(here, there)

    @property
    def is_public(self) -> bool:
        """Whether the value is sent as it is: public weights only."""
        return False

    @property
    def rounded_at_random(self) -> bool:
        """Whether positions are in units of 2^-32 and rounded at random on the device."""
        return False

    @abstractmethod
    def position(self, value: object, name: str = "", *, clip: bool = False) -> int:
        """The position of one Python or numpy scalar; `name` is for the message of a refusal."""

    @abstractmethod
    def positions(
        self, numbers: npt.NDArray[Any], name: str = "", *, clip: bool = False
    ) -> Positions:
        """Numbers to positions, or the codes of names; the same as `position` of each."""

    def _refuse_first(
        self, wrong: npt.NDArray[np.bool_], numbers: npt.NDArray[Any], name: str, clip: bool
    ) -> None:
        """Refuse the first wrong number in the words that it is refused with alone."""
        if wrong.any():
            row = int(np.argmax(wrong))
            try:
                self.position(numbers[row], name, clip=clip)
            except ValueRefused as refusal:
                raise refusal.at(row) from None

    @abstractmethod
    def choose(self, words: object, name: str) -> Chosen:
        """The positions that one entry of a where-clause means."""

    @abstractmethod
    def name_of(self, position: int) -> str:
        """A position in the data's own words."""

    def values_at(self, position: int) -> tuple[Value | float, Value | float]:
        """The lowest and the highest value at a position: of a bin its edges."""
        return self.name_of(position), self.name_of(position)

    def describe(self) -> str:
        """What its values are, in words."""
        return f"{self.size} {self.kind} values"

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

    ordered: ClassVar[bool] = True

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
    return (
        f"; it blurs several attributes together: build metricldp.lab.peers.{joint} from the survey"
    )


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


def check_ends(low: float, high: float) -> None:
    """Refuse a domain without two values."""
    if low >= high:
        same = "holds one value only" if low == high else "is empty"
        raise SurveyError(
            f"the domain {plain(low)} to {plain(high)} {same}; low must be below high"
        )
