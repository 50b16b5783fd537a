"""Stores that have all reports at hand, and keep tables of them once they are worth it."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Self

import numpy as np

from metricldp.basics.errors import QueryError
from metricldp.basics.text import shown
from metricldp.mechanisms import Channel
from metricldp.store import cubes
from metricldp.store.base import REPORTS, Store, Sums
from metricldp.store.bits import Cuts, Product, Terms
from metricldp.store.readings import Readings
from metricldp.survey.agreement import Agreement


class Tabled(Store):
    """`layout` says how sums are found: "reports", "cells", "prefix", or "auto".

    "auto" builds a table for a set of attributes where it is `_worth` it.
    """

    def __init__(self, survey: Agreement, layout: str) -> None:
        if not isinstance(layout, str) or layout not in cubes.LAYOUTS:
            raise QueryError(f"a layout is one of {', '.join(cubes.LAYOUTS)}, not {shown(layout)}")
        self.survey, self.layout = survey, layout
        self._tables: dict[tuple[str, ...], cubes.Table] = {}
        self._asked: Counter[tuple[str, ...]] = Counter()

    @abstractmethod
    def _worth(self, names: tuple[str, ...], channels: list[Channel]) -> bool:
        """Whether a table of these attributes is to be built for what was asked so far."""

    @abstractmethod
    def _digit_counts(self, names: tuple[str, ...], terms: Sequence[Product]) -> list[int]:
        """The sum of each product of digits over all reports."""

    @abstractmethod
    def _passed(self, asked: Readings, weight: str | None) -> Sums:
        """The sums from one pass over the reports."""

    @abstractmethod
    def _built(self, names: tuple[str, ...]) -> cubes.Table:
        """A new table of these attributes."""

    def table_of(self, names: tuple[str, ...]) -> cubes.Table:
        """Not stored: how queries are answered does not depend on it."""
        return self._tables[names] if names in self._tables else self._built(names)

    def _take_tables(self, one: Self, other: Self) -> None:
        """The sums of those tables that both have."""
        for names in one._tables.keys() & other._tables.keys():
            self._tables[names] = one._tables[names] + other._tables[names]

    def holds(self, names: Collection[str]) -> bool:
        return True

    def layout_for(self, names: tuple[str, ...], questions: int = 1) -> str:
        self._asked[names] += questions
        if not names or self.layout == REPORTS:
            return REPORTS
        if not all(name in self.survey.tabled for name in names):
            return REPORTS  # a block of several parts has no table
        channels = {name: self.survey.tabled[name] for name in names}
        if self.layout != "auto":
            cubes.check_size(list(channels.values()), names)
            return self.layout
        if names in self._tables or self._worth(names, list(channels.values())):
            return cubes.quickest(channels, self.survey.blocks)
        return REPORTS

    def sums(self, asked: Readings | Cuts, layout: str, weight: str | None = None) -> Sums:
        if isinstance(asked, Cuts):
            return asked.total(self._digit_counts(asked.names, asked.terms))
        if weight is not None:
            return self._passed(asked, weight)
        if not asked.parts:
            return asked.named(np.full(asked.count, float(self.n)))
        if layout == "cells":
            return asked.named(self._table_of(asked.names).from_cells(asked))
        if layout == "prefix":
            return asked.named(self._table_of(asked.names).from_prefixes(asked))
        if (terms := Terms.of(asked)) is not None:
            return asked.named(terms.total(self._digit_counts(asked.names, terms.terms)))
        return self._passed(asked, None)

    def _table_of(self, names: tuple[str, ...]) -> cubes.Table:
        self._tables[names] = self.table_of(names)
        return self._tables[names]
