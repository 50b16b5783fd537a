"""p-values: of a chi-square statistic, and of many comparisons at once."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import shown
from metricldp.channels import Floats

HOLM = "holm"
SMALLEST = 1e-12
"""The smallest p-value that is told."""


def p_text(p: float, smallest: float = SMALLEST) -> str:
    """A p-value in one form everywhere."""
    return f"less than {smallest:.2g}" if p <= smallest else f"{p:.2g}"


def holm(p_values: Iterable[float]) -> Floats:
    """p-values of many comparisons, adjusted so that all of them may be looked at.

    Of all true nulls together one is below 0.05 in at most 5% of cases, whatever the comparisons
    share (Holm 1979): the smallest of k is multiplied by k, the next one by k - 1, and so on, and
    none is below the one before it.
    """
    try:
        found = list(p_values)
    except TypeError:
        raise QueryError(f"holm takes a list of p-values, not {shown(p_values)}") from None
    for p in found:
        if not is_number(p) or not 0 <= p <= 1:
            raise QueryError(f"a p-value lies between 0 and 1, not {shown(p)}")
    order = np.argsort(found, kind="stable")
    adjusted, least = np.zeros(len(found)), 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, (len(found) - rank) * float(found[place])))
        adjusted[place] = least
    return adjusted


def adjusted(p_values: Floats, by: str | None) -> Floats:
    """As they are for None, or by the method of that name."""
    if by is None:
        return p_values
    if not isinstance(by, str) or by != HOLM:
        raise QueryError(f"p-values are adjusted by {HOLM!r} or None, not {shown(by)}")
    return holm(p_values.tolist())


def chi_square_tail(statistic: float, df: int) -> float:
    """How likely a chi-square variable of df degrees of freedom is at least that large.

    The finite sums for whole degrees of freedom (Abramowitz and Stegun 26.4.4 and 26.4.5).
    """
    if statistic <= 0 or df < 1:
        return 1.0
    half = statistic / 2
    start = 0.5 if df % 2 else 0.0
    found = math.erfc(math.sqrt(half)) if df % 2 else 0.0
    for k in range(df // 2):
        power = start + k
        found += math.exp(power * math.log(half) - half - math.lgamma(power + 1))
    return min(1.0, found)
