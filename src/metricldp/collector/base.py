"""What others may know of a collector: surveys, the reports it keeps, and counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from metricldp.answers.tally import Tally
from metricldp.survey.agreement import Agreement


@dataclass(frozen=True)
class Status:
    """What became of everything that was sent to one survey."""

    reports: int
    """Reports that can be asked about."""
    waiting: int
    """Reports that are kept, but not yet released to anybody who asks."""
    per_hour: tuple[tuple[int, int], ...]
    """Hours since 1970 in UTC, in order, and how many reports were accepted in each."""
    outcomes: Mapping[str, int]
    """How many reports were accepted, were duplicates, or were refused, by the reason's word."""
    closed: bool
    """Whether the survey takes no more reports."""
    presentations: tuple[tuple[int, str], ...]
    """Digests of the presentation in order, each with the second since 1970 of its first use."""


class Collected(Protocol):
    """The side of a collector that answers are made from."""

    def surveys(self) -> Sequence[Agreement]:
        """All surveys, in the order in which they were opened."""

    def tally(self, survey: Agreement) -> Tally:
        """The reports that are released, those that came since the last call included."""

    def status(self, survey: Agreement) -> Status:
        """The counters of a survey, now."""

    def allowed(self, token: str, survey: Agreement, scope: str) -> bool:
        """Whether a token gives this scope ("ask", "own") for this survey; in constant time."""
