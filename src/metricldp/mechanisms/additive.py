"""Additive noise as a survey has it: the patterns of depths, found for a workload and saved.

Any depths that the metric allows keep the guarantee; `additive_search.py` has the search for the
best.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from metricldp.basics.checks import is_list
from metricldp.basics.errors import InvalidSpecError
from metricldp.mechanisms.additive_channel import Shaped
from metricldp.mechanisms.additive_search import CellWorkload, Torus, best_noise, line_in_units
from metricldp.mechanisms.base import Label, Mechanism
from metricldp.mechanisms.channel import Channel
from metricldp.mechanisms.levels import Shape, from_text, in_text
from metricldp.mechanisms.matrix import (
    GIVEN,
    checked_prior,
    checked_workload,
    completed,
    said_workload,
    workload_of,
)
from metricldp.mechanisms.progress import search_settings
from metricldp.metrics import Metric
from metricldp.metrics.grid import Grid
from metricldp_core.distributions import Distribution
from metricldp_core.levels import Additive

MOST_POSITIONS = 4096
MOST_REPORTS = 1 << 16


@dataclass(frozen=True, repr=False)
class ShapedNoise(Mechanism):
    """Noise around a ring, in a few patterns; for metrics that depend on the difference alone.

    `workload` ("ranges", "mean", "10 bars", ..., a Workload or rows) is what the patterns are to be
    good for, `prior` how people are spread. They are found when the survey is made, and saved as
    whole numbers.
    """

    workload: Any = None
    prior: Any = None
    patterns: Any = None

    saves: ClassVar[tuple[str, ...]] = ("workload", "prior", "patterns")
    name: ClassVar[str] = "additive"  # type: ignore[misc]
    title: ClassVar[str] = "additive noise"  # type: ignore[misc]
    max_computed: ClassVar[int] = 1 << 10  # type: ignore[misc]
    max_simulated: ClassVar[int] = 1 << 10  # type: ignore[misc]

    @property
    def is_designed(self) -> bool:
        return self.patterns is not None

    def settled(
        self, size: int, metric: Metric, *, ordered: bool = False, label: Label = str
    ) -> ShapedNoise:
        grid, prior = additive_grid(size, metric), checked_prior(self.prior, size)
        if self.patterns is not None:
            said, patterns = (
                said_workload(self.workload, size),
                checked_patterns(self.patterns, size),
            )
            return replace(self, workload=said, prior=prior, patterns=patterns)
        workload = checked_workload(self.workload, size, ordered)
        gram = completed(workload_of(workload, size)).gram()
        patterns = best_noise(CellWorkload(whole=gram), grid, prior, *search_settings()).patterns
        named = workload if isinstance(workload, str) else GIVEN
        return replace(self, workload=named, prior=prior, patterns=patterns)

    def channel(self, size: int, metric: Metric, *, label: Label = str) -> Channel:
        """The noise, if its depths keep the metric."""
        grid = additive_grid(size, metric)
        settled = self.settled(size, metric, label=label)
        violation = Torus(grid, (len(settled.patterns[0]),)).violation(settled.patterns)
        if violation is not None:
            raise InvalidSpecError(
                f"the patterns of additive noise exceed the metric for values {violation[0]} "
                "steps apart; "
                "leave patterns out, and the best are found"
            )
        return Shaped.of(size, settled.patterns, grid.step, settled.prior)

    def kept(self, size: int, metric: Metric) -> Metric:
        return metric

    def saved(self) -> dict[str, Any]:
        return in_text(super().saved(), "patterns")

    in_distribution: ClassVar[tuple[str, ...]] = ("patterns",)

    def restored(self, distribution: Distribution) -> ShapedNoise:
        assert isinstance(distribution, Additive)
        prior = checked_prior(self.prior, distribution.size)
        return replace(self, prior=prior, patterns=distribution.depths)

    def __repr__(self) -> str:
        if self.patterns is None:
            return repr(self.name)
        return f"<additive noise, {len(self.patterns)} patterns of {len(self.patterns[0])} places>"


def additive_grid(size: int, metric: Metric) -> Grid:
    """The metric in units of height, for up to 4,096 positions."""
    if size > MOST_POSITIONS:
        raise InvalidSpecError(
            f"{size:,} positions are too many for additive noise; use at most {MOST_POSITIONS:,}"
        )
    return line_in_units(size, metric)


def checked_patterns(patterns: Any, size: int, most: int = MOST_REPORTS) -> tuple[Shape, ...]:
    """Depths around the ring, as they may stand in a file."""
    remedy = "leave patterns out, and they are found"
    if not is_list(patterns) or len(patterns) not in (1, 2, 4, 8, 16):
        raise InvalidSpecError(f"patterns are a list of 1, 2, 4, 8 or 16 of them; {remedy}")
    found = [from_text(said, f"pattern {number}") for number, said in enumerate(patterns)]
    for number, pattern in enumerate(found):
        if len(pattern) != len(found[0]) or len(pattern) < size:
            raise InvalidSpecError(
                f"pattern {number} has {len(pattern):,} depths; all have as many, at least "
                f"{size:,}; {remedy}"
            )
    if len(found) * len(found[0]) > most:
        raise InvalidSpecError(f"the patterns have more than {most:,} places together; {remedy}")
    return tuple(found)
