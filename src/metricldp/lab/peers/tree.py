"""Trees over the values of an attribute: functions as weights of nodes, in two ways.

Every node has B children, but for the last one of each level, which may have fewer: level k above
the leaves has ceil(size / B^k) nodes. The root holds everybody and is no level. A function can be
written as weights of nodes in many ways:

`least_squares`  the smallest sum of squares. Estimates that are decoded so add up along the tree:
                 it is the transpose of the consistent tree of Hay, Rastogi, Miklau and Suciu,
                 "Boosting the Accuracy of Differentially Private Histograms Through Consistency"
                 (PVLDB 3(1), 2010), which is `answers.postprocess`
`fewest`         each function has its value at the largest nodes on which it is constant: a range
                 is its canonical decomposition
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from metricldp.answers.postprocess import add_up
from metricldp.channels import Floats, Integers

_Kind = TypeVar("_Kind", bound=np.generic)


@dataclass(frozen=True)
class Written:
    """Functions as a constant each, (..., 1), and weights of the nodes of every level."""

    constant: Floats
    weights: list[Floats]


class Tree:
    """A tree with `branching` children per node; functions are written by least squares."""

    size: int
    branching: int

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """How many leaves a node of each level has, the last one of a level perhaps fewer."""
        widths = [1]
        while widths[-1] * self.branching < self.size:
            widths.append(widths[-1] * self.branching)
        return tuple(reversed(widths))

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """As many nodes as cover all values."""
        return tuple(-(-self.size // width) for width in self.widths)

    def _joined(self, values: Floats) -> Floats:
        """Sums over the children of each node."""
        starts = np.arange(0, values.shape[-1], self.branching)
        return np.asarray(np.add.reduceat(values, starts, axis=-1))

    def _shared(self, values: npt.NDArray[_Kind], count: int) -> npt.NDArray[_Kind]:
        """The value of its parent for each of `count` nodes."""
        return np.repeat(values, self.branching, axis=-1)[..., :count]

    @cached_property
    def _takes(self) -> list[Floats]:
        """k of each node: the share of a constant that it takes from the leaves below it.

        A subtree of which every leaf is off by d costs k d^2, if its node takes k d and leaves the
        rest, (1 - k) d, to its children: k = K / (1 + K), K being the sum of theirs. A leaf takes
        all.
        """
        takes = [np.ones(self.size)]
        for _ in self.counts[1:]:
            below = self._joined(takes[0])
            takes.insert(0, below / (1 + below))
        return takes

    @cached_property
    def _shares(self) -> list[Floats]:
        """How much each node counts in the mean of its parent: k / K."""
        parents = [self._shared(self._joined(k), len(k)) for k in self._takes]
        return [k / parent for k, parent in zip(self._takes, parents, strict=True)]

    # Functions and frequencies -------------------------------------------------------------------

    def write(self, functions: Floats) -> Written:
        """The weights that functions are decoded with."""
        return self.least_squares(functions)

    def least_squares(self, functions: Floats, *, root_pays: bool = False) -> Written:
        """Two passes: means of means upwards, what is left of them downwards.

        The constant is the weight of the root, which costs nothing, or as much as any other.
        """
        means = [functions]
        for shares in reversed(self._shares):
            means.insert(0, self._joined(shares * means[0]))
        constant, *means = means
        if root_pays:
            below = self._takes[0].sum()
            constant = constant * below / (1 + below)
        weights, above = [], constant
        for takes, mean in zip(self._takes, means, strict=True):
            above = self._shared(above, len(takes))
            weights.append(takes * (mean - above))
            above = above + weights[-1]
        return Written(constant, weights)

    def fewest(self, functions: Floats) -> Written:
        """The value of a function at each node on which it is constant, but not on its parent."""
        low, high = [functions], [functions]
        for count in reversed(self.counts):
            starts = np.arange(0, count, self.branching)
            low.insert(0, np.minimum.reduceat(low[0], starts, axis=-1))
            high.insert(0, np.maximum.reduceat(high[0], starts, axis=-1))
        settled = low[0] == high[0]
        constant, weights = np.where(settled, low[0], 0.0), []
        for least, most in zip(low[1:], high[1:], strict=True):
            before = self._shared(settled, least.shape[-1])
            settled = least == most
            weights.append(np.where(settled & ~before, least, 0.0))
        return Written(constant, weights)

    def unwrite(self, people: Floats, nodes: list[Floats]) -> Floats:
        """Frequencies of positions from sums over nodes: the transpose of `write`."""
        spreads = [np.zeros(1), *map(np.ones, self.counts)]
        return add_up([people, *nodes], spreads, self.branching)[-1]

    # The error of ranges -------------------------------------------------------------------------

    @cached_property
    def _prefix_means(self) -> list[Floats]:
        """For the prefix up to each position its mean at her node, from the root down to leaves."""
        leaves = np.arange(self.size)
        part, found = np.ones(self.size), [np.ones(self.size)]
        for shares, width, above in zip(
            reversed(self._shares),
            reversed(self.widths),
            (*self.widths[-2::-1], self.size),
            strict=True,
        ):
            part = part * shares[leaves // width]
            found.insert(0, np.cumsum(part) - leaves // above)
        return found

    def range_squares(self) -> list[Floats]:
        """The squared weight of each node, summed over all ranges.

        With A for what all nodes above have taken, a node v below u has the weight k_v d_v, where
        d_v = m_v - A_u, and leaves (1 - k_v) d_v. For a prefix that ends outside of u that is what
        u left; inside it is (what u left) - m_u, plus 1 before the end and 0 behind it.
        """
        size, leaves, found = self.size, np.arange(self.size), []
        left, lefts = np.zeros(size), [np.zeros(1), np.zeros(1)]
        parents = [(size, 1), *zip(self.widths, self.counts, strict=True)]
        for level, ((above, _), (width, count)) in enumerate(pairwise(parents)):
            outer, inner = self._prefix_means[level : level + 2]
            starts = np.arange(count) * width
            first = starts // above * above
            ends, last = np.minimum(starts + width, size), np.minimum(first + above, size)
            behind = left - outer
            own, sums = behind + inner, []
            for power, all_left in zip((1, 2), lefts, strict=True):
                inside = _between(own**power, starts, ends) + _between(behind**power, first, starts)
                inside += _between((1 + behind) ** power, ends, last)
                outside = all_left[starts // above] - _between(left**power, first, last)
                sums.append(inside + outside)
            takes = self._takes[level]
            found.append(takes**2 * ((size + 1) * sums[1] - sums[0] ** 2))
            left = (1 - takes)[leaves // width] * own
            lefts = [(1 - takes) * sums[0], (1 - takes) ** 2 * sums[1]]
        return found

    def range_weights(self) -> float:
        """The sum of all squared weights of all ranges."""
        return float(sum(squares.sum() for squares in self.range_squares()))

    def range_spread(self) -> float:
        """The constant of a prefix is its mean at the root."""
        return spread_of_ranges(np.concatenate([[0.0], self._prefix_means[0]]))


def _between(values: Floats, starts: Integers, ends: Integers) -> Floats:
    """Sums over intervals of positions."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(sums[ends] - sums[starts])


def spread_of_ranges(levels: Floats) -> float:
    """The sum over all ranges of (f - c)^2, mean over positions, from the c of every prefix.

    A range is the difference of two prefixes out of size + 1, so for any p that is linear in f the
    sum of its squares over all ranges is (size + 1) sum p^2 - (sum p)^2 over prefixes.
    """
    size = len(levels) - 1
    cut = np.arange(size + 1)
    squares = (cut * (1 - levels) ** 2 + (size - cut) * levels**2).sum()
    sums = size - np.arange(size) - levels.sum()
    return float(((size + 1) * squares - (sums**2).sum()) / size)
