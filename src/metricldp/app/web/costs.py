"""How long a question will take, about, so that one address cannot hold a server for minutes."""

from __future__ import annotations

import math

from metricldp.answers import queries
from metricldp.answers.quick import Quick
from metricldp.app.web.asked import GROUPS, HEATMAP, Asked
from metricldp.basics.errors import QueryError
from metricldp.store.cubes import table_bytes
from metricldp.store.readings import involved

MOST_SECONDS = 20.0
_MOST_BYTES = 1 << 26
"""Of a table that is kept for a heat map."""
_PASS, _FEATURE, _PRODUCT = 4e-8, 2.5e-8, 1.4e-9
"""Seconds for each report: of a pass over one attribute, for each of its bits, for a product."""
_WIDE, _WIDE_PASS = 256, 2e-7
"""Features from which on decoders are looked up one by one, and what that takes."""


def check_cost(tally: Quick, asked: Asked) -> None:
    """Refuse what would take too long, with what would not."""
    seconds = seconds_for(tally, asked)
    if seconds > MOST_SECONDS:
        raise QueryError(
            f"over {tally.n:,} reports this would take about {seconds:,.0f} seconds, and an "
            f"address may take {MOST_SECONDS:.0f}; ask for wider bars or fewer conditions, or run "
            "it with the command line"
        )


def seconds_for(tally: Quick, asked: Asked) -> float:
    """From what passes over the reports took on one core."""
    names = [name for name in (asked.attribute, asked.by) if name in tally.survey.attributes]
    group = queries.parse(tally.survey, asked.where).factors
    one = tally.n * _PASS * (1 + len(involved(tally.survey, group)))
    if asked.name == HEATMAP:
        return min(_by_table(tally, asked), _by_cells(tally, asked))
    if asked.name == GROUPS and names:
        measured = [c for name, c in tally.survey.channels.items() if name == asked.of]
        one = 4 * one + tally.n * sum(_FEATURE * c.features for c in measured if not c.cumulates)
        return one * _bars(tally, asked.by, asked.by_width)
    opened = [tally.survey.channels[name] for name in names[:1] if name in tally.survey.channels]
    if asked.name in ("histogram", "cdf", "quantile", "linear"):
        one += tally.n * sum(0.0 if c.cumulates else _FEATURE * c.features for c in opened)
    return one


def table_is_best(tally: Quick, asked: Asked) -> bool:
    """Whether a heat map is found sooner from a table than cell by cell."""
    return _by_table(tally, asked) <= _by_cells(tally, asked)


def _by_table(tally: Quick, asked: Asked) -> float:
    group = queries.parse(tally.survey, asked.where).factors
    names = involved(tally.survey, (*group, asked.attribute, asked.by))
    if not all(name in tally.survey.channels for name in names):
        return math.inf
    channels = [tally.survey.channels[name] for name in names]
    if table_bytes(channels) > _MOST_BYTES:
        return math.inf
    if all(channel.cumulates for channel in channels):
        return tally.n * _PASS * len(channels)
    return tally.n * _PRODUCT * math.prod(channel.features for channel in channels)


def _by_cells(tally: Quick, asked: Asked) -> float:
    group = queries.parse(tally.survey, asked.where).factors
    sides = ((asked.attribute, asked.width), (asked.by, asked.by_width))
    cells = math.prod(_bars(tally, name, width) for name, width in sides)
    names = involved(tally.survey, (*group, asked.attribute, asked.by))
    channels = [tally.survey.channels.get(name) for name in names]
    wide = any(c is None or (c.cumulates and c.features > _WIDE) for c in channels)
    return cells * tally.n * (_WIDE_PASS * len(names) if wide else _PASS)


def _bars(tally: Quick, name: str, width: float | None) -> int:
    if name not in tally.survey.attributes:
        return 1
    return sum(1 for _ in tally.survey.attributes[name].bars(width, name))
