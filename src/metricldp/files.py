"""Files of people: CSV and Parquet, encoded batch by batch into a file of reports.

The reports appear under their name only when all people have been encoded; a refused value leaves
no file behind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from metricldp import reports
from metricldp.errors import ValueRefused
from metricldp.survey import Survey

_BLOCK = 1 << 22
"""Bytes of a CSV file read at a time."""


def encode_file(
    survey: Survey,
    people: str | Path,
    output: str | Path,
    *,
    clip: bool = False,
    progress: bool = False,
) -> int:
    """Encode a file of people into a file of reports, and say how many they were."""
    people, output = Path(people), Path(output)
    part = output.with_name(output.name + ".part")
    count = 0
    try:
        with _bar(people, progress) as advance, reports.writer(survey, part) as file:
            for batch, position in read_people(people, list(survey.attributes)):
                with _rows_from(count):
                    file.write_table(survey.encode(batch, clip=clip))
                count += batch.num_rows
                advance(position)
        part.replace(output)
    except OSError as wrong:
        raise ValueRefused(f"cannot write {output}: {wrong.strerror or wrong}") from None
    finally:
        part.unlink(missing_ok=True)
    return count


def read_people(path: Path, names: list[str]) -> Iterator[tuple[pa.Table, int]]:
    """Tables of people, a batch at a time, each with how far into the file it reaches."""
    if not path.is_file():
        raise ValueRefused(f"there is no file {path}")
    try:
        if path.suffix in (".parquet", ".pq"):
            yield from _read_parquet(path, names)
        else:
            yield from _read_csv(path, names)
    except pa.ArrowException as wrong:
        raise ValueRefused(f"{path} cannot be read: {str(wrong).splitlines()[0]}") from None


def _read_csv(path: Path, names: list[str]) -> Iterator[tuple[pa.Table, int]]:
    """Every cell as text: what it means is for the attributes to say."""
    header = _header(path)
    _require(path, names, header)
    convert = pc.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        include_columns=names,
        strings_can_be_null=False,
    )
    with path.open("rb") as file:
        options = pc.ReadOptions(block_size=_BLOCK)
        with pc.open_csv(file, read_options=options, convert_options=convert) as stream:
            for batch in stream:
                yield pa.Table.from_batches([batch]), file.tell()


def _header(path: Path) -> list[str]:
    with path.open("rb") as file:
        first = file.read(1 << 16).split(b"\n", 1)[0]
    if not first.strip():
        raise ValueRefused(f"{path} is empty; the first line names the columns")
    table = pc.read_csv(pa.py_buffer(first + b"\n"), pc.ReadOptions(autogenerate_column_names=True))
    return [str(column[0].as_py()) for column in table.columns]


def _read_parquet(path: Path, names: list[str]) -> Iterator[tuple[pa.Table, int]]:
    with pq.ParquetFile(path) as file:
        _require(path, names, file.schema_arrow.names)
        rows, size = max(1, file.metadata.num_rows), path.stat().st_size
        done = 0
        for batch in file.iter_batches(batch_size=reports.BATCH * 4, columns=names):
            done += batch.num_rows
            yield pa.Table.from_batches([batch]), size * done // rows


def _require(path: Path, names: list[str], found: list[str]) -> None:
    for name in names:
        if name not in found:
            raise ValueRefused(f"{path} has no column {name!r}; it has {', '.join(found)}")


@contextlib.contextmanager
def _rows_from(start: int) -> Iterator[None]:
    """Count rows from the beginning of the file in messages, not of the batch."""
    try:
        yield
    except ValueRefused as wrong:
        if wrong.row is None or not start:
            raise
        raise wrong.moved(start) from None


@contextlib.contextmanager
def _bar(path: Path, progress: bool) -> Iterator[Any]:
    if not progress:
        yield lambda position: None
        return
    columns = (TextColumn("encoding"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("encoding", total=path.stat().st_size if path.is_file() else None)
        yield lambda position: bar.update(task, completed=position)
