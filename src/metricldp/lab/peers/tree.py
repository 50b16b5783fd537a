"""Trees over the values of an attribute: functions as weights of nodes, in two ways.

Every node has B children, but for the last one of each level, which may have fewer: level k above
the leaves has ceil(size / B^k) nodes. The root holds everybody and is no level. A function can be
written as weights of nodes in many ways:

`least_squares`  the smallest sum of squares. Estimates that are decoded so add up along the tree:
                 it is the transpose of the consistent tree of Hay, Rastogi, Miklau and Suciu,
                 "Boosting the Accuracy of Differentially Private Histograms Through Consistency"
                 (PVLDB 3(1), 2010), which is `add_up`
`fewest`         each function has its value at the largest nodes on which it is constant: a range
                 is its canonical decomposition
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.mechanisms import Floats


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
        return tuple(-(-self.size // width) for width in self.widths)

    def _joined(self, values: Floats) -> Floats:
        return _of_children(values, self.branching)

    def _shared(self, values: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
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

    def write(self, functions: Floats) -> Written:
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
        spreads = [np.zeros(1), *map(np.ones, self.counts)]
        return add_up([people, *nodes], spreads, self.branching)[-1]


def add_up(counts: list[Floats], variances: list[Floats], branching: int) -> list[Floats]:
    """Counts (..., nodes) of trees, root first, made to add up: the least squares estimate.

    Node j of a level has the nodes j * branching to (j + 1) * branching - 1 of the next, as far as
    there are any. A variance of 0 means a known count. Two passes as in Hay et al., for any
    variances: up, each node with the sum of its children, weighted by inverse variance; down, the
    difference between a parent and its children's sum is divided by their variances.
    """
    for level in range(len(counts) - 2, -1, -1):
        sums, below = (_of_children(x[level + 1], branching) for x in (counts, variances))
        own = variances[level]
        weight = np.where(own > 0, below / np.where(own > 0, below + own, 1.0), 1.0)
        counts[level] = weight * counts[level] + (1 - weight) * sums
        variances[level] = weight * own
    for level in range(1, len(counts)):
        parents = np.arange(counts[level].shape[-1]) // branching
        missing = counts[level - 1] - _of_children(counts[level], branching)
        below = _of_children(variances[level], branching)
        part = variances[level] / np.where(below > 0, below, 1.0)[parents]
        counts[level] = counts[level] + part * missing[..., parents]
    return counts


def _of_children(level: Floats, branching: int) -> Floats:
    return np.add.reduceat(level, np.arange(0, level.shape[-1], branching), axis=-1)
