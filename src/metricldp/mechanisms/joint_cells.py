"""Several attributes as one: a channel of one integer over the cells of their grid.

The positions of the channel are the cells, along the last attribute first, and a person's report is
that of their cell. So every function of the cell has a decoder, not only products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from metricldp.mechanisms.channel import Floats, Integers
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
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.table import Table
from metricldp.mechanisms.torus_channel import Wound, strides_of
from metricldp_core.distributions import Distribution

REPORT = ""
"""The only part of a report: its column is called after all attributes."""


@dataclass(frozen=True, eq=False)
class Cells(JointChannel):
    """One integer, the report of a channel whose positions are cells."""

    sizes: Sizes
    one: Table | Wound

    mechanism: ClassVar[str] = "cells"

    @cached_property
    def _rows(self) -> Sizes:
        """How many cells one step along each attribute is."""
        return strides_of(self.sizes)

    @cached_property
    def fields(self) -> Mapping[Part, Number]:
        return {REPORT: Number(self.one.outputs)}

    @property
    def distribution(self) -> Distribution:
        return self.one.distribution

    def _cell(self, positions: Sequence[Any]) -> Any:
        """The number of one cell, or of many."""
        return sum(x * row for x, row in zip(positions, self._rows, strict=True))

    def encode(self, positions: Sequence[Integers], randomness: Randomness) -> dict[Part, Column]:
        return {REPORT: self.one.encode(np.asarray(self._cell(positions)), randomness)}

    def probability(self, x: People, report: Mapping[Part, int]) -> Fraction:
        return self.one.probability(self._cell(x), np.asarray(report[REPORT]))

    def log_chances(self, columns: Columns) -> Floats:
        return self.one.log_chances(columns[REPORT]).reshape(-1, *self.sizes)

    # Decoding

    def decoder(self, functions: Functions) -> Floats:
        if isinstance(self.one, Wound):
            return self.one.product_coefficients(functions)
        return self.one.coefficients(products(functions))

    def mean_square(self, grams: Functions) -> float:
        """tr G M^-1 for people spread evenly, where G is a product with a factor for each."""
        if isinstance(self.one, Wound):
            return self.one.product_mean_square(grams)
        return self.one.mean_square(kron(grams))

    def _decoded(self, functions: Functions, columns: Columns) -> Floats:
        return self.decoder(functions)[:, columns[REPORT]]

    def _influence(self, functions: Functions) -> Floats:
        return np.asarray(np.abs(self.decoder(functions)).max(axis=1))

    def _moment(self, functions: Functions, others: Functions) -> list[Term]:
        """That of every cell: a term for each line of cells along the longest attribute."""
        product = self.decoder(functions) * self.decoder(others)
        second = self.one.mean(product).reshape(-1, *self.sizes)
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
