"""The reports of a sample, and how often each thing that can be seen in them is there.

What is looked at, the features: every bit; of an integer whether it is a certain one, or at most
that; whether the bytes have the right length; whether there is a report at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from metricldp.attributes.answered import label
from metricldp.basics.progress import Progress
from metricldp.lab.audit.clients import Client, Reports
from metricldp.lab.audit.design import Asked, Rows
from metricldp.mechanisms.fields import Column
from metricldp.reports.bytes import header, pack, packed_size, unpack
from metricldp.reports.encode import encode
from metricldp.survey.agreement import Agreement

Counts = npt.NDArray[np.int64]
_MORE = 8
"""Bytes behind the end of a report that are looked at."""
_CUTS = 128
"""Of an integer with more values so many are looked at, from all of its range."""
_ALL_CUTS = 2048
"""Of all integers of a report together."""
_PARTS = 8
"""Of an integer so many cuts are looked at together with other features."""
MAX_TOGETHER = 320
"""Features that are looked at in pairs."""
NOBODY = "valid responses rejected"
"""Why there is no report, among the reasons of a collector."""


@dataclass(frozen=True)
class Sample:
    """Reports, as rows of bytes, and the people who were asked."""

    asked: Asked
    rows: npt.NDArray[np.uint8]
    """Padded with zeros, or cut, to a few bytes more than a report has."""
    lengths: npt.NDArray[np.int64]
    """Of each report; -1 where a person was refused."""

    @property
    def halves(self) -> tuple[Sample, Sample]:
        middle = len(self.rows) // 2
        return self.part(slice(middle)), self.part(slice(middle, None))

    def part(self, rows: slice) -> Sample:
        return Sample(self.asked.part(rows), self.rows[rows], self.lengths[rows])

    def of(self, kind: int) -> Rows:
        """Where one of the people stands."""
        return np.flatnonzero(self.asked.kinds == kind)

    def with_value(self, attribute: int, value: int) -> Rows:
        return np.flatnonzero((self.asked.kinds < 0) & (self.asked.values[attribute] == value))


def as_rows(survey: Agreement, reports: Sequence[bytes | None]) -> tuple[Rows, Rows]:
    """Reports as rows of one width, and their lengths."""
    width = packed_size(survey) + _MORE
    blobs = [blob if isinstance(blob, bytes) else b"" for blob in reports]
    rows = np.frombuffer(b"".join(b[:width].ljust(width, b"\0") for b in blobs), dtype=np.uint8)
    lengths = [-1 if blob is None else len(b) for blob, b in zip(reports, blobs, strict=True)]
    return rows.reshape(-1, width), np.array(lengths, dtype=np.int64)


def collected(
    survey: Agreement, client: Client, asked: Asked, refused: Counter[str], progress: Progress
) -> Sample:
    """What a client sends; reports that no collector would take are counted by reason."""
    parts = []
    for start in range(0, len(asked), client.at_once):
        people = asked.part(slice(start, start + client.at_once)).persons()
        reports: Reports = client.reports(people)
        sent = [blob for blob in reports if blob is not None]
        refused[NOBODY] += len(reports) - len(sent)
        unpack(survey, sent, refused=refused)
        parts.append(as_rows(survey, reports))
        progress(min(1.0, (start + client.at_once) / len(asked)))
    return Sample(asked, *(np.concatenate(part) for part in zip(*parts, strict=True)))


def referred(survey: Agreement, asked: Asked, *, clip: bool) -> Sample:
    """What the survey promises: reports of the package's other encoder, that of tables."""
    reports = pack(survey, encode(survey, asked.columns(), clip=clip))
    return Sample(asked, *as_rows(survey, reports))


def _spread(numbers: Column, places: npt.NDArray[np.float64]) -> Column:
    """Some of the numbers that there are; all of them, if they are few."""
    found = np.unique(numbers)
    if len(found) <= len(places):
        return found
    ordered = np.sort(numbers)
    return np.unique(ordered[(places * (len(ordered) - 1)).astype(np.int64)])


