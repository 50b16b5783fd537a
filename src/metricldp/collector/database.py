"""What the collector needs of a database: a few statements, and transactions that are on the disk.

`sqlite.py` is one file and several processes on one machine; `postgres.py` is a server. The SQL is
in `books.py` and `register.py`, in a form that both understand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from metricldp.basics.errors import MetricLdpError

Row = tuple[Any, ...]
MARK, DIGEST = 16, 8
"""Bytes of what is kept of an id, and of what tells its report from others."""


class StoreError(MetricLdpError):
    """What was sent could not be kept, or what is kept could not be read; nothing was counted."""


class Database(Protocol):
    """One connection; used by one thread at a time."""

    keeps_files: bool
    """Whether sealed reports stand in the database itself, not only in files beside it."""
    is_local: bool
    """Whether statements take microseconds, and only `commit` takes long."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """The rows that a statement finds or returns."""

    def many(self, statement: str, values: Iterable[Sequence[Any]]) -> int:
        """The same statement for all; how many rows it changed in the end."""

    def begin(self, patience: float) -> bool:
        """Begin to write, alone; or False if another is still writing after so many seconds."""

    def commit(self) -> None:
        """To the disk: once it returns nothing is lost, whatever happens to this process."""

    def rollback(self) -> None:
        """As if nothing had been written since `begin`."""

    def reading(self) -> AbstractContextManager[None]:
        """Several statements that see the same moment."""

    def close(self) -> None: ...


TABLES = (
    """CREATE TABLE IF NOT EXISTS surveys (
        number {serial}, fingerprint TEXT NOT NULL UNIQUE, text TEXT NOT NULL,
        settings TEXT NOT NULL, most {whole}, closed {whole} NOT NULL DEFAULT 0,
        forgotten {whole} NOT NULL DEFAULT 0, presentations TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS tokens (
        name TEXT PRIMARY KEY, survey {whole} NOT NULL, scope TEXT NOT NULL,
        hash {bytes} NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS ids (
        survey {whole} NOT NULL, mark {bytes} NOT NULL, digest {bytes} NOT NULL,
        PRIMARY KEY (survey, mark)) {clustered}""",
    """CREATE TABLE IF NOT EXISTS groups_waiting (
        seq {serial}, survey {whole} NOT NULL, n {whole} NOT NULL, reports {bytes} NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS segments (
        name TEXT PRIMARY KEY, survey {whole} NOT NULL, n {whole} NOT NULL,
        day {whole} NOT NULL, content {bytes})""",
    """CREATE TABLE IF NOT EXISTS counters (
        survey {whole} NOT NULL, outcome TEXT NOT NULL, n {whole} NOT NULL,
        PRIMARY KEY (survey, outcome))""",
    """CREATE TABLE IF NOT EXISTS hours (
        survey {whole} NOT NULL, hour {whole} NOT NULL, n {whole} NOT NULL,
        PRIMARY KEY (survey, hour))""",
    """CREATE TABLE IF NOT EXISTS leases (
        name TEXT PRIMARY KEY, holder TEXT NOT NULL, until {whole} NOT NULL)""",
)
"""`groups` is a word of SQL's own, so the groups that wait to be sealed have a longer name."""
