"""PriPL-Tree: a tree over the pieces of a line that was fitted first; adaptive and biased.

A fifth of the people send Square Wave reports. A continuous line of straight pieces is fitted to
what expectation maximisation makes of them, and a tree is built over its pieces. The others are
asked about the nodes of that tree, and both are joined. Wang et al., "PriPL-Tree: Accurate Range
Query for Arbitrary Distribution under Local Differential Privacy" (PVLDB 17(11), 2024).

One person reports once, with the whole epsilon: in the first part their value, in the second, by
optimised unary encoding, in which of some nodes they are that have no value in common. What the
second part is asked follows from the reports of the first. So no survey can state it beforehand,
and as what comes out is biased, no error can be stated beside an answer.

Pieces are searched for among all values and not, as published, among some and then between them;
an inner node goes if that lowers the error of the whole tree, not of its own branch alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from metricldp.answers.postprocess import norm_sub
from metricldp.lab.peers.grids import noisy_shares
from metricldp.lab.peers.reconstruct import expectation_maximisation
from metricldp.lab.peers.waves import drawn_waves
from metricldp.mechanisms import Floats, Integers

FIRST = 0.2
"""The share of people whose reports the pieces are fitted to."""
_PIECES = 16, 32
"""At most so many after the fit to EM, and after that to EMS."""
_WORTH = 1.005
"""One more piece has to leave a sum of squares that is smaller by more than this factor."""


def pripl_tree(positions: Integers, size: int, epsilon: float, rng: np.random.Generator) -> Floats:
    """The share of people at each position, everybody's reports drawn anew."""
    people = rng.permutation(positions)
    first, rest = np.split(people, [round(FIRST * len(people))])
    seen = drawn_waves(first, size, epsilon, rng)
    rough, smooth = (expectation_maximisation(*seen, smooth=how) for how in (False, True))
    noise = 4 * math.exp(epsilon) / (len(people) * math.expm1(epsilon) ** 2)
    starts, slopes = fitted_pieces(rough, smooth, math.sqrt(noise))
    ends = [*starts[1:], size]
    leaves = [Node(*piece) for piece in zip(starts, ends, slopes.tolist(), strict=True)]
    root = _pruned(_tree(leaves), size)
    root.share = 1.0
    _ask(root, rest, epsilon, rng)
    for child in root.children:
        _upwards(child, smooth)
    _downwards(root)
    return np.concatenate([leaf.shares() for leaf in leaves])


# The pieces


def fitted_pieces(rough: Floats, smooth: Floats, least: float) -> tuple[list[int], Floats]:
    """The first position of each piece, and its slope: first for rough shares, then for smooth.

    A piece is cut where the sum of squares falls most. The next one is that with the largest sum,
    of at least two positions and the least share.
    """
    size = len(rough)
    starts, slopes = [0], np.zeros(1)
    may_be_cut = np.array([True])
    for shares, most in zip((rough, smooth), _PIECES, strict=True):
        basis = _pieces(starts, size)
        left, slopes = _residuals(basis, shares)
        while may_be_cut.any():
            sums = np.add.reduceat(left**2, starts)
            worst = int(np.argmax(np.where(may_be_cut, sums, -1.0)))
            end = [*starts[1:], size][worst]
            cut = _best_cut(basis, left, range(starts[worst] + 1, end))
            starts = sorted([*starts, cut])
            basis = _pieces(starts, size)
            before = float(left @ left)
            left, slopes = _residuals(basis, shares)
            lengths = np.diff([*starts, size])
            may_be_cut = (lengths > 1) & (np.add.reduceat(smooth, starts) >= least)
            if before <= _WORTH * float(left @ left) or len(starts) >= most:
                break
    return starts, slopes


def _pieces(starts: list[int], size: int) -> Floats:
    """A constant, and for each piece what a slope of 1 in it adds: cuts lie between positions."""
    knots = np.array([0.0, *(start - 0.5 for start in starts[1:]), size - 1.0])
    rises = np.clip(np.arange(size)[:, None] - knots[:-1], 0, np.diff(knots))
    return np.column_stack([np.ones(size), rises])


