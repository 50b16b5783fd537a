"""Hierarchies: a tree of intervals over the values, and a person's node on one of its levels.

The tree is that of `tree`, and the root is known. `Hierarchy` and `PlainHierarchy` send signs (see
`levels`), `UnaryHierarchy` (`hierarchy_unary`) sends bits. All as in Cormode, Kulkarni and
Srivastava, who bound the variance that one person adds to a range of r out of m values, with B
children per node, L = log_B m and V being the oracle's, by

    plain         2 (B - 1) (ceil(log_B r) + 1) L V
    consistent    (B + 1)/2 log_B r L V.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from metricldp.lab.peers.levels import OneLevel
from metricldp.lab.peers.tree import Tree, Written
from metricldp.mechanisms import Floats, keep_for


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
    is_linear: ClassVar[bool] = False
    """Which nodes are the largest ones depends on the function."""

    def write(self, functions: Floats) -> Written:
        return self.fewest(functions)

    def unwrite(self, people: Floats, nodes: list[Floats]) -> Floats:
        """The leaves; the last one may be alone in its node already higher up."""
        found = nodes[-1].copy()
        ends = zip(self.widths, self.counts, nodes, strict=True)
        alone = [sums for width, count, sums in ends if (count - 1) * width == self.size - 1]
        found[..., -1] = alone[0][..., -1]
        return found
