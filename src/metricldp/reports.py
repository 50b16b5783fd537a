"""Reports: what leaves the device, as Arrow tables, Parquet files and fixed-size byte strings.

Bytes of one report: the format version (1), the first 8 bytes of the survey's fingerprint, then the
fields of all attributes in order, bit after bit, lowest bit first, and zeros up to a whole byte.
Decoding is strict: whatever no device of this survey could have sent is refused with a reason.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, ValuesView
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from metricldp.attributes import Attribute
from metricldp.channels import BitChannel, Column, Field, IntegerChannel
from metricldp.coins import Coins, round_at_random
from metricldp.errors import ReportRefused, ValueRefused
from metricldp.kernels import encoding
from metricldp.messages import counted, guess, listed
from metricldp.survey import FORMAT, Survey
from metricldp.weights import Weight

BATCH = 1 << 16
"""People encoded at a time, so that a batch stays in the cache."""
_PIECE = 1 << 20
"""Reports of a Parquet file read at a time, where they are not all wanted at once."""
_PERSON = 64
"""Lanes that a report costs at the least, in time: an integer is drawn from about so many."""
_HEADER = 9
_SURVEY_KEY, _VERSION_KEY = b"metricldp.survey", b"metricldp.version"


class Agreement(Protocol):
    """What reports are checked against: a survey, or a peer that blurs its attributes together."""

    @property
    def fields(self) -> Mapping[str, Field]:
        """The columns of a report."""

    @property
    def fingerprint(self) -> str:
        """What marks the reports."""

    @property
    def report_bits(self) -> int:
        """The content of one report, without its header."""


# Encoding ----------------------------------------------------------------------------------------


def encode(survey: Survey, people: Any, *, coins: Coins | None, clip: bool) -> pa.Table:  # noqa: ANN401
    """Blur a table of people. All values are checked before the first coin is drawn."""
    found = checked(survey, people, clip=clip)
    source = coins or Coins()
    columns = {}
    for name, column in found.items():
        if survey.attributes[name].clear:
            columns[name] = column
        else:
            columns[name] = _encode_column(survey, name, column, source)
    return to_table(survey, columns)


def checked(survey: Survey, people: Any, *, clip: bool) -> dict[str, npt.NDArray[Any]]:  # noqa: ANN401
    """The position of every value of a table of people, or a refusal."""
    found = {
        name: _checked(attribute, _column(people, name), name, clip)
        for name, attribute in survey.attributes.items()
    }
    lengths = {name: len(column) for name, column in found.items()}
    if len(set(lengths.values())) > 1:
        raise ValueRefused(f"columns differ in length: {lengths}")
    return found


def _checked(attribute: Attribute, values: pa.Array, name: str, clip: bool) -> npt.NDArray[Any]:
    if isinstance(attribute, Weight) and attribute.clear:
        return attribute.checked(values, name, clip=clip)
    return attribute.positions(values, name, clip=clip)


def _encode_column(
    survey: Survey, name: str, positions: npt.NDArray[np.int64], coins: Coins
) -> Column:
    """Batch by batch; where there are several, each has coins of its own, for any order."""
    channel = survey.channels[name]
    column = channel.empty(len(positions))
    encoding.expect(len(positions) * max(channel.bits, _PERSON))
    jobs = []
    for start in range(0, len(positions), BATCH):
        batch = slice(start, start + BATCH)
        own = coins.spawn() if len(positions) > BATCH else coins
        jobs.append(partial(_encode_batch, survey, name, positions[batch], column[batch], own))
    # Integers are drawn in steps so short that threads would mostly wait for each other.
    threads = min(_cores(), len(jobs)) if isinstance(channel, BitChannel) else 1
    if threads <= 1:
        for job in jobs:
            job()
    else:
        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(job) for job in jobs]:
                done.result()
    return column


def _encode_batch(
    survey: Survey, name: str, positions: npt.NDArray[np.int64], column: Column, coins: Coins
) -> None:
    if survey.attributes[name].rounds:
        positions = round_at_random(coins, positions)
    column[:] = survey.channels[name].encode(positions, coins)


def _cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _column(people: Any, name: str) -> pa.Array:  # noqa: ANN401 - any data frame
    """One column of pandas, polars, Arrow or a dict of arrays, as an Arrow array."""
    if isinstance(people, pa.RecordBatch):
        people = pa.Table.from_batches([people])
    if not isinstance(people, Mapping):
        try:
            people = nw.from_native(people, eager_only=True)
        except TypeError:
            raise ValueRefused(
                f"people must be a pandas, polars or Arrow table or a dict of arrays, "
                f"not {type(people).__name__}"
            ) from None
        except nw.exceptions.DuplicateError:
            raise ValueRefused("people have two columns of one name; rename one") from None
    try:
        names = list(people) if isinstance(people, Mapping) else people.columns
        if name not in names:
            there = f"{listed(names)}{guess(name, names)}"
            raise ValueRefused(f"people have no column {name!r}; they have {there}")
        if isinstance(people, Mapping):
            found = pa.array(people[name], from_pandas=True)
        else:
            found = people.get_column(name).to_arrow()
    except (pa.ArrowException, OverflowError, TypeError) as wrong:
        why = " ".join(str(wrong).split())
        raise ValueRefused(f"{name} is not a column of one kind of values: {why}") from None
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


# Arrow and Parquet -------------------------------------------------------------------------------


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


def check_marks(survey: Agreement, found: pa.Schema, source: str = "these reports") -> None:
    """Refuse reports of another survey, another version, or none at all."""
    marks = found.metadata or {}
    if _SURVEY_KEY not in marks or _VERSION_KEY not in marks:
        raise ReportRefused(
            "unmarked", f"{source} carry no survey fingerprint; read them from a reports file"
        )
    version, owner = (marks[key].decode("ascii", "replace") for key in (_VERSION_KEY, _SURVEY_KEY))
    if version != str(FORMAT):
        raise ReportRefused("version", f"{source} have version {version}, this is {FORMAT}")
    if owner != survey.fingerprint:
        raise ReportRefused(
            "survey",
            f"{source} belong to another survey ({owner[:16]}, this is {survey.fingerprint[:16]}); "
            "use the survey file that the devices used",
        )


def pieces(
    survey: Survey,
    collected: Any,  # noqa: ANN401 - told below
    *,
    refused: Counter[str] | None = None,
) -> Iterator[pa.Table]:
    """Reports in any form, checked, one table after the other; bytes are gathered to tables.

    A table, a record batch or a Parquet file, or a stream of those and of bytes.
    """
    if isinstance(collected, pa.Table | pa.RecordBatch | str | Path):
        collected = [collected]
    elif not isinstance(collected, list | tuple | set | frozenset | Iterator | ValuesView):
        raise ReportRefused(
            "kind",
            "reports are a pyarrow.Table, a Parquet file, or a list or stream of tables, files or "
            f"bytes, not {type(collected).__name__}",
        )
    waiting: list[bytes] = []
    before = 0  # reports so far, so that messages count on
    for item in collected:
        if isinstance(item, str | Path):
            found = stream(survey, item)
        elif isinstance(item, pa.Table | pa.RecordBatch):
            table = item if isinstance(item, pa.Table) else pa.Table.from_batches([item])
            found = iter([check_table(survey, table, before)])
        else:
            waiting.append(item)
            if len(waiting) < BATCH:
                continue
            found = iter([unpack(survey, waiting, refused=refused, before=before)])
            waiting = []
        for table in found:
            before += table.num_rows
            yield table
    if waiting:
        yield unpack(survey, waiting, refused=refused, before=before)


def check_table(survey: Agreement, table: pa.Table, before: int = 0) -> pa.Table:
    """The table, if every row could have come from a device of this survey; else a refusal.

    `before` reports came before these: messages count on from there.
    """
    if not isinstance(table, pa.Table):
        raise ReportRefused("kind", f"reports are a pyarrow.Table, not {type(table).__name__}")
    check_marks(survey, table.schema)
    expected = schema(survey)
    for field in expected:
        times = len(table.schema.get_all_field_indices(field.name))
        if times != 1:
            found = f"{times} columns" if times else "no column"
            raise ReportRefused("columns", f"these reports have {found} {field.name!r}")
    for name in table.schema.names:
        if name not in expected.names:
            raise ReportRefused("columns", f"these reports have a column {name!r} of no attribute")
    table = table.select(expected.names)
    for field, column in zip(expected, table.columns, strict=True):
        if column.type != field.type:
            raise ReportRefused(
                "columns", f"column {field.name} holds {column.type}, expected {field.type}"
            )
        if column.null_count:
            raise ReportRefused(
                "missing",
                f"column {field.name} has {counted(column.null_count, 'empty row')}",
            )
    # From here on the schema is the survey's own, so that all its tables can be joined.
    table = pa.Table.from_arrays(table.columns, schema=expected)
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


def batches(table: pa.Table) -> Iterator[dict[str, Column]]:
    """The columns of a table of reports as numpy arrays, without copying, chunk by chunk."""
    for batch in table.to_batches(max_chunksize=BATCH):
        if batch.num_rows:
            yield {name: _to_numpy(batch.column(name)) for name in batch.schema.names}


def _to_numpy(array: pa.Array) -> Column:
    if not pa.types.is_fixed_size_binary(array.type):
        return np.asarray(array.to_numpy(zero_copy_only=True))
    width = array.type.byte_width
    raw = np.frombuffer(array.buffers()[1], dtype=np.uint8)
    return raw[array.offset * width : (array.offset + len(array)) * width].reshape(-1, width)


def writer(survey: Survey, path: str | Path) -> pq.ParquetWriter:
    """A Parquet file of reports, to be written batch by batch.

    Bits are random and do not compress; small integers are stored as small dictionary codes.
    """
    dictionary = [n for n, c in survey.channels.items() if isinstance(c, IntegerChannel)]
    return pq.ParquetWriter(
        path, schema(survey), compression="none", use_dictionary=dictionary or False
    )


def write(survey: Survey, table: pa.Table, path: str | Path) -> None:
    """A Parquet file of reports."""
    table = check_table(survey, table)
    try:
        with writer(survey, path) as file:
            file.write_table(table)
    except OSError as wrong:
        why = wrong.strerror or str(wrong).splitlines()[0]
        raise ReportRefused("file", f"cannot write the reports file {path}: {why}") from None


def read(survey: Survey, path: str | Path) -> pa.Table:
    """Reports from a Parquet file, refused unless they are this survey's."""
    with _opened(survey, path) as file:
        table = file.read()
    return check_table(survey, table)


