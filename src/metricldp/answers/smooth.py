"""Smooth functions of sums over people: variances, correlations, coefficients.

To first order such a function moves with its sums as its gradient says, so its error is that of one
sum over people: of what each of them adds to the gradient's combination (the delta method). Sums of
one tally share its noise, and the reports tell how they vary together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from metricldp.answers.answer import AUTO, Estimate
from metricldp.answers.arithmetic import Combination, Terms
from metricldp.answers.conditions import Where
from metricldp.answers.estimate import POPULATION, check_about, drawn
from metricldp.answers.queries import Query
from metricldp.answers.spread import NOTHING
from metricldp.answers.terms import Asked, Term, rounding, simplified, spread_of
from metricldp.basics.checks import flag
from metricldp.basics.errors import QueryError
from metricldp.mechanisms import Floats
from metricldp.store.readings import attribute_of, chunks, involved, read_pairs

_PAIRS_TOGETHER = 32
"""Covariances that are found in one pass: their decoders stay small."""
_STEP = 1e-5
"""Of a difference that stands for a slope, as a share of the number."""
Factors = Mapping[str, Floats]


class Tallied(Asked, Protocol):
    """The side of a tally that people are chosen by."""

    def _parsed(self, where: Any, attribute: str | None = None) -> Query: ...


@dataclass(frozen=True, eq=False)
class People:
    """The people of a where-clause, and sums over them."""

    tally: Tallied
    group: Query
    target: str

    @classmethod
    def of(cls, tally: Tallied, where: Where | None, target: str, names: Sequence[str]) -> People:
        """Those who answered all the attributes named, where some may be left out."""
        for name in names:
            attribute_of(tally.survey, name)
        check_about(target, tally.n)
        if not tally.n:
            raise QueryError(
                f"there are no reports, so there is no estimate of {' and '.join(names)}"
            )
        group = tally._parsed(where)
        for name in names:
            answering = tally._parsed(where, name)
            new = {n: f for n, f in answering.factors.items() if n not in group.factors}
            if new:
                words = (
                    answering.words
                    if not group.factors
                    else f"{group.words}, {name} is not missing"
                )
                group = replace(group, factors={**group.factors, **new}, words=words)
        return cls(tally, group, target)

    def query(self, factors: Factors, words: str = "") -> Query:
        """The sum over these people of a product of functions."""
        found: dict[str, Any] = dict(self.group.functions)
        for name, function in factors.items():
            found[name] = function * found.get(name, 1.0)
        return Query(found, words or self.group.words, self.group.notes)

    def sums(self, asked: Sequence[Factors]) -> Floats:
        """The values of such sums."""
        queries = [self.query(factors) for factors in asked]
        return np.array([one.value for one in self.tally._answers(queries, self.target)])

    def terms(self, parts: Sequence[tuple[float, Factors]]) -> tuple[Term, ...]:
        tally = self.tally
        return tuple(Term(c, self.query(f), tally, tally.n) for c, f in parts if c)

    def smooth(
        self,
        value: float,
        parts: Sequence[tuple[float, Factors]],
        words: str,
        unit: str,
        notes: tuple[str, ...] = (),
        *,
        exact: bool = False,
    ) -> Combination:
        """A value that moves with some sums, each times a factor, to first order."""
        terms = tuple(simplified(self.terms(parts)))
        self._prepare(terms)
        spread = spread_of(terms, self.target) if terms else NOTHING
        return Combination(
            value,
            spread.variance,
            words,
            unit,
            self.target,
            (*self.group.notes, *notes),
            spread.bounds,
            spread.jump,
            spread.hidden,
            reports=self.tally.n,
            made=Terms(terms, exact),
        )

    def _prepare(self, terms: Sequence[Term]) -> None:
        """Find the covariances of several terms in few passes, before they are asked for."""
        if len(terms) > 1:
            queries = [term.query for term in terms]
            found, at = covariances(self.tally, queries, self.target), (self.target, self.tally.n)
            for (i, one), (j, two) in itertools.product(enumerate(queries), repeat=2):
                self.tally.covariances[id(one), id(two), *at] = one, two, float(found[i, j])

    def function(
        self,
        of: Callable[[Floats], float],
        asked: Sequence[Factors],
        words: str,
        unit: str,
        notes: tuple[str, ...] = (),
    ) -> Combination:
        """A smooth function of some sums, whose slopes are found from small differences."""
        sums = self.sums(asked)
        steps = _STEP * np.maximum(np.abs(sums), 1.0)
        slopes = []
        for k, step in enumerate(steps):
            away = np.zeros(len(sums))
            away[k] = step
            slopes.append(float(of(sums + away) - of(sums - away)) / (2 * float(step)))
        return self.smooth(
            float(of(sums)), list(zip(slopes, asked, strict=True)), words, unit, notes
        )

    def covariances(self, asked: Sequence[Factors]) -> Floats:
        """The covariance matrix of such sums, in few passes."""
        return covariances(self.tally, [self.query(factors) for factors in asked], self.target)

    def hidden(self, asked: Sequence[Factors]) -> Floats:
        """By how much rounding at random can make the variance of each larger than it is told."""
        if self.target == POPULATION:
            return np.zeros(len(asked))
        return np.array([rounding(term) for term in self.terms([(1.0, f) for f in asked])])


def covariances(tally: Asked, queries: Sequence[Query], target: str) -> Floats:
    """The covariance matrix of sums over the same people."""
    survey, store, count = tally.survey, tally.store, len(queries)
    places: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for i in range(count):
        for j in range(i, count):
            both_names = tuple(involved(survey, queries[i].factors, queries[j].factors))
            places.setdefault(both_names, []).append((i, j))
    functions = [query.functions for query in queries]
    values = [one.value for one in tally._answers(queries, target)]
    found = np.zeros((count, count))
    for names, pairs in places.items():
        layout = tally.layout_for(names, len(pairs))
        for some in chunks(pairs, _PAIRS_TOGETHER):
            ones, others = ([functions[pair[side]] for pair in some] for side in (0, 1))
            sums = store.sums(read_pairs(survey, ones, others), layout)
            for (i, j), both, product in zip(some, sums["both"], sums["product"], strict=True):
                if target == POPULATION:
                    here = drawn(values[i], float(both), tally.n, values[j])
                else:
                    here = float(both - product)
                found[i, j] = found[j, i] = here
    return found


@dataclass(frozen=True, repr=False, kw_only=True)
class Through(Estimate):
    """A rising function of another answer: so is its interval."""

    source: Estimate
    shape: Callable[[float], float]
    factor: float = 1.0
    """What it was multiplied with since."""

    @classmethod
    def of(
        cls, source: Estimate, shape: Callable[[float], float], slope: float, words: str, unit: str
    ) -> Through:
        """With the error of the delta method."""
        return cls(
            shape(source.value),
            source.stderr**2 * slope**2 if math.isfinite(source.variance) else math.inf,
            words,
            unit,
            source.target,
            source.notes,
            reports=source.reports,
            made=source.made and source.made.scaled(slope) if math.isfinite(slope) else None,
            source=source,
            shape=shape,
        )

    def _interval(
        self, confidence_level: float = 0.95, method: str = AUTO, *, anytime: bool = False
    ) -> tuple[float, float]:
        if flag("anytime", anytime):
            raise QueryError(
                f"there is no confidence sequence of the {self.question}; leave anytime out"
            )
        if self.between:
            return super()._interval(confidence_level, method)
        low, high = self.source._interval(confidence_level, method)
        low, high = sorted(self.factor * self.shape(end) for end in (low, high))
        return low, high

    def method(self, level: float = 0.95, method: str = AUTO) -> str:
        return self.source.method(level, method)

    def scaled(self, factor: float, unit: str) -> Through:
        found = super().scaled(factor, unit)
        assert isinstance(found, Through)
        return replace(found, factor=self.factor * factor)


def kept(low: float, high: float) -> Callable[[float], float]:
    """What lies outside is moved to the nearest end."""
    return lambda number: min(max(number, low), high)
