"""Joint channels: several attributes of a person blurred together, into one report.

A joint channel is to a product of grids what a channel is to one: it has the law of its reports,
and for every product of functions, one factor for each attribute, an unbiased decoder F with

    E[F(report) | x] = prod_d f_d(x_d)   and   S(x) = E[F(report)^2 | x]   known exactly.

S is a sum of products itself, so it is decoded by the same decoder, its mean over people is a sum
of products of means, and its least and largest value are found from few values of each factor.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from metricldp.channels.base import Floats, Integers
from metricldp.channels.fields import Column, Number
from metricldp.coins.stream import Coins
from metricldp.coins.tape import Tape

Part = int | str
"""What a column of a report is about: one attribute, by its number, or all, by its role."""
People = tuple[int, ...]
"""A position of each attribute."""
_MOST_COMBINED = 1 << 20
"""Up to so many combinations of values are gone through; beyond, each term is bounded alone."""


@dataclass(frozen=True)
class Term:
    """scale times the product over attributes of a function of the position, for k rows at once."""

    scale: Floats
    """(k,)."""
    factors: tuple[Floats, ...] | None = None
    """(k, size) for each attribute; None for a constant, which need not be decoded."""

    def over(self, kept: Sequence[int]) -> Term:
        """The same where the factors of all other attributes are constants."""
        if self.factors is None:
            return self
        others = [f[:, 0] for d, f in enumerate(self.factors) if d not in kept]
        scale = self.scale * np.prod(others, axis=0) if others else self.scale
        return Term(scale, tuple(self.factors[d] for d in kept))


class JointChannel(ABC):
    """The way of several attributes from private positions to a report and back to answers."""

    mechanism: ClassVar[str]
    sizes: tuple[int, ...]
    """How many positions each attribute has."""
    same_ratio_for_all_pairs: ClassVar[bool] = False

    @property
    @abstractmethod
    def fields(self) -> Mapping[Part, Number]:
        """The columns of a report, in order."""

    @property
    @abstractmethod
    def law(self) -> bytes:
        """The integers that devices and collector must agree on."""

    # The device ----------------------------------------------------------------------------------

    @abstractmethod
    def encode(self, positions: Sequence[Integers], coins: Coins) -> dict[Part, Column]:
        """Blur many people: the only step that sees private values."""

    @abstractmethod
    def draw(self, positions: Sequence[int], tape: Tape) -> Sequence[int]:
        """Blur one person, with the law of `encode`: the number of each field."""

    def blur(self, positions: Sequence[int], tape: Tape) -> int:
        """The same as one integer: field after field, the first lowest."""
        report = start = 0
        drawn = self.draw(positions, tape)
        for number, field in zip(drawn, self.fields.values(), strict=True):
            report |= number << start
            start += field.bits
        return report

    # The certificate -----------------------------------------------------------------------------

    @abstractmethod
    def probability(self, x: People, report: Mapping[Part, int]) -> Fraction:
        """P(report | x), exactly, from the integers the sampler uses."""

    @abstractmethod
    def worst_ratio(self, x: People, other: People) -> Fraction:
        """The largest P(report | x) / P(report | other), either way round."""

    def worst_pairs(self) -> Iterator[tuple[People, People, Fraction]]:
        """Pairs of people, and the worst ratio of all pairs that each stands for.

        No pair is told apart better than the one that stands for it, nor is nearer.
        """
        here = (0,) * len(self.sizes)
        there = (1, *here[1:])
        assert self.same_ratio_for_all_pairs
        yield here, there, self.worst_ratio(here, there)

    def every_report(self) -> dict[Part, Column]:
        """All possible reports as columns, for proofs by enumeration; only for tiny domains."""
        grid = np.indices([field.outputs for field in self.fields.values()])
        return dict(zip(self.fields, grid.reshape(len(grid), -1), strict=True))

    # Decoding ------------------------------------------------------------------------------------

    @abstractmethod
    def decoded(self, functions: Sequence[Floats], columns: Mapping[Part, Column]) -> Floats:
        """The decoder of each product at each report: k functions (k, size) of each attribute.

        From n reports to (k, n). Decoders need not be linear: that of f + g may be another than
        that of f and that of g together, but both have the same mean.
        """

    @abstractmethod
    def moment(self, functions: Sequence[Floats]) -> list[Term]:
        """S as a sum of products, for k functions (k, size) of each attribute."""

    def noise(self, functions: Sequence[Floats]) -> list[Term]:
        """S - f^2: what a person adds to the variance of a sum, by where she is."""
        squares = tuple(f**2 for f in functions)
        return [*self.moment(functions), Term(np.full(len(squares[0]), -1.0), squares)]

    def sums(self, terms: Sequence[Term], columns: Mapping[Part, Column]) -> Floats:
        """Sums over reports, unbiased for the sums of terms over people: (k,)."""
        count = len(next(iter(columns.values())))
        found = np.zeros(len(terms[0].scale))
        for term in terms:
            if term.factors is None:
                found = found + term.scale * count
            else:
                found = found + term.scale * self.decoded(term.factors, columns).sum(axis=1)
        return found


def means(terms: Sequence[Term], shares: Sequence[Floats] | Floats) -> Floats:
    """The mean of terms over people spread like that: shares of each attribute, or one joint array.

    From terms of k rows to (k,).
    """
    found = np.zeros(len(terms[0].scale))
    for term in terms:
        mean = np.ones(len(found))
        if term.factors is not None and isinstance(shares, np.ndarray):
            mean = np.array([_contracted(shares, row) for row in zip(*term.factors, strict=True)])
        elif term.factors is not None:
            for factor, share in zip(term.factors, shares, strict=True):
                mean = mean * (factor @ share)
        found = found + term.scale * mean
    return found


def _contracted(table: Floats, vectors: Sequence[Floats]) -> float:
    for vector in reversed(vectors):
        table = table @ vector
    return float(table)


def extremes(terms: Sequence[Term]) -> tuple[Floats, Floats]:
    """The least and the largest value of a sum of terms over all people: two arrays (k,).

    Each attribute has few different values of all its factors, and these are combined. Where the
    combinations are too many, the least and the largest values of the terms are added up instead,
    which bounds the sum.
    """
    rows = [_extremes([_row(term, k) for term in terms]) for k in range(len(terms[0].scale))]
    least, most = zip(*rows, strict=True)
    return np.array(least), np.array(most)


_Row = tuple[float, list[Floats]]
"""One row of a term: a constant has no factors."""


def _row(term: Term, k: int) -> _Row:
    return float(term.scale[k]), [factor[k] for factor in term.factors or ()]


def _extremes(terms: Sequence[_Row]) -> tuple[float, float]:
    fixed = math.fsum(scale for scale, factors in terms if not factors)
    scales = np.array([scale for scale, factors in terms if factors])
    if not len(scales):
        return fixed, fixed
    varying = [factors for _, factors in terms if factors]
    values = [np.unique(np.stack(column), axis=1) for column in zip(*varying, strict=True)]
    if math.prod(value.shape[1] for value in values) > _MOST_COMBINED:
        ends = [sorted(_ends(value[t] for value in values)) for t in range(len(scales))]
        sides = np.sort(scales[:, None] * np.array(ends), axis=1).sum(axis=0)
        return fixed + float(sides[0]), fixed + float(sides[1])
    combined = np.ones((len(scales), 1))
    for value in values:
        combined = (combined[:, :, None] * value[:, None, :]).reshape(len(scales), -1)
    sums = scales @ combined
    return fixed + float(sums.min()), fixed + float(sums.max())


def _ends(factors: Iterator[Floats]) -> tuple[float, float]:
    """The least and the largest product of one value of each factor."""
    low = high = 1.0
    for factor in factors:
        products = [end * pick(factor) for end in (low, high) for pick in (np.min, np.max)]
        low, high = float(min(products)), float(max(products))
    return low, high
