"""Hierarchies with optimised unary encoding: a level, and a bit for each of its nodes.

A person draws one of the L levels of a tree, all alike, and sends a bit for each node there: 1 with
probability p = 1/2 if it is their own, q = 1/(e^epsilon + 1) otherwise. The level is drawn without
looking at the value, so the bits alone pay with epsilon. This is TreeOUE of Cormode, Kulkarni and
Srivastava (see `levels`), made consistent by least squares.

A function that is written as f(x) = c + sum_l w_l(v_l(x)) has the decoder

    F = c + L/(p - q) * sum of w_l(v) b_v over the nodes of the drawn level.

Least squares make the weights of each level add up to 0, because a constant costs nothing at the
root; so q cancels out, and no constant per level could lower the variance of evenly filled nodes. A
bit (b - q)/(p - q) has the mean [v is own] and the variance V = q (1 - q)/(p - q)^2, but V + 1 at
one's own node, for any q if p is 1/2. So

    E[(F - c)^2 | x] = L * sum_l (V * sum_v w_l(v)^2 + 2 w_l(v_l(x))^2).

V is 4 e^epsilon / (e^epsilon - 1)^2, as published. It falls to 0 as epsilon grows, where the factor
1/t^2 = V + 1 of Hadamard randomized response does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from metricldp.lab.peers.distribution import Baseline
from metricldp.lab.peers.tree import Tree
from metricldp.lab.peers.unary import UnaryOptimised
from metricldp.mechanisms import Channel, Column, Floats, Integers, Moments
from metricldp.mechanisms.fields import Bytes, Mask, bit_of, read_number, write_number
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.sampling import uniform
from metricldp_core.canonical import word
from metricldp_core.exact import WORD
from metricldp_core.random_words import Words


@dataclass(frozen=True)
class LevelBits(Bytes):
    """Bits of the nodes of one of the levels, then its number.

    There is a bit for each node of the last level; those that a level does not need are zero.
    """

    counts: tuple[int, ...]

    @property
    def _digits(self) -> int:
        return (len(self.counts) - 1).bit_length()

    @property
    def bits(self) -> int:
        return self.counts[-1] + self._digits

    def level(self, column: Column) -> npt.NDArray[np.int64]:
        return read_number(column, self.counts[-1], self._digits)

    def labelled(self, levels: Integers) -> Column:
        column = np.zeros_like(self.empty(len(levels)))
        write_number(column, self.counts[-1], self._digits, levels)
        return column

    def invalid(self, column: Column) -> Mask:
        """Rows with a level that there is not, or bits behind those of their level."""
        levels, bit = self.level(column), np.arange(8 * self.width)
        wrong: Mask = levels >= len(self.counts)
        for level, count in enumerate(self.counts):
            unused = (bit >= count) & ((bit < self.counts[-1]) | (bit >= self.bits))
            rows = np.flatnonzero(levels == level)
            wrong[rows] = (column[rows] & np.packbits(unused, bitorder="little")).any(axis=1)
        return wrong

    def every(self) -> Column:
        levels = enumerate(self.counts)
        return self.listed(
            [b | level << self.counts[-1] for level, n in levels for b in range(1 << n)]
        )


@dataclass(frozen=True)
class UnaryHierarchy(Baseline, Tree, Channel, Moments):
    """Bits of the nodes of one level; q is other / 2^64.

    Features: the constant 1, then of every node the bit, or 0 where another level was drawn.
    """

    size: int
    other: int
    branching: int

    mechanism: ClassVar[str] = "hierarchy-unary"
    has_constant: ClassVar[bool] = True  # type: ignore[misc]
    same_ratio_for_all_pairs = True
    two_values: ClassVar[tuple[int, int] | None] = (0, 1)

    @classmethod
    def branched(cls, branching: int, size: int, epsilon: Fraction) -> UnaryHierarchy:
        """The q of unary encoding; with more children than values there is one level."""
        other = UnaryOptimised.for_epsilon(2, epsilon).distribution.other[0]
        return cls(size, other, min(branching, size))

    @cached_property
    def oracles(self) -> list[UnaryOptimised]:
        return [UnaryOptimised.with_integers(n, WORD // 2, self.other) for n in self.counts]

    @cached_property
    def field(self) -> LevelBits:
        return LevelBits(self.counts)

    def law(self) -> dict[str, Any]:
        tree = {"counts": self.counts, "widths": self.widths}
        return {"law": "level-bits", "size": self.size, "other": word(self.other), **tree}

    def sample(self, positions: Integers, randomness: Randomness) -> Column:
        levels = uniform(randomness, len(self.counts), len(positions))
        column = self.field.labelled(levels)
        for level, (oracle, width) in enumerate(zip(self.oracles, self.widths, strict=True)):
            rows = np.flatnonzero(levels == level)
            column[rows, : oracle.field.width] |= oracle.sample(
                positions[rows] // width, randomness
            )
        return column

    def blur(self, position: int, words: Words) -> int:
        level = words.uniform(len(self.counts))
        bits = self.oracles[level].distribution.draw(position // self.widths[level], words)
        return bits | level << self.size

    @property
    def moments(self) -> Self:
        return self

    @property
    def feature_count(self) -> int:  # type: ignore[override]
        return 1 + sum(self.counts)

    @cached_property
    def _slices(self) -> list[slice]:
        ends = (1 + np.cumsum(self.counts)).tolist()
        return [slice(end - count, end) for end, count in zip(ends, self.counts, strict=True)]

    def features(self, column: Column, chosen: Integers | None = None) -> npt.NDArray[np.int8]:
        if chosen is not None:
            return np.stack([self._feature(column, int(feature)) for feature in chosen], axis=1)
        found = np.zeros((len(column), self.feature_count), dtype=np.int8)
        found[:, 0] = 1
        levels = self.field.level(column)
        for level, (count, features) in enumerate(zip(self.counts, self._slices, strict=True)):
            rows = np.flatnonzero(levels == level)
            bits = np.unpackbits(column[rows], axis=1, count=count, bitorder="little")
            found[rows, features] = bits
        return found

    def _feature(self, column: Column, feature: int) -> npt.NDArray[np.int8]:
        level = sum(feature >= features.stop - 1 for features in self._slices)
        node = feature + 1 - self._slices[level].start
        bits = bit_of(column, node) * (self.field.level(column) == level)
        return np.asarray(bits, dtype=np.int8)

    @cached_property
    def _scale(self) -> float:
        """L/(p - q)."""
        return float(len(self.counts) / Fraction(WORD // 2 - self.other, WORD))

    def coefficients(self, functions: Floats) -> Floats:
        written = self.write(np.asarray(functions, dtype=np.float64))
        scaled = [self._scale * weights for weights in written.weights]
        return np.concatenate([written.constant, *scaled], axis=-1)

    def second_moment(self, functions: Floats, others: Floats | None = None) -> Floats:
        """With F = c + A and G = d + B: c g + d f - c d + E[A B | x]."""
        others = functions if others is None else others
        first = self.write(functions)
        second = first if others is functions else self.write(others)
        paid = np.zeros(np.broadcast_shapes(functions.shape, others.shape))
        noise = self.oracles[-1].moments.noise[0][0]
        for width, one, other in zip(self.widths, first.weights, second.weights, strict=True):
            products = one * other
            paid += noise * products.sum(axis=-1, keepdims=True)
            paid += 2 * np.repeat(products, width, axis=-1)[..., : self.size]
        c, d = first.constant, second.constant
        return np.asarray(c * others + d * functions - c * d + len(self.counts) * paid)

    def frequencies(self, totals: Floats) -> Floats:
        last = np.moveaxis(totals, 0, -1)
        nodes = [self._scale * last[..., features] for features in self._slices]
        return np.moveaxis(self.unwrite(last[..., :1], nodes), -1, 0)

    def output_range(self, function: Floats) -> tuple[float, float]:
        """The level whose ones, where they add or where they take away, move most."""
        weights = self.coefficients(function)
        levels = [weights[features] for features in self._slices]
        low = min(level.clip(max=0).sum() for level in levels)
        high = max(level.clip(min=0).sum() for level in levels)
        return float(weights[0] + low), float(weights[0] + high)

    def worst_ratio(self, x: int, other: int) -> Fraction:
        return self.oracles[-1].distribution.ratio(x, other)

    def probability(self, x: int, report: Column) -> Fraction:
        level = int(self.field.level(report[None])[0])
        oracle = self.oracles[level]
        bits = oracle.probability(x // self.widths[level], report[: oracle.field.width])
        return bits / len(self.counts)

    def log_likelihood(self, column: Column) -> Floats:
        found, levels = np.empty((len(column), self.size)), self.field.level(column)
        for level, (oracle, width) in enumerate(zip(self.oracles, self.widths, strict=True)):
            rows = levels == level
            nodes = oracle.log_likelihood(column[rows, : oracle.field.width])
            found[rows] = np.repeat(nodes, width, axis=1)[:, : self.size]
        return np.asarray(found - np.log(len(self.counts)))
