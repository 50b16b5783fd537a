"""Intervals that stay right while one watches: at every look, however often one looks.

A 95% interval is right in 95% of single looks. Who looks again after every report, and stops when
the number pleases, meets a wrong one sooner or later. The error of a linear answer after t reports
is a sum of t independent errors of mean zero. With probability 1 - a it stays at all times within

    stderr * sqrt(2 (t r + 1) / (t r) * ln((t r + 1)^(d/2) / a))

for normal errors (Robbins' mixture; for others in the limit of many reports, Waudby-Smith et al.
2024, "Time-uniform central limit theory"). r makes it shortest at `BEST` reports; d is the number
of sums that an answer rests on: 1, or 2 for a ratio of two. As it is stderr times a number, it is a
plain interval of a stricter level, and that is what this module finds.

"In the limit" is not enough at the beginning: a standard error that is itself estimated from few
reports is too small too often. Three things make up for it. There is no interval before `FIRST`
reports. `BEST` is small, so that the earliest intervals are the widest, in standard errors. And a
stricter level also takes more of what `Answer.reach` adds for jumps and for variance that went
unseen. The tests watch at every report.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

from metricldp.basics.errors import QueryError
from metricldp.basics.text import shown

FIRST = 100
"""Before so many reports there is no interval but all that is possible."""
BEST = 1000
"""Reports at which the interval is shortest, in standard errors."""
_FARTHEST = 8.0
"""Standard errors; beyond, a level cannot be told from 1."""


def reach(level: float, reports: int, dimensions: int = 1) -> float:
    """How many standard errors an interval reaches each way, to hold at all times together."""
    wrong = 1 - level
    time = reports * _rate(wrong)
    doubt = dimensions / 2 * math.log1p(time) - math.log(wrong)
    return math.sqrt(2 * (1 + 1 / time) * doubt)


def strict(level: float, reports: int, dimensions: int = 1) -> float:
    """The level of a plain interval that reaches as far."""
    far = reach(level, reports, dimensions)
    if far > _FARTHEST:
        raise QueryError(
            f"an interval of level {shown(level)} that stays right while one watches would reach "
            f"{far:.1f} standard errors; ask for a lower level or for fewer rows, or wait"
        )
    return 1 - 2 * NormalDist().cdf(-far)


def ends(
    plain: Callable[[float, str], tuple[float, float]],
    level: float,
    reports: int,
    dimensions: int = 1,
    possible: tuple[float, float] = (-math.inf, math.inf),
) -> tuple[float, float]:
    """The interval itself, from what gives plain ones; too early, all that is possible."""
    if reports < FIRST:
        return possible
    return plain(strict(level, reports, dimensions), "normal")


def _rate(wrong: float) -> float:
    """The r that makes the reach shortest at `BEST` reports, nearly."""
    return (-2 * math.log(wrong) + math.log1p(-2 * math.log(wrong))) / BEST
