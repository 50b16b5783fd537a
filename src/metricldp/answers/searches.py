"""Searches for a quantile among positions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from metricldp.answers.answer import Answer
from metricldp.channels import Floats

TIE = 1e-9
"""Shares that differ by less are equal: rounding, not noise."""


def searched(tests: Sequence[Answer], level: float, by: str, tie: float) -> tuple[int, int]:
    """The first and the last position that the tests leave, without making all of them.

    A tenth of the error goes to tests at a few positions: the truth cannot lie before the last of
    them that rejects, as what is tested rises. The rest goes to those that are left in between.
    """
    few, rest = 1 - (1 - level) / 10, 1 - (1 - level) * 9 / 10
    step = max(1, math.isqrt(len(tests)))
    coarse = range(0, len(tests), step)

    def enough(k: int, at: float) -> bool:
        return tests[k].interval(at, by)[1] >= -tie

    def before(k: int, at: float) -> bool:
        return tests[k].interval(at, by)[0] < -tie

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
