"""Hierarchies: a tree of intervals over the values, and a person's node on one of its levels.

Every node has B children, but for the last one of each level, which may have fewer: level k above
the leaves has ceil(size / B^k) nodes. The root holds everybody and is known. A function can be
written as weights of nodes in many ways:

`Tree`            the weights of least squares, which is the consistent tree of Hay, Rastogi, Miklau
                  and Suciu, "Boosting the Accuracy of Differentially Private Histograms Through
                  Consistency" (PVLDB 3(1), 2010), whose estimates minimise the squared changes
`PlainHierarchy`  the fewest nodes: each function has its value at the largest nodes on which it is
                  constant; a range is its canonical decomposition

`Hierarchy` and `PlainHierarchy` send signs (see `levels`), `UnaryHierarchy` (`hierarchy_unary`)
sends bits. All as in Cormode, Kulkarni and Srivastava, who bound the variance that one person adds
to a range of r out of m values, L = log_B m and V being the oracle's, by

    plain         2 (B - 1) (ceil(log_B r) + 1) L V
    consistent    (B + 1)/2 log_B r L V.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from metricldp.channels import Floats, Integers, keep_for
from metricldp.lab.peers.levels import OneLevel, Written, spread_of_ranges

_Kind = TypeVar("_Kind", bound=np.generic)


class Tree:
    """A tree with `branching` children per node, and functions as weights of least squares."""

    size: int
    branching: int

    # The tree ------------------------------------------------------------------------------------

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

    # The collector -------------------------------------------------------------------------------

    def write(self, functions: Floats) -> Written:
        """Least squares in two passes: means of means upwards, what is left of them downwards."""
        means = [functions]
        for shares in reversed(self._shares):
            means.insert(0, self._joined(shares * means[0]))
        constant, *means = means
        weights, above = [], constant
        for takes, mean in zip(self._takes, means, strict=True):
            above = self._shared(above, len(takes))
            weights.append(takes * (mean - above))
            above = above + weights[-1]
        return Written(constant, weights)

    def unwrite(self, people: Floats, nodes: list[Floats]) -> Floats:
        """The same two passes, transposed; estimates that add up along the tree."""
        own: list[Floats] = []
        below = np.zeros_like(nodes[-1])
        for takes, sums in zip(reversed(self._takes), reversed(nodes), strict=True):
            own.insert(0, takes * (sums + below))
            below = self._joined(below - own[0])
        found = people + below
        for shares, part in zip(self._shares, own, strict=True):
            found = part + shares * self._shared(found, len(shares))
        return found

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


@dataclass(frozen=True)
class Hierarchy(Tree, OneLevel):
    """A node of a tree by Hadamard randomized response, decoded by least squares."""

    branching: int

    mechanism: ClassVar[str] = "hierarchy"
    signed: ClassVar[bool] = False

    @classmethod
    def branched(cls, branching: int, size: int, epsilon: Fraction) -> Hierarchy:
        """With more children than values there is one level, as with just as many."""
        return cls(size, keep_for(2, epsilon), min(branching, size))


@dataclass(frozen=True)
class PlainHierarchy(Hierarchy):
    """The same reports, decoded from as few nodes as can be."""

    mechanism: ClassVar[str] = "hierarchy-plain"

    @property
    def linear(self) -> bool:
        """Which nodes are the largest ones depends on the function."""
        return False

    def write(self, functions: Floats) -> Written:
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
        """The leaves; the last one may be alone in its node already higher up."""
        found = nodes[-1].copy()
        ends = zip(self.widths, self.counts, nodes, strict=True)
        alone = [sums for width, count, sums in ends if (count - 1) * width == self.size - 1]
        found[..., -1] = alone[0][..., -1]
        return found

    def range_weights(self) -> float:
        """How many ranges hold a node but not its parent, summed over all nodes."""
        parents = [(self.size, 1), *zip(self.widths, self.counts, strict=True)]
        total = 0.0
        for (above, _), (width, count) in pairwise(parents):
            start = np.arange(count) * width
            total += (
                self._around(start, width) - self._around(start // above * above, above)
            ).sum()
        return float(total)

    def _around(self, start: npt.NDArray[np.int64], width: int) -> Floats:
        """How many ranges hold an interval."""
        end = np.minimum(start + width, self.size)
        return np.asarray((start + 1.0) * (self.size - end + 1.0))

    def range_spread(self) -> float:
        """The share of people in each range, but for the whole, which is a constant."""
        return (self.size + 1) * (self.size + 2) / 6 - 1


def _between(values: Floats, starts: Integers, ends: Integers) -> Floats:
    """Sums over intervals of positions."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(sums[ends] - sums[starts])
