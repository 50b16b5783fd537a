"""A lake: reports that stay where they are, queried through an engine.

The engine groups integers. All else arrives as Arrow batches and is aggregated here, or on Spark's
workers. Tables are those of `cubes`, so answers are those of totals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metricldp.basics.errors import InvalidSpecError, QueryError
from metricldp.basics.text import counted
from metricldp.mechanisms import Channel, Floats
from metricldp.store import cubes, scan
from metricldp.store.base import REPORTS, Rejected, Sums
from metricldp.store.bits import Batch, Product
from metricldp.store.engines import base, sources
from metricldp.store.engines.places import Rows
from metricldp.store.readings import Readings
from metricldp.store.scan import Weights
from metricldp.store.tabled import Tabled
from metricldp.store.totals import Totals
from metricldp.survey.agreement import Agreement


class Lake(Tabled):
    """Reports of one survey in one place or several, none of which is read before a question."""

    def __init__(
        self, survey: Agreement, places: Sequence[Rows] = (), *, engine: str, layout: str = "auto"
    ) -> None:
        super().__init__(survey, layout)
        self.engine, self.places = engine, list(places)

    @classmethod
    def of(
        cls,
        survey: Agreement,
        collected: Any,
        engine: str,
        *,
        layout: str = "auto",
        fingerprint: str | None = None,
    ) -> Lake:
        """From files, an address, or a frame or table of an engine."""
        lake = cls(survey, engine=engine, layout=layout)
        lake.add(collected, fingerprint=fingerprint)
        return lake

    @property
    def n(self) -> int:
        return sum(place.n for place in self.places)

    def add(
        self, collected: Any, *, rejected: Rejected = None, fingerprint: str | None = None
    ) -> None:
        if rejected is not None:
            raise InvalidSpecError("engines do not read single reports; leave rejected= out")
        numbers = set(self.counted)
        place = sources.opened(
            self.survey, collected, self.engine, fingerprint=fingerprint, counted=numbers
        )
        self.places.append(place)
        self.counted = self._numbered(numbers)
        self._tables = {}

    def merge(self, other: Lake) -> Lake:
        places = self.places + other.places
        merged = Lake(self.survey, places, engine=self.engine, layout=self.layout)
        merged.counted = self.counted | other.counted
        merged._take_tables(self, other)
        return merged

    def totals(self, keep: Iterable[Sequence[str]]) -> Totals:
        """Totals of what lies there now, to be saved, merged and added to."""
        tables = {names: self.table_of(names) for names in Totals(self.survey, keep).keep}
        return Totals.of_tables(self.survey, tables, self.n, self.counted)

    def __repr__(self) -> str:
        return f"<{counted(self.n, 'report')} in {counted(len(self.places), 'place')}>"

    def save(self, path: str | Path) -> None:
        raise QueryError(
            f"reports in {self.engine} cannot be saved; save totals of them, "
            "survey.tally(..., engine=..., keep=[...]).save(path)"
        )

    # Sums ----------------------------------------------------------------------------------------

    def _worth(self, names: tuple[str, ...], channels: list[Channel]) -> bool:
        if all(channel.is_bits for channel in channels):
            return cubes.worth_a_table(channels, self._asked[names])
        return cubes.fits(channels)

    def _passed(self, asked: Readings, weight: str | None) -> Sums:
        if weight is not None:
            return self._weighted(asked, weight)
        weights = Weights(base.REPORTS, (1,) * len(asked.rows))
        return asked.named(scan.from_reports(self._groups(asked.columns), asked, weights))

    def _weighted(self, asked: Readings, weight: str) -> Sums:
        """Every report counts as much as its weight says, or the square of it."""
        groups = self._groups(asked.columns, weight)
        powers = Weights.of(weight, asked).powers
        found = {}
        for power, column in ((1, base.WEIGHT), (2, base.SQUARES)):
            weights = Weights(column, (1,) * len(powers))
            found[power] = asked.named(scan.from_reports(groups, asked, weights))
        return {row: found[power][row] for row, power in zip(asked.rows, powers, strict=True)}

    def opened(self, readings: Readings, attribute: str) -> tuple[Sums, str]:
        wanted = {*readings.names, attribute}
        names = tuple(n for n in (*self.survey.channels, *self.survey.blocks) if n in wanted)
        known = {name: self.survey.tabled[name] for name in names if name in self.survey.tabled}
        if len(known) < len(names):
            raise QueryError(
                f"a profile of {attribute} over {' x '.join(names)} needs single reports; "
                "use counts one after the other, or tally the reports without engine="
            )
        if self.layout in ("auto", REPORTS) and names not in self._tables and len(names) > 1:
            sums = self._feature_sums(readings, attribute, known)
            if sums is not None:
                return readings.named(sums), REPORTS
        cubes.check_size(list(known.values()), names, "query fewer attributes together")
        layout = cubes.quickest(known, self.survey.blocks)
        return readings.named(self._table_of(names).opened(readings, attribute)), layout

    def _feature_sums(
        self, readings: Readings, attribute: str, channels: Mapping[str, Channel]
    ) -> Floats | None:
        """`opened` in one pass without a table, where all are bits and their codes are few."""
        if not all(channel.is_bits for channel in channels.values()):
            return None
        codes = scan.joint_codes(readings.parts, readings.count)
        if codes is None:
            return None
        size, features = codes.table.shape[1], channels[attribute].moments.feature_count
        if size * features > scan.MAX_OPENED:
            return None
        sums = np.zeros((features, size), dtype=np.int64)
        for place in self.places:
            sums += place.feature_sums(readings, attribute, size)
        return np.asarray(codes.table @ sums.T)

    def _built(self, names: tuple[str, ...]) -> cubes.Table:
        channels = {name: self.survey.tabled[name] for name in names}
        cubes.check_size(list(channels.values()), names, "query fewer attributes together")
        table = cubes.build([], channels)
        for place in self.places:
            table += cubes.Table(channels, place.table(names))
        return table

    def batches(self, names: Sequence[str]) -> list[Batch]:
        raise QueryError(
            f"{', '.join(names)} need single reports, which stay in {self.engine}; tally them "
            "without engine="
        )

    def weight_squares(self, name: str, largest: int) -> tuple[float, list[float]]:
        found = [place.squares(name, largest) for place in self.places]
        few = sorted(square for _, part in found for square in part)
        return sum(total for total, _ in found), few[max(0, len(few) - largest) :]

    def _digit_counts(self, names: tuple[str, ...], terms: Sequence[Product]) -> list[int]:
        counts = np.zeros(len(terms), dtype=np.int64)
        for place in self.places:
            counts += place.digits(names, terms)
        return [int(count) for count in counts]

    def _groups(self, columns: Sequence[str], weight: str | None = None) -> list[Batch]:
        """Reports that differ, in an order that no engine decides, and how many of each."""
        found = [place.grouped(columns, weight) for place in self.places]
        parts = [group for group in found if len(group[base.REPORTS])]
        if not parts:
            return []
        rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return [_once(rows, columns)]


def _once(group: Batch, columns: Sequence[str]) -> Batch:
    """The rows in order, each of them once."""
    if not columns:
        return {name: values.sum(keepdims=True).astype(float) for name, values in group.items()}
    keys = [key for name in columns for key in np.atleast_2d(group[name].T)]
    order = np.lexsort(keys[::-1])
    new = np.zeros(len(order), dtype=bool)
    for key in keys:
        new |= np.diff(key[order], prepend=key[order[0]]) != 0
    first = np.flatnonzero(new | (np.arange(len(order)) == 0))
    rows = {name: group[name][order][first] for name in columns}
    sums = {n: np.add.reduceat(v[order], first) for n, v in group.items() if n not in columns}
    return {**rows, **{name: values.astype(np.float64) for name, values in sums.items()}}
