"""Tables: any channel on few positions, by the probability of every report from every position.

P(y | x) = weights[x][y] / 2^64, integers whose rows sum to 2^64. The estimator is the inverse of
the table or, if there are more reports than positions, the best one under a prior. Whoever invents
a mechanism has to find the weights; everything else follows from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from metricldp.basics.errors import CertificateError
from metricldp.mechanisms.channel import CoreChannel, IntegerChannel, Integers
from metricldp.mechanisms.fields import Column
from metricldp.mechanisms.moments import OneHotMatrix, Prior
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.sampling import Lookup
from metricldp_core import distributions as core
from metricldp_core.exact import WORD


@dataclass(frozen=True)
class TableChannel(CoreChannel, IntegerChannel):
    """One integer: the report y of position x with probability weights[x][y] / 2^64."""

    distribution: core.Table
    prior: Prior = field(default=None, kw_only=True)
    """The distribution of positions for which the estimator is best; None is uniform."""

    @classmethod
    def of(cls, weights: Sequence[Sequence[int]]) -> TableChannel:
        """A row for each position; rows that do not sum to 2^64 are rejected."""
        rows = tuple(tuple(int(weight) for weight in row) for row in weights)
        for x, row in enumerate(rows):
            if len(row) != len(rows[0]) or min(row) < 0 or sum(row) != WORD:
                raise CertificateError(
                    f"row {x} of the table is not a distribution: it needs {len(rows[0])} whole "
                    "numbers of at least 0 that add up to 2^64"
                )
        return cls(core.Table(rows))

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self.distribution.weights)

    def sample(self, positions: Integers, randomness: Randomness) -> Column:
        drawn = self._lookup.many(positions.astype(np.int64), randomness)
        return np.asarray(drawn.astype(self.field.dtype))

    @cached_property
    def moments(self) -> OneHotMatrix:
        weights = self.distribution.weights
        return OneHotMatrix(np.array([[w / WORD for w in row] for row in weights]), self.prior)
