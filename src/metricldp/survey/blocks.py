"""Groups of attributes that one mechanism randomizes together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from metricldp.attributes.base import Attribute
from metricldp.basics.checks import is_list
from metricldp.basics.errors import CertificateError, InvalidSpecError
from metricldp.basics.numbers import is_number
from metricldp.basics.progress import Progress, silent
from metricldp.basics.text import guess, listed, shown
from metricldp.mechanisms import registry
from metricldp.mechanisms.base import Mechanism, Problem
from metricldp.mechanisms.channels import group_channel_of
from metricldp.mechanisms.effort import DEFAULT, Effort
from metricldp.mechanisms.extremal_search import BestMixture
from metricldp.mechanisms.fields import Field
from metricldp.mechanisms.joint import JointChannel, Part
from metricldp.metrics import Lp, Metric
from metricldp.metrics.grid import Grid, in_plane, summed
from metricldp.metrics.product import ProductMetric
from metricldp.metrics.window import capped
from metricldp.survey.design import resolved
from metricldp_core import manifest as core
from metricldp_core import metrics as core_metrics
from metricldp_core.distributions import SUPPORTED, Distribution
from metricldp_core.exact import decimal_of

SUM, PLANE = "sum", "plane"
MOST_CELLS = 1 << 15
USUAL = "additive"
"""What blurs attributes together where nothing is said."""
_NO_GROUP = "joint= lists groups, such as [['x', 'y']], each of two attributes or more, not {}"


@dataclass(frozen=True)
class Group:
    """What is stated about a group: its mechanism, and the metric on combinations of values.

    `metric` is "sum", the distances of all attributes added up, or "plane", for two attributes that
    are numbers: the straight line between two locations. Baselines state neither.
    """

    mechanism: Mechanism
    metric: str = SUM
    max_epsilon: float | None = None
    """The largest distance of any two respondents, whatever the attributes state."""

    def __post_init__(self) -> None:
        if self.metric not in (SUM, PLANE):
            raise InvalidSpecError(f'metric is "{SUM}" or "{PLANE}", not {shown(self.metric)}')
        if self.max_epsilon is not None:
            if not is_number(self.max_epsilon) or not 0 < self.max_epsilon < math.inf:
                raise InvalidSpecError(
                    f"the max_epsilon of all together is above 0, not {shown(self.max_epsilon)}"
                )
            object.__setattr__(self, "max_epsilon", float(self.max_epsilon))

    @classmethod
    def of(cls, stated: Any) -> Group:
        """The group that is stated by a mechanism: a name, or a table with options."""
        if isinstance(stated, Group):
            return stated
        own: dict[str, Any] = {}
        if isinstance(stated, Mapping):
            options, keys = dict(stated), ("metric", "max_epsilon")
            name = options.get("name")
            if isinstance(name, str) and registry.mechanism(name, joint=True).groups:
                own = {key: options.pop(key) for key in keys if key in options}
            stated = options
        mechanism = registry.mechanism(stated, joint=True)
        if not mechanism.groups and not mechanism.joint:
            raise InvalidSpecError(
                f"mechanism {mechanism.name!r} randomizes one attribute; name it there, not in "
                "joint="
            )
        return cls(mechanism, **own)

    def to_dict(self) -> Any:
        """Plain data for a file."""
        data = self.mechanism.to_dict()
        if not self.mechanism.groups:
            return data
        stated: dict[str, Any] = {"name": self.mechanism.name, "metric": self.metric}
        if self.max_epsilon is not None:
            stated["max_epsilon"] = self.max_epsilon
        return stated if isinstance(data, str) else stated | data

    def problem(self, attributes: Mapping[str, Attribute], share: Fraction) -> Problem:
        """The problem on cells, with distances times a share."""
        sizes = tuple(attribute.size for attribute in attributes.values())
        metrics = tuple(attribute.distances.scaled(share) for attribute in attributes.values())
        metric: Metric = ProductMetric(metrics, sizes)
        if self.mechanism.groups:
            metric = self._grid(attributes).scaled(share)

        def label(cell: int) -> str:
            places = zip(attributes.values(), np.unravel_index(cell, sizes), strict=True)
            return ", ".join(attribute.label(int(at)) for attribute, at in places)

        ordered = tuple(attribute.ordered for attribute in attributes.values())
        return Problem(sizes, metric, ordered, label=label)

    def _grid(self, attributes: Mapping[str, Attribute]) -> Grid:
        grid = grid_of(attributes, self.metric)
        if self.max_epsilon is None:
            return grid
        limit = decimal_of(self.max_epsilon)
        if limit < (least := grid.smallest(grid.numbers.size)):
            raise InvalidSpecError(
                f"the max_epsilon {self.max_epsilon} of all together is below the smallest "
                f"distance, {float(least):g}; state one of at least that"
            )
        return grid.capped(limit)


def grid_of(attributes: Mapping[str, Attribute], how: str) -> Grid:
    """The metric on all combinations of values."""
    sizes = [attribute.size for attribute in attributes.values()]
    if math.prod(sizes) > MOST_CELLS:
        raise InvalidSpecError(
            f"{' x '.join(f'{size:,}' for size in sizes)} cells are too many for a joint "
            f"mechanism; use a coarser grid of at most {MOST_CELLS:,}"
        )
    if how == SUM:
        grid = summed([attribute.distances for attribute in attributes.values()], sizes)
        if grid is None:
            raise InvalidSpecError(
                "joint mechanisms need metrics that depend on the distance of values only"
            )
        return grid
    if len(attributes) != 2:
        raise InvalidSpecError(f"a plane has two attributes, not {len(attributes)}")
    axes = {name: attribute.axis for name, attribute in attributes.items()}
    for name, axis in axes.items():
        if axis is None:
            raise InvalidSpecError(
                f"{name} cannot be an axis of a plane; use evenly spaced numbers, not cyclic"
            )
    return in_plane([axis for axis in axes.values() if axis])


@dataclass(frozen=True)
class Block:
    """Attributes that one mechanism randomizes together, and what it guarantees."""

    names: tuple[str, ...]
    group: Group
    metrics: tuple[Metric, ...]
    """The distances of each attribute."""
    metric: Metric
    """What is guaranteed on cells."""
    channel: JointChannel
    search: BestMixture | None = field(default=None, compare=False)
    """How the search for an extremal mixture ended, if the design ran one."""

    @classmethod
    def of(
        cls,
        group: Group,
        attributes: Mapping[str, Attribute],
        share: Fraction,
        norm: Lp,
        stored: Distribution | None = None,
        effort: Effort = DEFAULT,
        progress: Progress = silent,
    ) -> Block:
        """The block of these attributes, their distances times the share of a norm."""
        place = f"the joint attributes {', '.join(attributes)}"
        try:
            for name, attribute in attributes.items():
                _check_member(name, attribute)
            mechanism, problem = group.mechanism, group.problem(attributes, share)
            if mechanism.groups:  # before a long search
                _check_norm(norm, problem.metric, mechanism)
            if stored is None:
                stored = mechanism.design(problem, effort, progress)
                mechanism = mechanism.resolved(problem, stored)
            else:
                mechanism = resolved(mechanism, problem, stored, group.to_dict())
            metric = mechanism.proved_metric(problem.metric, stored)
            _check_norm(norm, metric, mechanism)
            prior = getattr(mechanism, "prior", None)
            channel = group_channel_of(stored, problem.sizes, prior)
        except (CertificateError, InvalidSpecError) as wrong:
            raise InvalidSpecError(f"{place}: {wrong}") from None
        metrics = tuple(attribute.distances.scaled(share) for attribute in attributes.values())
        group = replace(group, mechanism=mechanism)
        search = getattr(stored, "search", None)
        return cls(tuple(attributes), group, metrics, metric, channel, search)

    @property
    def mechanism(self) -> Mechanism:
        return self.group.mechanism

    @property
    def grid(self) -> Grid | None:
        """The metric on cells, unless the mechanism is a baseline with a metric of its own."""
        return self.metric if isinstance(self.metric, Grid) else None

    @property
    def name(self) -> str:
        return "+".join(self.names)

    @cached_property
    def columns(self) -> dict[Part, str]:
        """The column of each part of a report: an attribute's name, or a role of the block."""
        return {part: self._column(part) for part in self.channel.fields}

    def _column(self, part: Part) -> str:
        """A report that has no parts is called after the whole block."""
        if isinstance(part, str):
            return f"{self.name}={part}" if part else self.name
        return self.names[part]

    @property
    def fields(self) -> dict[str, Field]:
        return {self.columns[part]: field for part, field in self.channel.fields.items()}

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.channel.sizes

    def margin(self, name: str) -> Metric:
        """What is guaranteed for two respondents who differ in one attribute alone."""
        place = self.names.index(name)
        if isinstance(self.metric, ProductMetric):
            return self.metric.metrics[place]
        if self.grid is None:
            return self.metric
        return capped(self.metrics[place], self.diameter, self.sizes[place])

    @property
    def diameter(self) -> Fraction:
        """The largest distance of two respondents."""
        return self.metric.diameter(math.prod(self.sizes))

    @property
    def largest_norm(self) -> int:
        """The p of the norm over attributes up to which the guarantee implies the norm."""
        return _largest_norm(self.metric)

    def core_field(self, attributes: Mapping[str, Attribute]) -> core.Field:
        """The part of a report as the core has it."""
        domains = tuple(attribute.domain_of(name) for name, attribute in attributes.items())
        return core.Field(domains, self.core_metric, self.channel.distribution)

    @cached_property
    def core_metric(self) -> core_metrics.Metric:
        return self.metric.to_core(math.prod(self.sizes))

    def to_dict(self) -> dict[str, Any]:
        data, stored = {"mechanism": self.group.to_dict()}, self.channel.distribution
        return data | {"distribution": stored.to_data()} if stored.kind in SUPPORTED else data


