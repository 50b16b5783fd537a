"""Totals: a tally that keeps tables of chosen attributes and lets the reports go.

Its memory depends on the attributes, not on how many people report, so it can follow a stream. What
it can be asked is decided beforehand: questions about attributes that one of its tables holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from metricldp import layouts, reports
from metricldp.answers import Answer
from metricldp.channels import Floats
from metricldp.errors import QueryError, ReportRefused
from metricldp.messages import counted, listed, shown
from metricldp.queries import Where, attribute_of
from metricldp.readings import Reading
from metricldp.survey import Survey
from metricldp.tally import Tally


class Totals(Tally):
    """Exact sums over all reports for some sets of attributes; adding and merging are exact."""

    def __init__(self, survey: Survey, keep: Iterable[Sequence[str]]) -> None:
        super().__init__(survey, reports.schema(survey).empty_table(), "prefix")
        self.keep = _checked(survey, keep)
        self._count = 0
        for names in self.keep:
            channels = {name: survey.channels[name] for name in names}
            layouts.check_size(list(channels.values()), names)
            empty = np.zeros([channel.features for channel in channels.values()], dtype=np.int64)
            self._tables[names] = layouts.Table(channels, empty)

    @classmethod
    def stream(
        cls, survey: Survey, source: Iterable[pa.Table] | str | Path, keep: Iterable[Sequence[str]]
    ) -> Totals:
        """From tables of reports one after the other, or a Parquet file read piece by piece."""
        totals = cls(survey, keep)
        if isinstance(source, str | Path):
            source = reports.stream(survey, source)
        elif isinstance(source, pa.Table):
            source = [source]
        for table in source:
            totals.add(table)
        return totals

    def add(self, table: pa.Table) -> None:
        """Count a table of reports in."""
        table = reports.check_table(self.survey, table)
        for names in self.keep:
            batches = reports.batches(table.select(list(names)))
            part = layouts.build(batches, self._tables[names].channels)
            self._tables[names] = self._tables[names] + part
        self._forget_margins()
        self._count += table.num_rows

    @property
    def n(self) -> int:
        """How many people reported."""
        return self._count

    def __add__(self, other: Tally) -> Totals:
        if not isinstance(other, Totals):
            return NotImplemented
        if other.survey != self.survey or other.keep != self.keep:
            raise ReportRefused("survey", "totals of different surveys or tables cannot be merged")
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
        kept = listed([" x ".join(names) for names in self.keep])
        return f"<Totals of {counted(self.n, 'report')} over {kept}>"

    def save(self, path: str | Path) -> NoReturn:
        """Refused: the reports are gone."""
        raise QueryError(f"totals keep no reports to save in {path}; save them as they come")

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

    def _holding(self, names: Sequence[str]) -> layouts.Table:
        """The smallest table that holds these attributes."""
        fitting = [kept for kept in self.keep if set(names) <= set(kept)]
        if not fitting:
            kept = listed([" x ".join(names) for names in self.keep])
            raise QueryError(
                f"these totals keep {kept}, so {' x '.join(names)} has no answer; "
                "name it in keep= before the reports come in"
            )
        return min((self._tables[names] for names in fitting), key=lambda table: table.sums.size)

    def _forget_margins(self) -> None:
        """Tables summed out of others are made anew when they are asked for again."""
        for names in set(self._tables) - set(self.keep):
            del self._tables[names]


def _checked(survey: Survey, keep: Any) -> tuple[tuple[str, ...], ...]:  # noqa: ANN401
    """Sets of attributes in the survey's order, with those that cost even when left whole."""
    if isinstance(keep, str) or not isinstance(keep, Iterable):
        raise QueryError(f"keep is a list of sets of attributes, not {shown(keep)}")
    found: list[tuple[str, ...]] = []
    for names in keep:
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise QueryError(
                f"keep is a list of sets of attributes, such as [('age', 'region')], "
                f"not a list with {shown(names)}"
            )
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
    return tuple(found)
