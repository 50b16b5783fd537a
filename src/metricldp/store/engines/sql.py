"""The SQL statements of engines that are queried in SQL, and the quotes around names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from metricldp.store.engines.base import REPORTS, SQUARES, WEIGHT

if TYPE_CHECKING:
    import pyarrow as pa


class SqlEngine(ABC):
    """An engine that answers SQL statements about one source of rows."""

    source: ClassVar[str]
    """The name of the rows in a statement."""
    quote: ClassVar[str]

    @abstractmethod
    def _table(self, statement: str) -> pa.Table:
        """The rows that a statement returns."""

    def _name(self, column: str) -> str:
        """A name between quotes; a quote inside it is doubled."""
        return f"{self.quote}{column.replace(self.quote, 2 * self.quote)}{self.quote}"

    def _values(self, statement: str) -> list[Any]:
        """The first column of the rows that a statement returns."""
        values: list[Any] = self._table(statement)[0].to_pylist()
        return values

    def count(self) -> int:
        """How many rows there are."""
        return int(self._values(f"SELECT COUNT(*) AS n FROM {self.source}")[0])

    def grouped(self, columns: Sequence[str], weight: str | None = None) -> pa.Table:
        """How many rows have each combination of values, and how much weight."""
        names = [self._name(column) for column in columns]
        selected = [*names, f"COUNT(*) AS {self._name(REPORTS)}"]
        if weight is not None:
            number = f"CAST({self._name(weight)} AS DOUBLE)"
            selected.append(f"SUM({number}) AS {self._name(WEIGHT)}")
            selected.append(f"SUM({number} * {number}) AS {self._name(SQUARES)}")
        last = f"\nGROUP BY {', '.join(names)}" if names else ""
        return self._table(f"SELECT {', '.join(selected)}\nFROM {self.source}{last}")

    def outside(self, column: str, low: float, high: float) -> int:
        """How many rows have a number that is not between the two, or none."""
        name = self._name(column)
        inside = f"{name} IS NOT NULL AND {name} >= {float(low)!r} AND {name} <= {float(high)!r}"
        return int(
            self._values(f"SELECT COUNT(*) AS n\nFROM {self.source}\nWHERE NOT ({inside})")[0]
        )

    def largest(self, column: str, count: int) -> list[float]:
        """The largest few values of a column."""
        name = self._name(column)
        last = f"ORDER BY {name} DESC\nLIMIT {int(count)}"
        return [float(v) for v in self._values(f"SELECT {name}\nFROM {self.source}\n{last}")]
