"""Totals: a tally that keeps tables of chosen attributes and lets the reports go.

Its memory depends on the attributes, not on how many people report, so it can follow a stream. What
it can be asked is decided beforehand: questions about attributes that one of its tables holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from metricldp.answers.answer import Answer
from metricldp.answers.queries import Where, attribute_of
from metricldp.answers.tally import Tally
from metricldp.basics.errors import QueryError, ReportRefused
from metricldp.basics.text import counted, shown
from metricldp.channels import Floats
from metricldp.reports import arrow
from metricldp.reports.collected import pieces
from metricldp.store import cubes
from metricldp.store.readings import Reading
from metricldp.survey.agreement import Agreement


class Totals(Tally):
    """Exact sums over all reports for some sets of attributes; adding and merging are exact."""

    def __init__(self, survey: Agreement, keep: Iterable[Sequence[str]]) -> None:
        super().__init__(survey, arrow.schema(survey).empty_table(), "prefix")
        self.keep = _checked(survey, keep)
        self._count = 0
        for names in self.keep:
            channels = {name: survey.channels[name] for name in names}
            cubes.check_size(list(channels.values()), names, "keep fewer attributes together")
            empty = np.zeros([channel.features for channel in channels.values()], dtype=np.int64)
            self._tables[names] = cubes.Table(channels, empty)

    @classmethod
    def stream(
        cls,
        survey: Agreement,
        collected: Any,
        keep: Iterable[Sequence[str]],
        refused: Counter[str] | None = None,
    ) -> Totals:
        """From reports in any form, piece by piece."""
        totals = cls(survey, keep)
        totals.add(collected, refused=refused)
        return totals

    def add(self, collected: Any, *, refused: Counter[str] | None = None) -> None:
        """Count more reports in: a table, a Parquet file, or a stream of those and of bytes.

        All of them or, if one is refused, none. Totals are for one thread at a time.
        """
        more = Totals(self.survey, self.keep)
        for table in pieces(self.survey, collected, refused=refused):
            for names in self.keep:
                batches = arrow.batches(table.select(list(names)))
                part = cubes.build(batches, more._tables[names].channels)
                more._tables[names] = more._tables[names] + part
            more._count += table.num_rows
        # A new dict: margins summed out of the old tables go with them.
        self._tables = {names: self._tables[names] + more._tables[names] for names in self.keep}
        self._count += more._count

    @property
    def n(self) -> int:
        """How many people reported."""
        return self._count

    def __add__(self, other: Tally) -> Totals:
        if not isinstance(other, Tally):
            return NotImplemented
        self._check_mergeable(other)
        assert isinstance(other, Totals)
        if other.keep != self.keep:
            kept = f"{_words(self.keep)} and {_words(other.keep)}"
            raise ReportRefused("keep", f"totals that keep {kept} cannot be merged")
        merged = Totals(self.survey, self.keep)
        for names in self.keep:
            merged._tables[names] = self._tables[names] + other._tables[names]
        merged._count = self._count + other._count
        return merged

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Totals)
            and (self.survey, self.keep, self.n) == (other.survey, other.keep, other.n)
            and all(
                np.array_equal(self._tables[names].sums, other._tables[names].sums)
                for names in self.keep
            )
        )

    __hash__ = None

    def __repr__(self) -> str:
        return f"<Totals of {counted(self.n, 'report')} over {_words(self.keep)}>"

    def save(self, path: str | Path) -> NoReturn:
        """Refused: the reports are gone."""
        raise QueryError(f"totals keep no reports to save in {path}; pickle the totals themselves")

    def weighted(self, where: Where | None = None, *, weight: str | None = None) -> Answer:
        """Refused: a weight belongs to each report."""
        raise QueryError("totals keep no weights; tally the reports themselves, without keep=")

    # Sums ----------------------------------------------------------------------------------------

    def _layout_for(self, names: tuple[str, ...]) -> str:
        if names and names not in self._tables:
            self._tables[names] = self._holding(names).over(names)
        return "prefix" if names else "reports"

    def _opened(self, rest: list[Reading], attribute: str) -> tuple[Floats, str]:
        names = {*(reading.name for reading in rest), attribute}
        ordered = tuple(name for name in self.survey.channels if name in names)
        self._layout_for(ordered)
        return self._tables[ordered].opened(rest, attribute, 3), "prefix"

    def _holding(self, names: Sequence[str]) -> cubes.Table:
        """The smallest table that holds these attributes."""
        fitting = [kept for kept in self.keep if set(names) <= set(kept)]
        if not fitting:
            raise QueryError(
                f"these totals keep {_words(self.keep)}, so {' x '.join(names)} has no answer; "
                "name it in keep= before the reports come in"
            )
        return min((self._tables[names] for names in fitting), key=lambda table: table.sums.size)


def _words(keep: Iterable[Sequence[str]]) -> str:
    return ", ".join(" x ".join(names) for names in keep)


def _checked(survey: Agreement, keep: Any) -> tuple[tuple[str, ...], ...]:
    """Sets of attributes in the survey's order, with those that cost even when left whole."""
    sets = "keep is a list of sets of attributes, such as [('age', 'region')]"
    if isinstance(keep, str) or not isinstance(keep, Iterable):
        raise QueryError(f"{sets}, not {shown(keep)}")
    found: list[tuple[str, ...]] = []
    for names in keep:
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise QueryError(f"{sets}, not a list with {shown(names)}")
        wanted = list(names)
        for name in wanted:
            attribute_of(survey, name)
            if name not in survey.channels:
                raise QueryError(f"{name} is a public weight; totals are over blurred attributes")
        ordered = tuple(
            n for n, c in survey.channels.items() if n in wanted or not c.free_when_whole
        )
        if ordered and ordered not in found:
            found.append(ordered)
    if not found:
        raise QueryError("keep names no attributes; without keep= a tally keeps the reports")
    order = list(survey.channels)
    return tuple(sorted(found, key=lambda names: [order.index(name) for name in names]))
