"""Reports in random order: every order is equally likely, so rows tell nothing of who came when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from metricldp.basics.writing import scratch
from metricldp.mechanisms import Column
from metricldp.mechanisms.randomness import Randomness
from metricldp.reports.arrow import batches, to_table
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    import pyarrow as pa

_BUCKETS = 256
"""One for each value of a random byte."""


def random_order(count: int, randomness: Randomness) -> npt.NDArray[np.int64]:
    """A permutation, each as likely as any other: the order of random words that all differ."""
    while True:
        words = randomness.words(count)
        order = np.argsort(words)
        if not (np.diff(words[order]) == 0).any():
            return order


def scattered(
    survey: Agreement, tables: Iterable[pa.Table], randomness: Randomness, folder: str | Path
) -> Iterator[pa.Table]:
    """All rows of a stream of reports in random order, in memory for a 256th of them.

    Each goes to a bucket at random, in a file without a name in that folder; then bucket after
    bucket is put in random order.
    """
    edges: list[npt.NDArray[np.int64]] = []
    """For each batch, where in the file its buckets begin, and the last ends."""
    kind = _record_type(survey)
    with scratch(folder) as file:
        for batch in (batch for table in tables for batch in batches(table)):
            records = _records(batch, kind)
            bucket = np.frombuffer(randomness.draw(len(records)), dtype=np.uint8)
            ends = np.cumsum(np.bincount(bucket, minlength=_BUCKETS)) * kind.itemsize
            edges.append(file.tell() + np.concatenate([[0], ends]))
            file.write(records[np.argsort(bucket, kind="stable")].tobytes())
        for number in range(_BUCKETS):
            parts = []
            for start, end in ((edge[number], edge[number + 1]) for edge in edges):
                file.seek(start)
                parts.append(file.read(end - start))
            if not any(parts):
                continue
            records = np.frombuffer(b"".join(parts), dtype=kind)
            records = records[random_order(len(records), randomness)]
            yield to_table(survey, {name: records[name] for name in survey.fields})


def _record_type(survey: Agreement) -> np.dtype[Any]:
    empty = {name: field.empty(0) for name, field in survey.fields.items()}
    return np.dtype([(name, column.dtype, column.shape[1:]) for name, column in empty.items()])


def _records(batch: Mapping[str, Column], kind: np.dtype[Any]) -> npt.NDArray[Any]:
    records = np.empty(len(next(iter(batch.values()))), dtype=kind)
    for name, column in batch.items():
        records[name] = column
    return records
