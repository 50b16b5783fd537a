"""Mechanisms for several attributes as one: the cells of their grid are the positions.

`metric` says how far two people are apart: "sum", the distances of all attributes added up, or
"plane", for two attributes that are numbers: the straight line between two places.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Self, cast

import numpy as np

from metricldp.attributes.base import Attribute
from metricldp.basics.checks import is_list
from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.numbers import is_number, is_whole, root_of
from metricldp.basics.text import shown
from metricldp.mechanisms.additive import checked_patterns
from metricldp.mechanisms.additive_search import CellWorkload, Torus, best_noise, grid_in_units
from metricldp.mechanisms.base import Label
from metricldp.mechanisms.channel import Floats
from metricldp.mechanisms.extremal import Designed, Tents
from metricldp.mechanisms.joint import JointChannel, JointMechanism, Metrics, People, Sizes
from metricldp.mechanisms.joint_cells import Cells
from metricldp.mechanisms.levels import in_text
from metricldp.mechanisms.matrix import (
    GIVEN,
    checked_workload,
    completed,
    said_workload,
    workload_of,
)
from metricldp.mechanisms.progress import search_settings
from metricldp.mechanisms.table import Table
from metricldp.mechanisms.workloads import Workload
from metricldp.metrics import Metric
from metricldp.metrics.grid import Grid, in_plane, summed
from metricldp.metrics.window import capped
from metricldp_core.distributions import Distribution
from metricldp_core.exact import decimal_of
from metricldp_core.levels import Additive

SUM, PLANE = "sum", "plane"
MARGINS = "margins"
MOST_CELLS = 1 << 15
MOST_TABLED_CELLS = 1024
"""For mechanisms that state the law of every cell."""
MOST_REPORTS = 1 << 20
MOST_DESIGNED_CELLS = 100
"""With more the search ends, after a minute, no better than that for additive noise."""


@dataclass(frozen=True, repr=False)
class OnCells(JointMechanism):
    """What mechanisms over cells share: the metric, which is stated here and found out there."""

    metric: str = SUM
    max_epsilon: Any = None
    """Never more than this for any two people, whatever the attributes say."""
    grid: Grid | None = field(default=None, compare=False)
    """The metric on the cells, once the attributes are known."""

    def __post_init__(self) -> None:
        if self.metric not in (SUM, PLANE):
            raise InvalidSpecError(f'metric is "{SUM}" or "{PLANE}", not {shown(self.metric)}')
        if self.max_epsilon is not None:
            if not is_number(self.max_epsilon) or not 0 < self.max_epsilon < math.inf:
                raise InvalidSpecError(
                    f"the max_epsilon of all together is above 0, not {shown(self.max_epsilon)}"
                )
            object.__setattr__(self, "max_epsilon", float(self.max_epsilon))

    def about(self, attributes: Mapping[str, Attribute], share: Fraction) -> Self:
        grid = grid_of(attributes, self.metric)
        if self.max_epsilon is not None:
            max_epsilon = decimal_of(self.max_epsilon)
            if max_epsilon < (least := grid.smallest(grid.numbers.size)):
                raise InvalidSpecError(
                    f"the max_epsilon {self.max_epsilon} of all together is below the smallest "
                    "distance, "
                    f"{float(least):g}; state one of at least that"
                )
            grid = grid.capped(max_epsilon)
        return replace(self, grid=grid.scaled(share))

    def decided(self, attributes: Mapping[str, Attribute]) -> Self:
        described = list(attributes.values())

        def label(cell: int) -> str:
            places = zip(described, self.on.cell(cell), strict=True)
            return ", ".join(attribute.label(at) for attribute, at in places)

        return self._decided([attribute.ordered for attribute in described], label)

    @abstractmethod
    def _decided(self, ordered: Sequence[bool], label: Label) -> Self: ...

    @property
    def on(self) -> Grid:
        assert self.grid is not None
        return self.grid

    @property
    def largest_norm(self) -> int:
        return 2 if self.on.straight else 1

    def distance(self, sizes: Sizes, metrics: Metrics, x: People, other: People) -> Fraction:
        here, there = (int(np.ravel_multi_index(cell, self.on.sizes)) for cell in (x, other))
        return self.on.distance(here, there)

    def margins(self, sizes: Sizes, metrics: Metrics) -> list[Metric]:
        """Along one attribute the attribute's own metric, up to the max_epsilon of all."""
        most = self.on.diameter(math.prod(sizes))
        return [capped(metric, most, size) for metric, size in zip(metrics, sizes, strict=True)]


