"""How long the searches of a design run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How long searches run. Equal efforts give equal distributions, unless time stops a search."""

    scale: float = 1.0
    """The number of iterations of searches, relative to the default."""
    seed: int = 0
    seconds: float | None = None
    """A limit of time; a search that it stops returns its best result so far."""


DEFAULT = Effort()
