"""Reports as they arrive: tables, files and bytes in any order, checked piece by piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, ValuesView
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metricldp.basics.errors import ReportRefused
from metricldp.basics.optional import optional
from metricldp.reports.arrow import BATCH, check_table, stream
from metricldp.reports.bytes import unpack
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = optional("pyarrow")


def pieces(
    survey: Agreement,
    collected: Any,
    *,
    refused: Counter[str] | None = None,
) -> Iterator[pa.Table]:
    """Reports in any form, checked, one table after the other; bytes are gathered to tables.

    A table, a record batch or a Parquet file, or a stream of those and of bytes.
    """
    if isinstance(collected, pa.Table | pa.RecordBatch | str | Path):
        collected = [collected]
    elif not isinstance(collected, list | tuple | set | frozenset | Iterator | ValuesView):
        raise ReportRefused(
            "kind",
            "reports are a pyarrow.Table, a Parquet file, or a list or stream of tables, files or "
            f"bytes, not {type(collected).__name__}",
        )
    waiting: list[bytes] = []
    before = 0  # reports so far, refused ones too, so that messages count on

    def gathered() -> pa.Table:
        nonlocal before
        table = unpack(survey, waiting, refused=refused, before=before)
        before += len(waiting)
        waiting.clear()
        return table

    for item in collected:
        whole = isinstance(item, str | Path | pa.Table | pa.RecordBatch)
        if not whole:
            waiting.append(item)
        if waiting and (whole or len(waiting) == BATCH):
            yield gathered()
        if not whole:
            continue
        if isinstance(item, str | Path):
            found = stream(survey, item)
        else:
            table = item if isinstance(item, pa.Table) else pa.Table.from_batches([item])
            found = iter([check_table(survey, table, before)])
        for table in found:
            before += table.num_rows
            yield table
    if waiting:
        yield gathered()
