"""Values by their ratio: ten per cent apart are at epsilon, wherever they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import ClassVar

import numpy as np

from metricldp.basics.checks import positive
from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import plain, shown
from metricldp.metrics.base import Metric
from metricldp.metrics.closed import MOST_POSITIONS, Distances
from metricldp.metrics.line import Line
from metricldp.metrics.words import MetricInWords, Value
from metricldp_core.exact import decimal_of, floor_of, log_bounds

_PARTS = 1 << 24
"""Lengths are rounded down to so many parts of a unit, toward privacy."""
_SAME = 1e-6
"""Steps that differ by less than this share are taken for the shortest of them."""
_SMALLEST = 1e-6


def _intended(by: float) -> str:
    """The relative difference that a factor or a percentage above 1 probably stands for."""
    if by > 100:
        return ""
    return f"; did you mean Relative({plain(by - 1 if by <= 2 else by / 100)})?"


@dataclass(frozen=True)
class Relative(MetricInWords):
    """Distance 1 for every factor of 1 + by: |ln x - ln x'| / ln(1 + by), a line on a log scale.

    `by` is a relative difference above 0 and at most 1: 0.25 is 25 per cent, 1 is a factor of 2.

    >>> from metricldp import Continuous, Relative
    >>> income = Continuous(1_000, 1_000_000, bins=60, epsilon=1, metric=Relative(0.5))
    >>> round(float(income.distance(30_000, 45_000)), 2)
    1.14
    """

    by: float

    kind: ClassVar[str] = "relative"

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", positive("by of a relative metric", self.by))
        if self.by > 1:
            raise InvalidSpecError(
                f"Relative({plain(self.by)}) is a factor of {plain(1 + self.by)} at distance 1; by "
                f"is a relative difference, at most 1 (a factor of 2){_intended(self.by)}; for a "
                "larger factor use Relative(1) and a smaller epsilon"
            )
        if self.by < _SMALLEST:
            raise InvalidSpecError(
                f"a relative difference is at least {_SMALLEST:f}, not {shown(self.by)}"
            )

    def on(self, values: Sequence[Value], unit: Fraction) -> Metric:
        if not all(is_number(value) and value > 0 for value in values):
            raise InvalidSpecError(
                "a relative metric needs numbers above 0; begin above 0, or use bins with edges"
            )
        return self.along([Fraction(value) for value in values], unit)

    def along(self, points: Sequence[Fraction], unit: Fraction) -> Metric:
        """The metric on positions at these rising points; never more than between the points."""
        if len(points) > MOST_POSITIONS:
            raise InvalidSpecError(
                f"a relative metric supports up to {MOST_POSITIONS:,} positions, not "
                f"{len(points):,}; use bins"
            )
        whole = log_bounds(1 + decimal_of(self.by))[1]
        steps = [
            floor_of(log_bounds(above / below)[0] / whole * _PARTS)
            for below, above in pairwise(points)
        ]
        if min(steps) == 0:
            raise InvalidSpecError(
                f"neighbouring values are too close to each other for steps of {plain(self.by)}; "
                "use fewer values, or bins"
            )
        if max(steps) - min(steps) <= _SAME * min(steps):
            return Line(unit * min(steps) / _PARTS)
        at = np.array([0, *accumulate(steps)], dtype=np.int64)
        return Distances.of(np.abs(at[:, None] - at), unit / _PARTS)
