"""Reports of bits, read as bit columns: sums over people are counts of ones.

One column holds one bit of all reports. A question over ranges reads two columns per attribute, and
XOR and a count of ones do the rest: no table, no float until the end.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from functools import cache, lru_cache, reduce
from itertools import accumulate, combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from metricldp.attributes.selection import Span
from metricldp.mechanisms import Channel, Column, Floats
from metricldp.mechanisms.fields import bit_of
from metricldp.mechanisms.moments import Moments
from metricldp.mechanisms.threshold import ThresholdMoments
from metricldp.store.extremes import Extremes
from metricldp.store.readings import Reading, Readings, chunks
from metricldp.survey.agreement import Agreement

Words = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]
Batch = Mapping[str, Column]
"""Columns of reports by attribute."""
BATCHES_AT_ONCE = 8
"""Batches of reports whose bits are summed together."""
MAX_CUT_ATTRIBUTES = 6
"""Up to this many attributes a count is found in closed form, from every subset of them."""
MAX_TERMS = 1 << 10
"""Up to this many products of signs are counted one by one."""


class Digit(NamedTuple):
    """The sign of one bit, or half the difference of the signs of two: -1, 0 or 1."""

    name: str
    first: int
    second: int | None


Product = tuple[Digit, ...]
Part = tuple[float, float, float]
"""The c, w and v of a range, as in `Cuts`."""


@dataclass(frozen=True)
class Terms:
    """Decoders of bits, multiplied out: each term is a weight times a few digits.

    A range cut at both ends reads two bits, and only their difference; so over any number of
    attributes it has one term where all are cut, and its sum over reports is two counts of ones:
    exact, and as fast as the bits can be read.
    """

    terms: list[Product]
    weights: list[list[float]]
    """The weight of each term in each row."""

    @classmethod
    def of(cls, readings: Readings) -> Terms | None:
        """None unless all attributes are bits and the terms are few."""
        if not all(part.channel.is_bits for part in readings.parts):
            return None
        found: list[tuple[Product, list[float]]] = [((), [1.0] * readings.count)]
        for reading in readings.parts:
            factors = _factors(reading)
            if factors is None or len(found) * len(factors) > MAX_TERMS:
                return None
            found = [
                (digits + digit, [a * b for a, b in zip(weights, by, strict=True)])
                for digits, weights in found
                for digit, by in factors
            ]
        return cls([digits for digits, _ in found], [weights for _, weights in found])

    def total(self, counts: Sequence[int]) -> Floats:
        """The sums of all rows from those of the terms, added in their order."""
        rows = zip(*self.weights, strict=True)
        return np.array([sum(w * c for w, c in zip(row, counts, strict=True)) for row in rows])


class Cuts:
    """A count over ranges of threshold bits, in closed form.

    The decoder of a range is F = c + w g, with g a digit: of two cuts c = 0 and w = kappa, of one
    c = 1/2 and w = +-kappa/2. Wherever a person is, E[F^2] = f + v, with v = (kappa^2 - 1)/4 for
    each cut. So the variance is the sum of prod (F + v) - prod F, which the same digits tell, and
    one person adds prod v outside of all ranges, prod (1 + v) - 1 inside.
    """

    def __init__(self, digits: Sequence[Digit], parts: tuple[Part, ...]) -> None:
        self.names = tuple(digit.name for digit in digits)
        self.terms = [tuple(digits[k] for k in places) for places in _subsets(len(digits))]
        self._parts = parts

    @classmethod
    def of(cls, survey: Agreement, factors: Mapping[str, object]) -> Cuts | None:
        """None unless every factor is the span of a range that its channel knows in closed form."""
        digits: list[Digit] = []
        parts: list[Part] = []
        for name, span in factors.items():
            if not isinstance(span, Span) or survey.attributes[name].rounded_at_random:
                return None
            if name not in survey.channels:
                return None
            channel = survey.channels[name]
            cut = _cut(name, channel.moments, span)
            if cut is None:
                return None
            digits.append(cut[0])
            parts.append(cut[1])
        free = all(channel.moments.knows_total for channel in survey.channels.values())
        if not digits or not free or len(digits) > MAX_CUT_ATTRIBUTES:
            return None
        return cls(digits, tuple(parts))

    def total(self, counts: Sequence[int]) -> dict[str, float]:
        """The sums of F, of E[F^2] and of f^2, which is f, from the sums of the terms."""
        value = second = 0.0
        for count, (plain, noisy) in zip(counts, _weights(self._parts), strict=True):
            value += plain * count
            second += noisy * count
        return {"value": value, "second": second, "square": value}

    def bounds(self) -> tuple[float, float]:
        """The least and the most that one person adds to the variance."""
        noises = [noise for _, _, noise in self._parts]
        least = math.prod(noises)
        return least, max(least, math.expm1(math.fsum(map(math.log1p, noises))))

    def extremes(self) -> Extremes:
        """Turning one bit of each range moves F by kappa, and no cut can hide what it costs."""
        jump = math.prod((2 if constant else 1) * abs(w) for constant, w, _ in self._parts)
        return Extremes(0.0, 1.0, jump, 0.0)


def _cut(name: str, moments: Moments, span: Span) -> tuple[Digit, Part] | None:
    """The digit of a range of threshold bits, not all of them, with its c, w and v."""
    if not isinstance(moments, ThresholdMoments) or not moments.has_constant:
        return None
    ends = [k for k in (span.end - 1, span.first - 1) if 0 <= k < moments.size - 1]
    kappa, noise = float(moments.kappa[ends[0]]), float(moments.noise[ends].sum()) / 4
    if len(ends) == 1:
        weight = kappa / 2 if ends[0] == span.end - 1 else -kappa / 2
        return Digit(name, ends[0], None), (0.5, weight, noise)
    if kappa != moments.kappa[ends[1]]:
        return None
    return Digit(name, ends[0], ends[1]), (0.0, kappa, noise)


@cache
def _subsets(count: int) -> list[tuple[int, ...]]:
    return [chosen for size in range(count + 1) for chosen in combinations(range(count), size)]


@lru_cache(1024)
def _weights(parts: tuple[Part, ...]) -> list[tuple[float, float]]:
    """What each subset's sum enters prod F and prod (F + v) with."""
    weights = []
    for chosen in _subsets(len(parts)):
        plain = noisy = 1.0
        for k, (constant, weight, noise) in enumerate(parts):
            plain *= weight if k in chosen else constant
            noisy *= weight if k in chosen else constant + noise
        weights.append((plain, noisy))
    return weights


