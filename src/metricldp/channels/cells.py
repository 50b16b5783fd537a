"""Several attributes as one: a channel of one integer over the cells of their grid.

Every cell has a position of the channel, sum_d x_d strides_d, and a person's report is that of
their cell's position. With P(y | c) the law of cell c and pbar its mean over cells, M = sum_y
P(y | c) P(y | c') / pbar(y) and u = M^-1 f, the decoder F(y) = sum_c u(c) P(y | c) / pbar(y) is
unbiased for any function f of the cell, and the best one for people spread evenly, or as the prior
of the channel says, by which pbar is then weighed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from metricldp.basics.errors import QueryError
from metricldp.channels.base import Floats, Integers
from metricldp.channels.fields import Column, Number
from metricldp.channels.joint import Columns, Functions, JointChannel, Part, People, Sizes, Term
from metricldp.channels.shaped import Shaped
from metricldp.channels.table import Table
from metricldp.coins.stream import Coins
from metricldp.coins.tape import Tape
from metricldp.metrics.grid import Grid

REPORT = ""
"""The only part of a report: its column is called after all attributes."""
_ASTRAY = 1e-6
"""A decoder that is off by more than this tells nothing."""


@dataclass(frozen=True, eq=False)
class Cells(JointChannel):
    """One integer, the report of a channel whose positions are cells."""

    sizes: Sizes
    strides: Sizes
    """How many positions of the channel one step along each attribute is."""
    one: Table | Shaped

    mechanism: ClassVar[str] = "cells"

    @classmethod
    def in_rows(cls, sizes: Sizes, one: Table | Shaped) -> Cells:
        """Cells one after the other, along the last attribute first."""
        return cls(sizes, tuple(math.prod(sizes[d + 1 :]) for d in range(len(sizes))), one)

    @cached_property
    def fields(self) -> Mapping[Part, Number]:
        return {REPORT: Number(self.one.outputs)}

    def law(self) -> dict[str, Any]:
        sizes, strides = list(self.sizes), list(self.strides)
        return {"law": "cells", "sizes": sizes, "strides": strides, "of": self.one.law()}

    def _position(self, positions: Sequence[Any]) -> Any:
        """Of the channel, of one cell or of many."""
        return sum(x * stride for x, stride in zip(positions, self.strides, strict=True))

    def encode(self, positions: Sequence[Integers], coins: Coins) -> dict[Part, Column]:
        return {REPORT: self.one.encode(np.asarray(self._position(positions)), coins)}

    def draw(self, positions: Sequence[int], tape: Tape) -> list[int]:
        return [self.one.blur(self._position(positions), tape)]

    def probability(self, x: People, report: Mapping[Part, int]) -> Fraction:
        return self.one.probability(self._position(x), np.asarray(report[REPORT]))

    def log_chances(self, columns: Columns) -> Floats:
        positions = self._position(list(np.indices(self.sizes)))
        return np.asarray(self.one.log_chances(columns[REPORT])[:, positions])

    def worst_ratio(self, x: People, other: People) -> Fraction:
        return self.one.worst_ratio(self._position(x), self._position(other))

    def worst_pairs(self) -> Iterator[tuple[People, People, Fraction]]:
        """Every pair of cells."""
        for x, other in combinations(np.ndindex(*self.sizes), 2):
            yield x, other, self.worst_ratio(x, other)

    def proving_pairs(self, metric: Grid) -> Iterator[tuple[int, int]]:
        """The pairs of cells to be looked at: of noise that is added, one for each way."""
        if self.one.is_added:
            return metric.one_pair_each()
        return super().proving_pairs(metric)

    # Decoding

    @cached_property
    def _shares(self) -> Floats:
        """P(y | c): (cells, reports)."""
        logs = self.log_chances(self.every_report())
        return np.exp(logs).reshape(len(logs), -1).T.copy()

    @property
    def _likely(self) -> Floats:
        """P(y | c) / pbar(y)."""
        return np.asarray(self._shares / np.average(self._shares, axis=0, weights=self.one.prior))

    @cached_property
    def _decoder(self) -> Floats:
        """Of the count of each cell: (cells, reports)."""
        shares, everywhere = self._shares, np.eye(len(self._shares))
        likely = self._likely
        try:
            found = np.linalg.solve(likely @ shares.T, likely)
        except np.linalg.LinAlgError:
            found = np.zeros_like(shares)
        found = found + (everywhere - found @ shares.T) @ found  # what rounding left
        if not np.abs(found @ shares.T - everywhere).max() <= _ASTRAY:
            raise QueryError(
                "these reports do not tell cells apart; use a larger epsilon, or another mechanism"
            )
        return np.asarray(found)

    def mean_square(self, gram: Floats) -> float:
        """tr G M^-1: the sum over a workload's rows of the mean square of their decoders."""
        return float(np.trace(np.linalg.solve(self._likely @ self._shares.T, gram)))

    def decoder(self, functions: Functions) -> Floats:
        return np.asarray(self._products(functions) @ self._decoder)

    def _products(self, functions: Functions) -> Floats:
        """At every cell."""
        return reduce(lambda a, b: (a[:, :, None] * b[:, None]).reshape(len(a), -1), functions)

    def _decoded(self, functions: Functions, columns: Columns) -> Floats:
        return self.decoder(functions)[:, columns[REPORT]]

    def _influence(self, functions: Functions) -> Floats:
        return np.asarray(np.abs(self.decoder(functions)).max(axis=1))

    def _moment(self, functions: Functions, others: Functions) -> list[Term]:
        """That of every cell: a term for each line of cells along the longest attribute."""
        product = self.decoder(functions) * self.decoder(others)
        second = (product @ self._shares.T).reshape(-1, *self.sizes)
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
