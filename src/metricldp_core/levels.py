"""Distributions whose probabilities depend on a depth: mixtures of extreme points, additive noise.

A shape assigns a depth, a whole number, to each position. Its level at depth 0 is an integer top;
the level below t is t fall / 2^64, rounded up. So levels k depths apart have a ratio of at most
(2^64 / fall)^k, and no level is 0.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Any, ClassVar, Self

from metricldp_core.canonical import Entry
from metricldp_core.distributions import (
    FIRST,
    MOST_POSITIONS,
    SUPPORTED,
    OneInteger,
    Table,
)
from metricldp_core.exact import WORD
from metricldp_core.random_words import Words

Shape = tuple[int, ...]
DEEPEST = 1 << 14
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def levels(top: int, fall: int, deepest: int) -> list[int]:
    """The levels of depths 0 to `deepest`."""
    found = [top]
    for _ in range(deepest):
        found.append(-(-found[-1] * fall // WORD))
    return found


@dataclass(frozen=True)
class Extremal(Table):
    """A mixture of shapes: report y of position x has the level of shape y at its depth at x.

    One more report has what the levels of a position lack of 2^64. The weights make a `Table`,
    which is drawn and compared as every table.
    """

    depths: tuple[Shape, ...]
    tops: tuple[int, ...]
    fall: int

    kind: ClassVar[str] = "extremal"

    @classmethod
    def of(cls, depths: tuple[Shape, ...], tops: tuple[int, ...], fall: int) -> Self:
        """The table of these shapes. Its last weights are negative if the levels exceed 2^64."""
        columns = []
        for shape, top in zip(depths, tops, strict=True):
            known = levels(top, fall, max(shape))
            columns.append([known[depth] for depth in shape])
        rows = zip(*columns, strict=True)
        return cls(tuple((*row, WORD - sum(row)) for row in rows), depths, tops, fall)

    @classmethod
    def read(cls, entry: Entry) -> Self:
        found = cls.of(*read_shapes(entry, 1 << 12))
        if found.size < 2 or found.size > 1 << 12:
            entry.reject("needs depths of 2 to 4,096 positions")
        if min(row[-1] for row in found.weights) < 0:
            entry.reject("has levels that add up to more than 2^64 at a position")
        return found


@dataclass(frozen=True)
class Additive(OneInteger):
    """Noise added on a ring, or on a torus for several attributes, from one of J patterns.

    Positions are cells of a grid with `sizes`, flattened, the last attribute fastest; a cell lies
    at the place sum_d x_d s_d of a ring of n places, with s_d the product of `lengths` after d.
    Pattern j, of J patterns, is a shape of n depths. The report is j n + (place + d) mod n with
    probability 1 / J times the level of pattern j at d over the sum of its levels. J is a power of
    two.

    Drawn: j from the top bits of one word, none if J = 1; d by a uniform integer below the sum of
    the levels, compared with cumulative sums.

    Ratio: j does not depend on the position. Given j, the reports of places s and s' have the
    levels at d and at d + s - s' for some d. So the ratio is the maximum over patterns and d of the
    ratio of the levels at d and at d + s - s' mod n; it depends on the difference of places alone.
    """

    sizes: tuple[int, ...]
    lengths: tuple[int, ...]
    depths: tuple[Shape, ...]
    tops: tuple[int, ...]
    fall: int

    kind: ClassVar[str] = "additive"
    invariance = "difference"

    @cached_property
    def size(self) -> int:  # type: ignore[override]
        return prod(self.sizes)

    @cached_property
    def ring(self) -> int:
        """The number n of places."""
        return prod(self.lengths)

    @property
    def outputs(self) -> int:
        return len(self.depths) * self.ring

    @property
    def grid(self) -> tuple[int, ...]:
        return self.sizes

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """How many places one step along each attribute is."""
        return tuple(prod(self.lengths[d + 1 :]) for d in range(len(self.lengths)))

    def place(self, position: int) -> int:
        """The place of a cell."""
        place = 0
        for size, stride in zip(reversed(self.sizes), reversed(self.strides), strict=True):
            position, x = divmod(position, size)
            place += x * stride
        return place

    @cached_property
    def levels(self) -> list[list[int]]:
        """Of each pattern, the level of each depth."""
        pairs = zip(self.tops, self.depths, strict=True)
        return [levels(top, self.fall, max(pattern)) for top, pattern in pairs]

    @cached_property
    def _cumulative(self) -> list[list[int]]:
        pairs = zip(self.depths, self.levels, strict=True)
        return [list(accumulate(known[depth] for depth in pattern)) for pattern, known in pairs]

    def draw(self, position: int, words: Words) -> int:
        j = words.bits(len(self.depths).bit_length() - 1)
        cumulative = self._cumulative[j]
        d = bisect_right(cumulative, words.uniform(cumulative[-1]))
        return j * self.ring + (self.place(position) + d) % self.ring

    def ratio(self, x: int, other: int) -> Fraction:
        apart = (self.place(x) - self.place(other)) % self.ring
        ratios = [Fraction(1)]
        for pattern, known in zip(self.depths, self.levels, strict=True):
            pairs = set(zip(pattern, pattern[apart:] + pattern[:apart], strict=True))
            ratios += [Fraction(known[min(pair)], known[max(pair)]) for pair in pairs]
        return max(ratios)

    def largest_ratio(self) -> Fraction:
        """Return the ratio of the highest and the lowest level."""
        return max(Fraction(known[0], known[-1]) for known in self.levels)

    def work(self, pairs: int) -> int:
        return 2 * pairs * self.outputs

    @classmethod
    def read(cls, entry: Entry) -> Self:
        sizes, lengths = (
            tuple(entry.whole_of(size, key, 2, MOST_POSITIONS) for size in entry.list(key, 1, 8))
            for key in ("sizes", "lengths")
        )
        depths, tops, fall = read_shapes(entry, 1 << 10)
        found = cls(sizes, lengths, depths, tops, fall)
        fits = len(sizes) == len(lengths) and all(map(int.__le__, sizes, lengths))
        if not fits or found.ring != len(depths[0]) or len(depths).bit_count() != 1:
            entry.reject("needs 1, 2, 4, ... patterns of one depth for each place")
        if max(sums[-1] for sums in found._cumulative) > WORD:
            entry.reject("has levels of a pattern that add up to more than 2^64")
        return found


def read_shapes(entry: Entry, most: int) -> tuple[tuple[Shape, ...], tuple[int, ...], int]:
    """Shapes of equal length, each with a depth 0, their tops and the fall of a level."""
    depths = tuple(read_depths(entry, text) for text in entry.list("depths", 1, most))
    tops, fall = entry.probabilities("tops", len(depths), len(depths)), entry.probability("fall", 1)
    if any(len(shape) != len(depths[0]) or min(shape) for shape in depths) or not min(tops):
        entry.reject("needs depths of equal length, one of them 0, and positive tops")
    return depths, tops, fall


def depths_text(shape: Sequence[int]) -> str | list[int]:
    """A digit for each depth if all are below 62; with ":" in front, two; else a list."""
    base, deepest = len(_DIGITS), max(shape)
    if deepest >= base**2:
        return list(shape)
    if deepest >= base:
        return ":" + "".join(_DIGITS[depth // base] + _DIGITS[depth % base] for depth in shape)
    return "".join(_DIGITS[depth] for depth in shape)


def read_depths(entry: Entry, text: object) -> Shape:
    """Depths that `depths_text` wrote, in the only form that it writes."""
    depths: Sequence[Any] = text if isinstance(text, list) else ()
    entry.charge(len(text) >> 1 if isinstance(text, str | list) else 0)
    if isinstance(text, str):
        digits = [_DIGITS.find(digit) for digit in text.removeprefix(":")]
        pairs = zip(digits[::2], digits[1::2], strict=False)
        depths = [len(_DIGITS) * a + b for a, b in pairs] if text.startswith(":") else digits
    if len(depths) < 2:
        entry.reject("needs depths of 2 places or more")
    shape = tuple(entry.whole_of(depth, "depths", 0, DEEPEST) for depth in depths)
    entry.charge(max(shape))
    if depths_text(shape) != text:
        entry.reject("has depths that are not in their shortest form")
    return shape


for _known in (Additive, Extremal):
    SUPPORTED[_known.kind] = _known
FIRST[Extremal.kind] = Extremal
