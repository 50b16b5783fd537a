"""A copy of a collector's folder, while it runs."""

from __future__ import annotations

from pathlib import Path

from metricldp.basics.writing import replacing
from metricldp.collector import sealing
from metricldp.collector.books import Books
from metricldp.collector.database import StoreError
from metricldp.collector.folder import SURVEYS, Collector
from metricldp.collector.sqlite import SQLite


def backup(collector: Collector, output: Path) -> int:
    """Books and sealed reports into a new folder; how many reports they hold.

    The books come first, as they are at one moment; then the files that they name, which never
    change. A copy is a collector's folder like any other.
    """
    if output.exists():
        raise StoreError(f"{output} is there already; name a new folder")
    with collector.using() as (books, _):
        database = books.database
        if not isinstance(database, SQLite):
            raise StoreError("reports in Postgres are copied with pg_dump")
        output.mkdir(0o700, parents=True)
        for inside in (sealing.FOLDER, SURVEYS):
            (output / inside).mkdir()
        database.backup(output)
    copy = Books(SQLite(output))
    try:
        for name in copy.segments():
            _copy(collector.folder / sealing.FOLDER / name, output / sealing.FOLDER / name)
        for path in (collector.folder / SURVEYS).glob("*.toml"):
            _copy(path, output / SURVEYS / path.name)
        return sum(copy.segments().values()) + sum(copy.waiting().values())
    finally:
        copy.database.close()


def _copy(source: Path, target: Path) -> None:
    with replacing(target, StoreError) as file, source.open("rb") as original:
        while part := original.read(1 << 20):
            file.write(part)
