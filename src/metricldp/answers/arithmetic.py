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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from metricldp.answers import watched
from metricldp.answers.answer import AUTO, Answer, barely
from metricldp.answers.estimate import (
    POPULATION,
    drawn,
    kept_between,
    one_person,
    with_draws,
)
from metricldp.answers.queries import Query
from metricldp.answers.ratio import Ratio
from metricldp.basics.checks import flag
from metricldp.basics.errors import QueryError
from metricldp.basics.text import counted
from metricldp.channels import Floats
from metricldp.store.base import Store
from metricldp.store.readings import read, read_pair
from metricldp.survey.agreement import Agreement

MOST_TERMS = 64
"""Every two sums have a covariance of their own, so of more than these it would take long."""
_SAME = 1e-9
_MOST_KEPT = 4096
Covariances = dict[tuple[int, int, str, int], tuple[Query, Query, float]]
"""Of two queries, by where they are in memory; they are kept as well, so that they stay there."""


class Asked(Protocol):
    """The side of a tally that sums are asked of."""

    store: Store
    covariances: Covariances

    @property
    def survey(self) -> Agreement: ...

    @property
    def n(self) -> int: ...

    def _answers(self, queries: Sequence[Query], about: str) -> list[Answer]: ...


@dataclass(frozen=True, eq=False)
class Term:
    """A sum over the people of a tally, times a factor."""

    factor: float
    query: Query
    tally: Asked
    n: int
    """How many reports there were when it was asked for."""

    def times(self, factor: float) -> Term:
        return replace(self, factor=self.factor * factor)


@dataclass(frozen=True, repr=False)
class Combination(Answer):
    """A value that several sums over people make; a mean among them counts to first order."""

    sums: int = 1
    """How many sums move on their own while reports come in."""

    def interval(
        self, level: float = 0.95, method: str = AUTO, *, anytime: bool = False
    ) -> tuple[float, float]:
        if not math.isfinite(self.variance):
            return -math.inf, math.inf
        if flag("anytime", anytime):
            return watched.ends(self.interval, level, self.reports, self.sums)
        return super().interval(level, method)


@dataclass(frozen=True)
class Spread:
    """What is known of the error of some terms of one tally together."""

    variance: float
    bounds: tuple[float, float]
    jump: float
    hidden: float

    def plus(self, other: Spread) -> Spread:
        """Of two tallies, whose errors are independent."""
        return Spread(
            self.variance + other.variance,
            (self.bounds[0] + other.bounds[0], self.bounds[1] + other.bounds[1]),
            max(self.jump, other.jump),
            self.hidden + other.hidden,
        )


NOTHING = Spread(0.0, (0.0, 0.0), 0.0, 0.0)


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

    def covariance(self, other: Terms, about: str) -> float:
        """With what other sums make, as far as both are of the same reports."""
        _check([*self.terms, *other.terms])
        return math.fsum(
            one.factor * two.factor * _shared(one, two, about)
            for one in self.terms
            for two in other.terms
            if one.tally.store is two.tally.store
        )

    def combined(
        self, parts: Sequence[tuple[float, Answer]], constant: float, words: str
    ) -> Answer:
        """The sum of some answers, each times a factor, and of a constant."""
        return _combined(parts, constant, words)

    def divided(self, one: Answer, other: Answer) -> Answer:
        """One answer over the other."""
        return _divided(one, other)


def made_of(answer: Answer) -> Terms:
    """The sums of an answer, or a refusal where they are not known."""
    made = answer._made
    assert isinstance(made, Terms)
    return made


def _combined(parts: Sequence[tuple[float, Answer]], constant: float, words: str) -> Answer:
    first = parts[0][1]
    about = _one([answer.about for _, answer in parts], "about")
    made = [made_of(answer).scaled(factor) for factor, answer in parts]
    whole = Terms(tuple(t for each in made for t in each.terms), all(m.exact for m in made))
    value = math.fsum([constant, *(factor * answer.value for factor, answer in parts)])
    units = {answer.unit for _, answer in parts}
    found = Combination(
        value,
        math.inf,
        words,
        first.unit if len(units) == 1 else "",
        about,
        tuple(dict.fromkeys(note for _, answer in parts for note in answer.notes)),
        reports=sum({id(t.tally.store): t.n for t in whole.terms}.values()),
        made=whole,
        sums=len({id(t.tally.store) for t in whole.terms}) if whole.exact else len(whole.terms),
    )
    if not all(math.isfinite(answer.variance) for _, answer in parts):
        return found
    terms = simplified(whole.terms)
    between = _sides(parts, constant, words)
    if whole.exact and len(terms) == 1:
        (term,) = terms
        one = term.tally._answers([_times(term)], about)[0]
        moved = not math.isclose(
            one.value, value, rel_tol=_SAME, abs_tol=_SAME * max(1.0, abs(value))
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
        )
    spread = spread_of(terms, about)
    return replace(
        found,
        variance=spread.variance,
        bounds=spread.bounds,
        jump=spread.jump,
        hidden=spread.hidden,
        between=between,
    )


