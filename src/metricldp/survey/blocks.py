"""Blocks: attributes of a survey that are blurred together, by one joint channel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, cast

from metricldp.attributes.base import Attribute
from metricldp.basics.checks import is_list
from metricldp.basics.errors import CertificateError, InvalidSpecError
from metricldp.basics.text import guess, listed, shown
from metricldp.mechanisms import registry
from metricldp.mechanisms.additive_channel import AdditiveChannel
from metricldp.mechanisms.base import Mechanism
from metricldp.mechanisms.fields import Field
from metricldp.mechanisms.joint import JointChannel, JointMechanism, Part
from metricldp.mechanisms.joint_cells import Cells
from metricldp.mechanisms.joint_design import MARGINS
from metricldp.mechanisms.matrix import checked_prior, said_workload
from metricldp.mechanisms.stored import channel_of, check_kind
from metricldp.mechanisms.table import Table
from metricldp.metrics import Lp, Metric
from metricldp.metrics.closed import common_unit
from metricldp_core import manifest as core
from metricldp_core import metrics as core_metrics
from metricldp_core.distributions import SUPPORTED, Distribution

USUAL = "additive"
"""What blurs attributes together where nothing is said."""
_NO_GROUP = "joint= lists groups, such as [['x', 'y']], each of two attributes or more, not {}"


@dataclass(frozen=True)
class Block:
    """Some attributes, what blurs them together, and what it keeps."""

    names: tuple[str, ...]
    mechanism: JointMechanism
    metrics: tuple[Metric, ...]
    """The distances of each attribute that the channel was made for."""
    channel: JointChannel

    @classmethod
    def of(
        cls,
        mechanism: JointMechanism,
        attributes: Mapping[str, Attribute],
        share: Fraction,
        norm: Lp,
        stored: Distribution | None = None,
    ) -> Block:
        """The block of these attributes, their distances shrunk by the share of a norm."""
        told = f"the joint attributes {', '.join(attributes)}"
        for name, attribute in attributes.items():
            if attribute.is_public or attribute.is_weight or attribute.rounded_at_random:
                kind = "weight" if attribute.is_weight else "rounded at random"
                raise InvalidSpecError(
                    f"{told}: {name} is {kind}; integer, continuous, ordinal and "
                    "categorical attributes can be in a group"
                )
            if attribute.optional is not None:
                raise InvalidSpecError(
                    f"{told}: {name} is optional; remove optional, or randomize {name} alone"
                )
            if attribute.undecided:
                raise InvalidSpecError(f"{told}: state the number of bins of {name}")
            if attribute.mechanism != registry.AUTO:
                raise InvalidSpecError(
                    f"{told}: {name} has a mechanism of its own, {shown(attribute.mechanism)}; "
                    "remove it"
                )
        sizes = tuple(attribute.size for attribute in attributes.values())
        metrics = tuple(attribute.distances.scaled(share) for attribute in attributes.values())
        try:
            mechanism = mechanism.about(attributes, share)
            if norm.p > (most := mechanism.largest_norm):
                what = "joint attributes" if most == 2 else mechanism.name
                raise InvalidSpecError(f"a survey with {what} has a norm with p up to {most}")
            if stored is not None:
                check_kind(mechanism.name, stored, sizes)
                check_settings(mechanism, math.prod(sizes))
                mechanism = cast(JointMechanism, mechanism.restored(stored))
                one = cast(
                    Table | AdditiveChannel, channel_of(stored, getattr(mechanism, "prior", None))
                )
                return cls(tuple(attributes), mechanism, metrics, Cells(sizes, one))
            mechanism = mechanism.decided(attributes)
            channel = mechanism.joined(sizes, metrics, [a.ordered for a in attributes.values()])
        except (CertificateError, InvalidSpecError) as wrong:
            raise InvalidSpecError(f"{told}: {wrong}") from None
        return cls(tuple(attributes), mechanism, metrics, channel)

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

    def kept(self, name: str) -> Metric:
        """What is kept for two people who differ in one attribute alone."""
        return self.mechanism.margins(self.sizes, self.metrics)[self.names.index(name)]

    @property
    def diameter(self) -> Fraction:
        """What is kept for two people at opposite ends of everything."""
        ends = [m.farthest(size) for m, size in zip(self.metrics, self.sizes, strict=True)]
        x, other = (tuple(pair[side] for pair in ends) for side in (0, 1))
        return self.mechanism.distance(self.sizes, self.metrics, x, other)

    def core_field(self, attributes: Mapping[str, Attribute]) -> core.Field:
        """The part of a report as the core has it."""
        domains = tuple(attribute.domain_of(name) for name, attribute in attributes.items())
        return core.Field(domains, self.core_metric, self.channel.distribution)

    @cached_property
    def core_metric(self) -> core_metrics.Metric:
        """What is guaranteed on cells.

        A baseline without a grid has one distance for all pairs, or one for each number of steps.
        """
        grid, size = self.mechanism.grid, math.prod(self.sizes)
        if grid is not None:
            return grid.to_core(size)
        if self.channel.distribution.invariance == "all":
            return core_metrics.Uniform(size, self.diameter)
        start = (0,) * len(self.sizes)
        steps = [step for step in product(*map(range, self.sizes)) if math.gcd(*step) == 1]
        if self.mechanism.adds_up:
            steps = [step for step in steps if sum(step) == 1]
        apart = [self.mechanism.distance(self.sizes, self.metrics, start, step) for step in steps]
        unit = common_unit(apart)
        lengths = tuple(int(distance / unit) for distance in apart)
        return core_metrics.Grid(self.sizes, unit, tuple(steps), lengths)

    def to_dict(self) -> dict[str, Any]:
        stored = self.channel.distribution
        if stored.kind not in SUPPORTED:
            return {"mechanism": self.mechanism.to_dict()}
        return {"mechanism": self.mechanism.settings(), "distribution": stored.to_data()}


def check_settings(mechanism: Mechanism, size: int) -> None:
    """Reject a workload or a prior of a survey file that does not exist or does not fit."""
    workload = mechanism.workload
    if not isinstance(workload, str) or workload != MARGINS:
        said_workload(workload, size)
    checked_prior(getattr(mechanism, "prior", None), size)


def blocks_of(
    joint: Any, attributes: Mapping[str, Attribute]
) -> dict[tuple[str, ...], JointMechanism]:
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
    found: dict[tuple[str, ...], JointMechanism] = {}
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
        mechanism = registry.mechanism(said, joint=True)
        if not isinstance(mechanism, JointMechanism):
            raise InvalidSpecError(
                f"mechanism {mechanism.name!r} randomizes one attribute; name it there, not in "
                "joint="
            )
        found[ordered] = mechanism
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
