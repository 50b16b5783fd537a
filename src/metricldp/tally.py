"""The tally: what the collector keeps, and the questions it answers.

It holds the reports themselves, packed, so that every question over any of the attributes stays
open. Merging is `+`; answers depend on which reports came in, never on their order or batches
(to the last digit wherever codes are counted, which is every question but long lists of values).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from metricldp import estimate, reports
from metricldp.answers import Answer, Histogram
from metricldp.attributes import Categorical
from metricldp.error import Factor, factors
from metricldp.errors import QueryError, ReportRefused
from metricldp.queries import Where, attribute_of, parse
from metricldp.survey import Survey


class Tally:
    """Reports of one survey, and answers from them."""

    def __init__(self, survey: Survey, table: pa.Table) -> None:
        self.survey = survey
        self._table = table

    @classmethod
    def of(
        cls,
        survey: Survey,
        collected: pa.Table | str | Path | Sequence[bytes],
        *,
        refused: Counter[str] | None = None,
    ) -> Tally:
        """From a table of reports, a Parquet file of them, or their bytes; strictly checked."""
        if isinstance(collected, str | Path):
            return cls(survey, reports.read(survey, collected))
        if isinstance(collected, list | tuple):
            return cls(survey, reports.unpack(survey, collected, refused=refused))
        return cls(survey, reports.check_table(survey, collected))

    @property
    def n(self) -> int:
        """How many people reported."""
        return int(self._table.num_rows)

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        if other.survey != self.survey:
            raise ReportRefused("survey", "tallies of two different surveys cannot be merged")
        return Tally(self.survey, pa.concat_tables([self._table, other._table]))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tally)
            and self.survey == other.survey
            and self.n == other.n
            and sorted(reports.pack(self.survey, self._table))
            == sorted(reports.pack(other.survey, other._table))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Tally of {self.n:,} reports to survey {self.survey.fingerprint[:16]}>"

    def save(self, path: str | Path) -> None:
        """Write the tally as a Parquet file of reports; `survey.tally(path)` loads it."""
        reports.write(self.survey, self._table, path)

    def count(self, where: Where | None = None, *, about: str = "respondents") -> Answer:
        """How many people are in all the ranges and categories of the where-clause."""
        query = parse(self.survey, where or {})
        involved = factors(self.survey, query)
        everybody = estimate.Sums(self.n, self.n, self.n)
        batches = self._batches(involved)
        sums = estimate.product_sums(batches, involved) if involved else everybody
        return estimate.to_answer(sums, involved, self.n, query.words, query.notes, about)

    def fraction(self, where: Where | None = None, *, about: str = "respondents") -> Answer:
        """The same as a share of all who reported."""
        if not self.n:
            raise QueryError("a fraction of no reports at all has no answer")
        return self.count(where, about=about).scaled(1 / self.n, "of all")

    def histogram(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        width: int = 1,
        about: str = "respondents",
    ) -> Histogram:
        """A count for every position of an attribute, or for every `width` of them together."""
        described = attribute_of(self.survey, attribute)
        query = parse(self.survey, where or {})
        if attribute in query.functions:
            raise QueryError(f"{attribute} is the histogram's own attribute; leave it out of where")
        if isinstance(width, bool) or not isinstance(width, int) or width < 1:
            raise QueryError(f"a bar is at least one position wide, not {width!r}")
        if width > 1 and isinstance(described, Categorical):
            raise QueryError(f"{attribute} has no order, so its bars cannot be {width} wide")
        involved = [f for f in factors(self.survey, query) if f.name != attribute]
        channel = self.survey.channels[attribute]
        starts = range(0, channel.size, width)
        grid = np.arange(channel.size) // width
        bars = [Factor(attribute, channel, (grid == k).astype(float)) for k in range(len(starts))]
        labels = tuple(
            described.label(start, min(start + width, channel.size) - 1) for start in starts
        )
        sums = estimate.bar_sums(self._batches([*involved, bars[0]]), bars, involved)
        answers = tuple(
            estimate.to_answer(s, [*involved, bar], self.n, label, query.notes, about)
            for s, bar, label in zip(sums, bars, labels, strict=True)
        )
        return Histogram(attribute, labels, answers)

    def _batches(self, involved: list[Factor]) -> list[estimate.Batch]:
        names = [factor.name for factor in involved]
        return list(reports.batches(self.survey, self._table.select(names))) if names else []
