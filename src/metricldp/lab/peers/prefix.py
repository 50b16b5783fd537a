"""Laplace prefix sums: the local version of Haney, Machanavajjhala and Ding (VLDB 2015) on a line.

Under the line's metric two neighbours differ in one prefix sum only, by 1. So every prefix sum is
reported with noise of epsilon per unit, and nothing has to be shared out: the policy-specific
transform of Haney et al., and the prefix strategy of the matrix mechanism. It is the one peer that
keeps the metric of a line, epsilon per step, and not one epsilon between any two values.

Published variance of a person at each end of a range inside the domain: 2 / epsilon^2, that of
Laplace noise. Its discrete twin has 1 / (2 sinh^2(epsilon / 2)), less by a factor of
1 - epsilon^2/12 + ...
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from metricldp.basics.errors import InvalidSpecError
from metricldp.mechanisms import MatrixChannel
from metricldp.mechanisms.matrix import MOST_POSITIONS


class Prefix(MatrixChannel):
    """A noisy indicator of "at most k" for every k but the last, in windows that never clip."""

    mechanism: ClassVar[str] = "prefix"

    @classmethod
    def for_epsilon(cls, size: int, epsilon: Fraction, reach: int | None = None) -> Self:
        if size > MOST_POSITIONS:
            raise InvalidSpecError(
                f"{size:,} positions are too many for prefix sums; use at most {MOST_POSITIONS:,}"
            )
        return cls.of(np.tri(size, dtype=np.int64)[:-1], [epsilon] * (size - 1), reach)
