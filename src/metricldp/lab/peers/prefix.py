"""Laplace prefix sums: the local version of Haney, Machanavajjhala and Ding (VLDB 2015) on a line.

Under the line's metric two neighbours differ in one prefix sum only, by 1. So every prefix sum is
reported with noise of epsilon per unit, and nothing has to be shared out: the policy-specific
transform of Haney et al., and the prefix strategy of the matrix mechanism. It is the one peer that
keeps the metric of a line, epsilon per step, and not one epsilon between any two values.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from metricldp.basics.errors import SurveyError
from metricldp.channels import Matrix
from metricldp.design.plans import MOST_POSITIONS


class Prefix(Matrix):
    """A noisy indicator of "at most k" for every k but the last, in windows that never clip."""

    mechanism: ClassVar[str] = "prefix"
    made_for_a_line: ClassVar[bool] = True

    @classmethod
    def for_epsilon(cls, size: int, epsilon: Fraction, reach: int | None = None) -> Self:
        if size > MOST_POSITIONS:
            raise SurveyError(
                f"{size:,} positions are too many for prefix sums; use at most {MOST_POSITIONS:,}"
            )
        return cls.of(np.tri(size, dtype=np.int64)[:-1], [epsilon] * (size - 1), reach)


def published_variance(epsilon: float, cuts: int) -> float:
    """Var = cuts * 2 / epsilon^2 for one person and a range cut at one end or at both.

    Each cut is a prefix sum with Laplace noise of scale 1/epsilon. The
    noise in use is its discrete twin, with variance 2q / (1-q)^2, q = e^-epsilon, which is
    1 / (2 sinh^2(epsilon / 2)): smaller by a factor of 1 - epsilon^2/12 + ...
    """
    return cuts * 2 / epsilon**2


def exact_variance(epsilon: float, cuts: int) -> float:
    """The same for the discrete noise: cuts / (2 sinh^2(epsilon / 2))."""
    return cuts / (2 * math.sinh(epsilon / 2) ** 2)
