"""The intake of one process: a bounded waiting room, and one committer that takes all who wait.

While one transaction goes to the disk others gather, so a hundred devices share one wait. Nobody is
answered before the transaction that holds their report is on the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from metricldp.collector.books import Books, Outcome
from metricldp.collector.database import StoreError
from metricldp.collector.envelope import Upload

ROOM = 1 << 25
"""Bytes of uploads that may wait."""
_EACH = 256
"""Bytes that an upload counts for, on top of its own."""
_AT_ONCE = 1 << 14
"""Reports in one transaction, about."""
_IN_THE_LOOP = 256
"""Reports that are written in the event loop, in milliseconds; more are written in the thread."""
_PATIENCE = 30.0
_FEW, _GATHER = 256, 0.003
"""So few reports wait so many seconds for others: a transaction costs as much as many reports."""
_PAUSE = 0.05
"""Seconds to wait after a failure."""
log = logging.getLogger("metricldp.collector")


class BusyError(Exception):
    """The waiting room is full, or nothing can be kept just now."""


class Hand:
    """One thread that does one thing after the other for an event loop."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        done = self._loop.create_future()
        self._jobs.put((work, done))
        return done

    def stop(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, done = job
            try:
                tell = partial(_answer, done, work())
            except BaseException as wrong:
                tell = partial(_fail, done, wrong)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(tell)


def _answer(done: asyncio.Future[Any], found: Any) -> None:
    if not done.done():
        done.set_result(found)


def _fail(done: asyncio.Future[Any], wrong: BaseException) -> None:
    if not done.done():
        done.set_exception(wrong)


class Intake:
    """Uploads in, outcomes out, once they are on the disk."""

    def __init__(self, books: Books, room: int = ROOM, flush: float = 1.0) -> None:
        self._books, self._room, self._flush = books, room, flush
        self._waiting: list[tuple[Upload, asyncio.Future[Outcome], int]] = []
        self._taken = self._reports = 0
        self._counts: Counter[tuple[int, str]] = Counter()
        self._come = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._hand = Hand("committer")
        self._stopping = False
        self._timer: asyncio.TimerHandle | None = None
        self._task = asyncio.create_task(self._commit_all())
        self.failed: str = ""
        """Why the last transaction could not be kept; empty when it was."""

    @property
    def load(self) -> float:
        """How full the waiting room is."""
        return self._taken / self._room

    def has_room(self, size: int) -> bool:
        return self._taken + size + _EACH <= self._room and not self._stopping

    def keep(self, upload: Upload, size: int) -> asyncio.Future[Outcome]:
        """What became of an upload, once that is on the disk; `size` is that of its body."""
        done: asyncio.Future[Outcome] = self._loop.create_future()
        if not upload.marks:
            self.count(upload)
            done.set_result(Outcome(0, 0, upload.refused))
            return done
        if not self.has_room(size):
            raise BusyError
        self._waiting.append((upload, done, size + _EACH))
        self._taken += size + _EACH
        self._reports += len(upload)
        self._come.set()
        return done

    def count(self, upload: Upload) -> None:
        for reason, n in upload.refused.items():
            self.note(upload.survey, reason, n)

    def note(self, survey: int, outcome: str, n: int = 1) -> None:
        """Count something that has nothing to keep: it goes along with the next transaction."""
        self._counts[survey, outcome] += n
        self._soon()

    def _soon(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(self._flush, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._come.set()

    async def flush(self) -> None:
        """Everything that was counted to the books."""
        self._come.set()
        while (self._counts or self._waiting) and not self.failed:
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """Keep what waits, and end."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
        self._come.set()
        await self._task
        self._hand.stop()

    async def _commit_all(self) -> None:
        while not (self._stopping and not self._waiting and not self._counts):
            await self._come.wait()
            self._come.clear()
            while self._waiting or self._counts:
                if self._waiting and self._reports < _FEW and not self._stopping:
                    await asyncio.sleep(_GATHER)
                if await self._commit():
                    continue
                if self._stopping:
                    return
                await asyncio.sleep(_PAUSE)
                if not self._waiting:
                    self._soon()
                    break

    def _take(self) -> list[tuple[Upload, asyncio.Future[Outcome], int]]:
        if self._reports <= _AT_ONCE:
            taken, self._waiting, self._reports = self._waiting, [], 0
            return taken
        count = 0
        for at, (upload, _, _) in enumerate(self._waiting):
            count += len(upload)
            if count > _AT_ONCE and at:
                taken, self._waiting = self._waiting[:at], self._waiting[at:]
                self._reports -= count - len(upload)
                return taken
        taken, self._waiting, self._reports = self._waiting, [], 0
        return taken

    async def _commit(self) -> bool:
        jobs, counts = self._take(), self._counts
        self._counts = Counter()
        uploads = [upload for upload, _, _ in jobs]
        try:
            outcomes = await self._written(uploads, counts)
        except Exception as wrong:  # whatever it was, others must not wait for ever
            if not isinstance(wrong, StoreError | MemoryError):
                log.exception("a transaction failed")
            self.failed = str(wrong) or type(wrong).__name__
            self._counts.update(counts)
            for _, done, size in jobs:
                self._taken -= size
                if not done.done():
                    done.set_exception(BusyError())
            return False
        self.failed = ""
        for (_, done, size), outcome in zip(jobs, outcomes, strict=True):
            self._taken -= size
            if not done.done():
                done.set_result(outcome)
        return True

    async def _written(
        self, uploads: list[Upload], counts: Counter[tuple[int, str]]
    ) -> list[Outcome]:
        """In one transaction; only what takes long happens in the thread."""
        books, database = self._books, self._books.database
        if not database.is_local or sum(map(len, uploads)) > _IN_THE_LOOP:
            found: list[Outcome] = await self._hand.call(partial(books.take, uploads, counts))
            return found
        if not database.begin(0.0) and not await self._hand.call(
            partial(database.begin, _PATIENCE)
        ):
            raise StoreError("another process has been writing for too long")
        try:
            found = books.write(uploads, counts)
            await self._hand.call(database.commit)
        except BaseException:
            database.rollback()
            raise
        return found