def grid_of(attributes: Mapping[str, Attribute], how: str) -> Grid:
    """The metric on all combinations of values."""
    sizes = [attribute.size for attribute in attributes.values()]
    if math.prod(sizes) > MOST_CELLS:
        raise InvalidSpecError(
            f"{' x '.join(f'{size:,}' for size in sizes)} cells are too many for a joint "
            f"mechanism; use a coarser grid of at most {MOST_CELLS:,}"
        )
    if how == SUM:
        found = summed([attribute.distances for attribute in attributes.values()], sizes)
        if found is None:
            raise InvalidSpecError(
                "joint mechanisms need metrics that depend on the distance of values only"
            )
        return found
    if len(attributes) != 2:
        raise InvalidSpecError(f"a plane has two attributes, not {len(attributes)}")
    axes = {name: attribute.axis for name, attribute in attributes.items()}
    for name, axis in axes.items():
        if axis is None:
            raise InvalidSpecError(
                f"{name} cannot be an axis of a plane; use evenly spaced numbers, not cyclic"
            )
    return in_plane([axis for axis in axes.values() if axis])


def _asked(workload: Any, grid: Grid, ordered: Sequence[bool]) -> tuple[str, CellWorkload]:
    """What a workload is called, and its Gram matrix over cells.

    A name is about every attribute: boxes of ranges, say; categories are asked one by one.
    "margins" are the questions about one attribute alone. Shares of several names make a mixture.
    """
    if is_list(workload) or isinstance(workload, Workload):
        if grid.numbers.size > MOST_TABLED_CELLS:
            raise InvalidSpecError(
                f"rows over {grid.numbers.size:,} cells are too many; name a workload, or use at "
                f"most {MOST_TABLED_CELLS:,} cells"
            )
        stated = checked_workload(workload, grid.numbers.size, any(ordered))
        assert isinstance(stated, Workload)
        return GIVEN, CellWorkload(whole=completed(stated).gram())
    usual = "ranges" if any(ordered) else "values"
    if isinstance(workload, Mapping):
        shares = _checked_shares(workload)
    else:
        shares = {usual if workload is None else workload: 1.0}
    products: list[tuple[Floats, ...]] = []
    for name, share in shares.items():
        for factors, rows in _products(name, grid.sizes, ordered, usual):
            products.append((factors[0] * (share / rows), *factors[1:]))
    named = GIVEN if isinstance(workload, Mapping) else str(*shares)
    return named, CellWorkload(tuple(products))


def _checked_shares(workload: Mapping[Any, Any]) -> dict[str, float]:
    for name, share in workload.items():
        if not is_number(share) or not 0 < share < math.inf:
            raise InvalidSpecError(
                f"the share of {shown(name)} is a number above 0, not {shown(share)}"
            )
    if not workload:
        raise InvalidSpecError(
            "a workload of several is a table of their names and shares, not empty"
        )
    largest = max(workload.values())
    return {name: float(share / largest) for name, share in workload.items()}


def _products(
    name: Any, sizes: Sizes, ordered: Sequence[bool], usual: str
) -> list[tuple[list[Floats], int]]:
    """The Gram matrices of a workload that add up, one factor for each attribute, and its rows."""
    if not isinstance(name, str) or name in ("mean", GIVEN):
        raise InvalidSpecError(
            "a workload of several attributes together is ranges, prefixes, values or bars of "
            f"each, margins, shares of several, or rows over all cells, not {shown(name)}"
        )
    each = []
    for line, size in zip(ordered, sizes, strict=True):
        said = usual if name == MARGINS else name
        checked_workload(said, size, line)
        each.append(workload_of(said if line else "values", size))
    grams = [completed(own).gram() for own in each]
    if name != MARGINS:
        return [(grams, math.prod(own.rows for own in each))]
    everybody = [np.ones((size, size)) for size in sizes]
    rows = sum(own.rows for own in each)
    return [([*everybody[:d], gram, *everybody[d + 1 :]], rows) for d, gram in enumerate(grams)]


