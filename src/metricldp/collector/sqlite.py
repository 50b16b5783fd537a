"""SQLite as a durable store: write-ahead log, and every commit waits for the disk."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metricldp.basics.optional import optional
from metricldp.basics.writing import create_private, make_private
from metricldp.collector.database import TABLES, Row, StoreError

if TYPE_CHECKING:
    import apsw
else:
    apsw = optional("apsw")

FILE = "collector.sqlite"
_GOOD = (3, 51, 3)
"""From 3.7.0 on, and until this version, a log that begins again could lose what two connections
had written: the WAL-reset bug."""
_CACHE = "cache_size = -32768"
"""Kibibytes of memory for pages, of one connection."""
_STEP, _PATIENCE = 0.001, 10.0


def check_version(said: str) -> None:
    """Refuse a SQLite that may damage its file."""
    if tuple(map(int, said.split(".")[:3])) < _GOOD:
        raise StoreError(
            f"SQLite {said} can damage a file that two connections write to (the WAL-reset bug); "
            "run python -m pip install 'apsw>=3.51.3'"
        )


class SQLite:
    """A connection to one file."""

    keeps_files, is_local = False, True
    folder: Path

    def __init__(self, folder: str | Path) -> None:
        check_version(apsw.sqlite_lib_version())
        try:
            self._connection = apsw.Connection(_database_file(Path(folder)))
            self._connection.set_busy_timeout(int(1000 * _PATIENCE))
            for pragma in (
                "journal_mode = WAL",
                "synchronous = FULL",
                "secure_delete = FAST",
                _CACHE,
            ):
                self.rows(f"PRAGMA {pragma}")
            kinds = {
                "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",
                "bytes": "BLOB",
                "whole": "INTEGER",
                "clustered": "WITHOUT ROWID",
            }
            have = {name for (name,) in self.rows("SELECT name FROM sqlite_master")}
            if have and "ids" not in have:
                raise StoreError(
                    f"{Path(folder) / FILE} was written by version 0.2, with ids in files; "
                    "collect into a new folder"
                )
            if not have:
                self.rows("BEGIN IMMEDIATE")
                for table in TABLES:
                    self.rows(table.format(**kinds))
                self.rows("COMMIT")
        except (apsw.Error, OSError) as wrong:
            raise _unkept(wrong, folder) from None
        self.folder = Path(folder)
        # From here on we wait ourselves, in short steps: SQLite's own steps grow to 100 ms.
        self._connection.set_busy_handler(_Waiting(_PATIENCE))

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except apsw.Error as wrong:
            raise _unkept(wrong, getattr(self, "folder", "")) from None

    def many(self, statement: str, values: Iterable[Sequence[Any]]) -> int:
        before = self._connection.total_changes()
        try:
            self._connection.executemany(statement, values)
        except apsw.Error as wrong:
            raise _unkept(wrong, self.folder) from None
        return self._connection.total_changes() - before

    def begin(self, patience: float) -> bool:
        try:
            self._connection.set_busy_handler(_Waiting(patience))
            self._connection.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            return False
        except apsw.Error as wrong:
            raise _unkept(wrong, self.folder) from None
        return True

    def commit(self) -> None:
        self.rows("COMMIT")

    def rollback(self) -> None:
        # After some failures SQLite has rolled back by itself.
        if self._connection.in_transaction:
            with contextlib.suppress(StoreError):
                self.rows("ROLLBACK")

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        self.rows("BEGIN")
        try:
            yield
        finally:
            self.rollback()

    def backup(self, folder: Path) -> None:
        """A whole copy of the file as it is at one moment, while others write."""
        copy = apsw.Connection(_database_file(folder))
        with contextlib.closing(copy), copy.backup("main", self._connection, "main") as running:
            while not running.done:
                running.step(-1)  # in steps, it would begin again at every commit

    def close(self) -> None:
        self._connection.close()


class _Waiting:
    """Asked by SQLite, again and again, whether to wait longer for a lock."""

    def __init__(self, patience: float) -> None:
        self._patience, self._since = patience, 0.0

    def __call__(self, before: int) -> bool:
        now = time.monotonic()
        if not before:
            self._since = now
        if now - self._since >= self._patience:
            return False
        time.sleep(_STEP)
        return True


def _database_file(folder: Path) -> str:
    """The path of the database, which only its owner can read.

    SQLite creates its log with the same mode. A log of an earlier run keeps its own, so it is
    changed as well.
    """
    create_private(folder / FILE)
    for log in ("wal", "shm"):
        make_private(folder / f"{FILE}-{log}")
    return str(folder / FILE)


def _unkept(wrong: Exception, folder: str | Path) -> StoreError:
    return StoreError(f"the store in {folder} has an error: {str(wrong) or type(wrong).__name__}")
