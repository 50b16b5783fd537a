"""Reports: what leaves the device, as Arrow tables, Parquet files and fixed-size byte strings.

Bytes of one report: the format version (1), the first 8 bytes of the survey's fingerprint, then the
fields of all attributes in order, bit after bit, lowest bit first, and zeros up to a whole byte.
Decoding is strict: whatever no device of this survey could have sent is refused with a reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from metricldp.channels import BitChannel, Channel, Column, IntegerChannel
from metricldp.coins import Coins
from metricldp.errors import ReportRefused, ValueRefused
from metricldp.survey import FORMAT, Survey

BATCH = 1 << 16
"""People encoded at a time, so that a batch stays in the cache."""
_HEADER = 9
_SURVEY_KEY, _VERSION_KEY = b"metricldp.survey", b"metricldp.version"


# Encoding ----------------------------------------------------------------------------------------


def encode(survey: Survey, people: Any, *, coins: Coins | None, clip: bool) -> pa.Table:  # noqa: ANN401
    """Blur a table of people. All values are checked before the first coin is drawn."""
    positions = {
        name: attribute.positions(_column(people, name), name, clip=clip)
        for name, attribute in survey.attributes.items()
    }
    lengths = {name: len(column) for name, column in positions.items()}
    if len(set(lengths.values())) > 1:
        raise ValueRefused(f"columns differ in length: {lengths}")
    source = coins or Coins()
    columns = {
        name: _encode_column(survey.channels[name], column, source)
        for name, column in positions.items()
    }
    return to_table(survey, columns)


def _encode_column(channel: Channel, positions: npt.NDArray[np.int64], coins: Coins) -> Column:
    column = channel.empty(len(positions))
    for start in range(0, len(positions), BATCH):
        part = positions[start : start + BATCH]
        column[start : start + BATCH] = channel.encode(part, coins)
    return column


def _column(people: Any, name: str) -> pa.Array:  # noqa: ANN401 - any data frame
    """One column of pandas, polars, Arrow or a dict of arrays, as an Arrow array."""
    try:
        if isinstance(people, Mapping):
            names = list(people)
            column = people.get(name)
            found = None if column is None else pa.array(column, from_pandas=True)
        else:
            frame = nw.from_native(people, eager_only=True)
            names = frame.columns
            found = frame.get_column(name).to_arrow() if name in names else None
    except (pa.ArrowInvalid, pa.ArrowTypeError) as wrong:
        raise ValueRefused(f"{name} mixes kinds of values: {wrong}") from None
    except TypeError:
        raise ValueRefused(
            f"people must be a pandas, polars or Arrow table or a dict of arrays, "
            f"not {type(people).__name__}"
        ) from None
    if found is None:
        raise ValueRefused(f"people have no column {name!r}; they have {', '.join(names)}")
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


# Arrow and Parquet -------------------------------------------------------------------------------


def schema(survey: Survey) -> pa.Schema:
    """The columns of a table of reports, marked with the survey's fingerprint."""
    fields = [pa.field(name, _arrow_type(c), nullable=False) for name, c in survey.channels.items()]
    marks = {_VERSION_KEY: str(FORMAT).encode(), _SURVEY_KEY: survey.fingerprint.encode()}
    return pa.schema(fields, metadata=marks)


def _arrow_type(channel: Channel) -> pa.DataType:
    if isinstance(channel, BitChannel):
        return pa.binary(channel.width)
    assert isinstance(channel, IntegerChannel)
    return pa.from_numpy_dtype(channel.dtype)


def to_table(survey: Survey, columns: Mapping[str, Column]) -> pa.Table:
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


def check_marks(survey: Survey, found: pa.Schema, source: str = "these reports") -> None:
    """Refuse reports of another survey, another version, or none at all."""
    marks = found.metadata or {}
    if _SURVEY_KEY not in marks or _VERSION_KEY not in marks:
        raise ReportRefused(
            "unmarked", f"{source} carry no survey fingerprint; read them from a reports file"
        )
    version, owner = marks[_VERSION_KEY].decode(), marks[_SURVEY_KEY].decode()
    if version != str(FORMAT):
        raise ReportRefused("version", f"{source} have version {version}, this is {FORMAT}")
    if owner != survey.fingerprint:
        raise ReportRefused(
            "survey",
            f"{source} belong to another survey ({owner[:16]}, this is {survey.fingerprint[:16]}); "
            "use the survey file that the devices used",
        )


def check_table(survey: Survey, table: pa.Table) -> pa.Table:
    """The table, if every row could have come from a device of this survey; else a refusal."""
    if not isinstance(table, pa.Table):
        raise ReportRefused("kind", f"reports are a pyarrow.Table, not {type(table).__name__}")
    check_marks(survey, table.schema)
    expected = schema(survey)
    for field in expected:
        if table.schema.get_all_field_indices(field.name) == []:
            raise ReportRefused("columns", f"these reports have no column {field.name!r}")
    table = table.select(expected.names)
    for field, column in zip(expected, table.columns, strict=True):
        if column.type != field.type:
            raise ReportRefused(
                "columns", f"column {field.name} holds {column.type}, expected {field.type}"
            )
        if column.null_count:
            raise ReportRefused(
                "missing", f"column {field.name} has {column.null_count} empty rows"
            )
    row = 0
    for batch in batches(survey, table):
        for name, values in batch.items():
            wrong = survey.channels[name].invalid(values)
            if wrong.any():
                at = int(np.argmax(wrong))
                raise ReportRefused(
                    "range", f"report {row + at + 1} has an impossible value for {name}"
                )
        row += len(next(iter(batch.values())))
    return table


