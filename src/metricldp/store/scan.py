"""The layout "reports": one pass over the reports for every question, and no table kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from metricldp.mechanisms import Channel, Floats, Integers
from metricldp.store.bits import Batch, Counts
from metricldp.store.readings import Part, Reading, Readings

MAX_JOINT_CODES = 1 << 16
"""Up to this many joint codes are counted as integers; beyond, products are summed as floats."""
MAX_OPENED = 1 << 22
"""Up to this many sums one attribute is left open; with more, going report by report is faster."""
_POWERS = {"value": 1, "second": 2, "square": 2}
"""The power that a public weight enters each row with."""


class JointCodes(NamedTuple):
    """One small code for all attributes of a report together."""

    table: Floats
    """The product of all decoders at each code, (rows, codes)."""
    read: Callable[[Batch], Integers]
    """The code of each report of a batch."""


class Weights(NamedTuple):
    """A public weight of each report, and the power it enters each row with."""

    name: str
    powers: tuple[int, ...]

    @classmethod
    def of(cls, name: str, readings: Readings) -> Weights:
        return cls(name, tuple(_POWERS[row] for row in readings.rows))


def from_reports(
    batches: Iterable[Batch], readings: Readings, weight: str | Weights | None = None
) -> Floats:
    """All sums in one pass over the reports, exact wherever codes can be counted.

    With the name of a public weight, every report counts as much as its weight says.
    """
    batches, parts, rows = list(batches), readings.parts, readings.count
    weights = Weights.of(weight, readings) if isinstance(weight, str) else weight
    codes = joint_codes(parts, rows)
    if codes is not None:
        table, read = codes
        counts = sum(_count(read(b), table.shape[1], b, weights) for b in batches)
        return np.asarray((table * counts).sum(axis=1))
    # One attribute with too many codes is left open: all its features are summed instead.
    wide = max(
        (r for r in parts if isinstance(r, Reading)),
        key=lambda r: math.inf if r.levels() is None else r.channel.moments.feature_count,
        default=None,
    )
    rest = [r for r in parts if r is not wide]
    if wide is not None and weights is None:
        codes = joint_codes(rest, rows)
        if (
            codes is not None
            and codes.table.shape[1] * wide.channel.moments.feature_count <= MAX_OPENED
        ):
            sums = codes.table @ feature_sums(batches, codes, wide.name, wide.channel).T
            return np.asarray((wide.coefficients * sums).sum(axis=1))
    return _in_floats(batches, parts, rows, weights)


def _count(codes: Integers, size: int, batch: Batch, weights: Weights | None) -> Floats:
    """How many reports, or how much weight, at each code: one row for each row of the readings."""
    if weights is None:
        return np.bincount(codes, minlength=size)[None].astype(np.float64)
    plain = batch[weights.name]
    places = codes.astype(np.intp)  # bincount would do it again for each power
    raised = {
        power: np.bincount(places, plain if power == 1 else plain**power, size)
        for power in set(weights.powers)
    }
    return np.stack([raised[power] for power in weights.powers])


def opened(batches: Iterable[Batch], readings: Readings, name: str, channel: Channel) -> Floats:
    """Sums of every feature of one attribute times the others' decoders: (count, features)."""
    rows = readings.count
    codes = joint_codes(readings.parts, rows)
    if codes is not None:
        return np.asarray(codes.table @ feature_sums(batches, codes, name, channel).T)
    identity = np.eye(channel.moments.feature_count)
    result = np.zeros((rows, channel.moments.feature_count))
    for batch in batches:
        rest = _products(batch, readings.parts, rows)
        for start in range(0, channel.moments.feature_count, 16):
            features = channel.values(batch[name], identity[start : start + 16])
            result[:, start : start + 16] += rest @ features.T
    return result


def feature_sums(
    batches: Iterable[Batch], codes: JointCodes, name: str, channel: Channel
) -> Counts:
    """Sums of every feature of one attribute over the reports of each code: (features, codes)."""
    size = codes.table.shape[1]
    sums = np.zeros((channel.moments.feature_count, size), dtype=np.int64)
    for batch in batches:
        sums += channel.totals(batch[name], codes.read(batch), size)
    return sums


def joint_codes(readings: Sequence[Part], rows: int) -> JointCodes | None:
    """Codes that tell apart whatever the decoders tell apart; None where they would be too many.

    Counting codes is exact, so an answer depends on the reports but not on their order.
    """
    table = np.ones((rows, 1))
    found = []
    for reading in readings:
        levels = reading.levels()
        if levels is None or table.shape[1] * levels.table.shape[1] > MAX_JOINT_CODES:
            return None
        table = (table[:, :, None] * levels.table[:, None, :]).reshape(rows, -1)
        found.append((reading.name, levels))

    def read(batch: Batch) -> Integers:
        size = len(next(iter(batch.values())))
        codes: Integers = np.zeros(size, dtype=np.min_scalar_type(table.shape[1]))
        for name, levels in found:
            codes *= codes.dtype.type(levels.table.shape[1])
            codes += levels.codes(batch[name]).astype(codes.dtype)
        return codes

    return JointCodes(table, read)


def _in_floats(
    batches: Iterable[Batch],
    readings: Sequence[Part],
    rows: int,
    weights: Weights | None,
) -> Floats:
    """Products of decoders, report by report; the batches' sums are added without rounding."""
    sums = []
    for batch in batches:
        products = _products(batch, readings, rows, weights)
        # One report after the other, so that the sum of a batch does not depend on the machine.
        sums.append(np.cumsum(products, axis=1)[:, -1])
    return np.array([math.fsum(part[row] for part in sums) for row in range(rows)])


def report_by_report(batch: Batch, readings: Readings) -> dict[str, Floats]:
    """What each report adds to every sum, by the name of the row: (queries, reports) each."""
    return readings.named(_products(batch, readings.parts, readings.count))


def _products(
    batch: Batch, readings: Sequence[Part], rows: int, weights: Weights | None = None
) -> Floats:
    if weights is None:
        products = np.ones((rows, len(next(iter(batch.values())))))
    else:
        products = np.stack([batch[weights.name] ** power for power in weights.powers])
    if readings:
        tables, places = _factors(batch, readings)
        for place in places:
            products *= tables.take(place, axis=1)
    return products


def _factors(batch: Batch, readings: Sequence[Part]) -> tuple[Floats, Counts]:
    """The decoders' values side by side, (rows, entries), and where each report finds its own."""
    tables, places, start = [], [], 0
    for reading in readings:
        levels = reading.levels()
        if levels is None:
            tables.append(reading.values(batch))
            places.append(np.arange(start, start + tables[-1].shape[1]))
        else:
            tables.append(levels.table)
            places.append(levels.codes(batch[reading.name]).astype(np.int64) + start)
        start += tables[-1].shape[1]
    return np.concatenate(tables, axis=1), np.stack(places)
