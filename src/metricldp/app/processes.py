"""The processes of `serve`: one, or several on the same sockets, started again when they die."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from multiprocessing.context import SpawnProcess
from typing import TYPE_CHECKING, Any

from metricldp.app.terminal import tell
from metricldp.app.web import pages
from metricldp.basics.optional import optional
from metricldp.collector.folder import Collector
from metricldp.collector.server import Application, Options, application

if TYPE_CHECKING:
    import uvicorn
else:
    uvicorn = optional("uvicorn")

_MOST_AT_ONCE = 2000
"""Connections of one process; more are told to come again."""
_SWITCH = 0.0005
"""Seconds for which a thread that seals may keep the others waiting."""
_PAUSE = 1.0
"""Seconds before a dead process is started again."""


def built(said: dict[str, Any]) -> Application:
    """The app of one process: the collector, and its pages."""
    collector = Collector(said["folder"], said["store"])
    return application(collector, pages(collector), options=Options(**said["options"]))


def run_all(said: dict[str, Any], sockets: Sequence[socket.socket], workers: int) -> None:
    """Serve until a signal comes."""
    if workers == 1:
        run(said, sockets)
        return
    context = multiprocessing.get_context("spawn")

    def started() -> SpawnProcess:
        process = context.Process(target=run, args=(said, list(sockets), os.getpid()))
        process.start()
        return process

    stopping: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: stopping.append(number))
    running = [started() for _ in range(workers)]
    while not stopping:
        time.sleep(0.1)
        for at, process in enumerate(running):
            if not process.is_alive() and not stopping:
                tell(f"process {process.pid} ended ({process.exitcode}); starting another")
                time.sleep(_PAUSE)
                running[at] = started()
    for process in running:
        process.terminate()
    for process in running:
        process.join()


def run(said: dict[str, Any], sockets: Sequence[socket.socket], parent: int | None = None) -> None:
    """One process."""
    sys.setswitchinterval(_SWITCH)
    app = built(said)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            loop="uvloop" if os.name == "posix" else "auto",
            http="httptools",
            ws="none",
            lifespan="on",
            access_log=False,  # addresses and times are nobody's business
            log_level="warning",
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_AT_ONCE,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=10,
        )
    )
    # asyncio.run would take its own loop, whatever the server was told.
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(_served(server, list(sockets), parent))
    app.collector.close()


async def _served(server: Any, sockets: list[socket.socket], parent: int | None) -> None:
    """Until a signal comes, or the process that started this one is gone."""

    async def watch() -> None:
        while parent is not None and os.getppid() == parent:
            await asyncio.sleep(1)
        server.should_exit = True

    watching = asyncio.create_task(watch()) if parent is not None else None
    await server.serve(sockets=sockets)
    if watching is not None:
        watching.cancel()
