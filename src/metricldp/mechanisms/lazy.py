"""Lazy noise: a position as it is, with some probability, else with geometric noise.

It is what turns clipped geometric noise with a larger epsilon into that with a smaller one: with
a = e^-E before and b = e^-E' after, positions inside stay with probability a (1 - b)^2 / (b (1 -
a)^2), the two ends with a (1 - b) / (b (1 - a)), and the noise is the one that is wanted at last.
(The inverse of the first is a second difference, and of the second's rows that is a multiple of
themselves less the position itself.)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from metricldp.mechanisms.channel import Floats, Integers
from metricldp.mechanisms.features import IntegerChannel
from metricldp.mechanisms.fields import Column
from metricldp.mechanisms.geometric import Geometric
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.sampling import bernoulli, lanes, words_for
from metricldp_core.distributions import LazyGeometric
from metricldp_core.exact import WORD, exp_bounds, floor_of


@dataclass(frozen=True)
class Lazy(IntegerChannel):
    """The position with probability keep / 2^64, or end / 2^64 at an end; else noise is added."""

    of: Geometric
    keep: int
    end: int

    mechanism: ClassVar[str] = "lazy"

    @classmethod
    def between(cls, size: int, before: Fraction, after: Fraction) -> Lazy:
        """What makes noise with epsilon `after` of noise with a larger one."""
        a, b = (exp_bounds(-epsilon)[0] for epsilon in (before, after))
        end = a * (1 - b) / (b * (1 - a))
        keep = end * (1 - b) / (1 - a)
        shares = (max(1, floor_of(share * WORD)) for share in (keep, end))
        return cls(Geometric.for_epsilon(size, after), *shares)

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.of.size

    def encode(self, positions: Integers, randomness: Randomness) -> Column:
        count = len(positions)
        words = words_for(count)
        inside, outside = (
            lanes(bernoulli(randomness, share, words), count) for share in (self.keep, self.end)
        )
        at_end = (positions == 0) | (positions == self.size - 1)
        stays = np.where(at_end, outside, inside).astype(bool)
        moved = self.of.encode(positions, randomness)
        return np.where(stays, positions, moved).astype(self.field.dtype)

    @cached_property
    def distribution(self) -> LazyGeometric:
        return LazyGeometric(self.of.distribution, self.keep, self.end)

    @cached_property
    def _stays(self) -> Floats:
        found = np.full(self.size, self.keep / WORD)
        found[[0, -1]] = self.end / WORD
        return found

    @cached_property
    def _inverse(self) -> Floats:
        return np.asarray(np.linalg.inv(self.mean(np.eye(self.size)).T), dtype=np.float64)

    def coefficients(self, functions: Floats) -> Floats:
        return np.asarray(functions @ self._inverse.T)

    def cells(self, totals: Floats) -> Floats:
        return np.tensordot(self._inverse.T, totals, axes=1)

    def mean(self, values: Floats) -> Floats:
        return np.asarray(self._stays * values + (1 - self._stays) * self.of.mean(values))

    def spread(self, shares: Floats) -> Floats:
        return np.asarray(self._stays * shares + self.of.spread((1 - self._stays) * shares))

    def probability(self, x: int, report: Column) -> Fraction:
        stays = Fraction(self.end if x in (0, self.size - 1) else self.keep, WORD)
        moved = (1 - stays) * self.of.probability(x, report)
        return moved + stays if int(report) == x else moved
