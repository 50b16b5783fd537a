"""HIO: ranges over several attributes under plain local differential privacy.

Wang, Ding, Zhou, Hong, Huang, Li and Jha, "Answering Multi-Dimensional Analytical Queries under
Local Differential Privacy", SIGMOD 2019. Each attribute has a tree: level 0 is the root with all
positions, every node of a level is cut into `branching` of the next, the last level has a node for
each position. A person draws one level for each attribute, and reports the box of nodes that she is
in with a frequency oracle of the whole epsilon. A range is a sum of few boxes of all level vectors.

The oracle here is the Hadamard response in its product form. She also draws an index j_d below the
order of her level's Hadamard matrix; her sign is prod_d H[j_d, node_d], kept with probability
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
equal for small eps; see `published_variance`, and `hio_hashing` for the oracle itself. Where the
published system groups people by level vector at random, here too a person draws hers, so the size
of a group is part of the variance.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import ClassVar

import numpy as np

from metricldp.answers.estimate import Bounds
from metricldp.answers.predict import mean
from metricldp.answers.queries import Where, expected, parse
from metricldp.attributes.base import Attribute
from metricldp.attributes.named import Categorical
from metricldp.basics.checks import positive
from metricldp.basics.errors import QueryError, SurveyError
from metricldp.basics.exact import ONE, as_written
from metricldp.basics.numbers import is_number, is_whole
from metricldp.basics.text import shown
from metricldp.channels import LARGEST_EPSILON, Channel, Column, Floats, Integers, Number, Response
from metricldp.coins.draws import uniform
from metricldp.coins.stream import Coins
from metricldp.lab.peers.joint import Functions, Joint, on_grids
from metricldp.lab.peers.tree import Tree
from metricldp.lab.peers.walsh import odd, power_of_two, transform
from metricldp.metrics import Uniform
from metricldp.survey.agreement import Agreement
from metricldp.survey.certify import Certificate, Proof, prove

SIGN = "=sign"
"""The column of the blurred sign: 0 for +1, 1 for -1. No attribute has "=" in its name."""


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
        """The nodes of each level."""
        return (1, *self.counts)

    @cached_property
    def digits(self) -> tuple[int, ...]:
        """For each level, how many binary digits an index of its Hadamard matrix has."""
        return tuple((count - 1).bit_length() for count in self.sizes)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first code of each level; a code is a level and an index. Then how many there are."""
        return tuple(accumulate((1 << digits for digits in self.digits), initial=0))

    def weights(self, function: Floats, *, consistent: bool = False) -> list[Floats]:
        """Those of the fewest nodes, or of all levels by least squares."""
        written = self.fewest(function)
        if consistent:
            written = self.least_squares(function, root_pays=True)
        return [written.constant, *written.weights]


@dataclass(frozen=True)
class Spread:
    """Person x adds outside + inside f(x) + box prod_d boxes_d(x_d) to the variance of a count."""

    outside: float
    inside: float
    box: float = 0.0
    boxes: Functions = field(default_factory=dict)
    """Of each attribute: at a level's nodes in use, how many of them that level has; else 0."""


