"""Laplace faces: Haney, Machanavajjhala and Ding (VLDB 2015) for several attributes, locally.

Under the L1 metric of a grid, a step along attribute d moves a person through one face between two
cells. A box counts what went through its faces: of attribute d those at its two ends, which are
boxes of the other attributes. So Haney et al. put noise on faces, at every cut k of attribute d and
for every node of a tree over the other attributes, and a box has the noise of few nodes.

Faces are not a function of where somebody is: there are many ways through a grid, and they differ
by loops. A curator adds the noise to the answers. Here each person does, to those that all others
follow from: for every corner c whether x <= c in all attributes,

    r(c) = 1[x <= c] + sum over d with c_d inside of the noise of the nodes (d, c_d, b),

over the nodes b that make up the prefix up to c of the other attributes (Fenwick 1994: up to
log2 m in each). Nodes of another size or place are never used, and there are m in each attribute.

Privacy. A step of x along d from k to k + 1 takes 1 from r(c) where c_d = k and the others are at
or above x. That is what taking 1 from the noise of the nodes (d, k, b) with x in b does, because of
the nodes of a prefix exactly one holds x if it is in the prefix, else none. There are up to L =
prod over the others of (floor(log2 m) + 1) such nodes, so with epsilon / L each, every vector of
noise has a partner that is at most e^epsilon times as likely and gives the same report.

Variance of a person, wherever they are: that of one noise, about 2 L^2 / epsilon^2, times the sum
of squared weights of the nodes in use. For ranges over D attributes this is of order
D (log m)^(3 (D-1)) / epsilon^2, the order of Haney et al. for a curator. The paper's table 2 states
(log m)^(2 (D-1)) for the local model, without a proof. One logarithm less is what sampling a level
of the tree saves under epsilon-LDP. But what one level says of faces depends on the way through the
grid, and only all levels together, in a box, do not: so sampling is no answer here.

Noise is not clipped before it is added up; sums are clipped to a field that they leave less often
than once in 2^60 reports.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from metricldp.basics.errors import CertificateError, InvalidSpecError
from metricldp.lab.peers.distribution import Baseline
from metricldp.mechanisms import Column, Floats, Integers, Number
from metricldp.mechanisms.geometric import add_noise, geometric_distribution
from metricldp.mechanisms.joint import Columns, Functions, JointChannel, Part, People, Sizes, Term
from metricldp.mechanisms.randomness import Randomness
from metricldp_core import distributions as core
from metricldp_core.exact import product
from metricldp_core.random_words import Words

MOST_CORNERS = 1 << 16
"""A report holds a number for each."""
_UNBOUNDED = 1 << 61
"""Noise that would take more than 2^50 coins."""
_FAR = 45
"""A noise is farther off than this over its epsilon less often than once in 2^64 times."""


@dataclass(frozen=True)
class Faces(Baseline, JointChannel):
    """For every corner of the grid but the last, whether a person is at or below it, with noise."""

    sizes: Sizes
    steps: tuple[Fraction, ...]
    """Epsilon per step of each attribute."""
    noises: tuple[core.Geometric, ...]
    """Of every node of the faces of each attribute."""

    mechanism: ClassVar[str] = "faces"
    has_likelihood: ClassVar[bool] = False

    @classmethod
    def for_steps(cls, sizes: Sizes, steps: tuple[Fraction, ...]) -> Faces:
        if math.prod(sizes) > MOST_CORNERS:
            raise InvalidSpecError(
                f"{' x '.join(map(str, sizes))} corners are too many for a report; "
                f"use at most {MOST_CORNERS:,}"
            )
        shares = (_share(sizes, d, step) for d, step in enumerate(steps))
        return cls(
            sizes, steps, tuple(geometric_distribution(_UNBOUNDED, share) for share in shares)
        )

    @cached_property
    def fields(self) -> Mapping[Part, Number]:
        corners = [",".join(map(str, c)) for c in np.ndindex(*self.sizes)][:-1]
        return {corner: Number(2 * self.reach + 2) for corner in corners}

    @cached_property
    def reach(self) -> int:
        """How far a sum of noise goes before it is clipped."""
        nodes = (_others(self.sizes, d) ** 2 / step for d, step in enumerate(self.steps))
        return math.ceil(_FAR * sum(nodes))

    def law(self) -> dict[str, Any]:
        noises = [noise.noise_data() for noise in self.noises]
        sizes = {"sizes": list(self.sizes), "reach": self.reach}
        return {"law": self.mechanism, **sizes, "noises": noises}

    @cached_property
    def _nodes(self) -> list[Integers]:
        """For each attribute, of which nodes (rows) each prefix (column) is made up."""
        return [_prefixes(size) for size in self.sizes]

    # The device

    def sample(self, positions: Sequence[Integers], randomness: Randomness) -> dict[Part, Column]:
        count = len(positions[0])
        below = np.ones((count, *self.sizes), dtype=np.int64)
        for d, (size, x) in enumerate(zip(self.sizes, positions, strict=True)):
            along = [size if e == d else 1 for e in range(len(self.sizes))]
            below *= (np.asarray(x)[:, None] <= np.arange(size)).reshape(count, *along)
        for d, noise in enumerate(self.noises):
            shape = (count, *(size - (e == d) for e, size in enumerate(self.sizes)))
            drawn = np.empty(math.prod(shape), dtype=np.int64)
            middle = np.full(len(drawn), _UNBOUNDED)
            add_noise(replace(noise, size=2 * _UNBOUNDED + 1), randomness, middle, drawn)
            self._add(below, d, (drawn - _UNBOUNDED).reshape(shape))
        rows = np.clip(below + self.reach, 0, 2 * self.reach + 1).reshape(count, -1).T
        return {
            part: row.astype(field.dtype)
            for (part, field), row in zip(self.fields.items(), rows[:-1], strict=True)
        }

    def draw(self, positions: Sequence[int], words: Words) -> tuple[int, ...]:
        below = np.zeros((1, *self.sizes), dtype=np.int64)
        corner: tuple[Any, ...] = (0, *(slice(x, None) for x in positions))
        below[corner] = 1
        for d, noise in enumerate(self.noises):
            shape = (1, *(size - (e == d) for e, size in enumerate(self.sizes)))
            drawn = [noise.noise(words) for _ in range(math.prod(shape))]
            self._add(below, d, np.array(drawn, dtype=np.int64).reshape(shape))
        found = np.clip(below + self.reach, 0, 2 * self.reach + 1)
        return tuple(found.reshape(-1)[:-1].tolist())

    def _add(self, sums: Integers, d: int, noise: Integers) -> None:
        """To every corner the noise of its nodes of the faces of one attribute."""
        for e, nodes in enumerate(self._nodes):
            if e != d:
                noise = np.moveaxis(np.tensordot(noise, nodes, axes=(e + 1, 0)), -1, e + 1)
        sums[(slice(None),) * (d + 1) + (slice(0, self.sizes[d] - 1),)] += noise

    # The certificate

    def probability(self, x: People, report: Mapping[Part, int]) -> Fraction:
        raise CertificateError("reports with noise on faces are sums, and have no list of chances")

    def worst_ratio(self, x: People, other: People) -> Fraction:
        """At most so much: what the partner of a vector of noise costs, step by step."""
        return product(
            self.noises[d].upper_ratio(_others(self.sizes, d) * abs(a - b))
            for d, (a, b) in enumerate(zip(x, other, strict=True))
        )

    def worst_pairs(self) -> Iterator[tuple[People, People, Fraction]]:
        """A step along each attribute; all other pairs are sums of such steps."""
        here = (0,) * len(self.sizes)
        for d in range(len(self.sizes)):
            there = tuple(int(e == d) for e in range(len(self.sizes)))
            yield here, there, self.worst_ratio(here, there)

    # Decoding

    def _coefficients(self, functions: Functions) -> Floats:
        """Of every corner: a product is a sum of corners, with the product of its differences."""
        found = np.ones((len(functions[0]), 1))
        for f in functions:
            found = (found[:, :, None] * _differences(f)[:, None, :]).reshape(len(f), -1)
        return found

    def _decoded(self, functions: Functions, columns: Columns) -> Floats:
        weights = self._coefficients(functions)
        reports = np.array([columns[part] for part in self.fields], dtype=np.float64)
        return weights[:, :-1] @ (reports - self.reach) + weights[:, -1:]

    def _influence(self, functions: Functions) -> Floats:
        weights = np.abs(self._coefficients(functions))
        return np.asarray(weights[:, :-1].sum(axis=1) * (self.reach + 1) + weights[:, -1])

    def skewness(self, functions: Functions) -> Floats:
        """That of one noise: the root of its fourth moment over the second, 1 + 6 variances."""
        corners = [_differences(f) for f in functions]
        nodes = [np.abs(c @ t.T).max(axis=1) for c, t in zip(corners, self._nodes, strict=True)]
        found = np.zeros(len(functions[0]))
        for d, variance in enumerate(self._variances):
            weight = np.abs(corners[d][:, :-1]).max(axis=1, initial=0.0)
            for e, node in enumerate(nodes):
                weight = weight if e == d else weight * node
            found = np.maximum(found, weight * math.sqrt(1 + 6 * variance))
        return found

    @cached_property
    def _variances(self) -> list[float]:
        """Of one noise on the faces of each attribute."""
        shares = (float(_share(self.sizes, d, step)) for d, step in enumerate(self.steps))
        return [1 / (2 * math.sinh(share / 2) ** 2) for share in shares]

    def _second_moment(self, functions: Functions, others: Functions) -> list[Term]:
        """f g, and the same noise for everybody: of each node its weight squared."""
        pairs = list(zip(functions, others, self._nodes, strict=True))
        cuts, nodes = [], []
        for f, g, tree in pairs:
            one, two = _differences(f), _differences(g)
            cuts.append((one * two)[:, :-1].sum(axis=1))
            nodes.append(((one @ tree.T) * (two @ tree.T)).sum(axis=1))
        noise = np.zeros(len(functions[0]))
        for d, variance in enumerate(self._variances):
            noise += (
                cuts[d] * np.prod([n for e, n in enumerate(nodes) if e != d], axis=0) * variance
            )
        products = tuple(f * g for f, g, _ in pairs)
        return [Term(np.ones(len(noise)), products), Term(noise)]


def _others(sizes: Sizes, d: int) -> int:
    """The most nodes of the faces of attribute d that hold one person: who is first in the others.

    A prefix has at most as many.
    """
    return math.prod(size.bit_length() for e, size in enumerate(sizes) if e != d)


def _share(sizes: Sizes, d: int, step: Fraction) -> Fraction:
    """The epsilon of one noise on the faces of attribute d."""
    return step / _others(sizes, d)


def _differences(functions: Floats) -> Floats:
    """f as a sum of prefixes: what each has to be multiplied with."""
    return np.append(functions[:, :-1] - functions[:, 1:], functions[:, -1:], axis=1)


def _prefixes(size: int) -> Integers:
    """Node i, from 1, holds the positions i - b + 1 to i, b the lowest 1 of i in binary."""
    found = np.zeros((size, size), dtype=np.int64)
    for prefix in range(1, size + 1):
        node = prefix
        while node:
            found[node - 1, prefix - 1] = 1
            node &= node - 1
    return found
