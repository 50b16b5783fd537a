"""The same tally for those who wait: intervals without a search for shorter ones.

A bracket may take a minute to be planned. Behind an address that anybody may call again that is
too long; there the plain interval is given, and it ends where counts end, as always.
"""

from __future__ import annotations

from dataclasses import replace

from metricldp.answers.answer import Answer
from metricldp.answers.brackets import Bracket
from metricldp.answers.queries import Query
from metricldp.answers.tally import Tally


class Unplanned(Bracket):
    """A bracket that is never worth planning: it knows only what is possible."""

    def worth(self, answer: Answer, z: float) -> bool:
        return False


class Quick(Tally):
    """A tally over the same store, whose intervals are the plain ones unless asked for others."""

    @classmethod
    def over(cls, tally: Tally) -> Quick:
        found = cls(tally.store, tally.planner)
        found._counted = tally._counted
        return found

    def _bracketed(self, query: Query, answer: Answer, *, free: bool = False) -> Answer:
        bracket = Unplanned(self.planner, query, self.n, self._table, lambda: self.n)
        return replace(answer, bracket=bracket.free() if free else bracket)
