"""HIO: ranges over several attributes under plain local differential privacy.

Wang, Ding, Zhou, Hong, Huang, Li and Jha, "Answering Multi-Dimensional Analytical Queries under
Local Differential Privacy", SIGMOD 2019. Each attribute has a tree: level 0 is the root with all
positions, every node of a level is cut into `branching` of the next, the last level has a node for
each position. A person draws one level for each attribute, and reports the box of their
nodes with a frequency oracle of the whole epsilon. A range is a sum of few boxes of all level
vectors.

The oracle here is the Hadamard response in its product form. They also draw an index j_d below the
order of their level's Hadamard matrix; their sign is prod_d H[j_d, node_d], kept with probability
p = e^eps / (1 + e^eps). A report is levels, indices and sign. With kappa = 1 / (2p - 1), which is
coth(eps / 2), and any weights w of nodes with f_d(x) = sum_l w_{d,l}(node of x at level l), take

    F = kappa sign prod_d (h_d + 1) W_d,   W_d = sum over nodes of w_{d,l_d}(node) H[j_d, node].

No bias. Given levels and indices, E[kappa sign] = prod_d H[j_d, node_d]. The rows of H are
orthogonal, so the mean of H[j, v] H[j, u] over j is 1 for u = v and else 0: the mean of
H[j_d, node_d] W_d is w_{d,l_d}(node_d). Levels are uniform, so h_d + 1 times the mean over l_d is
f_d(x_d), and the factors are independent: E[F | x] = prod_d f_d(x_d).

The second moment. sign^2 = 1, and the mean of W_d^2 over j_d is |w_{d,l_d}|^2, whoever reports. So

    E[F^2 | x] = kappa^2 prod_d (h_d + 1) sum_l |w_{d,l}|^2,   the same for all x.

The published oracle, optimised local hashing, has 4 e^eps / (e^eps - 1)^2 in the place of kappa^2,
which is kappa^2 - 1: Hadamard response is 1.27 times that at eps = 1, 5.5 times at eps = 3, and
equal for small eps; see `hio_hashing` for the oracle itself. Where the
published system groups people by level vector at random, here too a person draws one, so the size
of a group is part of the variance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np

from metricldp.lab.peers.distribution import Baseline
from metricldp.lab.peers.tree import Tree
from metricldp.lab.peers.walsh import odd, power_of_two, transform
from metricldp.mechanisms import (
    Column,
    Floats,
    Integers,
    Number,
    RandomizedResponseChannel,
    keep_for,
)
from metricldp.mechanisms.joint import Columns, Functions, JointChannel, Part, People, Sizes, Term
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.sampling import uniform
from metricldp_core.canonical import word
from metricldp_core.distributions import RandomizedResponse
from metricldp_core.exact import WORD, log_of
from metricldp_core.random_words import Words

SIGN = "sign"
"""The column of the blurred sign: 0 for +1, 1 for -1."""


@dataclass(frozen=True)
class Nodes(Tree):
    """The nodes over the positions of one attribute, level by level; the root is a level, too."""

    size: int
    branching: int

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """How many positions a node of each level holds, from the root down."""
        return (self.widths[0] * self.branching, *self.widths)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return (1, *self.counts)

    @cached_property
    def digits(self) -> tuple[int, ...]:
        """For each level, how many binary digits an index of its Hadamard matrix has."""
        return tuple((count - 1).bit_length() for count in self.sizes)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first code of each level; a code is a level and an index. Then how many there are."""
        return tuple(accumulate((1 << digits for digits in self.digits), initial=0))

    def weights(self, functions: Floats, *, consistent: bool = False) -> list[Floats]:
        written = self.fewest(functions)
        if consistent:
            written = self.least_squares(functions, root_pays=True)
        return [written.constant, *written.weights]

    def at_leaves(self, weights: Sequence[Floats]) -> Floats:
        """Weights of nodes added up along each way from the root to a position."""
        levels = zip(weights, self.levels, strict=True)
        each = [np.repeat(w, width, axis=-1)[..., : self.size] for w, width in levels]
        return np.asarray(np.sum(each, axis=0))


@dataclass(frozen=True)
class Boxes(Baseline, JointChannel):
    """What HIO is whatever the oracle: trees, and boxes of nodes that add up to a range.

    One epsilon between any two people, whatever all their attributes are.
    """

    sizes: Sizes
    branchings: Sizes
    """Children of each node, by attribute; categories have no order, so as many as there are."""

    same_ratio_for_all_pairs = True

    @cached_property
    def trees(self) -> tuple[Nodes, ...]:
        pairs = zip(self.sizes, self.branchings, strict=True)
        return tuple(Nodes(size, min(branching, size)) for size, branching in pairs)

    def law(self) -> dict[str, Any]:
        """For each attribute the widths of the nodes of every level, from the root down."""
        widths = [list(tree.levels) for tree in self.trees]
        return {"law": self.mechanism, "sizes": list(self.sizes), "widths": widths}

    @property
    def vectors(self) -> int:
        return math.prod(len(tree.levels) for tree in self.trees)

    def fewest(self, functions: Functions) -> list[list[Floats]]:
        """The weights of the fewest nodes, by attribute and level."""
        return [tree.weights(f) for tree, f in zip(self.trees, functions, strict=True)]