def counts_from_reports(
    terms: Sequence[Product], channels: Mapping[str, Channel], batches: Iterable[Batch]
) -> list[int]:
    """The sum of each product of digits, from rows of reports."""
    ends = ((d.name, bit) for digits in terms for d in digits for bit in (d.first, d.second))
    bits = list(dict.fromkeys((name, bit) for name, bit in ends if bit is not None))
    asked = _Asked.of(terms, {bit: place for place, bit in enumerate(bits)})
    counts = np.zeros(len(terms), dtype=np.int64)
    for some in chunks(batches, BATCHES_AT_ONCE):
        words = np.concatenate([_minus_signs(bits, channels, batch) for batch in some], axis=1)
        counts += _digit_sums(words, asked.firsts, asked.seconds, sum(map(_size, some)))
    return [int(count) for count in counts]


def _digit_sums(columns: Words, firsts: Counts, seconds: Counts, n: int) -> Counts:
    """The same sums as `kernels.digit_sums`, in numpy.

    Picking the bits out of rows takes longer than these sums, so the kernel would save nothing
    here, and a query of a small tally would wait a second for numba.
    """
    sums = []
    for ones, others in zip(firsts, seconds, strict=True):
        minus = [columns[one] for one in ones if one >= 0]
        masks = [columns[a] ^ columns[b] for a, b in zip(ones, others, strict=True) if b >= 0]
        total = _ones(reduce(np.bitwise_and, masks)) if masks else n
        negative = reduce(np.bitwise_xor, minus) if minus else columns[:0]
        sums.append(total - 2 * _ones(reduce(np.bitwise_and, masks, negative)))
    return np.array(sums, dtype=np.int64)


def _ones(words: Words) -> int:
    return int(np.bitwise_count(words).sum(dtype=np.int64))


def _factors(reading: Reading) -> list[tuple[Product, list[float]]] | None:
    """What a decoder is a sum of: the constant, and digits with their weight in each row."""
    channel = reading.channel
    constant = int(channel.moments.has_constant)
    by_bit = reading.coefficients[:, constant:]
    used = np.flatnonzero(by_bit.any(axis=0)).tolist()
    if len(used) > MAX_TERMS:
        return None
    weights = by_bit[:, used].T.tolist()
    factors: list[tuple[Product, list[float]]] = []
    if constant:
        factors.append(((), reading.coefficients[:, 0].tolist()))
    if len(used) == 2 and all(a == -b for a, b in zip(*weights, strict=True)):
        pair = Digit(reading.name, used[0], used[1])
        return [*factors, ((pair,), [2 * weight for weight in weights[0]])]
    for bit, weight in zip(used, weights, strict=True):
        factors.append(((Digit(reading.name, bit, None),), weight))
    return factors


