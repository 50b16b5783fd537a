"""A copy of a collector's folder, while it runs."""

from __future__ import annotations

import contextlib
from pathlib import Path

from metricldp.basics.writing import PRIVATE_FOLDER, replacing
from metricldp.collector import sealing
from metricldp.collector.books import Books
from metricldp.collector.database import StoreError
from metricldp.collector.folder import SURVEYS, Collector
from metricldp.collector.sqlite import SQLite

_TRIES = 5


def backup(collector: Collector, output: Path) -> int:
    """Books and sealed reports into a new folder; how many reports they hold.

    The books come first, as they are at one moment; then the files that they name, which never
    change. A copy is a collector's folder like any other.
    """
    if output.exists():
        raise StoreError(f"{output} exists; name a new folder")
    with collector.using() as (books, _):
        database = books.database
        if not isinstance(database, SQLite):
            raise StoreError("reports in Postgres are copied with pg_dump")
    output.mkdir(PRIVATE_FOLDER, parents=True)
    for inside in (sealing.FOLDER, SURVEYS):
        (output / inside).mkdir(PRIVATE_FOLDER)
    for path in (collector.folder / SURVEYS).glob("*.toml"):
        _copy(path, output / SURVEYS / path.name)
    for left in reversed(range(_TRIES)):
        try:
            return _books_and_files(collector, database, output)
        except FileNotFoundError as gone:  # files were deleted in between: again
            if not left:
                raise StoreError(f"{gone.filename} is missing; restore it from a backup") from None
    raise AssertionError


def _books_and_files(collector: Collector, database: SQLite, output: Path) -> int:
    with collector.using():
        database.backup(output)
    with contextlib.closing(SQLite(output)) as copy:
        books = Books(copy)
        for name in books.segments():
            if not (output / sealing.FOLDER / name).exists():
                _copy(collector.folder / sealing.FOLDER / name, output / sealing.FOLDER / name)
        return sum(books.segments().values()) + sum(books.waiting().values())


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as original, replacing(target, StoreError, private=True) as file:
        while part := original.read(1 << 20):
            file.write(part)
