"""Channels made of shapes, as a survey has them: depths and highest levels, whole numbers all.

`designed` is the best mixture of shapes for a workload that any metric allows (`shapes.py`).
`tents` is the mixture in closed form: the shapes e^-E(., y), one for each position y, with the
weights that solve sum_y w_y e^-E(x, y) = 1; a channel wherever none is below 0. On a line that is
clipped geometric noise. What levels and rounding leave of a row goes to one more report, which is
about as likely from everywhere; that it tells no more than the metric allows is checked like all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.basics.checks import is_list
from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import shown
from metricldp.mechanisms.additive_search import (
    LARGEST_UNIT,
    MAX_UNITS,
    CellWorkload,
    best_noise,
    line_in_units,
)
from metricldp.mechanisms.base import Label, Mechanism
from metricldp.mechanisms.channel import Channel
from metricldp.mechanisms.extremal_search import BestMixture, best_mixture
from metricldp.mechanisms.levels import Shape, from_text, in_text
from metricldp.mechanisms.matrix import (
    GIVEN,
    checked_prior,
    checked_workload,
    completed,
    said_workload,
    workload_of,
)
from metricldp.mechanisms.mixture import Mixture
from metricldp.mechanisms.progress import search_settings
from metricldp.metrics import Metric
from metricldp.metrics.closed import closure
from metricldp_core.canonical import word
from metricldp_core.distributions import Distribution
from metricldp_core.exact import WORD, at_most_exp
from metricldp_core.levels import DEEPEST, Extremal

MOST_DESIGNED = 256
MOST_TENTS = 1024
MOST_SHAPES = (1 << 16) - 1
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
class _OfShapes(Mechanism):
    """What mechanisms made of shapes share: the highest levels, and the table that follows."""

    max_computed: ClassVar[int] = 128  # type: ignore[misc]
    max_simulated: ClassVar[int] = 128  # type: ignore[misc]

    def kept(self, size: int, metric: Metric) -> Metric:
        return metric


@dataclass(frozen=True, repr=False)
class Tents(_OfShapes):
    """One integer; P(y | x) = w_y e^-E(x, y). `tops` are the weights over 2^64, found and saved."""

    tops: Any = None

    saves: ClassVar[tuple[str, ...]] = ("tops",)
    in_distribution: ClassVar[tuple[str, ...]] = ("tops",)
    name: ClassVar[str] = "tight-constraints"  # type: ignore[misc]
    title: ClassVar[str] = "tight constraints"  # type: ignore[misc]
    source: ClassVar[str] = "Chatzikokolakis et al. 2015"  # type: ignore[misc]

    @property
    def is_designed(self) -> bool:
        return self.tops is not None

    def settled(
        self, size: int, metric: Metric, *, ordered: bool = False, label: Label = str
    ) -> Tents:
        if size > MOST_TENTS:
            raise InvalidSpecError(
                f"{size:,} positions are too many for tight-constraints; use {MOST_TENTS:,}"
            )
        if self.tops is not None:
            return replace(self, tops=_checked_tops(self.tops, size))
        grid = in_units(size, metric)
        weights = tent_weights(grid.apart, float(grid.unit))
        if weights.min() < 0:
            raise InvalidSpecError(
                f"the weight of {label(int(np.argmin(weights)))} would be negative "
                "under this metric; use mechanism extremal"
            )
        return replace(self, tops=_tops(grid, _rows(grid.apart), weights, metric))

    def channel(self, size: int, metric: Metric, *, label: Label = str) -> Channel:
        grid = in_units(size, metric)
        tops = self.settled(size, metric, label=label).tops
        return _kept(_mixture(grid.unit, _rows(grid.apart), tops), metric)

    def restored(self, distribution: Distribution) -> Tents:
        assert isinstance(distribution, Extremal)
        return replace(self, tops=tuple(map(word, distribution.tops)))

    def __repr__(self) -> str:
        return (
            repr(self.name) if self.tops is None else f"<tight-constraints, {len(self.tops)} tops>"
        )


@dataclass(frozen=True, repr=False)
class Designed(_OfShapes):
    """The best mixture of shapes for a workload; its shapes and tops are found and saved.

    `prior` says how people are spread. The search ends when it finds no shape that would make the
    error smaller by more than a share `gap`, or after so many `seconds`.
    """

    workload: Any = None
    prior: Any = None
    seconds: Any = None
    gap: Any = None
    shapes: Any = None
    tops: Any = None
    search: BestMixture | None = field(default=None, compare=False)
    """How the search ended, for whoever made it; not saved."""

    saves: ClassVar[tuple[str, ...]] = ("workload", "prior", "seconds", "gap", "shapes", "tops")
    in_distribution: ClassVar[tuple[str, ...]] = ("seconds", "gap", "shapes", "tops")
    name: ClassVar[str] = "extremal"  # type: ignore[misc]
    title: ClassVar[str] = "extremal, best for the metric"  # type: ignore[misc]
    max_computed: ClassVar[int] = 32  # type: ignore[misc]

    @property
    def is_designed(self) -> bool:
        return self.shapes is not None and self.tops is not None

    def settled(
        self, size: int, metric: Metric, *, ordered: bool = False, label: Label = str
    ) -> Designed:
        if size > MOST_DESIGNED:
            raise InvalidSpecError(
                f"{size:,} positions are too many for mechanism extremal; use at most "
                f"{MOST_DESIGNED:,}, or mechanism additive"
            )
        prior = checked_prior(self.prior, size)
        if self.shapes is not None:
            return self._checked(size, prior)
        seconds = _checked_limit("seconds", self.seconds, SECONDS, 86_400)
        gap = _checked_limit("gap", self.gap, GAP, 1)
        workload = checked_workload(self.workload, size, ordered)
        gram = completed(workload_of(workload, size)).gram()
        found = best_shapes(gram, size, metric, (), prior, seconds, gap)
        named = workload if isinstance(workload, str) else GIVEN
        return Designed(named, prior, None, None, *found)

    def _checked(self, size: int, prior: tuple[float, ...] | None) -> Designed:
        if not is_list(self.shapes) or not 1 <= len(self.shapes) <= MOST_SHAPES:
            raise InvalidSpecError(
                f"shapes are a list of up to {MOST_SHAPES:,} of them; leave them out, and the best "
                "are found"
            )
        shapes = tuple(from_text(said, f"shape {k}") for k, said in enumerate(self.shapes))
        short = next((k for k, shape in enumerate(shapes) if len(shape) != size), None)
        if short is not None:
            raise InvalidSpecError(
                f"shape {short} has {len(shapes[short]):,} depths for {size:,} values"
            )
        tops, said = _checked_tops(self.tops, len(shapes)), said_workload(self.workload, size)
        return Designed(said, prior, None, None, shapes, tops, self.search)

    def channel(self, size: int, metric: Metric, *, label: Label = str) -> Channel:
        """The table, if no shape tells two values better than the metric allows."""
        grid = in_units(size, metric)
        settled = self.settled(size, metric, label=label)
        for number, shape in enumerate(settled.shapes):
            depths = np.array(shape)
            wrong = np.argwhere(np.abs(depths[:, None] - depths) > grid.apart)
            if len(wrong):
                x, other = wrong[0].tolist()
                raise InvalidSpecError(
                    f"shape {number} exceeds the distance of {label(x)} and {label(other)}; "
                    "leave shapes out, and the best are found"
                )
        return _kept(_mixture(grid.unit, settled.shapes, settled.tops, settled.prior), metric)

    def saved(self) -> dict[str, Any]:
        return in_text(super().saved(), "shapes")

    def restored(self, distribution: Distribution) -> Designed:
        assert isinstance(distribution, Extremal)
        prior, tops = (
            checked_prior(self.prior, distribution.size),
            tuple(map(word, distribution.tops)),
        )
        return replace(self, prior=prior, shapes=distribution.depths, tops=tops)

    def __repr__(self) -> str:
        if self.shapes is None:
            return repr(self.name)
        return f"<extremal, {len(self.shapes)} shapes of {len(self.shapes[0])} values>"


def _rows(apart: npt.NDArray[np.int64]) -> tuple[Shape, ...]:
    return tuple(tuple(row) for row in apart.tolist())


def tent_weights(apart: npt.NDArray[np.int64], unit: float) -> npt.NDArray[np.float64]:
    """w with sum_y w_y e^-E(x, y) = 1 at every x."""
    tents = np.exp(-unit * apart)
    weights = np.linalg.solve(tents, np.ones(len(apart)))
    return np.asarray(weights + np.linalg.solve(tents, 1 - tents @ weights))


# From weights to whole numbers


def _mixture(
    unit: Fraction,
    shapes: tuple[Shape, ...],
    tops: Sequence[str],
    prior: tuple[float, ...] | None = None,
) -> Mixture:
    try:
        return Mixture.made_of(shapes, tuple(int(top, 16) for top in tops), unit, prior)
    except InvalidSpecError as wrong:
        remedy = "use the file as it was designed, or leave tops out, and they are found"
        raise InvalidSpecError(f"{wrong}; {remedy}") from None


def _tops(
    grid: _Grid, shapes: tuple[Shape, ...], weights: npt.NDArray[np.float64], metric: Metric
) -> tuple[str, ...]:
    """Weights of probability as whole numbers, with as little to spare as keeps the metric."""
    for spare in _SPARE:
        share = WORD - spare
        tops = tuple(word(max(1, int(Fraction(weight) * share))) for weight in weights.tolist())
        if _rest_is_private(_mixture(grid.unit, shapes, tops), metric):
            return tops
    raise InvalidSpecError("the smallest distance is too small for a mixture of shapes in 64 bits")


def _rest_is_private(table: Mixture, metric: Metric) -> bool:
    """Whether the last report, what is left of every row, tells no two values apart too well."""
    least, most = (end(row[-1] for row in table.weights) for end in (min, max))
    return at_most_exp(Fraction(most, least), metric.smallest(table.size))


def _kept(table: Mixture, metric: Metric) -> Mixture:
    if not _rest_is_private(table, metric):
        raise InvalidSpecError(
            "the tops of the shapes do not add up to the same at every value; leave them out, and "
            "they are found"
        )
    return table


def _checked_tops(tops: Any, count: int) -> tuple[str, ...]:
    if not is_list(tops) or len(tops) != count:
        raise InvalidSpecError(
            f"tops must be a list of {count:,}, one for each shape, not {shown(tops)}; leave them "
            "out, and they are found"
        )
    for top in tops:
        digits = isinstance(top, str) and len(top) == 16 and not top.strip("0123456789abcdef")
        if not digits or not int(top, 16):
            raise InvalidSpecError(f"tops are 16 hexadecimal digits above 0, not {shown(top)}")
    return tuple(tops)


def _checked_limit(name: str, said: Any, usual: float, most: float) -> float:
    if said is None:
        return usual
    if not is_number(said) or not 0 < said <= most:
        raise InvalidSpecError(
            f"{name} of mechanism extremal is a number above 0, at most {most:,}, not {shown(said)}"
        )
    return float(said)


Found = tuple[tuple[Shape, ...], tuple[str, ...], BestMixture]


def best_shapes(
    gram: npt.NDArray[np.float64],
    size: int,
    metric: Metric,
    first: Sequence[npt.NDArray[np.int64]] = (),
    prior: tuple[float, ...] | None = None,
    seconds: float = SECONDS,
    gap: float = GAP,
) -> Found:
    """From some heights on, and from additive noise where the metric has it."""
    grid, first = in_units(size, metric), list(first)
    effort, progress = search_settings()
    spread = None if prior is None else np.array(prior) / sum(prior)
    if metric.by_difference(size) is not None:
        line = line_in_units(size, metric)
        for pattern in np.array(best_noise(CellWorkload(whole=gram), line, None, effort).patterns):
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
            effort=replace(effort, seconds=seconds),
            progress=progress,
        )
    except np.linalg.LinAlgError:
        raise InvalidSpecError(
            "epsilon is too small to distinguish shapes in floats; use mechanism threshold "
            "or unary, or a larger epsilon"
        ) from None
    shapes = _rows(found.heights.max(axis=1, keepdims=True) - found.heights)
    return shapes, _tops(grid, shapes, found.tops, metric), found