@dataclass(frozen=True)
class Boxes(Joint):
    """What HIO is whatever the oracle: trees, and boxes of nodes that add up to a range."""

    survey: Agreement
    epsilon: float
    branching: int = 5

    agreed: ClassVar[str] = ", epsilon and branching"

    def __post_init__(self) -> None:
        on_grids(self.survey)
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        if not is_whole(self.branching) or self.branching < 2:
            raise SurveyError(
                f"branching is a whole number of at least 2, not {shown(self.branching)}"
            )

    @cached_property
    def trees(self) -> dict[str, Nodes]:
        """Of each attribute; categories have no order, so theirs is a root and leaves."""
        return {name: self._tree(a) for name, a in self.survey.attributes.items()}

    def _tree(self, attribute: Attribute) -> Nodes:
        flat = isinstance(attribute, Categorical)
        most = attribute.size if flat else int(self.branching)
        return Nodes(attribute.size, min(most, attribute.size))

    def fewest(self, functions: Functions) -> dict[str, list[Floats]]:
        """The fewest nodes of every attribute; one that is not named has the function 1."""
        return {
            name: tree.weights(functions.get(name, np.ones(tree.size)))
            for name, tree in self.trees.items()
        }

    @abstractmethod
    def value(self, functions: Functions, columns: Mapping[str, Column]) -> float:
        """The sum over reports of F."""

    @abstractmethod
    def variances_of(self, functions: Functions) -> Spread:
        """What a person adds to the variance of a count, by where she is."""

    def added(self, functions: Functions, shares: list[Floats] | Floats) -> float:
        """The mean over people, from the shares inside the range and its boxes."""
        involved = self.involved(functions)
        spread = self.variances_of(functions)
        found = spread.outside + spread.inside * mean(shares, [functions[n] for n in involved])
        if spread.box:
            found += spread.box * mean(shares, [spread.boxes[name] for name in involved])
        return found

    def proved_by(self, channel: Channel) -> Certificate:
        """The proof for every two people from that of the one channel, alike for all pairs."""
        pairs = prove(channel, Uniform(as_written(self.epsilon)))
        attributes = self.survey.attributes
        people = math.prod(attribute.size for attribute in attributes.values())
        here = [attribute.label(0) for attribute in attributes.values()]
        there = [next(iter(attributes.values())).label(1), *here[1:]]
        labels = ", ".join(here), ", ".join(there)
        count = people * (people - 1) // 2
        proof = Proof(", ".join(attributes), self.mechanism, pairs, count, labels, promised=True)
        return Certificate(self.fingerprint, (proof,))

    def published_variance(
        self, where: Where | None = None, n: int = 1, inside: float = 0.0
    ) -> float:
        """The variance with the published oracle, optimised local hashing, for a share inside.

        A box that a person is not in has 4 e^eps / (e^eps - 1)^2 (Wang, Blocki, Li and Jha, USENIX
        Security 2017, with e^eps + 1 hash values and not that rounded); the one that she is in has
        2 more as its second moment, because p = 1/2. Different boxes are uncorrelated as long as
        three hash values are independent. With N level vectors and C boxes to add up, a person
        outside adds N C 4 e^eps / (e^eps - 1)^2, one inside 2 N - 1 more.
        """
        n = expected(n, "uniform", None)[0]
        if not is_number(inside) or not 0 <= inside <= 1:
            raise QueryError(f"inside is a share of people from 0 to 1, not {shown(inside)}")
        fewest = self.fewest(parse(self.survey, where).functions)
        vectors = math.prod(len(levels) for levels in fewest.values())
        outside = _squares(fewest) / math.sinh(self.epsilon / 2) ** 2
        return n * (outside + inside * (2 * vectors - 1))


