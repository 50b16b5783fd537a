"""Reports as Arrow tables, marked with the survey that they belong to.

Reading is strict: whatever no device of this survey could have sent is refused with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from metricldp.basics.errors import ReportRefused, ValueRefused
from metricldp.basics.optional import lazy
from metricldp.basics.text import counted
from metricldp.channels import Column, Field
from metricldp.survey.agreement import FORMAT, Agreement

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy("pyarrow")

BATCH = 1 << 16
"""People encoded at a time, so that a batch stays in the cache."""
_SURVEY_KEY, _VERSION_KEY = b"metricldp.survey", b"metricldp.version"


def schema(survey: Agreement) -> pa.Schema:
    """The columns of a table of reports, marked with the survey's fingerprint."""
    fields = [pa.field(name, _arrow_type(f), nullable=False) for name, f in survey.fields.items()]
    marks = {_VERSION_KEY: str(FORMAT).encode(), _SURVEY_KEY: survey.fingerprint.encode()}
    return pa.schema(fields, metadata=marks)


def _arrow_type(field: Field) -> pa.DataType:
    column = field.empty(0)
    return pa.binary(column.shape[1]) if column.ndim == 2 else pa.from_numpy_dtype(column.dtype)


def to_table(survey: Agreement, columns: Mapping[str, Column]) -> pa.Table:
    """Columns of reports as an Arrow table."""
    marked = schema(survey)
    arrays = []
    for field in marked:
        column = np.ascontiguousarray(columns[field.name])
        if column.ndim == 2:
            raw = pa.py_buffer(column.reshape(-1))
            arrays.append(
                pa.FixedSizeBinaryArray.from_buffers(field.type, len(column), [None, raw])
            )
        else:
            arrays.append(pa.array(column))
    return pa.Table.from_arrays(arrays, schema=marked)


def is_marked(found: pa.Schema) -> bool:
    """Whether a table says that it holds reports of a survey."""
    return _SURVEY_KEY in (found.metadata or {})


def check_people(found: pa.Schema, source: str) -> None:
    """Refuse reports in place of people: blurred again, they would pass for somebody's values."""
    if is_marked(found):
        raise ValueRefused(f"{source} are reports already; name the people themselves")


def check_marks(
    survey: Agreement,
    found: pa.Schema,
    source: str = "these reports",
    *,
    trust: bool = False,
) -> None:
    """Refuse reports of another survey, another version, or, unless trusted, none at all."""
    marks = found.metadata or {}
    if trust and not {_SURVEY_KEY, _VERSION_KEY} & marks.keys():
        return
    if _SURVEY_KEY not in marks or _VERSION_KEY not in marks:
        raise ReportRefused(
            "unmarked",
            f"{source} carry no survey fingerprint, which other programs drop; if you know that "
            "they are reports of this survey, say survey.tally(..., trust=True) or metricldp merge "
            "--trust; people are encoded first",
        )
    version, owner = (marks[key].decode("ascii", "replace") for key in (_VERSION_KEY, _SURVEY_KEY))
    if version != str(FORMAT):
        raise ReportRefused("version", f"{source} have version {version}, this is {FORMAT}")
    if owner != survey.fingerprint:
        raise ReportRefused(
            "survey",
            f"{source} belong to another survey ({owner[:32]}, this is {survey.fingerprint[:32]}); "
            "use the survey file that the devices used",
        )


def check_table(
    survey: Agreement,
    table: pa.Table,
    before: int = 0,
    *,
    trust: bool = False,
) -> pa.Table:
    """The table, if every row could have come from a device of this survey; else a refusal.

    `before` reports came before these: messages count on from there. With `trust` the marks may be
    missing, and columns have any type that holds the same values.
    """
    if not isinstance(table, pa.Table):
        raise ReportRefused("kind", f"reports are a pyarrow.Table, not {type(table).__name__}")
    check_marks(survey, table.schema, trust=trust)
    expected = schema(survey)
    for field in expected:
        times = len(table.schema.get_all_field_indices(field.name))
        if times != 1:
            found = f"{times} columns" if times else "no column"
            raise ReportRefused("columns", f"these reports have {found} {field.name!r}")
    try:
        names = table.schema.names
    except UnicodeDecodeError:
        raise ReportRefused(
            "columns", "these reports have a column whose name is no text"
        ) from None
    for name in names:
        if name not in expected.names:
            raise ReportRefused("columns", f"these reports have a column {name!r} of no attribute")
    # From here on the schema is the survey's own, so that all its tables can be joined.
    return check_columns(survey, table, expected.names, before, trust=trust)


def check_columns(
    survey: Agreement,
    table: pa.Table,
    names: Sequence[str],
    before: int,
    *,
    trust: bool,
) -> pa.Table:
    """Some columns of reports in the types of the survey, if all their values are possible."""
    whole = schema(survey)
    expected = pa.schema([whole.field(name) for name in names], metadata=whole.metadata)
    columns = [_as(field.type, table[field.name], trust) for field in expected]
    for field, column in zip(expected, columns, strict=True):
        if column.type != field.type:
            raise ReportRefused(
                "columns", f"column {field.name} holds {column.type}, expected {field.type}"
            )
        if column.null_count:
            raise ReportRefused(
                "missing",
                f"column {field.name} has {counted(column.null_count, 'empty row')}",
            )
    table = pa.Table.from_arrays(columns, schema=expected)
    row = before
    for batch in batches(table):
        for name, values in batch.items():
            wrong = survey.fields[name].invalid(values)
            if wrong.any():
                at = int(np.argmax(wrong))
                raise ReportRefused(
                    "range", f"report {row + at + 1} has an impossible value for {name}"
                )
        row += len(next(iter(batch.values())))
    return table


def _as(kind: pa.DataType, column: pa.ChunkedArray, trust: bool) -> pa.ChunkedArray:
    """The same values in the type of the survey, if other programs are trusted to have changed it.

    DuckDB and polars know no binaries of a fixed size, and some programs no small integers.
    """
    if not trust or pa.types.is_floating(column.type) != pa.types.is_floating(kind):
        return column
    try:
        return column.cast(kind)
    except pa.ArrowException:
        return column


def batches(table: pa.Table) -> Iterator[dict[str, Column]]:
    """The columns of a table of reports as numpy arrays, without copying, chunk by chunk."""
    for batch in table.to_batches(max_chunksize=BATCH):
        if batch.num_rows:
            yield {name: _to_numpy(batch.column(name)) for name in batch.schema.names}


def regrouped(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of one length, but for the last."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        while count >= rows:
            whole = pa.concat_tables(waiting)
            yield whole.slice(0, rows)
            waiting, count = [whole.slice(rows)], count - rows
    if count:
        yield pa.concat_tables(waiting)


def _to_numpy(array: pa.Array) -> Column:
    if not pa.types.is_fixed_size_binary(array.type):
        return np.asarray(array.to_numpy())
    width = array.type.byte_width
    raw = np.frombuffer(array.buffers()[1], dtype=np.uint8)
    return raw[array.offset * width : (array.offset + len(array)) * width].reshape(-1, width)
