"""Sums of metrics: what several reports about the same value give away together (appendix B)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from metricldp.basics.errors import SurveyError
from metricldp.metrics.base import Integers, Metric
from metricldp.metrics.closed import MOST_POSITIONS, Distances, common_unit, kind_for
from metricldp.metrics.line import Line, Uniform
from metricldp.metrics.sensitive import Sensitive


def added(metrics: Sequence[Metric], size: int) -> Metric:
    """E = E_1 + E_2 + ..., a metric again: the triangle inequalities add up."""
    first = metrics[0]
    for family in (Line, Uniform, Sensitive):
        alike = [metric for metric in metrics if isinstance(metric, family)]
        if len(alike) == len(metrics) and len({_form(metric) for metric in alike}) == 1:
            return first.scaled(sum((m.step for m in alike), Fraction(0)) / alike[0].step)
    if size > MOST_POSITIONS:
        raise SurveyError(
            f"metrics of different kinds are added up for {MOST_POSITIONS:,} positions at most, "
            f"not {size:,}"
        )
    tables = [metric.whole(size) for metric in metrics]
    unit = common_unit(part for _, part in tables)
    largest = sum(int(numbers.max()) * int(part / unit) for numbers, part in tables)
    total: Integers = np.zeros((size, size), dtype=kind_for(largest))
    for numbers, part in tables:
        total += numbers.astype(total.dtype) * int(part / unit)
    return Distances.of(total, unit)


def _form(metric: Line | Uniform | Sensitive) -> object:
    """What two metrics of a family must share to be multiples of each other."""
    return metric.places if isinstance(metric, Sensitive) else None
