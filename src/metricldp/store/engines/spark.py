"""Spark: files that its workers can read, its own frames, and tables that it knows by name."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metricldp.basics.errors import InvalidReportError
from metricldp.basics.optional import lazy, optional
from metricldp.store.engines.base import Fold, Sums
from metricldp.store.engines.sql import SqlEngine

pa: Any = lazy("pyarrow")
sql: Any = optional("pyspark.sql")


class Spark(SqlEngine):
    """A data frame of Spark, queried in SQL; what SQL cannot do runs on each partition."""

    name, source, quote = "spark", "\0source\0", "`"
    """The source stands for the frame in a statement, until it is run."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    @classmethod
    def of_files(cls, paths: Sequence[str | Path]) -> Spark:
        """Parquet files that all workers can read, by their names or addresses."""
        names = [str(p) if "://" in str(p) else f"file://{_plain(p)}" for p in paths]
        return cls(_session().read.parquet(*names))

    @classmethod
    def of_table(cls, name: str) -> Spark:
        """A table or view that the session knows."""
        return cls(_session().table(name))

    def _table(self, statement: str) -> Any:
        # Names may have braces, which Spark would take for places of its own.
        text = statement.replace("{", "{{").replace("}", "}}").replace(self.source, "{source}")
        return self._frame.sparkSession.sql(text, source=self._frame).toArrow()

    def columns(self) -> list[str]:
        return list(self._frame.columns)

    def folded(self, columns: Sequence[str], fold: Fold, size: int) -> Sums:
        frame = self._frame.select(*map(self._name, columns))
        parts = frame.mapInArrow(_on_worker(fold), "sums binary").rdd
        try:
            # Added up on the workers, so that no machine holds the tables of all partitions.
            return np.asarray(parts.treeAggregate(np.zeros(size, dtype=np.int64), _plus, np.add))
        except Exception as wrong:
            if told := _REFUSED.search(str(wrong)):
                raise InvalidReportError(told[1], told[2]) from None
            raise


_REFUSED = re.compile(r"invalid reports, (\w+): (.+)")
"""An error of a worker, of which Spark returns only the text."""


def _plus(total: Sums, row: Any) -> Sums:
    return np.asarray(total + np.frombuffer(row.sums, dtype="<i8"))


def _session() -> Any:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # of workers that are started now
    return sql.SparkSession.getActiveSession() or sql.SparkSession.builder.getOrCreate()


def _plain(path: str | Path) -> str:
    """A name of one file: what would be a pattern in it stands for itself."""
    name = str(Path(path).absolute())
    return "".join(f"\\{letter}" if letter in "*?[]{}\\" else letter for letter in name)


def _on_worker(fold: Fold) -> Any:
    """Batches of one partition in, one row with its sums out."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        try:
            sums = fold(pa.Table.from_batches([batch]) for batch in batches)
        except InvalidReportError as wrong:
            raise RuntimeError(f"invalid reports, {wrong.reason}: {wrong}") from None
        yield pa.RecordBatch.from_pydict({"sums": [sums.astype("<i8").tobytes()]})

    return run