@dataclass(frozen=True)
class Hio(Boxes):
    """One epsilon between any two people, whatever all their attributes are.

    The survey's own epsilons and mechanisms are not used. With `consistent`, counts are read from
    the same reports with the best weights of all levels instead of the fewest nodes.
    """

    consistent: bool = False

    mechanism: ClassVar[str] = "hio"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sign  # noqa: B018 - an epsilon too small for coins is refused here

    @cached_property
    def sign(self) -> Response:
        """What blurs the sign: randomized response with two values and the whole epsilon."""
        return Response.for_epsilon(2, min(as_written(self.epsilon), LARGEST_EPSILON))

    @cached_property
    def kappa(self) -> float:
        """1 / (2p - 1), of the integers in use."""
        return float(Fraction(ONE, 2 * self.sign.keep - ONE))

    # The report ----------------------------------------------------------------------------------

    @cached_property
    def fields(self) -> Mapping[str, Number]:
        """A code for each attribute, and the sign."""
        codes = {name: Number(tree.starts[-1]) for name, tree in self.trees.items()}
        return {**codes, SIGN: Number(2)}

    @property
    def law(self) -> bytes:
        """The trees and the sign's probability."""
        return f"{int(self.branching)} {self.sign.keep}".encode()

    def blur(self, positions: Mapping[str, Integers], coins: Coins) -> Mapping[str, Column]:
        """Levels and indices at random, the sign that belongs to them, blurred."""
        columns: dict[str, Column] = {}
        sign: Integers = np.zeros(len(next(iter(positions.values()))), dtype=np.int64)
        for name, tree in self.trees.items():
            level = uniform(coins, len(tree.levels), len(sign))
            digits = np.array(tree.digits, dtype=np.uint64)[level]
            index = coins.words(len(sign)) >> (np.uint64(63) - digits) >> np.uint64(1)
            node = positions[name] // np.array(tree.levels)[level]
            sign = sign ^ odd(index.astype(np.int64) & node)
            codes = np.array(tree.starts)[level] + index.astype(np.int64)
            columns[name] = codes.astype(self.fields[name].dtype)
        return {**columns, SIGN: self.sign.encode(sign, coins).astype(np.uint8)}

    def probability(self, person: Mapping[str, int], report: Mapping[str, int]) -> Fraction:
        """Uniform levels, uniform indices, and the sign kept or not."""
        mass, true = Fraction(1), 0
        for name, tree in self.trees.items():
            level = int(np.searchsorted(tree.starts, report[name], side="right")) - 1
            index = int(report[name]) - tree.starts[level]
            mass /= len(tree.levels) << tree.digits[level]
            true ^= (index & person[name] // tree.levels[level]).bit_count() & 1
        kept = self.sign.keep if int(report[SIGN]) == true else ONE - self.sign.keep
        return mass * Fraction(kept, ONE)

    def certify(self) -> Certificate:
        """The sign is all that depends on the person, and two people differ in some sign.

        Levels and indices have the same law for everybody. People who differ in an attribute have
        different nodes at its last level, and two columns of a Hadamard matrix differ somewhere.
        """
        return self.proved_by(self.sign)

    # Decoding ------------------------------------------------------------------------------------

    def weights(self, functions: Functions) -> dict[str, list[Floats]]:
        """w_{d,l} of every attribute; one that is not named has the function 1."""
        return {
            name: tree.weights(functions.get(name, np.ones(tree.size)), consistent=self.consistent)
            for name, tree in self.trees.items()
        }

    def second_moment(self, functions: Functions) -> float:
        """E[F^2 | x], for any x."""
        return self.kappa**2 * _squares(self.weights(functions))

    def value(self, functions: Functions, columns: Mapping[str, Column]) -> float:
        """Look up W_d for every code; of the fewest nodes these are whole numbers, and exact."""
        weights = self.weights(functions)
        found = 1.0 - 2.0 * columns[SIGN]
        for name, levels in weights.items():
            signs = np.concatenate([transform(w, power_of_two(len(w))) for w in levels])
            found = found * signs[columns[name]]
        scale = self.kappa * math.prod(len(levels) for levels in weights.values())
        return scale * float(found.sum())

    def decoded(self, functions: Functions, columns: Mapping[str, Column]) -> tuple[float, float]:
        """The value, and the second moment of everybody."""
        second = self.second_moment(functions) * len(columns[SIGN])
        return self.value(functions, columns), second

    def variances_of(self, functions: Functions) -> Spread:
        """The second moment of everybody, less 1 inside."""
        return Spread(self.second_moment(functions), -1.0)

    def bounds(self, functions: Functions) -> Bounds:
        """Somebody inside, and somebody outside."""
        second = self.second_moment(functions)
        return second - 1, second


def _squares(weights: Mapping[str, list[Floats]]) -> float:
    """The product over attributes of the levels times all squared weights."""
    found = 1.0
    for levels in weights.values():
        found *= len(levels) * math.fsum(float(w @ w) for w in levels)
    return found
