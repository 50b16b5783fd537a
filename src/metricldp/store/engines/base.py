"""What an engine does: it groups rows and hands over batches of them.

An engine returns integers, and the caller checks them: every value against the survey, and every
total against the number of reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

Sums = npt.NDArray[np.int64]
Fold = Callable[[Iterable[Any]], Sums]
"""Tables of reports in, integers out: those of several parts are added. It can be pickled."""
REPORTS, WEIGHT, SQUARES = "=reports", "=weight", "=squares"
"""Columns of grouped rows: how many reports, the sum of their weights, and of the squares."""
BATCH = 1 << 18
"""Reports of a batch that an engine hands over."""


class Engine(Protocol):
    """One table of reports, and an engine that reads it."""

    name: str

    def columns(self) -> list[str]:
        """The names of the columns."""

    def count(self) -> int:
        """How many rows there are."""

    def grouped(self, columns: Sequence[str], weight: str | None = None) -> pa.Table:
        """Every combination of values that occurs, once, and how many rows have it.

        With a weight, its sum over those rows as well, and that of its squares.
        """

    def folded(self, columns: Sequence[str], fold: Fold, size: int) -> Sums:
        """The sum of what a function makes of each part of the rows: `size` integers."""

    def outside(self, column: str, low: float, high: float) -> int:
        """How many rows have a number that is not between the two, or none."""

    def largest(self, column: str, count: int) -> list[float]:
        """The largest few values of a column, in any order."""
