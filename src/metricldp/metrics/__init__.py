"""Metrics E(x, x'): how distinguishable two values may become.

On positions, with exact distances: `Line`, `Uniform`, `Window`, `Bent`, `Sensitive` and, for
everything else, `Distances`. In the data's own words, as surveys and their files state them:
`SensitiveSet`, `Graph`, `Tree`, `DistanceMatrix` and `Relative`. `Lp` joins the distances of
several attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.text import shown
from metricldp.metrics.base import Metric
from metricldp.metrics.closed import Change, Distances, added, tightened
from metricldp.metrics.line import Line, Sensitive, Uniform
from metricldp.metrics.lp import Lp
from metricldp.metrics.relative import Relative
from metricldp.metrics.stated import DistanceMatrix, Graph, SensitiveSet, Tree
from metricldp.metrics.window import Bent, Window, capped
from metricldp.metrics.words import MetricInWords, Value

__all__ = [
    "METRICS",
    "Bent",
    "Change",
    "DistanceMatrix",
    "Distances",
    "Graph",
    "Line",
    "Lp",
    "Metric",
    "MetricInWords",
    "Relative",
    "Sensitive",
    "SensitiveSet",
    "Tree",
    "Uniform",
    "Value",
    "Window",
    "added",
    "capped",
    "from_dict",
    "tightened",
]

METRICS: dict[str, type[MetricInWords]] = {
    words.kind: words for words in (SensitiveSet, Graph, Tree, DistanceMatrix, Relative)
}


def from_dict(data: Mapping[str, Any]) -> MetricInWords:
    """A metric in words from plain data, as `to_dict` wrote it."""
    rest = dict(data)
    kind = rest.pop("kind", None)
    if kind is None:
        raise InvalidSpecError(f"a metric needs a kind; choose {', '.join(METRICS)}")
    if not isinstance(kind, str) or kind not in METRICS:
        raise InvalidSpecError(f"a metric has kind {shown(kind)}; choose {', '.join(METRICS)}")
    return METRICS[kind].from_entries(rest)
