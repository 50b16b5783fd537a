"""Counting by hand: the SQL for any data base that has GROUP BY, and what it returns as tables.

A scheduler runs the text wherever the reports are; the rows come back, and every one of them is
checked before it is believed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from metricldp.basics.errors import QueryError, ReportRefused
from metricldp.basics.optional import optional
from metricldp.basics.text import listed, shown
from metricldp.store.cubes import Table
from metricldp.store.engines.sql import quoted
from metricldp.survey.agreement import Agreement

pa: Any = optional("pyarrow")

Sets = Sequence[tuple[str, ...]]
KEPT, REPORTS = "kept", "reports"
"""The columns beside the attributes: which set a row is of, and how many reports it counts."""


def sql(survey: Agreement, sets: Sets, source: str, quote: str = '"') -> str:
    """One statement that counts the reports in a table by some sets of attributes."""
    if not isinstance(source, str) or not source.strip():
        raise QueryError(f"source is a table, or a query in brackets, not {shown(source)}")
    if not isinstance(quote, str) or len(quote) != 1:
        raise QueryError(f'quote is the mark around names, " or `, not {shown(quote)}')
    check_integers(survey, sets)
    columns = _columns(sets)
    if clash := {KEPT, REPORTS}.intersection(columns):
        raise QueryError(f"{listed(clash)} is a column of the result; rename the attribute")
    parts = []
    for names in sets:
        chosen = [
            f"  {quoted(name, quote)}"
            if name in names
            else f"  CAST(NULL AS INTEGER) AS {quoted(name, quote)}"
            for name in columns
        ]
        label = quoted(_label(names), "'")
        first = [f"  {label} AS {KEPT}"] if len(sets) > 1 else []
        wanted = ",\n".join([*first, *chosen, f"  COUNT(*) AS {REPORTS}"])
        grouped = ", ".join(quoted(name, quote) for name in names)
        parts.append(f"SELECT\n{wanted}\nFROM {source}\nGROUP BY {grouped}")
    head = f"-- reports to survey {survey.fingerprint[:16]}, counted by {_told(sets)}"
    return f"{head}\n" + "\nUNION ALL\n".join(parts) + "\n"


def check_integers(survey: Agreement, sets: Sets) -> None:
    """Refuse what is no GROUP BY."""
    for names in sets:
        if other := [name for name in names if not survey.tabled[name].cumulates]:
            raise QueryError(
                f"reports of {listed(other)} are bits or several numbers, which no GROUP BY "
                "counts; say survey.tally(..., engine=...)"
            )


def tables_of(survey: Agreement, sets: Sets, rows: Any) -> tuple[dict[tuple[str, ...], Table], int]:
    """The tables that rows of such a statement make, and how many reports each of them counts."""
    check_integers(survey, sets)
    labels = {_label(names): names for names in sets}
    columns = _columns(sets)
    shapes = {names: [survey.tabled[name].features for name in names] for names in sets}
    sums = {names: np.zeros(math.prod(shape), dtype=np.int64) for names, shape in shapes.items()}
    seen: set[tuple[Any, ...]] = set()
    for number, row in enumerate(_mappings(rows, len(sets) > 1, columns), 1):
        where = f"row {number}"
        names = _set_of(row, labels, sets, where)
        values = tuple(_whole(row[name], f"{name} in {where}") for name in names)
        if extra := [n for n in columns if n not in names and row[n] is not None]:
            raise ReportRefused("columns", f"{where} is of {_label(names)} and has {extra[0]}, too")
        for name, value, size in zip(names, values, shapes[names], strict=True):
            if not 0 <= value < size:
                raise ReportRefused(
                    "range",
                    f"{where} counts reports with {name} = {value}, which no device could send: "
                    f"they are 0 to {size - 1}",
                )
        if (names, values) in seen:
            raise ReportRefused("twice", f"{where} counts {_label(names)} = {values} again")
        seen.add((names, values))
        count = _whole(row[REPORTS], f"{REPORTS} in {where}")
        if not 0 <= count < 1 << 53:
            raise ReportRefused("sums", f"{where} counts {count} reports")
        sums[names][np.ravel_multi_index(values, shapes[names])] = count
    found = {
        names: Table({name: survey.tabled[name] for name in names}, sums[names].reshape(shape))
        for names, shape in shapes.items()
    }
    counts = {_label(names): int(sums[names].sum()) for names in sets}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{count:,} by {label}" for label, count in counts.items())
        raise ReportRefused("sums", f"these rows count {told}; count the same reports in one query")
    return found, next(iter(counts.values()))


def _mappings(rows: Any, several: bool, columns: Sequence[str]) -> Iterable[Mapping[str, Any]]:
    """Each row by the names of its columns; tuples have the order of the statement."""
    order = [*([KEPT] if several else []), *columns, REPORTS]
    if hasattr(rows, "__arrow_c_stream__"):
        try:
            rows = pa.table(rows).to_pylist()
        except pa.ArrowException:
            raise ReportRefused("kind", f"rows are a table, not {shown(rows)}") from None
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise ReportRefused("kind", f"rows are a table, mappings or tuples, not {shown(rows)}")
    for number, row in enumerate(rows, 1):
        if isinstance(row, Mapping):
            found = dict(row)
        elif isinstance(row, Sequence) and not isinstance(row, str | bytes):
            found = dict(zip(order, row, strict=False)) if len(row) == len(order) else {}
        else:
            raise ReportRefused("kind", f"row {number} is {shown(row)}, no mapping and no tuple")
        if found.keys() != set(order):
            raise ReportRefused(
                "columns", f"row {number} has not the columns {', '.join(order)}: {shown(row)}"
            )
        yield found


def _set_of(
    row: Mapping[str, Any], labels: Mapping[str, tuple[str, ...]], sets: Sets, where: str
) -> tuple[str, ...]:
    if len(sets) == 1:
        return sets[0]
    if row[KEPT] not in labels:
        raise ReportRefused("keep", f"{where} is of {shown(row[KEPT])}, not of {_told(sets)}")
    return labels[row[KEPT]]


def _whole(value: Any, what: str) -> int:
    if value is None:
        raise ReportRefused("missing", f"{what} is missing")
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ReportRefused("kind", f"{what} is {shown(value)}, no whole number") from None


def _columns(sets: Sets) -> list[str]:
    return list(dict.fromkeys(name for names in sets for name in names))


def _label(names: tuple[str, ...]) -> str:
    return " x ".join(names)


def _told(sets: Sets) -> str:
    return ", ".join(_label(names) for names in sets)
