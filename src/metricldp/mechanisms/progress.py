"""The effort and the progress callback of the searches of a design.

The searches take both as arguments. This module passes them from `Survey.design` to the mechanisms
that start searches, past layers without such arguments.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from metricldp.basics.progress import Progress, progress_bar, silent
from metricldp.mechanisms.base import DEFAULT_EFFORT, Effort

_SETTINGS: ContextVar[tuple[Effort, Progress]] = ContextVar(
    "search settings", default=(DEFAULT_EFFORT, silent)
)


def search_settings() -> tuple[Effort, Progress]:
    """The effort and the progress callback of the current design."""
    return _SETTINGS.get()


@contextlib.contextmanager
def searching_with(effort: Effort, progress: Progress) -> Iterator[None]:
    """Use an effort and a progress callback within the context."""
    before = _SETTINGS.set((effort, progress))
    try:
        yield
    finally:
        _SETTINGS.reset(before)


@contextlib.contextmanager
def search_progress(progress: Progress | None = None) -> Iterator[None]:
    """Report the progress of searches to a function or, by default, as a bar on a terminal."""
    shown = progress_bar("designing") if progress is None else contextlib.nullcontext(progress)
    with shown as bar, searching_with(DEFAULT_EFFORT, bar):
        yield
