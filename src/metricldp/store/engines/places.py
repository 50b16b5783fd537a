"""Where reports stay: one to a row, or sliced to words of bits; and the sums found there.

What an engine returns is checked here: that every value is one that a device can send, and that all
counts together are as many as there are reports.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from metricldp.basics.errors import MetricLdpError, QueryError, ReportRefused
from metricldp.basics.text import counted, shown
from metricldp.channels.fields import Number
from metricldp.reports import arrow
from metricldp.store.bits import Batch, Product
from metricldp.store.cubes import signed
from metricldp.store.engines.base import (
    REPORTS,
    SQUARES,
    WEIGHT,
    Engine,
    Fold,
    Ones,
    Sums,
    digit_counts,
)
from metricldp.store.engines.folds import DigitFold, TableFold, WordFold
from metricldp.survey.agreement import Agreement

MOST_GROUPS = 1 << 24
"""Combinations of values up to which reports are grouped by them."""


class Files:
    """Files as they are now; once one is another, answers would be of neither."""

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self._seen = {path: _mark(path) for path in paths}

    def check(self) -> None:
        for path, mark in self._seen.items():
            if _mark(path) != mark:
                raise ReportRefused("sums", f"{path} changed since it was checked; tally it again")


def _mark(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class Place(Protocol):
    """Reports that stay where they are, and sums over them."""

    n: int

    def table(self, names: tuple[str, ...]) -> Sums:
        """Sums of all products of features of these attributes."""

    def digits(self, names: tuple[str, ...], terms: Sequence[Product]) -> list[int]:
        """Sums of products of digits of these attributes, which are bits."""

    def grouped(self, columns: Sequence[str], weight: str | None = None) -> Batch:
        """Reports that differ, and how many of each; with a weight its sums as well."""

    def squares(self, weight: str, largest: int) -> tuple[float, list[float]]:
        """The sum of the squares of a public weight, and the few largest of them."""


class Rows:
    """Reports one to a row."""

    def __init__(
        self, survey: Agreement, engine: Engine, n: int, names: Sequence[str], files: Files
    ) -> None:
        self.survey, self.engine, self.n, self.files = survey, engine, n, files
        self.names = frozenset(names)
        with _asking(engine, files):
            found = engine.columns()
        for name in names:
            if found.count(name) != 1:
                times = f"{found.count(name)} columns" if name in found else "no column"
                raise ReportRefused("columns", f"these reports have {times} {name!r}")
        arrow.check_no_other_columns(found, self.names)

    def counted(self) -> int:
        """How many rows there are now."""
        with _asking(self.engine, self.files):
            return self.engine.count()

    def table(self, names: tuple[str, ...]) -> Sums:
        self._check_held(names)
        channels = [self.survey.tabled[name] for name in names]
        sizes = [channel.features for channel in channels]
        if all(channel.cumulates for channel in channels):
            batch = self.grouped(names)
            places = np.ravel_multi_index([batch[name].astype(np.int64) for name in names], sizes)
            sums = np.zeros(math.prod(sizes), dtype=np.int64)
            np.add.at(sums, places, batch[REPORTS])
            return sums.reshape(sizes)
        fold = TableFold(self.survey.to_json(), names)
        return self._folded(names, fold, math.prod(sizes)).reshape(sizes)

    def digits(self, names: tuple[str, ...], terms: Sequence[Product]) -> list[int]:
        self._check_held(names)
        fold = DigitFold.of(self.survey.to_json(), names, terms)
        return [int(count) for count in self._folded(names, fold, len(terms))]

    def _folded(self, names: Sequence[str], fold: Fold, size: int) -> Sums:
        with _asking(self.engine, self.files):
            found = self.engine.folded(names, fold, 1 + size)
        self._check_count(int(found[0]))
        return found[1:]

    def grouped(self, columns: Sequence[str], weight: str | None = None) -> Batch:
        self._check_held(columns)
        self._check_few(columns)
        with _asking(self.engine, self.files):
            if weight is not None:
                self._check_weight(weight)
            table = self.engine.grouped(columns, weight).combine_chunks()
        try:
            checked = arrow.check_columns(self.survey, table, columns, 0, unmarked=True)
        except ReportRefused as wrong:
            if wrong.reason != "range":
                raise
            # The number is that of a group, not of a report.
            why = str(wrong).partition(" has ")[2]
            raise ReportRefused("range", f"these reports have {why}") from None
        counts = np.asarray(table[REPORTS].to_numpy(), dtype=np.int64)
        self._check_count(int(counts.sum()))
        batch: dict[str, Any] = {REPORTS: counts}
        parts = list(arrow.batches(checked))
        for name in columns:
            empty = [self.survey.fields[name].empty(0)]
            batch[name] = np.concatenate([part[name] for part in parts] or empty)
        if weight is not None:
            for name in (WEIGHT, SQUARES):
                batch[name] = np.nan_to_num(np.asarray(table[name].to_numpy(), dtype=np.float64))
        return batch

    def squares(self, weight: str, largest: int) -> tuple[float, list[float]]:
        self._check_held([weight])
        with _asking(self.engine, self.files):
            self._check_weight(weight)
            total = self.engine.grouped([], weight)[SQUARES][0].as_py()
            few = self.engine.largest(weight, largest)
        return float(total or 0.0), sorted(value * value for value in few)

    def _check_weight(self, name: str) -> None:
        low, high = self.survey.attributes[name].public_ends or (0.0, 0.0)
        if wrong := self.engine.outside(name, low, high):
            raise ReportRefused(
                "range", f"{counted(wrong, 'report')} have an impossible value for {name}"
            )

    def _check_count(self, found: int) -> None:
        if found != self.n:
            raise ReportRefused(
                "sums",
                f"{self.engine.name} counted {counted(found, 'report')} where {self.n:,} were "
                "expected; the reports changed meanwhile: tally them again",
            )

    def _check_held(self, names: Sequence[str]) -> None:
        if missing := [name for name in names if name not in self.names]:
            raise QueryError(
                f"{', '.join(missing)} is sliced and {self.engine.name} cannot join it to other "
                "columns; ask the reports that it was sliced from"
            )

    def _check_few(self, columns: Sequence[str]) -> None:
        most = 1
        for name in columns:
            field = self.survey.fields[name]
            most *= field.outputs if isinstance(field, Number) else 1 << min(field.bits, 64)
        if most > MOST_GROUPS:
            raise QueryError(
                f"{' x '.join(columns)} has {shown(most)} combinations of values, so that this "
                f"needs the reports one by one, which stay with {self.engine.name}; tally them "
                "without engine=, or ask about fewer attributes together, without a weight or "
                "layout='reports'"
            )


class Sliced:
    """Bits as words of 64 reports, a column for each bit; whatever is no bits stays in rows."""

    def __init__(
        self, survey: Agreement, words: Engine, rest: Rows | None, n: int, files: Files
    ) -> None:
        self.survey, self.engine, self.rest, self.n, self.files = survey, words, rest, n, files
        self.names = frozenset(bits_of(survey))

    def table(self, names: tuple[str, ...]) -> Sums:
        if not self.names.issuperset(names):
            return self._rest(names).table(names)
        channels = [self.survey.channels[name] for name in names]
        sizes = [channel.features for channel in channels]
        if len(names) == 1:
            lead, channel = int(channels[0].constant), channels[0]
            with _asking(self.engine, self.files):
                asked = [Ones((), (column(names[0], bit),)) for bit in range(channel.bits)]
                found = self.engine.ones(asked)
            odd = np.array([0] * lead + found, dtype=np.int64)
            return signed(self.n, odd, channels)
        parts = tuple(
            (int(c.constant), tuple(column(name, bit) for bit in range(c.bits)))
            for name, c in zip(names, channels, strict=True)
        )
        read = [name for _, columns in parts for name in columns]
        with _asking(self.engine, self.files):
            found_sums = self.engine.folded(read, WordFold(parts), 1 + math.prod(sizes))
        return signed(self.n, found_sums[1:], channels)

    def digits(self, names: tuple[str, ...], terms: Sequence[Product]) -> list[int]:
        if not self.names.issuperset(names):
            return self._rest(names).digits(names, terms)
        with _asking(self.engine, self.files):
            return digit_counts(self.n, terms, column, self.engine)

    def grouped(self, columns: Sequence[str], weight: str | None = None) -> Batch:
        return self._rest(columns).grouped(columns, weight)

    def squares(self, weight: str, largest: int) -> tuple[float, list[float]]:
        return self._rest([weight]).squares(weight, largest)

    def _rest(self, names: Sequence[str]) -> Rows:
        sliced = [name for name in names if name in self.names]
        if self.rest is None or sliced:
            raise QueryError(
                f"{' x '.join(names)}: {', '.join(sliced)} is sliced to bits, which are not "
                "counted together with other columns or weights; ask the reports that they were "
                "sliced from"
            )
        return self.rest


def bits_of(survey: Agreement) -> list[str]:
    """The attributes whose reports are bits."""
    return [name for name, channel in survey.channels.items() if channel.is_bits]


def column(name: str, bit: int) -> str:
    """What the column of one bit is called."""
    return f"{name}#{bit}"


@contextlib.contextmanager
def _asking(engine: Engine, files: Files) -> Iterator[None]:
    """What goes wrong in an engine is said in one line, with its name."""
    try:
        files.check()
        yield
        files.check()
    except MetricLdpError:
        raise
    except Exception as wrong:
        # Not in the engine's own words, which may quote a value.
        why = getattr(wrong, "strerror", None) or type(wrong).__name__
        raise ReportRefused(
            "file",
            f"{engine.name} could not read the reports: {why}; ask {engine.name} itself for more",
        ) from None
