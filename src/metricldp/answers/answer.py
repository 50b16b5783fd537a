"""Answers: a value with its own uncertainty, in the units of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import shown


@dataclass(frozen=True, repr=False)
class Answer:
    """An unbiased value and an unbiased estimate of its variance.

    `about` says what the interval is about: "respondents", the very people who reported (only the
    blurring is uncertain), or "population", everybody they were drawn from at random.
    """

    value: float
    variance: float
    question: str = ""
    unit: str = "people"
    about: str = "respondents"
    notes: tuple[str, ...] = ()
    bounds: tuple[float, float] = (0.0, math.inf)
    """Between these the standard error is kept: at least what three people at the worst place
    add, as so few can go unseen by chance, and at most what all people there would."""
    jump: float = 0.0
    """How far one coin, or one person who is drawn, can move the value."""
    hidden: float = 0.0
    """The size of the steps in which the variance is estimated: some can go unseen by chance."""
    layout: str = field(default="", compare=False)
    """How the sums were found: from "reports", "cells" or "prefix"."""
    between: tuple[Answer, ...] = ()
    """Where bins leave it open: the same question with every value at the lower, and with every
    value at the upper edge of its bin. The truth lies between theirs, so the interval reaches from
    the lower end of the first one's to the upper end of the second one's."""

    @property
    def stderr(self) -> float:
        """The standard error: the estimated variance, kept within its bounds, as a root."""
        return math.sqrt(min(max(self.variance, self.bounds[0]), self.bounds[1]))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The values that the estimate does not contradict at that level: see `reach`.

        Where bins leave the values open, it is wider by that.
        """
        if self.between:
            return self.between[0].interval(level)[0], self.between[1].interval(level)[1]
        reach = self.reach(level)
        return self.value - reach, self.value + reach

    def reach(self, level: float) -> float:
        """How far an interval of that level reaches each way.

        A sum of many small errors is nearly normal: z standard errors. Where few of them are large
        it is nearly Poisson, whose quantile lies z^2 / 6 jumps farther (Cornish and Fisher), and
        half a jump farther at low levels, as it moves in whole ones. Of the variance z^2 / 2 steps
        may have gone unseen, as in the score interval of a Poisson mean. Chebyshev's inequality
        limits it all: where jumps are so rare that none is likely, none has to be covered.
        """
        z = normal_reach(level)
        variance = min(self.stderr**2 + z**2 / 2 * self.hidden, self.bounds[1])
        error = math.sqrt(variance)
        return min(z * error + max(0.5, z**2 / 6) * self.jump, error / math.sqrt(1 - level))

    def scaled(self, factor: float, unit: str) -> Answer:
        """The same answer in another unit."""
        low, high = self.bounds
        return replace(
            self,
            value=self.value * factor,
            variance=self.variance * factor**2,
            unit=unit,
            bounds=(low * factor**2, high * factor**2),
            between=tuple(one.scaled(factor, unit) for one in self.between),
            jump=self.jump * factor,
            hidden=self.hidden * factor**2,
        )

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """Plain data for a program; None where a number is infinite, which JSON cannot say."""
        low, high = self.interval(level)
        return {
            "question": self.question,
            "value": finite(self.value),
            "stderr": finite(self.stderr),
            "level": level,
            "low": finite(low),
            "high": finite(high),
            "unit": self.unit,
            "about": self.about,
            "layout": self.layout,
            "notes": list(self.notes),
        }

    def text(self, level: float = 0.95, *, among: int = 1) -> str:
        """The answer in one line, with its interval at that level.

        One of several answers has an interval that holds together with all the others'.
        """
        normal_reach(level)
        low, high = self.interval(together(level, among))
        show = self._shown
        text = f"{show(self.value)} ± {show(self.stderr)} {self.unit}"
        every = " for all" if among > 1 else ""
        text += f" ({percent(level)}{every}: {show(low)} to {show(high)})"
        return "; ".join([text, *self.notes])

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        shown = f"{self._shown(self.value)} ± {self._shown(self.stderr)} {self.unit}"
        return f"<{type(self).__name__}: {shown}>"

    def __float__(self) -> float:
        return self.value

    def __format__(self, spec: str) -> str:
        """The whole answer, or with a format such as ",.0f" its value."""
        return format(self.value, spec) if spec else str(self)

    def _shown(self, number: float) -> str:
        """As many digits as the error leaves meaning to: two of the error, none of a person."""
        digits, error = 0, self.stderr
        if self.unit != "people":
            if math.isinf(error) and math.isfinite(number):
                return f"{number:,.10g}"
            digits = 1 - math.floor(math.log10(error)) if 0 < error < math.inf else 4
        text = f"{number:,.{min(max(digits, 0), 12)}f}"
        return text.removeprefix("-") if not text.strip("-0.,") else text


@dataclass(frozen=True, repr=False, kw_only=True)
class Ratio(Answer):
    """An estimated sum over an estimated count: a mean.

    Its standard error is the delta method's; its interval is Fieller's, exact for two jointly
    normal estimates, and not symmetric. A ratio of unbiased estimates is only nearly unbiased.
    """

    denominator: float
    numerator_variance: float
    denominator_variance: float
    covariance: float
    possible: tuple[float, float] = (-math.inf, math.inf)
    """Between these it lies, whoever reported what."""

    @property
    def clear(self) -> bool:
        """Whether the count is clearly above zero: by two standard errors."""
        return self.denominator > 2 * math.sqrt(self.denominator_variance)

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
            covariance=covariance,
            numerator_variance=variance + 2 * self.value * covariance - squares,
        )

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """All means that the two estimates do not contradict at that level (Fieller's theorem).

        What `reach` has beyond z standard errors is taken for more variance of the sum. Where the
        count may be zero, hardly a mean is contradicted, and the interval is all that is possible:
        an answer only where the count happens to come out large would be wrong too often.
        """
        if self.between:
            return super().interval(level)
        z = normal_reach(level)
        leading = self.denominator**2 - z**2 * self.denominator_variance
        if leading <= 0 or not self.clear:
            return self.possible
        beyond = (self.reach(level) / z) ** 2 - self.stderr**2
        numerator = self.value * self.denominator
        middle = numerator * self.denominator - z**2 * self.covariance
        spread = self.numerator_variance + max(0.0, beyond) * self.denominator**2
        last = numerator**2 - z**2 * spread
        root = math.sqrt(max(0.0, middle**2 - leading * last))
        return (middle - root) / leading, (middle + root) / leading


def barely(size: float, error: float) -> str:
    """What is said of a group that may be nobody."""
    return (
        f"the group is estimated at {size:,.0f} ± {error:,.0f} people, not clearly above zero: "
        "nothing is known of it"
    )


def normal_reach(level: float) -> float:
    """How many standard errors a two-sided normal interval of that level reaches each way."""
    if not is_number(level) or not 0 < level < 1:
        raise QueryError(f"a level lies between 0 and 1, not {shown(level)}")
    return NormalDist().inv_cdf(0.5 + level / 2)


def together(level: float, count: int) -> float:
    """The level of each of so many intervals that hold together at `level`, whatever they share."""
    return 1 - (1 - level) / max(1, count)


def percent(level: float) -> str:
    """A level as people say it: 95%, 99.9%."""
    return f"{100 * level:.10g}%"


def finite(number: float) -> float | None:
    """The number, or None where it is infinite, which JSON cannot say."""
    return number if math.isfinite(number) else None
