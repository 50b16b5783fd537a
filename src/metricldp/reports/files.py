"""Files: people from CSV and Parquet, encoded batch by batch; files of reports, merged."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from metricldp.attributes.base import Attribute
from metricldp.basics.errors import InvalidValueError
from metricldp.basics.optional import lazy
from metricldp.basics.writing import check_apart
from metricldp.mechanisms.randomness import Randomness
from metricldp.reports import arrow, parquet
from metricldp.reports.columns import column_hint, positions_of
from metricldp.reports.encode import encode
from metricldp.reports.shuffle import scattered
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq
else:
    pa, pc, pq = lazy("pyarrow"), lazy("pyarrow.csv"), lazy("pyarrow.parquet")

_BLOCK = 1 << 22
"""Bytes of a CSV file read at a time."""
_PACKED = (".gz", ".zip", ".bz2", ".xz", ".zst")


def encode_file(
    survey: Agreement,
    people: str | Path,
    output: str | Path,
    *,
    randomness: Randomness | None = None,
    clip: bool = False,
    shuffle: bool = True,
    progress: Callable[[float], None] = lambda done: None,
) -> int:
    """Encode a file of people into a file of reports, and say how many they were."""
    people, source = _path(people), randomness or Randomness()
    check_apart(output, [people], InvalidValueError)

    def reports() -> Iterator[pa.Table]:
        count = 0
        # So many at a time, however they stand in the file: then coins are drawn in one order.
        found = read_people(people, list(survey.asked), progress)
        for batch in arrow.regrouped(found, parquet.ROW_GROUP):
            with _rows_from(count):
                table = encode(survey, batch, randomness=source, clip=clip)
            yield table
            count += batch.num_rows
        if not count:
            raise InvalidValueError(f"{people} has no responses; each row after the header is one")

    tables = reports()
    if shuffle:
        tables = scattered(survey, tables, source, Path(output).parent)
    return parquet.write(survey, output, tables)


def read_positions(
    attributes: Mapping[str, Attribute],
    people: str | Path,
    *,
    clip: bool = False,
    progress: Callable[[float], None] = lambda done: None,
) -> dict[str, npt.NDArray[np.int64]]:
    """The positions of everybody in a file of people, for some of its columns."""
    people = _path(people)
    parts: dict[str, list[npt.NDArray[np.int64]]] = {name: [] for name in attributes}
    count = 0
    for batch in read_people(people, list(attributes), progress):
        with _rows_from(count):
            for name, attribute in attributes.items():
                values = batch.column(name).combine_chunks()
                found = positions_of(attribute, values, name, clip=clip)
                parts[name].append(found)
        count += batch.num_rows
    if not count:
        raise InvalidValueError(f"{people} has no responses; each row after the header is one")
    return {name: np.concatenate(found) for name, found in parts.items()}


def _path(people: object) -> Path:
    """Where people are; a refusal of anything but a name, which shows none of them."""
    if isinstance(people, str | Path):
        return Path(people)
    kind = type(people).__name__
    raise InvalidValueError(
        f"responses are read from a .csv or .parquet file, not a {kind}; save them"
    )


def read_columns(path: Path) -> dict[str, pa.Array]:
    """Every column of a file of people; those of a CSV file are text."""
    found = [*read_people(path, None, lambda done: None)]
    if not found:
        raise InvalidValueError(f"{path} has no responses; each row after the header is one")
    whole = pa.concat_tables(found)
    return {name: whole.column(name).combine_chunks() for name in whole.column_names}


def read_people(
    path: Path, names: list[str] | None, progress: Callable[[float], None]
) -> Iterator[pa.Table]:
    """Tables of people, a batch at a time; with some columns, or all for None."""
    if path.is_dir():
        raise InvalidValueError(f"{path} is a directory; name a .csv or .parquet file")
    if str(path) == "-" or (path.exists() and not path.is_file()):
        raise InvalidValueError(
            f"responses are not read from a pipe ({path}); name a .csv or .parquet file"
        )
    if not path.exists():
        raise InvalidValueError(f"there is no file {path}")
    if path.suffix.lower() in _PACKED:
        raise InvalidValueError(
            f"{path} is compressed; unpack it and name the .csv or .parquet file"
        )
    is_parquet = path.suffix.lower() in parquet.ENDINGS
    try:
        for table, done in (_read_parquet if is_parquet else _read_csv)(path, names):
            yield table
            progress(done)
        return
    except InvalidValueError:
        raise
    except MemoryError:
        why = "it does not fit the memory"
    except (pa.ArrowException, OSError, ValueError, OverflowError) as wrong:
        # Other words of a library may quote a cell; neither they nor the exception are shown.
        why = getattr(wrong, "strerror", None) or (
            f"it is damaged, or not a {'Parquet' if is_parquet else 'CSV'} file; save it again"
        )
    raise InvalidValueError(f"{path} cannot be read: {why}")


def _read_csv(path: Path, names: list[str] | None) -> Iterator[tuple[pa.Table, float]]:
    """Every cell as text: what it means is for the attributes to say."""
    header = _header(path)
    names = header if names is None else names
    _require(path, names, header)
    convert = pc.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        include_columns=names,
    )
    ragged: list[pc.InvalidRow] = []

    def note(row: pc.InvalidRow) -> str:
        ragged.append(row)
        return "error"

    parse = pc.ParseOptions(newlines_in_values=True, invalid_row_handler=note)
    # One thread, because only then a ragged row knows its number.
    options = pc.ReadOptions(block_size=_BLOCK, use_threads=False)
    size, why = path.stat().st_size, ""
    with path.open("rb") as file:
        try:
            with pc.open_csv(
                file, read_options=options, parse_options=parse, convert_options=convert
            ) as stream:
                for batch in stream:
                    yield pa.Table.from_batches([batch]), file.tell() / size
        except pa.ArrowInvalid as wrong:
            # Raised below, because Arrow's own error quotes the file.
            if ragged:
                row = ragged[0]
                why = (
                    f"row {row.number - 1} of {path} has {row.actual_columns} cells, the header "
                    f"{row.expected_columns}; put values with commas in quotes"
                )
            elif "Empty CSV" not in str(wrong):
                why = "is not in UTF-8" if "UTF8" in str(wrong) else "has a row that does not end"
                why = f"{path} {why}; save it again as CSV in UTF-8"
    if why:
        raise InvalidValueError(why)


def _header(path: Path) -> list[str]:
    names = None
    with (
        path.open(encoding="utf-8-sig", newline="") as file,
        contextlib.suppress(csv.Error, UnicodeDecodeError),
    ):
        names = next((row for row in csv.reader(file) if row), [])
    if names is None:
        raise InvalidValueError(f"{path} is not a CSV file in UTF-8; save it as CSV in UTF-8")
    if not names:
        raise InvalidValueError(f"{path} is empty; the first line names the columns")
    if names[0].lstrip().startswith(("{", "[")):
        raise InvalidValueError(f"{path} is JSON and not CSV; save it as CSV or Parquet")
    return names


def _read_parquet(path: Path, names: list[str] | None) -> Iterator[tuple[pa.Table, float]]:
    with pq.ParquetFile(path) as file:
        arrow.check_people(file.schema_arrow, f"the rows of {path}")
        there = file.schema_arrow.names
        names = there if names is None else names
        _require(path, names, there)
        done = 0
        for batch in file.iter_batches(batch_size=arrow.BATCH * 4, columns=names):
            done += batch.num_rows
            yield pa.Table.from_batches([batch]), done / file.metadata.num_rows


def _require(path: Path, names: list[str], found: list[str]) -> None:
    for name in names:
        if name not in found:
            hint = column_hint(name, names, found)
            if len(found) == 1 and any(mark in found[0] for mark in ";\t|"):
                hint = "; separate columns by commas"
            raise InvalidValueError(f"{path} has no column {name!r}{hint}")
        if found.count(name) > 1:
            raise InvalidValueError(f"{path} has more than one column {name!r}; rename the others")


@contextlib.contextmanager
def _rows_from(start: int) -> Iterator[None]:
    """Count rows from the beginning of the file in messages, not of the batch."""
    try:
        yield
    except InvalidValueError as wrong:
        if wrong.row is None:
            raise
        raise wrong.after(start) from None
