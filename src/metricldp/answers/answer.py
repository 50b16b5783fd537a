"""Answers: a value with its own uncertainty, in the units of the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any, Protocol

from metricldp.answers import watched
from metricldp.answers.comparisons import SMALLEST
from metricldp.answers.liars import Ends, Lie, checked_liars
from metricldp.basics.checks import flag
from metricldp.basics.errors import QueryError
from metricldp.basics.markup import beside, table
from metricldp.basics.numbers import finite, is_number, whole, within
from metricldp.basics.text import shown
from metricldp.survey.agreement import Agreement

AUTO, NORMAL, BRACKET, CROSSED, BERNSTEIN = METHODS = (
    *("auto", "normal", "bracket"),
    *("cross-fitted", "bernstein"),
)
BRACKET_NOTE = "the interval is a bracket"
_WORTH = 0.8
"""A bracket is taken where it is planned to be shorter than this share of the plain interval."""


class Bracket(Protocol):
    """Functions below and above the one that is asked for: see `brackets.py`."""

    @property
    def possible(self) -> bool:
        """Whether there are any."""

    @property
    def limits(self) -> tuple[float, float]:
        """What the sum is at least and at most, whoever the people are."""

    @property
    def words(self) -> str:
        """Whom the functions were chosen for."""

    def raised(self, name: str, by: float) -> Bracket:
        """The same for a function that is larger by a number for everybody."""

    def worth(self, answer: Answer, z: float) -> bool:
        """Whether a bracket could be much shorter than a plain interval: a quick look."""

    def planned(self, answer: Answer, z: float) -> tuple[Answer, Answer, Answer]:
        """What is to be expected of them, and of the question itself, before reports are read."""

    def between(self, answer: Answer, z: float) -> tuple[Answer, Answer]:
        """The answers to both."""

    def crossed(self, answer: Answer, z: float) -> tuple[Answer, Answer]:
        """The same, with half of the reports read by functions that the other half chose."""

    def surely(self, answer: Answer, level: float) -> tuple[float, float]:
        """An interval that holds for any number of people, however few."""


class Made(Protocol):
    """The sums over people that an answer is made of: see `arithmetic.py`."""

    def scaled(self, factor: float) -> Made:
        """Of the answer times a factor."""

    def covariance(self, other: Any, about: str) -> float:
        """With what other sums make."""

    def paces(self, about: str) -> tuple[watched.Pace, ...]:
        """The sums that move on their own while reports come in."""

    def combined(
        self, parts: Sequence[tuple[float, Answer]], constant: float, words: str
    ) -> Answer:
        """The sum of some answers, each times a factor, and of a constant."""

    def divided(self, one: Answer, other: Answer) -> Answer:
        """One answer over the other."""


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
    origin: tuple[float, Answer] | None = field(default=None, compare=False)  # if it is a multiple
    one: float = field(default=0.0, compare=False)
    """What one person adds to the variance at most, by the survey alone; 0 where it is unknown."""

    @property
    def stderr(self) -> float:
        """The standard error: the estimated variance, kept within its bounds, as a root."""
        return math.sqrt(min(max(self.variance, self.bounds[0]), self.bounds[1]))

    @property
    def paces(self) -> tuple[watched.Pace, ...]:
        """The sums that move on their own while reports come in."""
        return (watched.Pace(self.stderr**2, self.one),)

    def interval(
        self, level: float = 0.95, method: str = AUTO, *, anytime: bool = False
    ) -> tuple[float, float]:
        """An interval that holds the truth at that level; where bins leave values open, wider.

        "normal" is the value and its reach each way. "bracket" is from functions below and above
        the one that is asked for, whose answers are less noisy, and holds for all people as well.
        "auto" takes the one that was planned to be shorter, before any report was looked at, and
        ends where counts end. "cross-fitted" is a bracket whose functions each half of the reports
        chooses for the other. "bernstein" rests on no approximation, however few reports there
        are, and is wider.

        `anytime` is one that stays right while one watches, at all looks together: a wider
        "normal" one, in the limit of many reports. See `watched.py`.
        """
        if flag("anytime", anytime):
            normal_reach(level)
            return watched.ends(self.interval, level, self.reports, self.paces, self.stderr**2)
        if self.between:
            ends = [one.interval(level, method) for one in self.between]
            return ends[0][0], ends[1][1]
        chosen, z = self.method(level, method), normal_reach(level)
        asked = self._unscaled()
        if chosen == BERNSTEIN:
            assert self.bracket is not None
            low, high = self.bracket.surely(asked, level)
        elif chosen in (BRACKET, CROSSED):
            assert self.bracket is not None
            read = self.bracket.between if chosen == BRACKET else self.bracket.crossed
            below, above = read(asked, z)
            low, high = below.value - below.reach(level), above.value + above.reach(level)
        else:
            reach = asked.reach(level)
            low, high = asked.value - reach, asked.value + reach
        if method != NORMAL and self.bracket is not None and self.bracket.possible:
            low, high = within((low, high), self.bracket.limits)
        # Ends that passed each other, by chance, are both kept.
        low, high = sorted((whole(low * self.scale), whole(high * self.scale)))
        return low, high

    def method(self, level: float = 0.95, method: str = AUTO) -> str:
        """What an interval will be of: "auto" decides without looking at the reports."""
        z = normal_reach(level)
        check_method(method)
        if self.bracket is None or not self.bracket.possible:
            if method not in (AUTO, NORMAL):
                raise QueryError(
                    f"there is no {method} interval for {self.question or 'this answer'}; "
                    "ask for 'auto' or 'normal'"
                )
            return NORMAL
        if method != AUTO:
            return method
        asked = self._unscaled()
        if not self.bracket.worth(asked, z):
            return NORMAL
        below, above, plain = self.bracket.planned(asked, z)
        least, most = self.bracket.limits
        width = above.value + above.reach(level) - below.value + below.reach(level)
        width = min(width, most - least)
        return BRACKET if width < _WORTH * 2 * plain.reach(level) else NORMAL

    def rests_on(self, level: float = 0.95, method: str = AUTO) -> str:
        """What the interval is, in words, and what has to be true for it to hold."""
        chosen = self.method(level, method)
        if chosen == NORMAL:
            return "normal interval: the sum of many small errors is nearly normal"
        assert self.bracket is not None
        planned = f"planned for {self.bracket.words}, valid for all"
        if chosen == CROSSED:
            planned = "planned by each half of the reports for the other, valid for all"
        if chosen != BERNSTEIN:
            return f"bracket, {planned}: the sum of many small errors is nearly normal"
        return f"Bernstein's inequality, {planned}: no approximation"

    def _unscaled(self) -> Answer:
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

    def scaled(self, factor: float, unit: str) -> Answer:
        """The same answer in another unit."""
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
        )

    # Arithmetic ----------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Answer:
        return self._with(other, 1.0)

    def __radd__(self, other: Any) -> Answer:
        """So that `sum` of many answers works, which starts from 0."""
        return self if is_number(other) and other == 0 else self._with(other, 1.0)

    def __sub__(self, other: Any) -> Answer:
        return self._with(other, -1.0)

    def __rsub__(self, other: Any) -> Answer:
        return (-self)._with(other, 1.0)

    def __neg__(self) -> Answer:
        return self * -1

    def __mul__(self, factor: Any) -> Answer:
        if isinstance(factor, Answer):
            raise QueryError("a product of two answers is not here; multiply with a number")
        if not is_number(factor) or not math.isfinite(factor):
            return NotImplemented
        times = "minus " if factor == -1 else f"{factor:.6g} times "
        return replace(self.scaled(float(factor), self.unit), question=times + self.question)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Answer:
        """By a number, or by another answer: then with Fieller's interval, as a mean has."""
        if isinstance(other, Answer):
            return self._made.divided(self, other)
        found: Answer = NotImplemented
        if is_number(other) and other == 0:
            raise QueryError(f"{self.question or 'this answer'} cannot be divided by 0")
        if is_number(other) and math.isfinite(other):
            found = replace(self * (1 / other), question=f"{self.question} over {other:.6g}")
        return found

    def covariance(self, other: Answer) -> float:
        """With another answer; 0 where the two are from different tallies."""
        if not isinstance(other, Answer):
            raise QueryError(f"a covariance is with another answer, not with {shown(other)}")
        if not math.isfinite(self.variance + other.variance):
            raise QueryError("an answer whose group may be nobody has no covariance with others")
        if self.about != other.about:
            raise QueryError("the two answers are about different things; ask both for one")
        return self._made.covariance(other._made, self.about)

    def p_value(self, number: float = 0.0) -> float:
        """How likely a value as far from `number` would be if that were the truth.

        It is the smallest p for which the "normal" interval of level 1 - p leaves the number out:
        so at most 5% where a 95% interval does. It says nothing about how large a difference is.
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
        low, high = self.interval(1 - min(wrong, 1 - SMALLEST), NORMAL)
        return not low <= number <= high

    def _with(self, other: Any, factor: float) -> Answer:
        word = "plus" if factor > 0 else "less"
        found: Answer = NotImplemented
        if isinstance(other, Answer):
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
                f"{self.question or 'this answer'} cannot be combined with others: its covariance "
                "is not known (so with weights and fits); counts, sums, means and shares can be"
            )
        return self.made

    def moved_by(self, liars: int) -> Ends:
        """Between what the value would lie had so many devices not lied: see `liars.py`."""
        if self.lie is None:
            raise QueryError(f"no bound is known for {self.question or 'this answer'} and liars")
        low, high = self.lie()
        reach = checked_liars(liars) * (high - low) * abs(self.scale)
        return self.value - reach, self.value + reach

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
            "method": self.method(level),
            "notes": list(self.notes),
        }

    def text(self, level: float = 0.95, *, among: int = 1, method: str = AUTO) -> str:
        """The answer in a line; one of several has an interval that holds with all others'."""
        error, ends, notes = self._told(level, among, method)
        text = f"{self._shown(self.value)} ± {error} {self.unit}".rstrip()
        every = " for all" if among > 1 else ""
        return "; ".join([f"{text} ({percent(level)}{every}: {ends})", *notes])

    def _told(self, level: float, among: int, method: str) -> tuple[str, str, list[str]]:
        """Its error, its interval and what is noted, in words."""
        normal_reach(level)
        each = together(level, among)
        ends = self._shown_ends(*self.interval(each, method))
        bracket = [] if self.between or self.method(each, method) != BRACKET else [BRACKET_NOTE]
        return self._shown(self.stderr), ends, [*bracket, *self.notes]

    def _repr_html_(self) -> str:
        error, ends, notes = self._told(0.95, 1, AUTO)
        row = (self.question, f"{self._shown(self.value)} {self.unit}".rstrip(), error, ends)
        return beside(table([("question", "value", "± error", "95% interval"), row]), below=notes)

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

    def _shown_ends(self, low: float, high: float) -> str:
        """The ends of an interval, in words."""
        return f"{self._shown(low)} to {self._shown(high)}"

    def _shown(self, number: float) -> str:
        """As many digits as the error leaves meaning to: two of the error, none of a person."""
        digits, error = 0, self.stderr
        if self.unit != "people":
            if math.isinf(error) and math.isfinite(number):
                return f"{float(f'{number:.4g}'):,.10g}"
            digits = 1 - math.floor(math.log10(error)) if 0 < error < math.inf else 4
        text = f"{number:,.{min(max(digits, 0), 12)}f}"
        return text.removeprefix("-") if not text.strip("-0.,") else text


def barely(size: float, error: float) -> str:
    return f"the group is estimated at {size:,.0f} ± {error:,.0f} people, not clearly above zero"


def check_method(method: object) -> None:
    """Refuse what an interval cannot be made by."""
    if not isinstance(method, str) or method not in METHODS:
        known = ", ".join(map(repr, METHODS))
        raise QueryError(f"the method of an interval is one of {known}, not {shown(method)}")


def normal_reach(level: float) -> float:
    """How many standard errors a two-sided normal interval of that level reaches each way."""
    if not is_number(level) or not 0.5 < 0.5 + level / 2 < 1:
        raise QueryError(f"a level lies between 0 and 1, not {shown(level)}")
    return NormalDist().inv_cdf(0.5 + level / 2)


def together(level: float, count: int) -> float:
    """The level of each of so many intervals that hold together at `level`, whatever they share."""
    return 1 - (1 - level) / max(1, count)


def percent(level: float) -> str:
    """A level as people say it: 95%, 99.9%."""
    return f"{100 * level:.10g}%"
