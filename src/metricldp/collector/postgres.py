"""Postgres as a durable store, for those who outgrow one file or one machine.

Sealed reports stand in the database, too: machines then share nothing else, one backup holds all,
and no file is ever without its row. The folder beside it only keeps copies for reading.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from metricldp.basics.optional import optional
from metricldp.collector.database import TABLES, Row, StoreError

if TYPE_CHECKING:
    import psycopg
else:
    psycopg = optional("psycopg")

_LOCK = 0x6D657472
"""The number of the lock that writers take, one after the other."""
_STEP = 0.002


class Postgres:
    """A connection to one database, in a schema of its own; made again when it was lost."""

    keeps_files, is_local = True, False

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Any = None
        self._connect()
        kinds = {
            "serial": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
            "bytes": "BYTEA",
            "whole": "BIGINT",
            "clustered": "",
        }
        # Two processes that start together must not both make the tables.
        if not self.begin(30.0):
            raise StoreError("the database is busy; try again")
        self.rows("CREATE SCHEMA IF NOT EXISTS metricldp")
        for table in TABLES:
            self.rows(table.format(**kinds))
        self.commit()

    def _connect(self) -> None:
        try:
            self._connection = psycopg.connect(self._url, autocommit=True)
            for said in (
                "synchronous_commit = on",
                "search_path = metricldp",
                # A plan from when the table of ids was small would scan all of it.
                "plan_cache_mode = force_custom_plan",
            ):
                self._connection.execute(f"SET {said}")
            fsync = self._connection.execute("SHOW fsync").fetchone()[0]
        except psycopg.Error as wrong:
            raise _unkept(wrong) from None
        if fsync != "on":
            raise StoreError("this Postgres has fsync = off and would lose reports; turn it on")

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        try:
            found = self._connection.execute(statement.replace("?", "%s"), values)
            return found.fetchall() if found.description else []
        except psycopg.Error as wrong:
            raise _unkept(wrong) from None

    def many(self, statement: str, values: Iterable[Sequence[Any]]) -> int:
        try:
            with self._connection.cursor() as cursor:
                cursor.executemany(statement.replace("?", "%s"), list(values))
                return max(0, int(cursor.rowcount))
        except psycopg.Error as wrong:
            raise _unkept(wrong) from None

    def begin(self, patience: float) -> bool:
        if self._connection.closed or self._connection.broken:
            self._connect()
        end = time.monotonic() + patience
        self.rows("BEGIN")
        try:
            while not self.rows(f"SELECT pg_try_advisory_xact_lock({_LOCK})")[0][0]:
                if time.monotonic() >= end:
                    self.rollback()
                    return False
                time.sleep(_STEP)
        except StoreError:
            self.rollback()
            raise
        return True

    def commit(self) -> None:
        try:
            done = self._connection.execute("COMMIT").statusmessage
        except psycopg.Error as wrong:
            raise _unkept(wrong) from None
        if done != "COMMIT":  # a transaction that failed before is rolled back without an error
            raise StoreError(f"Postgres did not commit: {done}")

    def rollback(self) -> None:
        with contextlib.suppress(StoreError):
            self.rows("ROLLBACK")

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        if self._connection.closed or self._connection.broken:
            self._connect()
        self.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            self.rollback()

    def close(self) -> None:
        self._connection.close()


def _unkept(wrong: Exception) -> StoreError:
    said = (str(wrong) or type(wrong).__name__).splitlines()[0]
    return StoreError(f"Postgres error: {said}")
