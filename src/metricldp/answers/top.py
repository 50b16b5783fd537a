"""The most frequent values of an attribute, and which of their ranks are certain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_whole
from metricldp.basics.text import shown
from metricldp.estimate.table import EstimateTable, Grouping

CERTAIN = "its rank is certain at 95%"
COMPLETE = "no other value is among these, at 95%"
INCOMPLETE = "other values may be among these"


class TopK(EstimateTable):
    """The values with the largest counts, the largest first, with simultaneous intervals.

    A rank is certain if the value's interval is apart from those of all other values. All ranks
    that are called certain are so together, at that level.
    """

    _simultaneous = True


def top_k(counts: EstimateTable, k: int) -> TopK:
    """The k rows of a histogram with the largest estimates, at most all of them."""
    (grouping,) = counts.groupings
    if not is_whole(k) or k < 1:
        raise QueryError(f"top_k takes a number of values, at least 1, not {shown(k)}")
    # Not `counts.values`: those are NaN if a single report says nothing about a population.
    unbiased = np.array([one.value for one in counts._estimates])
    order = np.argsort(-unbiased, kind="stable")[: int(k)].tolist()
    low, high = counts.confidence_interval(simultaneous=True)
    estimates = []
    for row in order:
        others = np.arange(len(low)) != row
        apart = (high[others] < low[row]) | (low[others] > high[row])
        notes = [CERTAIN] if apart.all() else []
        one = counts.iloc[row]
        estimates.append(replace(one, notes=(*one.notes, *notes)))
    rest = np.full(len(low), True)
    rest[order] = False
    if rest.any():
        note = COMPLETE if high[rest].max() < low[order].min() else INCOMPLETE
        estimates = [replace(one, notes=(*one.notes, note)) for one in estimates]
    keys, texts = ([part[row] for row in order] for part in (grouping.keys, grouping.texts))
    chosen = Grouping(grouping.name, keys, texts, grouping.categories)
    label = f"most frequent values of {counts.label.removeprefix('respondents by ')}"
    return TopK([chosen], estimates, label=label, family=len(counts))