@dataclass(frozen=True)
class _Asked:
    """The columns of the digits of each term, filled up with -1."""

    firsts: Counts
    seconds: Counts

    @classmethod
    def of(cls, terms: Sequence[Product], place: Mapping[tuple[str, int], int]) -> _Asked:
        most = max((len(digits) for digits in terms), default=0)
        firsts, seconds = [], []
        for digits in terms:
            rest = [-1] * (most - len(digits))
            ends = [None if d.second is None else (d.name, d.second) for d in digits]
            firsts.append([place[d.name, d.first] for d in digits] + rest)
            seconds.append([-1 if end is None else place[end] for end in ends] + rest)
        shape = (len(terms), most)
        return cls(np.array(firsts).reshape(shape), np.array(seconds).reshape(shape))


class BitColumns:
    """All bits of all reports as columns, so that a query reads just the bits it needs.

    Tallies are merged by putting their columns in one list, as segments.
    """

    def __init__(self, channels: Mapping[str, Channel], batches: list[Batch]) -> None:
        bits = [(name, bit) for name, channel in channels.items() for bit in range(channel.bits)]
        self._place = {bit: place for place, bit in enumerate(bits)}
        self._n = sum(map(_size, batches))
        ends = list(accumulate((-(-_size(batch) // 64) for batch in batches), initial=0))
        columns = np.empty((len(bits), ends[-1]), dtype=np.uint64)
        self._segments: list[tuple[int, Words]] = [(self._n, columns)]

        def fill(start: int, end: int, batch: Batch) -> Counts:
            minus = [transposed(~batch[name], channel.bits) for name, channel in channels.items()]
            columns[:, start:end] = np.concatenate(minus)
            return np.asarray(np.bitwise_count(columns[:, start:end]).sum(axis=1, dtype=np.int64))

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            ones = list(pool.map(fill, ends[:-1], ends[1:], batches))
        self._ones = np.sum(ones, axis=0)
        """How many ones each column has, in all segments."""

    def __add__(self, other: BitColumns) -> BitColumns:
        merged = copy(self)
        merged._segments = self._segments + other._segments
        merged._n, merged._ones = self._n + other._n, self._ones + other._ones
        return merged

    def counts(self, terms: Sequence[Product]) -> list[int]:
        """The sum of each product of digits, exactly as from the reports themselves."""
        joint = [digits for digits in terms if len(digits) > 1]
        sums = np.zeros(len(joint), dtype=np.int64)
        if joint:
            from metricldp.store import kernels

            asked = _Asked.of(joint, self._place)
            for n, columns in self._segments:
                sums += kernels.digit_sums(columns, asked.firsts, asked.seconds, n)
        found = iter(sums.tolist())
        return [next(found) if len(digits) > 1 else self._known(digits) for digits in terms]

    def _known(self, digits: Product) -> int:
        """The sum of no digit or one, from the ones that were counted before."""
        if not digits:
            return self._n
        (digit,) = digits
        first = int(self._ones[self._place[digit.name, digit.first]])
        if digit.second is None:
            return self._n - 2 * first
        return int(self._ones[self._place[digit.name, digit.second]]) - first


def _size(batch: Batch) -> int:
    return len(next(iter(batch.values())))


def _minus_signs(
    bits: Sequence[tuple[str, int]], channels: Mapping[str, Channel], batch: Batch
) -> Words:
    """Bit columns (bits, words) that are 1 where a report's sign is -1, without a transposition."""
    size = _size(batch)
    columns = np.zeros((len(bits), 8 * -(-size // 64)), dtype=np.uint8)
    for column, (name, bit) in zip(columns, bits, strict=True):
        plus = np.packbits(bit_of(batch[name], bit), bitorder="little")
        np.invert(plus, out=column[: len(plus)])
    if size % 8:  # behind the last report
        columns[:, size // 8] &= (1 << size % 8) - 1
    return columns.view("<u8")


def transposed(rows: Column, bits: int, lead: int = 0) -> Words:
    """Packed rows (n, bytes) to bit columns (lead + bits, words); the first `lead` are zeros."""
    from metricldp.store import kernels

    width = 8 * -(-bits // 64)
    if rows.shape[1] != width or not rows.flags.c_contiguous:
        padded = np.zeros((len(rows), width), dtype=np.uint8)
        padded[:, : rows.shape[1]] = rows
        rows = padded
    return np.asarray(kernels.transpose(rows.view("<u8"), bits, lead))