class Features:
    """What is looked at in a report, each with a name."""

    def __init__(self, survey: Agreement, like: Sample) -> None:
        self.survey, self._size = survey, packed_size(survey)
        self.start = 8 * len(header(survey))
        self._width = like.rows.shape[1]
        numbers = [column for _, column in self._numbers(like.rows[: 1 << 14])]
        places = np.linspace(0, 1, max(2, min(_CUTS, _ALL_CUTS // max(1, len(numbers)))))
        self._cuts = [_spread(column, places) for column in numbers]

    @cached_property
    def columns(self) -> list[tuple[str, int, int]]:
        """The columns of a report: the name, and from which bit to which."""
        found, start = [], self.start
        for name, field in self.survey.fields.items():
            found.append((name, start, start + field.bits))
            start += field.bits
        return found

    @cached_property
    def names(self) -> list[str]:
        """Of all features, in the order of the counts."""
        bits = [f"bit {k + 1} of the header" for k in range(self.start)]
        for name, start, end in self.columns:
            bits += [f"bit {k + 1} of {label(name)}" for k in range(end - start)]
        bits += [f"bit {k + 1} after the last field" for k in range(8 * self._width - len(bits))]
        found = [*bits, "right length", "a report"]
        for name, cuts in zip(self._number_names, self._cuts, strict=True):
            found += [f"{name} at most {cut}" for cut in cuts]
            found += [f"{name} equal to {cut}" for cut in cuts]
        return found

    @cached_property
    def _number_names(self) -> list[str]:
        empty = np.zeros((0, self._width), dtype=np.uint8)
        return [name for name, _ in self._numbers(empty)]

    def _numbers(self, rows: Rows) -> list[tuple[str, Column]]:
        """The integers that stand in reports."""
        bits, found = np.unpackbits(rows, axis=1, bitorder="little"), []
        for name, start, end in self.columns:
            field = self.survey.fields[name]
            parts = field.numbers(field.unpack(bits[:, start:end]))
            for k, numbers in enumerate(parts):
                told = label(name) if len(parts) == 1 else f"part {k + 1} of {label(name)}"
                found.append((f"the number of {told}", numbers))
        return found

    def counts(self, sample: Sample, groups: Sequence[Rows]) -> Counts:
        """How many of each group of reports have each feature: (groups, features)."""
        numbers = [
            (np.searchsorted(cuts, column, side="left"), np.isin(column, cuts), len(cuts))
            for cuts, (_, column) in zip(self._cuts, self._numbers(sample.rows), strict=True)
        ]
        found = []
        for rows in groups:
            bits = np.unpackbits(sample.rows[rows], axis=1, bitorder="little")
            lengths = sample.lengths[rows]
            ends = [(lengths == self._size).sum(), (lengths >= 0).sum()]
            parts = [bits.sum(axis=0, dtype=np.int64), np.array(ends)]
            for codes, exact, count in numbers:
                own = codes[rows]
                parts.append(np.cumsum(np.bincount(own, minlength=count + 1))[:count])
                parts.append(np.bincount(own[exact[rows]], minlength=count)[:count])
            found.append(np.concatenate(parts))
        return np.array(found).reshape(len(groups), len(self.names))

    # Several at once -----------------------------------------------------------------------------

    @cached_property
    def together(self) -> list[str]:
        """Features that are looked at in pairs: bits of the fields, and some cuts of integers."""
        last = self.columns[-1][2]
        bits = self.names[self.start : last][:MAX_TOGETHER]
        cuts = [
            f"{name} at most {cut}"
            for name, cuts in zip(self._number_names, self._few_cuts, strict=True)
            for cut in cuts
        ]
        return [*bits, *cuts]

    @cached_property
    def _few_cuts(self) -> list[Column]:
        room = max(1, MAX_TOGETHER // max(1, len(self._cuts)))
        return [cuts[:: -(-len(cuts) // min(_PARTS, room))] for cuts in self._cuts]

    def matrix(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Those features of each report."""
        last = min(self.columns[-1][2], self.start + MAX_TOGETHER)
        bits = np.unpackbits(rows, axis=1, bitorder="little")[:, self.start : last]
        cuts = [
            column[:, None] <= few
            for few, (_, column) in zip(self._few_cuts, self._numbers(rows), strict=True)
        ]
        return np.concatenate([bits, *cuts], axis=1).astype(np.float32)
