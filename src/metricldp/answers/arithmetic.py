"""Arithmetic of answers: sums, differences, multiples and ratios, with the error of the result.

Answers from one tally share its noise, so the error of a difference is not what the two errors
alone would give. Every answer knows the sums over people that it is made of, each with a factor:
exactly for counts and sums, to first order for means and shares. Of two such sums the reports tell
the covariance as they tell a variance: a person at x adds E[F G | x] - f(x) g(x), which is a
function of x and can be decoded. Answers from different tallies are independent.

Sums that differ in one attribute only are one sum, of the difference of their functions. So most
differences are questions like any other, with all that those have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from metricldp.answers import recovered
from metricldp.answers.answer import AUTO, Estimate, barely, notes_of_all, times_factor
from metricldp.answers.queries import Query
from metricldp.answers.ratio import Ratio
from metricldp.answers.spread import Spread
from metricldp.answers.terms import (
    SAME,
    Asked,
    Term,
    as_query,
    check,
    pace,
    shared_by,
    simplified,
    spread_of,
)
from metricldp.answers.watched import Pace
from metricldp.basics.checks import flag
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import whole

Part = tuple[float, Estimate]
"""An answer, and what it is multiplied with."""


@dataclass(frozen=True, repr=False)
class Combination(Estimate):
    """A value that several sums over people make; its error counts a mean to first order."""

    parts: tuple[Part, ...] = field(default=(), compare=False)
    """Where a mean is among them: all answers, from whose intervals its own is recovered."""
    middle: float = field(default=math.nan, compare=False)
    """The same sum of possible values, if a part cannot be estimated."""

    @property
    def paces(self) -> tuple[Pace, ...]:
        return made_of(self).paces(self.target)

    def scaled(self, factor: float, unit: str) -> Combination:
        found = super().scaled(factor, unit)
        assert isinstance(found, Combination)
        parts = tuple((factor * times, one) for times, one in self.parts)
        return replace(found, parts=parts, middle=factor * self.middle)

    def _interval(
        self, confidence_level: float = 0.95, method: str = AUTO, *, anytime: bool = False
    ) -> tuple[float, float]:
        if flag("anytime", anytime) and not math.isfinite(self.variance):
            return -math.inf, math.inf
        if anytime or self.between or not self.parts:
            return super()._interval(confidence_level, method, anytime=anytime)
        self.method(confidence_level, method)
        off = [
            recovered.Off.of(answer, confidence_level).times(factor)
            for factor, answer in self.parts
        ]
        below, above = recovered.ends_of_sum(off, self._correlation)
        value = self._middle
        return whole(value - below, below), whole(value + above, above)

    @property
    def _middle(self) -> float:
        return self.middle if math.isnan(self.value) else self.value

    @cached_property
    def _correlation(self) -> recovered.Correlation:
        """Of its parts, each pair looked up once: a p-value asks for many intervals."""

        @cache
        def found(i: int, j: int) -> float | None:
            (factor, one), (times, other) = self.parts[i], self.parts[j]
            shared = _correlation(one, other)
            return None if shared is None else math.copysign(shared, shared * factor * times)

        return found


def _correlation(one: Estimate, other: Estimate) -> float | None:
    """Of two answers, as their reports tell it; None where one is of hardly anybody."""
    if not math.isfinite(one.variance + other.variance):
        return None
    errors = one.stderr * other.stderr
    shared = made_of(one).covariance(made_of(other), one.target)
    return min(max(shared / errors, -1.0), 1.0) if errors else 0.0


@dataclass(frozen=True, eq=False)
class Terms:
    """The sums that an answer is made of."""

    terms: tuple[Term, ...]
    exact: bool = True
    """Whether the answer is their sum; or moves like it, to first order."""

    @classmethod
    def of(cls, query: Query, tally: Asked, factor: float = 1.0) -> Terms:
        return cls((Term(factor, query, tally, tally.n),))

    def scaled(self, factor: float) -> Terms:
        return replace(self, terms=tuple(term.times(factor) for term in self.terms))

    def plus(self, other: Terms, *, exact: bool = True) -> Terms:
        return Terms((*self.terms, *other.terms), exact and self.exact and other.exact)

    def covariance(self, other: Terms, target: str) -> float:
        """With what other sums make, as far as both are of the same reports."""
        check([*self.terms, *other.terms])
        return math.fsum(
            one.factor * two.factor * shared_by(one, two, target)
            for one in self.terms
            for two in other.terms
            if one.tally.store is two.tally.store
        )

    def paces(self, target: str) -> tuple[Pace, ...]:
        """The sums that move on their own while reports come in.

        Terms of one tally keep their factors if the answer is their sum, and move as one. Those of
        different tallies may not: shares have each their own number of people.
        """
        if not self.exact:
            return tuple(pace([term], target) for term in self.terms)
        own: dict[int, list[Term]] = {}
        for term in simplified(self.terms):
            own.setdefault(id(term.tally.store), []).append(term)
        return tuple(pace(terms, target) for terms in own.values())

    def combined(self, parts: Sequence[Part], constant: float, words: str) -> Estimate:
        """The sum of some answers, each times a factor, and of a constant."""
        return _combined(parts, constant, words)

    def divided(self, one: Estimate, other: Estimate) -> Estimate:
        """One answer over the other."""
        return divided(one, other)


def made_of_all(answers: Sequence[Estimate]) -> Terms | None:
    """The sums of answers that were added up; None where those of one are not known."""
    made = [one.made for one in answers if isinstance(one.made, Terms)]
    if len(made) < len(answers):
        return None
    return Terms(tuple(t for one in made for t in one.terms), all(one.exact for one in made))


def made_of(answer: Estimate) -> Terms:
    """The sums of an answer, or a refusal where they are not known."""
    made = answer._made
    assert isinstance(made, Terms)
    return made


def _apart(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The answers themselves that combinations are of, each once."""
    found: dict[int, Part] = {}
    for factor, answer in parts:
        own = answer.parts if isinstance(answer, Combination) else ()
        for times, one in own or (_origin(answer),):
            before = found.get(id(one), (0.0, one))[0]
            found[id(one)] = before + factor * times, one
    return tuple(part for part in found.values() if part[0])


