"""What "auto" takes: the mechanism with the smallest error, settled when a survey is made."""

from __future__ import annotations

import contextlib
from typing import Any

from metricldp.basics.errors import CertificateError, SurveyError
from metricldp.design.registry import build
from metricldp.metrics import Metric

MAX_UNARY_BITS = 256
"""Bits of a report that nobody asked for: with more values unary encoding has to be asked for."""


def choose(size: int, metric: Metric, *, ordered: bool = False) -> str:
    """The smallest mean variance of a range, or of a frequency where there is no order.

    People are spread evenly. On a line it is geometric or threshold; without an order response,
    tents or, up to 256 values, unary, and where all distances are the same always response. On
    ordered values with another metric all of them compete, and where it depends on the difference
    alone shaped noise.
    """
    ordered = ordered or metric.is_line
    if not ordered and metric.is_uniform:
        return "response"
    names = ["geometric", "threshold"] if ordered else []
    if not metric.is_line:
        names += ["response", "unary"] if size <= MAX_UNARY_BITS else ["response"]
        names += ["tents"] if metric.by_difference(size) is None else ["shaped"]
    if len(names) == 1:
        return names[0]
    found = {}
    for name in names:
        with contextlib.suppress(CertificateError, SurveyError):  # not for this metric
            channel: Any = build(name, size, metric)
            mean = channel.mean_range_variance if ordered else channel.mean_frequency_variance
            found[name] = mean()
    return min(found, key=lambda name: found[name]) if found else names[0]
