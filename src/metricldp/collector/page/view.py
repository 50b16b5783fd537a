"""A table of estimates as a query shows it: rows for charts and pages, JSON, and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from metricldp.answers.answer import Estimate
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import finite
from metricldp.basics.text import counted, plain
from metricldp.collector.page.query import Query
from metricldp.estimate.display import NOT_ESTIMABLE, Display, percent
from metricldp.estimate.table import COLUMNS, EstimateTable, listed_words

MOST_SHOWN = 200
"""Rows of a table on a page; a file has all of them."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Characters at which a spreadsheet begins a formula."""


@dataclass(frozen=True)
class Row:
    """An estimate with its group, its interval, and its bounds if some clients are malicious."""

    groups: tuple[str, ...]
    value: float
    low: float
    high: float
    empty: bool
    """Whether the group is not distinguishable from empty."""
    display: Display
    bounds: tuple[float, float] | None = None

    @property
    def label(self) -> str:
        return ", ".join(self.groups)


@dataclass(frozen=True)
class TextTable:
    """Text for the cells of a table; the first `left` columns are names, the others numbers."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    hidden: int = 0
    """Rows that are left out."""


class TableView:
    """A table with the intervals and bounds that a query asks for."""

    def __init__(self, table: EstimateTable, query: Query) -> None:
        self.table, self.query = table, query
        self.level: float = query.request.confidence_level
        self._every = table._shows_all(query.request.simultaneous or None)

    @cached_property
    def ends(self) -> tuple[list[Any], list[Any]]:
        """The lower and the upper ends of the intervals."""
        low, high = self.table.confidence_interval(
            self.level, simultaneous=self._every, anytime=self.query.anytime
        )
        return np.asarray(low).tolist(), np.asarray(high).tolist()

    @cached_property
    def bounds(self) -> tuple[list[Any], list[Any]] | None:
        """The range of each estimate if some clients are malicious."""
        if not self.query.malicious:
            return None
        low, high = self.table.poisoning_bounds(self.query.malicious)
        return np.asarray(low).tolist(), np.asarray(high).tolist()

    @cached_property
    def differences(self) -> TableView | None:
        """The differences from the baseline, for which no poisoning bounds are known."""
        if not self.query.baseline:
            return None
        return TableView(self.query.differences(self.table), replace(self.query, malicious=0))

    # Data ----------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The data of the table, with confidence sequences and poisoning bounds if asked for."""
        data = self.table.to_dict(self.level, simultaneous=self._every)
        more: dict[str, Sequence[Any]] = {}
        if self.query.anytime:
            data["anytime"] = True
            more["ci_low"], more["ci_high"] = self.ends
        if self.bounds is not None:
            data["malicious"] = self.query.malicious
            more["poisoning_low"], more["poisoning_high"] = self.bounds
        for name, column in more.items():
            for row, value in zip(data["rows"], column, strict=True):
                row[name] = finite(value) if isinstance(value, float) else value
        return data

    def to_csv(self) -> str:
        """The rows; text that a spreadsheet would run as a formula begins with an apostrophe."""
        data = self.to_dict()
        heads = list(data["rows"][0]) if data["rows"] else [*data["groups"], *COLUMNS]
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\r\n")
        for cells in (heads, *(row.values() for row in data["rows"])):
            lines.writerow([csv_cell(cell) for cell in cells])
        return text.getvalue()

    # Rows ----------------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> list[Row]:
        return list(self._rows())

    def _rows(self) -> Iterator[Row]:
        table = self.table
        groups = list(zip(*(g.texts for g in table.groupings), strict=True)) or [()] * len(table)
        each = table._each(self.level, self._every)
        for row, (one, words, value) in enumerate(
            zip(table._estimates, groups, table.values.tolist(), strict=True)
        ):
            low, high = (end[row] for end in self.ends)
            if isinstance(low, str):
                raise QueryError("these estimates are names, so there is no chart of them")
            display = table._display(row, one, each, self._every)
            if not one.estimable:
                display = replace(display, value=NOT_ESTIMABLE, stderr="", estimable=False)
            elif self.query.anytime:
                display = replace(display, interval=one._shown_ends(low, high))
            ends = None if self.bounds is None else (self.bounds[0][row], self.bounds[1][row])
            empty = not one.estimable or (one._counts and low <= 0)
            yield Row(tuple(map(plain, words)), value, low, high, empty, display, ends)

    @property
    def unit(self) -> str:
        """The unit of the estimates, as the label of an axis."""
        unit = self.table._unit
        return "fraction" if unit in ("of respondents", "of the group") else unit or "estimate"

    @property
    def interval(self) -> str:
        """The name of the intervals, such as 95% CI."""
        return f"{percent(self.level)} {'confidence sequence' if self.query.anytime else 'CI'}"

    @property
    def interval_name(self) -> str:
        """The same in full."""
        return self.interval.replace("CI", "confidence interval")

    @property
    def if_malicious(self) -> str:
        """The name of the poisoning bounds."""
        malicious = self.query.malicious
        verb = "is" if malicious == 1 else "are"
        return f"range if {counted(malicious, 'client')} {verb} malicious"

    def line(self) -> str:
        """A single estimate in one line."""
        (row,) = self.rows
        one = self.table._estimates[0]
        display = row.display
        if not display.estimable:
            return display.line("", self.level)
        stderr = f"SE {display.stderr}, " if display.stderr else ""
        unit = " people" if one._counts else ""
        text = f"{display.value}{unit} ({stderr}{self.interval} {display.interval})"
        if row.bounds is not None:
            text += f"; {self.if_malicious}: {self._bounds_text(one, row)}"
        return text

    def text_table(self, caption: str) -> TextTable:
        """The first rows as text."""
        names = [grouping.name for grouping in self.table.groupings]
        band = " (all rows)" if self._every else ""
        heads = [*names, self.unit, "SE", f"{self.interval}{band}"]
        heads += [self.if_malicious] if self.bounds is not None else []
        pairs = zip(self.rows[:MOST_SHOWN], self.table._estimates[:MOST_SHOWN], strict=True)
        rows = [self._cells(row, one) for row, one in pairs]
        return TextTable(caption, heads, rows, len(names), max(0, len(self.rows) - MOST_SHOWN))

    def _cells(self, row: Row, one: Estimate) -> tuple[str, ...]:
        display = row.display
        bounds = () if row.bounds is None else (self._bounds_text(one, row),)
        interval = display.interval if display.estimable else one._shown_ends(row.low, row.high)
        return (*row.groups, display.value, display.stderr or "–", interval, *bounds)

    def _bounds_text(self, one: Estimate, row: Row) -> str:
        assert row.bounds is not None
        return one._shown_ends(*row.bounds)

    def notes(self) -> list[str]:
        """Notes of all rows, notes of some rows with their groups, and what intervals mean."""
        shared = self.table.shared_notes()
        some: dict[str, list[str]] = {}
        for row in self.rows:
            for note in row.display.notes:
                if note not in shared:
                    some.setdefault(note, []).append(row.label)
        notes = [f"{listed_words(where)}: {note}" for note, where in some.items()]
        if self.query.anytime:
            notes.append(
                "Confidence sequences are valid at every number of reports at once, in the limit "
                "of many reports."
            )
        return [*shared, *notes]


def csv_cell(cell: Any) -> str:
    """A cell of a CSV file: empty for no value, and never a formula."""
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return ""
    if not isinstance(cell, str):
        return repr(cell)
    text = cell.replace("\0", "\ufffd")
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text
