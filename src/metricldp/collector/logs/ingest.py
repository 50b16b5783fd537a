"""From a log that delivers at least once to Parquet files in which everybody counts once.

A record is an id of 16 bytes and a report. Of records with the same id the first good one counts.
Reports, ids and offsets are committed in one step (`output`), so a process may die at any moment:
the next one reads again what was not committed, and finds the ids of what was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from metricldp.channels import Column
from metricldp.collector.logs.output import Output
from metricldp.collector.logs.seen import Seen
from metricldp.collector.logs.sources import Log
from metricldp.collector.search import ID, Ids
from metricldp.reports.arrow import to_table
from metricldp.reports.bytes import judged
from metricldp.reports.parquet import new_collection
from metricldp.survey.agreement import Agreement

AT_ONCE = 1 << 20
"""Records of a round: as many reports as a file has."""


class Outcome(NamedTuple):
    """What became of the records that were read."""

    read: int
    accepted: int
    duplicates: int
    refused: dict[str, int]
    reports: int
    """All that the folder holds now."""


class Taken(NamedTuple):
    """Records that count, and what became of the others."""

    columns: dict[str, Column]
    ids: Ids
    duplicates: int
    refused: Counter[str]

    def own_ids(self) -> Ids:
        return self.ids


def ingest(
    survey: Agreement,
    log: Log,
    folder: str | Path,
    *,
    keep: Sequence[Sequence[str]] = (),
    at_once: int = AT_ONCE,
    on_round: Callable[[int], None] = lambda n: None,
) -> Outcome:
    """Read a log to its end, for now, in rounds of so many records."""
    read = accepted = duplicates = 0
    refused: Counter[str] = Counter()
    with Output.opened(survey, folder, "ingest", keep) as output:
        while True:
            found = log.read(output.state["offsets"], at_once)
            if not found.records:
                break
            taken = take(survey, found.records, output.seen)
            note = output.note(taken.refused, taken.duplicates)

            def change(
                state: dict[str, Any], note: Any = note, offsets: Any = found.offsets
            ) -> None:
                note(state)
                state["offsets"] = offsets

            table = to_table(survey, taken.columns)
            accepted += output.write([table], {new_collection()}, taken.own_ids, change)
            read += len(found.records)
            duplicates += taken.duplicates
            refused += taken.refused
            on_round(output.n)
        return Outcome(read, accepted, duplicates, dict(refused), output.n)


def take(survey: Agreement, records: Sequence[bytes], seen: Seen) -> Taken:
    """The good records whose ids are new, each once."""
    columns, blame = judged(survey, [record[ID:] for record in records])
    good = blame == ""
    refused = Counter(blame[~good].tolist())
    raw = b"".join(record[:ID] for record, ok in zip(records, good, strict=True) if ok)
    ids: Ids = np.frombuffer(raw, dtype=np.uint8).reshape(-1, ID)
    new: npt.NDArray[np.bool_] = seen.fresh(ids)
    kept = {name: column[new] for name, column in columns.items()}
    return Taken(kept, ids[new], int((~new).sum()), refused)
