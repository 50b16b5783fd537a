"""What a mechanism is: data that a user states, and a function that designs its distribution.

A survey stores the integers of the designed distribution, so nothing else of a design is kept.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self, cast

from metricldp.basics.checks import as_lists, refuse_unknown
from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.progress import Progress, silent
from metricldp.mechanisms.channel import LARGEST_EPSILON
from metricldp.mechanisms.effort import DEFAULT, Effort
from metricldp.mechanisms.stated import GIVEN, checked_prior, workload_name
from metricldp.metrics import Line, Metric, Uniform
from metricldp_core.distributions import Distribution

PER_STEP, ANY_TWO = "epsilon per step", "epsilon between any two"
"""What a mechanism guarantees: the steepest line below the metric, or its smallest distance."""
Label = Callable[[int], str]
"""A position in the data's own words, for messages."""


@dataclass(frozen=True)
class Problem:
    """Positions to randomize: the flattened cells of a grid; one attribute is a group of one."""

    sizes: tuple[int, ...]
    metric: Metric
    """On positions; of a group on its cells, the last attribute fastest."""
    ordered: tuple[bool, ...]
    """Which attributes have an order."""
    workload: Any = None
    prior: Any = None
    """How respondents are distributed over positions; uniformly by default."""
    epsilon: Fraction | None = None
    """What the attribute states; by default its smallest distance."""
    label: Label = field(default=str, compare=False)

    @classmethod
    def single(cls, size: int, metric: Metric, *, ordered: bool = False, **more: Any) -> Problem:
        """The problem of one attribute."""
        return cls((size,), metric, (ordered,), **more)

    @cached_property
    def size(self) -> int:
        """The number of positions."""
        return math.prod(self.sizes)

    @property
    def is_group(self) -> bool:
        return len(self.sizes) > 1

    @property
    def any_ordered(self) -> bool:
        return any(self.ordered)

    @property
    def unit_epsilon(self) -> Fraction:
        """The epsilon that is stated, in which options of a mechanism are stated as well."""
        return self.epsilon or self.metric.smallest(self.size)


class Mechanism(ABC):
    """How values are randomized, as a user states it: a name and options.

    A subclass implements `distribution`. Its `options` are fields that spec files may contain.
    """

    name: str
    title: str = ""
    """What people call it; the name if empty."""
    source: str = "this package"
    guarantee: str = PER_STEP
    kind: str = ""
    """The kind of its distributions in survey files; any if empty."""
    needs_order: bool = False
    workload: Any = None
    """The queries that it is designed for, if any."""
    max_computed: int = 1 << 12
    max_simulated: int = 1 << 12
    """Positions up to which a comparison computes and simulates it: beyond, it is too slow.

    What has 0 takes part only in comparisons of surveys that have it."""
    options: ClassVar[tuple[str, ...]] = ()
    search_options: ClassVar[tuple[str, ...]] = ()
    """Options that only a design needs; survey files leave them out."""
    groups: ClassVar[bool] = False
    """Whether it can randomize several attributes together, by a metric on their cells."""
    joint: ClassVar[bool] = False
    """Whether it randomizes only several attributes together."""

    def serves(self, ordered: bool) -> bool:
        """Whether it can randomize values with an order, or without one."""
        return ordered or not self.needs_order

    def design(
        self, problem: Problem, effort: Effort = DEFAULT, progress: Progress = silent
    ) -> Distribution:
        """Return the output distribution for a problem.

        What the mechanism states about workload and prior takes precedence over the problem.
        `progress` is called with the fraction of a search that is done.
        """
        problem = self._stated(problem)
        if isinstance(problem.workload, str) and problem.workload == GIVEN:
            raise InvalidSpecError(
                f"{self.name} was designed for a workload that the survey does not contain; state "
                "the mechanism again, with its workload"
            )
        return self.distribution(problem, effort, progress)

    @abstractmethod
    def distribution(self, problem: Problem, effort: Effort, progress: Progress) -> Distribution:
        """Return the output distribution for a problem that states workload and prior."""

    def resolved(self, problem: Problem, distribution: Distribution) -> Self:
        """The mechanism as a survey file states it: with defaults, without `search_options`."""
        problem, values = self._stated(problem), dict.fromkeys(self.search_options)
        if "workload" in self.options:
            values["workload"] = workload_name(problem)
        if "prior" in self.options:
            values["prior"] = checked_prior(problem.prior, problem.size)
        return cast(Self, replace(cast(Any, self), **values)) if values else self

    def _stated(self, problem: Problem) -> Problem:
        prior = getattr(self, "prior", None)
        workload = problem.workload if self.workload is None else self.workload
        return replace(problem, workload=workload, prior=problem.prior if prior is None else prior)

    def proved_metric(self, metric: Metric, distribution: Distribution) -> Metric:
        """What its distribution guarantees: the metric itself, or smaller distances if known."""
        return metric

    def one_report(self, problem: Problem, distribution: Distribution) -> Metric | None:
        """What one report guarantees, if that is more than all reports of a value together."""
        return None

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """The mechanism with these options, which a user states."""
        refuse_unknown(f"mechanism {self.name!r}", options, self.options)
        return cast(Self, replace(cast(Any, self), **options)) if options else self

    def to_dict(self) -> Any:
        """Plain data for a file: the name, or a table with options."""
        options = {key: as_lists(getattr(self, key)) for key in self.options}
        stated = {key: value for key, value in options.items() if value is not None}
        return {"name": self.name, **stated} if stated else self.name

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class EpsilonMechanism(Mechanism):
    """A mechanism without options, of which the size and one epsilon determine the distribution."""

    name: str
    make: Callable[[int, Fraction], Distribution]
    """The distribution for a number of positions and an epsilon: per step, or between any two."""
    guarantee: str = PER_STEP
    title: str = ""
    source: str = "this package"
    kind: str = ""
    needs_order: bool = False
    max_computed: int = 1 << 12
    max_simulated: int = 1 << 12

    def distribution(self, problem: Problem, effort: Effort, progress: Progress) -> Distribution:
        smallest = self.guarantee == ANY_TWO
        epsilon = problem.metric.smallest if smallest else problem.metric.per_step
        return self.make(problem.size, min(epsilon(problem.size), LARGEST_EPSILON))

    def proved_metric(self, metric: Metric, distribution: Distribution) -> Metric:
        if self.guarantee == ANY_TWO:
            return Uniform(metric.smallest(distribution.size))
        return Line(metric.per_step(distribution.size))

    def __repr__(self) -> str:
        return repr(self.name)


@dataclass(frozen=True)
class UninstalledMechanism(Mechanism):
    """A mechanism of a package that is not installed: the survey file has its integers."""

    name: str

    def distribution(self, problem: Problem, effort: Effort, progress: Progress) -> Distribution:
        raise InvalidSpecError(f"mechanism {self.name!r} is not installed, so it designs no survey")
