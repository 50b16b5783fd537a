"""How long a question will take, about, so that one address cannot hold a server for minutes."""

from __future__ import annotations

import math

from metricldp.answers import queries
from metricldp.answers.quick import Quick
from metricldp.app.web.asked import GROUPS, HEATMAP, Asked
from metricldp.basics.errors import QueryError
from metricldp.channels.base import Channel
from metricldp.store.readings import involved

MOST_SECONDS = 20.0
_PASS, _FEATURE, _PRODUCT = 1.2e-7, 1.2e-8, 1.4e-9
"""Seconds for each report: of a pass over one attribute, for each of its bits, for a product."""


def check_cost(tally: Quick, asked: Asked) -> None:
    """Refuse what would take too long, with what would not."""
    seconds = seconds_for(tally, asked)
    if seconds > MOST_SECONDS:
        raise QueryError(
            f"over {tally.n:,} reports this would take about {seconds:,.0f} seconds, and an "
            f"address may take {MOST_SECONDS:.0f}; ask about one attribute with the others as "
            "conditions, or run it with the command line"
        )


def seconds_for(tally: Quick, asked: Asked) -> float:
    """From what passes over the reports took on one core."""
    names = [name for name in (asked.attribute, asked.by) if name in tally.survey.channels]
    others = len(involved(tally.survey, queries.parse(tally.survey, asked.where).factors))
    each = tally.n * _PASS * (1 + others)
    if asked.name == HEATMAP:
        if all(name in tally.survey.channels for name in (asked.attribute, asked.by)):
            return each + tally.n * _table([tally.survey.channels[name] for name in names])
        return each * 400
    if asked.name == GROUPS:
        return each * 24
    return each + tally.n * sum(_opened(tally.survey.channels[name]) for name in names[:1])


def _opened(channel: Channel) -> float:
    return 0.0 if channel.cumulates else _FEATURE * channel.features


def _table(channels: list[Channel]) -> float:
    if all(channel.cumulates for channel in channels):
        return _PASS
    return _PRODUCT * math.prod(channel.features for channel in channels)
