"""Reports of bits, read as bit columns: sums over people are counts of ones.

One column holds one bit of all reports. A question over ranges reads two columns per attribute, and
XOR and a count of ones do the rest: no table, no float until the end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metricldp import kernels
from metricldp.channels import BitChannel, Channel, Column, Floats
from metricldp.kernels import Words
from metricldp.readings import Reading

Batch = Mapping[str, Column]
"""Columns of reports by attribute."""
_SEGMENT = 1 << 20
"""Reports from which on a segment is full."""
_MOST_TERMS = 1 << 10
"""Up to this many products of signs are counted one by one."""


@dataclass(frozen=True)
class Terms:
    """Decoders of bits, multiplied out: each term is a weight times the signs of a few bits.

    The product of signs is -1 where the XOR of the minus signs is 1, so a sum over reports is a
    count of ones: exact, and as fast as the bits can be read.
    """

    bits: list[tuple[str, BitChannel, int]]
    subsets: npt.NDArray[np.int64]
    """The bits of each term, as places in `bits`, filled up with -1."""
    weights: Floats
    """(rows, terms)"""

    @classmethod
    def of(cls, readings: list[Reading], rows: int) -> Terms | None:
        """None unless all attributes are bits and the terms are few."""
        if not readings or not all(isinstance(r.channel, BitChannel) for r in readings):
            return None
        bits: list[tuple[str, BitChannel, int]] = []
        found: list[tuple[tuple[int, ...], Floats]] = [((), np.ones(rows))]
        for reading in readings:
            channel = reading.channel
            assert isinstance(channel, BitChannel)
            used = np.flatnonzero(reading.coefficients.any(axis=0))
            if len(found) * len(used) > _MOST_TERMS:
                return None
            choices: list[tuple[tuple[int, ...], Floats]] = []
            for feature in used.tolist():
                place: tuple[int, ...] = ()
                if feature >= channel.constant:
                    place = (len(bits),)
                    bits.append((reading.name, channel, feature - channel.constant))
                choices.append((place, reading.coefficients[:, feature]))
            found = [(p + q, a * b) for p, a in found for q, b in choices]
        subsets = np.full((len(found), len(readings)), -1, dtype=np.int64)
        for row, (places, _) in enumerate(found):
            subsets[row, : len(places)] = places
        weights = np.array([weight for _, weight in found]).reshape(-1, rows).T
        return cls(bits, subsets, weights)

    def count(self, batches: list[Batch]) -> tuple[npt.NDArray[np.int64], int]:
        """How many reports are odd in each term, from rows of reports; and how many in all."""
        odd, n = np.zeros(len(self.subsets), dtype=np.int64), 0
        for batch in batches:
            columns = [_minus_signs_of_bit(c, batch[name], bit) for name, c, bit in self.bits]
            size = len(next(iter(batch.values())))
            words = np.array(columns, dtype=np.uint64).reshape(-1, -(-size // 64))
            odd += kernels.parity_counts(words, self.subsets)
            n += size
        return odd, n

    def total(self, odd: npt.NDArray[np.int64], n: int) -> Floats:
        """The sums of all rows."""
        return np.asarray(self.weights @ (n - 2 * odd))


@dataclass(frozen=True)
class _Segment:
    """The columns of about a million reports, and how many ones each of them has."""

    columns: Words
    ones: npt.NDArray[np.int64]

    @classmethod
    def of(cls, channels: Mapping[str, BitChannel], batches: list[Batch]) -> _Segment:
        widths = [-(-len(next(iter(batch.values()))) // 64) for batch in batches]
        height = sum(channel.bits for channel in channels.values())
        columns = np.empty((height, sum(widths)), dtype=np.uint64)
        start = 0
        for batch, width in zip(batches, widths, strict=True):
            row = 0
            for name, channel in channels.items():
                signs = minus_bits(channel, batch[name])
                columns[row : row + channel.bits, start : start + width] = signs
                row += channel.bits
            start += width
        return cls(columns, kernels.column_counts(columns))


class BitColumns:
    """All bits of all reports as columns, so that a question reads just the bits it needs.

    Columns come in segments, so that tallies are merged by putting their segments in one list.
    """

    def __init__(self, channels: Mapping[str, BitChannel], batches: list[Batch]) -> None:
        self.n = sum(len(next(iter(batch.values()))) for batch in batches)
        self._first: dict[str, int] = {}
        height = 0
        for name, channel in channels.items():
            self._first[name] = height
            height += channel.bits
        kernels.expect(self.n * height)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            parts = pool.map(lambda part: _Segment.of(channels, part), _segments(batches))
            self._segments = list(parts)

    def __add__(self, other: BitColumns) -> BitColumns:
        merged = BitColumns.__new__(BitColumns)
        merged.n = self.n + other.n
        merged._first = self._first
        merged._segments = self._segments + other._segments
        return merged

    def sums(self, terms: Terms) -> Floats:
        """The sums of all rows, exactly as from the reports themselves."""
        places = np.array([self._first[name] + bit for name, _, bit in terms.bits] + [-1])
        subsets = places[terms.subsets]
        # How many ones a single column has is known; no column at all is even for everybody.
        several = subsets[:, 1] >= 0 if subsets.shape[1] > 1 else np.zeros(len(subsets), bool)
        single = (subsets[:, 0] >= 0) & ~several
        odd = np.zeros(len(subsets), dtype=np.int64)
        for segment in self._segments:
            odd[single] += segment.ones[subsets[single, 0]]
            odd[several] += kernels.parity_counts(segment.columns, subsets[several])
        return terms.total(odd, self.n)


def _segments(batches: list[Batch]) -> Iterator[list[Batch]]:
    """Batches in groups of about a million reports."""
    group: list[Batch] = []
    size = 0
    for batch in batches:
        group.append(batch)
        size += len(next(iter(batch.values())))
        if size >= _SEGMENT:
            yield group
            group, size = [], 0
    if group:
        yield group


def _minus_signs_of_bit(channel: BitChannel, column: Column, bit: int) -> Words:
    ones = np.packbits(channel.bit(column, bit) ^ np.uint8(1), bitorder="little")
    padded = np.zeros(8 * -(-len(column) // 64), dtype=np.uint8)
    padded[: len(ones)] = ones
    return padded.view("<u8")


def minus_bits(channel: BitChannel, column: Column) -> Words:
    """Bit columns (bits, words) that are 1 where a report's sign is -1."""
    bits = kernels.transpose(np.bitwise_not(column), channel.bits)
    last = len(column) % 64
    if last:
        bits[:, -1] &= np.uint64((1 << last) - 1)
    return bits


def minus_signs(channel: Channel, column: Column) -> Words:
    """The same for all features: a constant is +1 for everybody."""
    assert isinstance(channel, BitChannel)
    bits = minus_bits(channel, column)
    if not channel.constant:
        return bits
    return np.concatenate([np.zeros((1, bits.shape[1]), dtype=np.uint64), bits])
