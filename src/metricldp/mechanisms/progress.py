"""Reports the progress of the searches of a design."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from metricldp.basics.progress import Progress, progress_bar
from metricldp.mechanisms.shapes import watching


@contextlib.contextmanager
def search_progress(progress: Progress | None = None) -> Iterator[None]:
    """Report the progress of searches to a function or, by default, as a bar on a terminal."""
    with progress_bar("designing") if progress is None else contextlib.nullcontext(progress) as bar:
        before = watching.set(bar)
        try:
            yield
        finally:
            watching.reset(before)
