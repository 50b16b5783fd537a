"""Mechanisms by name: the channel that each stands for, and the choice that "auto" leaves open."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from metricldp.attributes.base import ORACLES, RANGE_PEERS
from metricldp.basics.errors import CertificateError
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
    *ORACLES,
    *RANGE_PEERS,
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
    if mechanism == "response":
        return Response.for_epsilon(size, min(metric.smallest(size), LARGEST_EPSILON))
    from metricldp.lab import peers

    on_line = mechanism in peers.ON_A_LINE
    kept = metric.per_step(size) if on_line else metric.smallest(size)
    return peers.build(mechanism, size, min(kept, LARGEST_EPSILON))


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
