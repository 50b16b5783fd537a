"""One level of a tree per person: what hierarchies and the Haar wavelet have in common.

The values are leaves of a tree. A person draws one of its L levels, all alike, and reports a sign
of the node there by Hadamard randomized response: an index j below a power of two D, all alike, and
the sign (-1)^|v & j| of the node v, kept with probability e^epsilon / (e^epsilon + 1), else turned.
Levels and indices are drawn without looking at the value, so the sign alone pays with epsilon. With
t = tanh(epsilon/2) the sign, times the Walsh function of a node u and 1/t, has the mean [u = v].

So a function that is written as a constant and weights of nodes, f(x) = c + sum_l w_l(v_l(x)), has

    F(l, j, sign) = c + L/t * sign * sum_v w_l(v) (-1)^|v & j|,
    E[F | x] = f(x),   E[(F - c)^2 | x] = L/t^2 * sum of all w^2, wherever x is.

How to write f is up to the tree. The oracle and the sampling of levels are those of Cormode,
Kulkarni and Srivastava, "Answering Range Queries Under Local Differential Privacy" (PVLDB 12(10),
2019), whose oracle has the variance V = 4 e^epsilon / (e^epsilon - 1)^2 = 1/t^2 - 1 per person.
That is the part of the turned signs. People at other nodes add 1 each, as their signs are fair:
the exact factor is 1/t^2, and the published bounds hold with it in the place of V.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from metricldp.lab.peers.tree import Written
from metricldp.lab.peers.walsh import SignChannel, odd, power_of_two, transform
from metricldp.mechanisms import Column, Floats, Integers
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.sampling import bernoulli, lanes, uniform, words_for
from metricldp_core.canonical import word
from metricldp_core.exact import WORD
from metricldp_core.random_words import Words


@dataclass(frozen=True)
class OneLevel(SignChannel):
    """A level, an index and a sign as one integer; the sign is kept with keep / 2^64.

    The reports of each level follow those of the level above, first the plus signs.
    """

    @property
    @abstractmethod
    def counts(self) -> tuple[int, ...]:
        """How many nodes each level has, from the top down; the root is no level."""

    @property
    @abstractmethod
    def widths(self) -> tuple[int, ...]:
        """How many positions in a row look alike on each level."""

    signed: ClassVar[bool]
    """Whether a node has two halves: plus signs in the left one, minus signs in the right one."""

    def _seen(self, position: Any, width: Any) -> tuple[Any, Any]:
        """The node of one position or of many, and 1 where it has a minus sign there, else 0."""
        node = position // width
        return (node >> 1, node & 1) if self.signed else (node, node & 0)

    @abstractmethod
    def write(self, functions: Floats) -> Written:
        """The constant and the weights that functions are decoded with."""

    @abstractmethod
    def unwrite(self, people: Floats, nodes: list[Floats]) -> Floats:
        """Frequencies of positions from estimated sums over nodes: the transpose of `write`."""

    @cached_property
    def _orders(self) -> tuple[int, ...]:
        return tuple(power_of_two(count) for count in self.counts)

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        ends = np.cumsum([2 * order for order in self._orders]).tolist()
        return (0, *ends[:-1])

    @property
    def outputs(self) -> int:
        return 2 * sum(self._orders)

    def law(self) -> dict[str, Any]:
        """One law for the Haar wavelet and for hierarchies."""
        tree = {"counts": self.counts, "widths": self.widths, "halves": self.signed}
        return {"law": "levels", "size": self.size, "keep": word(self.keep), **tree}

    def sample(self, positions: Integers, randomness: Randomness) -> Column:
        count = len(positions)
        level = uniform(randomness, len(self.counts), count)
        orders = np.array(self._orders)[level]
        digits = np.array([order.bit_length() for order in self._orders], dtype=np.uint64)[level]
        index = (randomness.words(count) >> np.uint64(1) >> (np.uint64(64) - digits)).astype(
            np.int64
        )
        keep = lanes(bernoulli(randomness, self.keep, words_for(count)), count)
        node, minus = self._seen(positions.astype(np.int64), np.array(self.widths)[level])
        minus = minus ^ odd(node & index) ^ 1 ^ keep
        report = np.array(self._starts)[level] + minus * orders + index
        return np.asarray(report, dtype=self.field.dtype)

    def blur(self, position: int, words: Words) -> int:
        level = words.uniform(len(self.counts))
        order = self._orders[level]
        index, keep = words.bits(order.bit_length() - 1), words.below(self.keep)
        node, minus = self._seen(position, self.widths[level])
        minus ^= (node & index).bit_count() & 1 ^ 1 ^ keep
        return self._starts[level] + int(minus) * order + index

    @property
    def _scale(self) -> float:
        """L/t."""
        return len(self.counts) / self.gap

    def coefficients(self, functions: Floats) -> Floats:
        """The weights of a level by the signs of each index, by a fast transform."""
        written = self.write(np.asarray(functions, dtype=np.float64))
        result = np.empty((*functions.shape[:-1], self.outputs))
        for weights, start, order in zip(written.weights, self._starts, self._orders, strict=True):
            signed = transform(self._scale * weights, order)
            result[..., start : start + order] = written.constant + signed
            result[..., start + order : start + 2 * order] = written.constant - signed
        return result

    def mean(self, values: Floats) -> Floats:
        """Of each level what both signs have in common, and how they differ for the node."""
        everybody = np.arange(self.size)
        result = np.zeros((*values.shape[:-1], self.size))
        for width, start, order in zip(self.widths, self._starts, self._orders, strict=True):
            both = values[..., start : start + 2 * order].reshape(*values.shape[:-1], 2, order)
            node, minus = self._seen(everybody, width)
            differ = transform(both[..., 0, :] - both[..., 1, :], order)[..., node]
            common = both.sum(axis=(-2, -1))[..., None]
            signed = self.gap * np.where(minus, -differ, differ)
            result += (common + signed) / (2 * order * len(self.counts))
        return result

    def second_moment(self, functions: Floats, others: Floats | None = None) -> Floats:
        """With F = c + A and G = d + B: c g + d f - c d + E[A B], the last alike for all x."""
        others = functions if others is None else others
        first = self.write(functions)
        second = first if others is functions else self.write(others)
        noise = sum(
            (one * other).sum(axis=-1, keepdims=True)
            for one, other in zip(first.weights, second.weights, strict=True)
        )
        c, d = first.constant, second.constant
        noise = self._scale / self.gap * noise
        return np.asarray(c * others + d * functions + (noise - c * d))

    def frequencies(self, totals: Floats) -> Floats:
        last = np.moveaxis(totals, 0, -1)
        nodes = []
        for count, start, order in zip(self.counts, self._starts, self._orders, strict=True):
            plus, minus = (last[..., start + k * order :][..., :order] for k in (0, 1))
            nodes.append(self._scale * transform(plus - minus, order)[..., :count])
        frequencies = self.unwrite(last.sum(axis=-1, keepdims=True), nodes)
        return np.moveaxis(frequencies, -1, 0)

    def probability(self, x: int, report: Column) -> Fraction:
        level = sum(int(report) >= start for start in self._starts) - 1
        order = self._orders[level]
        said, index = divmod(int(report) - self._starts[level], order)
        node, minus = self._seen(x, self.widths[level])
        kept = said == minus ^ (node & index).bit_count() & 1
        mass = self.keep if kept else WORD - self.keep
        return Fraction(mass, WORD * order * len(self.counts))
