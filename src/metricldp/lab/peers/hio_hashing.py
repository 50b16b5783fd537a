"""HIO as published: the box that a person is in, reported by optimised local hashing.

Trees, levels and boxes are those of `hio`. The boxes of a level vector are numbered, and the number
is what `hashing` hashes and blurs with the whole epsilon. The fewest nodes of each attribute's
function have weights, and a box v of a report's level vector L has their product w_v:

    F = N sum over the boxes v of L of w_v (S_v - d) / (p - d),   N the number of level vectors.

No bias: one's own box has E[S_v] = p and every other d, and each L comes up with probability 1/N;
the weights of one's boxes of all level vectors add up to f(x).

The second moment. With the notation of `hashing` let A = d (1 - d), B the covariance of two boxes
that one is not in, A' = p (1 - p) + (p - d)^2 the second moment of S_v - d of one's own, b, and X =
p (C - d) the mean of the product of one's own with another. Of a level vector, the mean of the
square of sum_v w_v (S_v - d) is

    (A - B) sum_v w_v^2 + B (sum_v w_v)^2 + (A' - A - 2 (X - B)) w_b^2 + 2 (X - B) w_b sum_v w_v.

E[F^2 | x] is N / (p - d)^2 times the sum over all L. There each of the four parts is a product over
the attributes of a sum over its levels: the first two are the same for all x, the third is made of
sum_l w_{d,l}(x)^2 (of a range f itself), the fourth of sum_l w_{d,l}(x) sum_v w_{d,l}(v).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.lab.peers.hashing import LocalHashing
from metricldp.lab.peers.hio import Boxes, products
from metricldp.mechanisms import Column, Floats, Integers, Number
from metricldp.mechanisms.joint import Columns, Functions, Part, People, Sizes, Term
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.sampling import uniform
from metricldp_core.random_words import Words

BOX = "box"
"""The column of the hashed box."""
_CHUNK = 1 << 20
"""Hashes computed at a time."""


@dataclass(frozen=True)
class HashedBoxes(Boxes):
    """A level for each attribute, and the number of the box there, hashed and blurred."""

    oracle: LocalHashing
    """For as many boxes as the level vector of all leaves has."""

    mechanism: ClassVar[str] = "hio-hashing"

    @classmethod
    def for_epsilon(cls, sizes: Sizes, branchings: Sizes, epsilon: Fraction) -> HashedBoxes:
        return cls(sizes, branchings, LocalHashing.for_epsilon(math.prod(sizes), epsilon))

    @cached_property
    def fields(self) -> Mapping[Part, Number]:
        levels = [Number(len(tree.levels)) for tree in self.trees]
        return dict(zip([*range(len(levels)), BOX], [*levels, self.oracle.field], strict=True))

    def law(self) -> dict[str, Any]:
        return {**self.oracle.law(), **super().law()}

    def sample(self, positions: Sequence[Integers], randomness: Randomness) -> dict[Part, Column]:
        columns: dict[Part, Column] = {}
        box: Integers = np.zeros(len(positions[0]), dtype=np.int64)
        for d, tree in enumerate(self.trees):
            level = uniform(randomness, len(tree.levels), len(box))
            box = box * np.array(tree.sizes)[level] + positions[d] // np.array(tree.levels)[level]
            columns[d] = level.astype(self.fields[d].dtype)
        return {**columns, BOX: self.oracle.sample(box, randomness)}

    def draw(self, positions: Sequence[int], words: Words) -> list[int]:
        levels = [words.uniform(len(tree.levels)) for tree in self.trees]
        return [*levels, self.oracle.blur(self._box(levels, positions), words)]

    def _box(self, levels: Sequence[int], positions: Sequence[int]) -> int:
        box = 0
        for tree, level, position in zip(self.trees, levels, positions, strict=True):
            box = box * tree.sizes[level] + position // tree.levels[level]
        return box

    def probability(self, x: People, report: Mapping[Part, int]) -> Fraction:
        box = self._box([int(report[d]) for d in range(len(self.sizes))], x)
        return self.oracle.probability(box, np.asarray(report[BOX])) / self.vectors

    def worst_ratio(self, x: People, other: People) -> Fraction:
        """The bucket is all that depends on the person, and two people differ in some bucket.

        Levels and hash functions have the same law for everybody. People who differ in an attribute
        have different boxes where it is at its last level, and some polynomial tells them apart.
        """
        return self.oracle.worst_ratio(0, int(x != other))

    def _second_moment(self, functions: Functions, others: Functions) -> list[Term]:
        first, second = self.fewest(functions), self.fewest(others)
        sums, more = (
            [[w.sum(axis=-1, keepdims=True) for w in levels] for levels in weights]
            for weights in (first, second)
        )
        p, d, with_own, elsewhere = self.oracle.moments_of_supports
        apart, own, crossed = d * (1 - d), p * (1 - p) + (p - d) ** 2, with_own - p * d
        both, scale = elsewhere - d * d, self.vectors / float((p - d) ** 2)
        everybody = float(apart - both) * products(first, second)
        everybody = scale * (everybody + float(both) * products(sums, more))
        rows = np.full(len(everybody), scale)
        return [
            Term(everybody),
            Term(float(own - apart - 2 * (crossed - both)) * rows, self._hers(first, second)),
            Term(float(crossed - both) * rows, self._hers(first, more)),
            Term(float(crossed - both) * rows, self._hers(sums, second)),
        ]

    def _hers(
        self, one: Sequence[Sequence[Floats]], other: Sequence[Sequence[Floats]]
    ) -> tuple[Floats, ...]:
        """Of each attribute the product of two weights at a person's own nodes, over all levels."""
        parts = zip(self.trees, one, other, strict=True)
        return tuple(
            tree.at_leaves([w * v for w, v in zip(ws, vs, strict=True)]) for tree, ws, vs in parts
        )

    def _decoded(self, functions: Functions, columns: Columns) -> Floats:
        """Supports of the boxes of every report's own level vector, row by row."""
        p, d, _, _ = map(float, self.oracle.moments_of_supports)
        scale, fewest = self.vectors / (p - d), self.fewest(functions)
        vector: Integers = np.zeros(len(columns[BOX]), dtype=np.int64)
        for k, tree in enumerate(self.trees):
            vector = vector * len(tree.levels) + columns[k]
        order = np.argsort(vector, kind="stable")
        vector, reports = vector[order], columns[BOX][order]
        found = np.zeros((len(functions[0]), len(order)))
        for row, result in enumerate(found):
            for number, boxes, weights in self._boxes([[w[row] for w in ws] for ws in fewest]):
                first, last = np.searchsorted(vector, [number, number + 1]).tolist()
                step = max(1, _CHUNK // len(boxes))
                for start in range(first, last, step):
                    part = slice(start, min(start + step, last))
                    supports = self.oracle.supports(reports[part], boxes)
                    result[order[part]] = scale * (weights @ supports - d * weights.sum())
        return found

    def _influence(self, functions: Functions) -> Floats:
        """The most of all sets of boxes of a level vector; no report may support that one."""
        p, d, _, _ = map(float, self.oracle.moments_of_supports)
        fewest, found = self.fewest(functions), np.zeros(len(functions[0]))
        for row in range(len(found)):
            for _, _, weights in self._boxes([[w[row] for w in levels] for levels in fewest]):
                most, least = weights.clip(min=0).sum(), weights.clip(max=0).sum()
                middle = d * (most + least)
                found[row] = max(found[row], most - middle, middle - least)
        return self.vectors / (p - d) * found

    def _boxes(
        self, weights: Sequence[Sequence[Floats]]
    ) -> Iterator[tuple[int, npt.NDArray[np.uint64], Floats]]:
        """Of each level vector with boxes that count: its number, the boxes, their weights."""
        used = [[k for k, w in enumerate(levels) if w.any()] for levels in weights]
        for vector in product(*used):
            number, boxes, products = 0, np.zeros(1, dtype=np.uint64), np.ones(1)
            for level, tree, levels in zip(vector, self.trees, weights, strict=True):
                number = number * len(levels) + level
                nodes = np.flatnonzero(levels[level]).astype(np.uint64)
                boxes = (boxes[:, None] * np.uint64(tree.sizes[level]) + nodes).reshape(-1)
                products = np.outer(products, levels[level][nodes]).reshape(-1)
            yield number, boxes, products
