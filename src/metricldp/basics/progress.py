"""The type of callbacks that report the progress of long work."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[float], None]
"""Receives the share of the work that is done, from 0 to 1."""


def silent(done: float) -> None:
    """Report nothing."""
