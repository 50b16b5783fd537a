"""Additive noise on a ring or, for groups, on a torus, from one of a few patterns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.progress import Progress
from metricldp.mechanisms.additive_channel import AdditiveChannel
from metricldp.mechanisms.additive_search import (
    CellWorkload,
    best_noise,
    grid_in_units,
    line_in_units,
)
from metricldp.mechanisms.base import Mechanism, Problem
from metricldp.mechanisms.effort import Effort
from metricldp.mechanisms.stated import (
    cell_workload,
    checked_prior,
    checked_workload,
    completed,
    workload_of,
)
from metricldp.metrics.grid import Grid
from metricldp_core.distributions import Distribution

MOST_POSITIONS = 4096


@dataclass(frozen=True, repr=False)
class AdditiveNoise(Mechanism):
    """Noise whose patterns a search optimizes, for metrics that depend on the difference alone.

    `workload` ("ranges", "mean", "10 bars", ..., a Workload or rows) states the queries for which
    the error is minimized, `prior` the distribution of respondents over positions.
    """

    workload: Any = None
    prior: Any = None

    options: ClassVar[tuple[str, ...]] = ("workload", "prior")
    groups: ClassVar[bool] = True
    name: ClassVar[str] = "additive"  # type: ignore[misc]
    kind: ClassVar[str] = "additive"  # type: ignore[misc]
    title: ClassVar[str] = "additive noise"  # type: ignore[misc]
    max_computed: ClassVar[int] = 1 << 10  # type: ignore[misc]
    max_simulated: ClassVar[int] = 1 << 10  # type: ignore[misc]

    def distribution(self, problem: Problem, effort: Effort, progress: Progress) -> Distribution:
        prior = None
        if problem.is_group:
            grid, workload = _cell_grid(problem), cell_workload(problem)
        else:
            size = problem.size
            if size > MOST_POSITIONS:
                raise InvalidSpecError(
                    f"{size:,} positions are too many for additive noise; use at most "
                    f"{MOST_POSITIONS:,}"
                )
            grid, prior = line_in_units(size, problem.metric), checked_prior(problem.prior, size)
            stated = checked_workload(problem.workload, size, problem.any_ordered)
            workload = CellWorkload(whole=completed(workload_of(stated, size)).gram())
        noise = best_noise(workload, grid, prior, effort, progress)
        return AdditiveChannel.of(grid.sizes, noise.lengths, noise.patterns, grid.step).distribution

    def __repr__(self) -> str:
        return repr(self.name)


def _cell_grid(problem: Problem) -> Grid:
    if problem.prior is not None:
        raise InvalidSpecError(
            "additive noise of several attributes together is designed for a uniform prior; leave "
            "prior out"
        )
    assert isinstance(problem.metric, Grid)
    return grid_in_units(problem.metric)
