"""The reports themselves, packed, so that every question over any of the attributes stays open.

Sums are found in a pass over the reports, or in what was made of them when many questions came:
tables of feature sums over the attributes in question (`cubes`), or columns of bits (`bits`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metricldp.basics.optional import lazy
from metricldp.basics.text import counted
from metricldp.mechanisms import Channel, Floats
from metricldp.reports import arrow, parquet
from metricldp.reports.bytes import pack
from metricldp.reports.incoming import pieces
from metricldp.store import cubes, scan
from metricldp.store.base import REPORTS, Rejected, Sums
from metricldp.store.bits import Batch, BitColumns, Product, counts_from_reports
from metricldp.store.readings import Readings
from metricldp.store.tabled import Tabled
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy("pyarrow")

MAX_PASSES = 2
"""Queries of the same attributes after which reports of bits may be transposed to bit columns."""
MIN_REPORTS_PASSED = 1 << 24
"""Reports that were read for such queries from which on bit columns, and numba, are worth it."""


class Raw(Tabled):
    """Reports of one survey as an Arrow table.

    The layout "auto" builds a table for a set of attributes once enough questions about them have
    come in.
    """

    def __init__(self, survey: Agreement, table: pa.Table, layout: str = "auto") -> None:
        super().__init__(survey, layout)
        self.table = table
        self._columns: BitColumns | None = None

    @classmethod
    def of(
        cls,
        survey: Agreement,
        collected: Any,
        *,
        rejected: Counter[str] | None = None,
        layout: str = "auto",
        fingerprint: str | None = None,
    ) -> Raw:
        """From a table of reports, a Parquet file of them, or their bytes; strictly checked."""
        # Not schema.empty_table(), which imports pandas.
        raw = cls(survey, pa.Table.from_batches([], arrow.schema(survey)), layout)
        raw.add(collected, rejected=rejected, fingerprint=fingerprint)
        return raw

    @property
    def n(self) -> int:
        return int(self.table.num_rows)

    def add(
        self, collected: Any, *, rejected: Rejected = None, fingerprint: str | None = None
    ) -> None:
        counted = set(self.counted)
        found = pieces(
            self.survey, collected, refused=rejected, fingerprint=fingerprint, counted=counted
        )
        self.table = pa.concat_tables([self.table, *found])
        self.counted = self._numbered(counted)
        self._tables, self._columns = {}, None

    def merge(self, other: Raw) -> Raw:
        merged = Raw(self.survey, pa.concat_tables([self.table, other.table]), self.layout)
        merged.counted = self.counted | other.counted
        merged._take_tables(self, other)
        if self._columns is not None and other._columns is not None:
            merged._columns = self._columns + other._columns
        return merged

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Raw)
            and self.survey == other.survey
            and self.n == other.n
            and sorted(pack(self.survey, self.table)) == sorted(pack(other.survey, other.table))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{counted(self.n, 'report')} to survey {self.survey.fingerprint[:16]}>"

    def save(self, path: str | Path) -> None:
        """A Parquet file of reports."""
        parquet.write(self.survey, path, [self.table], self.counted)

    # Sums ----------------------------------------------------------------------------------------

    def _worth(self, names: tuple[str, ...], channels: list[Channel]) -> bool:
        return cubes.worth_a_table(channels, self._asked[names])

    def _passed(self, asked: Readings, weight: str | None) -> Sums:
        columns = asked.columns if weight is None else [*asked.columns, weight]
        return asked.named(scan.from_reports(self.batches(columns), asked, weight))

    def opened(self, readings: Readings, attribute: str) -> tuple[Sums, str]:
        batches = self.batches([*readings.columns, attribute])
        sums = scan.opened(batches, readings, attribute, self.survey.channels[attribute])
        return readings.named(sums), REPORTS

    def weight_squares(self, name: str, largest: int) -> tuple[float, list[float]]:
        squares = [np.square(batch[name]) for batch in self.batches([name])]
        few = sorted(float(square) for part in squares for square in _largest(part, largest))
        total = math.fsum(float(part.sum()) for part in squares)
        return total, few[max(0, len(few) - largest) :]

    def batches(self, names: Sequence[str]) -> list[Batch]:
        return list(arrow.batches(self.table.select([arrow.column_of(name) for name in names])))

    def _built(self, names: tuple[str, ...]) -> cubes.Table:
        channels = {name: self.survey.tabled[name] for name in names}
        return cubes.build(self.batches(names), channels)

    def _digit_counts(self, names: tuple[str, ...], terms: Sequence[Product]) -> list[int]:
        queries = self._asked[names]
        few = queries <= MAX_PASSES or queries * self.n < MIN_REPORTS_PASSED
        if few and self._columns is None:
            return counts_from_reports(terms, self.survey.channels, self.batches(names))
        if self._columns is None:
            bits = {n: c for n, c in self.survey.channels.items() if c.is_bits}
            self._columns = BitColumns(bits, self.batches(list(bits)))
        return self._columns.counts(terms)


def _largest(values: Floats, count: int) -> Floats:
    """The few largest values, in any order."""
    return values if len(values) <= count else np.partition(values, -count)[-count:]