def _residuals(basis: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Of least squares, and the slopes."""
    found = np.linalg.lstsq(basis, shares, rcond=None)[0]
    return np.asarray(shares - basis @ found), np.asarray(found[1:])


def _best_cut(basis: Floats, left: Floats, cuts: range) -> int:
    """A cut adds a kink: the one whose part that is new explains most of what is left."""
    kinks = np.maximum(np.arange(len(left))[:, None] - (np.array(cuts) - 0.5), 0)
    known = np.linalg.qr(basis)[0]
    new = kinks - known @ (known.T @ kinks)
    lengths = (new**2).sum(axis=0)
    gains = np.divide((left @ new) ** 2, lengths, out=np.zeros(len(cuts)), where=lengths > 1e-9)
    return cuts[int(np.argmax(gains))]


# The tree


@dataclass(eq=False)
class Node:
    """Positions from start to before end, the slope inside them, and what is estimated of them."""

    start: int
    end: int
    slope: float = 0.0
    children: list[Node] = field(default_factory=list)
    share: float = 0.0
    variance: float = math.inf

    @property
    def height(self) -> int:
        return 1 + max((child.height for child in self.children), default=0)

    def below(self) -> Iterator[Node]:
        """Every node under it, children before their parents."""
        for child in self.children:
            yield from child.below()
            yield child

    def shares(self) -> Floats:
        """At each position: the line with its slope, made less steep where it would pass 0."""
        length = self.end - self.start
        if length == 1:
            return np.array([self.share])
        steepest = 2 * self.share / (length * (length - 1))
        slope = min(max(self.slope, -steepest), steepest)
        line = slope * (np.arange(length) - (length - 1) / 2) + self.share / length
        return np.asarray(np.maximum(line, 0.0))


def _tree(leaves: list[Node]) -> Node:
    """Two neighbours at a time have a parent; of an odd number the last three."""
    level = leaves
    while len(level) > 3:
        starts = range(0, len(level) - 1, 2)
        ends = [*starts[1:], len(level)]
        groups = [level[start:end] for start, end in zip(starts, ends, strict=True)]
        level = [Node(some[0].start, some[-1].end, children=some) for some in groups]
    if len(level) == 1:
        return level[0]
    return Node(level[0].start, level[-1].end, children=level)


def _pruned(root: Node, size: int) -> Node:
    """Without the inner nodes whose people do more good elsewhere, children first."""
    for node in [node for node in root.below() if node.children]:
        parent = next(one for one in (root, *root.below()) if node in one.children)
        before, kept = _error(root, size), parent.children
        at = kept.index(node)
        parent.children = [*kept[:at], *node.children, *kept[at + 1 :]]
        if _error(root, size) >= before:
            parent.children = kept
    return root


def _error(parent: Node, size: int, left: float = 1.0) -> float:
    """The sum over nodes of how many ranges are answered from it, over its share of people."""
    total = 0.0
    for node in parent.children:
        own = left / node.height
        total += (_held(node, size) - _held(parent, size)) / own
        total += _error(node, size, left - own) if node.children else 0.0
    return total


def _held(node: Node, size: int) -> float:
    """The share of ranges that hold all of it."""
    return (node.start + 1) * (size - node.end + 1) / (size * (size + 1) / 2)


def _ask(parent: Node, people: Integers, epsilon: float, rng: np.random.Generator) -> None:
    """Each child asks its part of the people, by its height, and leaves the others below it.

    So nobody is asked about two nodes of one branch: nodes that one person is asked about have
    nothing in common.
    """
    for node in parent.children:
        asked, others = np.split(people, [max(1, round(len(people) / node.height))])
        inside = np.bincount((node.start <= asked) & (asked < node.end), minlength=2)[1:]
        node.share = noisy_shares(inside, len(asked), epsilon, rng).item()
        node.variance = 4 * math.exp(epsilon) / (len(asked) * math.expm1(epsilon) ** 2)
        _ask(node, others, epsilon, rng)


def _upwards(node: Node, smooth: Floats) -> None:
    """Each node with what its children say; a leaf with what was known before.

    How far that is off nobody knows: it is taken from how far the two differ.
    """
    for child in node.children:
        _upwards(child, smooth)
    if node.children:
        other = sum(child.share for child in node.children)
        variance = sum(child.variance for child in node.children)
    else:
        other = float(smooth[node.start : node.end].sum())
        variance = (other - node.share) ** 2
        variance = min(variance - node.variance * (variance > node.variance), other**2)
    both = node.variance + variance
    node.share = (variance * node.share + node.variance * other) / both
    node.variance *= variance / both


def _downwards(node: Node) -> None:
    """Children get the nearest shares that add up to their parent's, none below 0."""
    shares = np.array([child.share for child in node.children])
    if node.share > 0 and len(shares):
        shares = norm_sub(shares, node.share)
    for child, share in zip(node.children, shares.tolist(), strict=True):
        child.share = share if node.share > 0 else 0.0
        _downwards(child)
