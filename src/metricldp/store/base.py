"""What a store is: what a collector keeps of the reports, and the sums that it finds in it.

Everything that can be asked is a sum over people of products of decoders, one factor for each
attribute. `Readings` name those sums row by row, and a store returns them by the same names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from metricldp.basics.errors import InvalidReportError, QueryError
from metricldp.reports import parquet
from metricldp.reports.incoming import TableKey, check_uncounted
from metricldp.store.bits import Batch, Cuts
from metricldp.store.cubes import Table
from metricldp.store.readings import Readings
from metricldp.survey.agreement import Agreement

REPORTS = "reports"
"""The layout without a table: one pass over what is kept for each question."""
Rejected = Counter[str] | None
"""Counts invalid reports by reason; None if an invalid report is an error."""
Sums = Mapping[str, Any]
"""By the name of its row a sum for each query, (queries,), or for each feature, (1, features)."""


class Store(ABC):
    """Reports of one survey in some form; stores of the same form can be merged."""

    survey: Agreement
    counted: frozenset[str] = frozenset()
    """The numbers of the collections that its reports are of; none of them is counted twice.

    Among them, until it is saved, are the content of every file and a key for every table object.
    """
    _own: str | None = None
    """The number of those reports that came without one."""

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of reports."""

    @abstractmethod
    def add(
        self, collected: Any, *, rejected: Rejected = None, fingerprint: str | None = None
    ) -> None:
        """Count more reports in: a table, a Parquet file, or a stream of those and of bytes.

        All of them or, if one is invalid, none.
        """

    @abstractmethod
    def merge(self, other: Self) -> Self:
        """A store of the reports of both."""

    @abstractmethod
    def holds(self, names: Collection[str]) -> bool:
        """Whether there are sums over these attributes together."""

    @abstractmethod
    def layout_for(self, names: tuple[str, ...], questions: int = 1) -> str:
        """How so many questions about these attributes, in the survey's order, will be computed.

        An error if they cannot be. "auto" learns from it how often they were asked about.
        """

    @abstractmethod
    def sums(self, asked: Readings | Cuts, layout: str, weight: str | None = None) -> Sums:
        """The sum over people of every row, for each query; cuts are asked of "reports" only.

        With the name of a public weight each respondent counts with their weight.
        """

    @abstractmethod
    def opened(self, readings: Readings, attribute: str) -> tuple[Sums, str]:
        """Sums of every feature of one attribute times the rows of the others, and their layout."""

    def table_of(self, names: tuple[str, ...]) -> Table:
        """Sums of all products of features of these attributes, in the survey's order."""
        raise NotImplementedError(f"{type(self).__name__} has no tables")

    def batches(self, names: Sequence[str]) -> list[Batch]:
        """The reports themselves, some columns of them; an error where they are not stored."""
        raise QueryError(
            f"totals have no single reports, which {', '.join(names)} need; tally the reports "
            "without keep="
        )

    @abstractmethod
    def weight_squares(self, name: str, largest: int) -> tuple[float, list[float]]:
        """The sum of the squares of a public weight over all respondents, and the largest."""

    @abstractmethod
    def save(self, path: str | Path) -> None:
        """Write everything to a file that a tally can be made from again."""

    def check_mergeable(self, other: Store) -> None:
        if other.survey != self.survey:
            raise InvalidReportError("survey", "tallies of two different surveys cannot be merged")
        if type(other) is not type(self):
            raise InvalidReportError(
                "keep", "a tally of reports and totals cannot be merged; make both with keep="
            )
        check_uncounted(other.counted, self.counted, "these reports")

    def _numbered(self, counted: Collection[str]) -> frozenset[str]:
        """Collections that were counted; reports without a number get that of this store.

        Tables that are gone cannot come again and are left out.
        """
        if parquet.UNNUMBERED in counted and self._own is None:
            self._own = parquet.new_collection()
        alive = (n for n in counted if not (isinstance(n, TableKey) and n.is_dead))
        return frozenset(number or self._own or "" for number in alive)
