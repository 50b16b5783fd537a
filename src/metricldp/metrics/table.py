"""Metrics as a table: the distance of every two values, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from metricldp.basics.errors import SurveyError
from metricldp.basics.text import shown
from metricldp.metrics.words import Length, Stated, Value, as_length, between, length_of


@dataclass(frozen=True)
class Table(Stated):
    """A square of distances in the order of the attribute's values.

    >>> from metricldp import Categorical, Table
    >>> rows = Table([[0, 1, 2], [1, 0, 1.5], [2, 1.5, 0]])
    >>> float(Categorical(["a", "b", "c"], epsilon=2, metric=rows).distance("b", "c"))
    3.0
    """

    rows: Sequence[Sequence[Any]]

    kind: ClassVar[str] = "table"

    def __post_init__(self) -> None:
        rows = self.rows.tolist() if isinstance(self.rows, np.ndarray) else self.rows
        lists = isinstance(rows, Sequence) and not isinstance(rows, str)
        if not lists or any(isinstance(row, str) or not isinstance(row, Sequence) for row in rows):
            raise SurveyError(f"a table of distances is a list of rows, not {shown(rows)}")
        entries = tuple(
            tuple(_entry(said, x, other) for other, said in enumerate(row))
            for x, row in enumerate(rows)
        )
        object.__setattr__(self, "rows", entries)

    def said(self, values: Sequence[Value]) -> dict[tuple[int, int], Fraction]:
        """Everything above the diagonal, after all that a table can get wrong."""
        size = len(values)
        if len(self.rows) != size:
            raise SurveyError(
                f"the table has {len(self.rows)} rows for {size} values; give a row for each, "
                "in the order of the values"
            )
        for value, row in zip(values, self.rows, strict=True):
            if len(row) != size:
                raise SurveyError(
                    f"the row of {shown(value)} has {len(row)} distances for {size} values; "
                    "give one for each, 0 for the value itself"
                )
        stated = {}
        for x in range(size):
            if self.rows[x][x] != 0:
                raise SurveyError(
                    f"the distance {between(values[x], values[x])} must be 0, "
                    f"not {shown(self.rows[x][x])}"
                )
            for other in range(x + 1, size):
                there, back = self.rows[x][other], self.rows[other][x]
                stated[x, other] = length_of(there, between(values[x], values[other]))
                if length_of(back, between(values[other], values[x])) != stated[x, other]:
                    raise SurveyError(
                        f"the distance {between(values[x], values[other])} is {shown(there)} but "
                        f"{between(values[other], values[x])} is {shown(back)}; give one to both"
                    )
        return stated

    def replaced(self, changes: Mapping[tuple[int, int], Length], values: Sequence[Value]) -> Self:
        """The same rows, some entries smaller."""
        rows = [list(row) for row in self.rows]
        for (x, other), length in changes.items():
            rows[x][other] = rows[other][x] = length
        return type(self)(tuple(tuple(row) for row in rows))


def _entry(said: Any, row: int, column: int) -> Any:
    """An entry in the one way that files write it; a wrong number waits for the pair's names."""
    if not isinstance(said, int | float | str | Fraction):
        raise SurveyError(
            f"the table holds {shown(said)} in row {row + 1}, column {column + 1}; "
            "distances are numbers"
        )
    try:
        return as_length(length_of(said, ""))
    except SurveyError:
        return 0 if said == 0 else said
