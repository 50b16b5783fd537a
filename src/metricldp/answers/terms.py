"""Sums over people with factors: which of them are one sum, and the error of all together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from metricldp.answers.answer import Estimate
from metricldp.answers.estimate import (
    POPULATION,
    draw,
    drawn,
    kept_between,
    one_person,
    with_draws,
)
from metricldp.answers.queries import Query
from metricldp.answers.spread import NOTHING, Spread
from metricldp.answers.watched import Pace
from metricldp.basics.errors import QueryError
from metricldp.basics.text import counted
from metricldp.mechanisms import Floats
from metricldp.store.base import Store
from metricldp.store.readings import read, read_pair
from metricldp.survey.agreement import Agreement

MOST_TERMS = 64
"""Every two sums have a covariance of their own, so of more than these it would take long."""
SAME = 1e-9
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

    def layout_for(self, names: tuple[str, ...], queries: int = 1) -> str: ...

    def _answers(self, queries: Sequence[Query], target: str) -> list[Estimate]: ...


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


def check(terms: Sequence[Term]) -> None:
    """Refuse sums that are not of the reports that they were asked of, and hidden overlaps."""
    for term in terms:
        if term.n != term.tally.n:
            more = counted(term.tally.n - term.n, "report")
            raise QueryError(f"{more} arrived since {term.query.words} was computed; query again")
    stores = {id(term.tally.store): term.tally.store for term in terms}
    known: set[str] = set()
    for store in stores.values():
        if known & store.counted:
            raise QueryError(
                "these estimates share reports but come from two tallies; compute both from "
                "one tally"
            )
        known |= store.counted


# One sum from several ---------------------------------------------------------------------------


def simplified(terms: Sequence[Term]) -> list[Term]:
    """The same with sums that differ in one attribute only, or in none, put together."""
    check(terms)
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
            f"this combines {len(left)} sums, more than {MOST_TERMS}; compute it in parts"
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
        tiny = SAME * max(abs(one.factor), abs(other.factor))
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


def as_query(term: Term) -> Query:
    """A term as a question: with its factor inside."""
    query = term.query
    if term.factor == 1.0 or not query.factors:
        return query
    name = next(iter(query.factors))
    function = term.factor * query.functions[name]
    return replace(query, factors={**query.factors, name: function})


# Errors -----------------------------------------------------------------------------------------


def spread_of(terms: Sequence[Term], target: str) -> Spread:
    """The error of the sum of terms; those of different tallies are independent."""
    by_store: dict[int, list[Term]] = {}
    for term in terms:
        by_store.setdefault(id(term.tally.store), []).append(term)
    found = NOTHING
    for own in by_store.values():
        found = found.plus(_of_one_tally(own, target))
    return found


def _of_one_tally(terms: Sequence[Term], target: str) -> Spread:
    if len(terms) == 1 and terms[0].query.factors:
        (answer,) = terms[0].tally._answers([as_query(terms[0])], target)
        return Spread(answer.variance, answer.bounds, answer.jump, answer.hidden)
    n, population = terms[0].n, target == POPULATION
    shared = math.fsum(
        (1 if one is two else 2) * one.factor * two.factor * shared_by(one, two, target)
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


def pace(terms: Sequence[Term], target: str) -> Pace:
    """How far the sum of some terms of one tally has come, and what one person adds at most."""
    found, root = _of_one_tally(terms, target), 0.0
    for term in terms:
        readings = read(term.tally.survey, term.query.functions)
        one = one_person(readings.pairs())[1]
        one += draw(readings.extremes().of(0)) if target == POPULATION else 0.0
        root += abs(term.factor) * math.sqrt(one)
    return Pace(min(max(found.variance, found.bounds[0]), found.bounds[1]), root**2)


def shared_by(one: Term, two: Term, target: str) -> float:
    """The covariance of two sums over the same people, without their factors.

    It is kept for a while: `sum` of many answers asks for it again at every step.
    """
    kept, key = one.tally.covariances, (id(one.query), id(two.query), target, one.n)
    if key in kept:
        return kept[key][2]
    if len(kept) > _MOST_KEPT:
        kept.clear()
    found = _covariance(one, two, target)
    kept[key] = kept[key[1], key[0], target, one.n] = one.query, two.query, found
    return found


def _covariance(one: Term, two: Term, target: str) -> float:
    survey, store = one.tally.survey, one.tally.store
    readings = read_pair(survey, one.query.functions, two.query.functions)
    sums = store.sums(readings, one.tally.layout_for(readings.names))
    found = {row: float(column[0]) for row, column in sums.items()}
    if target == POPULATION:
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
    sums = store.sums(readings, term.tally.layout_for(readings.names))
    return max(0.0, float(sums["product"][0]) - float(sums["numerator_square"][0]))
