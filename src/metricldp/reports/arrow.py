"""Reports as Arrow tables, marked with the survey that they belong to.

Reading is strict: whatever no device of this survey could have sent is refused with a reason.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from metricldp.basics.errors import InvalidReportError, InvalidValueError
from metricldp.basics.optional import lazy
from metricldp.basics.text import counted, shown, type_name
from metricldp.mechanisms import Column, Field
from metricldp.survey.agreement import Agreement
from metricldp_core.manifest import FORMAT

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy("pyarrow")

BATCH = 1 << 16
"""People encoded at a time, so that a batch stays in the cache."""
_FINGERPRINT_DIGITS = 16
"""As many as the command line prints."""
_RAW = "; are these raw values? randomize them first, survey.randomize(...)"
"""The remedy for columns that cannot be reports."""
_SURVEY_KEY, _VERSION_KEY = b"metricldp.survey", b"metricldp.version"


_REPORT = "=report"


def column_of(name: str) -> str:
    """The column of a field of reports. No attribute can have its name, which contains "="."""
    return name if "=" in name else name + _REPORT


def name_of(column: str) -> str:
    """The field in a column of reports."""
    return column.removesuffix(_REPORT)


def schema(survey: Agreement) -> pa.Schema:
    """The columns of a table of reports, marked with the survey's fingerprint."""
    fields = [
        pa.field(column_of(name), _arrow_type(field), nullable=False)
        for name, field in survey.fields.items()
    ]
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
        column = np.ascontiguousarray(columns[name_of(field.name)])
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
        raise InvalidValueError(f"{source} are reports already; pass responses")


def accepts_unmarked(survey: Agreement, fingerprint: str | None) -> bool:
    """Whether reports without the mark of the survey are accepted: with its fingerprint only."""
    if fingerprint is None:
        return False
    digits = fingerprint.strip().lower() if isinstance(fingerprint, str) else ""
    if len(digits) < _FINGERPRINT_DIGITS or set(digits) - set("0123456789abcdef"):
        raise InvalidReportError(
            "survey",
            f"fingerprint= takes at least the first {_FINGERPRINT_DIGITS} hexadecimal digits of "
            f"survey.fingerprint, not {shown(fingerprint)}",
        )
    if not survey.fingerprint.startswith(digits):
        raise InvalidReportError(
            "survey",
            f"fingerprint= is of another survey ({digits[:32]}, this is "
            f"{survey.fingerprint[:32]}); use the survey file that the devices used",
        )
    return True


def check_marks(
    survey: Agreement,
    found: pa.Schema,
    source: str = "these reports",
    *,
    unmarked: bool = False,
) -> None:
    """Reject reports of another survey or version, and unless `unmarked`, those without a mark."""
    marks = found.metadata or {}
    if unmarked and not {_SURVEY_KEY, _VERSION_KEY} & marks.keys():
        return
    if _SURVEY_KEY not in marks or _VERSION_KEY not in marks:
        raise InvalidReportError(
            "unmarked",
            f"{source} have no survey fingerprint, which other programs drop; if they are raw "
            "values, randomize them first; if they are reports of this survey, pass "
            "survey.tally(..., fingerprint=...) or --fingerprint",
        )
    version, owner = (marks[key].decode("ascii", "replace") for key in (_VERSION_KEY, _SURVEY_KEY))
    if version != str(FORMAT):
        raise InvalidReportError("version", f"{source} have version {version}, this is {FORMAT}")
    if owner != survey.fingerprint:
        raise InvalidReportError(
            "survey",
            f"{source} belong to another survey ({owner[:32]}, this is {survey.fingerprint[:32]}); "
            "use the survey file that the devices used",
        )


