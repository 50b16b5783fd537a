"""Exact comparisons of fractions with powers of e.

A guarantee compares a ratio of integers with e^E for a rational E. e^E is enclosed between two
fractions, and the enclosure is refined until it decides. This is the only module in which a real
number meets an integer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache, reduce

WORD = 1 << 64
"""Probabilities are integers over this denominator, everywhere."""
CERTAIN = Fraction(1 << 2048)
"""Stands for this ratio and all above it, and for positions that a report distinguishes with
certainty. No distance allows it."""
_PLACES = 256
"""Binary places to which products of ratios are rounded up."""
_MOST = CERTAIN.numerator << _PLACES
_PRECISIONS = (256, 1024)
"""Binary digits of an enclosure of e^E, until it decides."""


@lru_cache(maxsize=1 << 10)
def exp_bounds(exponent: Fraction, precision: int = 256) -> tuple[Fraction, Fraction]:
    """Two fractions with lower <= e^exponent <= upper, close to 2^-precision relative."""
    if exponent < 0:
        lower, upper = exp_bounds(-exponent, precision)
        return 1 / upper, 1 / lower
    halvings = math.ceil(exponent).bit_length() + 8
    scale = precision + 2 * halvings + 16
    one = 1 << scale
    halved = (exponent.numerator << scale - halvings) // exponent.denominator
    # The Taylor series of the halved exponent, which is below 2^-8: the exponent and every term are
    # truncated down. For the upper bound the remainder and two units for each truncation are added.
    term, lower_sum, terms = one, one, 0
    while term:
        terms += 1
        term = (term * halved >> scale) // terms
        lower_sum += term
    upper_sum = lower_sum + 4 * terms + 4
    for _ in range(halvings):
        lower_sum = lower_sum * lower_sum >> scale
        upper_sum = (upper_sum * upper_sum >> scale) + 1
    return Fraction(lower_sum, one), Fraction(upper_sum, one)


def at_most_exp(ratio: Fraction, exponent: Fraction) -> bool:
    """Whether ratio <= e^exponent, decided without rounding.

    e to a rational power other than 0 is irrational, so a higher precision decides. A ratio that
    1,024 digits do not decide counts as too large.
    """
    if exponent == 0:
        return ratio <= 1
    digits = ratio.numerator.bit_length() - ratio.denominator.bit_length() + 1
    if exponent > 0 and floor_of(exponent) >= digits:
        return True  # because 2 < e, and ratio < 2^digits
    for precision in _PRECISIONS:
        lower, upper = exp_bounds(exponent, precision)
        if ratio <= lower:
            return True
        if ratio >= upper:
            return False
    return False


def log_bounds(value: Fraction) -> tuple[Fraction, Fraction]:
    """The two multiples of 2^-128 next to ln value, lower < ln value <= upper.

    Newton's steps from a double find them, exponentials prove them: the result does not depend on
    the machine's logarithm.
    """
    guess = Fraction(log_of(value))
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


def log_of(ratio: Fraction) -> float:
    """The natural logarithm of a positive fraction of any size, to double precision."""
    above, below = ratio.numerator, ratio.denominator
    if abs(above - below) * 4 < below:
        return math.log1p((above - below) / below)
    return math.log(above) - math.log(below)


def upper(ratio: Fraction) -> int:
    """A ratio of at least 1 in units of 2^-256, rounded up, at most CERTAIN."""
    return min(ceil_of(ratio * (1 << _PLACES)), _MOST)


def power(ratio: int, exponent: int) -> int:
    """ratio^exponent in units of 2^-256, rounded up, at most CERTAIN."""
    result = 1 << _PLACES
    while exponent:
        if exponent & 1:
            result = _times(result, ratio)
        ratio, exponent = _times(ratio, ratio), exponent >> 1
    return result


def product(ratios: Iterable[int]) -> Fraction:
    """The product of ratios in units of 2^-256, rounded up, at most CERTAIN."""
    return Fraction(reduce(_times, ratios, 1 << _PLACES), 1 << _PLACES)


def _times(one: int, other: int) -> int:
    return min(-(-one * other >> _PLACES), _MOST)


def decimal_of(number: float) -> Fraction:
    """The decimal that a float is written as: 0.1 is one tenth, not the nearest binary number."""
    return Fraction(repr(float(number)))


def ceil_of(value: Fraction) -> int:
    """The smallest integer that is not below a fraction."""
    return -(-value.numerator // value.denominator)


def floor_of(value: Fraction) -> int:
    """The largest integer that is not above a fraction."""
    return value.numerator // value.denominator
