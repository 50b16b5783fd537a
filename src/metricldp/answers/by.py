"""Groups of respondents: the values or bands of one attribute or two, as rows of a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from metricldp.answers.conditions import Where, all_of, attributes_in, none_of
from metricldp.attributes.base import Attribute
from metricldp.attributes.selection import Chosen
from metricldp.basics.checks import is_list
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number, is_whole
from metricldp.basics.text import shown
from metricldp.estimate.table import Grouping
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement

By = str | Sequence[str] | Mapping[str, Any]
"""An attribute, two of them, or attributes with the edges of their bands."""
MOST_GROUPS = 4096


@dataclass(frozen=True)
class Bars:
    """The groups along one attribute."""

    name: str
    described: Attribute
    chosen: tuple[Chosen, ...]
    keys: tuple[Any, ...]
    """The value of each group, or (low, high) of a band."""

    @cached_property
    def grouping(self) -> Grouping:
        texts = [bar.words for bar in self.chosen]
        return self._grouping(list(self.keys), texts, self.edges)

    @property
    def edges(self) -> tuple[float, ...] | None:
        found = self.described.edges_of(self.chosen)
        return None if found is None else tuple(found)

    def repeated(self, times: int, tiled: int) -> Grouping:
        """Each group several times in a row, and all of them several times over."""
        keys = [key for key in self.keys for _ in range(times)] * tiled
        texts = [bar.words for bar in self.chosen for _ in range(times)] * tiled
        return self._grouping(keys, texts, self.edges)

    def _grouping(self, keys: list[Any], texts: list[str], edges: Any) -> Grouping:
        levels = getattr(self.described, "levels", None)
        return Grouping(self.name, keys, texts, None if levels is None else tuple(levels), edges)

    @property
    def notes(self) -> list[str]:
        return list(dict.fromkeys(bar.note for bar in self.chosen if bar.note))


@dataclass(frozen=True)
class Cells:
    """The groups of a table, row by row."""

    bars: tuple[Bars, ...]

    @cached_property
    def groupings(self) -> list[Grouping]:
        if len(self.bars) == 1:
            return [self.bars[0].grouping]
        rows, columns = self.bars
        many = len(rows.chosen), len(columns.chosen)
        return [rows.repeated(many[1], 1), columns.repeated(1, many[0])]

    @cached_property
    def clauses(self) -> list[dict[str, Chosen]]:
        """Each group as a condition."""
        if len(self.bars) == 1:
            return [{self.bars[0].name: bar} for bar in self.bars[0].chosen]
        rows, columns = self.bars
        return [{rows.name: a, columns.name: b} for a in rows.chosen for b in columns.chosen]

    def within(self, where: Where | None) -> list[Where]:
        """Each group, among the respondents who meet a condition."""
        if where is None:
            return list(self.clauses)
        if isinstance(where, Mapping):
            return [{**where, **clause} for clause in self.clauses]
        return [all_of(where, clause) for clause in self.clauses]

    def outside(self, where: Where | None, row: int) -> Where:
        """Everyone else who meets the condition."""
        rest = none_of(self.clauses[row])
        return rest if where is None else all_of(where, rest)


def cells(survey: Agreement, by: By, where: Where | None, target: str | None = None) -> Cells:
    """The groups that attributes make, which neither `where` nor the query is about."""
    found = []
    for name, edges in _edges(by).items():
        described = attribute_of(survey, name)
        if described.is_weight:
            raise QueryError(f"{name} is a weight, which makes no groups")
        if name == target:
            raise QueryError(f"{name} is the attribute of the query; group by another one")
        if name in attributes_in(where or {}):
            raise QueryError(f"{name} makes the groups; remove it from the condition")
        found.append(bars_of(described, name, edges))
    count = math.prod(len(bars.chosen) for bars in found)
    if count > MOST_GROUPS:
        names = " and ".join(bars.name for bars in found)
        raise QueryError(
            f"{names} make {count:,} groups, more than {MOST_GROUPS:,}; use bands, such as "
            f"by={{{found[0].name!r}: [0, 10, 20]}}"
        )
    return Cells(tuple(found))


def bars_of(described: Attribute, name: str, edges: Any = None) -> Bars:
    """Every value of an attribute as a group; or bands between edges, left-closed."""
    if edges is None:
        chosen = tuple(described.bars(None, name))
        keys = [described.values_at(bar.first_and_last[0]) for bar in chosen]
        return Bars(name, described, chosen, tuple(lo if lo == hi else (lo, hi) for lo, hi in keys))
    edges = edges.tolist() if isinstance(edges, np.ndarray) else edges
    if not is_list(edges) or len(edges) < 2 or not all(is_number(edge) for edge in edges):
        raise QueryError(
            f"bands of {name} are a list of edges, such as [0, 18, 30, 65], not {shown(edges)}"
        )
    if described.named:
        raise QueryError(f"{name} has names and no numbers; bands need numbers")
    pairs = list(pairwise(edges))
    if any(not low < high for low, high in pairs):
        raise QueryError(f"the edges of bands of {name} increase, not {shown(list(edges))}")
    bands = [_band(described, name, *pair) for pair in pairs]
    if note := _outside(described, name, bands):
        bands = [replace(band, note=note) for band in bands]
    return Bars(name, described, tuple(bands), (*pairs,))


def _outside(described: Attribute, name: str, bands: Sequence[Chosen]) -> str | None:
    """A note if values of the domain are in no band."""
    last = described.size - 1
    first, end = bands[0].first_and_last[0], bands[-1].first_and_last[1]
    ranges = ((0, first - 1), (end + 1, last))
    missed = [described.label(low, high) for low, high in ranges if low <= high]
    return f"{name} {' and '.join(missed)} is in no band" if missed else None


def _band(described: Attribute, name: str, low: float, high: float) -> Chosen:
    """The values from low up to, but without, high."""
    if described.kind == "integer":
        least, most = (int(described.values_at(k)[0]) for k in (0, described.size - 1))
        ends = max(math.ceil(low), least), min(math.ceil(high) - 1, most)
        return described.choose(ends if ends[0] <= ends[1] else (low, high), name)
    return described.choose((low, high), name)


def edges_for(described: Attribute, name: str, bins: Any) -> Any:
    """The edges of so many bands over the whole domain, equal if its steps can be divided so.

    A list of edges is returned as it is.
    """
    if bins is None or is_list(bins) or isinstance(bins, np.ndarray):
        return bins
    if not is_whole(bins) or bins < 1:
        raise QueryError(
            f"bins of {name} are a number, a list of edges or left out, not {shown(bins)}"
        )
    if described.named:
        raise QueryError(f"{name} has names and no numbers; leave bins out")
    count = min(int(bins), described.size)
    starts = [described.values_at(k * described.size // count)[0] for k in range(count)]
    last = described.values_at(described.size - 1)[1]
    return [*starts, int(last) + 1 if described.kind == "integer" else last]


def _edges(by: By) -> dict[str, Any]:
    if isinstance(by, str):
        return {by: None}
    found: dict[Any, Any]
    if isinstance(by, Mapping):
        found = dict(by)
    elif isinstance(by, Sequence) and all(isinstance(name, str) for name in by):
        found = dict.fromkeys(by)
        if len(found) < len(by):
            raise QueryError(f"by names an attribute twice: {shown(list(by))}")
    else:
        found = {}
    if not 1 <= len(found) <= 2 or not all(isinstance(name, str) for name in found):
        raise QueryError(
            "by is an attribute or two, or bands, such as 'region', ['region', 'hour'] or "
            f"{{'age': [0, 18, 30, 65]}}, not {shown(by)}"
        )
    return found