def _sides(
    parts: Sequence[tuple[float, Answer]], constant: float, words: str
) -> tuple[Answer, ...]:
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


def _divided(one: Answer, other: Answer) -> Answer:
    about = _one([one.about, other.about], "about")
    if one.between or other.between:
        return _divided_between(one, other)
    top, bottom = made_of(one), made_of(other)
    size, error = other.value, other.stderr
    clear = abs(size) > 2 * error and math.isfinite(one.variance)
    value = one.value / size if size else math.nan
    notes = tuple(dict.fromkeys((*one.notes, *other.notes)))
    spread, made = Spread(math.inf, (0.0, math.inf), 0.0, 0.0), None
    if clear:
        made = top.scaled(1 / size).plus(bottom.scaled(-value / size), exact=False)
        spread = spread_of(simplified(made.terms), about)
    elif math.isfinite(other.variance):
        notes = (*notes, barely(size, error))
    sign = math.copysign(1.0, size)
    numerator, denominator = one.stderr**2, other.stderr**2
    most = math.sqrt(numerator * denominator)
    shared = min(max(top.covariance(bottom, about), -most), most) if clear else 0.0
    return Ratio(
        value,
        spread.variance,
        f"{one.question} over {other.question}",
        "" if one.unit == other.unit else f"{one.unit} per {other.unit}",
        about,
        notes,
        spread.bounds,
        spread.jump,
        spread.hidden,
        reports=max(one.reports, other.reports),
        made=made,
        numerator=one.value * sign,
        denominator=size * sign,
        numerator_variance=numerator,
        denominator_variance=denominator,
        shared=shared,
    )


def _divided_between(one: Answer, other: Answer) -> Answer:
    """The same where bins leave one of them open: of all ways the lowest and the highest."""
    middle = _divided(replace(one, between=()), replace(other, between=()))
    ways = [_divided(a, b) for a in one.between or (one,) for b in other.between or (other,)]
    ways.sort(key=lambda way: way.value)
    return replace(middle, between=(ways[0], ways[-1]))


def _one(said: Sequence[str], what: str) -> str:
    if len({*said}) > 1:
        raise QueryError(
            f"answers {what} {' and '.join(sorted({*said}))} cannot be combined; ask both for one"
        )
    return said[0]


def _check(terms: Sequence[Term]) -> None:
    """Refuse sums that are not of the reports that they were asked of, and hidden overlaps."""
    for term in terms:
        if term.n != term.tally.n:
            more = counted(term.tally.n - term.n, "report")
            raise QueryError(f"{more} came in since {term.query.words} was asked for; ask again")
    stores = {id(term.tally.store): term.tally.store for term in terms}
    known: set[str] = set()
    for store in stores.values():
        if known & store.counted:
            raise QueryError(
                "these answers share reports, but are of two tallies; ask both of one tally"
            )
        known |= store.counted


# One sum from several ---------------------------------------------------------------------------


def simplified(terms: Sequence[Term]) -> list[Term]:
    """The same with sums that differ in one attribute only, or in none, put together."""
    _check(terms)
    left: list[Term] = []
    for term in terms:
        joined: Term | None = term
        while joined is not None:
            for place, other in enumerate(left):
                found = _joined(other, joined)
                if found is not None:
                    del left[place]
                    joined = found
                    break
            else:
                left.append(joined)
                break
            if not joined.factor:
                joined = None
    if len(left) > MOST_TERMS:
        raise QueryError(
            f"this is made of {len(left)} sums, more than {MOST_TERMS}; ask for it in parts"
        )
    return left


