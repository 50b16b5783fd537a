"""Intervals of sums and ratios of answers, recovered from the intervals of those answers.

A mean of few people has Fieller's interval, which is not symmetric, or all that is possible. To
first order a difference of two such means has neither: it misses far more often than it says. So
how far each part may be off, below and above, is put together as standard errors would be (Zou and
Donner 2008). Where all parts are normal, that is their joint standard error again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from metricldp.answers.answer import NORMAL, Estimate

_HALVINGS = 60
_ROUNDING = 1e-9
_FARTHEST = 1e60
"""Beyond this a ratio has no end."""


class Off(NamedTuple):
    """How far a number may be below and above its estimate."""

    value: float
    below: float
    above: float
    anywhere: bool = False
    """Whether that is all that is possible: then it may be anything to other parts, too."""

    @classmethod
    def of(cls, answer: Estimate, level: float) -> Off:
        low, high = answer._interval(level, NORMAL)
        middle = answer._middle if math.isnan(answer.value) else answer.value
        ends = max(0.0, middle - low), max(0.0, high - middle)
        return cls(middle, *ends, getattr(answer, "possible", None) == (low, high))

    def times(self, factor: float) -> Off:
        ends = abs(factor) * self.below, abs(factor) * self.above
        return Off(factor * self.value, *(ends if factor >= 0 else ends[::-1]), self.anywhere)


Correlation = Callable[[int, int], float | None]
"""Of two parts; None where it is not known, and may be any."""


def ends_of_sum(parts: Sequence[Off], correlation: Correlation) -> tuple[float, float]:
    """How far the sum of some parts may be below and above the sum of their values.

    Parts that move against each other take from each other what both sides of them allow: one is
    low where the other is high, and neither may be skewed the right way.
    """
    found = []
    for off in (tuple(part.below for part in parts), tuple(part.above for part in parts)):
        if math.inf in off:
            found.append(math.inf)
            continue
        terms = [one**2 for one in off]
        for i, one in enumerate(parts):
            for j, other in enumerate(parts[:i]):
                shared = None if one.anywhere or other.anywhere else correlation(j, i)
                both = off[i] * off[j]
                if shared is not None and shared < 0 and both:
                    both = min(both, one.below * other.above, one.above * other.below)
                terms.append(2 * (1.0 if shared is None else shared) * both)
        found.append(math.sqrt(max(0.0, math.fsum(terms))))
    return found[0], found[1]


def ends_of_ratio(one: Off, other: Off, correlation: float | None) -> tuple[float, float]:
    """All ratios r for which one - r times other may be zero; the other is above zero."""
    left = (other.value - other.below) / other.value if other.value else -1.0
    if left < -_ROUNDING:
        return -math.inf, math.inf
    if left <= _ROUNDING:  # it may be zero and not less: no ratio is too high
        other = other._replace(below=other.value * (1 + _ROUNDING))

    def beyond(ratio: float, side: int) -> bool:
        """Whether a ratio is too low (0), or too high (1)."""
        sign = math.copysign(1.0, -ratio)
        both = None if correlation is None else sign * correlation
        parts = one, other.times(-ratio)
        away = (parts[0].value + parts[1].value) * (1 - 2 * side)
        return away > ends_of_sum(parts, lambda i, j: both)[side]

    middle, ends = one.value / other.value, []
    for side in (0, 1):
        inside = outside = middle
        step = max(1.0, abs(middle))
        while not beyond(outside, side) and step < _FARTHEST:
            outside, step = outside + step * (2 * side - 1), 2 * step
        if not beyond(outside, side):
            ends.append((2 * side - 1) * math.inf)
            continue
        for _ in range(_HALVINGS):
            half = (inside + outside) / 2
            inside, outside = (inside, half) if beyond(half, side) else (half, outside)
        ends.append(outside if abs(outside) > _ROUNDING * abs(middle) else 0.0)
    return ends[0], ends[1]
