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
from metricldp.mechanisms.moments import Exchangeable
from metricldp_core.exact import log_of


class Supports(Baseline, Channel):
    """Features: the constant 1, then which of two values each support has."""

    same_ratio_for_all_pairs = True
    two_values: ClassVar[tuple[int, int] | None] = (0, 1)

    @property
    @abstractmethod
    def moments_of_supports(self) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        """E[S_x], E[S_k], E[S_x S_k] and E[S_k S_k'], given x."""

    @cached_property
    def moments(self) -> Exchangeable:
        assert self.two_values
        return Exchangeable(self.size, self.moments_of_supports, *self.two_values)

    def log_likelihood(self, column: Column) -> Floats:
        """All values that a report supports are equally likely, and so are all others."""
        assert self.two_values
        supported = self.features(column)[:, 1:] == self.two_values[1]
        found = np.empty(supported.shape)
        for kind in (True, False):
            if len(first := np.argwhere(supported == kind)[:1]):
                ((row, x),) = first
                found[supported == kind] = log_of(self.probability(int(x), column[row]))
        return found
