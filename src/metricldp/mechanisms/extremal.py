"""Mixtures of shapes: the best one for a workload, and the one with tight constraints.

`extremal` is the best mixture of shapes for a workload, under any metric (`extremal_search.py`).
`tight-constraints` is the mixture in closed form: the shapes e^-E(., y), one for each position y,
with the weights that solve sum_y w_y e^-E(x, y) = 1, if none is below 0. On a line that is clipped
geometric noise. One more report has what levels and rounding leave of a row. It is about as likely
from every position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.numbers import is_number, root_of
from metricldp.basics.progress import Progress, silent
from metricldp.basics.text import shown
from metricldp.mechanisms.additive_search import (
    LARGEST_UNIT,
    MAX_UNITS,
    CellWorkload,
    best_noise,
    line_in_units,
)
from metricldp.mechanisms.base import Mechanism, Problem
from metricldp.mechanisms.effort import DEFAULT, Effort
from metricldp.mechanisms.extremal_search import BestMixture, best_mixture
from metricldp.mechanisms.levels import Shape, fall_of
from metricldp.mechanisms.moments import Floats
from metricldp.mechanisms.stated import (
    MOST_TABLED_CELLS,
    cell_workload,
    checked_prior,
    checked_workload,
    completed,
    workload_of,
)
from metricldp.mechanisms.workloads import Workload
from metricldp.metrics import Metric
from metricldp.metrics.closed import closure
from metricldp_core.distributions import Distribution
from metricldp_core.exact import WORD, at_most_exp
from metricldp_core.levels import DEEPEST, Extremal

MOST_POSITIONS = 256
MOST_TIGHT = 1024
MOST_CELLS = 100
"""With more the search ends, after a minute, no better than that for additive noise."""
SECONDS, GAP = 60, 0.002
_SPARE = (1 << 34, 1 << 44, 1 << 52)
"""Over 2^64: what is kept free of a row for the last report, as little as the metric allows."""


@dataclass(frozen=True)
class _Grid:
    """A metric in whole units of height, never above it."""

    unit: Fraction
    apart: npt.NDArray[np.int64]


def in_units(size: int, metric: Metric) -> _Grid:
    """The metric itself where its distances are few units, else rounded down and closed again."""
    apart, unit = metric.whole(size), metric.step
    least = int(metric.smallest(size) / unit)
    if least > MAX_UNITS:
        apart = closure((apart.astype(object) * MAX_UNITS // least).astype(np.int64))
        unit = unit * least / MAX_UNITS
    if int(apart.max()) > DEEPEST:
        raise InvalidSpecError(
            f"the largest distance is {int(apart.max()):,} times the unit of all distances, which "
            f"is more than {DEEPEST:,}; state distances that are closer to each other, or "
            "max_epsilon"
        )
    return _Grid(unit, np.asarray(apart, dtype=np.int64))


@dataclass(frozen=True, repr=False)
class TightConstraints(Mechanism):
    """One integer; P(y | x) = w_y e^-E(x, y)."""

    groups: ClassVar[bool] = True
    name: ClassVar[str] = "tight-constraints"  # type: ignore[misc]
    kind: ClassVar[str] = "extremal"  # type: ignore[misc]
    title: ClassVar[str] = "tight constraints"  # type: ignore[misc]
    source: ClassVar[str] = "Chatzikokolakis et al. 2015"  # type: ignore[misc]
    max_computed: ClassVar[int] = 128  # type: ignore[misc]
    max_simulated: ClassVar[int] = 128  # type: ignore[misc]

    def distribution(self, problem: Problem, effort: Effort, progress: Progress) -> Distribution:
        _check_cells(self.name, problem, MOST_TABLED_CELLS)
        size, metric = problem.size, problem.metric
        if size > MOST_TIGHT:
            raise InvalidSpecError(
                f"{size:,} positions are too many for tight-constraints; use {MOST_TIGHT:,}"
            )
        grid = in_units(size, metric)
        weights = tent_weights(grid.apart, float(grid.unit))
        if weights.min() < 0:
            raise InvalidSpecError(
                f"the weight of {problem.label(int(np.argmin(weights)))} would be negative "
                "under this metric; use mechanism extremal"
            )
        return _mixture(grid, _rows(grid.apart), weights, metric)

    def __repr__(self) -> str:
        return repr(self.name)


@dataclass(frozen=True, repr=False)
class ExtremalMechanism(Mechanism):
    """The best mixture of shapes for a workload.

    `prior` states how respondents are distributed. The search ends when it finds no shape that
    would make the error smaller by more than a fraction `gap`, or after so many `seconds`.
    """

    workload: Any = None
    prior: Any = None
    seconds: Any = None
    gap: Any = None

    options: ClassVar[tuple[str, ...]] = ("workload", "prior", "seconds", "gap")
    search_options: ClassVar[tuple[str, ...]] = ("seconds", "gap")
    groups: ClassVar[bool] = True
    name: ClassVar[str] = "extremal"  # type: ignore[misc]
    kind: ClassVar[str] = "extremal"  # type: ignore[misc]
    title: ClassVar[str] = "extremal, best for the metric"  # type: ignore[misc]
    max_computed: ClassVar[int] = 32  # type: ignore[misc]
    max_simulated: ClassVar[int] = 128  # type: ignore[misc]

    def distribution(self, problem: Problem, effort: Effort, progress: Progress) -> Distribution:
        size, metric = problem.size, problem.metric
        _check_cells(self.name, problem, MOST_CELLS)
        if size > MOST_POSITIONS:
            raise InvalidSpecError(
                f"{size:,} positions are too many for mechanism extremal; use at most "
                f"{MOST_POSITIONS:,}, or mechanism additive"
            )
        prior = checked_prior(problem.prior, size)
        seconds = _checked_limit("seconds", self.seconds, SECONDS, 86_400)
        seconds = seconds if effort.seconds is None else min(seconds, effort.seconds)
        gap = _checked_limit("gap", self.gap, GAP, 1)
        if problem.is_group:
            workload = Workload.from_rows(root_of(cell_workload(problem).gram()))
        else:
            stated = checked_workload(problem.workload, size, problem.any_ordered)
            workload = workload_of(stated, size)
        gram, effort = completed(workload).gram(), replace(effort, seconds=seconds)
        return best_shapes(gram, size, metric, (), prior, gap, effort, progress)

    def __repr__(self) -> str:
        return repr(self.name)


def _check_cells(name: str, problem: Problem, most: int) -> None:
    size = problem.size
    if problem.is_group and size > most:
        # Beyond the limit of tables no other mechanism with a table is possible either.
        subject = name if size > MOST_TABLED_CELLS else f"mechanism {name}"
        most = MOST_TABLED_CELLS if size > MOST_TABLED_CELLS else most
        raise InvalidSpecError(
            f"{size:,} cells are too many for {subject}; use at most {most:,}, or mechanism "
            "additive"
        )


@dataclass(frozen=True, eq=False)
class SearchedMixture(Extremal):
    """A mixture with the end of the search that designed it, which is not part of a survey."""

    search: BestMixture | None = field(default=None, kw_only=True)

    def __eq__(self, other: object) -> bool:
        """It equals the mixture that a survey file contains."""
        return isinstance(other, Extremal) and self.to_data() == other.to_data()

    __hash__ = Extremal.__hash__


def _rows(apart: npt.NDArray[np.int64]) -> tuple[Shape, ...]:
    return tuple(tuple(row) for row in apart.tolist())


def has_tight_constraints(distribution: Extremal, metric: Metric) -> bool:
    """Whether the shapes of a mixture are those of tight constraints."""
    return distribution.depths == _rows(in_units(distribution.size, metric).apart)


def tent_weights(apart: npt.NDArray[np.int64], unit: float) -> npt.NDArray[np.float64]:
    """w with sum_y w_y e^-E(x, y) = 1 at every x."""
    tents = np.exp(-unit * apart)
    weights = np.linalg.solve(tents, np.ones(len(apart)))
    return np.asarray(weights + np.linalg.solve(tents, 1 - tents @ weights))


# From weights to whole numbers


def _mixture(
    grid: _Grid, shapes: tuple[Shape, ...], weights: Floats, metric: Metric
) -> SearchedMixture:
    """Weights of probability as whole numbers, with as little to spare as keeps the metric."""
    fall = fall_of(grid.unit)
    for spare in _SPARE:
        share = WORD - spare
        tops = tuple(max(1, int(Fraction(weight) * share)) for weight in weights.tolist())
        mixture = SearchedMixture.of(shapes, tops, fall)
        if _rest_is_private(mixture, metric):
            return mixture
    raise InvalidSpecError("the smallest distance is too small for a mixture of shapes in 64 bits")


def _rest_is_private(mixture: Extremal, metric: Metric) -> bool:
    """Whether the last report, what is left of every row, distinguishes no two values too well."""
    least, most = (end(row[-1] for row in mixture.weights) for end in (min, max))
    return least > 0 and at_most_exp(Fraction(most, least), metric.smallest(mixture.size))


def _checked_limit(name: str, stated: Any, usual: float, most: float) -> float:
    if stated is None:
        return usual
    if not is_number(stated) or not 0 < stated <= most:
        raise InvalidSpecError(
            f"{name} of mechanism extremal is a number above 0, at most {most:,}, not "
            f"{shown(stated)}"
        )
    return float(stated)


def best_shapes(
    gram: Floats,
    size: int,
    metric: Metric,
    first: Sequence[npt.NDArray[np.int64]] = (),
    prior: tuple[float, ...] | None = None,
    gap: float = GAP,
    effort: Effort = DEFAULT,
    progress: Progress = silent,
) -> Extremal:
    """The best mixture, from some heights on and from additive noise if the metric has it."""
    grid, first = in_units(size, metric), list(first)
    spread = None if prior is None else np.array(prior) / sum(prior)
    if metric.by_difference(size) is not None:
        line = line_in_units(size, metric)
        noise = best_noise(CellWorkload(whole=gram), line, None, effort)
        for pattern in np.array(noise.patterns):
            around = (np.arange(len(pattern))[:, None] - np.arange(size)) % len(pattern)
            heights = -pattern[around]
            first += list(heights - heights.min(axis=1, keepdims=True))
    unit = min(float(grid.unit), LARGEST_UNIT)
    try:
        found = best_mixture(
            *(grid.apart, unit, gram),
            prior=spread,
            first=first,
            target=1 + gap,
            effort=effort,
            progress=progress,
        )
    except np.linalg.LinAlgError:
        raise InvalidSpecError(
            "epsilon is too small to distinguish shapes in floats; use mechanism threshold "
            "or unary, or a larger epsilon"
        ) from None
    shapes = _rows(found.heights.max(axis=1, keepdims=True) - found.heights)
    return replace(_mixture(grid, shapes, found.tops, metric), search=found)
