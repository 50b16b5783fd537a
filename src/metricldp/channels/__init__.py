"""The channels by name, and the open choice that `mechanism="auto"` stands for."""

from __future__ import annotations

from collections.abc import Sequence

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
from metricldp.channels.unary_losses import Losses, best_losses, too_near
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


def kept_by(channel: Channel, metric: Metric) -> Metric:
    """What a channel built for a metric keeps: no more than it, and on a few kinds less.

    Where all pairs are told apart alike that is the smallest distance; on a line, the steepest
    that stays below the metric.
    """
    if channel.alike:
        return Uniform(metric.smallest(channel.size))
    if channel.mechanism in _WITH_EPSILON and not isinstance(metric, Line):
        return Line(metric.per_step(channel.size))
    return metric


def choose(size: int, metric: Metric) -> str:
    """What "auto" takes: on a line, the smaller mean variance over all ranges, uniform people.

    On other metrics it is response, or unary where that has the smaller mean variance of a
    frequency; where all pairs are alike, and of many values, always response.
    """
    if isinstance(metric, Uniform) or (not isinstance(metric, Line) and size > _MOST_OF_AUTO):
        return "response"
    if not isinstance(metric, Line):
        response = Response.for_epsilon(size, min(metric.smallest(size), LARGEST_EPSILON))
        unary = Unary.for_losses(best_losses(metric, size))
        better = unary.mean_frequency_variance() < response.mean_frequency_variance()
        return "unary" if better else "response"
    epsilon = min(metric.step, LARGEST_EPSILON)
    threshold = Threshold.for_epsilon(size, epsilon).mean_range_variance()
    try:
        geometric = Geometric.for_epsilon(size, epsilon).mean_range_variance()
    except CertificateError:  # bits can keep a smaller epsilon
        return "threshold"
    return "geometric" if geometric <= threshold else "threshold"