def stream(survey: Survey, path: str | Path) -> Iterator[pa.Table]:
    """The same, a piece of about a million reports at a time."""
    with _opened(survey, path) as file:
        before = 0
        for batch in file.iter_batches(_PIECE):
            table = pa.Table.from_batches([batch], schema=file.schema_arrow)
            yield check_table(survey, table, before)
            before += table.num_rows


@contextmanager
def _opened(survey: Survey, path: str | Path) -> Iterator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(path) as file:
            check_marks(survey, file.schema_arrow, f"the reports in {path}")
            yield file
    except ReportRefused:
        raise
    except FileNotFoundError:
        raise ReportRefused("file", f"there is no reports file {path}") from None
    except (pa.ArrowException, OSError) as wrong:
        why = str(wrong).splitlines()[0]
        raise ReportRefused("file", f"{path} is not a whole Parquet file: {why}") from None


# Bytes -------------------------------------------------------------------------------------------


def packed_size(survey: Agreement) -> int:
    """Bytes of one report, its header included."""
    return _HEADER + -(-survey.report_bits // 8)


def header(survey: Agreement) -> bytes:
    """The first bytes of every report: the version and the start of the fingerprint."""
    return bytes([FORMAT]) + bytes.fromhex(survey.fingerprint)[: _HEADER - 1]


def _header(survey: Agreement) -> npt.NDArray[np.uint8]:
    return np.frombuffer(header(survey), dtype=np.uint8)


def pack(survey: Agreement, table: pa.Table) -> list[bytes]:
    """Each report as a byte string of `packed_size` bytes."""
    found: list[bytes] = []
    size = packed_size(survey)
    for batch in batches(check_table(survey, table).combine_chunks()):
        bits = [_to_bits(survey.fields[name], column) for name, column in batch.items()]
        fields = np.packbits(np.concatenate(bits, axis=1), axis=1, bitorder="little")
        header = np.broadcast_to(_header(survey), (len(fields), _HEADER))
        whole = np.concatenate([header, fields], axis=1).tobytes()
        found += [whole[at : at + size] for at in range(0, len(whole), size)]
    return found


def unpack(
    survey: Agreement,
    blobs: Sequence[bytes],
    *,
    refused: Counter[str] | None = None,
    before: int = 0,
) -> pa.Table:
    """Byte strings back to a table; `before` reports came before these.

    The first bad one is refused with an exception; or, where a counter is given, bad ones are left
    out and counted there by reason.
    """
    size = packed_size(survey)
    whole = np.array([isinstance(b, bytes) and len(b) == size for b in blobs], dtype=bool)
    rows = np.frombuffer(
        b"".join(blob for blob, ok in zip(blobs, whole, strict=True) if ok), dtype=np.uint8
    ).reshape(-1, size)
    header = _header(survey)
    bits = np.unpackbits(rows[:, _HEADER:], axis=1, bitorder="little")
    columns, start = {}, 0
    out_of_range = np.zeros(len(rows), dtype=bool)
    for name, field in survey.fields.items():
        columns[name], wrong = _from_bits(field, bits[:, start : start + field.bits])
        out_of_range |= wrong
        start += field.bits
    reasons: dict[str, npt.NDArray[np.bool_]] = {
        "version": rows[:, 0] != header[0],
        "survey": np.asarray((rows[:, 1:_HEADER] != header[1:]).any(axis=1)),
        "padding": np.asarray(bits[:, start:].any(axis=1)),
        "range": out_of_range,
    }
    blame = np.array(
        ["length" if isinstance(blob, bytes) else "kind" for blob in blobs], dtype=object
    )
    why = np.full(len(rows), "", dtype=object)
    for reason, wrong in reversed(reasons.items()):
        why[wrong] = reason
    blame[whole] = why
    bad = np.flatnonzero(blame != "")
    if len(bad) and refused is None:
        at = int(bad[0])
        raise ReportRefused(blame[at], _complaint(survey, blame[at], before + at, blobs[at]))
    if refused is not None:
        refused.update(blame[bad].tolist())
    good = why == ""
    return to_table(survey, {name: column[good] for name, column in columns.items()})


def _complaint(survey: Agreement, reason: str, at: int, blob: bytes) -> str:
    if reason == "kind":
        return f"report {at + 1} is a {type(blob).__name__}; each report is bytes"
    told = {
        "length": f"has {len(blob)} bytes, expected {packed_size(survey)}",
        "version": f"has version {blob[0] if blob else None}, expected {FORMAT}",
        "survey": f"is of survey {blob[1:_HEADER].hex()}, expected {survey.fingerprint[:16]}",
        "padding": "has bits set behind its last field",
        "range": "has a value that no device could send",
    }
    return f"report {at + 1} {told[reason]}; rebuild the client from this survey"


def _to_bits(field: Field, column: Column) -> npt.NDArray[np.uint8]:
    if column.ndim == 1:
        little = column.astype(column.dtype.newbyteorder("<"))
        column = little.view(np.uint8).reshape(len(column), -1)
    return np.unpackbits(column, axis=1, count=field.bits, bitorder="little")


def _from_bits(field: Field, bits: npt.NDArray[np.uint8]) -> tuple[Column, npt.NDArray[np.bool_]]:
    packed = np.packbits(bits, axis=1, bitorder="little")
    empty = field.empty(0)
    if empty.ndim == 2:
        return packed, field.invalid(packed)
    dtype = empty.dtype
    wide = np.zeros((len(packed), dtype.itemsize), dtype=np.uint8)
    wide[:, : packed.shape[1]] = packed
    column = wide.view(dtype.newbyteorder("<")).reshape(-1).astype(dtype)
    return column, field.invalid(column)
