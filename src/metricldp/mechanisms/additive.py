"""Additive noise on a ring or, for groups, on a torus, from one of a few patterns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from metricldp.basics.errors import InvalidSpecError
from metricldp.mechanisms.additive_channel import Shaped
from metricldp.mechanisms.additive_search import Steps, best_patterns, steps_of
from metricldp.mechanisms.base import Mechanism, Problem
from metricldp.mechanisms.effort import Effort
from metricldp.mechanisms.levels import Shape
from metricldp.mechanisms.stated import (
    cell_workload,
    checked_prior,
    checked_workload,
    completed,
    workload_of,
)
from metricldp.mechanisms.torus import best_torus, in_units
from metricldp.mechanisms.torus_channel import Wound
from metricldp.metrics.grid import Grid
from metricldp_core.distributions import Distribution


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

    def distribution(self, problem: Problem, effort: Effort) -> Distribution:
        if problem.is_group:
            return _on_torus(problem, effort)
        steps = steps_of(problem.size, problem.metric)
        prior = checked_prior(problem.prior, problem.size)
        workload = checked_workload(problem.workload, problem.size, problem.any_ordered)
        if isinstance(workload, str):
            patterns = _patterns(workload, problem.size, steps, prior, effort)
        else:
            patterns = best_patterns(completed(workload).gram(), steps, prior, effort)
        return Shaped.of(problem.size, patterns, steps.unit).distribution

    def __repr__(self) -> str:
        return repr(self.name)


@lru_cache(maxsize=64)
def _patterns(
    workload: str, size: int, steps: Steps, prior: tuple[float, ...] | None, effort: Effort
) -> tuple[Shape, ...]:
    return best_patterns(completed(workload_of(workload, size)).gram(), steps, prior, effort)


def _on_torus(problem: Problem, effort: Effort) -> Distribution:
    if problem.prior is not None:
        raise InvalidSpecError(
            "additive noise of several attributes together is designed for a uniform prior; leave "
            "prior out"
        )
    assert isinstance(problem.metric, Grid)
    grid = in_units(problem.metric)
    lengths, patterns = best_torus(cell_workload(problem), grid, effort.scale, effort.seed)
    return Wound.on(problem.sizes, lengths, patterns, grid.step).distribution
