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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import QueryError
from metricldp.mechanisms.channel import IntegerChannel, Integers
from metricldp.mechanisms.fields import Column, Number
from metricldp.mechanisms.moments import Floats
from metricldp.mechanisms.randomness import Randomness
from metricldp_core.distributions import Distribution
from metricldp_core.exact import log_of

Part = int | str
"""What a column of a report is about: one attribute, by its number, or all, by its role."""
People = tuple[int, ...]
"""A position of each attribute."""
Sizes = tuple[int, ...]
Functions = Sequence[Floats]
"""k functions (k, size) of each attribute, of which the products are decoded."""
Columns = Mapping[Part, Column]
MAX_KINDS = 1 << 20
"""Combinations of values that are gone through to bound what a person can add to a variance."""


@dataclass(frozen=True)
class Term:
    """scale times the product over attributes of a function of the position, for k rows at once."""

    scale: Floats
    """(k,)."""
    factors: tuple[Floats, ...] | None = None
    """(k, size) for each attribute; None for a constant, which need not be decoded."""


class JointChannel(ABC):
    """The way of several attributes from private positions to a report and back to answers."""

    mechanism: ClassVar[str]
    sizes: Sizes
    """How many positions each attribute has."""
    is_bits: ClassVar[bool] = False
    has_likelihood: ClassVar[bool] = True
    """Whether the probability of a single report can be told."""
    one: IntegerChannel | None = None
    """What a report is of, where it is one integer, so that reports make a table."""

    @property
    @abstractmethod
    def fields(self) -> Mapping[Part, Number]:
        """The columns of a report, in order."""

    @property
    @abstractmethod
    def distribution(self) -> Distribution:
        """The output distribution; its positions are cells, the last attribute fastest."""

    @property
    def bits(self) -> int:
        return sum(field.bits for field in self.fields.values())

    # The device ----------------------------------------------------------------------------------

    @abstractmethod
    def sample(self, positions: Sequence[Integers], randomness: Randomness) -> dict[Part, Column]:
        """Blur many people: the only step that sees private values."""

    # The certificate -----------------------------------------------------------------------------

    @abstractmethod
    def probability(self, x: People, report: Mapping[Part, int]) -> Fraction:
        """P(report | x), exactly, from the integers the sampler uses."""

    def log_likelihood(self, columns: Columns) -> Floats:
        """ln P(report | x) of every report from everybody, (n, *sizes), in floats."""
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        reports = [dict(zip(columns, row, strict=True)) for row in rows]
        found = np.full((len(reports), *self.sizes), -np.inf)
        for place, *x in np.ndindex(found.shape):
            if chance := self.probability(tuple(x), reports[place]):
                found[place, *x] = log_of(chance)
        return found

    def every_report(self) -> dict[Part, Column]:
        """All possible reports as columns, for proofs by enumeration; only for tiny domains."""
        grid = np.indices([field.outputs for field in self.fields.values()])
        return dict(zip(self.fields, grid.reshape(len(grid), -1), strict=True))

    # Decoding ------------------------------------------------------------------------------------
    # What is the same for everybody needs no report, so it costs nothing, whatever the channel.

    def decoded(self, functions: Functions, columns: Columns) -> Floats:
        """The decoder of each product at each report: (k, n).

        Decoders need not be linear: that of f + g may be another than
        that of f and that of g together, but both have the same mean.
        """
        known, found = constant(functions), self._decoded(functions, columns)
        return np.where(known[:, None], _first(functions)[:, None], found)

    def decoder(self, functions: Functions) -> Floats:
        """The decoder of each product at every report, where there are not too many to list."""
        raise NotImplementedError

    def mended(self, functions: Functions) -> Floats:
        """The same, where what is the same for everybody needs no report."""
        found, known = self.decoder(functions), constant(functions)
        found[known] = _first(functions)[known, None]
        return found

    def second_moment(self, functions: Functions, others: Functions | None = None) -> list[Term]:
        """E[F G | x] as a sum of products; else S."""
        others = functions if others is None else others
        known = constant(functions) | constant(others)
        terms = self._second_moment(functions, others)
        if not known.any():
            return terms
        products = tuple(f * g for f, g in zip(functions, others, strict=True))
        unknown = [Term(np.where(known, 0.0, term.scale), term.factors) for term in terms]
        return [*unknown, Term(known.astype(np.float64), products)]

    def influence(self, functions: Functions) -> Floats:
        """The largest |F(report)| of any report, or a bound of it: (k,)."""
        first = np.abs(_first(functions))
        return np.where(constant(functions), first, self._influence(functions))

    def output_range(self, functions: Functions) -> tuple[float, float]:
        """The least and the most that F(report) of the first product can be, or bounds of them."""
        if self.one is not None:
            found = self.mended(functions)[0]
            return float(found.min()), float(found.max())
        if constant(functions)[0]:
            known = float(_first(functions)[0])
            return known, known
        most = float(self.influence(functions)[0])
        return -most, most

    def skewness(self, functions: Functions) -> Floats:
        """How far one report can move each answer, or a bound of it: (k,)."""
        most = np.prod([np.abs(f).max(axis=1) for f in functions], axis=0)
        return np.where(constant(functions), 0.0, self.influence(functions) + most)

    @abstractmethod
    def _decoded(self, functions: Functions, columns: Columns) -> Floats:
        """The same for any functions, and so the two below."""

    @abstractmethod
    def _second_moment(self, functions: Functions, others: Functions) -> list[Term]: ...

    @abstractmethod
    def _influence(self, functions: Functions) -> Floats: ...

    def valued(self, terms: Sequence[Term], columns: Columns) -> Floats:
        """A decoder of a sum of terms at each report: (k, n)."""
        count = len(next(iter(columns.values())))
        found = np.zeros((len(terms[0].scale), count))
        for term in terms:
            decoded = 1.0 if term.factors is None else self.decoded(term.factors, columns)
            found = found + term.scale[:, None] * decoded
        return found


