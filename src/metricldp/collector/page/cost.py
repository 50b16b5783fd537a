"""An estimate of the time that a query takes, so that one address cannot occupy a server."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from metricldp.answers.conditions import attributes_in
from metricldp.answers.tally import Tally
from metricldp.basics.errors import QueryError
from metricldp.collector.page.query import Query
from metricldp.estimate.request import Request, parameters
from metricldp.mechanisms import IntegerChannel
from metricldp.mechanisms.stated import workload_of
from metricldp.store.cubes import worth_a_table
from metricldp.store.readings import attribute_of, involved
from metricldp.survey.agreement import Agreement

MOST_SECONDS = 20.0
MOST_BARS, MOST_CELLS, MOST_GROUPS, MOST_POSITIONS, MOST_ROWS = 512, 2500, 100, 1024, 4096
"""Rows of a histogram, a table of counts, other tables by group, a distribution function, and a
workload, at most: more would be too large for a page."""
_PASS, _FEATURE, _PRODUCT = 4e-8, 2.5e-8, 1.4e-9
"""Seconds for each report: of a pass over one attribute, for each of its bits, for a product."""
_WIDE, _WIDE_PASS = 256, 2e-7
"""Features from which on decoders are looked up one by one, and what that takes."""
_PAIRS = 10
"""Covariances of pairs of sums that take as long as one pass."""
_GROUP, _PAIR, _POSITION = 0.02, 1e-3, 1e-9
"""Seconds without any report: for a group, a covariance, and two positions of a quantile."""
_PASSES = {"fraction": 2, "sum": 3, "mean": 4}
_SUMS = {"variance": 3, "std": 3, "covariance": 4, "correlation": 6}
"""Sums whose covariances are estimated."""


def check_cost(tally: Tally, query: Query) -> None:
    """Raise an error if a query would take too long or have too many rows."""
    request = query.request
    request.validate(tally.survey)
    _check_rows(tally.survey, request)
    seconds = seconds_for(tally, request)
    if seconds > MOST_SECONDS:
        raise QueryError(
            f"over {tally.n:,} reports this query would take about {seconds:,.0f} seconds, more "
            f"than the {MOST_SECONDS:.0f} that are allowed; use wider bins, fewer groups or fewer "
            "conditions, or run it with the command line"
        )


def _check_rows(survey: Agreement, request: Any) -> None:
    kind, attribute = request.kind, getattr(request, "attribute", None)
    size = 1 if attribute is None else attribute_of(survey, attribute).size
    bins = getattr(request, "bins", None)
    if kind in ("histogram", "top-k"):
        _check(attribute, size if bins is None else _bands(bins, size), MOST_BARS, "bins")
    elif kind == "cdf":
        _check(attribute, size, MOST_POSITIONS, "values; use a histogram")
    elif kind == "workload":
        rows = workload_of(request.matrix, size).rows
        _check(attribute, rows, MOST_ROWS, "rows; use matrix=prefixes or '10 bars'")
    names = " and ".join(_groups(request))
    _check(names, _cells(survey, request), MOST_CELLS if kind == "count" else MOST_GROUPS, "groups")


def _check(names: Any, rows: int, most: int, what: str) -> None:
    if rows > most:
        what, _, remedy = what.partition("; ")
        raise QueryError(
            f"{names} has {rows:,} {what}, and at most {most:,} are shown; "
            f"{remedy or 'give fewer edges'}, or use the command line"
        )


def seconds_for(tally: Tally, request: Request) -> float:
    """Measured on one core; a bound for most queries."""
    survey, kind, n = tally.survey, request.kind, tally.n
    conditions = [getattr(request, name, None) for name in ("where", "among", "event")]
    compared = {name for one in conditions for name in attributes_in(one or {})}
    named = [getattr(request, name, None) for name in ("attribute", "x", "y")]
    asked = [one for some in named if some for one in ([some] if isinstance(some, str) else some)]
    if kind == "goodness-of-fit":
        asked = list(survey.channels)
    channels = [
        survey.channels.get(name) for name in involved(survey, {*compared, *_groups(request)})
    ]
    wide = any(
        c is None or (isinstance(c, IntegerChannel) and c.moments.feature_count > _WIDE)
        for c in channels
    )
    one = n * (_WIDE_PASS if wide else _PASS) * (1 + len(channels))
    opened = n * sum(_FEATURE * _bits(survey, name) for name in asked)
    cells = _cells(survey, request)
    if kind == "count" and len(_groups(request)) == 2:
        return _table_seconds(tally, request, compared, one, cells)
    size = max([attribute_of(survey, name).size for name in asked], default=1)
    positions = _POSITION * size**2 if kind in ("cdf", "quantile") else 0.0
    pairs = math.comb(_sums(survey, request, asked) + 1, 2)
    passes = _PASSES.get(kind, 1) + pairs / _PAIRS
    return cells * (_GROUP + positions + _PAIR * pairs + passes * (one + opened))


def _table_seconds(
    tally: Tally, request: Request, compared: Iterable[str], one: float, cells: int
) -> float:
    """Of the counts of all pairs of groups: from a table, or one by one."""
    survey = tally.survey
    names = involved(survey, {*compared, *_groups(request)})
    channels = [survey.channels[name] for name in names if name in survey.channels]
    if len(channels) < len(names) or not worth_a_table(channels, cells):
        return cells * one
    if all(isinstance(channel, IntegerChannel) for channel in channels):
        return tally.n * _PASS * len(channels)
    return tally.n * _PRODUCT * math.prod(channel.moments.feature_count for channel in channels)


def _sums(survey: Agreement, request: Request, asked: list[str]) -> int:
    """How many sums have their covariances estimated."""
    described = {name: attribute_of(survey, name) for name in asked}
    if request.kind == "independence":
        widths = getattr(request, "widths", None) or {}
        lengths = {name: one.size * one.grid_step for name, one in described.items()}
        bars = (
            lengths[n] / max(widths[n], 1e-9) if n in widths else described[n].size for n in asked
        )
        return math.ceil(math.prod(bars))
    if request.kind == "regression":
        columns = sum(one.size if one.named else 1 for one in described.values())
        return columns * (1 + len(asked))
    return _SUMS.get(request.kind, 0)


def _bits(survey: Agreement, name: str) -> int:
    """Features of an attribute that are read one by one."""
    return sum(
        0 if isinstance(channel, IntegerChannel) else channel.moments.feature_count
        for channel in (survey.channels.get(one) for one in involved(survey, [name]))
        if channel is not None
    )


def _groups(request: Request) -> Mapping[str, Any]:
    """The attributes of the groups, with the edges of their bands."""
    by = request.by if "by" in parameters(type(request)) else None
    if by is None:
        return {}
    return by if isinstance(by, Mapping) else dict.fromkeys([by] if isinstance(by, str) else by)


def _cells(survey: Agreement, request: Request) -> int:
    return math.prod(
        _bands(edges, attribute_of(survey, name).size) for name, edges in _groups(request).items()
    )


def _bands(edges: Any, size: int) -> int:
    if edges is None:
        return size
    return len(edges) - 1 if isinstance(edges, list) else min(int(edges), size)
