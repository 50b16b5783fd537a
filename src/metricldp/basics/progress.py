"""Progress of long work: the type of callbacks, and a bar on a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from threading import Timer
from typing import Any

Progress = Callable[[float], None]
"""Receives the fraction of the work that is done, from 0 to 1."""
DELAY = 1.0
"""Seconds of work after which a bar appears."""


def silent(done: float) -> None:
    """Report nothing."""


def part_of(progress: Progress, number: int, count: int) -> Progress:
    """A callback for one of several equal parts of the work, counted from 0."""
    return lambda done: progress((number + done) / count)


def bar_unless(progress: Progress | None, name: str) -> contextlib.AbstractContextManager[Progress]:
    """A callback that the caller states or, without one, a bar on a terminal."""
    return progress_bar(name) if progress is None else contextlib.nullcontext(progress)


@contextlib.contextmanager
def progress_bar(name: str) -> Iterator[Progress]:
    """Show a bar if the work takes longer than a second; on a terminal, never in a pipe.

    Without calls of the callback the bar shows only that work goes on, and for how long.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield silent
        return
    bars: list[Any] = []

    def start() -> None:
        from rich import progress
        from rich.console import Console

        columns = progress.TextColumn(name), progress.BarColumn(), progress.TimeElapsedColumn()
        bar = progress.Progress(
            *columns, console=Console(stderr=True), transient=True, redirect_stdout=False
        )
        bar.add_task(name, total=None)
        bar.start()
        bars.append(bar)

    def report(done: float) -> None:
        if bars:
            bars[0].update(bars[0].task_ids[0], completed=done, total=1.0)

    timer = Timer(DELAY, start)
    timer.daemon = True
    timer.start()
    try:
        yield report
    finally:
        timer.cancel()
        timer.join()
        if bars:
            bars[0].stop()
