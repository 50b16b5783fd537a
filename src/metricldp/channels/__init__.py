"""The channels by name, and the open choice that `mechanism="auto"` stands for."""

from __future__ import annotations

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
from metricldp.metrics import Line, Metric

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
    "Matrix",
    "Response",
    "Threshold",
    "ThresholdDummy",
    "ThresholdPaper",
    "build",
    "choose",
]

_WITH_EPSILON: dict[str, type[Threshold] | type[Geometric] | type[Response]] = {
    "threshold": Threshold,
    "threshold-paper": ThresholdPaper,
    "threshold-dummy": ThresholdDummy,
    "geometric": Geometric,
    "response": Response,
}
CHANNELS: dict[str, type[Channel]] = {**_WITH_EPSILON, "matrix": Matrix}


def build(mechanism: str, size: int, metric: Metric) -> Channel:
    """The channel of that name for `size` positions, with the largest epsilon that keeps a metric.

    Response treats all pairs alike and keeps the smallest distance; the others keep epsilon per
    step on a line, the steepest that stays below the metric. The matrix mechanism of a survey has a
    plan of its own (see `plans`); here it has none.
    """
    if mechanism == "matrix":
        return Matrix.plain(size, metric)
    kept = metric.smallest(size) if mechanism == "response" else metric.per_step(size)
    return _WITH_EPSILON[mechanism].for_epsilon(size, min(kept, LARGEST_EPSILON))


def choose(size: int, metric: Metric) -> str:
    """What "auto" takes: on a line, the smaller mean variance over all ranges, uniform people.

    On any other metric it is response.
    """
    if not isinstance(metric, Line):
        return "response"
    epsilon = min(metric.step, LARGEST_EPSILON)
    geometric = Geometric.for_epsilon(size, epsilon).mean_range_variance()
    threshold = Threshold.for_epsilon(size, epsilon).mean_range_variance()
    return "geometric" if geometric <= threshold else "threshold"
