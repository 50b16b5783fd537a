"""Exact arithmetic around exp and log: the only place where a real number meets an integer.

A privacy promise compares a ratio of integers with e^E. Here e^E is enclosed between two
fractions, so that every rounding goes the way that keeps the promise.
"""

from __future__ import annotations

import math
from fractions import Fraction


def as_written(number: float) -> Fraction:
    """The decimal that a float is written as: 0.1 is one tenth, not the nearest binary number."""
    return Fraction(repr(float(number)))


ONE = 1 << 64
"""Probabilities are integers over this denominator, everywhere."""
_LONG = 1 << 12
"""Binary digits from which on a ratio is rounded up to an eighth of them."""


def exp_bounds(exponent: Fraction, precision: int = 256) -> tuple[Fraction, Fraction]:
    """Two fractions with lower <= e^exponent <= upper, close to 2^-precision relative."""
    if exponent < 0:
        lower, upper = exp_bounds(-exponent, precision)
        return 1 / upper, 1 / lower
    halvings = math.ceil(exponent).bit_length() + 8
    scale = precision + 2 * halvings + 16
    one = 1 << scale
    numerator, denominator = exponent.numerator, exponent.denominator << halvings
    # Taylor series of the halved exponent (below 2^-8), truncated down and, with the whole
    # remainder and one unit per truncation added, up.
    term, lower_sum, terms = one, one, 0
    while term:
        terms += 1
        term = term * numerator // (denominator * terms)
        lower_sum += term
    upper_sum = lower_sum + 2 * terms + 2
    for _ in range(halvings):
        lower_sum = lower_sum * lower_sum >> scale
        upper_sum = (upper_sum * upper_sum >> scale) + 1
    return Fraction(lower_sum, one), Fraction(upper_sum, one)


def at_most_exp(ratio: Fraction, exponent: Fraction) -> bool:
    """Whether ratio <= e^exponent, decided without rounding.

    e to a rational power other than 0 is irrational, so raising the precision always decides.
    """
    if exponent == 0:
        return ratio <= 1
    if exponent > 0 and ratio.numerator <= ratio.denominator << floor_of(exponent):
        return True  # 2 < e
    precision = 256
    while True:
        lower, upper = exp_bounds(exponent, precision)
        if ratio <= lower:
            return True
        if ratio >= upper:
            return False
        precision *= 2


def log_bounds(value: Fraction) -> tuple[Fraction, Fraction]:
    """The two multiples of 2^-128 next to ln value, lower < ln value <= upper.

    They are found from a double by Newton's steps and proved by exponentials: whatever the machine
    takes for the logarithm, these are the only two.
    """
    guess = Fraction(log(value))
    for _ in range(2):
        better = guess + value * exp_bounds(-guess)[0] - 1
        guess = Fraction(floor_of(better * (1 << 192)), 1 << 192)
    unit = Fraction(1, 1 << 128)
    lower = floor_of(guess / unit) * unit
    while at_most_exp(value, lower):
        lower -= unit
    while not at_most_exp(value, lower + unit):
        lower += unit
    return lower, lower + unit


def log(ratio: Fraction) -> float:
    """The natural logarithm of a positive fraction of any size, to double precision."""
    above, below = ratio.numerator, ratio.denominator
    if abs(above - below) * 4 < below:
        return math.log1p((above - below) / below)
    return math.log(above) - math.log(below)


def shortened(ratio: Fraction) -> Fraction:
    """A fraction of more than 4,096 binary digits rounded up to 512 behind the point."""
    if ratio.denominator.bit_length() <= _LONG:
        return ratio
    return Fraction(ceil_of(ratio * (1 << _LONG // 8)), 1 << _LONG // 8)


def ceil_of(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


def floor_of(value: Fraction) -> int:
    return value.numerator // value.denominator
