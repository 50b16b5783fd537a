"""DuckDB: files on this machine, whatever its extensions can reach, and its own relations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from metricldp.basics.optional import optional
from metricldp.store.engines import texts
from metricldp.store.engines.base import BATCH, Fold, Ones, Sums

duckdb: Any = optional("duckdb")
pa: Any = optional("pyarrow")


class DuckDB:
    """A relation of DuckDB, asked in SQL."""

    name = "duckdb"

    def __init__(self, relation: Any) -> None:
        self._relation = relation
        self._connection: Any = None
        self._source = "reports"

    @classmethod
    def of_files(cls, paths: Sequence[str | Path]) -> DuckDB:
        """Parquet files, each by its name, or by an address that DuckDB can read."""
        names = [str(path) if "://" in str(path) else _plain(str(path)) for path in paths]
        connection = duckdb.connect()
        connection.execute("SET parquet_metadata_cache = true")
        # Joint values of up to so many bits are counted in an array, and not by hashing.
        connection.execute("SET perfect_ht_threshold = 20")
        found = cls(connection.read_parquet(names, hive_partitioning=False))
        # By name in each statement: a view of hundreds of columns takes longer than the count.
        quoted = ", ".join("'{}'".format(name.replace("'", "''")) for name in names)
        found._source = f"read_parquet([{quoted}], hive_partitioning=false)"
        found._connection = connection
        return found

    def _asked(self, text: str) -> Any:
        if self._connection is None:
            return self._relation.query(self._source, text)
        return self._connection.sql(text)

    def _row(self, text: str) -> list[Any]:
        if self._connection is not None:
            return list(self._connection.execute(text).fetchall()[0])  # all, so that it ends
        table = self._asked(text).to_arrow_table()
        return [column[0].as_py() for column in table.columns]

    def columns(self) -> list[str]:
        return list(self._relation.columns)

    def count(self) -> int:
        return int(self._row(f"SELECT COUNT(*) FROM {self._source}")[0])

    def grouped(self, columns: Sequence[str], weight: str | None = None) -> Any:
        text = texts.group_by(columns, self._source, texts.DUCKDB, weight)
        return self._asked(text).to_arrow_table()

    def ones(self, asked: Sequence[Ones]) -> list[int]:
        found = self._row(texts.counted_ones(asked, self._source, texts.DUCKDB))
        return [int(count or 0) for count in found]

    def folded(self, columns: Sequence[str], fold: Fold, size: int) -> Sums:
        names = ", ".join(texts.DUCKDB.name(column) for column in columns)
        with self._asked(f"SELECT {names} FROM {self._source}").to_arrow_reader(BATCH) as reader:
            return fold(pa.Table.from_batches([batch]) for batch in reader)

    def outside(self, column: str, low: float, high: float) -> int:
        text = texts.outside(column, low, high, self._source, texts.DUCKDB)
        return int(self._row(text)[0])

    def largest(self, column: str, count: int) -> list[float]:
        text = texts.largest(column, count, self._source, texts.DUCKDB)
        return [float(value) for value in self._asked(text).to_arrow_table()[0].to_pylist()]


def _plain(path: str) -> str:
    """A name of one file: what would be a pattern in it stands for itself."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in path)
