"""Mechanisms: a name in surveys, whatever has to be saved with it, and the channel that they make.

A mechanism stands beside an attribute and knows nothing of its values but how many there are, the
metric on them and whether they have an order. What it finds out when a survey is made it saves;
whoever loads the survey makes the channel from that and decides nothing again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self, cast

from metricldp.basics.checks import as_lists, refuse_unknown
from metricldp.mechanisms.channel import LARGEST_EPSILON, Channel
from metricldp.metrics import Line, Metric, Uniform
from metricldp_core.distributions import Distribution

PER_STEP, ANY_TWO = "epsilon per step", "epsilon between any two"
"""What a mechanism keeps: the steepest line below the metric, or its smallest distance."""
Label = Callable[[int], str]
"""A position in the data's own words, for messages."""


@dataclass(frozen=True)
class Effort:
    """How long searches run: a factor for their iterations, the seed, and a time limit.

    The same problem and effort give the same result, unless `seconds` ends the search early; then
    the result is the best until that time.
    """

    scale: float = 1.0
    seed: int = 0
    seconds: float | None = None


DEFAULT_EFFORT = Effort()


class Mechanism(ABC):
    """How values are blurred, as a survey says it."""

    name: str
    title: str = ""
    """What people call it; the name where there is nothing else."""
    source: str = "this package"
    promise: str = PER_STEP
    needs_order: bool = False
    workload: Any = None
    """The questions that it was made for, where it was made for any."""
    max_computed: int = 1 << 12
    max_simulated: int = 1 << 12
    """Positions up to which a comparison computes and simulates it: beyond, it is too slow.

    What has 0 takes part only in comparisons of surveys that have it."""
    saves: ClassVar[tuple[str, ...]] = ()
    """Its fields that are saved: what a user asks for, or what is found for a survey."""

    @property
    def is_designed(self) -> bool:
        """Whether all that a search would find is there."""
        return True

    joint: ClassVar[bool] = False
    """Whether it randomizes several attributes together."""

    def serves(self, ordered: bool) -> bool:
        """Whether it can blur values with an order, or without one."""
        return ordered or not self.needs_order

    def settled(
        self, size: int, metric: Metric, *, ordered: bool = False, label: Label = str
    ) -> Mechanism:
        """The same mechanism with everything decided that it has to save."""
        return self

    @abstractmethod
    def channel(self, size: int, metric: Metric, *, label: Label = str) -> Channel:
        """The channel; saved data that break the metric are refused."""

    @abstractmethod
    def kept(self, size: int, metric: Metric) -> Metric:
        """What its channel keeps: the metric itself, or what is known to be less."""

    def beside(self, epsilon: Fraction) -> Mechanism:
        """The same mechanism, told the epsilon that its attribute states."""
        return self

    def kept_by_one(self, size: int, metric: Metric) -> Metric | None:
        """What one report by itself keeps, where that is less than all of them together."""
        return None

    def saved(self) -> dict[str, Any]:
        """Plain data: all that has to be known beside the name."""
        found = {key: as_lists(getattr(self, key)) for key in self.saves}
        return {key: value for key, value in found.items() if value is not None}

    def with_saved(self, data: Mapping[str, Any]) -> Self:
        """From what `saved` wrote, or from what a user asks for."""
        refuse_unknown(f"mechanism {self.name!r}", data, self.saves)
        return cast(Self, replace(cast(Any, self), **data)) if data else self

    in_distribution: ClassVar[tuple[str, ...]] = ()
    """Its saved fields that the integers of an output distribution determine."""

    def restored(self, distribution: Distribution) -> Mechanism:
        """The same mechanism with the fields that an output distribution determines."""
        return self

    def to_dict(self) -> Any:
        """For a spec file: the name, or a table where there is more to say."""
        saved = self.saved()
        return {"name": self.name, **saved} if saved else self.name

    def settings(self) -> Any:
        """For a survey file, beside the integers of the output distribution."""
        saved = {k: v for k, v in self.saved().items() if k not in self.in_distribution}
        return {"name": self.name, **saved} if saved else self.name

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Simple(Mechanism):
    """A mechanism that saves nothing: its channel follows from the size and one epsilon."""

    name: str
    make: Callable[[int, Fraction], Channel]
    """The channel for so many positions: epsilon per step, or between any two."""
    promise: str = PER_STEP
    title: str = ""
    source: str = "this package"
    needs_order: bool = False
    max_computed: int = 1 << 12
    max_simulated: int = 1 << 12

    def kept(self, size: int, metric: Metric) -> Metric:
        if self.promise == ANY_TWO:
            return Uniform(metric.smallest(size))
        return Line(metric.per_step(size))

    def channel(self, size: int, metric: Metric, *, label: Label = str) -> Channel:
        kept = metric.per_step if self.promise == PER_STEP else metric.smallest
        return self.make(size, min(kept(size), LARGEST_EPSILON))

    def __repr__(self) -> str:
        return repr(self.name)