@dataclass(frozen=True)
class HadamardBoxes(Boxes):
    """A code of a level and an index for each attribute, and a sign kept with keep / 2^64.

    With `consistent`, reports are read with the best weights of all levels, not the fewest nodes.
    """

    keep: int
    consistent: bool = False

    mechanism: ClassVar[str] = "hio"

    @classmethod
    def for_epsilon(
        cls, sizes: Sizes, branchings: Sizes, epsilon: Fraction, *, consistent: bool = False
    ) -> HadamardBoxes:
        return cls(sizes, branchings, keep_for(2, epsilon), consistent)

    @cached_property
    def sign(self) -> RandomizedResponseChannel:
        """What blurs the sign: randomized response with two values and the whole epsilon."""
        return RandomizedResponseChannel(RandomizedResponse(2, self.keep))

    @cached_property
    def kappa(self) -> float:
        """1 / (2p - 1), of the integers in use."""
        return float(Fraction(WORD, 2 * self.keep - WORD))

    @cached_property
    def fields(self) -> Mapping[Part, Number]:
        codes = [Number(tree.starts[-1]) for tree in self.trees]
        return dict(zip([*range(len(codes)), SIGN], [*codes, Number(2)], strict=True))

    def law(self) -> dict[str, Any]:
        return {**super().law(), "keep": word(self.keep)}

    def sample(self, positions: Sequence[Integers], randomness: Randomness) -> dict[Part, Column]:
        """Levels and indices at random, the sign that belongs to them, blurred."""
        columns: dict[Part, Column] = {}
        sign: Integers = np.zeros(len(positions[0]), dtype=np.int64)
        for d, tree in enumerate(self.trees):
            level = uniform(randomness, len(tree.levels), len(sign))
            digits = np.array(tree.digits, dtype=np.uint64)[level]
            words = randomness.words(len(sign)) >> (np.uint64(63) - digits) >> np.uint64(1)
            index = words.astype(np.int64)
            sign = sign ^ odd(index & positions[d] // np.array(tree.levels)[level])
            columns[d] = (np.array(tree.starts)[level] + index).astype(self.fields[d].dtype)
        return {**columns, SIGN: self.sign.sample(sign, randomness)}

    def draw(self, positions: Sequence[int], words: Words) -> list[int]:
        codes, sign = [], 0
        for tree, position in zip(self.trees, positions, strict=True):
            level = words.uniform(len(tree.levels))
            index = words.bits(tree.digits[level])
            sign ^= (index & position // tree.levels[level]).bit_count() & 1
            codes.append(tree.starts[level] + index)
        return [*codes, self.sign.distribution.draw(sign, words)]

    def probability(self, x: People, report: Mapping[Part, int]) -> Fraction:
        mass, true = Fraction(1), 0
        for d, (tree, position) in enumerate(zip(self.trees, x, strict=True)):
            level = int(np.searchsorted(tree.starts, report[d], side="right")) - 1
            index = int(report[d]) - tree.starts[level]
            mass /= len(tree.levels) << tree.digits[level]
            true ^= (index & position // tree.levels[level]).bit_count() & 1
        return mass * self.sign.probability(true, np.asarray(report[SIGN]))

    def log_likelihood(self, columns: Columns) -> Floats:
        """The sign that belongs to everybody under each report, and the law of levels."""
        count, ways = len(columns[SIGN]), len(self.sizes)
        sign = columns[SIGN].astype(np.int64).reshape(-1, *[1] * ways)
        level_law = np.zeros(count)
        for d, tree in enumerate(self.trees):
            level = np.searchsorted(tree.starts, columns[d], side="right") - 1
            index = columns[d].astype(np.int64) - np.array(tree.starts)[level]
            nodes = np.arange(tree.size) // np.array(tree.levels)[level][:, None]
            shape = [count, *(tree.size if k == d else 1 for k in range(ways))]
            sign = sign ^ odd(index[:, None] & nodes).reshape(shape)
            level_law += np.log(len(tree.levels) << np.array(tree.digits)[level])
        kept, other = (log_of(self.sign.probability(0, np.asarray(y))) for y in (0, 1))
        return np.asarray(np.where(sign, other, kept) - level_law.reshape(-1, *[1] * ways))

    def worst_ratio(self, x: People, other: People) -> Fraction:
        """The sign is all that depends on the person, and two people differ in some sign.

        Levels and indices have the same law for everybody. People who differ in an attribute have
        different nodes at its last level, and two columns of a Hadamard matrix differ somewhere.
        """
        return self.sign.distribution.ratio(0, int(x != other))

    def weights(self, functions: Functions) -> list[list[Floats]]:
        pairs = zip(self.trees, functions, strict=True)
        return [tree.weights(f, consistent=self.consistent) for tree, f in pairs]

    def _signed(self, functions: Functions) -> Iterator[Floats]:
        """W_d for every code, by attribute; of the fewest nodes of a range whole numbers."""
        for levels in self.weights(functions):
            signed = [transform(w, power_of_two(w.shape[-1])) for w in levels]
            yield np.concatenate(signed, axis=-1)

    def _decoded(self, functions: Functions, columns: Columns) -> Floats:
        found = self.kappa * self.vectors * (1.0 - 2.0 * columns[SIGN])
        for d, signed in enumerate(self._signed(functions)):
            found = found * signed[:, columns[d]]
        return np.asarray(found)

    def _influence(self, functions: Functions) -> Floats:
        most = [np.abs(signed).max(axis=-1) for signed in self._signed(functions)]
        return np.asarray(self.kappa * self.vectors * np.prod(most, axis=0))

    def _second_moment(self, functions: Functions, others: Functions) -> list[Term]:
        sums = products(self.weights(functions), self.weights(others))
        return [Term(self.kappa**2 * self.vectors * sums)]


def products(one: Sequence[Sequence[Floats]], other: Sequence[Sequence[Floats]]) -> Floats:
    """The product over attributes of the sum over all nodes of two weights."""
    sums = [
        np.sum([(w * v).sum(axis=-1) for w, v in zip(ws, vs, strict=True)], axis=0)
        for ws, vs in zip(one, other, strict=True)
    ]
    return np.asarray(np.prod(sums, axis=0))