def distributions_of(blocks: Iterable[Block]) -> dict[str, Distribution]:
    """The distributions of groups that a survey file contains, by the names of attributes."""
    pairs = ((block.name, block.channel.distribution) for block in blocks)
    return {name: stored for name, stored in pairs if stored.kind in SUPPORTED}


def _check_member(name: str, attribute: Attribute) -> None:
    """Reject an attribute that cannot be in a group."""
    if attribute.is_public or attribute.is_weight or attribute.rounded_at_random:
        kind = "weight" if attribute.is_weight else "rounded at random"
        raise InvalidSpecError(
            f"{name} is {kind}; integer, continuous, ordinal and categorical attributes can be in "
            "a group"
        )
    if attribute.optional is not None:
        raise InvalidSpecError(f"{name} is optional; remove optional, or randomize {name} alone")
    if attribute.undecided:
        raise InvalidSpecError(f"state the number of bins of {name}")
    if attribute.mechanism != registry.AUTO:
        raise InvalidSpecError(
            f"{name} has a mechanism of its own, {shown(attribute.mechanism)}; remove it"
        )


def _largest_norm(metric: Metric) -> int:
    straight = metric.straight if isinstance(metric, Grid) else getattr(metric, "p", 2) == 2
    return 2 if straight else 1


def _check_norm(norm: Lp, metric: Metric, mechanism: Mechanism) -> None:
    if norm.p > (most := _largest_norm(metric)):
        what = "joint attributes" if most == 2 else mechanism.name
        raise InvalidSpecError(f"a survey with {what} has a norm with p up to {most}")


