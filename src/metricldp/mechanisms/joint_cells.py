"""Several attributes as one: a channel of one integer over the cells of their grid.

The positions of the channel are the cells, the last attribute fastest, and a person's report is
that of their cell. So every function of the cell has an estimator, not only products.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from metricldp.basics.numbers import root_of
from metricldp.mechanisms.additive_channel import MOST_SOLVED, AdditiveChannel
from metricldp.mechanisms.channel import Integers
from metricldp.mechanisms.fields import Column, Number
from metricldp.mechanisms.joint import (
    Columns,
    Functions,
    JointChannel,
    Part,
    People,
    Sizes,
    Term,
    kron,
    products,
)
from metricldp.mechanisms.moments import Floats
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.table import TableChannel
from metricldp_core.distributions import Distribution

REPORT = ""
"""The only part of a report: its column is called after all attributes."""
_NEGLIGIBLE = 1e-15
"""Rows of a root that are this fraction of it are rounding errors."""
_AT_ONCE = 1 << 17
"""Coefficients at a time, so that they stay in the cache."""


@dataclass(frozen=True, eq=False)
class Cells(JointChannel):
    """One integer, the report of a channel whose positions are cells."""

    sizes: Sizes
    one: TableChannel | AdditiveChannel

    @cached_property
    def fields(self) -> Mapping[Part, Number]:
        return {REPORT: Number(self.one.outputs)}

    @property
    def distribution(self) -> Distribution:
        return self.one.distribution

    def _cell(self, positions: Sequence[Any]) -> Any:
        """The number of one cell, or of many."""
        strides = [math.prod(self.sizes[d + 1 :]) for d in range(len(self.sizes))]
        return sum(x * stride for x, stride in zip(positions, strides, strict=True))

    def sample(self, positions: Sequence[Integers], randomness: Randomness) -> dict[Part, Column]:
        return {REPORT: self.one.sample(np.asarray(self._cell(positions)), randomness)}

    def probability(self, x: People, report: Mapping[Part, int]) -> Fraction:
        return self.one.probability(self._cell(x), np.asarray(report[REPORT]))

    def log_likelihood(self, columns: Columns) -> Floats:
        return self.one.log_likelihood(columns[REPORT]).reshape(-1, *self.sizes)

    # Estimation

    def decoder(self, functions: Functions) -> Floats:
        return self.one.moments.coefficients(products(functions))

    def mean_square(self, grams: Functions) -> float:
        """That of products of Gram matrices, under a uniform prior."""
        if self.one.size <= MOST_SOLVED:
            return self.one.moments.mean_square(kron(grams))
        roots = [root_of(gram) for gram in grams]
        roots = [root[(root**2).sum(axis=1) > _NEGLIGIBLE * (root**2).sum()] for root in roots]
        rows = np.indices([len(root) for root in roots]).reshape(len(roots), -1)
        total, step = 0.0, max(1, _AT_ONCE // self.one.outputs)
        for start in range(0, rows.shape[1], step):
            chosen = rows[:, start : start + step]
            some = [root[row] for root, row in zip(roots, chosen, strict=True)]
            total += self.one.moments.mean_square_of_rows(products(some))
        return total

    def _decoded(self, functions: Functions, columns: Columns) -> Floats:
        return self.decoder(functions)[:, columns[REPORT]]

    def _influence(self, functions: Functions) -> Floats:
        return np.asarray(np.abs(self.decoder(functions)).max(axis=1))

    def _second_moment(self, functions: Functions, others: Functions) -> list[Term]:
        """That of every cell: a term for each line of cells along the longest attribute."""
        product = self.decoder(functions) * self.decoder(others)
        second = self.one.moments.mean(product).reshape(-1, *self.sizes)
        along, count = int(np.argmax(self.sizes)), len(second)
        rest = [1 if d == along else size for d, size in enumerate(self.sizes)]
        terms = []
        for cell in np.ndindex(*rest):
            line = second[(slice(None), *cell[:along], slice(None), *cell[along + 1 :])]
            factors = [
                line if d == along else np.tile(np.eye(size)[x], (count, 1))
                for d, (x, size) in enumerate(zip(cell, self.sizes, strict=True))
            ]
            terms.append(Term(np.ones(count), tuple(factors)))
        return terms
