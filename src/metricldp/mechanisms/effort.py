"""How long the searches of a design run."""

from __future__ import annotations

from dataclasses import dataclass

from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.text import shown


@dataclass(frozen=True)
class Effort:
    """How long searches run. Equal efforts give equal distributions, unless time stops a search."""

    scale: float = 1.0
    """The number of iterations of searches, relative to the default."""
    seed: int = 0
    seconds: float | None = None
    """A limit of time; a search that it stops returns its best result so far."""


DEFAULT = Effort()


def checked_effort(effort: object) -> Effort:
    if not isinstance(effort, Effort):
        raise InvalidSpecError(f"effort is Effort(scale, seed, seconds), not {shown(effort)}")
    return effort