def check_table(
    survey: Agreement,
    table: pa.Table,
    before: int = 0,
    *,
    unmarked: bool = False,
) -> pa.Table:
    """The table, if every row could have come from a device of this survey; else a refusal.

    `before` reports came before these: messages count on from there. With `unmarked` the marks may
    be missing, and columns have any type that holds the same values.
    """
    if not isinstance(table, pa.Table):
        raise InvalidReportError("kind", f"reports are a pyarrow.Table, not {type(table).__name__}")
    check_marks(survey, table.schema, unmarked=unmarked)
    expected = schema(survey)
    for field in expected:
        times = len(table.schema.get_all_field_indices(field.name))
        if times != 1:
            found = f"{times} columns" if times else "no column"
            raise InvalidReportError("columns", f"these reports have {found} {field.name!r}")
    try:
        names = table.schema.names
    except UnicodeDecodeError:
        raise InvalidReportError(
            "columns", "these reports have a column whose name is not text"
        ) from None
    check_no_other_columns(names, expected.names)
    # From here on the schema is the survey's own, so that all its tables can be joined.
    fields = list(survey.fields)
    return check_columns(survey, table, fields, before, unmarked=unmarked)


def check_no_other_columns(names: Sequence[str], expected: Collection[str]) -> None:
    """Reject a column by its place: of a table read without a header, names are values."""
    for place, name in enumerate(names):
        if name not in expected:
            raise InvalidReportError(
                "columns",
                f"column {place + 1} of these reports is not one of the survey's; leave it out",
            )


def check_columns(
    survey: Agreement,
    table: pa.Table,
    names: Sequence[str],
    before: int,
    *,
    unmarked: bool,
) -> pa.Table:
    """The columns of some fields in the types of the survey, if all their values are possible."""
    whole = schema(survey)
    expected = pa.schema([whole.field(column_of(name)) for name in names], metadata=whole.metadata)
    columns = []
    for field in expected:
        column = table[field.name]
        if column.null_count:
            raise InvalidReportError(
                "missing",
                f"column {field.name} has {counted(column.null_count, 'empty row')}",
            )
        if unmarked:
            column = _as(survey, field, column, before)
        if column.type != field.type:
            raise InvalidReportError(
                "columns",
                f"column {field.name!r} holds {type_name(column.type)}, and reports of this "
                f"survey hold {field.type}{_RAW}",
            )
        columns.append(column)
    table = pa.Table.from_arrays(columns, schema=expected)
    row = before
    for batch in batches(table):
        for name, values in batch.items():
            _check_possible(survey, name, values, row)
        row += len(next(iter(batch.values())))
    return table


def _check_possible(survey: Agreement, name: str, values: Column, before: int) -> None:
    """Reject a value that no report can have; the message has its number, but not the value."""
    field = survey.fields[name]
    wrong = field.invalid(values)
    if wrong.any():
        raise InvalidReportError(
            "range",
            f"report {before + int(np.argmax(wrong)) + 1} has a value in column "
            f"{column_of(name)!r} that no report of this survey can have ({field.possible}){_RAW}",
        )


def _as(
    survey: Agreement, field: pa.Field, column: pa.ChunkedArray, before: int
) -> pa.ChunkedArray:
    """The same values in the type of the survey, where another program may have changed it.

    DuckDB and polars know no binaries of a fixed size, and some programs no small integers.
    """
    if pa.types.is_floating(column.type) != pa.types.is_floating(field.type):
        return column
    with contextlib.suppress(pa.ArrowException):
        return column.cast(field.type)
    if pa.types.is_integer(column.type) and pa.types.is_integer(field.type):
        _check_possible(survey, name_of(field.name), column.to_numpy(), before)
    return column


def batches(table: pa.Table) -> Iterator[dict[str, Column]]:
    """The columns of a table of reports as numpy arrays, without copying, chunk by chunk."""
    for batch in table.to_batches(max_chunksize=BATCH):
        if batch.num_rows:
            yield {name_of(name): _to_numpy(batch.column(name)) for name in batch.schema.names}


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
    rows = slice(array.offset, array.offset + len(array))
    if pa.types.is_fixed_size_binary(array.type):
        raw = np.frombuffer(array.buffers()[1], dtype=np.uint8)
        return raw.reshape(-1, array.type.byte_width)[rows]
    # Not array.to_numpy(), which imports pandas.
    return np.frombuffer(array.buffers()[1], dtype=array.type.to_pandas_dtype())[rows]
