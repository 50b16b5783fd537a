"""Reports that stay with an engine, one to a row, and sums over them.

What an engine returns is checked here: that every value is one that a device can send, and that all
counts together are as many as there are reports.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metricldp.basics.errors import InvalidReportError, MetricLdpError, QueryError
from metricldp.basics.text import counted, shown
from metricldp.mechanisms import IntegerChannel
from metricldp.mechanisms.fields import Number
from metricldp.reports import arrow
from metricldp.store.bits import Batch, Product
from metricldp.store.engines.base import REPORTS, SQUARES, WEIGHT, Engine, Sums
from metricldp.store.engines.folds import CodeFold, DigitFold, ReportFold, TableFold
from metricldp.store.readings import Readings
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
                raise InvalidReportError(
                    "sums", f"{path} changed since it was checked; tally it again"
                )


def _mark(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class Rows:
    """Reports one to a row; without n, as many as there are rows now."""

    def __init__(
        self, survey: Agreement, engine: Engine, files: Files, n: int | None = None
    ) -> None:
        self.survey, self.engine, self.files = survey, engine, files
        with _asking(engine, files):
            columns = engine.columns()
            self.n = engine.count() if n is None else n
        expected = [arrow.column_of(name) for name in survey.fields]
        for name in expected:
            if columns.count(name) != 1:
                times = f"{columns.count(name)} columns" if name in columns else "no column"
                raise InvalidReportError("columns", f"these reports have {times} {name!r}")
        arrow.check_no_other_columns(columns, expected)

    def table(self, names: tuple[str, ...]) -> Sums:
        """Sums of all products of features of these attributes."""
        channels = [self.survey.tabled[name] for name in names]
        sizes = [channel.moments.feature_count for channel in channels]
        if all(isinstance(channel, IntegerChannel) for channel in channels):
            batch = self.grouped(names)
            places = np.ravel_multi_index([batch[name].astype(np.int64) for name in names], sizes)
            sums = np.zeros(math.prod(sizes), dtype=np.int64)
            np.add.at(sums, places, batch[REPORTS])
            return sums.reshape(sizes)
        return self._folded(TableFold(self.survey.to_json(), names), *sizes)

    def digits(self, names: tuple[str, ...], terms: Sequence[Product]) -> Sums:
        """Sums of products of digits of these attributes, which are bits."""
        return self._folded(DigitFold(self.survey.to_json(), names, tuple(terms)), len(terms))

    def feature_sums(self, readings: Readings, name: str, codes: int) -> Sums:
        """Sums of every feature of one attribute, by the joint code of others, which are bits."""
        decoders = tuple(part.coefficients for part in readings.parts)
        fold = CodeFold(self.survey.to_json(), (*readings.names, name), decoders)
        return self._folded(fold, self.survey.channels[name].moments.feature_count, codes)

    def _folded(self, fold: ReportFold, *shape: int) -> Sums:
        with _asking(self.engine, self.files):
            sums = self.engine.folded(
                [arrow.column_of(name) for name in fold.names], fold, 1 + math.prod(shape)
            )
        self._check_count(int(sums[0]))
        return sums[1:].reshape(shape)

    def grouped(self, columns: Sequence[str], weight: str | None = None) -> Batch:
        """Reports that differ, and how many of each; with a weight its sums as well."""
        self._check_few(columns)
        with _asking(self.engine, self.files):
            if weight is not None:
                self._check_weight(weight)
            names = [arrow.column_of(name) for name in columns]
            column = None if weight is None else arrow.column_of(weight)
            table = self.engine.grouped(names, column).combine_chunks()
        try:
            checked = arrow.check_columns(self.survey, table, columns, 0, unmarked=True)
        except InvalidReportError as wrong:
            if wrong.reason != "range":
                raise
            # The number is that of a group, not of a report.
            why = str(wrong).partition(" has ")[2]
            raise InvalidReportError("range", f"these reports have {why}") from None
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
        """The sum of the squares of a public weight, and the few largest of them."""
        with _asking(self.engine, self.files):
            self._check_weight(weight)
            total = self.engine.grouped([], arrow.column_of(weight))[SQUARES][0].as_py()
            few = self.engine.largest(arrow.column_of(weight), largest)
        return float(total or 0.0), sorted(value * value for value in few)

    def _check_weight(self, name: str) -> None:
        low, high = self.survey.attributes[name].public_ends or (0.0, 0.0)
        if wrong := self.engine.outside(arrow.column_of(name), low, high):
            raise InvalidReportError(
                "range", f"{counted(wrong, 'report')} have an impossible value for {name}"
            )

    def _check_count(self, found: int) -> None:
        if found != self.n:
            raise InvalidReportError(
                "sums",
                f"{self.engine.name} counted {counted(found, 'report')} where {self.n:,} were "
                "expected; the reports changed meanwhile: tally them again",
            )

    def _check_few(self, columns: Sequence[str]) -> None:
        most = 1
        for name in columns:
            field = self.survey.fields[name]
            most *= field.outputs if isinstance(field, Number) else 1 << min(field.bits, 64)
        if most > MOST_GROUPS:
            raise QueryError(
                f"{' x '.join(columns)} has {shown(most)} combinations of values, so this "
                f"query needs single reports, which stay in {self.engine.name}; tally them "
                "without engine=, or use fewer attributes together, without a weight or "
                "layout='reports'"
            )


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
        raise InvalidReportError(
            "file",
            f"{engine.name} could not read the reports: {why}; read them with "
            f"{engine.name} alone to see its error",
        ) from None
