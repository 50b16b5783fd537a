"""Hierarchies with optimised unary encoding: a level, and a bit for each of its nodes.

A person draws one of the L levels of a tree, all alike, and sends a bit for each node there: 1 with
probability p = 1/2 if it is hers and q = 1/(e^epsilon + 1) otherwise. The level is drawn without
looking at the value, so the bits alone pay with epsilon. This is TreeOUE of Cormode, Kulkarni and
Srivastava (see `levels`), made consistent by least squares.

A function that is written as f(x) = c + sum_l w_l(v_l(x)) has the decoder

    F = c + L/(p - q) * sum of w_l(v) b_v over the nodes of the drawn level.

Least squares make the weights of each level add up to 0, because a constant costs nothing at the
root; so q cancels out, and no constant per level could lower the variance of evenly filled nodes. A
bit (b - q)/(p - q) has the mean [v is hers] and the variance V = q (1 - q)/(p - q)^2, but V + 1 at
her own node, for any q if p is 1/2. So

    E[(F - c)^2 | x] = L * sum_l (V * sum_v w_l(v)^2 + 2 w_l(v_l(x))^2).

V is 4 e^epsilon / (e^epsilon - 1)^2, as published. It falls to 0 as epsilon grows, where the factor
1/t^2 = V + 1 of Hadamard randomized response does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.basics.exact import ONE
from metricldp.channels import Channel, Column, Floats, Integers, Levels
from metricldp.coins.draws import uniform
from metricldp.coins.stream import Coins
from metricldp.coins.tape import Tape
from metricldp.lab.peers.hierarchy import Tree
from metricldp.lab.peers.unary import UnaryOptimised

_CHUNK = 1 << 22
"""Bits unpacked at a time."""
_MOST_BITS = 10
"""Up to so many bits of a level are read as one small integer."""


@dataclass(frozen=True)
class UnaryHierarchy(Tree, Channel):
    """Bits of the nodes of one level, then its number; q is other / 2^64.

    There is a bit for each node of the last level; those that a level does not need are zero.
    Features: the constant 1, then of every node the bit, or 0 where another level was drawn.
    """

    size: int
    other: int
    branching: int

    mechanism: ClassVar[str] = "hierarchy-unary"

    @classmethod
    def branched(cls, branching: int, size: int, epsilon: Fraction) -> UnaryHierarchy:
        """The q of unary encoding; with more children than values there is one level."""
        other = UnaryOptimised.for_epsilon(2, epsilon).other[0]
        return cls(size, other, min(branching, size))

    @cached_property
    def oracles(self) -> tuple[UnaryOptimised, ...]:
        """The unary encoding of each level."""
        return tuple(
            UnaryOptimised(count, (ONE // 2,) * count, (self.other,) * count)
            for count in self.counts
        )

    # The report ----------------------------------------------------------------------------------

    @property
    def bits(self) -> int:
        """Those of the last level, and the digits of the level."""
        return self.size + (len(self.counts) - 1).bit_length()

    @property
    def width(self) -> int:
        """Bytes of one report."""
        return -(-self.bits // 8)

    def empty(self, count: int) -> Column:
        """A matrix of bytes, one row a report."""
        return np.empty((count, self.width), dtype=np.uint8)

    def encode(self, positions: Integers, coins: Coins) -> Column:
        """A level for everybody, then all bits of a level at a time."""
        levels = uniform(coins, len(self.counts), len(positions))
        column = self._labelled(levels)
        for level, (oracle, width) in enumerate(zip(self.oracles, self.widths, strict=True)):
            rows = np.flatnonzero(levels == level)
            column[rows, : oracle.width] |= oracle.encode(positions[rows] // width, coins)
        return column

    def blur(self, position: int, tape: Tape) -> int:
        """The same for one."""
        level = tape.uniform(len(self.counts))
        bits = self.oracles[level].blur(position // self.widths[level], tape)
        return bits | level << self.size

    def _labelled(self, levels: Integers) -> Column:
        """Reports without bits: a level is a number of at most 5 digits, in one byte or two."""
        column = np.zeros((len(levels), self.width), dtype=np.uint8)
        shifted = levels.astype(np.int64) << (self.size & 7)
        for place, byte in enumerate(range(self.size >> 3, self.width)):
            column[:, byte] = shifted >> (8 * place) & 255
        return column

    def _level(self, column: Column) -> npt.NDArray[np.int64]:
        """The level of each report."""
        found = np.zeros(len(column), dtype=np.int64)
        for place, byte in enumerate(range(self.size >> 3, self.width)):
            found |= column[:, byte].astype(np.int64) << (8 * place)
        return found >> (self.size & 7)

    def invalid(self, column: Column) -> npt.NDArray[np.bool_]:
        """Rows with a level that there is not, or bits behind those of their level."""
        levels = self._level(column)
        wrong: npt.NDArray[np.bool_] = levels >= len(self.counts)
        for level, count in enumerate(self.counts):
            rows = np.flatnonzero(levels == level)
            bits = np.asarray(column[rows] ^ self._labelled(levels[rows]), dtype=np.uint8)
            bits[:, count >> 3 :][:, :1] >>= np.uint8(count & 7)
            wrong[rows] = bits[:, count >> 3 :].any(axis=1)
        return wrong

    def every_report(self) -> Column:
        """All patterns of every level."""
        parts = []
        for level, oracle in enumerate(self.oracles):
            patterns = oracle.every_report()
            part = self._labelled(np.full(len(patterns), level))
            part[:, : oracle.width] |= patterns
            parts.append(part)
        return np.concatenate(parts)

    # Reading reports -----------------------------------------------------------------------------

    @property
    def features(self) -> int:
        """The constant and all nodes."""
        return 1 + sum(self.counts)

    @cached_property
    def _places(self) -> list[slice]:
        """The features of each level."""
        ends = (1 + np.cumsum(self.counts)).tolist()
        return [slice(end - count, end) for end, count in zip(ends, self.counts, strict=True)]

    def _read(self, column: Column) -> Iterator[tuple[slice, Integers, npt.NDArray[np.uint8]]]:
        """Where the features of a level are, some of its reports and all their bits."""
        levels = self._level(column)
        for level, (oracle, place) in enumerate(zip(self.oracles, self._places, strict=True)):
            everybody, step = np.flatnonzero(levels == level), max(1, _CHUNK // oracle.size)
            for start in range(0, len(everybody), step):
                rows = everybody[start : start + step]
                packed = column[rows, : oracle.width]
                yield (
                    place,
                    rows,
                    np.unpackbits(packed, axis=1, count=oracle.size, bitorder="little"),
                )

    def expand(self, column: Column) -> npt.NDArray[np.int8]:
        """A one, and the bits of a level among zeros."""
        found = np.zeros((len(column), self.features), dtype=np.int8)
        found[:, 0] = 1
        for place, rows, bits in self._read(column):
            found[rows, place] = bits
        return found

    def values(self, column: Column, coefficients: Floats) -> Floats:
        """A weighted sum of the bits of each report."""
        result = np.empty((len(coefficients), len(column)))
        for place, rows, bits in self._read(column):
            result[:, rows] = coefficients[:, :1] + coefficients[:, place] @ bits.T
        return result

    def totals(self, column: Column, codes: Integers, count: int) -> npt.NDArray[np.int64]:
        """How many reports of each code have each bit."""
        result = np.zeros((self.features, count), dtype=np.int64)
        result[0] = np.bincount(codes, minlength=count)
        for place, rows, bits in self._read(column):
            people, node = np.nonzero(bits)
            joint = node * count + codes[rows[people]]
            result[place] += np.bincount(joint, minlength=bits.shape[1] * count).reshape(-1, count)
        return result

    def levels(self, coefficients: Floats) -> Levels | None:
        """The bits that any decoder uses, read as one small integer; levels one after the other."""
        used = [np.flatnonzero(coefficients[:, place].any(axis=0)) for place in self._places]
        if max(len(nodes) for nodes in used) > _MOST_BITS:
            return None
        tables, starts, count = [], {}, 0
        for place, nodes in zip(self._places, used, strict=True):
            ones = np.arange(1 << len(nodes))[:, None] >> np.arange(len(nodes)) & 1
            tables.append(coefficients[:, :1] + coefficients[:, place][:, nodes] @ ones.T)
            starts[place.start] = count, nodes
            count += len(ones)

        def read(column: Column) -> Integers:
            found = np.empty(len(column), dtype=np.int64)
            for place, rows, bits in self._read(column):
                start, nodes = starts[place.start]
                found[rows] = start + bits[:, nodes] @ (1 << np.arange(len(nodes)))
            return found

        return Levels(np.concatenate(tables, axis=1), read)

    # Decoding ------------------------------------------------------------------------------------

    @cached_property
    def _q(self) -> Fraction:
        return Fraction(self.other, ONE)

    @cached_property
    def _scale(self) -> float:
        """L/(p - q)."""
        return float(len(self.counts) / (Fraction(1, 2) - self._q))

    @cached_property
    def noise(self) -> float:
        """V: the variance of an unbiased bit of another node."""
        return float(self._q * (1 - self._q) / (Fraction(1, 2) - self._q) ** 2)

    def coefficients(self, functions: Floats) -> Floats:
        """The constant, and the weights by L/(p - q)."""
        written = self.write(np.asarray(functions, dtype=np.float64))
        return np.concatenate(
            [written.constant, *(self._scale * weights for weights in written.weights)], axis=-1
        )

    def moment(self, functions: Floats, others: Floats) -> Floats:
        """With F = c + A and G = d + B: c g + d f - c d + E[A B | x]."""
        first = self.write(functions)
        second = first if others is functions else self.write(others)
        paid = np.zeros(np.broadcast_shapes(functions.shape, others.shape))
        for width, one, other in zip(self.widths, first.weights, second.weights, strict=True):
            products = one * other
            paid += self.noise * products.sum(axis=-1, keepdims=True)
            paid += 2 * np.repeat(products, width, axis=-1)[..., : self.size]
        c, d = first.constant, second.constant
        return np.asarray(c * others + d * functions - c * d + len(self.counts) * paid)

    def cells(self, totals: Floats) -> Floats:
        """Sums of bits to sums over nodes, and these to frequencies."""
        last = np.moveaxis(totals, 0, -1)
        nodes = [self._scale * last[..., place] for place in self._places]
        return np.moveaxis(self.unwrite(last[..., :1], nodes), -1, 0)

    def influence(self, function: Floats) -> float:
        """The level whose ones, where they add or where they take away, move most."""
        weights = self.coefficients(function)
        ends = [
            weights[0] + part[sign * part > 0].sum()
            for part in (weights[place] for place in self._places)
            for sign in (1, -1)
        ]
        return float(max(map(abs, ends)))

    def mean_range_variance(self) -> float:
        """The variance one person adds to a count, mean over all ranges and positions."""
        paid = 0.0
        for width, squares in zip(self.widths, self.range_squares(), strict=True):
            people = np.diff(np.append(np.arange(len(squares)) * width, self.size))
            paid += float(self.noise * squares.sum() + 2 * squares @ people / self.size)
        ranges = self.size * (self.size + 1) / 2
        return (len(self.counts) * paid - self.range_spread()) / ranges

    # The certificate -----------------------------------------------------------------------------

    def worst_ratio(self, x: int, other: int) -> Fraction:
        """On the last level any two values are two nodes."""
        return self.oracles[-1].worst_ratio(x, other)

    @property
    def same_ratio_for_all_pairs(self) -> bool:
        """All nodes have the same two probabilities."""
        return True

    def probability(self, x: int, report: Column) -> Fraction:
        """One level, then its bits."""
        level = int(self._level(report[None])[0])
        oracle = self.oracles[level]
        bits = oracle.probability(x // self.widths[level], report[: oracle.width])
        return bits / len(self.counts)
