"""Condensed local differential privacy: the exponential mechanism on a metric.

P(y | x) is proportional to e^(-E(x, y)/2). Half of the distance is spent on y, and half on what the
probabilities of x add up to, so P(y | x) / P(y | x') is at most e^E(x, x'). On a line far from its
ends the second half is not needed, and noise is twice as wide there as that of "geometric", which
keeps the same promise. From Gursoy et al., "Secure and Utility-Aware Data Collection with Condensed
Local Differential Privacy" (IEEE TDSC 2019). Its definition is a metric: epsilon (their alpha)
times the distance of two values.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import ClassVar

from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.progress import Progress
from metricldp.mechanisms.base import Mechanism, Problem
from metricldp.mechanisms.effort import Effort
from metricldp_core.distributions import Distribution, Table
from metricldp_core.exact import WORD, exp_bounds, floor_of

MOST_POSITIONS = 1024
_LEAST = 1 << 32
"""Over 2^64: no report is less likely, so that rounding never tells two values apart."""


@cache
def _height(distance: Fraction) -> int:
    """e^(-distance/2) over 2^128, rounded down; beyond 128 it is too small to matter."""
    return floor_of(exp_bounds(-min(distance, Fraction(128)) / 2)[0] * (WORD * WORD))


@dataclass(frozen=True, repr=False)
class Condensed(Mechanism):
    """One integer, for any metric; it saves nothing."""

    name: ClassVar[str] = "condensed"  # type: ignore[misc]
    title: ClassVar[str] = "condensed (exponential)"  # type: ignore[misc]
    source: ClassVar[str] = "Gursoy et al. 2019"  # type: ignore[misc]
    max_computed: ClassVar[int] = 256  # type: ignore[misc]
    max_simulated: ClassVar[int] = 256  # type: ignore[misc]

    def distribution(self, problem: Problem, effort: Effort, progress: Progress) -> Distribution:
        """Rows rounded down, but not below 2^-32; the own report has what is left."""
        size, metric = problem.size, problem.metric
        if size > MOST_POSITIONS:
            raise InvalidSpecError(
                f"{size:,} positions are too many for condensed; use at most {MOST_POSITIONS:,}"
            )
        apart = metric.whole(size).tolist()
        height = {steps: _height(metric.step * steps) for row in apart for steps in row}
        rows = []
        for x, steps in enumerate(apart):
            heights = [height[depth] for depth in steps]
            total = sum(heights)
            row = [max(_LEAST, WORD * one // total) for one in heights]
            row[x] += WORD - sum(row)
            rows.append(row)
        return Table(tuple(map(tuple, rows)))

    def __repr__(self) -> str:
        return repr(self.name)
