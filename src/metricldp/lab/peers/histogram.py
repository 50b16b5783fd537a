"""Histogram encoding: Laplace noise on a one for the own value and on a zero for every other.

Two values differ in two entries by 1 each, so noise of scale 2/epsilon keeps epsilon. The collector
adds the noisy numbers up, or else the device only says which of them are above a threshold. Both
versions are from Wang, Blocki, Li and Jha, "Locally Differentially Private Protocols for Frequency
Estimation" (USENIX Security 2017).
"""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np

from metricldp.basics.errors import InvalidSpecError
from metricldp.lab.peers.unary import AlikeUnary
from metricldp.mechanisms import MatrixChannel
from metricldp.mechanisms.matrix import MOST_POSITIONS
from metricldp_core.exact import WORD, ceil_of, exp_bounds, floor_of

_GRID = 1 << 10
"""Thresholds are multiples of 1 / 2^10: the variance is flat there, within a millionth."""


class HistogramSum(MatrixChannel):
    """The noisy numbers, in whole steps: two-sided geometric noise of epsilon/2 per unit.

    Published variance of each number: 8 / epsilon^2, that of Laplace noise. Geometric noise has
    2 q / (1 - q)^2 with q = e^(-epsilon/2): less, by 1/6 - epsilon^2/480 and smaller terms. Exactly
    one value is true, so the decoder spreads what is missing over all values; of m values, the
    variance of a frequency is that of the noise times 1 - 1/m.
    """

    mechanism: ClassVar[str] = "histogram-sum"

    @classmethod
    def for_epsilon(cls, size: int, epsilon: Fraction, reach: int | None = None) -> Self:
        """Every value a row of its own; without a reach the noise is never clipped."""
        if size > MOST_POSITIONS:
            raise InvalidSpecError(
                f"{size:,} positions are too many for mechanism 'histogram-sum'; "
                f"use at most {MOST_POSITIONS:,}"
            )
        return cls.of(np.eye(size, dtype=np.int64), [epsilon / 2] * size, reach)


class HistogramThreshold(AlikeUnary):
    """Which of the noisy numbers are above theta: bits, of which the own one is 1 more often.

    With Laplace noise of scale 2/epsilon and theta between 1/2 and 1,

        p = 1 - e^(epsilon/2 (theta - 1)) / 2,   q = e^(-epsilon/2 theta) / 2.

    Published variance of a frequency, which theta minimises, for each person with another value:

        (2 e^(epsilon theta/2) - 1) / (1 + e^(epsilon (theta - 1/2)) - 2 e^(epsilon theta/2))^2.

    That is q (1 - q) / (p - q)^2. What the bits tell is less than what the numbers would: their
    worst ratio p (1 - q) / (q (1 - p)) is below e^epsilon, so epsilon is kept and some of it thrown
    away. The certificate states the real loss.
    """

    mechanism: ClassVar[str] = "histogram-threshold"

    @classmethod
    def for_epsilon(cls, size: int, epsilon: Fraction) -> Self:
        """The best theta; p rounded down and q rounded up."""
        p, q = _bits(best_threshold(epsilon), epsilon)
        return cls.with_integers(size, floor_of(p * WORD), ceil_of(q * WORD))


@lru_cache(maxsize=64)
def best_threshold(epsilon: Fraction) -> Fraction:
    """The theta of the smallest variance, found with fractions: the same on every machine.

    The variance falls and then rises in theta, so halving finds where it turns.
    """
    steps = range(_GRID // 2, _GRID)

    def turned(step: int) -> bool:
        here, there = (_variance(Fraction(k, _GRID), epsilon) for k in (step, step + 1))
        return here <= there

    return Fraction(steps[0] + bisect_left(steps, True, key=turned), _GRID)


def _variance(theta: Fraction, epsilon: Fraction) -> Fraction:
    p, q = _bits(theta, epsilon)
    return q * (1 - q) / (p - q) ** 2


def _bits(theta: Fraction, epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """p from below and q from above."""
    own = exp_bounds(epsilon / 2 * (theta - 1))[1]
    other = exp_bounds(-epsilon / 2 * theta)[1]
    return 1 - own / 2, other / 2
