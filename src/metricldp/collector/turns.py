"""Who may write, and who may change files: one at a time, whatever dies in between."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

from metricldp.collector.database import Database, StoreError

_PATIENCE = 30.0
_LEASE, _SECONDS = "sealing", 120


class Turns:
    """The turns of one process at a database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction, on the disk at the end; or nothing."""
        if not self.database.begin(_PATIENCE):
            raise StoreError(f"another process has been writing for {_PATIENCE:.0f} seconds")
        try:
            yield
            self.database.commit()
        except BaseException:
            self.database.rollback()
            raise

    @contextmanager
    def alone(self) -> Iterator[str | None]:
        """The right to change files, for as long as it takes; None if another has it."""
        holder = self.claim(_LEASE, _SECONDS)
        try:
            yield holder
        finally:
            if holder is not None:
                self.give_back(_LEASE, holder)

    @contextmanager
    def still_alone(self, holder: str) -> Iterator[None]:
        """A transaction that only takes place if nobody took the right over."""
        with self.writing():
            if not self.holds(_LEASE, holder):
                raise StoreError("another process took over the files")
            yield

    def claim(self, name: str, seconds: int) -> str | None:
        """The right to do something alone for so long, as a word to show; None if another has it.

        Whoever stops in between loses it by itself. That a process is dead is only a hint: what is
        done with the right asks once more whether it `holds`, in the transaction that counts.
        """
        holder, now = f"{os.getpid()}-{secrets.token_hex(8)}", int(time.time())
        with self.writing():
            found = self.database.rows("SELECT holder, until FROM leases WHERE name = ?", (name,))
            if found and found[0][1] >= now and not self._is_dead(found[0][0]):
                return None
            self.database.rows("DELETE FROM leases WHERE name = ?", (name,))
            self.database.rows("INSERT INTO leases VALUES (?, ?, ?)", (name, holder, now + seconds))
        return holder

    def _is_dead(self, holder: str) -> bool:
        if not self.database.is_local:
            return False
        try:
            os.kill(int(holder.partition("-")[0]), 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False

    def holds(self, name: str, holder: str) -> bool:
        """Inside a transaction, so that it stays so until its end."""
        found = self.database.rows("SELECT holder FROM leases WHERE name = ?", (name,))
        return bool(found) and found[0][0] == holder

    def give_back(self, name: str, holder: str) -> None:
        with self.writing():
            self.database.rows("DELETE FROM leases WHERE name = ? AND holder = ?", (name, holder))
