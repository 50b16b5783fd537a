"""Unary encoding with the same two probabilities for every value: the two published ones.

A bit for each value is 1 with probability p if it is the person's own and q otherwise. The worst
report of two values has a one at the first and a zero at the second, p (1 - q) / (q (1 - p)).
Both versions are from Wang, Blocki, Li and Jha, "Locally Differentially Private Protocols for
Frequency Estimation" (USENIX Security 2017), who write n people's variance as a formula of
v = q (1 - q) / (p - q)^2, that of one person with another value: the published estimator of a
frequency is the sum of (b - q)/(p - q) over people.

The estimator is that of `UnaryChannel`: it subtracts a level first, because exactly one value is
true.
Of m values, the variance of a frequency is then v (1 - 1/m) + (w - v)/m^2 for other people and
v (1 - 1/m) + (w - v)(1 - 1/m)^2 for those with the value, where w = p (1 - p) / (p - q)^2. That is
about 1/m less than the published v and w.
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Self

from metricldp.basics.errors import CertificateError
from metricldp.mechanisms import UnaryChannel
from metricldp_core.exact import WORD, ceil_of, exp_bounds, floor_of


class AlikeUnary(UnaryChannel):
    """Unary encoding in which all values have the same p and q."""

    @classmethod
    def with_integers(cls, size: int, own: int, other: int) -> Self:
        """p = own / 2^64 and q = other / 2^64, if they tell anything at all."""
        if not 0 < other < own < WORD:
            raise CertificateError(
                f"the bits of {cls.mechanism} are ones with probability {own / WORD:.3g} and "
                f"{other / WORD:.3g}, too near for 64-bit words; use another epsilon"
            )
        return cls.of((own,) * size, (other,) * size)


class UnarySymmetric(AlikeUnary):
    """p = e^(epsilon/2) / (1 + e^(epsilon/2)) and q = 1 - p, basic one-time RAPPOR.

    Published variance: v = w = e^(epsilon/2) / (e^(epsilon/2) - 1)^2. The encoding is from
    Erlingsson, Pihur and Korolova, "RAPPOR" (CCS 2014).
    """

    mechanism: ClassVar[str] = "unary-symmetric"

    @classmethod
    def for_epsilon(cls, size: int, epsilon: Fraction) -> Self:
        """p rounded down: both p/q and (1 - q)/(1 - p) are p/(1 - p), at most e^(epsilon/2)."""
        half = exp_bounds(epsilon / 2)[0]
        own = floor_of(half / (1 + half) * WORD)
        return cls.with_integers(size, own, WORD - own)


class UnaryOptimised(AlikeUnary):
    """p = 1/2 and q = 1/(e^epsilon + 1), the smallest v that epsilon allows.

    Published variance: v = 4 e^epsilon / (e^epsilon - 1)^2 and w = v + 1, so n v + n f where a
    share f of n people have the value.
    """

    mechanism: ClassVar[str] = "unary-optimised"

    @classmethod
    def for_epsilon(cls, size: int, epsilon: Fraction) -> Self:
        """q rounded up: the worst ratio is (1 - q)/q."""
        other = ceil_of(WORD / (exp_bounds(epsilon)[0] + 1))
        return cls.with_integers(size, WORD // 2, other)
