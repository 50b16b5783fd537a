"""The same tally for those who wait: intervals without a search for shorter ones.

A bracket may take a minute to be planned. Behind an address that anybody may call again that is
too long; there the plain interval is given, and it ends where counts end, as always. Nor is a table
built because many have asked: it may take as long, and is of no use once more reports have come.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from metricldp.answers.answer import Answer
from metricldp.answers.arithmetic import Terms
from metricldp.answers.brackets import Bracket
from metricldp.answers.liars import one_report
from metricldp.answers.queries import Query
from metricldp.answers.tally import Tally
from metricldp.store.base import REPORTS, Store
from metricldp.store.cubes import Table
from metricldp.store.raw import Raw

_TABLES = 4
"""Tables that are kept for heat maps."""


class Unplanned(Bracket):
    """A bracket that is never worth planning: it knows only what is possible."""

    def worth(self, answer: Answer, z: float) -> bool:
        return False


class Quick(Tally):
    """A tally over the same store, whose intervals are the plain ones unless asked for others."""

    @classmethod
    def over(cls, tally: Tally) -> Quick:
        store: Store = tally.store
        if isinstance(store, Raw):
            store = Raw(store.survey, store.table, REPORTS)
        return cls(store, tally.planner)

    def is_over(self, tally: Tally) -> bool:
        """Whether it is of the very reports that a tally holds now."""
        if isinstance(self.store, Raw) and isinstance(tally.store, Raw):
            return self.store.table is tally.store.table
        return self.store is tally.store

    def _table(self, names: tuple[str, ...]) -> Table:
        """As ever, but the few last ones only."""
        found = super()._table(names)
        self._counted[names] = self._counted.pop(names)
        while len(self._counted) > _TABLES:
            del self._counted[next(iter(self._counted))]
        return found

    def _bracketed(self, query: Query, answer: Answer) -> Answer:
        found = Unplanned(self.planner, query, self.n, self._table, lambda: self.n)
        lie = partial(one_report, self.survey, query.functions)
        made = Terms.of(query, self)
        return replace(answer, bracket=found, lie=lie, made=made, survey=self.survey)
