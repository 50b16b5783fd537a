"""Output distributions of randomizers, defined by integers.

A randomizer maps a private position x in {0, ..., size - 1} to a report, an integer of `bits` bits.
Its probabilities are rational numbers that follow from a few stored integers, so a privacy
guarantee is a statement about integers. Each class states, in this order, the probabilities, how
they are drawn from 64-bit words, and the likelihood ratio of two positions with its proof. A stored
probability p stands for p / 2^64. Draws read the same number of words for every position, except
that rejection may repeat a draw with a probability that does not depend on the position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import accumulate
from math import log
from typing import Any, ClassVar, Literal, Self

from metricldp_core.canonical import Entry
from metricldp_core.exact import CERTAIN, WORD, power, product, upper
from metricldp_core.random_words import Words

MOST_POSITIONS = 1 << 20
MOST_BITS = 1 << 21
"""Bits of a report: 256 kB."""
LARGEST_ENTRY = 1 << 31
"""Entries and ends of windows of the matrix mechanism, either way."""
_NEVER = -100.0
"""In place of the logarithm of 0; those of positive weights are from 0 to 45."""
Invariance = Literal["none", "difference", "all"]


class Distribution(ABC):
    """P(report | position), defined by integers. Positions of a group are its cells, flattened."""

    kind: ClassVar[str]
    size: int
    bits: int
    invariance: Invariance = "none"
    """What `ratio` depends on: both positions, their difference, or only whether they differ.

    The proof then needs fewer pairs. The difference is that of cells of `grid`."""
    rises: bool = False
    """Whether a ratio that depends on a difference does not fall as the difference grows."""

    @property
    def grid(self) -> tuple[int, ...]:
        """The sizes of the grid of which positions are the flattened cells."""
        return (self.size,)

    @abstractmethod
    def draw(self, position: int, words: Words) -> int:
        """Return one report for a private position."""

    @abstractmethod
    def ratio(self, x: int, other: int) -> Fraction:
        """Return the maximum over reports y of P(y | x) / P(y | other) and its inverse.

        The result is exact or rounded up.
        """

    def largest_ratio(self) -> Fraction:
        """Return an upper bound of `ratio` over all pairs of positions.

        It is the ratio of the ends if ratios are equal or do not fall as the difference grows.
        """
        return self.ratio(0, self.size - 1)

    def work(self, pairs: int) -> int:
        """About how many elementary steps the ratios of so many pairs take.

        A step is one report of a table.
        """
        return pairs

    def is_possible(self, report: int) -> bool:
        """Whether an integer of `bits` bits can be a report."""
        return True

    @classmethod
    @abstractmethod
    def read(cls, entry: Entry) -> Self:
        """Read the entries of a manifest, except for the kind."""


class OneInteger(Distribution):
    """A report is one integer below `outputs`."""

    @property
    def outputs(self) -> int:
        return self.size

    @property
    def bits(self) -> int:  # type: ignore[override]
        return (self.outputs - 1).bit_length()

    def is_possible(self, report: int) -> bool:
        return report < self.outputs


@dataclass(frozen=True)
class RandomizedResponse(OneInteger):
    """k-ary randomized response: the true position with probability keep, else a uniform other one.

    Drawn: one word, compared with keep, decides whether the position stays; an offset from 1 to
    size - 1, uniform, is drawn in either case and added modulo size if the position does not stay.

    Ratio: with q = (1 - p) / (size - 1), it is p / q at y = x, q / p at y = x' and 1 elsewhere; so
    the maximum is the larger of p / q and q / p, for every pair.
    """

    size: int
    keep: int

    kind: ClassVar[str] = "randomized-response"
    invariance = "all"

    def draw(self, position: int, words: Words) -> int:
        stays = words.below(self.keep)
        offset = 1 + words.uniform(self.size - 1)
        return (position + offset * (not stays)) % self.size

    def ratio(self, x: int, other: int) -> Fraction:
        if x == other:
            return Fraction(1)
        return quotient(self.keep * (self.size - 1), WORD - self.keep)

    @classmethod
    def read(cls, entry: Entry) -> Self:
        return cls(entry.whole("size", 2, MOST_POSITIONS), entry.probability("keep", 1))


@dataclass(frozen=True)
class Threshold(Distribution):
    """Threshold bits: bit k says whether x <= k, and is flipped with probability flips[k].

    There are size - 1 bits or more. Bits from size - 1 on are 1 before the flip for every position:
    the paper sends one of them.

    Drawn: one word for each bit, compared with its flips[k].

    Ratio: bits are independent, and x and x' > x differ before the flip in the bits x to x' - 1. A
    bit that differs contributes (1 - p) / p or the inverse, whichever is larger, for a suitable
    report; one report is the worst for all bits at once. So the ratio is the product over these
    bits. Ratios of neighbours multiply to that of any pair.
    """

    size: int
    flips: tuple[int, ...]

    kind: ClassVar[str] = "threshold"
    rises = True

    @property
    def bits(self) -> int:  # type: ignore[override]
        return len(self.flips)

    @cached_property
    def _equal(self) -> bool:
        return len(set(self.flips)) == 1

    @property
    def invariance(self) -> Invariance:  # type: ignore[override]
        return "difference" if self._equal else "none"

    def draw(self, position: int, words: Words) -> int:
        return packed(words.below(flip) != (position <= k) for k, flip in enumerate(self.flips))

    def ratio(self, x: int, other: int) -> Fraction:
        first, end = min(x, other), max(x, other)
        if self._equal:
            return product([power(self._ratios[0], end - first)])
        return product(self._ratios[first:end])

    @cached_property
    def _ratios(self) -> list[int]:
        known = {flip: upper(quotient(WORD - flip, flip)) for flip in set(self.flips)}
        return [known[flip] for flip in self.flips]

    def work(self, pairs: int) -> int:
        return pairs if self._equal else 8 * pairs * self.bits

    @classmethod
    def read(cls, entry: Entry) -> Self:
        size = entry.whole("size", 2, MOST_POSITIONS)
        flips = read_runs(entry, "flips", MOST_BITS, entry.probability_of)
        if not size - 1 <= len(flips) <= size + 1:
            entry.reject(f"has {len(flips):,} flips for {size:,} positions")
        return cls(size, flips)


@dataclass(frozen=True)
class Unary(Distribution):
    """Unary encoding: bit k is 1 with probability own[k] if x = k, else with other[k].

    Drawn: one word for each bit, compared with other[k]; then one word, compared with own[x], that
    replaces bit x.

    Ratio: bits are independent, and between x and x' only the bits x and x' differ in distribution.
    With p = own, q = other, the ratio of x to x' is max(p_x / q_x, (1 - p_x) / (1 - q_x)) times
    max(q_x' / p_x', (1 - q_x') / (1 - p_x')), and one report attains both.
    """

    size: int
    own: tuple[int, ...]
    other: tuple[int, ...]

    kind: ClassVar[str] = "unary"

    @property
    def bits(self) -> int:  # type: ignore[override]
        return self.size

    @property
    def invariance(self) -> Invariance:  # type: ignore[override]
        return "all" if len(set(self._bit_ratios.values())) == 1 else "none"

    def draw(self, position: int, words: Words) -> int:
        bits = [words.below(probability) for probability in self.other]
        own = words.below(self.own[position])
        return packed((bit, own)[k == position] for k, bit in enumerate(bits))

    def ratio(self, x: int, other: int) -> Fraction:
        if x == other:
            return Fraction(1)
        (up, down), (other_up, other_down) = (
            self._bit_ratios[self.own[k], self.other[k]] for k in (x, other)
        )
        return max(up * other_down, other_up * down)

    @cached_property
    def _bit_ratios(self) -> dict[tuple[int, int], tuple[Fraction, Fraction]]:
        """By own and other: the largest contributions of a bit for its value, and against it."""
        known = {}
        for p, q in set(zip(self.own, self.other, strict=True)):
            one, zero = fraction(p, q), fraction(WORD - p, WORD - q)
            known[p, q] = max(one, zero), max(fraction(q, p), fraction(WORD - q, WORD - p))
        return known

    def largest_ratio(self) -> Fraction:
        ups, downs = zip(*self._bit_ratios.values(), strict=True)
        return Fraction(max(ups) * max(downs))

    @classmethod
    def read(cls, entry: Entry) -> Self:
        own, other = (
            read_runs(entry, key, MOST_POSITIONS, entry.probability_of) for key in ("own", "other")
        )
        if not 2 <= len(own) == len(other):
            entry.reject("needs own and other of equal length, at least 2")
        entry.charge(len(set(zip(own, other, strict=True))) << 4)  # their ratios
        return cls(len(own), own, other)


@dataclass(frozen=True)
class Geometric(OneInteger):
    """Two-sided geometric noise, clipped: y = min(max(x + noise, 0), size - 1).

    The noise is 0 with probability zero, else a fair sign times 1 + G. The binary digits of G are
    independent: digit j is 1 with probability digits[j], for j < J. Above them G grows by 2^J as
    long as a draw with probability block succeeds. No tail is tabulated, so no probability is
    rounded to zero.

    Drawn: a word for each digit; words for the blocks until one fails or the noise leaves the
    domain from any position (noise of size or more is clipped from every position); one word for
    the sign; one word for zero. The words do not depend on the position. Their number depends on
    the noise, so it must stay on the device: with the report it would tell about the position.

    Ratio: adding noise that differs by d moves along d steps of the noise's distribution, and
    clipping is applied to what was drawn, so it cannot raise a ratio. The ratio is at most
    step^|x - x'|, with step the largest ratio, either way, of the probabilities of neighbouring
    values of the noise. From g + 1 to g + 2, with g's lowest 1-digits carried into digit j, it is
    the product of p_i / (1 - p_i) over i < j and (1 - p_j) / p_j; for a carry into the blocks the
    last factor is 1 / block. From 0 to 1 it is 2 zero / ((1 - zero) (1 - block) prod (1 - p_i)).
    """

    size: int
    zero: int
    digits: tuple[int, ...]
    block: int

    kind: ClassVar[str] = "geometric"
    invariance = "difference"
    rises = True

    def draw(self, position: int, words: Words) -> int:
        return min(max(position + self.noise(words), 0), self.size - 1)

    def noise(self, words: Words) -> int:
        magnitude, length = 1, 1 << len(self.digits)
        for j, digit in enumerate(self.digits):
            magnitude += words.below(digit) << j
        for _ in range(self.size // length + 1):
            if not words.below(self.block):
                break
            magnitude += length
        negative, zero = words.bits(1), words.below(self.zero)
        return magnitude * (1 - 2 * negative) * (not zero)

    def ratio(self, x: int, other: int) -> Fraction:
        return product([self.upper_ratio(abs(x - other))])

    def upper_ratio(self, steps: int) -> int:
        """The ratio of positions so many steps apart, in units of 2^-256."""
        if steps not in self._powers:
            self._powers[steps] = power(upper(self.step), steps)
        return self._powers[steps]

    @cached_property
    def _powers(self) -> dict[int, int]:
        return {}

    @cached_property
    def step(self) -> Fraction:
        """The largest ratio of the probabilities of neighbouring values of the noise."""
        ratios = list[Fraction]()
        ones = zeros = total = 1
        for digit in self.digits:
            ratios.append(quotient(ones * (WORD - digit), zeros * digit))
            ones, zeros, total = ones * digit, zeros * (WORD - digit), total * WORD
        ratios.append(quotient(ones * WORD, zeros * self.block))
        ratios.append(
            quotient(2 * self.zero * total * WORD, (WORD - self.zero) * zeros * (WORD - self.block))
        )
        return max(ratios)

    @classmethod
    def read(cls, entry: Entry, most: int = MOST_POSITIONS) -> Self:
        entry.charge(1 << 5)  # its ratio
        size, zero = entry.whole("size", 2, most), entry.probability("zero", 1)
        digits, block = entry.probabilities("digits", 0, 63), entry.probability("block", 1)
        if block > WORD >> 1:
            entry.reject("has a block above 1/2, so that a draw could read many words")
        return cls(size, zero, digits, block)


@dataclass(frozen=True)
class LazyGeometric(OneInteger):
    """The position with probability keep, or end at the two ends; else with geometric noise.

    It is the second randomization of memoised geometric noise.

    Drawn: one word, compared with keep or end; then clipped geometric noise, in either case.

    Ratio: with stay probabilities s and s' and clipped noise of ratio r, P(y | x) is at least
    (1 - s) times the noise's probability. `ratio` is not needed: of memoised reports the first
    randomization gives the guarantee.
    """

    geometric: Geometric
    keep: int
    end: int

    kind: ClassVar[str] = "lazy-geometric"

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.geometric.size

    def draw(self, position: int, words: Words) -> int:
        at_end = (position == 0) | (position == self.size - 1)
        stays = words.below((self.keep, self.end)[at_end])
        moved = self.geometric.draw(position, words)
        return (moved, position)[stays]

    def ratio(self, x: int, other: int) -> Fraction:
        return Fraction(1) if x == other else CERTAIN

    @classmethod
    def read(cls, entry: Entry) -> Self:
        keep, end = entry.probability("keep"), entry.probability("end")
        return cls(Geometric.read(entry), keep, end)


@dataclass(frozen=True)
class Row:
    """One row of a matrix: an integer entry for each position, with clipped geometric noise."""

    entries: tuple[int, ...]
    low: int
    noise: Geometric


@dataclass(frozen=True)
class Matrix(Distribution):
    """The matrix mechanism: integer rows of the position, each with clipped geometric noise.

    Row k reports y_k = clip(a_k(x) + noise_k), an integer from low_k to low_k + size_k - 1, counted
    from low_k. All rows are independent.

    Drawn: the geometric noise of each row in turn.

    Ratio: rows are independent, so the ratio is at most the product over rows of the row's own,
    step_k^|a_k(x) - a_k(x')|.
    """

    size: int
    rows: tuple[Row, ...]

    kind: ClassVar[str] = "matrix"

    @property
    def bits(self) -> int:  # type: ignore[override]
        return sum(row.noise.bits for row in self.rows)

    def draw(self, position: int, words: Words) -> int:
        report = start = 0
        for row in self.rows:
            report |= row.noise.draw(row.entries[position] - row.low, words) << start
            start += row.noise.bits
        return report

    def is_possible(self, report: int) -> bool:
        for row in self.rows:
            if not row.noise.is_possible(report & (1 << row.noise.bits) - 1):
                return False
            report >>= row.noise.bits
        return True

    def ratio(self, x: int, other: int) -> Fraction:
        apart = ((row.noise, abs(row.entries[x] - row.entries[other])) for row in self.rows)
        return product(noise.upper_ratio(steps) for noise, steps in apart if steps)

    def largest_ratio(self) -> Fraction:
        """Return the product of the largest ratios of all rows."""
        reaches = ((row.noise, max(row.entries) - min(row.entries)) for row in self.rows)
        return product(noise.upper_ratio(steps) for noise, steps in reaches)

    def work(self, pairs: int) -> int:
        powers = 0
        for row in self.rows:
            entries = set(row.entries)
            reach = max(entries) - min(entries)
            powers += min(pairs, reach, len(entries) ** 2 >> 1) * reach.bit_length()
        return 2 * pairs * len(self.rows) + 16 * powers

    @classmethod
    def read(cls, entry: Entry) -> Self:
        rows = []
        for k, data in enumerate(entry.list("rows", 1, 1 << 14)):
            row = Entry(data, f"{entry.path}.rows[{k}]", entry)
            low = row.whole("low", -LARGEST_ENTRY, LARGEST_ENTRY)
            noise = Geometric.read(row, 1 << 32)
            inside = partial(row.whole_of, least=low, most=low + noise.size - 1)
            rows.append(Row(read_runs(row, "entries", 1 << 12, inside), low, noise))
            row.done()
        size = len(rows[0].entries)
        if size < 2 or any(len(row.entries) != size for row in rows):
            entry.reject("needs rows of equal length, at least 2")
        return cls(size, tuple(rows))


@dataclass(frozen=True)
class Memoised(OneInteger):
    """Two randomizations: the first is drawn once for each value, the second for each report.

    The device remembers the output of the first for each position. P(y | x) is the sum over z of
    P_first(z | x) P_second(y | z).

    Drawn: `first`, from the position; then `second`, from its output.

    Ratio: all reports of one position are functions of one output of the first and of independent
    words, so for all of them together the ratio is at most that of the first, which is stated here.
    """

    first: OneInteger
    second: OneInteger

    kind: ClassVar[str] = "memoised"

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.first.size

    @property
    def outputs(self) -> int:
        return self.second.outputs

    @property
    def rises(self) -> bool:  # type: ignore[override]
        return self.first.rises

    @property
    def invariance(self) -> Invariance:  # type: ignore[override]
        return self.first.invariance

    def draw(self, position: int, words: Words) -> int:
        return self.second.draw(self.first.draw(position, words), words)

    def ratio(self, x: int, other: int) -> Fraction:
        return self.first.ratio(x, other)

    def largest_ratio(self) -> Fraction:
        return self.first.largest_ratio()

    def work(self, pairs: int) -> int:
        return self.first.work(pairs)

    @classmethod
    def read(cls, entry: Entry) -> Self:
        first, second = entry.entry("first").one_of(FIRST), entry.entry("second").one_of(SECOND)
        if second.size != first.outputs:
            entry.reject("has a second randomization that does not fit the first")
        return cls(first, second)


@dataclass(frozen=True)
class Table(OneInteger):
    """Any randomizer as a table: report y of position x has the probability weights[x][y].

    The weights of each position add up to 2^64 exactly.

    Drawn: one word; the report is the first whose cumulative weight is above the word.

    Ratio: the maximum over reports of weights[x][y] / weights[x'][y] and its inverse. Logarithms in
    floating point select the reports that can attain the maximum, integers decide among them.
    """

    weights: tuple[tuple[int, ...], ...]

    kind: ClassVar[str] = "table"

    @property
    def size(self) -> int:  # type: ignore[override]
        return len(self.weights)

    @property
    def outputs(self) -> int:
        return len(self.weights[0])

    @cached_property
    def _cumulative(self) -> list[list[int]]:
        return [list(accumulate(row)) for row in self.weights]

    def draw(self, position: int, words: Words) -> int:
        return bisect_right(self._cumulative[position], words.word())

    def ratio(self, x: int, other: int) -> Fraction:
        here, there = self.weights[x], self.weights[other]
        apart = [abs(a - b) for a, b in zip(self._logs[x], self._logs[other], strict=True)]
        least = max(apart) - 1e-9  # the logarithms are nearer than this
        pairs = zip(here, there, apart, strict=True)
        return max(quotient(a, b) for a, b, gap in pairs if gap >= least)

    @cached_property
    def _logs(self) -> list[list[float]]:
        return [[log(weight) if weight else _NEVER for weight in row] for row in self.weights]

    def largest_ratio(self) -> Fraction:
        columns = zip(*self.weights, strict=True)
        return max(quotient(max(column), min(column)) for column in columns)

    def work(self, pairs: int) -> int:
        return pairs * self.outputs

    @classmethod
    def read(cls, entry: Entry) -> Self:
        rows = entry.list("weights", 2, 1 << 12)
        weights = []
        for row in rows:
            if not isinstance(row, list) or not 2 <= len(row) <= MOST_POSITIONS // len(rows):
                entry.reject("needs weights, a list of lists with at most 2^20 numbers in all")
            weights.append(tuple(entry.probability_of(weight, "weights") for weight in row))
            if sum(weights[-1]) != WORD or len(row) != len(weights[0]):
                entry.reject("needs weights that add up to 2^64 for each position")
        return cls(tuple(weights))


def quotient(a: int, b: int) -> Fraction:
    """The larger of a / b and b / a; CERTAIN if just one of them is 0."""
    if not a or not b:
        return CERTAIN if a or b else Fraction(1)
    return Fraction(max(a, b), min(a, b))


def fraction(a: int, b: int) -> Fraction:
    """a / b; CERTAIN if b is 0 and a is not."""
    if not b:
        return CERTAIN if a else Fraction(1)
    return Fraction(a, b)


def packed(bits: Iterable[bool]) -> int:
    """The integer with these bits, the lowest first; the same time for each."""
    return int("".join("01"[bit] for bit in bits)[::-1], 2)


def read_runs(
    entry: Entry, key: str, most: int, read: Callable[[Any, str], int]
) -> tuple[int, ...]:
    """The values of runs, at most so many."""
    values: list[int] = []
    for run in entry.list(key, 1, most):
        pair = isinstance(run, list) and len(run) == 2
        if not pair or values[-1:] == [value := read(run[0], key)]:
            entry.reject(f"needs {key}, lists of [value, count] with different neighbouring values")
        count = entry.whole_of(run[1], key, 1, most - len(values))
        entry.charge(count >> 3)
        values += [value] * count
    return tuple(values)


SUPPORTED: dict[str, type[Distribution]] = {
    found.kind: found
    for found in (RandomizedResponse, Threshold, Unary, Geometric, Matrix, Memoised, Table)
}
"""Distributions of a field by kind; `levels` adds two."""
FIRST: dict[str, type[Distribution]] = {
    found.kind: found for found in (RandomizedResponse, Geometric, Table)
}
SECOND: dict[str, type[Distribution]] = {
    found.kind: found for found in (RandomizedResponse, LazyGeometric)
}
"""The two randomizations of a memoised response."""
