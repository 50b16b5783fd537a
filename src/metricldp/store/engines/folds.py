"""What runs over batches of reports, on this machine or on the workers of another.

A fold is plain data, so that it can be sent: the survey is its text, and made once on each worker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from metricldp.basics.compiled import Words
from metricldp.reports import arrow
from metricldp.store import cubes
from metricldp.store.bits import Digit, Product, counts_from_reports
from metricldp.store.engines.base import BATCH, Ones, Sums
from metricldp.survey.agreement import Agreement


@lru_cache(4)
def _survey(text: str) -> Agreement:
    return Agreement.from_json(text)


@dataclass(frozen=True)
class TableFold:
    """The table over some attributes; first stands how many reports there were."""

    survey: str
    names: tuple[str, ...]

    def __call__(self, tables: Iterable[Any]) -> Sums:
        survey = _survey(self.survey)
        channels = {name: survey.tabled[name] for name in self.names}
        n, sums = 0, cubes.build([], channels).sums
        for table in arrow.regrouped(tables, BATCH):
            checked = arrow.check_columns(survey, table, self.names, n, unmarked=True)
            sums += cubes.build(arrow.batches(checked), channels).sums
            n += checked.num_rows
        return np.concatenate([np.array([n]), sums.reshape(-1)])


@dataclass(frozen=True)
class DigitFold:
    """Sums of products of digits; first stands how many reports there were."""

    survey: str
    names: tuple[str, ...]
    terms: tuple[tuple[tuple[str, int, int | None], ...], ...]

    @classmethod
    def of(cls, survey: str, names: tuple[str, ...], terms: Iterable[Product]) -> DigitFold:
        plain = tuple(tuple((d.name, d.first, d.second) for d in digits) for digits in terms)
        return cls(survey, names, plain)

    def __call__(self, tables: Iterable[Any]) -> Sums:
        survey = _survey(self.survey)
        terms = [
            tuple(Digit(n, survey.channels[n], first, second) for n, first, second in digits)
            for digits in self.terms
        ]
        n, sums = 0, np.zeros(len(terms), dtype=np.int64)
        for table in arrow.regrouped(tables, BATCH):
            checked = arrow.check_columns(survey, table, self.names, n, unmarked=True)
            sums += np.array(counts_from_reports(terms, arrow.batches(checked)), dtype=np.int64)
            n += checked.num_rows
        return np.concatenate([np.array([n]), sums])


@dataclass(frozen=True)
class WordFold:
    """How often an odd number of bits is 1, from columns of words; first stands how many words."""

    parts: tuple[tuple[int, tuple[str, ...]], ...]
    """For each attribute how many constant features come first, and its columns."""

    def __call__(self, tables: Iterable[Any]) -> Sums:
        shape = [lead + len(columns) for lead, columns in self.parts]
        rows, odd = 0, np.zeros(int(np.prod(shape)), dtype=np.int64)
        for table in arrow.regrouped(tables, BATCH // 64):
            bits = [_words(table, lead, columns) for lead, columns in self.parts]
            odd += cubes.odd_counts(bits).reshape(-1)
            rows += table.num_rows
        return np.concatenate([np.array([rows]), odd])


@dataclass(frozen=True)
class OnesFold:
    """Ones of columns of words, where they are asked for by the hundred."""

    asked: tuple[Ones, ...]

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        pairs = (name for ones in self.asked for pair in ones.masks for name in pair)
        return list(dict.fromkeys([*pairs, *(n for ones in self.asked for n in ones.flips)]))

    def __call__(self, tables: Iterable[Any]) -> Sums:
        sums = np.zeros(len(self.asked), dtype=np.int64)
        columns = self.columns
        for table in arrow.regrouped(tables, BATCH // 64):
            words = dict(zip(columns, _words(table, 0, tuple(columns)), strict=True))
            for place, ones in enumerate(self.asked):
                parts = [words[a] ^ words[b] for a, b in ones.masks]
                if ones.flips:
                    parts.append(reduce(np.bitwise_xor, [words[name] for name in ones.flips]))
                sums[place] += int(np.bitwise_count(reduce(np.bitwise_and, parts)).sum())
        return sums


def _words(table: Any, lead: int, columns: tuple[str, ...]) -> Words:
    """The words of some columns, behind so many columns of zeros."""
    found = np.zeros((lead + len(columns), table.num_rows), dtype=np.uint64)
    for place, name in enumerate(columns):
        found[lead + place] = table[name].to_numpy().astype(np.int64).view(np.uint64)
    return found
