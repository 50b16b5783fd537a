"""The channels by name, and the open choice that `mechanism="auto"` stands for."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from metricldp.channels.base import (
    LARGEST_EPSILON,
    BitChannel,
    Channel,
    Clear,
    Column,
    Field,
    Floats,
    IntegerChannel,
    Integers,
)
from metricldp.channels.geometric import Geometric
from metricldp.channels.matrix import Matrix
from metricldp.channels.response import Response
from metricldp.channels.threshold import Threshold
from metricldp.channels.threshold_dummy import ThresholdDummy
from metricldp.channels.threshold_paper import ThresholdPaper
from metricldp.channels.unary import Unary
from metricldp.channels.unary_losses import Losses, best_losses, kept_by, too_near
from metricldp.errors import CertificateError
from metricldp.metrics import Line, Metric, Uniform

__all__ = [
    "CHANNELS",
    "LARGEST_EPSILON",
    "BitChannel",
    "Channel",
    "Clear",
    "Column",
    "Field",
    "Floats",
    "Geometric",
    "IntegerChannel",
    "Integers",
    "Losses",
    "Matrix",
    "Response",
    "Threshold",
    "ThresholdDummy",
    "ThresholdPaper",
    "Unary",
    "best_losses",
    "build",
    "choose",
    "kept_by",
    "too_near",
]

_MOST_OF_AUTO = 256
"""Bits of a report that nobody asked for: with more values unary encoding has to be asked for."""

_WITH_EPSILON: dict[str, type[Threshold] | type[Geometric] | type[Response]] = {
    "threshold": Threshold,
    "threshold-paper": ThresholdPaper,
    "threshold-dummy": ThresholdDummy,
    "geometric": Geometric,
    "response": Response,
}
CHANNELS: dict[str, type[Channel]] = {**_WITH_EPSILON, "unary": Unary, "matrix": Matrix}


def build(
    mechanism: str, size: int, metric: Metric, losses: Sequence[Losses] | None = None
) -> Channel:
    """The channel of that name for `size` positions, with the largest epsilon that keeps a metric.

    Unary keeps the metric as it is, with the losses that were settled or else the best. Response
    treats all pairs alike and keeps the smallest distance; the others keep epsilon per step on a
    line, the steepest that stays below the metric. The matrix mechanism of a survey has a plan of
    its own (see `plans`); here it has none.
    """
    if mechanism == "matrix":
        return Matrix.plain(size, metric)
    if mechanism == "unary":
        return Unary.for_losses(losses or best_losses(metric, size))
    kept = metric.smallest(size) if mechanism == "response" else metric.per_step(size)
    return _WITH_EPSILON[mechanism].for_epsilon(size, min(kept, LARGEST_EPSILON))


def choose(size: int, metric: Metric, *, ordered: bool = False) -> str:
    """What "auto" takes: the smallest mean variance of a range, or of a frequency without an order.

    People are spread evenly. On a line it is geometric or threshold; without an order response or,
    up to 256 values, unary, and where all pairs are alike always response. On ordered values with
    another metric all four compete.
    """
    ordered = ordered or isinstance(metric, Line)
    if not ordered and isinstance(metric, Uniform):
        return "response"
    names = ["geometric", "threshold"] if ordered else []
    if not isinstance(metric, Line):
        names += ["response", "unary"] if size <= _MOST_OF_AUTO else ["response"]
    if len(names) == 1:
        return names[0]
    found = {}
    for name in names:
        with contextlib.suppress(CertificateError):  # too small an epsilon for this one
            channel: Any = build(name, size, metric)
            mean = channel.mean_range_variance if ordered else channel.mean_frequency_variance
            found[name] = mean()
    return min(found, key=lambda name: found[name]) if found else names[0]
