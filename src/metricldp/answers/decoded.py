"""Decoded columns: for every report the number that it adds to an answer.

An answer is a sum over reports of products of decoders, and so is its variance. Here both are
written down report by report, so that SQL or a spreadsheet can add them up. Whoever has the reports
and the survey can compute them: a column tells nothing that the reports do not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metricldp.answers.conditions import Where
from metricldp.answers.estimate import with_private_squares
from metricldp.answers.queries import Query, parse, valued
from metricldp.basics.checks import flag
from metricldp.basics.errors import QueryError
from metricldp.basics.optional import lazy
from metricldp.basics.text import listed
from metricldp.basics.writing import check_apart, replacing
from metricldp.mechanisms import Floats
from metricldp.reports import arrow, parquet
from metricldp.reports.incoming import files_in, pieces
from metricldp.store.base import Store
from metricldp.store.bits import Batch
from metricldp.store.readings import Readings, attribute_of, read, read_weighted
from metricldp.store.scan import report_by_report
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    pa, pq = lazy("pyarrow"), lazy("pyarrow.parquet")

DECODED, VARIANCE, SQUARE = "contribution", "variance", "square"
_SIDES = ("", "_low", "_high")
"""Behind the names of columns: the question itself, and with values at both edges of their bins."""
_MARK = b"metricldp.contributions"


@dataclass(frozen=True)
class Decoder:
    """One question, as what each report adds to its answer and to the variance of that."""

    survey: Agreement
    readings: Readings
    words: str
    unit: str
    notes: tuple[str, ...]
    weight: str | None
    """A weight whose sum is asked for."""
    carried: tuple[str, ...]
    """Public columns that stand beside the decoded ones."""

    @classmethod
    def of(
        cls, survey: Agreement, where: Where | None, of: str | None = None, public: bool = False
    ) -> Decoder:
        """From the words of the question: a count or, `of` an attribute or a weight, its sum."""
        is_weight = of is not None and attribute_of(survey, of).is_weight
        query = parse(survey, where, of)
        queries, words = [query], query.words if of is None else f"{of} among {query.words}"
        if of is not None and not is_weight:
            queries, _ = valued(survey, of, query)
        weight = of if is_weight else None
        readings = _readings(survey, queries, weight)
        weights = tuple(name for name, a in survey.attributes.items() if a.is_public)
        carried = weights if flag("public", public) else ()
        found = cls(survey, readings, words, of or "people", queries[0].notes, weight, carried)
        if clash := set(carried).intersection(found.columns):
            raise QueryError(
                f"the public column {listed(clash)} has the name of a column of contributions; "
                "leave public out"
            )
        return found

    @property
    def columns(self) -> list[str]:
        """The names of what is decoded; bins leave values open, so these have two more of each."""
        sides = _SIDES[: self.readings.queries]
        return [f"{name}{side}" for side in sides for name in (DECODED, VARIANCE, SQUARE)]

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns of numbers, marked with what they are."""
        data = {
            "survey": self.survey.fingerprint,
            "question": self.words,
            "unit": self.unit,
            "notes": list(self.notes),
        }
        fields = [pa.field(name, pa.float64(), nullable=False) for name in self._names]
        mark = json.dumps(data, ensure_ascii=False, sort_keys=True)
        return pa.schema(fields, metadata={_MARK: mark.encode("utf-8")})

    @property
    def _names(self) -> list[str]:
        return [*self.columns, *self.carried]

    @property
    def needed(self) -> list[str]:
        """The columns of reports that are read: one at least, to know how many there are."""
        public = [] if self._public_weight is None else [self._public_weight]
        found = dict.fromkeys([*self.readings.columns, *public, *self.carried])
        return list(found) or list(self.survey.fields)[:1]

    @property
    def _public_weight(self) -> str | None:
        is_public = self.weight is not None and self.survey.attributes[self.weight].is_public
        return self.weight if is_public else None

    def batch(self, reports: Batch) -> pa.RecordBatch:
        """The columns of some reports, in their order."""
        sums: Any = report_by_report(reports, self.readings)
        weight: Floats | float = 1.0
        if self._public_weight is not None:
            weight = reports[self._public_weight]
        elif self.weight is not None:
            described: Any = self.survey.attributes[self.weight]
            sums = with_private_squares(sums, described.ends)
        found: list[Floats] = []
        for value, second, square in zip(
            sums["value"], sums["second"], sums["square"], strict=True
        ):
            decoded = value * weight
            found += [decoded, (second - square) * weight**2, decoded**2]
        found += [reports[name] for name in self.carried]
        return pa.RecordBatch.from_arrays(
            [pa.array(column) for column in found], schema=self.schema
        )

    def batches(self, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        """The same of tables of reports, one after the other."""
        for table in tables:
            columns = [arrow.column_of(name) for name in self.needed]
            for reports in arrow.batches(table.select(columns)):
                yield self.batch(reports)


def _readings(survey: Agreement, queries: list[Query], weight: str | None) -> Readings:
    """What sums are read from; a private weight is one more attribute."""
    functions = [query.functions for query in queries]
    described: Any = None if weight is None else survey.attributes[weight]
    if described is None or described.is_public:
        return read(survey, *functions)
    return read_weighted(survey, functions[0], weight or "", described.ends)


def of_store(store: Store, where: Where | None, of: str | None, *, public: bool) -> pa.Table:
    """The column of everything that a store keeps, in the order in which it keeps it."""
    decoder = Decoder.of(store.survey, where, of, public)
    batches = (decoder.batch(reports) for reports in store.batches(decoder.needed))
    return pa.Table.from_batches(batches, decoder.schema)


def decode_file(
    survey: Agreement,
    reports: str | Path,
    output: str | Path,
    where: Where | None = None,
    of: str | None = None,
    *,
    public: bool = False,
    fingerprint: str | None = None,
) -> tuple[Decoder, int]:
    """Write the column as a Parquet file; what was asked, and how many rows it has.

    The file appears when all reports were read and found to be as they were written.
    """
    decoder = Decoder.of(survey, where, of, public)
    check_apart(output, files_in(reports), QueryError)
    rows = 0
    with (
        replacing(output, QueryError, "column", parquet.ENDINGS) as sink,
        pq.ParquetWriter(sink, decoder.schema) as file,
    ):
        found = decoder.batches(pieces(survey, reports, fingerprint=fingerprint))
        tables = (pa.Table.from_batches([batch]) for batch in found)
        for table in arrow.regrouped(tables, parquet.ROW_GROUP):
            file.write_table(table.combine_chunks())
            rows += table.num_rows
    return decoder, rows
