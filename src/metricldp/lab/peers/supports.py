"""Channels of which a report supports some of the values, and treats all values alike.

Of a report the collector reads S_k, whether value k is supported. Given the value x, and for any
two others k and k',

    E[S_x] = p,   E[S_k] = d,   E[S_x S_k],   E[S_k S_k']

are the same whichever values they are. So S_k, less d, over p - d is an unbiased indicator of k,
and second moments have a closed form.
"""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from metricldp.lab.peers.distribution import Baseline
from metricldp.mechanisms import Channel, Column, Floats
from metricldp_core.exact import log_of


class Supports(Baseline, Channel):
    """Features: the constant 1, then which of two values each support has."""

    constant: ClassVar[bool] = True
    same_ratio_for_all_pairs = True
    two_values: ClassVar[tuple[int, int] | None] = (0, 1)

    @property
    def features(self) -> int:
        return 1 + self.size

    @property
    @abstractmethod
    def moments_of_supports(self) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        """E[S_x], E[S_k], E[S_x S_k] and E[S_k S_k'], given x."""

    @cached_property
    def _gap(self) -> float:
        """How much higher the mean of the feature of one's own value is."""
        assert self.two_values
        p, d, _, _ = self.moments_of_supports
        return float((p - d) * (self.two_values[1] - self.two_values[0]))

    @cached_property
    def _excess(self) -> tuple[float, float]:
        """What everybody pays for each square of a weight, and the difference at their own value.

        The weights w of a decoder add up to 0, so sum_k sum_k' w_k w_k' Cov(S_k, S_k' | x) is
        (A - B) sum_k w_k^2 + (A_x - A + 2 B - 2 B_x) w_x^2, for the variances A, A_x and the
        covariances B, B_x without and with x.
        """
        p, d, with_own, others = self.moments_of_supports
        a, own = d * (1 - d), p * (1 - p)
        b, b_own = others - d * d, with_own - p * d
        scale = (p - d) ** 2
        return float((a - b) / scale), float((own - a + 2 * b - 2 * b_own) / scale)

    def log_chances(self, column: Column) -> Floats:
        """All values that a report supports are equally likely, and so are all others."""
        assert self.two_values
        supported = self.expand(column)[:, 1:] == self.two_values[1]
        found = np.empty(supported.shape)
        for kind in (True, False):
            if len(first := np.argwhere(supported == kind)[:1]):
                ((row, x),) = first
                found[supported == kind] = log_of(self.probability(int(x), column[row]))
        return found

    def coefficients(self, functions: Floats) -> Floats:
        """F = l + sum_k (f(k) - l) S_k / (p - d), for the mean l of f.

        Any level is unbiased, as exactly one value is true; with the mean, d cancels out.
        """
        level = functions.mean(axis=-1, keepdims=True)
        return np.concatenate([level, (functions - level) / self._gap], axis=-1)

    def moment(self, functions: Floats, others: Floats | None = None) -> Floats:
        others = functions if others is None else others
        rest = functions - functions.mean(axis=-1, keepdims=True)
        products = rest * (others - others.mean(axis=-1, keepdims=True))
        everybody, more = self._excess
        paid = everybody * products.sum(axis=-1, keepdims=True) + more * products
        return np.asarray(functions * others + paid)

    def cells(self, totals: Floats) -> Floats:
        """Supports above their mean, and an equal share of all people."""
        rest = totals[1:] - totals[1:].mean(axis=0)
        return np.asarray(rest / self._gap + totals[0] / self.size)