def _joined(one: Term, other: Term) -> Term | None:
    if one.tally.store is not other.tally.store:
        return None
    mine, theirs = one.query.functions, other.query.functions
    apart = [
        name
        for name in dict.fromkeys((*mine, *theirs))
        if not np.array_equal(_function(one, name), _function(other, name))
    ]
    if not apart:
        factor = one.factor + other.factor
        tiny = _SAME * max(abs(one.factor), abs(other.factor))
        return replace(one, factor=0.0 if abs(factor) <= tiny else factor)
    if len(apart) > 1:
        return None
    (name,) = apart
    function = one.factor * _function(one, name) + other.factor * _function(other, name)
    query = replace(one.query, factors={**one.query.factors, name: function})
    return replace(one, factor=1.0, query=query)


def _function(term: Term, name: str) -> Floats:
    found = term.query.functions.get(name)
    if found is not None:
        return found
    survey = term.tally.survey
    size = survey.channels[name].size if name in survey.channels else survey.attributes[name].size
    return np.ones(size)


def _times(term: Term) -> Query:
    """A term as a question: with its factor inside."""
    query = term.query
    if term.factor == 1.0 or not query.factors:
        return query
    name = next(iter(query.factors))
    function = term.factor * query.functions[name]
    return replace(query, factors={**query.factors, name: function})


# Errors -----------------------------------------------------------------------------------------


def spread_of(terms: Sequence[Term], about: str) -> Spread:
    """The error of the sum of terms; those of different tallies are independent."""
    by_store: dict[int, list[Term]] = {}
    for term in terms:
        by_store.setdefault(id(term.tally.store), []).append(term)
    found = NOTHING
    for own in by_store.values():
        found = found.plus(_of_one_tally(own, about))
    return found


def _of_one_tally(terms: Sequence[Term], about: str) -> Spread:
    if len(terms) == 1 and terms[0].query.factors:
        (answer,) = terms[0].tally._answers([_times(terms[0])], about)
        return Spread(answer.variance, answer.bounds, answer.jump, answer.hidden)
    n, population = terms[0].n, about == POPULATION
    shared = math.fsum(
        (1 if one is two else 2) * one.factor * two.factor * _shared(one, two, about)
        for place, one in enumerate(terms)
        for two in terms[place:]
    )
    hidden_part, worst, jump, hidden = 0.0, 0.0, 0.0, 0.0
    for term in terms:
        readings = read(term.tally.survey, term.query.functions)
        factor, steps = abs(term.factor), readings.extremes().of(0)
        worst += factor * math.sqrt(one_person(readings.pairs())[1])
        here = with_draws(steps) if population else (steps.jump, steps.hidden)
        jump += factor * here[0]
        hidden += factor * math.sqrt(here[1])
        if not population:
            hidden_part += factor * math.sqrt(rounding(term))
    least, most = kept_between((0.0, worst**2), n)
    # What rounding at random hides of each is at most this of all together (Cauchy and Schwarz).
    variance = shared + hidden_part**2
    return Spread(variance, (least, math.inf if population else most), jump, hidden**2)


def _shared(one: Term, two: Term, about: str) -> float:
    """The covariance of two sums over the same people, without their factors.

    It is kept for a while: `sum` of many answers asks for it again at every step.
    """
    kept, key = one.tally.covariances, (id(one.query), id(two.query), about, one.n)
    if key in kept:
        return kept[key][2]
    if len(kept) > _MOST_KEPT:
        kept.clear()
    found = _covariance(one, two, about)
    kept[key] = kept[key[1], key[0], about, one.n] = one.query, two.query, found
    return found


def _covariance(one: Term, two: Term, about: str) -> float:
    survey, store = one.tally.survey, one.tally.store
    readings = read_pair(survey, one.query.functions, two.query.functions)
    sums = store.sums(readings, store.layout_for(readings.names))
    found = {row: float(column[0]) for row, column in sums.items()}
    if about == POPULATION:
        return drawn(found["numerator"], found["both"], one.n, found["denominator"])
    return found["both"] - found["product"]


def rounding(term: Term) -> float:
    """By how much rounding at random makes the variance of a sum larger than decoding tells."""
    survey, functions = term.tally.survey, term.query.functions
    described = (survey.attributes.get(name) for name in functions)
    if not any(attribute and attribute.rounded_at_random for attribute in described):
        return 0.0
    readings = read_pair(survey, functions, functions)
    store = term.tally.store
    sums = store.sums(readings, store.layout_for(readings.names))
    return max(0.0, float(sums["product"][0]) - float(sums["numerator_square"][0]))
