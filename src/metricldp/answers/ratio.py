"""Means: an estimated sum over an estimated count, and all that the two do not contradict."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from metricldp.answers import watched
from metricldp.answers.answer import (
    AUTO,
    NORMAL,
    Estimate,
    Interval,
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

    ask: Callable[[float], Estimate]
    likely: float
    """The mean that is planned for."""
    low: float
    high: float
    factor: float = 1.0
    """What the mean was multiplied with."""

    def _interval(self, confidence_level: float, method: str) -> tuple[float, float]:
        """All means that the interval of the sum above them does not contradict.

        It falls with the number, so both ends are found by halving; what is left is kept.
        """
        ends = []
        for side in (0, 1):
            # The other end of the range is possible if its sum may be zero or beyond.
            inside, outside = (self.high, self.low) if side == 0 else (self.low, self.high)
            sign = 1 if side == 0 else -1

            def possible(number: float, side: int = side, sign: int = sign) -> bool:
                return sign * self.ask(number)._interval(confidence_level, method)[side] <= 0

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
class Ratio(Estimate):
    """An estimated sum over an estimated count: a mean.

    Its standard error is the delta method's; its interval is Fieller's, exact for two jointly
    normal estimates, and not symmetric. A ratio of unbiased estimates is only nearly unbiased.
    """

    denominator: float
    numerator_variance: float
    denominator_variance: float
    shared: float
    """The covariance of the sum and the count."""
    numerator: float | None = None
    """The sum itself, where the value had to be moved to what is possible."""
    centre: float = 0.0
    """What is subtracted from the values in the sum, in its variance and in the covariance."""
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
        size, mean = self.denominator or 1.0, self.value - self.centre
        above = watched.Pace(self.numerator_variance, self.ones[0]).times(1 / size)
        below = watched.Pace(self.denominator_variance, self.ones[1]).times(mean / size)
        if not any(self.ones) and self.made is not None:
            return self.made.paces(self.target)
        return (above, below) if self.denominator_variance else (above,)

    @property
    def clear(self) -> bool:
        """Whether the count is clearly above zero: by two standard errors."""
        return self.denominator > 2 * math.sqrt(self.denominator_variance)

    @property
    def estimable(self) -> bool:
        return self.clear and super().estimable

    def _reported(self) -> Self:
        """The sum itself stays, for the mean of several groups."""
        if self.estimable:
            return self
        return replace(super()._reported(), numerator=self.centred_at(self.centre).numerator)

    @property
    def _middle(self) -> float:
        if self.numerator is None or not self.denominator:
            return super()._middle
        quotient = self.centre + self.numerator / self.denominator
        return min(max(quotient, self.possible[0]), self.possible[1])

    def method(self, level: float = 0.95, method: str = AUTO) -> str:
        if self.above is None or method in (AUTO, NORMAL):
            return super().method(level, method)
        return self.above.ask(self.above.likely).method(level, method)

    def scaled(self, factor: float, unit: str) -> Ratio:
        found = super().scaled(factor, unit)
        assert isinstance(found, Ratio)
        above, ends = self.above, self.ends
        return replace(
            found,
            numerator=None if self.numerator is None else self.numerator * factor,
            centre=self.centre * factor,
            numerator_variance=self.numerator_variance * factor**2,
            shared=self.shared * factor,
            ones=(self.ones[0] * factor**2, self.ones[1]),
            ends=ends and (lambda level: _times(ends(level), factor)),
            above=above and above._replace(factor=above.factor * factor) if factor else None,
        )

    def shifted(self, by: float) -> Ratio:
        """The mean of values that are larger by a number."""
        low, high = self.possible
        return replace(
            self,
            value=self.value + by,
            centre=self.centre + by,
            possible=(low + by, high + by),
            between=tuple(one.shifted(by) for one in self.between if isinstance(one, Ratio)),
        )

    def centred_at(self, centre: float) -> Ratio:
        """The same mean, from the sum of the values less another number."""
        apart, total = centre - self.centre, self.numerator
        if total is None:
            total = (self.value - self.centre) * self.denominator
        if not apart:
            return replace(self, numerator=total)
        counts, (one, other) = self.denominator_variance, self.ones
        variance = self.numerator_variance - 2 * apart * self.shared + apart**2 * counts
        return replace(
            self,
            centre=centre,
            numerator=total - apart * self.denominator,
            numerator_variance=max(variance, 0.0),
            shared=self.shared - apart * counts,
            ones=((math.sqrt(one) + abs(apart) * math.sqrt(other)) ** 2, other),
        )

    def with_residual(self, variance: float) -> Ratio:
        """The same mean, given the variance of the sum of what each value is above it.

        The covariance follows, as far as two such variances allow one: of a known size, none.
        """
        most = math.sqrt(self.numerator_variance * self.denominator_variance)
        mean = self.value - self.centre
        squares = mean**2 * self.denominator_variance
        shared = self.numerator_variance + squares - variance
        covariance = min(max(shared / (2 * mean), -most), most) if mean else 0.0
        return replace(
            self,
            variance=variance / self.denominator**2,
            shared=covariance,
            numerator_variance=variance + 2 * mean * covariance - squares,
        )

    def poisoning_bounds(self, malicious: int) -> Interval:
        """The range of the ratio if so many of the reports are malicious in place of honest ones.

        It is within the possible range, and all of it if honest reports could make the group empty.
        """
        if self.lies is None or self.lie is None:
            return super().poisoning_bounds(malicious)
        if not self.clear:
            return Interval(*self._attainable)
        least, most = sorted(end / self.scale for end in self.possible)
        sums = self.value / self.scale * self.denominator, self.denominator
        ends = moved_mean(sums, checked_liars(malicious), self.lies, self.lie(), (least, most))
        low, high = sorted(end * self.scale for end in ends)
        return Interval(low, high)

    def _interval(
        self, confidence_level: float = 0.95, method: str = AUTO, *, anytime: bool = False
    ) -> tuple[float, float]:
        """All means that the two estimates do not contradict at that level (Fieller's theorem).

        What `reach` has beyond z standard errors is taken for more variance of the sum. Where the
        count may be zero, hardly a mean is contradicted, and the interval is all that is possible:
        an answer only where the count happens to come out large would be wrong too often.
        """
        z = normal_reach(confidence_level)
        if flag("anytime", anytime):
            variance = self.stderr**2
            asked = confidence_level, self.reports, self.paces, variance, self.possible
            return watched.ends(self._interval, *asked) if self.clear else self.possible
        if self.between:
            return super()._interval(confidence_level, method)
        chosen = self.method(confidence_level, method)
        if chosen != NORMAL:
            if self.above is None:
                return super()._interval(confidence_level, chosen)
            return self.above._interval(confidence_level, chosen)
        if self.ends is not None:
            return self.ends(confidence_level)
        leading = self.denominator**2 - z**2 * self.denominator_variance
        if leading <= 0 or not self.clear:
            return self.possible
        beyond = (self.reach(confidence_level) / z) ** 2 - self.stderr**2
        numerator = (self.value - self.centre) * self.denominator
        middle = numerator * self.denominator - z**2 * self.shared
        spread = self.numerator_variance + max(0.0, beyond) * self.denominator**2
        last = numerator**2 - z**2 * spread
        root = math.sqrt(max(0.0, middle**2 - leading * last))
        low = self.centre + (middle - root) / leading
        high = self.centre + (middle + root) / leading
        return within((low, high), self.possible) if not any(self.ones) else (low, high)


def _times(ends: Ends, factor: float) -> Ends:
    low, high = sorted(end * factor if factor else 0.0 for end in ends)
    return low, high
