"""Any channel on few positions, as a table: the probability of every report from every position.

P(y | x) = weights[x][y] / 2^64, whole numbers whose rows add up to 2^64 exactly. A device looks a
random word up in the running sums of its row. The decoder is the inverse of the table or, where
there are more reports than positions, the one with the least variance for people spread evenly,
or as a prior says.
Whoever invents a channel has to find the weights; everything else follows from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from metricldp.basics.errors import CertificateError, QueryError
from metricldp.basics.numbers import spread_of
from metricldp.mechanisms.channel import Floats, Integers
from metricldp.mechanisms.features import IntegerChannel
from metricldp.mechanisms.fields import Column
from metricldp.mechanisms.lookup import Lookup
from metricldp.mechanisms.randomness import Randomness
from metricldp_core import distributions as core
from metricldp_core.exact import WORD

_ASTRAY = 1e-6
"""A decoder that is off by more than this tells nothing."""


@dataclass(frozen=True)
class Table(IntegerChannel):
    """One integer: the report y of position x with probability weights[x][y] / 2^64."""

    weights: tuple[tuple[int, ...], ...]
    prior: tuple[float, ...] | None = field(default=None, kw_only=True)
    """How people are spread, for the decoder; evenly where nothing is said."""

    mechanism: ClassVar[str] = "table"

    @classmethod
    def of(cls, weights: Sequence[Sequence[int]]) -> Table:
        """A row for each position; rows that do not add up to 2^64 are refused."""
        rows = tuple(tuple(int(weight) for weight in row) for row in weights)
        for x, row in enumerate(rows):
            if len(row) != len(rows[0]) or min(row) < 0 or sum(row) != WORD:
                raise CertificateError(
                    f"row {x} of the table is not a distribution: it needs {len(rows[0])} whole "
                    "numbers of at least 0 that add up to 2^64"
                )
        return cls(rows)

    @property
    def size(self) -> int:  # type: ignore[override]
        return len(self.weights)

    @property
    def outputs(self) -> int:
        return len(self.weights[0])

    @cached_property
    def distribution(self) -> core.Table:
        return core.Table(self.weights)

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self.weights)

    def encode(self, positions: Integers, randomness: Randomness) -> Column:
        drawn = self._lookup.many(positions.astype(np.int64), randomness)
        return np.asarray(drawn.astype(self.field.dtype))

    @cached_property
    def _shares(self) -> Floats:
        return np.array([[weight / WORD for weight in row] for row in self.weights])

    @cached_property
    def _decoder(self) -> Floats:
        """(size, outputs): D with D P^T = 1, of least variance for people spread as said."""
        means = spread_of(self.prior, self.size) @ self._shares
        scale = np.sqrt(np.maximum(means, 2.0**-64))
        decoder = np.linalg.pinv(self._shares.T / scale[:, None]) / scale
        astray = np.abs(decoder @ self._shares.T - np.eye(self.size)).max(axis=1)
        if astray.max() > _ASTRAY:
            raise QueryError(
                f"the table does not determine the count of position {int(np.argmax(astray))}; "
                "change its weights"
            )
        return np.asarray(decoder)

    def coefficients(self, functions: Floats) -> Floats:
        return np.asarray(functions @ self._decoder)

    def cells(self, totals: Floats) -> Floats:
        return np.tensordot(self._decoder, totals, axes=1)

    def mean(self, values: Floats) -> Floats:
        return np.asarray(values @ self._shares.T)

    def spread(self, shares: Floats) -> Floats:
        return np.asarray(shares @ self._shares)

    def probability(self, x: int, report: Column) -> Fraction:
        return Fraction(self.weights[x][int(report)], WORD)
