"""Many segments to few: none is read twice, and what came twice counts once.

A segment is a file of reports, known by the number of its collection and its digest; or a piece of
a log, with columns `id` and `report`, whose records are known by their ids.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from metricldp.basics.errors import ReportRefused
from metricldp.basics.optional import optional
from metricldp.basics.writing import why_not
from metricldp.collector.logs.ingest import take
from metricldp.collector.logs.output import Output
from metricldp.collector.logs.seen import Seen
from metricldp.collector.search import ID, Ids
from metricldp.reports import parquet
from metricldp.reports.arrow import check_marks, to_table
from metricldp.reports.incoming import check_outside, check_uncounted, files_in, pieces
from metricldp.reports.parquet import UNNUMBERED, new_collection, numbered
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    pa, pq = optional("pyarrow"), optional("pyarrow.parquet")

LOG_COLUMNS = {"id", "report"}
_AT_ONCE = 1 << 18


class Compacted(NamedTuple):
    """What became of the segments."""

    segments: int
    """Those that were read now."""
    known: int
    """Those that were counted before, or are copies of others; they were not read."""
    accepted: int
    duplicates: int
    refused: dict[str, int]
    reports: int
    """All that the folder holds now."""


class _Segment(NamedTuple):
    """A file that is to be read, and what it is known by."""

    path: Path
    key: str
    is_log: bool
    collections: frozenset[str]


def compact(
    survey: Agreement,
    source: str | Path,
    folder: str | Path,
    *,
    keep: Sequence[Sequence[str]] = (),
) -> Compacted:
    """Count the new segments of a folder into another: all of them, or, if one is bad, none."""
    paths = files_in(source)
    check_outside(folder, source, paths)
    found = [_looked_at(survey, path) for path in paths]
    with Output.opened(survey, folder, "compact", keep) as output:
        segments = _new(found, output)
        known = len(found) - len(segments)
        if not segments:
            return Compacted(0, known, 0, 0, {}, output.n)
        reading = _Reading(survey, segments, output.seen)
        numbers: set[str] = set()

        def change(state: dict[str, Any]) -> None:
            output.note(reading.refused, reading.duplicates)(state)
            state["taken"].update({segment.key: segment.path.name for segment in segments})

        accepted = output.write(
            reading.tables(numbers, set(output.state["collections"])),
            numbers,
            reading.ids,
            change,
        )
        refused = dict(reading.refused)
        return Compacted(len(segments), known, accepted, reading.duplicates, refused, output.n)


def _new(segments: Sequence[_Segment], output: Output) -> list[_Segment]:
    """Segments that were not counted yet, by their footers alone, each once."""
    found: dict[str, _Segment] = {}
    for segment in segments:
        if segment.key not in output.state["taken"]:
            found.setdefault(segment.key, segment)
    return list(found.values())


def _looked_at(survey: Agreement, path: Path) -> _Segment:
    try:
        schema = pq.read_schema(path)
    except FileNotFoundError:
        raise ReportRefused("file", f"there is no reports file {path}") from None
    except (pa.ArrowException, OSError, ValueError) as wrong:
        raise ReportRefused(
            "file", f"{path} is not a whole Parquet file: {why_not(wrong)}"
        ) from None
    if set(schema.names) == LOG_COLUMNS:
        check_marks(survey, schema, f"the records in {path}")
        return _Segment(path, _log_key(path), True, frozenset())
    with parquet.opened(survey, path, unmarked=False) as file:
        if not file.digest:
            raise ReportRefused(
                "unmarked",
                f"{path} has no collection and no digest, so it could be counted twice; write it "
                "with metricldp encode or merge",
            )
        return _Segment(path, file.digest, False, file.collections)


def _log_key(path: Path) -> str:
    """What tells a file of records from others without reading it: footer, size and time.

    Two files that are taken for one would lose people. One that is taken for two is read again,
    and its ids are known.
    """
    size = path.stat()
    with path.open("rb") as file:
        file.seek(-8, 2)
        length = int.from_bytes(file.read(4), "little")
        file.seek(-min(8 + length, size.st_size), 2)
        footer = hashlib.sha256(file.read()).hexdigest()
    return f"{path.parent.name}/{path.name} {size.st_size} {size.st_mtime_ns} {footer}"


class _Reading:
    """A pass over segments: their reports, and the ids that were new."""

    def __init__(self, survey: Agreement, segments: Sequence[_Segment], seen: Seen) -> None:
        self._survey, self._segments = survey, segments
        self._seen, self._here = seen, Seen()
        self._ids: list[Ids] = []
        self.refused: Counter[str] = Counter()
        self.duplicates = 0

    def ids(self) -> Ids:
        return np.concatenate([np.zeros((0, ID), dtype=np.uint8), *self._ids])

    def tables(self, numbers: set[str], before: set[str]) -> Iterator[pa.Table]:
        """All reports that count; the collections that they are of join `numbers`."""
        counted = set(before)
        for segment in self._segments:
            if segment.is_log:
                continue
            check_uncounted(segment.collections, counted, f"the reports in {segment.path}")
            found: set[str] = set()
            yield from pieces(self._survey, segment.path, counted=found)
            counted |= numbered(found, UNNUMBERED)
        numbers |= counted - before
        if any(segment.is_log for segment in self._segments):
            numbers.add(new_collection())
        for segment in self._segments:
            if segment.is_log:
                yield from self._records(segment.path)

    def _records(self, path: Path) -> Iterator[pa.Table]:
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                for batch in file.iter_batches(_AT_ONCE, columns=["id", "report"]):
                    yield self._taken(batch, path)
        except ReportRefused:
            raise
        except (pa.ArrowException, OSError, ValueError) as wrong:
            raise ReportRefused("file", f"cannot read {path}: {why_not(wrong)}") from None

    def _taken(self, batch: pa.RecordBatch, path: Path) -> pa.Table:
        ids, reports = (batch.column(name).to_pylist() for name in ("id", "report"))
        if any(not isinstance(one, bytes) or len(one) != ID for one in ids):
            raise ReportRefused("columns", f"{path} has an id that is no {ID} bytes")
        if any(not isinstance(one, bytes) for one in reports):
            raise ReportRefused("missing", f"{path} has a record without a report")
        records = [one + report for one, report in zip(ids, reports, strict=True)]
        found = take(self._survey, records, self._seen)
        new = self._here.fresh(found.ids)
        self._here.add(found.ids[new])
        self._ids.append(found.ids[new])
        self.refused += found.refused
        self.duplicates += found.duplicates + int((~new).sum())
        return to_table(self._survey, {name: c[new] for name, c in found.columns.items()})
