"""Sums over batches of reports, on this machine or on the workers of an engine.

A fold is plain data, so that it can be pickled: the survey is its text, and parsed once on each
worker.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from metricldp.mechanisms import Floats
from metricldp.reports import arrow
from metricldp.store import cubes, scan
from metricldp.store.bits import Batch, Product, counts_from_reports
from metricldp.store.engines.base import BATCH, Sums
from metricldp.store.readings import Reading
from metricldp.survey.agreement import Agreement


@lru_cache(4)
def _survey(text: str) -> Agreement:
    return Agreement.from_json(text)


@dataclass(frozen=True)
class ReportFold(ABC):
    """Integer sums over reports; the number of reports comes first."""

    survey: str
    names: tuple[str, ...]

    @abstractmethod
    def sums(self, survey: Agreement, batches: Sequence[Batch]) -> Sums:
        """The sums over these reports, of any shape."""

    def __call__(self, tables: Iterable[Any]) -> Sums:
        survey = _survey(self.survey)
        n, sums = 0, self.sums(survey, [])
        for table in arrow.regrouped(tables, BATCH):
            checked = arrow.check_columns(survey, table, self.names, n, unmarked=True)
            sums = sums + self.sums(survey, list(arrow.batches(checked)))
            n += checked.num_rows
        return np.concatenate([np.array([n]), sums.reshape(-1)])


@dataclass(frozen=True)
class TableFold(ReportFold):
    """The table over some attributes."""

    def sums(self, survey: Agreement, batches: Sequence[Batch]) -> Sums:
        """Sums of all products of features."""
        return cubes.build(batches, {name: survey.tabled[name] for name in self.names}).sums


@dataclass(frozen=True)
class DigitFold(ReportFold):
    """Sums of products of digits."""

    terms: tuple[Product, ...]

    def sums(self, survey: Agreement, batches: Sequence[Batch]) -> Sums:
        """One sum for each product."""
        return np.array(counts_from_reports(self.terms, survey.channels, batches), dtype=np.int64)


@dataclass(frozen=True)
class CodeFold(ReportFold):
    """Sums of every feature of the last attribute, by the joint code of the others."""

    decoders: tuple[Floats, ...]
    """The coefficients of each of the others, from which its codes follow."""

    def sums(self, survey: Agreement, batches: Sequence[Batch]) -> Sums:
        """Sums by feature and code."""
        *others, name = self.names
        pairs = zip(others, self.decoders, strict=True)
        readings = [Reading(other, survey.channels[other], c, c) for other, c in pairs]
        codes = scan.joint_codes(readings, len(self.decoders[0]))
        assert codes is not None
        return scan.feature_sums(batches, codes, name, survey.channels[name])