def batches(survey: Survey, table: pa.Table) -> Iterator[dict[str, Column]]:
    """The columns of a table of reports as numpy arrays, without copying, chunk by chunk."""
    for batch in table.to_batches():
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
    with writer(survey, path) as file:
        file.write_table(check_table(survey, table))


def read(survey: Survey, path: str | Path, names: Sequence[str] | None = None) -> pa.Table:
    """Reports from a Parquet file, refused unless they are this survey's.

    With `names`, only those attributes' columns are read and checked.
    """
    try:
        with pq.ParquetFile(path) as file:
            check_marks(survey, file.schema_arrow, str(path))
            table = file.read()
    except ReportRefused:
        raise
    except FileNotFoundError:
        raise ReportRefused("file", f"there is no reports file {path}") from None
    except (pa.ArrowException, OSError) as wrong:
        why = str(wrong).splitlines()[0]
        raise ReportRefused("file", f"{path} is not a whole Parquet file: {why}") from None
    return check_table(survey, table)


# Bytes -------------------------------------------------------------------------------------------


def packed_size(survey: Survey) -> int:
    """Bytes of one report, its header included."""
    return _HEADER + -(-survey.report_bits // 8)


def _header(survey: Survey) -> npt.NDArray[np.uint8]:
    start = bytes([FORMAT]) + bytes.fromhex(survey.fingerprint)[: _HEADER - 1]
    return np.frombuffer(start, dtype=np.uint8)


def pack(survey: Survey, table: pa.Table) -> list[bytes]:
    """Each report as a byte string of `packed_size` bytes."""
    found: list[bytes] = []
    size = packed_size(survey)
    for batch in batches(survey, check_table(survey, table).combine_chunks()):
        bits = [_to_bits(survey.channels[name], column) for name, column in batch.items()]
        fields = np.packbits(np.concatenate(bits, axis=1), axis=1, bitorder="little")
        header = np.broadcast_to(_header(survey), (len(fields), _HEADER))
        whole = np.concatenate([header, fields], axis=1).tobytes()
        found += [whole[at : at + size] for at in range(0, len(whole), size)]
    return found


def unpack(
    survey: Survey, blobs: Sequence[bytes], *, refused: Counter[str] | None = None
) -> pa.Table:
    """Byte strings back to a table.

    The first bad one is refused with an exception; or, where a counter is given, bad ones are left
    out and counted there by reason.
    """
    size = packed_size(survey)
    whole = np.array([len(blob) == size for blob in blobs], dtype=bool)
    rows = np.frombuffer(
        b"".join(blob for blob, ok in zip(blobs, whole, strict=True) if ok), dtype=np.uint8
    ).reshape(-1, size)
    header = _header(survey)
    bits = np.unpackbits(rows[:, _HEADER:], axis=1, bitorder="little")
    columns, start = {}, 0
    out_of_range = np.zeros(len(rows), dtype=bool)
    for name, channel in survey.channels.items():
        columns[name], wrong = _from_bits(channel, bits[:, start : start + channel.bits])
        out_of_range |= wrong
        start += channel.bits
    reasons: dict[str, npt.NDArray[np.bool_]] = {
        "version": rows[:, 0] != header[0],
        "survey": np.asarray((rows[:, 1:_HEADER] != header[1:]).any(axis=1)),
        "padding": np.asarray(bits[:, start:].any(axis=1)),
        "range": out_of_range,
    }
    blame = np.full(len(blobs), "length", dtype=object)
    why = np.full(len(rows), "", dtype=object)
    for reason, wrong in reversed(reasons.items()):
        why[wrong] = reason
    blame[whole] = why
    bad = np.flatnonzero(blame != "")
    if len(bad) and refused is None:
        at = int(bad[0])
        raise ReportRefused(blame[at], _complaint(survey, blame[at], at, blobs[at]))
    if refused is not None:
        refused.update(blame[bad].tolist())
    good = why == ""
    return to_table(survey, {name: column[good] for name, column in columns.items()})


def _complaint(survey: Survey, reason: str, at: int, blob: bytes) -> str:
    told = {
        "length": f"has {len(blob)} bytes, expected {packed_size(survey)}",
        "version": f"has version {blob[0] if blob else None}, expected {FORMAT}",
        "survey": f"is of survey {blob[1:_HEADER].hex()}, expected {survey.fingerprint[:16]}",
        "padding": "has bits set behind its last field",
        "range": "has a value that no device could send",
    }
    return f"report {at + 1} {told[reason]}; rebuild the client from this survey"


def _to_bits(channel: Channel, column: Column) -> npt.NDArray[np.uint8]:
    if column.ndim == 1:
        little = column.astype(column.dtype.newbyteorder("<"))
        column = little.view(np.uint8).reshape(len(column), -1)
    return np.unpackbits(column, axis=1, count=channel.bits, bitorder="little")


def _from_bits(
    channel: Channel, bits: npt.NDArray[np.uint8]
) -> tuple[Column, npt.NDArray[np.bool_]]:
    packed = np.packbits(bits, axis=1, bitorder="little")
    if isinstance(channel, BitChannel):
        return packed, np.zeros(len(packed), dtype=bool)
    assert isinstance(channel, IntegerChannel)
    wide = np.zeros((len(packed), channel.dtype.itemsize), dtype=np.uint8)
    wide[:, : packed.shape[1]] = packed
    column = wide.view(channel.dtype.newbyteorder("<")).reshape(-1).astype(channel.dtype)
    return column, channel.invalid(column)
