"""Attributes: one private value of a person, its grid of positions, and the metric on it.

An attribute is pure data. It turns values into positions 0 .. size - 1 and the words of a question
("18 to 29", "north") into a function of the position; it never sees a coin.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from metricldp.attributes.selection import Chosen, Span
from metricldp.basics.checks import positive
from metricldp.basics.errors import InvalidSpecError, InvalidValueError, QueryError, at_row
from metricldp.basics.numbers import is_number
from metricldp.basics.text import distinct, guess, listed, plain, shown
from metricldp.metrics import Metric, MetricInWords, Value, capped
from metricldp.metrics import from_dict as metric_from_dict
from metricldp.metrics.grid import Axis
from metricldp_core.exact import decimal_of
from metricldp_core.values import Domain

Positions = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]
SMALLEST_STEP = Fraction(1, 1 << 40)
"""Below this epsilon per step 64-bit words could not tell two positions apart any more."""
LARGEST_STEP = 1 << 10
"""Above this epsilon per step a mechanism adds almost no noise."""
LARGEST_DISTANCE = 1 << 20
"""Two values this far apart are told apart for certain."""
LARGEST_END = 1 << 53
"""Up to here integers and floats are the same numbers."""
_LAST = ("cyclic", "epsilon", "per", "within", "max_epsilon", "optional", "metric")
"""The guarantee comes last in a file."""
LARGEST_SIZE = 1 << 20
"""More positions than this is a survey to think over again."""


class Circle(NamedTuple):
    """The positions of a cyclic attribute as angles from its low end, in radians."""

    low: float
    period: float
    angles: npt.NDArray[np.float64]
    half: float = 0.0
    """How far a value may be from the angle of its position: half of a bin."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Attribute(ABC):
    """What all attributes share: values, and how far they may be told apart."""

    epsilon: float
    max_epsilon: float | None = None
    """Upper limit of the privacy distance of any two values."""
    mechanism: Any = "auto"
    """The mechanism: a name, a table or a Mechanism."""
    workload: Any = None
    """The queries that the mechanism is designed for; it becomes a part of `mechanism`."""
    optional: float | None = None
    """Whether a person may leave it out: the epsilon of that, or True for the attribute's own."""

    kind: ClassVar[str]
    ordered: ClassVar[bool] = False
    """Whether its values have an order, so that a question may be about a range of them."""
    named: ClassVar[bool] = False
    """Whether its values are names and not numbers."""
    only_mechanism: ClassVar[str | None] = None
    """The one that serves it, where no other does."""
    in_bins: ClassVar[bool] = False
    """Whether a position holds many values."""
    is_weight: ClassVar[bool] = False
    """Whether it is no condition, but what people's counts are multiplied with."""
    rounded_at_random: ClassVar[bool] = False
    """Whether positions are in units of 2^-32 and rounded at random on the device."""
    asks_whether: ClassVar[bool] = False
    """Whether it is about there being a value, and not about the value."""
    undecided: ClassVar[bool] = False
    """Whether something of its grid is left to be chosen when a survey is made."""

    def __new__(cls, *_: Any, **said: Any) -> Self:
        """Unknown arguments raise an error of this package."""
        known = [f.name for f in fields(cls)]
        for key in sorted(said.keys() - set(known)):
            if key == "metric":
                why = "takes no metric; integer, ordinal, categorical and continuous ones do"
            else:
                why = f"has no {shown(key)}; it has {listed(known)}{guess(key, known)}"
            article = "an" if cls.kind[0] in "aeiou" else "a"
            raise InvalidSpecError(f"{article} {cls.kind} attribute {why}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        if not self.is_public:
            object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        if isinstance(self.optional, bool):
            object.__setattr__(self, "optional", self.epsilon if self.optional else None)
        if self.optional is not None and self.is_public:
            raise InvalidSpecError("a public weight is sent in the clear and cannot be optional")
        if self.optional is not None:
            epsilon = self.optional if is_number(self.optional) else 0
            if not epsilon > 0:
                raise InvalidSpecError(
                    "optional is True, or the epsilon of whether there is a response, "
                    f"not {shown(self.optional)}"
                )
            object.__setattr__(self, "optional", positive("optional", self.optional))
        if self.max_epsilon is not None:
            object.__setattr__(self, "max_epsilon", positive("max_epsilon", self.max_epsilon))
        if self.workload is not None:
            object.__setattr__(self, "mechanism", self._designed_for(self.workload))
            object.__setattr__(self, "workload", None)

    def _designed_for(self, workload: Any) -> Any:
        """The mechanism together with the workload that it is designed for."""
        stated = self.mechanism
        if isinstance(stated, str):
            return {"name": stated, "workload": workload}
        if isinstance(stated, Mapping) and "workload" not in stated:
            return {**stated, "workload": workload}
        takes_one = is_dataclass(stated) and "workload" in (f.name for f in fields(stated))
        if takes_one and stated.workload is None:
            return replace(stated, workload=workload)
        raise InvalidSpecError("the mechanism states its own workload or takes none; leave it out")

    @property
    @abstractmethod
    def size(self) -> int:
        """How many positions there are."""

    @property
    def unit(self) -> Fraction:
        """The epsilon of one unit of length."""
        return decimal_of(self.epsilon)

    @property
    @abstractmethod
    def usual(self) -> Metric:
        """The metric on positions that is used by default."""

    @cached_property
    def distances(self) -> Metric:
        return self._capped(self.usual)

    def _capped(self, metric: Metric) -> Metric:
        if self.max_epsilon is None:
            return metric
        max_epsilon, least = decimal_of(self.max_epsilon), metric.smallest(self.size)
        if max_epsilon < least:
            told, smallest = distinct(max_epsilon, least)
            raise InvalidSpecError(
                f"max_epsilon {told} is below the smallest distance, {smallest} "
                f"{self._where_nearest(metric)}; use a smaller epsilon, or a larger max_epsilon"
            )
        return capped(metric, max_epsilon, self.size)

    def distance(self, x: object, other: object, metric: Metric | None = None) -> Fraction:
        """The privacy distance of two values, or their distance in another metric on positions."""
        here, there = (self._stated(value) for value in (x, other))
        return (metric or self.distances).distance(here, there)

    def _stated(self, value: object) -> int:
        """The position of a value that no respondent gave, so an error shows it."""
        try:
            return self.position_if_any(value)
        except InvalidValueError as wrong:
            raise InvalidValueError(
                f"({shown(value)}) {wrong.why}",
                attribute=f"the {self.kind} value",
                reason=wrong.reason,
            ) from None

    @property
    def is_public(self) -> bool:
        """Whether the value is sent as it is: public weights only."""
        return self.public_ends is not None

    @property
    def public_ends(self) -> tuple[float, float] | None:
        """The range of a public value; None for randomized attributes."""
        return None

    @property
    def is_cyclic(self) -> bool:
        """Whether its last value is next to its first, so that a range may go over the end."""
        return self.ordered and self.distances.is_ring(self.size)

    @property
    def axis(self) -> Axis | None:
        """It as one side of a plane, where its values are evenly spaced along a line."""
        return None

    @property
    def metric_kind(self) -> str:
        """The kind of its metric, as a file would name it."""
        return self.distances.kind

    @property
    def grid_step(self) -> float:
        """How far neighbouring positions are apart, in the data's units."""
        return 1.0

    @abstractmethod
    def domain_of(self, name: str) -> Domain:
        """The domain as the core has it, which converts single values."""

    @cached_property
    def _domains(self) -> dict[str, Domain]:
        return {}

    def _core_domain(self, name: str) -> Domain:
        if name not in self._domains:
            self._domains[name] = self.domain_of(name)
        return self._domains[name]

    def position(self, value: object, name: str = "", *, clip: bool = False) -> int:
        """The position of one Python or numpy scalar; `name` is for error messages."""
        return self._core_domain(name).position_of(value, clip)

    def position_if_any(self, value: object, name: str = "", *, clip: bool = False) -> int:
        """The same; of an optional attribute that was left out the middle, by the same steps."""
        return self._core_domain(name).position(value, clip=clip)

    @property
    def _close(self) -> dict[str, Any]:
        """Which values are close, as the core states it."""
        return {}

    @cached_property
    def middle(self) -> object:
        """The value that those count with who did not answer."""
        return self.values_at(self.size // 2)[0]

    def source(self, name: str) -> str:
        """Which of a person's values the attribute of this name is about."""
        return name

    @abstractmethod
    def positions(self, numbers: Numbers, name: str = "", *, clip: bool = False) -> Positions:
        """Numbers to positions, or the codes of names; the same as `position` of each."""

    def _refuse_first(
        self, wrong: npt.NDArray[np.bool_], numbers: Numbers, name: str, clip: bool
    ) -> None:
        """Raise the error of the first wrong number, as for a single value."""
        if wrong.any():
            row = int(np.argmax(wrong))
            try:
                self.position(numbers[row], name, clip=clip)
            except InvalidValueError as refusal:
                raise at_row(refusal, row) from None

    @abstractmethod
    def choose(self, words: object, name: str) -> Chosen:
        """The positions that one entry of a where-clause means."""

    def bars(self, width: object, name: str) -> Iterator[Chosen]:
        """The domain cut into bars, `width` of its own units each; one position each for None."""
        cuts: Sequence[int] = range(self.size + 1)
        note = None
        if width is not None:
            cuts, note = self._cuts(self._checked_width(width, name), name)
        for first, end in pairwise(cuts):
            yield Chosen(Span(first, end, self.size), self.label(first, end - 1), note)

    def edges_of(self, bars: Iterable[Chosen]) -> list[float] | None:
        """Where bars of numbers meet: half way between the last value of one and the first of next.

        Names have no such places.
        """
        if self.named or not is_number(self.values_at(0)[0]):
            return None
        spans = [bar.first_and_last for bar in bars]
        lows = [float(self.values_at(first)[0]) for first, _ in spans]
        highs = [float(self.values_at(last)[1]) for _, last in spans]
        gap = max(0.0, lows[1] - highs[0]) if len(spans) > 1 else float(lows == highs)
        meet = [(high + low) / 2 for high, low in zip(highs[:-1], lows[1:], strict=True)]
        return [lows[0] - gap / 2, *meet, highs[-1] + gap / 2]

    @property
    def narrowest_bar(self) -> float:
        return self.grid_step

    def _checked_width(self, width: object, name: str) -> float:
        if not self.ordered:
            raise QueryError(f"{name} has no order, so its bars have no width; leave it out")
        if not is_number(width) or not width > 0:
            raise QueryError(f"a bar of {name} has a positive width, not {shown(width)}")
        if width < self.narrowest_bar * (1 - 1e-9):
            raise QueryError(
                f"a bar of {name} cannot be narrower than {plain(self.narrowest_bar)}, "
                f"and {shown(width)} is"
            )
        return float(width)

    def _cuts(self, width: float, name: str) -> tuple[list[int], str | None]:
        """Where bars begin and end, and a note where they are not as wide as was asked for."""
        step = self.grid_step
        together = min(round(min(width / step, LARGEST_SIZE)), self.size)
        cuts = [*range(0, self.size, together), self.size]
        if together == self.size or math.isclose(together * step, width):
            return cuts, None
        wide = f"bars of {plain(together * step)}, not {plain(width)}"
        return cuts, f"{wide}: {name} has steps of {plain(step)}"

    def beyond(self, end: float, *, above: bool) -> float:
        """Where a range begins that is above a number, or where one ends that is below it."""
        return end

    @abstractmethod
    def name_of(self, position: int) -> str:
        """A position in the data's own words."""

    def values_at(self, position: int) -> tuple[Value | float, Value | float]:
        """The lowest and the highest value at a position: of a bin its edges."""
        return self.name_of(position), self.name_of(position)

    def describe(self) -> str:
        return f"{self.size} {self.kind} values"

    def numbers(self, name: str) -> tuple[npt.NDArray[np.float64], str | None]:
        """The number that each position stands for, and a note where it stands for several."""
        raise QueryError(
            f"{name} is {self.kind}: its values are names and have no sum or mean; use histogram"
        )

    def circle(self, name: str) -> Circle:
        """Its positions as angles, if it is cyclic and its values are numbers."""
        raise QueryError(f"{name} is not a cyclic attribute of numbers; it has no circular mean")

    def extremes(
        self, inside: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
        """The least and the most that people at each position add to a sum, where that is open.

        They count by how far the position is `inside` of a range.
        """
        return None

    def label(self, first: int, last: int | None = None) -> str:
        """A position, or the positions from first to last, in the data's own words."""
        if last is None or first == last:
            return self.name_of(first)
        return f"{self.name_of(first)} to {self.name_of(last)}"

    def until(self, position: int) -> str:
        """The last value at a position, in the data's own words."""
        return self.name_of(position)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a survey file, without the mechanism."""
        own = [f.name for f in fields(self) if f.name not in (*_LAST, "mechanism", "workload")]
        data: dict[str, Any] = {"kind": self.kind}
        for name in (*own, *(name for name in _LAST if hasattr(self, name))):
            value = getattr(self, name)
            if value is not None:
                data[name] = list(value) if isinstance(value, tuple) else value
        return data

    @property
    def domain(self) -> dict[str, Any]:
        """What it is about, without how it is protected."""
        return {key: value for key, value in self.to_dict().items() if key not in _LAST}

    def __repr__(self) -> str:
        said = []
        for f in sorted(fields(self), key=lambda f: f.kw_only is True):
            value = getattr(self, f.name)
            if not f.kw_only:
                said.append(shown(list(value) if isinstance(value, tuple) else value))
            elif value is not f.default and value != f.default:
                said.append(f"{f.name}={shown(value)}")
        return f"{type(self).__name__}({', '.join(said)})"

    def _check_metric(self) -> None:
        if self.size > LARGEST_SIZE:
            size = f"{self.size:,}" if is_number(self.size) else shown(self.size)
            raise InvalidSpecError(
                f"{size} positions are too many for one attribute; use at most {LARGEST_SIZE:,}"
            )
        self._settle_metric()
        step = self.distances.smallest(self.size)
        if step < SMALLEST_STEP:
            raise InvalidSpecError(
                f"epsilon is {float(step):.3g} {self._where_nearest(self.distances)}, too small "
                "for 64-bit words; use a coarser grid or a larger epsilon"
            )
        if step > LARGEST_STEP:
            raise InvalidSpecError(
                f"epsilon is more than {LARGEST_STEP:,} {self._where_nearest(self.distances)}, "
                "which adds almost no noise; use a smaller epsilon"
            )

    def _check_stated(self, low: float, high: float) -> None:  # noqa: B027 - numbers do
        """Reject a guarantee that does not say for which distance it holds."""

    def _settle_metric(self) -> None:  # noqa: B027 - most kinds have nothing to settle
        """Before the metric is looked at."""

    def _check_farthest(self) -> None:
        x, other = self.distances.farthest(self.size)
        if self.distances.distance(x, other) > LARGEST_DISTANCE:
            raise InvalidSpecError(
                f"epsilon is more than {LARGEST_DISTANCE:,} between {self.name_of(x)} and "
                f"{self.name_of(other)}, which adds almost no noise; use smaller lengths"
            )

    def _where_nearest(self, metric: Metric) -> str:
        return "between neighbouring values"


@dataclass(frozen=True, kw_only=True, repr=False)
class Discrete(Attribute):
    """Attributes whose positions are values with names of their own, so that any metric fits.

    `metric` states it in those names; lengths are in units of epsilon (per `per`, on a line).
    """

    metric: MetricInWords | None = None

    @property
    @abstractmethod
    def values(self) -> Sequence[Value]:
        """The value of each position."""

    @cached_property
    def distances(self) -> Metric:
        stated = self.usual if self.metric is None else self.metric.on(self.values, self.unit)
        return self._capped(stated)

    def to_dict(self) -> dict[str, Any]:
        data = super().to_dict()
        return data if self.metric is None else {**data, "metric": self.metric.to_dict()}

    def _settle_metric(self) -> None:
        if self.metric is None:
            return
        said = metric_from_dict(self.metric) if isinstance(self.metric, Mapping) else self.metric
        if not isinstance(said, MetricInWords):
            raise InvalidSpecError(
                "the metric of an attribute is a SensitiveSet, Graph, Tree, DistanceMatrix or "
                "Relative, in "
                f'a file a table such as {{kind = "graph", edges = [...]}}, not {shown(said)}'
            )
        object.__setattr__(self, "metric", said.settled(self.values))
        self._check_farthest()

    @property
    def metric_kind(self) -> str:
        return super().metric_kind if self.metric is None else self.metric.kind

    def _where_nearest(self, metric: Metric) -> str:
        if self.metric is None:
            return super()._where_nearest(metric)
        x, other = metric.nearest(self.size)
        return f"between {self.name_of(x)} and {self.name_of(other)}, the nearest two"