def _origin(answer: Estimate) -> Part:
    """What an answer is a multiple of, if nothing else was done to it."""
    times, one = answer.origin or (1.0, answer)
    return (times, one) if math.isclose(times * one.value, answer.value) else (1.0, answer)


def _combined(parts: Sequence[Part], constant: float, words: str) -> Estimate:
    first = parts[0][1]
    target = _one([answer.target for _, answer in parts], "target")
    made = [made_of(answer).scaled(factor) for factor, answer in parts]
    whole = Terms(tuple(t for each in made for t in each.terms), all(m.exact for m in made))
    value = math.fsum([constant, *(factor * answer.value for factor, answer in parts)])
    units = {answer.unit for _, answer in parts}
    found = Combination(
        value,
        math.inf,
        words,
        first.unit if len(units) == 1 else "",
        target,
        notes_of_all(answer for _, answer in parts),
        reports=sum({id(t.tally.store): t.n for t in whole.terms}.values()),
        made=whole,
        survey=first.survey,
        parts=() if whole.exact else _apart(parts),
        middle=math.fsum([constant, *(factor * answer._middle for factor, answer in parts)]),
        possible=_possible(parts, constant),
    )
    between = _sides(parts, constant, words)
    if not all(math.isfinite(answer.variance) for _, answer in parts):
        return replace(found, between=between)
    terms = simplified(whole.terms)
    if whole.exact and len(terms) == 1:
        (term,) = terms
        one = term.tally._answers([as_query(term)], target)[0]
        moved = not math.isclose(
            one.value, value, rel_tol=SAME, abs_tol=SAME * max(1.0, abs(value))
        )
        return replace(
            one,
            value=value,
            question=words,
            unit=found.unit,
            notes=found.notes,
            between=between,
            bracket=None if moved else one.bracket,
            made=whole,
            possible=found.possible,
        )
    spread = spread_of(terms, target)
    return replace(
        found,
        variance=spread.variance,
        bounds=spread.bounds,
        jump=spread.jump,
        hidden=spread.hidden,
        between=between,
    )


