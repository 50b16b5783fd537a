"""Estimates: a value with its standard error, in the unit of the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any, NamedTuple, Protocol, Self

from metricldp.answers import watched
from metricldp.answers.comparisons import SMALLEST, p_text
from metricldp.answers.liars import Lie, checked_liars
from metricldp.answers.queries import EVERYBODY
from metricldp.basics.checks import flag
from metricldp.basics.errors import QueryError
from metricldp.basics.markup import beside, table
from metricldp.basics.numbers import finite, is_number, whole, within
from metricldp.basics.text import listed, plain, shown
from metricldp.estimate.display import (
    EMPTY,
    Display,
    bounded,
    interval_text,
    percent,
    rounded,
    rounded_error,
)
from metricldp.survey.agreement import Agreement

AUTO, NORMAL, BRACKET, BERNSTEIN = METHODS = ("auto", "normal", "envelope", "bernstein")
_WORDS = {"people", "weighted people", "of respondents", "of the group", "reports"}
"""Units that are written behind a number; other units are names of attributes."""
TWO_SIDED = "two-sided"
ALTERNATIVES = (TWO_SIDED, "greater", "less")


class Interval(NamedTuple):
    """The ends of an interval, with the unit of the estimate; printed numbers are rounded."""

    low: Any
    """A number, a value of the attribute (of a quantile), or an array (of a table)."""
    high: Any

    def __str__(self) -> str:
        if not isinstance(self.low, float) or self.low == self.high:
            return interval_text(plain(self.low), plain(self.high))
        return interval_text(*(rounded(end, (self.high - self.low) / 4) for end in self))


class Bracket(Protocol):
    """Functions below and above the one that is asked for: see `brackets.py`."""

    @property
    def possible(self) -> bool:
        """Whether there are any."""

    @property
    def limits(self) -> tuple[float, float]:
        """What the sum is at least and at most, whoever the people are."""

    def raised(self, name: str, by: float) -> Bracket:
        """The same for a function that is larger by a number for everybody."""

    def between(self, answer: Estimate, z: float) -> tuple[Estimate, Estimate]:
        """The answers to both."""

    def surely(self, answer: Estimate, level: float) -> tuple[float, float]:
        """An interval that holds for any number of people, however few."""


class Made(Protocol):
    """The sums over people that an answer is made of: see `arithmetic.py`."""

    def scaled(self, factor: float) -> Made:
        """Of the answer times a factor."""

    def covariance(self, other: Any, target: str) -> float:
        """With what other sums make."""

    def paces(self, target: str) -> tuple[watched.Pace, ...]:
        """The sums that move on their own while reports come in."""

    def combined(
        self, parts: Sequence[tuple[float, Estimate]], constant: float, words: str
    ) -> Estimate:
        """The sum of some answers, each times a factor, and of a constant."""

    def divided(self, one: Estimate, other: Estimate) -> Estimate:
        """One answer over the other."""


@dataclass(frozen=True, repr=False)
class Estimate:
    """An estimate with its standard error and confidence intervals.

    The estimate is unbiased, and so is its variance, except where a note states otherwise. `target`
    is "respondents", those who reported (only randomization is uncertain), or the "population" from
    which they are a random sample. Estimates can be added, subtracted, multiplied by numbers and
    divided; their covariance is taken into account.
    """

    value: float
    """The estimate; NaN if the quantity cannot be estimated."""
    variance: float
    question: str = ""
    unit: str = "people"
    """Unit of the value, such as people."""
    target: str = "respondents"
    notes: tuple[str, ...] = ()
    """Remarks on the estimate, such as a bias or an approximation."""
    bounds: tuple[float, float] = (0.0, math.inf)
    """Between these the standard error is kept: at least what three people at the worst place
    add, as so few can go unseen by chance, and at most what all people there would."""
    jump: float = 0.0
    """How far one coin, or one person who is drawn, can move the value."""
    hidden: float = 0.0
    """The size of the steps in which the variance is estimated: some can go unseen by chance."""
    layout: str = field(default="", compare=False)
    """How the sums were found: from "reports", "cells" or "prefix"."""
    between: tuple[Estimate, ...] = ()
    """Where bins leave it open: the same question with every value at the lower, and with every
    value at the upper edge of its bin. The truth lies between theirs, so the interval reaches from
    the lower end of the first one's to the upper end of the second one's."""
    bracket: Bracket | None = field(default=None, compare=False)
    """Where a shorter interval can come from."""
    scale: float = field(default=1.0, compare=False)
    """What the sum that the bracket is of was multiplied with."""
    reports: int = field(default=0, compare=False)
    """How many it is from."""
    lie: Lie | None = field(default=None, compare=False)
    """The least and the most that one report can add to that sum."""
    made: Made | None = field(default=None, compare=False)
    """What it is made of, so that answers can be added and divided; None where that is unknown."""
    survey: Agreement | None = field(default=None, compare=False)
    """What was agreed with the people, so that a picture can say what they were promised."""
    origin: tuple[float, Estimate] | None = field(
        default=None, compare=False
    )  # if it is a multiple
    possible: tuple[float, float] = field(default=(-math.inf, math.inf), compare=False)
    """The least and the most that it can be, whoever reported what."""
    one: float = field(default=0.0, compare=False)
    """What one person adds to the variance at most, by the survey alone; 0 where it is unknown."""

    @property
    def stderr(self) -> float:
        """The standard error."""
        return math.sqrt(min(max(self.variance, self.bounds[0]), self.bounds[1]))

    @property
    def paces(self) -> tuple[watched.Pace, ...]:
        """The sums that move on their own while reports come in."""
        return (watched.Pace(self.stderr**2, self.one),)

    @property
    def _attainable(self) -> tuple[float, float]:
        """The least and the most that it can be, for all values that bins leave open."""
        every = [one.possible for one in (self, *self.between)]
        return min(low for low, _ in every), max(high for _, high in every)

    @property
    def n(self) -> int:
        """Number of reports that the estimate is from."""
        return self.reports

    @property
    def estimable(self) -> bool:
        """Whether there is an estimate: a ratio over a group that may be empty is none."""
        return not math.isinf(self.variance)

    @property
    def _middle(self) -> float:
        """The value, or any possible one if it is NaN: where an interval of a sum begins."""
        return sum(self.possible) / 2 if math.isnan(self.value) else self.value

    def _reported(self) -> Self:
        """The same as users see it: its value is NaN if it cannot be estimated."""
        if self.estimable:
            return self
        return replace(self, value=math.nan, variance=math.inf, bounds=(0.0, math.inf))

    def confidence_interval(
        self, confidence_level: float = 0.95, *, method: str = AUTO, anytime: bool = False
    ) -> Interval:
        """A confidence interval of that level, within what is possible.

        "auto" and "normal": the value and a multiple of its standard error on each side, corrected
        for skewness and for variance that few respondents can hide. "envelope": from two functions,
        one below and one above the query, whose estimates have smaller errors; it covers the truth
        for any data and is often shorter where n or epsilon is small. "bernstein": without any
        approximation, however few reports there are, and wider. Where bins leave values open, the
        interval covers all of them.

        With `anytime` it is a confidence sequence: it covers the truth at all looks together.
        """
        low, high = self._interval(confidence_level, method, anytime=anytime)
        least, most = self._attainable
        return Interval(min(max(low, least), most), min(max(high, least), most))

    def _interval(
        self, confidence_level: float = 0.95, method: str = AUTO, *, anytime: bool = False
    ) -> tuple[float, float]:
        """The ends of the interval, by a method for this kind of estimate."""
        if flag("anytime", anytime):
            normal_reach(confidence_level)
            return watched.ends(
                self._interval, confidence_level, self.reports, self.paces, self.stderr**2
            )
        if self.between:
            ends = [one._interval(confidence_level, method) for one in self.between]
            return ends[0][0], ends[1][1]
        chosen, z = self.method(confidence_level, method), normal_reach(confidence_level)
        asked = self._unscaled()
        if chosen == BERNSTEIN:
            assert self.bracket is not None
            low, high = self.bracket.surely(asked, confidence_level)
        elif chosen == BRACKET:
            assert self.bracket is not None
            below, above = self.bracket.between(asked, z)
            low, high = (
                below.value - below.reach(confidence_level),
                above.value + above.reach(confidence_level),
            )
        else:
            reach = asked.reach(confidence_level)
            low, high = asked.value - reach, asked.value + reach
        if chosen != NORMAL and self.bracket is not None and self.bracket.possible:
            low, high = within((low, high), self.bracket.limits)
        # Ends that passed each other, by chance, are both kept.
        low, high = sorted((whole(low * self.scale), whole(high * self.scale)))
        return low, high

    def method(self, level: float = 0.95, method: str = AUTO) -> str:
        """The method that "auto" stands for: fixed by the query, whatever the reports are."""
        normal_reach(level)
        check_method(method)
        if method in (AUTO, NORMAL):
            return NORMAL
        if self.bracket is None or not self.bracket.possible:
            raise QueryError(
                f"there is no {method} interval for {self.question or 'this estimate'}; "
                "use 'auto' or 'normal'"
            )
        return method

    def _unscaled(self) -> Estimate:
        """As the sum that the bracket is of."""
        return self if self.scale == 1.0 else replace(self.scaled(1 / self.scale, ""), scale=1.0)

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

    def scaled(self, factor: float, unit: str) -> Estimate:
        """The same estimate in another unit."""
        low, high = self.bounds
        times, origin = self.origin or (1.0, self)
        sides = [one.scaled(factor, unit) for one in self.between]
        return replace(
            self,
            value=self.value * factor,
            variance=self.variance * factor**2,
            unit=unit,
            bounds=(low * factor**2, high * factor**2),
            between=tuple(sides if factor >= 0 else sides[::-1]),
            bracket=self.bracket if factor else None,
            jump=self.jump * abs(factor),
            hidden=self.hidden * factor**2,
            one=self.one * factor**2,
            scale=self.scale * factor or 1.0,
            made=self.made and self.made.scaled(factor),
            origin=(factor * times, origin),
            possible=times_factor(self.possible, factor),
        )

    # Arithmetic ----------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Estimate:
        return self._with(other, 1.0)

    def __radd__(self, other: Any) -> Estimate:
        """So that `sum` of many answers works, which starts from 0."""
        return self if is_number(other) and other == 0 else self._with(other, 1.0)

    def __sub__(self, other: Any) -> Estimate:
        return self._with(other, -1.0)

    def __rsub__(self, other: Any) -> Estimate:
        return (-self)._with(other, 1.0)

    def __neg__(self) -> Estimate:
        return self * -1

    def __mul__(self, factor: Any) -> Estimate:
        if isinstance(factor, Estimate):
            raise QueryError(
                "estimates cannot be multiplied with each other; multiply with a number"
            )
        if not is_number(factor) or not math.isfinite(factor):
            return NotImplemented
        times = "minus " if factor == -1 else f"{factor:.6g} times "
        # A count over a number is no count: it has fractions, and its interval as well.
        unit = "" if self._counts and factor != round(factor) else self.unit
        return replace(self.scaled(float(factor), unit), question=times + self.question)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Estimate:
        """By a number, or by another answer: then with Fieller's interval, as a mean has."""
        if isinstance(other, Estimate):
            return self._made.divided(self, other)._reported()
        found: Estimate = NotImplemented
        if is_number(other) and other == 0:
            raise QueryError(f"{self.question or 'this estimate'} cannot be divided by 0")
        if is_number(other) and math.isfinite(other):
            found = replace(self * (1 / other), question=f"{self.question} over {other:.6g}")
        return found

    def covariance(self, other: Estimate) -> float:
        """With another estimate; 0 where the two are from different tallies."""
        if not isinstance(other, Estimate):
            raise QueryError(f"a covariance is with another estimate, not with {shown(other)}")
        if not math.isfinite(self.variance + other.variance):
            raise QueryError("an estimate that is not estimable has no covariance")
        if self.target != other.target:
            raise QueryError("the two estimates have different targets; use one target")
        return self._made.covariance(other._made, self.target)

    def pvalue(self, number: float = 0.0) -> float:
        """The p-value of a two-sided test that the truth about the estimate's target is `number`.

        It is the smallest p for which the "normal" interval of level 1 - p leaves the number out:
        so at most 5% where a 95% interval does. It is clipped: smaller p-values are 1e-12, which
        prints as "less than 1e-12". It does not measure the size of a difference.
        """
        if not is_number(number) or not math.isfinite(number):
            raise QueryError(f"a value is compared with a number, not with {shown(number)}")
        out, held = 1.0, SMALLEST  # the levels of intervals: 1 - p
        # A difference of equal answers may be the last digit of a number, with as little error.
        if math.isclose(self.value, number, abs_tol=1e-12) or not self._leaves_out(number, out):
            return 1.0
        if self._leaves_out(number, held):
            return held
        while out / held > 1 + 1e-6:
            middle = math.sqrt(out * held)
            if self._leaves_out(number, middle):
                out = middle
            else:
                held = middle
        return out

    def _leaves_out(self, number: float, wrong: float) -> bool:
        low, high = self._interval(1 - min(wrong, 1 - SMALLEST), NORMAL)
        return not low <= number <= high

    def _with(self, other: Any, factor: float) -> Estimate:
        word = "plus" if factor > 0 else "less"
        found: Estimate = NotImplemented
        if isinstance(other, Estimate):
            words = f"{self.question} {word} {other.question}"
            found = self._made.combined([(1.0, self), (factor, other)], 0.0, words)
        elif is_number(other) and math.isfinite(other):
            words = f"{self.question} {word} {other:.6g}"
            found = self._made.combined([(1.0, self)], factor * other, words)
        return found

    @property
    def _made(self) -> Made:
        if self.made is None:
            raise QueryError(
                f"{self.question or 'this estimate'} cannot be combined with others: its "
                "covariance "
                "is not known (so with weights and fits); counts, sums, means and shares can be"
            )
        return self.made

    def poisoning_bounds(self, malicious: int) -> Interval:
        """The range of the estimate if so many of the `n` reports are malicious.

        It contains all estimates with honest reports in place of the malicious ones: they replace
        honest reports and are not added to them. Bounds of counts and sums are of the unbiased
        estimate, so they may be outside the possible range, such as below 0 or above n.
        """
        if self.lie is None:
            raise QueryError(
                f"no poisoning bounds are known for {self.question or 'this estimate'}"
            )
        low, high = self.lie()
        reach = checked_liars(malicious) * (high - low) * abs(self.scale)
        return Interval(self.value - reach, self.value + reach)

    def test(self, null: float = 0.0, *, alternative: str = TWO_SIDED) -> NullTest:
        """A test of whether the truth is `null`, by inversion of the normal interval.

        The test is about the target of the estimate. Use an estimate with target="population" for
        a hypothesis about the population: a test about the respondents has no sampling error, and
        among them groups that are equal in the population are never quite equal. `alternative` is
        "two-sided", "greater" or "less". Two-sided p-values below 1e-12 are clipped to 1e-12.
        """
        if alternative not in ALTERNATIVES:
            raise QueryError(
                f"alternative is one of {listed(ALTERNATIVES)}, not {shown(alternative)}"
            )
        pvalue = self.pvalue(null)
        error = self.stderr
        statistic = (self.value - null) / error if 0 < error < math.inf else math.nan
        if alternative != TWO_SIDED:
            towards = (self.value > null) == (alternative == "greater")
            pvalue = pvalue / 2 if towards and self.value != null else 1 - pvalue / 2
        return NullTest(statistic, pvalue, self.target, self.question, null, alternative)

    def to_dict(self, confidence_level: float = 0.95) -> dict[str, Any]:
        """Plain data for JSON; None where a number is infinite or NaN."""
        low, high = self.confidence_interval(confidence_level)
        known = self.estimable
        return {
            "label": self.question,
            "unit": self.unit,
            "target": self.target,
            "confidence_level": confidence_level,
            "estimate": plain_number(self.value) if known else None,
            "std_error": finite(self.stderr) if known else None,
            "ci_low": plain_number(low),
            "ci_high": plain_number(high),
            "n": self.n,
            "note": "; ".join(self._notes_at(confidence_level)) or None,
        }

    def _notes_at(self, confidence_level: float) -> tuple[str, ...]:
        """The notes; one more if the interval of that level holds nothing that is possible."""
        if not self.estimable or isinstance(self.value, str) or not math.isfinite(self.stderr):
            return self.notes
        least, most = self._attainable
        low, high = self._interval(confidence_level)
        if high >= least and low <= most:
            return self.notes
        return *self.notes, f"no possible value is in its {percent(confidence_level)} CI"

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the estimate with its interval and return the Axes of matplotlib."""
        from metricldp.estimate.table import EstimateTable
        from metricldp.plot.charts import draw_table

        return draw_table(EstimateTable.single(self), ax, **options)

    def display(self, confidence_level: float) -> Display:
        """The estimate in words, rounded to its error."""
        if not self.estimable:
            return Display(self._unknown, "", "", self.notes, estimable=False)
        low, high = self.confidence_interval(confidence_level)
        place = -1 if self.value < low else 1 if self.value > high else 0
        notes = self._notes_at(confidence_level)
        unbiased = self._shown(self.value) if len(notes) > len(self.notes) else ""
        ends = (self._shown(low), self._shown(high))
        shown_value = bounded(self._shown(self.value), *ends, place)
        error = rounded_error(self.stderr, whole=self._counts)
        ends_shown = self._shown_ends(low, high)
        return Display(shown_value, error, ends_shown, notes, unbiased=unbiased)

    _unknown = EMPTY

    @property
    def _counts(self) -> bool:
        return self.unit == "people"

    def to_text(self, confidence_level: float = 0.95) -> str:
        """The estimate, its standard error and its interval in one line."""
        unit = self.unit if self.unit in _WORDS or " per " in f" {self.unit}" else ""
        return self.display(confidence_level).line(unit, confidence_level)

    def _repr_html_(self) -> str:
        display = self.display(0.95)
        value = f"{display.value} {self.unit}".rstrip() if display.estimable else display.value
        row = (self.question, value, display.stderr, display.interval)
        return beside(table([("query", "estimate", "SE", "95% CI"), row]), below=display.notes)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        shown = f"{self._shown(self.value)} {self.unit}".rstrip()
        return f"<{type(self).__name__}: {shown} (SE {self._shown(self.stderr)})>"

    def __float__(self) -> float:
        return self.value

    def __format__(self, spec: str) -> str:
        """The whole estimate, or with a format such as ",.0f" its value."""
        return format(self.value, spec) if spec else str(self)

    def _shown_ends(self, low: float, high: float) -> str:
        """The ends of an interval, in words."""
        return interval_text(self._shown(low), self._shown(high))

    def _shown(self, number: float) -> str:
        """A number with two digits of the standard error; people have no fractions."""
        return rounded(number, self.stderr, whole=self._counts)


@dataclass(frozen=True)
class NullTest:
    """A test of an estimate against a number."""

    statistic: float
    """The distance from the number in standard errors."""
    pvalue: float
    """Clipped: smaller two-sided p-values are 1e-12."""
    target: str
    """Whom the test is about, "respondents" or "population"."""
    question: str = ""
    null: float = 0.0
    alternative: str = TWO_SIDED

    def __str__(self) -> str:
        # Labels of estimates name all respondents, whichever the target is.
        words = self.question.replace(f" among {EVERYBODY}", "") or "the estimate"
        one_sided = "" if self.alternative == TWO_SIDED else f" against {self.alternative}"
        return (
            f"test of {words} = {self.null:.6g}{one_sided}, for the {self.target}: "
            f"statistic {self.statistic:.2f}, p-value {p_text(self.pvalue)}"
        )


def times_factor(ends: tuple[float, float], factor: float) -> tuple[float, float]:
    """The ends of a range times a factor, in order."""
    low, high = sorted(whole(end * factor) if factor else 0.0 for end in ends)
    return low, high


def plain_number(value: Any) -> Any:
    """A number for JSON; names stay."""
    return finite(float(value)) if is_number(value) else value


def barely(size: float, error: float) -> str:
    """The note of a ratio over a group that may be empty; a bound in place of negative people."""
    value, high = (
        f"{max(number, 0.0):,.0f}" for number in (size, size + normal_reach(0.95) * error)
    )
    people = bounded(value, "0", high, -1 if size < 0 else 0)
    return f"the group is estimated at {people} people (SE {rounded_error(error, whole=True)})"


_MEAN_OVER = "mean over an estimated "


def over(size: float) -> str:
    """The note of a mean of an optional attribute; not of what is computed from several means."""
    return f"{_MEAN_OVER}{size:,.0f} respondents who gave a response"


def notes_of_all(estimates: Iterable[Estimate]) -> tuple[str, ...]:
    """The notes of what is computed from several estimates."""
    notes = (note for one in estimates for note in one.notes if not note.startswith(_MEAN_OVER))
    return tuple(dict.fromkeys(notes))


def check_method(method: object) -> None:
    """Refuse what an interval cannot be made by."""
    if not isinstance(method, str) or method not in METHODS:
        raise QueryError(f"method is one of {listed(METHODS)}, not {shown(method)}")


def normal_reach(level: float) -> float:
    """How many standard errors a two-sided normal interval of that level reaches each way."""
    if not is_number(level) or not 0.5 < 0.5 + level / 2 < 1:
        raise QueryError(f"a confidence level is between 0 and 1, such as 0.95, not {shown(level)}")
    return NormalDist().inv_cdf(0.5 + level / 2)


def together(level: float, count: int) -> float:
    """The level of each of so many intervals that hold together at `level`, whatever they share."""
    return 1 - (1 - level) / max(1, count)
