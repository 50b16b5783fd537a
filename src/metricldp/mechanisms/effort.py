"""How long the searches of a design run, and the report of their progress."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from metricldp.basics.progress import Progress, progress_bar
from metricldp.mechanisms.shapes import watching


@dataclass(frozen=True)
class Effort:
    """How long searches run. Equal efforts give equal distributions, unless time stops a search."""

    scale: float = 1.0
    """The number of iterations of searches, relative to the default."""
    seed: int = 1
    seconds: float | None = None
    """A limit of time; a search that it stops returns its best result so far."""


DEFAULT = Effort()


@contextlib.contextmanager
def search_progress(progress: Progress | None = None) -> Iterator[None]:
    """Report the progress of searches to a function or, by default, as a bar on a terminal."""
    with progress_bar("designing") if progress is None else contextlib.nullcontext(progress) as bar:
        before = watching.set(bar)
        try:
            yield
        finally:
            watching.reset(before)