def _possible(parts: Sequence[Part], constant: float) -> tuple[float, float]:
    """The range of a sum, from the ranges of its parts."""
    ends = [times_factor(answer._attainable, factor) for factor, answer in parts]
    return constant + sum(low for low, _ in ends), constant + sum(high for _, high in ends)


def _sides(parts: Sequence[Part], constant: float, words: str) -> tuple[Estimate, ...]:
    """Where bins leave an answer open: the least and the most that it can be."""
    if not any(answer.between for _, answer in parts):
        return ()
    sides = []
    for side in (0, 1):
        ends = [answer.between or (answer, answer) for _, answer in parts]
        chosen = [
            (factor, end[side] if factor >= 0 else end[1 - side])
            for (factor, _), end in zip(parts, ends, strict=True)
        ]
        sides.append(_combined(chosen, constant, words))
    return tuple(sides)


def divided(
    one: Estimate, other: Estimate, possible: tuple[float, float] = (-math.inf, math.inf)
) -> Ratio:
    """One answer over another, which lies within what is possible, with Fieller's interval."""
    target = _one([one.target, other.target], "target")
    if one.between or other.between:
        return _divided_between(one, other, possible)
    top, bottom = made_of(one), made_of(other)
    size, error = other.value, other.stderr
    clear = abs(size) > 2 * error and math.isfinite(one.variance)
    value = one.value / size if size else 0.0
    if not clear:
        value = min(max(value, possible[0]), possible[1])
    notes = notes_of_all((one, other))
    spread, made = Spread(math.inf, (0.0, math.inf), 0.0, 0.0), Terms((), exact=False)
    if clear:
        made = top.scaled(1 / size).plus(bottom.scaled(-value / size), exact=False)
        spread = spread_of(simplified(made.terms), target)
    elif abs(size) <= 2 * error < math.inf:
        small = f"{other.question} is not clearly different from zero"
        notes = (*notes, barely(size, error) if other.unit == "people" else small)
    sign = math.copysign(1.0, size)
    numerator, denominator = one.stderr**2, other.stderr**2
    most = math.sqrt(numerator * denominator)
    shared = min(max(top.covariance(bottom, target), -most), most) if clear else 0.0
    return Ratio(
        value,
        spread.variance,
        f"{one.question} over {other.question}",
        "" if one.unit == other.unit else f"{one.unit} per {other.unit}",
        target,
        notes,
        spread.bounds,
        spread.jump,
        spread.hidden,
        reports=max(one.reports, other.reports),
        made=made,
        survey=one.survey,
        numerator=one.value * sign,
        denominator=size * sign,
        numerator_variance=numerator,
        denominator_variance=denominator,
        shared=shared,
        possible=possible,
        ends=None if top.exact and bottom.exact else _quotient(one, other),
    )


def _quotient(one: Estimate, other: Estimate) -> Callable[[float], tuple[float, float]]:
    """The interval of a ratio at any level."""
    sign, shared = math.copysign(1.0, other.value), cache(lambda: _correlation(one, other))

    def ends(level: float) -> tuple[float, float]:
        top, bottom = (recovered.Off.of(answer, level).times(sign) for answer in (one, other))
        return recovered.ends_of_ratio(top, bottom, shared())

    return ends


def _divided_between(one: Estimate, other: Estimate, possible: tuple[float, float]) -> Ratio:
    """The same where bins leave one of them open: of all ways the lowest and the highest."""
    middle = divided(replace(one, between=()), replace(other, between=()), possible)
    tops, bottoms = one.between or (one,), other.between or (other,)
    ways = [divided(a, b, possible) for a in tops for b in bottoms]
    ways.sort(key=lambda way: way.value)
    return replace(middle, between=(ways[0], ways[-1]))


def _one(said: Sequence[str], what: str) -> str:
    if len({*said}) > 1:
        raise QueryError(
            f"estimates with {what} {' and '.join(sorted({*said}))} cannot be combined; use one"
        )
    return said[0]
