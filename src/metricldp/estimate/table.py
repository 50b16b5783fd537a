"""Tables of estimates: the one result type behind text, HTML, dict, JSON, CSV, Arrow and charts."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import index as as_index
from typing import TYPE_CHECKING, Any

import numpy as np

from metricldp.answers.answer import AUTO, Estimate, Interval, normal_reach, together
from metricldp.basics.checks import flag
from metricldp.basics.errors import QueryError
from metricldp.basics.markup import beside
from metricldp.basics.markup import table as html_table
from metricldp.basics.numbers import finite
from metricldp.basics.optional import lazy, loaded
from metricldp.basics.text import guess, listed, plain, shown
from metricldp.basics.text import table as text_table
from metricldp.estimate.display import NOT_ESTIMABLE, percent
from metricldp.mechanisms import Floats

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy("pyarrow")

MOST_ROWS_SHOWN = 200
"""Of longer tables only the first rows are printed."""
NUMBERS = ("estimate", "std_error", "ci_low", "ci_high")
COLUMNS = (*NUMBERS, "n", "note")
"""The columns after those of the groups, everywhere the same."""
Label = Any
"""A value of an attribute, or (low, high) of a band; with two attributes a pair of these."""


@dataclass(frozen=True)
class Grouping:
    """The groups of one attribute along the rows of a table."""

    name: str
    keys: Sequence[Any]
    """Of each row the value, with the attribute's own type, or (low, high) of a band."""
    texts: Sequence[str]
    """The same in words."""
    categories: tuple[str, ...] | None = None
    """All levels of an ordinal attribute, in order."""
    edges: tuple[float, ...] | None = None
    """Of groups along a line of numbers: where each begins, and where the last one ends."""

    @property
    def in_bands(self) -> bool:
        """Whether each group is a band, with two columns for its edges."""
        return bool(self.keys) and isinstance(self.keys[0], tuple)

    def part(self, rows: slice) -> Grouping:
        """Some of the rows."""
        edges = None
        one_each = self.edges is not None and len(self.edges) == len(self.keys) + 1
        if self.edges is not None and one_each and rows.step in (None, 1):
            start, stop, _ = rows.indices(len(self.keys))
            edges = self.edges[start : stop + 1]
        return Grouping(self.name, self.keys[rows], self.texts[rows], self.categories, edges)

    @property
    def column(self) -> str:
        """The name of a single column, apart from those of the table's own."""
        return f"{self.name}_group" if self.name in COLUMNS else self.name

    def columns(self) -> dict[str, list[Any]]:
        """One column, or two for the edges of bands."""
        if not self.in_bands:
            return {self.column: list(self.keys)}
        names = [f"{self.name}_{end}" for end in _ENDS]
        if set(names) & set(COLUMNS):
            names = [f"{self.name}_group_{end}" for end in _ENDS]
        return {name: [key[k] for key in self.keys] for k, name in enumerate(names)}


_ENDS = ("low", "high")


