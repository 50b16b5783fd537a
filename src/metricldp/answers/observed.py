"""What a store holds of some attributes, as reports that a distribution can be fitted to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metricldp.answers.likelihood import Kinds, Listed, Reports, Shares, Tabled
from metricldp.attributes.answered import response_of
from metricldp.basics.errors import QueryError
from metricldp.basics.text import counted, shown
from metricldp.mechanisms import Channel, IntegerChannel
from metricldp.mechanisms.joint import JointChannel, Part
from metricldp.store.base import Store
from metricldp.store.bits import Batch
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement

MOST_CELLS = 1 << 24
"""Combinations of values that a fit holds."""
_MOST_COUNTED = 1 << 25
"""Combinations of reports that are counted in a table."""
_MOST_WORK = 1 << 35
"""Reports times combinations of values where reports are gone through one by one."""
_MOST_BYTES = 1 << 31
"""Of the probabilities of all reports."""
_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Axis:
    """What is blurred by itself: an attribute, or the attributes of a block."""

    name: str
    attributes: tuple[str, ...]
    sizes: tuple[int, ...]
    channel: Channel | JointChannel
    columns: dict[Part, str]
    """Of the reports, by the part that each is; one alone is of an attribute."""
    kinds: Kinds

    @property
    def size(self) -> int:
        return math.prod(self.sizes)

    @property
    def one(self) -> IntegerChannel | None:
        """The channel whose reports can be counted in a table."""
        one = self.channel.one if isinstance(self.channel, JointChannel) else self.channel
        return one if isinstance(one, IntegerChannel) else None

    def chances(self, batch: Batch) -> Shares:
        """P(report | x) of every report up to a factor of its own, (reports, positions)."""
        if isinstance(self.channel, JointChannel):
            parts = {part: batch[column] for part, column in self.columns.items()}
            logs = self.channel.log_likelihood(parts).reshape(-1, self.size)
        else:
            logs = self.channel.log_likelihood(batch[self.name])
        return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)), dtype=np.float32)


def axes_of(survey: Agreement, attributes: object) -> tuple[Axis, ...]:
    """The axes of the attributes that a user names, in the survey's order.

    An optional attribute comes with whether it was answered, one of a block with the whole block.
    """
    if isinstance(attributes, str):
        attributes = [attributes]
    if not isinstance(attributes, Iterable):
        raise QueryError(
            "a fit is over a list of attributes, such as fit_distribution(['age', 'region']), not "
            f"{shown(attributes)}"
        )
    named: list[Any] = list(attributes)
    if not named:
        raise QueryError(
            "a fit is over at least one attribute; name some, as in fit_distribution(['age'])"
        )
    wanted: set[str] = set()
    for name in named:
        described = attribute_of(survey, name)
        if described.is_weight:
            raise QueryError(f"{name} is a weight, which has a sum and no fit; leave it out")
        wanted |= {name} if described.optional is None else {name, response_of(name)}
    found = [
        Axis(name, (name,), (channel.size,), channel, {name: name}, _kinds(survey, (name,)))
        for name, channel in survey.channels.items()
        if name in wanted
    ]
    for name, block in survey.blocks.items():
        if wanted & set(block.names):
            if not block.channel.has_likelihood:
                raise QueryError(
                    f"{', '.join(block.names)} are randomized jointly by {block.mechanism.name}, "
                    "which has no likelihood; query the tally"
                )
            kinds = _kinds(survey, block.names)
            found.append(Axis(name, block.names, block.sizes, block.channel, block.columns, kinds))
    cells = math.prod(axis.size for axis in found)
    if cells > MOST_CELLS:
        sizes = " x ".join(f"{size:,}" for axis in found for size in axis.sizes)
        raise QueryError(
            f"a fit over {sizes} has {cells:,} cells, more than {MOST_CELLS:,}; fit "
            "fewer attributes together"
        )
    return tuple(found)


def _kinds(survey: Agreement, names: Sequence[str]) -> Kinds:
    described = [survey.attributes[name] for name in names]
    return tuple((attribute.size, attribute.ordered) for attribute in described)


def observed(store: Store, axes: Sequence[Axis]) -> Reports:
    """The reports of a store over these axes: counted where they can be, else one by one."""
    channels = tuple(axis.one for axis in axes)
    known = tuple(channel for channel in channels if channel is not None)
    if len(known) == len(axes):
        outputs = math.prod(channel.outputs for channel in known)
        if outputs <= _MOST_COUNTED:
            table = store.table_of(tuple(axis.name for axis in axes))
            return Tabled(known, table.sums, tuple(axis.kinds for axis in axes))
    return _listed(store, axes)


def _listed(store: Store, axes: Sequence[Axis]) -> Listed:
    """Different reports in an order of their own, so that it does not matter how they came."""
    columns = [column for axis in axes for column in axis.columns.values()]
    batches = store.batches(columns)
    cells, positions = math.prod(axis.size for axis in axes), sum(axis.size for axis in axes)
    if store.n * cells > _MOST_WORK or 4 * store.n * positions > _MOST_BYTES:
        raise QueryError(
            f"a fit of {counted(store.n, 'report')} that are not single integers over "
            f"{cells:,} cells would take hours; fit fewer attributes, or a part of the reports"
        )
    whole = {name: np.concatenate([batch[name] for batch in batches]) for name in columns}
    raw = [np.ascontiguousarray(c).view(np.uint8).reshape(store.n, -1) for c in whole.values()]
    rows, first, counts = np.unique(
        np.concatenate(raw, axis=1), axis=0, return_index=True, return_counts=True
    )
    chances = []
    for axis in axes:
        found = np.empty((len(rows), axis.size), dtype=np.float32)
        for start in range(0, len(rows), _AT_ONCE):
            some = first[start : start + _AT_ONCE]
            batch = {column: whole[column][some] for column in axis.columns.values()}
            found[start : start + _AT_ONCE] = axis.chances(batch)
        chances.append(found)
    return Listed(tuple(chances), counts.astype(np.int64))