@dataclass(frozen=True, repr=False)
class ShapesOnCells(OnCells):
    """Tents, or the best mixture of shapes, over cells."""

    of: Tents | Designed = field(default_factory=Tents)

    saves: ClassVar[tuple[str, ...]] = ("metric", "max_epsilon", "of")

    @property
    def in_distribution(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.of.in_distribution

    def restored(self, distribution: Distribution) -> Self:
        of = self.of.restored(distribution)
        assert isinstance(of, Tents | Designed)
        return replace(self, of=of)

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.of.name

    @property
    def workload(self) -> Any:
        return self.of.workload

    @property
    def is_designed(self) -> bool:
        return self.of.is_designed

    def with_saved(self, data: Mapping[str, Any]) -> Self:
        rest = dict(data)
        metric, max_epsilon = (
            rest.pop("metric", self.metric),
            rest.pop("max_epsilon", self.max_epsilon),
        )
        return replace(self, metric=metric, max_epsilon=max_epsilon, of=self.of.with_saved(rest))

    def saved(self) -> dict[str, Any]:
        capped = {} if self.max_epsilon is None else {"max_epsilon": self.max_epsilon}
        return {"metric": self.metric, **capped, **self.of.saved()}

    def _decided(self, ordered: Sequence[bool], label: Label) -> Self:
        of, size = self.of, self.on.numbers.size
        if size > MOST_TABLED_CELLS:
            raise InvalidSpecError(
                f"{size:,} cells are too many for {of.name}; use at most {MOST_TABLED_CELLS:,}, or "
                "mechanism additive"
            )
        if isinstance(of, Designed) and of.shapes is None:
            if size > MOST_DESIGNED_CELLS:
                raise InvalidSpecError(
                    f"{size:,} cells are too many for mechanism extremal; use at most "
                    f"{MOST_DESIGNED_CELLS}, or mechanism additive"
                )
            named, asked = _asked(of.workload, self.on, ordered)
            workload = completed(Workload.from_rows(root_of(asked.gram())))
            found = replace(of, workload=workload).settled(size, self.on, label=label)
            return replace(self, of=replace(found, workload=named))
        return replace(self, of=of.settled(size, self.on, label=label))

    def joined(self, sizes: Sizes, metrics: Metrics, ordered: Sequence[bool]) -> JointChannel:
        return Cells(sizes, cast(Table, self.of.channel(math.prod(sizes), self.on)))

    def __repr__(self) -> str:
        return f"{self.of!r} over cells"


@dataclass(frozen=True, repr=False)
class ShapedOnCells(OnCells):
    """Additive noise along all attributes at once: around a ring that is wound up to a torus."""

    workload: Any = None
    around: Any = None
    """How many places there are along each attribute: found and saved, like the patterns."""
    patterns: Any = None

    saves: ClassVar[tuple[str, ...]] = ("metric", "max_epsilon", "workload", "around", "patterns")
    in_distribution: ClassVar[tuple[str, ...]] = ("around", "patterns")

    def restored(self, distribution: Distribution) -> Self:
        assert isinstance(distribution, Additive)
        return replace(self, around=distribution.lengths, patterns=distribution.depths)

    name: ClassVar[str] = "additive"  # type: ignore[misc]
    title: ClassVar[str] = "additive noise"  # type: ignore[misc]

    @property
    def is_designed(self) -> bool:
        return self.patterns is not None

    def _decided(self, ordered: Sequence[bool], label: Label) -> Self:
        if self.patterns is None:
            if self.around is not None:
                raise InvalidSpecError(
                    "around belongs to patterns; leave it out, and both are found"
                )
            named, asked = _asked(self.workload, self.on, ordered)
            grid, settings = grid_in_units(self.on), search_settings()
            lengths, patterns = best_noise(asked, grid, None, *settings)
            return replace(self, workload=named, around=lengths, patterns=patterns)
        sizes, size = self.on.sizes, self.on.numbers.size
        fits = is_list(self.around) and len(self.around) == len(sizes)
        if not fits or not all(
            is_whole(n) and n >= size for n, size in zip(self.around, sizes, strict=True)
        ):
            raise InvalidSpecError(
                f"around has a whole number for each attribute, at least {list(sizes)}, not "
                f"{shown(self.around)}; leave around and patterns out, and they are found"
            )
        lengths = tuple(int(n) for n in self.around)
        margins = isinstance(self.workload, str) and self.workload == MARGINS
        said = MARGINS if margins else said_workload(self.workload, size)
        patterns = checked_patterns(self.patterns, math.prod(lengths), MOST_REPORTS)
        if len(patterns[0]) != math.prod(lengths):
            raise InvalidSpecError(
                f"patterns of {len(patterns[0]):,} depths do not go around {list(lengths)}; leave "
                "both out, and they are found"
            )
        return replace(self, workload=said, around=lengths, patterns=patterns)

    def joined(self, sizes: Sizes, metrics: Metrics, ordered: Sequence[bool]) -> JointChannel:
        torus = Torus(grid_in_units(self.on), self.around)
        violation = torus.violation(self.patterns)
        if violation is not None:
            raise InvalidSpecError(
                f"the patterns of additive noise exceed the metric for values {violation} steps "
                "apart; leave around and patterns out, and the best are found"
            )
        return Cells(self.on.sizes, torus.channel(self.patterns))

    def saved(self) -> dict[str, Any]:
        return in_text(super().saved(), "patterns")

    def __repr__(self) -> str:
        if self.patterns is None:
            return repr(self.name)
        places = " x ".join(map(str, self.around))
        return f"<additive noise, {len(self.patterns)} patterns of {places} places>"


ON_CELLS: dict[str, OnCells] = {
    found.name: found
    for found in (ShapedOnCells(), ShapesOnCells(of=Tents()), ShapesOnCells(of=Designed()))
}