class EstimateTable:
    """Estimates of one query in several groups, or of several queries, row by row.

    `len(table)` is the number of rows; iteration gives (label, Estimate); `table["north"]` and
    `table[1]` are the estimates of these labels, `table.iloc[0]` that of the first row.

    Exported columns are those of the groups, `estimate`, `std_error`, `ci_low`, `ci_high`, `n` and
    `note`. `n` is the number of all reports that the row is estimated from, not the size of its
    group: it is the same in all rows of a tally. Bands have two columns, such as `age_low` and
    `age_high`, with the edges of left-closed bands: a band printed as "18 to 29" has the edges 18
    and 30, and the upper edge of the last band may be outside the domain.
    """

    def __init__(
        self,
        groupings: Sequence[Grouping],
        estimates: Sequence[Estimate],
        *,
        label: str = "",
        family: int | None = None,
        others: Callable[[int], Estimate] | None = None,
    ) -> None:
        self.groupings = tuple(groupings)
        self.label = label or (estimates[0].question if len(estimates) == 1 else "")
        self._estimates = estimates
        self._family = family
        """Of how many rows simultaneous intervals hold; the rows of the table by default."""
        self._others = others
        """The same query for everyone who is not in the group of a row."""

    @classmethod
    def single(cls, estimate: Estimate) -> EstimateTable:
        """One estimate as a table of one row, without groups."""
        return cls((), [estimate], label=estimate.question)

    # Rows ----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._estimates)

    def __iter__(self) -> Iterator[tuple[Label, Estimate]]:
        return zip(self.labels, self._estimates, strict=True)

    @cached_property
    def labels(self) -> list[Label]:
        """The label of each row; None for a single estimate."""
        if len(self.groupings) == 1:
            return list(self.groupings[0].keys)
        if not self.groupings:
            return [None] * len(self)
        return list(zip(*(grouping.keys for grouping in self.groupings), strict=True))

    def __getitem__(self, label: Label) -> Estimate:
        key = label.item() if isinstance(label, np.generic) else label
        try:
            row = self._rows.get(key)
        except TypeError:
            row = None
        if row is None:
            like = [one for one in self.labels if str(one) == str(label)]
            hint = guess(str(label), [str(one) for one in self.labels])
            hint = f"; did you mean {like[0]!r}?" if like else hint
            raise QueryError(
                f"the table has no row {shown(label)}; it has {listed(self.labels)}{hint}"
            )
        return self._estimates[row]

    @cached_property
    def _rows(self) -> dict[Label, int]:
        return {label: row for row, label in reversed(list(enumerate(self.labels)))}

    @property
    def iloc(self) -> _Positions:
        """Rows by position: `table.iloc[0]` is an estimate, `table.iloc[2:5]` a table."""
        return _Positions(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EstimateTable):
            return NotImplemented
        return self.labels == other.labels and list(self._estimates) == list(other._estimates)

    __hash__ = None  # type: ignore[assignment]

    # Numbers -------------------------------------------------------------------------------------

    @cached_property
    def values(self) -> Floats:
        """The estimates; NaN where nothing can be estimated."""
        if hasattr(self._estimates, "values"):
            return np.asarray(self._estimates.values)
        rows = (_number(one.value) if one.estimable else np.nan for one in self._estimates)
        return np.array(list(rows))

    @cached_property
    def stderr(self) -> Floats:
        """The standard errors; NaN where there is none."""
        return np.array([one.stderr if one.estimable else np.nan for one in self._estimates])

    def confidence_interval(
        self,
        confidence_level: float = 0.95,
        *,
        simultaneous: bool = False,
        method: str = AUTO,
        anytime: bool = False,
    ) -> Interval:
        """The lower and the upper ends of all rows, as arrays.

        Simultaneous intervals hold for all k rows together: each is computed at the level
        1 - (1 - confidence_level) / k (Bonferroni).
        """
        each = self._each(confidence_level, simultaneous)
        ends = [
            one.confidence_interval(each, method=method, anytime=anytime) for one in self._estimates
        ]
        low, high = (np.array([end[side] for end in ends]) for side in (0, 1))
        return Interval(low, high)

    def _each(self, confidence_level: float, simultaneous: bool) -> float:
        """The level of the interval of each row."""
        normal_reach(confidence_level)
        if not flag("simultaneous", simultaneous):
            return confidence_level
        return together(confidence_level, self._family or len(self))

    def pvalues(self, null: float = 0.0) -> Floats:
        """The p-value of each row against a number, not adjusted for several rows."""
        return np.array([one.pvalue(null) for one in self._estimates], dtype=np.float64)

    def poisoning_bounds(self, malicious: int) -> Interval:
        """The range of each estimate if so many of the reports are malicious, as arrays.

        Malicious reports replace honest ones; bounds may be outside the possible range.
        """
        ends = [one.poisoning_bounds(malicious) for one in self._estimates]
        low, high = (np.array([end[side] for end in ends]) for side in (0, 1))
        return Interval(low, high)

    def differences(self, baseline: Label = None) -> EstimateTable:
        """Each group minus a baseline group; without one, minus everyone else."""
        if baseline is None:
            if self._others is None:
                raise QueryError(
                    f"name the baseline of the differences, one of {listed(self.labels)}"
                )
            rows = list(range(len(self)))
            found = [self._estimates[k] - self._others(k) for k in rows]
            return self._subset(rows, found, f"{self.label}, minus everyone else")
        base = self[baseline]
        rows = [k for k, label in enumerate(self.labels) if label != baseline]
        found = [self._estimates[k] - base for k in rows]
        return self._subset(rows, found, f"{self.label}, minus {baseline}")

    def _slice(self, groupings: Sequence[Grouping], rows: range) -> EstimateTable:
        """Some of the rows. Intervals that hold for all rows together still do: rows are selected
        by what was estimated."""
        others = self._others
        family = self._family or (len(self) if self._simultaneous else None)
        part = EstimateTable(
            groupings,
            [self._estimates[row] for row in rows],
            label=self.label,
            family=family,
            others=others and (lambda row: others(rows[row])),
        )
        part._simultaneous = self._simultaneous
        return part

    def _subset(self, rows: list[int], estimates: list[Estimate], label: str) -> EstimateTable:
        groupings = [
            Grouping(g.name, [g.keys[k] for k in rows], [g.texts[k] for k in rows], g.categories)
            for g in self.groupings
        ]
        return EstimateTable(groupings, estimates, label=label)

    # Export --------------------------------------------------------------------------------------

    def _columns(self, confidence_level: float, simultaneous: bool | None) -> dict[str, list[Any]]:
        every = self._shows_all(simultaneous)
        low, high = self.confidence_interval(confidence_level, simultaneous=every)
        found: dict[str, list[Any]] = {}
        for grouping in self.groupings:
            found |= grouping.columns()
        numbers = [_floats(column) for column in (self.values, self.stderr, low, high)]
        found |= {name: column.tolist() for name, column in zip(NUMBERS, numbers, strict=True)}
        found["n"] = [one.n for one in self._estimates]
        shared, each = self.shared_notes(), self._each(confidence_level, every)
        # An interval without a possible value is moved to the nearest one, so its ends are equal.
        rows = zip(self._estimates, low, high, strict=True)
        notes = [self._notes(one, each if first == last else None) for one, first, last in rows]
        found["note"] = ["; ".join(dict.fromkeys((*shared, *row))) or None for row in notes]
        return found

    _simultaneous = False
    """Whether prints and exports show simultaneous intervals unless told."""

    def _shows_all(self, simultaneous: bool | None) -> bool:
        return self._simultaneous if simultaneous is None else flag("simultaneous", simultaneous)

    def _notes(self, one: Estimate, confidence_level: float | None = None) -> tuple[str, ...]:
        """The notes of a row; with a level also whether its interval contradicts the model."""
        return one.notes if confidence_level is None else one._notes_at(confidence_level)

    def shared_notes(self) -> list[str]:
        """The notes that all rows have."""
        if hasattr(self._estimates, "notes"):
            return list(self._estimates.notes)
        first = self._notes(self._estimates[0]) if len(self) else ()
        return [n for n in first if all(n in self._notes(one) for one in self._estimates)]

    def to_arrow(
        self, confidence_level: float = 0.95, *, simultaneous: bool | None = None
    ) -> pa.Table:
        """A table of Arrow; levels of ordinal attributes are ordered dictionaries."""
        columns = self._columns(confidence_level, simultaneous)
        arrays: dict[str, Any] = {}
        for name, column in columns.items():
            if name in NUMBERS and all(isinstance(x, float) for x in column):
                arrays[name] = pa.array(column, pa.float64())
            elif name == "note":
                arrays[name] = pa.array(column, pa.string())
            else:
                arrays[name] = pa.array(column)
        for grouping in self.groupings:
            if grouping.categories is not None:
                arrays[grouping.column] = _ordered(grouping)
        return pa.table(arrays)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self, confidence_level: float = 0.95, *, simultaneous: bool | None = None) -> Any:
        """A data frame of pandas; levels of ordinal attributes are ordered categories."""
        pandas = loaded("pandas")
        frame = pandas.DataFrame(self._columns(confidence_level, simultaneous))
        for grouping in self.groupings:
            if grouping.categories is not None:
                kind = pandas.CategoricalDtype(list(grouping.categories), ordered=True)
                frame[grouping.column] = frame[grouping.column].astype(kind)
        return frame

    def to_polars(self, confidence_level: float = 0.95, *, simultaneous: bool | None = None) -> Any:
        """A data frame of polars; levels of ordinal attributes are an Enum."""
        polars = loaded("polars")
        frame = polars.DataFrame(self._columns(confidence_level, simultaneous))
        for grouping in self.groupings:
            if grouping.categories is not None:
                kind = polars.Enum(list(grouping.categories))
                frame = frame.with_columns(polars.col(grouping.column).cast(kind))
        return frame

    def to_dict(
        self, confidence_level: float = 0.95, *, simultaneous: bool | None = None
    ) -> dict[str, Any]:
        """Plain data for JSON; None where a number is infinite or NaN."""
        columns = self._columns(confidence_level, simultaneous)
        rows = [
            {
                name: finite(value) if isinstance(value, float) else value
                for name, value in zip(columns, row, strict=True)
            }
            for row in zip(*columns.values(), strict=True)
        ]
        first = self._estimates[0] if len(self) else None
        return {
            "label": self.label,
            "unit": first.unit if first else "",
            "target": first.target if first else "respondents",
            "confidence_level": confidence_level,
            "simultaneous": self._shows_all(simultaneous),
            "groups": [name for g in self.groupings for name in g.columns()],
            "notes": self.shared_notes(),
            "rows": rows,
        }

    def to_csv(self, confidence_level: float = 0.95, *, simultaneous: bool | None = None) -> str:
        """Comma-separated values with a header; empty where a number is infinite or NaN."""
        columns = self._columns(confidence_level, simultaneous)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow([_cell(value) for value in row])
        return text.getvalue()

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the table with its intervals and return the Axes of matplotlib."""
        from metricldp.plot.charts import draw_table

        return draw_table(self, ax, **options)

    # Text ----------------------------------------------------------------------------------------

    def _cells(
        self, confidence_level: float, simultaneous: bool | None
    ) -> tuple[list[tuple[str, ...]], list[str]]:
        """A header and rows of text, and notes below."""
        every = self._shows_all(simultaneous)
        each = self._each(confidence_level, every)
        shared, unit = self.shared_notes(), self._unit
        interval = f"{percent(confidence_level)} CI{' (all rows)' if every else ''}"
        names = tuple(grouping.name for grouping in self.groupings)
        rows = [(*names, unit or "estimate", "SE", interval)]
        notes: dict[str, list[str]] = {}
        for k, one in enumerate(self._estimates[:MOST_ROWS_SHOWN]):
            words = tuple(plain(grouping.texts[k]) for grouping in self.groupings)
            display = self._display(k, one, each, every)
            if display.estimable:
                rows.append((*words, display.value, display.stderr, display.interval))
            else:
                rows.append((*words, NOT_ESTIMABLE, "", ""))
            for note in display.notes:
                if note not in shared:
                    notes.setdefault(note, []).append(", ".join(words))
        if len(rows) > 1 and not any(row[-2] for row in rows[1:]):
            rows = [(*row[:-2], row[-1]) for row in rows]  # quantiles have no standard error
        below = [f"and {len(self) - MOST_ROWS_SHOWN:,} more rows"] * (len(self) > MOST_ROWS_SHOWN)
        below += [f"{listed_words(where)}: {note}" for note, where in notes.items()]
        return rows, [*below, *shared]

    def _display(self, row: int, one: Estimate, each: float, every: bool) -> Any:
        return one.display(each)

    @property
    def _unit(self) -> str:
        units = {one.unit for one in self._estimates[:MOST_ROWS_SHOWN]}
        return units.pop() if len(units) == 1 else ""

    def to_text(self, confidence_level: float = 0.95, *, simultaneous: bool | None = None) -> str:
        """A table of text, with the notes below."""
        if not self.groupings and len(self) == 1:
            return self._estimates[0].to_text(confidence_level)
        rows, notes = self._cells(confidence_level, simultaneous)
        head = [self.label] if self.label else []
        table = text_table(rows, left=len(self.groupings))
        return "\n".join([*head, table, *(f"note: {note}" for note in notes)])

    def to_html(self, confidence_level: float = 0.95, *, simultaneous: bool | None = None) -> str:
        """A small table for a notebook or a page."""
        rows, notes = self._cells(confidence_level, simultaneous)
        table = html_table(rows, caption=self.label, left=len(self.groupings))
        return beside(table, below=notes)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.to_html()

    __repr__ = __str__


class _Positions:
    """Rows of a table by position."""

    def __init__(self, table: EstimateTable) -> None:
        self._table = table

    def __getitem__(self, position: Any) -> Any:
        table = self._table
        if isinstance(position, slice):
            rows = range(*position.indices(len(table)))
            groupings = [grouping.part(position) for grouping in table.groupings]
            return table._slice(groupings, rows)
        row = as_index(position)
        if not -len(table) <= row < len(table):
            raise IndexError(f"the table has rows 0 to {len(table) - 1}, not {row}")
        return table._estimates[row % len(table)]


def listed_words(words: Sequence[str], most: int = 5) -> str:
    """The first few of several names."""
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")


def _number(value: Any) -> Any:
    return value if isinstance(value, str) else float(value)


def _floats(column: Any) -> Any:
    """A column of floats; names of levels stay."""
    array = np.asarray(column)
    return array.astype(np.float64) if array.dtype.kind in "iuf" else array


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return "" if finite(value) is None else repr(value)
    return "" if value is None else value


def _ordered(grouping: Grouping) -> Any:
    """An ordered dictionary array of the levels of an ordinal attribute."""
    levels = list(grouping.categories or ())
    positions = pa.array([levels.index(key) for key in grouping.keys], pa.int32())
    return pa.DictionaryArray.from_arrays(positions, pa.array(levels), ordered=True)