def blocks_of(joint: Any, attributes: Mapping[str, Attribute]) -> dict[tuple[str, ...], Group]:
    """Which attributes a survey blurs together, and how; in the order of the attributes."""
    if joint is None:
        return {}
    if is_list(joint):
        joint = _listed(joint)
    if not isinstance(joint, Mapping):
        raise InvalidSpecError(
            "joint= is a list of sets of attributes, such as [['age', 'hours']], or maps them to a "
            f"mechanism, {{('age', 'hours'): 'additive'}}; not {shown(joint)}"
        )
    found: dict[tuple[str, ...], Group] = {}
    seen: set[str] = set()
    for names, said in joint.items():
        if isinstance(names, str) or not isinstance(names, Sequence) or len(names) < 2:
            raise InvalidSpecError(_NO_GROUP.format(shown(names)))
        for name in names:
            if name not in attributes:
                there = f"{listed(attributes)}{guess(name, attributes)}"
                raise InvalidSpecError(f"joint= names {shown(name)}; the survey has {there}")
            if name in seen:
                raise InvalidSpecError(
                    f"{name} is named twice in joint=; it can be in one group only"
                )
            seen.add(name)
        ordered = tuple(name for name in attributes if name in names)
        if "+" in "".join(ordered) or "+".join(ordered) in attributes:
            raise InvalidSpecError(
                f"{shown(list(ordered))} are called {shown('+'.join(ordered))} together, and "
                "another may be called so, too; use names without +"
            )
        found[ordered] = Group.of(said)
    return found


def _listed(joint: Sequence[Any]) -> dict[Any, str]:
    """Sets of attributes without a mechanism."""
    found: dict[Any, str] = {}
    for names in joint:
        if not is_list(names) or not all(isinstance(name, str) for name in names):
            raise InvalidSpecError(_NO_GROUP.format(shown(names)))
        if tuple(names) in found:
            raise InvalidSpecError(f"{listed(names)} are named twice in joint=; leave one out")
        found[tuple(names)] = USUAL
    return found


def joint_from(entries: Any) -> dict[tuple[str, ...], Any] | str:
    """The same from the tables of a survey file; "auto" is passed on."""
    if isinstance(entries, str) and entries == registry.AUTO:
        return entries
    if not isinstance(entries, list):
        raise InvalidSpecError(f"joint is a list of tables [[joint]], not {shown(entries)}")
    found: dict[tuple[str, ...], Any] = {}
    for said in entries:
        entry = {"attributes": list(said)} if is_list(said) else said
        known = {"attributes", "mechanism"}
        if not isinstance(entry, Mapping) or not {"attributes"} <= set(entry) <= known:
            raise InvalidSpecError(
                f"a table [[joint]] has attributes and a mechanism, not {shown(entry)}"
            )
        names = entry["attributes"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InvalidSpecError(
                f"attributes of [[joint]] is a list of names, not {shown(names)}"
            )
        if tuple(names) in found:
            raise InvalidSpecError(f"two tables [[joint]] are about {shown(names)}; leave one out")
        found[tuple(names)] = entry.get("mechanism", USUAL)
    return found
