"""How a tally asks its store: queries to sums, and sums to answers with all that they rest on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from metricldp.answers import estimate
from metricldp.answers.answer import Estimate
from metricldp.answers.arithmetic import Terms, divided
from metricldp.answers.brackets import Bracket, Planner, excess
from metricldp.answers.circular import CircularMean, Functions, Sums, circular_mean
from metricldp.answers.conditions import Where
from metricldp.answers.estimate import RESPONDENTS, check_about, to_answer, to_answers, to_ratio
from metricldp.answers.group import Group
from metricldp.answers.liars import one_report
from metricldp.answers.linear import Apart, Profile
from metricldp.answers.predict import possible_sum, variance_bounds
from metricldp.answers.quantiles import Cdf
from metricldp.answers.queries import Query, parse, parse_all, valued
from metricldp.answers.ratio import Ratio
from metricldp.answers.terms import Covariances
from metricldp.basics.errors import QueryError
from metricldp.mechanisms import Floats
from metricldp.store.base import REPORTS, Rejected, Store
from metricldp.store.bits import Cuts
from metricldp.store.cubes import Table
from metricldp.store.readings import (
    MAX_ROWS_TOGETHER,
    attribute_of,
    chunks,
    involved,
    read,
    read_pair,
)
from metricldp.survey.agreement import Agreement


class Asking:
    """A store of reports, and the questions that all others are made of."""

    def __init__(self, store: Store, planner: Planner | None = None) -> None:
        self.store = store
        self.planner = planner or Planner(store.survey)
        self._counted: dict[tuple[str, ...], tuple[int, Table]] = {}
        """Tables for intervals, and of how many reports they are."""
        self.covariances: Covariances = {}
        self._many: tuple[int, dict[tuple[str, ...], str]] | None = None
        """How many queries are planned together, and the layouts chosen for them so far."""

    @contextmanager
    def _planned_for_many(self, count: int) -> Iterator[None]:
        """Choose layouts once, for that many queries of the same form."""
        before, self._many = self._many, (count, {})
        try:
            yield
        finally:
            self._many = before

    def layout_for(self, names: tuple[str, ...], queries: int = 1) -> str:
        """How sums over these attributes are found; "auto" depends on the number of queries."""
        if self._many is None:
            return self.store.layout_for(names, queries)
        count, layouts = self._many
        if names not in layouts:
            layouts[names] = self.store.layout_for(names, count * queries)
        return layouts[names]

    @property
    def survey(self) -> Agreement:
        return self.store.survey

    @property
    def n(self) -> int:
        """Number of reports."""
        return self.store.n

    def save(self, path: str | Path) -> None:
        """Write reports as a Parquet file, totals as a file that ends in .totals.

        `survey.tally(path)` loads either.
        """
        self.store.save(path)

    def add(
        self, collected: Any, *, rejected: Rejected = None, fingerprint: str | None = None
    ) -> None:
        """Count more reports in, in any form that `survey.tally` takes but a file of totals.

        All of them or, if one is invalid, none. With a Counter as `rejected`, invalid reports are
        left out and counted there by reason.
        """
        self.store.add(collected, rejected=rejected, fingerprint=fingerprint)

    def _parsed(self, where: Where | None, attribute: str | None = None) -> Query:
        return self._noted(parse(self.survey, where, attribute))

    def _parts(self, where: Where | None, attribute: str | None = None) -> list[Query]:
        """Queries of which each person meets one at most, and together the where-clause."""
        return [self._noted(part) for part in parse_all(self.survey, where, attribute)]

    def _noted(self, query: Query) -> Query:
        return query if self.n else replace(query, notes=(*query.notes, "no reports yet"))

    def _summed(self, answers: Sequence[Estimate]) -> Estimate:
        """Of parts of one where-clause, all with its words."""
        first = answers[0]
        if len(answers) == 1:
            return first
        return first._made.combined([(1.0, one) for one in answers], 0.0, first.question)

    def _answers(self, queries: Sequence[Query], target: str = RESPONDENTS) -> list[Estimate]:
        """Answers in the order of the queries; those about the same attributes come together."""
        places: dict[tuple[str, ...], list[int]] = {}
        for place, query in enumerate(queries):
            places.setdefault(tuple(involved(self.survey, query.factors)), []).append(place)
        found: dict[int, Estimate] = {}
        for names, asked in places.items():
            layout = self.layout_for(names, len(asked))
            # On the fly one at a time; from a table as many as their decoders fit the cache.
            for some in chunks(asked, 1 if layout == REPORTS else MAX_ROWS_TOGETHER):
                asked_now = [queries[place] for place in some]
                answers = self._together(asked_now, layout, target)
                found.update(zip(some, map(self._bracketed, asked_now, answers), strict=True))
        return [found[place] for place in range(len(queries))]

    def _bracketed(self, query: Query, answer: Estimate) -> Estimate:
        """With what a shorter interval can come from."""
        return replace(
            answer,
            bracket=Bracket(self.planner, query, self.n, self._table, lambda: self.n),
            lie=partial(one_report, self.survey, query.functions),
            made=Terms.of(query, self),
            survey=self.survey,
            possible=possible_sum(query.functions, self.n),
        )

    def _unread(self, query: Query, target: str) -> Estimate:
        """What is known of an answer before any report is read, with its bracket."""
        readings = read(self.survey, query.functions)
        bounds, steps = estimate.one_person(readings.pairs()), readings.extremes().of(0)
        asked = query.words, query.notes
        answer = to_answer(0, 0, 0, bounds, steps, self.n, asked, target=target)
        return self._bracketed(query, answer)

    def _table(self, names: tuple[str, ...]) -> Table:
        if self._counted.get(names, (-1,))[0] != self.n:
            self._counted[names] = self.n, self.store.table_of(names)
        return self._counted[names][1]

    def _together(self, queries: list[Query], layout: str, target: str) -> list[Estimate]:
        """Answers to queries about the same attributes; from reports, to one alone."""
        asked = [(query.words, query.notes) for query in queries]
        if layout == REPORTS and (cuts := Cuts.of(self.survey, queries[0].factors)):
            sums, bounds, steps = self.store.sums(cuts, layout), cuts.bounds(), cuts.extremes()
            found = partial(to_answer, bounds=bounds, steps=steps, n=self.n, asked=asked[0])
            return [found(**sums, target=target, layout=layout)]
        readings = read(self.survey, *(query.functions for query in queries))
        sums, limits = self.store.sums(readings, layout), variance_bounds(readings.pairs())
        steps = readings.extremes()
        return to_answers(sums, limits, steps, self.n, asked, target=target, layout=layout)

    def _sum(self, attribute: str, group: Query, target: str) -> Estimate:
        """The sum of an attribute over a group.

        If the group is everybody, its values less the lowest one are summed, as rounding would
        lose the variance of values that are large beside their spread.
        """
        queries, _ = valued(self.survey, attribute, group)
        if involved(self.survey, group.factors):
            return self._with_ends(attribute, self._answers(queries, target))
        lowest = float(min(query.functions[attribute].min() for query in queries))
        answers = self._answers([_less(query, attribute, lowest) for query in queries], target)
        shifted = [replace(one, value=one.value + lowest * self.n) for one in answers]
        return self._with_ends(attribute, list(map(self._bracketed, queries, shifted)))

    def _with_ends(self, attribute: str, answers: Sequence[Estimate]) -> Estimate:
        """A sum, and where bins leave it open, with the least and the most that it can be."""
        first, *ends = [replace(one, unit=attribute) for one in answers]
        return replace(first, between=tuple(ends))

    def _mean(self, attribute: str, query: Query, group: Query, target: str) -> Ratio:
        inside = group.functions.get(attribute, np.ones(len(query.functions[attribute])))
        there = inside > 0
        values = query.functions[attribute][there] / inside[there]

        def beyond(mean: float) -> Query:
            return _less(query, attribute, mean, inside)

        centre = float(values.min())
        centred = beyond(centre)
        readings = read_pair(self.survey, centred.functions, group.functions)
        layout = self.layout_for(readings.names)
        ratio = to_ratio(
            self.store.sums(readings, layout),
            readings,
            self.n,
            question=query.words,
            unit=attribute,
            possible=self._possible_mean(attribute, values),
            centre=centre,
            target=target,
            notes=query.notes,
            layout=layout,
        )

        residual = beyond(ratio.value)
        steps = read(self.survey, residual.functions).extremes().of(0)
        above = excess(partial(self._unread, target=target), attribute, query, group)
        lie = partial(one_report, self.survey, group.functions)
        ratio = replace(
            estimate.with_steps(ratio, steps),
            above=above,
            lie=lie,
            lies=lambda mean: one_report(self.survey, beyond(mean).functions),
            survey=self.survey,
        )
        ratio = replace(ratio, made=Terms((), exact=False))
        if ratio.clear:
            top = Terms.of(centred, self, 1 / ratio.denominator)
            bottom = Terms.of(group, self, (centre - ratio.value) / ratio.denominator)
            ratio = replace(ratio, made=top.plus(bottom, exact=False))
        attributes = [self.survey.attributes.get(name) for name in readings.names]
        if not ratio.clear or not any(a and a.rounded_at_random for a in attributes):
            return ratio
        # Rounding at random hides part of a covariance, but not of the values less their mean.
        return ratio.with_residual(self._answers([residual], target)[0].stderr ** 2)

    def _possible_mean(self, attribute: str, values: Floats) -> tuple[float, float]:
        """The range of a mean; values rounded stochastically lie up to a step beyond a point."""
        low, high = float(values.min()), float(values.max())
        described: Any = self.survey.attributes[attribute]
        if not described.rounded_at_random:
            return low, high
        step = described.grid_step
        return max(low - step, described.low), min(high + step, described.high)

    def _profile(self, attribute: str, group: Query, target: str) -> Profile | Apart:
        if attribute not in self.survey.channels:
            ask = partial(self._answers, target=target)
            return Apart(self.survey, attribute, group, ask)
        rest = read(self.survey, group.functions).without(attribute)
        sums, layout = self.store.opened(rest, attribute)
        return Profile(self.survey, attribute, group, rest, sums, self.n, target, layout)

    def _cdf(self, attribute: str, where: Where | None, target: str, *, literal: bool) -> Cdf:
        check_about(target, self.n)
        described = attribute_of(self.survey, attribute)
        query = self._parsed(where, attribute)
        group = Group(attribute, described, query, self.n, literal)
        functions, labels = group.functions(), group.labels
        found = group.to_cdf(self.profile(attribute, query, functions, labels, target=target))
        found.bracketed = lambda k, p, one: self._bracketed(group.excess(k, p), one)
        return found

    def profile(
        self,
        attribute: str,
        group: Query,
        functions: Iterable[Floats],
        labels: Sequence[str],
        *,
        target: str = RESPONDENTS,
    ) -> list[Estimate]:
        """Many functions of one attribute over the same group of people, in one pass."""
        opened = self._profile(attribute, group, target)
        inside = group.functions.get(attribute, 1.0)
        answers: list[Estimate] = []
        # A few at a time: all together would be a matrix of size x size.
        for some in chunks(zip(functions, labels, strict=True), MAX_ROWS_TOGETHER):
            found = opened.answers(np.array([f for f, _ in some]), [words for _, words in some])
            factors = ({**group.factors, attribute: f * inside} for f, _ in some)
            answers += map(self._bracketed, (replace(group, factors=f) for f in factors), found)
        return answers

    def _circular_mean(self, attribute: str, where: Where | None, target: str) -> CircularMean:
        described = attribute_of(self.survey, attribute)
        sums, like = self._circular_sums(attribute, where, target)
        return circular_mean(sums, described, attribute, like)

    def _circular_sums(
        self, attribute: str, where: Where | None, target: str
    ) -> tuple[Sums, Estimate]:
        """Sums of functions of an attribute over a group, and an answer with the group's words."""
        check_about(target, self.n)
        if not self.n:
            raise QueryError("there are no reports, so there is no mean")
        parts, described = self._parts(where, attribute), attribute_of(self.survey, attribute)

        def sums(functions: Functions) -> list[Estimate]:
            rows = functions(described)
            labels = [attribute] * len(rows)
            answers = [self.profile(attribute, p, rows, labels, target=target) for p in parts]
            return [self._summed(list(row)) for row in zip(*answers, strict=True)]

        first = parts[0]
        like = Estimate(0.0, 0.0, first.words, "", target, first.notes, reports=self.n)
        return sums, replace(like, survey=self.survey)

    def _mean_of_parts(self, attribute: str, parts: list[Query], target: str) -> Ratio:
        """A sum over a count, each of several parts."""
        check_about(target, self.n)
        size = self._summed(self._answers(parts, target))
        described = attribute_of(self.survey, attribute)
        values, _ = described.numbers(attribute)
        least, most = described.extremes(np.ones(described.size)) or (values, values)
        low, high = float(least.min()), float(most.max())
        above = []
        for part in parts:
            inside = part.functions.get(attribute, 1.0)
            queries, _ = valued(self.survey, attribute, part)
            less = [_less(query, attribute, low, inside) for query in queries]
            above.append(self._with_ends(attribute, self._answers(less, target)))
        sums = self._summed(above)
        words = f"{attribute} among {parts[0].words}"
        mean = divided(sums, size, (0.0, high - low)).shifted(low)
        return replace(mean, unit=attribute, question=words)


def _less(query: Query, attribute: str, number: float, inside: Floats | float = 1.0) -> Query:
    """The sum of an attribute's values less a number; `inside` is how far each value counts."""
    function = query.functions[attribute] - number * inside
    return replace(query, factors={**query.factors, attribute: function})
