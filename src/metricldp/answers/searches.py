"""Searches for a quantile among positions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from metricldp.answers.answer import Estimate
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.optional import lazy
from metricldp.basics.text import shown
from metricldp.mechanisms import Floats

optimize = lazy("scipy.optimize")

ISOTONIC, BINARY_SEARCH = METHODS = ("isotonic", "binary-search")

TIE = 1e-9
"""Shares that differ by less are equal: rounding, not noise."""


def searched(tests: Sequence[Estimate], level: float, by: str, tie: float) -> tuple[int, int]:
    """The first and the last position that the tests leave, without making all of them.

    A tenth of the error goes to tests at a few positions: the truth cannot lie before the last of
    them that rejects, as what is tested rises. The rest goes to those that are left in between.
    """
    few, rest = 1 - (1 - level) / 10, 1 - (1 - level) * 9 / 10
    step = max(1, math.isqrt(len(tests)))
    coarse = range(0, len(tests), step)

    def enough(k: int, at: float) -> bool:
        return tests[k]._interval(at, by)[1] >= -tie

    def before(k: int, at: float) -> bool:
        return tests[k]._interval(at, by)[0] < -tie

    start = next((k for k in coarse if enough(k, few)), coarse[-1] + step) - step + 1
    stop = next((k for k in reversed(coarse) if before(k, few)), coarse[0] - step) + step
    fine = range(max(start, 0), min(stop, len(tests)))
    first = next((k for k in fine if enough(k, rest)), fine.stop)
    last = next((k for k in reversed(fine) if before(k, rest)), fine.start - 1) + 1
    return min(first, last), max(first, last)


def binary_search(shares: Floats, p: float) -> int:
    """Section 4.4 to the letter, on estimated shares that need not be monotone; from 0, not 1.

    Where the last scan finds several x with share(x-1) < p <= share(x), it takes the first: the
    first that is reached, as its left end is position 0 or is not. It finds none only if the share
    up to the last position, known to be 1, is estimated below p, as the noisy last bit of
    threshold-paper may have it; then the answer is the last position.
    """
    reached = shares >= p - TIE
    left, right = 0, len(shares) - 1
    while right - left > 10:
        middle = -(-(left + right) // 2)
        if reached[middle]:
            right = middle
        else:
            left = middle
    return next((x for x in range(left, right + 1) if reached[x]), len(shares) - 1)


def checked(p: object) -> float:
    """A probability strictly between 0 and 1, or a refusal."""
    if not is_number(p) or not 0 < p < 1:
        raise QueryError(f"q is between 0 and 1, as in quantile(attribute, 0.5), not {shown(p)}")
    return float(p)


def checked_all(probabilities: object, method: str) -> list[float]:
    """A list of probabilities and a method, before any work is done for them."""
    if not isinstance(method, str) or method not in METHODS:
        raise QueryError(f"a method is one of {', '.join(METHODS)}, not {shown(method)}")
    if isinstance(probabilities, str) or not isinstance(probabilities, Iterable):
        raise QueryError(f"quantiles take a list of probabilities, not {shown(probabilities)}")
    return [checked(p) for p in probabilities]


def monotone(shares: Floats, variances: Floats) -> Floats:
    """The nondecreasing sequence nearest to the shares, each weighted by its inverse variance."""
    if not len(shares):
        return shares
    # A variance estimated at zero must not outweigh everything else.
    least = 1e-3 * variances.max()
    weights = 1 / np.maximum(variances, least) if least > 0 else np.ones(len(shares))
    return np.asarray(optimize.isotonic_regression(shares, weights=weights).x)
