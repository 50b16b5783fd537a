"""Means: an estimated sum over an estimated count, and all that the two do not contradict."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from metricldp.answers import watched
from metricldp.answers.answer import (
    AUTO,
    NORMAL,
    Answer,
    normal_reach,
)
from metricldp.answers.liars import Ends, checked_liars, moved_mean
from metricldp.basics.checks import flag
from metricldp.basics.numbers import within

_HALVINGS = 9
"""How often the range of a mean is halved for an end of its interval."""


class Excess(NamedTuple):
    """The sum of what values are above a number, over the group whose mean is asked for.

    The mean is the number at which it is zero.
    """

    ask: Callable[[float], Answer]
    likely: float
    """The mean that is planned for."""
    low: float
    high: float
    factor: float = 1.0
    """What the mean was multiplied with."""

    def interval(self, level: float, method: str) -> tuple[float, float]:
        """All means that the interval of the sum above them does not contradict.

        It falls with the number, so both ends are found by halving; what is left is kept.
        """
        ends = []
        for side in (0, 1):
            # The other end of the range is possible if its sum may be zero or beyond.
            inside, outside = (self.high, self.low) if side == 0 else (self.low, self.high)
            sign = 1 if side == 0 else -1

            def possible(number: float, side: int = side, sign: int = sign) -> bool:
                return sign * self.ask(number).interval(level, method)[side] <= 0

            if possible(outside):
                ends.append(outside)
                continue
            for _ in range(_HALVINGS):
                middle = (inside + outside) / 2
                if possible(middle):
                    inside = middle
                else:
                    outside = middle
            ends.append(outside)
        low, high = sorted(end * self.factor for end in ends)
        return low, high


@dataclass(frozen=True, repr=False, kw_only=True)
class Ratio(Answer):
    """An estimated sum over an estimated count: a mean.

    Its standard error is the delta method's; its interval is Fieller's, exact for two jointly
    normal estimates, and not symmetric. A ratio of unbiased estimates is only nearly unbiased.
    """

    denominator: float
    numerator_variance: float
    denominator_variance: float
    shared: float
    """The covariance of the sum and the count."""
    possible: tuple[float, float] = (-math.inf, math.inf)
    """Between these it lies, whoever reported what."""
    numerator: float | None = None
    """The sum itself, where the value had to be moved to what is possible."""
    above: Excess | None = field(default=None, compare=False)
    """What a shorter interval can come from."""
    lies: Callable[[float], Ends] | None = field(default=None, compare=False)
    """What one report can add to the sum of what values are above a number."""

    ends: Callable[[float], Ends] | None = field(default=None, compare=False)
    """Its interval at a level, where the sum or the count is a mean itself: see `recovered.py`."""
    ones: tuple[float, float] = field(default=(0.0, 0.0), compare=False)
    """What one person adds to the variances of the sum and of the count, at most; 0 where both are
    answers of their own."""

    @property
    def paces(self) -> tuple[watched.Pace, ...]:
        size, mean = self.denominator or 1.0, self.value
        above = watched.Pace(self.numerator_variance, self.ones[0]).times(1 / size)
        below = watched.Pace(self.denominator_variance, self.ones[1]).times(mean / size)
        if not any(self.ones) and self.made is not None:
            return self.made.paces(self.about)
        return (above, below) if self.denominator_variance else (above,)

    @property
    def clear(self) -> bool:
        """Whether the count is clearly above zero: by two standard errors."""
        return self.denominator > 2 * math.sqrt(self.denominator_variance)

    def method(self, level: float = 0.95, method: str = AUTO) -> str:
        if self.above is None:
            return super().method(level, method)
        return self.above.ask(self.above.likely).method(level, method)

    def rests_on(self, level: float = 0.95, method: str = AUTO) -> str:
        if self.above is None:
            return super().rests_on(level, method)
        return self.above.ask(self.above.likely).rests_on(level, method)

    def scaled(self, factor: float, unit: str) -> Ratio:
        found = super().scaled(factor, unit)
        assert isinstance(found, Ratio)
        low, high = _times(self.possible, factor)
        above, ends = self.above, self.ends
        return replace(
            found,
            numerator=None if self.numerator is None else self.numerator * factor,
            numerator_variance=self.numerator_variance * factor**2,
            shared=self.shared * factor,
            ones=(self.ones[0] * factor**2, self.ones[1]),
            possible=(low, high),
            ends=ends and (lambda level: _times(ends(level), factor)),
            above=above and above._replace(factor=above.factor * factor) if factor else None,
        )

    def with_residual(self, variance: float) -> Ratio:
        """The same mean, given the variance of the sum of what each value is above it.

        The covariance follows, as far as two such variances allow one: of a known size, none.
        """
        most = math.sqrt(self.numerator_variance * self.denominator_variance)
        squares = self.value**2 * self.denominator_variance
        shared = self.numerator_variance + squares - variance
        covariance = min(max(shared / (2 * self.value), -most), most) if self.value else 0.0
        return replace(
            self,
            variance=variance / self.denominator**2,
            shared=covariance,
            numerator_variance=variance + 2 * self.value * covariance - squares,
        )

    def moved_by(self, liars: int) -> Ends:
        """All means that so many lies could have come from; a group they could empty has any."""
        if self.lies is None or self.lie is None:
            return super().moved_by(liars)
        least, most = sorted(end / self.scale for end in self.possible)
        sums = self.value / self.scale * self.denominator, self.denominator
        ends = moved_mean(sums, checked_liars(liars), self.lies, self.lie(), (least, most))
        low, high = sorted(end * self.scale for end in ends)
        return low, high

    def interval(
        self, level: float = 0.95, method: str = AUTO, *, anytime: bool = False
    ) -> tuple[float, float]:
        """All means that the two estimates do not contradict at that level (Fieller's theorem).

        What `reach` has beyond z standard errors is taken for more variance of the sum. Where the
        count may be zero, hardly a mean is contradicted, and the interval is all that is possible:
        an answer only where the count happens to come out large would be wrong too often.
        """
        z = normal_reach(level)
        if flag("anytime", anytime):
            variance = self.stderr**2
            asked = level, self.reports, self.paces, variance, self.possible
            return watched.ends(self.interval, *asked) if self.clear else self.possible
        if self.between:
            return super().interval(level, method)
        chosen = self.method(level, method)
        if chosen != NORMAL:
            if self.above is None:
                return super().interval(level, chosen)
            return self.above.interval(level, chosen)
        if self.ends is not None:
            return self.ends(level)
        leading = self.denominator**2 - z**2 * self.denominator_variance
        if leading <= 0 or not self.clear:
            return self.possible
        beyond = (self.reach(level) / z) ** 2 - self.stderr**2
        numerator = self.value * self.denominator
        middle = numerator * self.denominator - z**2 * self.shared
        spread = self.numerator_variance + max(0.0, beyond) * self.denominator**2
        last = numerator**2 - z**2 * spread
        root = math.sqrt(max(0.0, middle**2 - leading * last))
        low, high = (middle - root) / leading, (middle + root) / leading
        if any(self.ones):
            return low, high
        return within((low, high), self.possible)  # of one answer over another, as for a share


def _times(ends: Ends, factor: float) -> Ends:
    low, high = sorted(end * factor if factor else 0.0 for end in ends)
    return low, high
