"""POST /v1/surveys/{fingerprint}/reports as a plain ASGI function: the one path that is hot."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from metricldp.collector.books import UNKNOWN, Outcome
from metricldp.collector.database import StoreError
from metricldp.collector.envelope import LARGEST, Envelope
from metricldp.collector.folder import envelope_of
from metricldp.collector.intake import BusyError, Intake
from metricldp.collector.problems import OPEN, Headers, problem
from metricldp.collector.register import Entry, Register

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

START, END, FINGERPRINT = "/v1/surveys/", "/reports", 64
_LENGTH = len(START) + FINGERPRINT + len(END)
_AGAIN = 1.0
"""Seconds after which the register is asked again for a survey, or its settings."""
_MOST_KNOWN = 1024
_IN_THE_LOOP = 1024
"""Records that are read between two other things; more are read in a thread."""
_JSON: Headers = [(b"content-type", b"application/json"), OPEN]
log = logging.getLogger("metricldp.collector")


def is_upload(path: str) -> bool:
    return len(path) == _LENGTH and path.startswith(START) and path.endswith(END)


class Sweeper:
    """Ends what takes too long: one timer for all, since most take no time at all."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._running: dict[asyncio.Task[Any], float] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._sweeping = False

    def enter(self, task: asyncio.Task[Any]) -> None:
        """From now on the task has so long; it is cancelled then, or up to half as long later."""
        loop = asyncio.get_running_loop()
        self._running[task] = loop.time() + self._patience
        if not self._sweeping:
            self._sweeping = True
            loop.call_later(self._patience / 2, self._sweep)

    def leave(self, task: asyncio.Task[Any]) -> None:
        del self._running[task]

    def was_late(self, task: asyncio.Task[Any]) -> bool:
        """Whether it was cancelled for that, and not by somebody else; then it goes on."""
        if task not in self._late:
            return False
        self._late.discard(task)
        task.uncancel()
        return True

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        for task, end in self._running.items():
            if end < loop.time():
                self._late.add(task)
                task.cancel()
        self._sweeping = bool(self._running)
        if self._sweeping:
            loop.call_later(self._patience / 2, self._sweep)


class Uploads:
    """Takes reports for all surveys of a collector."""

    def __init__(self, register: Register, intake: Intake, patience: float = 30.0) -> None:
        self._register, self._intake = register, intake
        self._sweeper = Sweeper(patience)
        self._coming = 0
        """Bytes of bodies that are not whole yet."""
        self._known: dict[str, tuple[float, Entry | None, Envelope | None]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] == "POST":
                status, headers, body = await self._take(scope, receive)
            else:
                asked = scope["method"] == "OPTIONS"
                status, headers, body = _preflight() if asked else problem("method")
        except (BusyError, StoreError):
            status, headers, body = problem("busy")
        except ConnectionError:  # gone; nobody reads this
            status, headers, body = problem("slow")
        except Exception:
            log.exception("an upload failed")
            status, headers, body = problem("internal")
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _take(self, scope: Scope, receive: Receive) -> tuple[int, Headers, bytes]:
        envelope = self._envelope(scope["path"][len(START) : -len(END)])
        if envelope is None:
            return self._refuse(UNKNOWN, "unknown-survey")
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value[:12]) > LARGEST:
                return self._refuse(envelope.number, "too-large")
        if not self._intake.has_room(0):
            raise BusyError
        task = asyncio.current_task()
        assert task is not None
        self._sweeper.enter(task)
        try:
            message = await receive()
            body: bytes | None = message.get("body", b"")
            if message.get("more_body", False) or message["type"] == "http.disconnect":
                body = await self._rest(message, receive)
        except asyncio.CancelledError:
            if not self._sweeper.was_late(task):
                raise
            return self._refuse(envelope.number, "slow")
        finally:
            self._sweeper.leave(task)
        if body is None or len(body) > LARGEST:
            return self._refuse(envelope.number, "too-large")
        count = envelope.count(body)
        if count <= _IN_THE_LOOP:
            upload = envelope.read(body)
        else:
            upload = await asyncio.to_thread(envelope.read, body)
        return _told(await self._intake.keep(upload, len(body)), count)

    async def _rest(self, message: MutableMapping[str, Any], receive: Receive) -> bytes | None:
        """The whole body, of which this is the first part; None if it is too large.

        What is still coming takes room, too: else a thousand slow senders would fill the memory.
        """
        parts: list[bytes] = []
        size = 0
        try:
            while True:
                if message["type"] == "http.disconnect":
                    raise ConnectionError
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                self._coming += len(parts[-1])
                if size > LARGEST:
                    return None
                if not message.get("more_body", False):
                    return b"".join(parts)
                if not self._intake.has_room(self._coming):
                    raise BusyError
                message = await receive()
        finally:
            self._coming -= size

    def _refuse(self, survey: int, word: str) -> tuple[int, Headers, bytes]:
        self._intake.note(survey, word)
        return problem(word)

    def _envelope(self, fingerprint: str) -> Envelope | None:
        """How records of a survey are read; asked again from time to time, for it may change."""
        now = time.monotonic()
        until, before, envelope = self._known.get(fingerprint, (0.0, None, None))
        if now < until:
            return envelope
        entry = self._register.entry(fingerprint)
        if entry is None:
            envelope = None
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
        elif entry != before:
            envelope = envelope_of(entry)
        self._known[fingerprint] = (now + _AGAIN, entry, envelope)
        return envelope


_ONE = b'{"accepted":1,"duplicate":0,"rejected":{}}'
_ONE_HEADERS: Headers = [*_JSON, (b"content-length", str(len(_ONE)).encode())]


def _told(outcome: Outcome, count: int) -> tuple[int, Headers, bytes]:
    """A single report that is refused is an error; of several it is told how many were."""
    if count == 1:
        if outcome.accepted:
            return 200, _ONE_HEADERS, _ONE
        if outcome.refused:
            return problem(next(iter(outcome.refused)))
    elif outcome.refused.get("too-many"):
        return problem("too-many")
    said = {
        "accepted": outcome.accepted,
        "duplicate": outcome.duplicate,
        "rejected": dict(outcome.refused),
    }
    body = json.dumps(said, separators=(",", ":")).encode()
    return 200, [*_JSON, (b"content-length", str(len(body)).encode())], body


def _preflight() -> tuple[int, Headers, bytes]:
    """For those who send a content type of their own; without one no browser asks."""
    allowed: Headers = [
        OPEN,
        (b"access-control-allow-methods", b"POST"),
        (b"access-control-allow-headers", b"content-type"),
        (b"access-control-max-age", b"86400"),
    ]
    return 204, allowed, b""