def constant(functions: Functions) -> npt.NDArray[np.bool_]:
    """Which of k products are the same for everybody: all factors are, or one is 0."""
    ends = [(f.min(axis=1), f.max(axis=1)) for f in functions]
    same = np.all([low == high for low, high in ends], axis=0)
    return np.asarray(same | np.any([(low == 0) & (high == 0) for low, high in ends], axis=0))


def _first(functions: Functions) -> Floats:
    """What k products are at the first position of every attribute."""
    return np.asarray(np.prod([f[:, 0] for f in functions], axis=0))


def products(functions: Functions) -> Floats:
    """What products of functions are at every cell, along the last attribute first."""
    return reduce(lambda a, b: (a[:, :, None] * b[:, None]).reshape(len(a), -1), functions)


def kron(matrices: Functions) -> Floats:
    """The product of matrices of each attribute, over cells."""
    return reduce(lambda a, b: np.asarray(np.kron(a, b)), matrices)


def kinds(rows: Sequence[Sequence[Term]]) -> Floats:
    """What sums of terms are, for every kind of person: (rows times k, kinds).

    Each attribute has few different values of all the factors of a query, and these are combined.
    Queries with fewer kinds than others repeat their last.
    """
    found = []
    for query in range(len(rows[0][0].scale)):
        products = [term.factors for row in rows for term in row if term.factors]
        factors = [[factor[query] for factor in product] for product in products]
        values = [np.unique(np.stack(column), axis=1) for column in zip(*factors, strict=True)]
        _check_kinds([value.shape[1] for value in values])
        combined = np.ones((len(factors), 1))
        for value in values:
            combined = (combined[:, :, None] * value[:, None, :]).reshape(len(factors), -1)
        parts, sums = iter(combined), []
        for row in rows:
            scaled = [term.scale[query] * (next(parts) if term.factors else 1.0) for term in row]
            sums.append(np.broadcast_to(sum(scaled), combined.shape[1:]))
        found.append(np.array(sums))
    most = max(sums.shape[1] for sums in found)
    padded = [np.pad(sums, ((0, 0), (0, most - sums.shape[1])), mode="edge") for sums in found]
    return np.stack(padded, axis=1).reshape(-1, most)


def summed(terms: Sequence[Term]) -> Floats:
    """The sum over all k rows of sums of terms, for every kind of person.

    It has an axis for each attribute, of length 1 where that makes no difference.
    """
    found: Floats = np.zeros(())
    for term in terms:
        if term.factors is None:
            found = found + term.scale.sum()
            continue
        factors = [f if np.ptp(f, axis=1).any() else f[:, :1] for f in term.factors]
        shape = [f.shape[1] for f in factors]
        _check_kinds(np.broadcast_shapes(found.shape, tuple(shape)))
        product = term.scale[:, None]
        for factor in factors[:-1]:
            product = (product[:, :, None] * factor[:, None, :]).reshape(len(factor), -1)
        found = found + (product.T @ factors[-1]).reshape(shape)
    return found


def _check_kinds(counts: Sequence[int]) -> None:
    if math.prod(counts) > MAX_KINDS:
        raise QueryError(
            "too many combinations of values for an exact error; use ranges, or a mean over "
            "fewer values"
        )
