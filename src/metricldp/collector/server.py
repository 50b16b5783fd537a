"""The collector as one ASGI app: uploads first, then operations, what owners ask for, and pages."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from metricldp.collector.books import Books
from metricldp.collector.database import StoreError
from metricldp.collector.folder import SEAL, Collector
from metricldp.collector.intake import ROOM, Intake
from metricldp.collector.operations import PATHS, metrics
from metricldp.collector.problems import Headers, problem
from metricldp.collector.register import Register
from metricldp.collector.requests import starlette
from metricldp.collector.sealing import remove_orphans
from metricldp.collector.upload import App, Receive, Scope, Send, Uploads, is_upload

_PAGES = "/surveys"
_HOUR = 3600.0
log = logging.getLogger("metricldp.collector")


@dataclass(frozen=True)
class Options:
    """How one process runs; what is the same for all stands in the books."""

    seal_at: int = SEAL
    """Reports that wait until they are sealed, where no batches are asked for."""
    every: float = 1.0
    """Seconds between two looks at what has to be sealed; 0 leaves that to other processes."""
    room: int = ROOM
    """Bytes of uploads that may wait."""
    patience: float = 30.0
    """Seconds for the body of an upload."""
    operations_port: int | None = None
    """Where /healthz, /readyz and /metrics are; with everything else if it is None."""


class Application:
    """Routes a request to whom it concerns; starts and ends with the server."""

    def __init__(
        self, collector: Collector, pages: App | None = None, options: Options | None = None
    ) -> None:
        self.collector, self._pages = collector, pages
        self._options = options or Options()
        self.intake: Intake | None = None
        self._uploads: Uploads | None = None
        self._rest = starlette(collector, self._flush)
        self._stop = threading.Event()
        self._sealer: threading.Thread | None = None
        self._opened: list[Books] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] != "http":
            return
        elif is_upload(scope["path"]) and self._uploads is not None:
            await self._uploads(scope, receive, send)
        else:
            await self._other(scope, receive, send)

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, port = scope["path"], self._options.operations_port
        here = (scope.get("server") or (None, None))[1]
        if port is not None and (here == port) != (path in PATHS):
            await _respond(send, *problem("not-found"))
        elif path in PATHS:
            await _respond(send, *await self._operations(path))
        elif self._pages is not None and is_page(path, scope["method"]):
            await self._pages(scope, receive, send)
        else:
            await self._rest(scope, receive, send)

    async def _operations(self, path: str) -> tuple[int, Headers, bytes]:
        try:
            if path == "/healthz":
                return _text("alive\n")
            if path == "/readyz":
                why = "not started" if self.intake is None else self.intake.failed
                await asyncio.to_thread(self.collector.entries)
                full = self.intake is None or not self.intake.has_room(0)
                if why or full:
                    return _text("the store cannot save reports\n" if why else "full\n", 503)
                return _text("ready\n")
            await self._flush()
            return _text(await asyncio.to_thread(metrics, self.collector, self.intake))
        except StoreError:
            return _text("the store does not respond\n", 503)

    async def _flush(self) -> None:
        if self.intake is not None:
            await self.intake.flush()

    # Beginning and end ---------------------------------------------------------------------------

    async def start(self) -> None:
        options = self._options
        self.intake = Intake(self._books(), options.room)
        self._uploads = Uploads(Register(self._books()), self.intake, options.patience)
        self._stop.clear()
        # What is there now stays: the collector of garbage need not walk through it any more.
        gc.collect()
        gc.freeze()
        if options.every:
            self._sealer = threading.Thread(target=self._tend, name="sealer", daemon=True)
            self._sealer.start()

    async def stop(self) -> None:
        """Keep what waits, and let go of everything."""
        self._stop.set()
        if self.intake is not None:
            await self.intake.stop()
        if self._sealer is not None:
            await asyncio.to_thread(self._sealer.join)
        self.intake = self._uploads = None
        while self._opened:
            self._opened.pop().database.close()

    def _books(self) -> Books:
        self._opened.append(Books(self.collector.connect()))
        return self._opened[-1]

    def _tend(self) -> None:
        """In a thread with a connection of its own, until the end."""
        books, options = self._books(), self._options
        tidied = let_go = pause = 0.0
        while not self._stop.wait(pause):
            pause = options.every
            try:
                if not tidied:
                    remove_orphans(books, self.collector.folder)
                    tidied = time.monotonic()
                if time.monotonic() >= let_go:
                    self.collector.let_go(books)
                    let_go = time.monotonic() + _HOUR
                self.collector.tend(books, options.seal_at)
            except StoreError as wrong:
                log.warning("sealing: %s", wrong)
            except Exception:
                log.exception("sealing failed")

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            kind = message["type"].removeprefix("lifespan.")
            try:
                await (self.start() if kind == "startup" else self.stop())
            except StoreError as wrong:
                await send({"type": f"lifespan.{kind}.failed", "message": str(wrong)})
                return
            await send({"type": f"lifespan.{kind}.complete"})
            if kind == "shutdown":
                self.collector.close()
                return


def is_page(path: str, method: str) -> bool:
    """Whether the pages serve it: /surveys..., and /v1/surveys/{fingerprint}/query/{kind}."""
    if path in ("/", _PAGES) or path.startswith(f"{_PAGES}/"):
        return True
    is_query = path.startswith("/v1/surveys/") and path.split("/")[4:5] == ["query"]
    return is_query and method in ("GET", "HEAD")


def application(
    folder: str | Path | Collector,
    pages: App | None = None,
    *,
    store: str | None = None,
    options: Options | None = None,
) -> Application:
    """The collector of a folder as an ASGI app; `pages` is an ASGI app for what people look at."""
    collector = folder if isinstance(folder, Collector) else Collector(folder, store)
    return Application(collector, pages, options)


def _text(said: str, status: int = 200) -> tuple[int, Headers, bytes]:
    body = said.encode()
    kind = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
    return status, [kind, (b"content-length", str(len(body)).encode())], body


async def _respond(send: Send, status: int, headers: Headers, body: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
