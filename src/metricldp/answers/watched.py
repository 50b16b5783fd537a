"""Intervals that stay right while one watches: at every look, however often one looks.

A 95% interval is right in 95% of single looks. Who looks again after every report, and stops when
the number pleases, meets a wrong one sooner or later. Here is one that is right at all looks.

**One sum.** The error of a linear answer after t reports is S = X_1 + ... + X_t, independent and of
mean zero. Its variance V = Var X_1 + ... + Var X_t is the time: not t, as people near to a cut, or
with another epsilon, add more to it than others. For normal errors exp(c S - c^2 V / 2) is a
martingale that starts at 1, for every c, and so is its mean over c drawn from a normal law of
variance r:

    (1 + r V)^(-1/2) exp(r S^2 / (2 (1 + r V))).

By Ville's inequality it ever reaches 1 / a with probability a at most. So with probability 1 - a

    S^2 <= (V + 1 / r) ln((1 + r V) / a^2)  at all times          (Robbins' mixture).

For other errors it holds in the limit of many reports, with the estimated V in place of the true
one (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas 2024, "Time-uniform central limit theory and
asymptotic confidence sequences", of Lindeberg's type: variances may differ and change as long as V
grows without end, no few errors make up most of it, and V is estimated with a relative error that
goes to zero).

**The one number to choose.** r must be fixed before the reports are looked at. An r that follows
them, such as one over the mean variance so far, is another martingale at every look, and nothing
holds for all of them: with a variance that grows by a tenth from report to report, four of five
runs go wrong somewhere within 3,000. So r makes the interval shortest at V* = `BEST` people who add
as much as one can at all (`Pace.unit`), which the mechanism and the question tell. A V that is k
times V* costs a little, ln(k) under a root; one far below it costs more: there it is wide.

**Several sums.** A mean is a ratio of two sums; a difference of shares is of sums whose factors
1 / n change while reports come in. There S is a vector, V a matrix and c is drawn with variances
r_j, one for each sum. In the same way, for all factors u together and at all times,

    (u S)^2 <= (u V u + sum u_j^2 / r_j) (ln det(1 + r V) + 2 ln(1 / a)),

and the determinant is at most the product of all 1 + r_j V_jj (Hadamard).

The bound is the standard error times a number, so it is a plain interval of a stricter level, and
that is what this module finds.

"In the limit" is not enough at the beginning: a variance that is itself estimated from few reports
is too small too often. Three things make up for it. There is no interval before `FIRST` reports.
1 / r is added to V, whatever V was estimated at. And a stricter level also takes more of what
`Answer.reach` adds for jumps and for variance that went unseen. The tests watch at every report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

from metricldp.basics.errors import QueryError
from metricldp.basics.text import shown

FIRST = 100
"""Before so many reports there is no interval but all that is possible."""
BEST = 100
"""The interval is shortest, in standard errors, when so many people at the worst place reported."""
_FARTHEST = 8.0
"""Standard errors; beyond, a level cannot be told from 1."""


class Pace(NamedTuple):
    """How far a sum over people has come, in variance, and what one person adds to that."""

    variance: float
    unit: float
    """As known before anybody reports: the most that one person's blurring can add."""

    def times(self, factor: float) -> Pace:
        """Of the sum times a factor."""
        return Pace(self.variance * factor**2, self.unit * factor**2)

    def or_else(self, reports: int) -> Pace:
        """Where no unit is known, all reports are taken to have added the same."""
        return self if self.unit else self._replace(unit=self.variance / max(1, reports))


def reach(level: float, paces: Sequence[Pace], variance: float | None = None) -> float:
    """How many standard errors an interval reaches each way, to hold at all times together.

    `variance` is that of the answer that the sums make; by default they are independent.
    """
    wrong = 1 - level
    rate = _rate(wrong)
    going = [pace for pace in paces if pace.variance > 0 and pace.unit > 0]
    total = math.fsum(pace.variance for pace in going) if variance is None else variance
    doubt = -2 * math.log(wrong)
    doubt += math.fsum(math.log1p(rate * pace.variance / (BEST * pace.unit)) for pace in going)
    if not going or total <= 0:
        return math.sqrt(doubt)
    added = math.fsum(BEST * pace.unit / rate for pace in going)
    return math.sqrt((1 + added / total) * doubt)


def strict(level: float, paces: Sequence[Pace], variance: float | None = None) -> float | None:
    """The level of a plain interval that reaches as far; None where none does yet.

    Whether a level is refused does not depend on the reports.
    """
    shortest = reach(level, [Pace(BEST, 1.0)] * max(1, len(paces)))
    if shortest > _FARTHEST:
        raise QueryError(
            f"a confidence sequence of level {shown(level)} would need "
            f"{shortest:.1f} standard errors; use a lower level or fewer rows"
        )
    far = reach(level, paces, variance)
    return None if far > _FARTHEST else 1 - 2 * NormalDist().cdf(-far)


def ends(
    plain: Callable[[float, str], tuple[float, float]],
    level: float,
    reports: int,
    paces: Sequence[Pace],
    variance: float | None = None,
    possible: tuple[float, float] = (-math.inf, math.inf),
) -> tuple[float, float]:
    """The interval itself, from what gives plain ones; too early, all that is possible."""
    each = strict(level, [pace.or_else(reports) for pace in paces], variance)
    if reports < FIRST or each is None:
        return possible
    return plain(each, "normal")


def _rate(wrong: float) -> float:
    """r V*, which makes the reach shortest where V is V*, nearly."""
    return -2 * math.log(wrong) + math.log1p(-2 * math.log(wrong))
