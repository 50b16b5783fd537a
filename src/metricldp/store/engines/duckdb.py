"""DuckDB: files on this machine, whatever its extensions can reach, and its own relations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from metricldp.basics.optional import lazy, optional
from metricldp.store.engines.base import BATCH, Fold, Sums
from metricldp.store.engines.sql import SqlEngine

duckdb: Any = optional("duckdb")
pa: Any = lazy("pyarrow")


class DuckDB(SqlEngine):
    """A relation of DuckDB."""

    name, source, quote = "duckdb", "reports", '"'

    def __init__(self, relation: Any) -> None:
        self._relation = relation

    @classmethod
    def of_files(cls, paths: Sequence[str | Path]) -> DuckDB:
        """Parquet files, each by its name, or by an address that DuckDB can read."""
        names = [str(path) if "://" in str(path) else _plain(str(path)) for path in paths]
        connection = duckdb.connect()
        connection.execute("SET parquet_metadata_cache = true")
        # Joint values of up to so many bits are counted in an array, and not by hashing.
        connection.execute("SET perfect_ht_threshold = 20")
        return cls(connection.read_parquet(names, hive_partitioning=False))

    def _table(self, statement: str) -> Any:
        return self._relation.query(self.source, statement).to_arrow_table()

    def columns(self) -> list[str]:
        return list(self._relation.columns)

    def folded(self, columns: Sequence[str], fold: Fold, size: int) -> Sums:
        names = ", ".join(map(self._name, columns))
        rows = self._relation.query(self.source, f"SELECT {names} FROM {self.source}")
        with rows.to_arrow_reader(BATCH) as reader:
            return fold(pa.Table.from_batches([batch]) for batch in reader)


def _plain(path: str) -> str:
    """A name of one file: what would be a pattern in it stands for itself."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in path)
