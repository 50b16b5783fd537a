"""Polars: files on this machine or in an object store, and its own frames."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from metricldp.basics.optional import optional
from metricldp.store.engines.base import BATCH, REPORTS, SQUARES, WEIGHT, Fold, Sums

pl: Any = optional("polars")


class Polars:
    """A lazy frame of polars, streamed."""

    name = "polars"

    def __init__(self, frame: Any) -> None:
        self._frame = frame.lazy()

    @classmethod
    def of_files(cls, paths: Sequence[str | Path]) -> Polars:
        """Parquet files, each by its name, or by an address that polars can read."""
        remote = any("://" in str(path) for path in paths)
        names = [str(path) for path in paths]
        return cls(pl.scan_parquet(names, glob=remote, hive_partitioning=False))

    def _found(self, query: Any) -> Any:
        return query.collect(engine="streaming")

    def columns(self) -> list[str]:
        return list(self._frame.collect_schema().names())

    def count(self) -> int:
        return int(self._found(self._frame.select(pl.len())).item())

    def grouped(self, columns: Sequence[str], weight: str | None = None) -> Any:
        wanted = [pl.len().cast(pl.Int64).alias(REPORTS)]
        if weight is not None:
            said = pl.col(weight).cast(pl.Float64)
            wanted += [said.sum().alias(WEIGHT), (said * said).sum().alias(SQUARES)]
        if columns:
            return self._found(self._frame.group_by(list(columns)).agg(wanted)).to_arrow()
        return self._found(self._frame.select(wanted)).to_arrow()

    def folded(self, columns: Sequence[str], fold: Fold, size: int) -> Sums:
        query = self._frame.select(list(columns))
        batches = query.collect_batches(chunk_size=BATCH, lazy=True, engine="streaming")
        return fold(frame.to_arrow() for frame in batches)

    def outside(self, column: str, low: float, high: float) -> int:
        said = pl.col(column).cast(pl.Float64)
        inside = (said.is_not_null() & (said >= low) & (said <= high)).fill_null(False)
        return int(self._found(self._frame.select((~inside).sum())).item() or 0)

    def largest(self, column: str, count: int) -> list[float]:
        found = self._found(self._frame.select(pl.col(column).cast(pl.Float64).top_k(count)))
        return [float(value) for value in found.to_series()]
