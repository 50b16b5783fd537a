"""HIO as published: the box that a person is in, reported by optimised local hashing.

Trees, levels and boxes are those of `hio`. The boxes of a level vector are numbered, and the number
is what `hashing` hashes and blurs with the whole epsilon. A count adds up, for a report of level
vector L, whether it supports each of the C_L boxes of the range there:

    F = N sum over the boxes v of L of (S_v - d) / (p - d),   N the number of level vectors.

No bias: her own box has E[S_v] = p and every other d, and each L comes up with probability 1/N; a
person inside the range is in exactly one of its boxes, of all level vectors.

The second moment. With the notation of `hashing` let A = d (1 - d), B the covariance of two boxes
that she is not in, A' = p (1 - p) + (p - d)^2 the second moment of S_v - d of her own, and X = p (C
- d) the mean of the product of her own with another. Of a level vector without her box the mean of
the squared sum is C_L A + C_L (C_L - 1) B, of the one with it A' - A + 2 (C_L - 1) (X - B) more. So

    E[F^2 | x] = N / (p - d)^2 ((A - B) sum_L C_L + B sum_L C_L^2
                                + (A' - A - 2 (X - B)) f(x) + 2 (X - B) C_L(x)),

where L(x) is the level vector of her box, and the last term is there if she is inside. C_L and its
sums are products over the attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import ClassVar

import numpy as np

from metricldp.answers.estimate import Bounds
from metricldp.basics.exact import as_written
from metricldp.channels import LARGEST_EPSILON, Column, Floats, Integers, Number
from metricldp.coins.draws import uniform
from metricldp.coins.stream import Coins
from metricldp.lab.peers.hashing import LocalHashing
from metricldp.lab.peers.hio import Boxes, Spread
from metricldp.lab.peers.joint import Functions
from metricldp.survey.certify import Certificate

BOX = "=box"
"""The column of the hashed box. No attribute has "=" in its name."""
_CHUNK = 1 << 20
"""Hashes computed at a time."""


@dataclass(frozen=True)
class HashedHio(Boxes):
    """One epsilon between any two people, by local hashing; the fewest nodes, as published."""

    mechanism: ClassVar[str] = "hio-hashing"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.oracle  # noqa: B018 - too many boxes are refused here

    @cached_property
    def oracle(self) -> LocalHashing:
        """For as many boxes as the level vector of all leaves has."""
        boxes = math.prod(tree.size for tree in self.trees.values())
        return LocalHashing.for_epsilon(boxes, min(as_written(self.epsilon), LARGEST_EPSILON))

    # The report ----------------------------------------------------------------------------------

    @cached_property
    def fields(self) -> Mapping[str, Number]:
        """A level for each attribute, and the hashed box."""
        levels = {name: Number(len(tree.levels)) for name, tree in self.trees.items()}
        return {**levels, BOX: Number(self.oracle.outputs)}

    @property
    def law(self) -> bytes:
        """The trees and the oracle."""
        oracle = self.oracle
        return f"{int(self.branching)} {oracle.size} {oracle.buckets} {oracle.keep}".encode()

    def blur(self, positions: Mapping[str, Integers], coins: Coins) -> Mapping[str, Column]:
        """Levels at random, and the number of her box there, hashed and blurred."""
        columns: dict[str, Column] = {}
        box: Integers = np.zeros(len(next(iter(positions.values()))), dtype=np.int64)
        for name, tree in self.trees.items():
            level = uniform(coins, len(tree.levels), len(box))
            node = positions[name] // np.array(tree.levels)[level]
            box = box * np.array(tree.sizes)[level] + node
            columns[name] = level.astype(self.fields[name].dtype)
        return {**columns, BOX: self.oracle.encode(box, coins)}

    def probability(self, person: Mapping[str, int], report: Mapping[str, int]) -> Fraction:
        """Uniform levels, and the oracle's probability at her box."""
        mass, box = Fraction(1), 0
        for name, tree in self.trees.items():
            level = int(report[name])
            mass /= len(tree.levels)
            box = box * tree.sizes[level] + person[name] // tree.levels[level]
        return mass * self.oracle.probability(box, np.asarray(report[BOX]))

    def certify(self) -> Certificate:
        """The bucket is all that depends on the person, and two people differ in some bucket.

        Levels and hash functions have the same law for everybody. People who differ in an attribute
        have different boxes where it is at its last level, and some polynomial tells them apart.
        """
        return self.proved_by(self.oracle)

    # Decoding ------------------------------------------------------------------------------------

    def variances_of(self, functions: Functions) -> Spread:
        """The second moment above, less 1 inside."""
        fewest = self.fewest(functions)
        counts = {name: [float(w.sum()) for w in levels] for name, levels in fewest.items()}
        vectors = math.prod(len(levels) for levels in counts.values())
        sums, squares = (
            math.prod(sum(c**power for c in levels) for levels in counts.values())
            for power in (1, 2)
        )
        p, d, with_own, others = self.oracle.moments_of_supports
        apart, own, crossed = d * (1 - d), p * (1 - p) + (p - d) ** 2, with_own - p * d
        both = others - d * d
        scale = vectors / float((p - d) ** 2)
        return Spread(
            scale * (float(apart - both) * sums + float(both) * squares),
            scale * float(own - apart - 2 * (crossed - both)) - 1,
            scale * float(2 * (crossed - both)),
            {name: self._boxes(name, fewest[name]) for name in functions},
        )

    def _boxes(self, name: str, levels: list[Floats]) -> Floats:
        tree = self.trees[name]
        spread = zip(levels, tree.levels, strict=True)
        each = [np.repeat(w * w.sum(), width)[: tree.size] for w, width in spread]
        return np.asarray(np.sum(each, axis=0))

    def value(self, functions: Functions, columns: Mapping[str, Column]) -> float:
        """Supports of the boxes of every report's own level vector, counted in whole numbers."""
        return math.fsum(found for found, _ in self._found(functions, columns))

    def decoded(self, functions: Functions, columns: Mapping[str, Column]) -> tuple[float, float]:
        """The value, and the second moment decoded: of C_L too, which is known by level vector."""
        spread, found = self.variances_of(functions), list(self._found(functions, columns))
        value, crowded = (math.fsum(part) for part in zip(*found, strict=True))
        everybody = spread.outside * len(columns[BOX])
        return value, everybody + (spread.inside + 1) * value + spread.box * crowded

    def _found(
        self, functions: Functions, columns: Mapping[str, Column]
    ) -> Iterator[tuple[float, float]]:
        """For each level vector the estimate of the people in its boxes, and C_L times that."""
        p, d, _, _ = map(float, self.oracle.moments_of_supports)
        scale = math.prod(len(tree.levels) for tree in self.trees.values()) / (p - d)
        for reports, boxes in self._read(self.fewest(functions), columns):
            pairs = len(reports) * len(boxes)
            found = scale * (self._supported(reports, boxes) - d * pairs) if pairs else 0.0
            yield found, len(boxes) * found

    def _read(
        self, fewest: Mapping[str, list[Floats]], columns: Mapping[str, Column]
    ) -> Iterator[tuple[Column, Integers]]:
        """The reports of each level vector that has boxes of the range, and those boxes."""
        code: Integers = np.zeros(len(columns[BOX]), dtype=np.int64)
        for name, levels in fewest.items():
            code = code * len(levels) + columns[name]
        order = np.argsort(code, kind="stable")
        code, reports = code[order], columns[BOX][order]
        used = [[k for k, w in enumerate(levels) if w.any()] for levels in fewest.values()]
        for vector in product(*used):
            number, boxes = 0, np.zeros(1, dtype=np.int64)
            for level, (name, levels) in zip(vector, fewest.items(), strict=True):
                number = number * len(levels) + level
                count = self.trees[name].sizes[level]
                boxes = (boxes[:, None] * count + np.flatnonzero(levels[level])).reshape(-1)
            first, last = np.searchsorted(code, [number, number + 1])
            yield reports[first:last], boxes

    def _supported(self, reports: Column, boxes: Integers) -> int:
        """How many pairs of a report and a box there are where the one supports the other."""
        step, found = max(1, _CHUNK // len(boxes)), 0
        for start in range(0, len(reports), step):
            part = reports[start : start + step]
            found += int(self.oracle.supports(part, boxes.astype(np.uint64)).sum())
        return found

    def bounds(self, functions: Functions) -> Bounds:
        """Somebody outside, and somebody inside in the box with the fewest or the most others."""
        spread = self.variances_of(functions)
        ends = [
            math.prod(float(pick(f[f > 0])) for f in spread.boxes.values()) for pick in (min, max)
        ]
        inside = [spread.outside + spread.inside + spread.box * end for end in ends]
        return min(spread.outside, *inside), max(spread.outside, *inside)
