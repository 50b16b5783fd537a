"""Totals: tables of chosen attributes, kept while the reports are let go.

Their memory depends on the attributes, not on how many people report, so they can follow a stream.
What can be asked is decided beforehand: questions about attributes that one of the tables holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metricldp.attributes.answered import response_of
from metricldp.basics.errors import InvalidReportError, InvalidSpecError, QueryError
from metricldp.basics.text import counted, shown
from metricldp.mechanisms import IntegerChannel
from metricldp.reports import arrow
from metricldp.reports.incoming import pieces
from metricldp.reports.parquet import UNNUMBERED, numbered
from metricldp.store import cubes, files
from metricldp.store.base import REPORTS, Rejected, Store, Sums
from metricldp.store.bits import Cuts
from metricldp.store.readings import Readings, attribute_of, involved
from metricldp.survey.agreement import Agreement


class Totals(Store):
    """Exact sums over all reports for some sets of attributes; adding and merging are exact.

    They are for one thread at a time.
    """

    def __init__(self, survey: Agreement, keep: Iterable[Sequence[str]]) -> None:
        self.survey = survey
        self.keep = _checked(_agreed(survey), keep)
        self._n = 0
        self._tables: dict[tuple[str, ...], cubes.Table] = {}
        for names in self.keep:
            channels = {name: survey.tabled[name] for name in names}
            cubes.check_size(list(channels.values()), names, "keep fewer attributes together")
            empty = np.zeros(
                [channel.moments.feature_count for channel in channels.values()], dtype=np.int64
            )
            self._tables[names] = cubes.Table(channels, empty)
        self._margins: dict[tuple[str, ...], cubes.Table] = {}
        """Tables that questions had summed out of those kept."""

    @classmethod
    def load(cls, survey: Agreement, path: str | Path) -> Totals:
        """From a file that `save` wrote for this survey."""
        saved = files.read(path)
        if saved.fingerprint != survey.fingerprint:
            raise InvalidReportError(
                "survey",
                f"the totals in {path} belong to another survey ({shown(saved.fingerprint[:16])}, "
                f"this is {survey.fingerprint[:16]!r}); use the survey file that the devices used",
            )
        channels = survey.tabled
        for names, table in zip(saved.keep, saved.tables, strict=True):
            wanted = tuple(
                channels[name].moments.feature_count for name in names if name in channels
            )
            if table.shape != wanted:
                raise InvalidReportError(
                    "shapes",
                    f"the table over {shown(' x '.join(names))} in {path} has shape "
                    f"{shown(table.shape)}, not {wanted}",
                )
        if not all(saved.keep) or not saved.keep or _checked(survey, saved.keep) != saved.keep:
            raise InvalidReportError(
                "keep", f"{path} keeps sets of attributes that no survey would"
            )
        tables = {
            names: cubes.Table({name: channels[name] for name in names}, table)
            for names, table in zip(saved.keep, saved.tables, strict=True)
        }
        return cls.of_tables(survey, tables, saved.n, saved.collections, path)

    @classmethod
    def of_tables(
        cls,
        survey: Agreement,
        tables: Mapping[tuple[str, ...], cubes.Table],
        n: int,
        collections: Collection[str],
        source: str | Path = "these counts",
    ) -> Totals:
        """From tables of sums by another program, if they can be sums over n reports."""
        totals = cls(survey, tables)
        totals._tables = {names: tables[names] for names in totals.keep}
        totals._n = n
        totals.counted = totals._numbered(collections)
        totals._check_size()
        totals._check_sums(source)
        return totals

    def _check_size(self) -> None:
        for names, table in self._tables.items():
            if self.n * table.largest_product >= 1 << 63:
                raise InvalidReportError(
                    "sums",
                    f"sums over {' x '.join(names)} of {self.n:,} reports could outgrow 64 bits; "
                    "keep them apart",
                )

    def _check_sums(self, path: str | Path) -> None:
        """Whether the tables can be sums over n reports, and over the same ones."""
        agreed: dict[tuple[str, ...], Any] = {(): np.int64(self.n)}
        for names, table in self._tables.items():
            most = self.n * table.largest_product
            counts = all(isinstance(channel, IntegerChannel) for channel in table.channels.values())
            if table.sums.min() < (0 if counts else -most) or table.sums.max() > most:
                raise InvalidReportError("sums", self._no_sums(names, path))
            whole = tuple(name for name in names if not table.channels[name].moments.knows_total)
            shared = {tuple(name for name in names if name in other) for other in self.keep}
            for common in {whole, *shared}:
                margin = table.over(common).sums
                if not np.array_equal(agreed.setdefault(common, margin), margin):
                    raise InvalidReportError("sums", self._no_sums(names, path))

    def _no_sums(self, names: tuple[str, ...], path: str | Path) -> str:
        return (
            f"the table over {' x '.join(names)} in {path} is not a sum over the file's "
            f"{counted(self.n, 'report')}; tally the reports again"
        )

    def save(self, path: str | Path) -> None:
        """A file of totals, as `store.files` describes it."""
        tables = [self._tables[names].sums for names in self.keep]
        numbers = numbered(self.counted, UNNUMBERED)
        saved = files.Saved(self.survey.fingerprint, self.n, self.keep, tables, numbers)
        files.write(path, saved)

    @property
    def n(self) -> int:
        """Number of reports."""
        return self._n

    def add(
        self, collected: Any, *, rejected: Rejected = None, fingerprint: str | None = None
    ) -> None:
        more, counted = Totals(self.survey, self.keep), set(self.counted)
        found = pieces(
            self.survey, collected, refused=rejected, fingerprint=fingerprint, counted=counted
        )
        for table in found:
            for names in self.keep:
                batches = arrow.batches(table.select([arrow.column_of(name) for name in names]))
                part = cubes.build(batches, more._tables[names].channels)
                more._tables[names] = more._tables[names] + part
            more._n += table.num_rows
        both = self.merge(more)
        self._n, self._tables, self._margins = both._n, both._tables, {}
        self.counted = self._numbered(counted)

    def merge(self, other: Totals) -> Totals:
        if other.keep != self.keep:
            kept = f"{_words(self.keep)} and {_words(other.keep)}"
            raise InvalidReportError("keep", f"totals that keep {kept} cannot be merged")
        merged = Totals(self.survey, self.keep)
        merged._n = self._n + other._n
        merged.counted = self.counted | other.counted
        merged._check_size()
        for names in self.keep:
            merged._tables[names] = self._tables[names] + other._tables[names]
        return merged

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Totals)
            and (self.survey, self.keep, self.n) == (other.survey, other.keep, other.n)
            and all(
                np.array_equal(self._tables[names].sums, other._tables[names].sums)
                for names in self.keep
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<totals of {counted(self.n, 'report')} over {_words(self.keep)}>"

    # Sums ----------------------------------------------------------------------------------------

    def holds(self, names: Collection[str]) -> bool:
        return any(set(names) <= set(kept) for kept in self.keep)

    def layout_for(self, names: tuple[str, ...], questions: int = 1) -> str:
        if not self.holds(names):
            for name in names:
                if name in self.survey.blocks:
                    raise QueryError(
                        f"{name} are joint attributes, which need the reports themselves; tally "
                        "them without keep="
                    )
            raise QueryError(
                f"these totals keep {_words(self.keep)}, so {' x '.join(names)} cannot be "
                "estimated; "
                "name it in keep= before reports arrive"
            )
        channels = {name: self.survey.tabled[name] for name in names}
        return cubes.quickest(channels, self.survey.blocks) if names else REPORTS

    def sums(self, asked: Readings | Cuts, layout: str, weight: str | None = None) -> Sums:
        assert isinstance(asked, Readings)
        if weight is not None:
            raise QueryError("totals keep no weights; tally the reports themselves, without keep=")
        if not asked.parts:
            return asked.named(np.full(asked.count, float(self.n)))
        table = self._over(asked.names)
        return asked.named(
            table.from_cells(asked) if layout == "cells" else table.from_prefixes(asked)
        )

    def opened(self, readings: Readings, attribute: str) -> tuple[Sums, str]:
        wanted = {*readings.names, attribute}
        names = tuple(n for n in (*self.survey.channels, *self.survey.blocks) if n in wanted)
        layout = self.layout_for(names)
        return readings.named(self._over(names).opened(readings, attribute)), layout

    def table_of(self, names: tuple[str, ...]) -> cubes.Table:
        self.layout_for(names)
        return self._over(names)

    def weight_squares(self, name: str, largest: int) -> tuple[float, list[float]]:
        raise QueryError("totals keep no weights; tally the reports themselves, without keep=")

    def _over(self, names: tuple[str, ...]) -> cubes.Table:
        """The table over just these attributes, from the smallest that holds them."""
        if names in self._tables:
            return self._tables[names]
        if names not in self._margins:
            fitting = [self._tables[kept] for kept in self.keep if set(names) <= set(kept)]
            self._margins[names] = min(fitting, key=lambda table: table.sums.size).over(names)
        return self._margins[names]


def _words(keep: Iterable[Sequence[str]]) -> str:
    return ", ".join(" x ".join(names) for names in keep)


def _agreed(survey: object) -> Agreement:
    if not isinstance(survey, Agreement):
        raise InvalidSpecError(f"totals are of a survey, not of {shown(survey)}")
    return survey


def _checked(survey: Agreement, keep: Any) -> tuple[tuple[str, ...], ...]:
    """Sets of attributes in the survey's order, with those that cost even when left whole."""
    sets = "keep is a list of sets of attributes, such as [('age', 'region')]"
    if isinstance(keep, str) or not isinstance(keep, Iterable):
        raise QueryError(f"{sets}, not {shown(keep)}")
    found: list[tuple[str, ...]] = []
    for names in keep:
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise QueryError(f"{sets}, not a list with {shown(names)}")
        wanted = list(names)
        for name in wanted:
            if isinstance(name, str) and name in survey.blocks and name in survey.tabled:
                continue  # as a file has it
            if attribute_of(survey, name).is_public:
                raise QueryError(
                    f"{name} is a public weight; totals are over randomized attributes"
                )
            block = survey.block_of(name)
            if block is not None and block.name not in survey.tabled:
                raise QueryError(
                    f"{name} is a joint attribute, which needs the reports themselves; leave it "
                    "out of keep=, or tally the reports without keep="
                )
        wanted = involved(survey, wanted)
        optional = [n for n in wanted if n in survey.channels and survey.attributes[n].optional]
        ordered = tuple(involved(survey, [*wanted, *(response_of(name) for name in optional)]))
        if ordered and ordered not in found:
            found.append(ordered)
    if not found:
        raise QueryError("keep names no attributes; without keep= a tally keeps the reports")
    order = list(survey.tabled)
    return tuple(sorted(found, key=lambda names: [order.index(name) for name in names]))
