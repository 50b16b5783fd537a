"""Mechanisms by name: the channel that each stands for, and the choice that "auto" leaves open."""

from __future__ import annotations

from collections.abc import Sequence

from metricldp import peers
from metricldp.channels import (
    LARGEST_EPSILON,
    Channel,
    Geometric,
    Losses,
    Matrix,
    Response,
    Threshold,
    ThresholdDummy,
    ThresholdPaper,
    Unary,
    best_losses,
)
from metricldp.metrics import Line, Metric, Uniform

_MOST_OF_AUTO = 256
"""Bits of a report that nobody asked for: with more values unary encoding has to be asked for."""

_ON_A_LINE: dict[str, type[Threshold] | type[Geometric]] = {
    "threshold": Threshold,
    "threshold-paper": ThresholdPaper,
    "threshold-dummy": ThresholdDummy,
    "geometric": Geometric,
}
MECHANISMS: tuple[str, ...] = (
    *_ON_A_LINE,
    "response",
    "unary",
    "matrix",
    *peers.PEERS,
    *peers.ON_A_LINE,
)


def build(
    mechanism: str, size: int, metric: Metric, losses: Sequence[Losses] | None = None
) -> Channel:
    """The channel of that name for `size` positions, with the largest epsilon that keeps a metric.

    Unary keeps the metric as it is, with the losses that were settled or else the best. Response
    and most peers treat all pairs alike and keep the smallest distance; the others keep epsilon per
    step on a line, the steepest that stays below the metric. The matrix mechanism of a survey has
    a plan of its own (see `plans`); here it has none.
    """
    if mechanism == "matrix":
        return Matrix.plain(size, metric)
    if mechanism == "unary":
        return Unary.for_losses(losses or best_losses(metric, size))
    if mechanism in _ON_A_LINE:
        epsilon = min(metric.per_step(size), LARGEST_EPSILON)
        return _ON_A_LINE[mechanism].for_epsilon(size, epsilon)
    if mechanism in peers.ON_A_LINE:
        epsilon = min(metric.per_step(size), LARGEST_EPSILON)
        return peers.ON_A_LINE[mechanism](size, epsilon)
    epsilon = min(metric.smallest(size), LARGEST_EPSILON)
    if mechanism == "response":
        return Response.for_epsilon(size, epsilon)
    return peers.build(mechanism, size, epsilon)


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
    geometric = Geometric.for_epsilon(size, epsilon).mean_range_variance()
    threshold = Threshold.for_epsilon(size, epsilon).mean_range_variance()
    return "geometric" if geometric <= threshold else "threshold"
