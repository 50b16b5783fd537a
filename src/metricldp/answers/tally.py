"""The tally: the one object that a user asks, over whatever a collector keeps.

Merging is `+`; answers depend on which reports came in, never on their order or batches (to the
last digit where integers are counted: in all but weights and long lists of values).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricldp.answers import estimate, fits
from metricldp.answers.answer import Answer
from metricldp.answers.answer_table import Answers, Histogram
from metricldp.answers.arithmetic import Covariances, Terms
from metricldp.answers.brackets import Bracket, Planner, excess
from metricldp.answers.estimate import RESPONDENTS, check_about, to_answer, to_answers, to_ratio
from metricldp.answers.fits import Fit
from metricldp.answers.group import Group
from metricldp.answers.liars import one_report
from metricldp.answers.linear import Apart, Linear, Profile
from metricldp.answers.maximise import Progress
from metricldp.answers.predict import variance_bounds
from metricldp.answers.quantiles import Cdf, Quantile
from metricldp.answers.queries import Query, Where, asked_of, parse, valued, workload_for
from metricldp.answers.ratio import Ratio
from metricldp.answers.searches import BINARY_SEARCH, ISOTONIC, checked_all
from metricldp.answers.statistics import Statistics
from metricldp.answers.suspicion import Suspicion, suspicion
from metricldp.answers.weighted import weighted_sum
from metricldp.basics.checks import flag
from metricldp.basics.errors import QueryError, ReportRefused, SurveyError
from metricldp.basics.text import shown
from metricldp.channels import Floats
from metricldp.design.workloads import Workload
from metricldp.store import files, lake
from metricldp.store.base import REPORTS, Store
from metricldp.store.bits import Cuts
from metricldp.store.cubes import Table
from metricldp.store.raw import Raw
from metricldp.store.readings import (
    MAX_ROWS_TOGETHER,
    attribute_of,
    chunks,
    involved,
    read,
    read_pair,
)
from metricldp.store.totals import Totals
from metricldp.survey.agreement import Agreement


class Tally(Statistics):
    """What was collected of one survey, and answers from it.

    Every answer says in its own `layout` how its sums were found.
    """

    def __init__(self, store: Store, planner: Planner | None = None) -> None:
        self.store = store
        self.planner = planner or Planner(store.survey)
        self._counted: dict[tuple[str, ...], tuple[int, Table]] = {}
        """Tables for intervals, and of how many reports they are."""
        self.covariances: Covariances = {}

    @classmethod
    def of(
        cls,
        survey: Agreement,
        collected: Any,
        *,
        refused: Counter[str] | None = None,
        layout: str = "auto",
        keep: Iterable[Sequence[str]] | None = None,
        trust: bool = False,
        engine: str | None = None,
    ) -> Tally:
        """From reports in any form, which are kept; or, with `keep`, only totals of them."""
        if not isinstance(survey, Agreement):
            raise SurveyError(f"a tally is of a survey, not of {shown(survey)}")
        flag("trust", trust)
        if isinstance(collected, Mapping):
            raise ReportRefused(
                "kind",
                "reports are not a dict; people are encoded first, survey.tally(survey.encode("
                "people)), and a where-clause is asked of the tally, tally.count(where)",
            )
        saved = isinstance(collected, str | Path) and Path(collected).suffix == files.SUFFIX
        if engine is not None and not saved:
            return cls(lake.opened(survey, collected, engine, layout, keep, trust))
        if keep is None and not saved:
            return cls(Raw.of(survey, collected, refused=refused, layout=layout, trust=trust))
        if not isinstance(layout, str) or layout != "auto":
            raise SurveyError(f"keep= has one layout, its tables; leave layout={shown(layout)} out")
        if saved and keep is None:
            return cls(Totals.load(survey, collected))
        totals = Totals(survey, () if keep is None else keep)
        if saved:
            return cls(totals.merge(Totals.load(survey, collected)))
        totals.add(collected, refused=refused, trust=trust)
        return cls(totals)

    @classmethod
    def load(cls, survey: Agreement, path: str | Path) -> Tally:
        """From a file that `save` wrote."""
        return cls.of(survey, path)

    def save(self, path: str | Path) -> None:
        """Write reports as a Parquet file, totals as a file that ends in .totals.

        `survey.tally(path)` loads either.
        """
        self.store.save(path)

    @property
    def survey(self) -> Agreement:
        return self.store.survey

    @property
    def n(self) -> int:
        """How many people reported."""
        return self.store.n

    def add(
        self, collected: Any, *, refused: Counter[str] | None = None, trust: bool = False
    ) -> None:
        """Count more reports in, in any form that `survey.tally` takes but a file of totals.

        All of them or, if one is refused, none.
        """
        self.store.add(collected, refused=refused, trust=trust)

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        self.store.check_mergeable(other.store)
        if self.planner != other.planner:
            raise QueryError("tallies whose brackets are planned differently cannot be merged")
        return Tally(self.store.merge(other.store), self.planner)

    def __radd__(self, other: object) -> Tally:
        """So that `sum` of many tallies works, which starts from 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self.store == other.store

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Tally of {repr(self.store)[1:-1]}>"

    def plan_for(self, prior: Mapping[str, ArrayLike]) -> Tally:
        """The same tally, with brackets that are short for such people: see `survey.plan_for`."""
        return Tally(self.store, Planner(self.survey, prior, self.planner.assumed))

    def assume(self, attribute: str, **said: Any) -> Tally:
        """The same tally, whose brackets about a population rest on something you assume of it.

        One of smooth=1.5 (the most that neighbouring values differ by, as a factor), monotone=
        "falling" or "rising", and peak=40 (rising up to that value, then falling).
        """
        return Tally(self.store, self.planner.assuming(attribute, said))

    # Questions -----------------------------------------------------------------------------------

    def count(self, where: Where | None = None, *, about: str = RESPONDENTS) -> Answer:
        """How many people are in all the ranges and categories of the where-clause."""
        return self._answers([self._parsed(where)], about)[0]

    def counts(self, wheres: Iterable[Where | None], *, about: str = RESPONDENTS) -> Answers:
        """Thousands of counts at once; "auto" builds the tables that so many are worth."""
        if isinstance(wheres, Mapping):
            raise QueryError("counts takes a list of where-clauses; for a single one ask count")
        if isinstance(wheres, str) or not isinstance(wheres, Iterable):
            raise QueryError(f"counts takes a list of where-clauses, not {shown(wheres)}")
        queries = []
        for place, where in enumerate(wheres):
            try:
                queries.append(self._parsed(where))
            except QueryError as wrong:
                raise QueryError(f"where-clause {place + 1}: {wrong}") from None
        return Answers("", [query.words for query in queries], self._answers(queries, about))

    def fraction(self, where: Where | None = None, *, about: str = RESPONDENTS) -> Answer:
        """The same as a share of all who reported."""
        if not self.n:
            raise QueryError("a fraction of no reports at all has no answer")
        return self.count(where, about=about).scaled(1 / self.n, "of all")

    def sum(
        self, attribute: str, where: Where | None = None, *, about: str = RESPONDENTS
    ) -> Answer:
        """The sum of an attribute or of a weight over the people of the where-clause."""
        if attribute_of(self.survey, attribute).kind == "weight":
            query = self._parsed(where, attribute)
            return weighted_sum(self.store, attribute, query, about)
        queries, _ = valued(self.survey, attribute, self._parsed(where, attribute))
        answers = [replace(one, unit=attribute) for one in self._answers(queries, about)]
        return replace(answers[0], between=tuple(answers[1:]))

    def mean(
        self, attribute: str, where: Where | None = None, *, about: str = RESPONDENTS
    ) -> Ratio:
        """The mean of an attribute over the people of the where-clause, with Fieller's interval."""
        attribute_of(self.survey, attribute)
        queries, group = valued(self.survey, attribute, self._parsed(where, attribute))
        ratios = [self._mean(attribute, query, group, about) for query in queries]
        return replace(ratios[0], between=tuple(ratios[1:]))

    def _mean(self, attribute: str, query: Query, group: Query, about: str) -> Ratio:
        readings = read_pair(self.survey, query.functions, group.functions)
        layout = self.store.layout_for(readings.names)
        inside = group.functions.get(attribute, np.ones(len(query.functions[attribute])))
        there = inside > 0
        values = query.functions[attribute][there] / inside[there]
        ratio = to_ratio(
            self.store.sums(readings, layout),
            readings,
            self.n,
            question=query.words,
            unit=attribute,
            possible=(float(values.min()), float(values.max())),
            about=about,
            notes=query.notes,
            layout=layout,
        )

        def beyond(mean: float) -> Query:
            function = query.functions[attribute] - mean * inside
            return replace(query, factors={**query.factors, attribute: function})

        residual = beyond(ratio.value)
        steps = read(self.survey, residual.functions).extremes().of(0)
        above = excess(partial(self._unread, about=about), attribute, query, group)
        lie = partial(one_report, self.survey, group.functions)
        ratio = replace(
            estimate.with_steps(ratio, steps),
            above=above,
            lie=lie,
            lies=lambda mean: one_report(self.survey, beyond(mean).functions),
        )
        ratio = replace(ratio, made=Terms((), exact=False))
        if ratio.clear:
            top = Terms.of(query, self, 1 / ratio.denominator)
            bottom = Terms.of(group, self, -ratio.value / ratio.denominator)
            ratio = replace(ratio, made=top.plus(bottom, exact=False))
        attributes = [self.survey.attributes.get(name) for name in readings.names]
        if not ratio.clear or not any(a and a.rounded_at_random for a in attributes):
            return ratio
        # Rounding at random hides part of a covariance, but not of the values less their mean.
        return ratio.with_residual(self._answers([residual], about)[0].stderr ** 2)

    def histogram(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        width: float | None = None,
        about: str = RESPONDENTS,
    ) -> Histogram:
        """A count for every value of an attribute, or for bars `width` of its own units wide."""
        described = attribute_of(self.survey, attribute)
        query = self._parsed(where, attribute)
        if attribute in query.factors:
            raise QueryError(f"{attribute} is the histogram's own attribute; leave it out of where")
        if described.kind == "weight":
            raise QueryError(f"{attribute} is a weight; ask for its sum")
        bars = [(bar.words, bar.note) for bar in described.bars(width, attribute)]
        labels = tuple(label for label, _ in bars)
        noted = tuple(note for note in dict.fromkeys(note for _, note in bars) if note)
        if width is not None and len(bars) == 1:
            noted = (*noted, f"one bar of everybody: {attribute} goes {labels[0]}")
        query = replace(query, notes=(*query.notes, *noted))
        functions = (b.inside.astype(np.float64) for b in described.bars(width, attribute))
        answers = self.profile(
            attribute, query, functions, asked_of(attribute, labels, query), about=about
        )
        people = None if query.factors else self.n
        return Histogram(attribute, labels, answers, named=described.named, people=people)

    def cdf(self, attribute: str, where: Where | None = None, *, about: str = RESPONDENTS) -> Cdf:
        """The share of the people at or below every value, with a band for all of it."""
        return self._cdf(attribute, where, about, literal=False)

    def quantile(
        self,
        attribute: str,
        p: float,
        where: Where | None = None,
        method: str = ISOTONIC,
        *,
        about: str = RESPONDENTS,
    ) -> Quantile:
        """The value x of the people with share(x - 1) < p <= share(x), and its interval.

        "isotonic" reads it off the monotone estimate of all shares; "binary-search" is the paper's
        procedure on the raw ones.
        """
        return self.quantiles(attribute, [p], where, method, about=about)[0]

    def quantiles(
        self,
        attribute: str,
        probabilities: Iterable[float],
        where: Where | None = None,
        method: str = ISOTONIC,
        *,
        about: str = RESPONDENTS,
    ) -> list[Quantile]:
        """Several quantiles of the same people, in one pass."""
        asked = checked_all(probabilities, method)
        shares = self._cdf(attribute, where, about, literal=method == BINARY_SEARCH)
        return [shares.quantile(p, method) for p in asked]

    def profile(
        self,
        attribute: str,
        group: Query,
        functions: Iterable[Floats],
        labels: Sequence[str],
        *,
        about: str = RESPONDENTS,
    ) -> list[Answer]:
        """Many functions of one attribute over the same group of people, in one pass."""
        opened = self._profile(attribute, group, about)
        inside = group.functions.get(attribute, 1.0)
        answers: list[Answer] = []
        # A few at a time: all together would be a matrix of size x size.
        for some in chunks(zip(functions, labels, strict=True), MAX_ROWS_TOGETHER):
            found = opened.answers(np.array([f for f, _ in some]), [words for _, words in some])
            factors = ({**group.factors, attribute: f * inside} for f, _ in some)
            answers += map(self._bracketed, (replace(group, factors=f) for f in factors), found)
        return answers

    def linear(
        self,
        attribute: str,
        workload: Workload | str | ArrayLike,
        where: Where | None = None,
        *,
        about: str = RESPONDENTS,
    ) -> Answers:
        """A whole workload of linear questions: for each row, its sum over the group of people.

        A row says how much a person at each position adds. `workload` is a Workload, "ranges",
        "prefixes", "values", or rows.
        """
        asked = workload_for(self.survey, attribute, workload)
        return Linear(asked, self._profile(attribute, self._parsed(where, attribute), about))

    def _profile(self, attribute: str, group: Query, about: str) -> Profile | Apart:
        if attribute not in self.survey.channels:
            ask = partial(self._answers, about=about)
            return Apart(self.survey, attribute, group, ask)
        rest = read(self.survey, group.functions).without(attribute)
        sums, layout = self.store.opened(rest, attribute)
        return Profile(self.survey, attribute, group, rest, sums, self.n, about, layout)

    def _cdf(self, attribute: str, where: Where | None, about: str, *, literal: bool) -> Cdf:
        check_about(about, self.n)
        described = attribute_of(self.survey, attribute)
        query = self._parsed(where, attribute)
        group = Group(attribute, described, query, self.n, literal)
        functions, labels = group.functions(), group.labels
        found = group.to_cdf(self.profile(attribute, query, functions, labels, about=about))
        found.bracketed = lambda k, p, one: self._bracketed(group.excess(k, p), one, free=True)
        return found

    def fit(
        self,
        attributes: Sequence[str] | str,
        *,
        start: Fit | None = None,
        progress: Progress = lambda done: None,
    ) -> Fit:
        """A distribution of people over some attributes under which the reports are likely.

        It is asked like a tally. Its numbers are nearer to the truth where noise is large, but
        biased, and nothing is guaranteed of them; intervals are those of the unbiased answers.
        With more than three attributes only pairs are fitted. `start` is a fit to go on from.
        """
        return fits.fit(self, attributes, start=start, progress=progress)

    def suspicion(self) -> Suspicion:
        """Whether the reports are such as no people could have sent: a p-value by attribute."""
        return suspicion(self.store)

    # Sums ----------------------------------------------------------------------------------------

    def _parsed(self, where: Where | None, attribute: str | None = None) -> Query:
        query = parse(self.survey, where, attribute)
        return query if self.n else replace(query, notes=(*query.notes, "no reports yet"))

    def _answers(self, queries: Sequence[Query], about: str = RESPONDENTS) -> list[Answer]:
        """Answers in the order of the queries; those about the same attributes come together."""
        places: dict[tuple[str, ...], list[int]] = {}
        for place, query in enumerate(queries):
            places.setdefault(tuple(involved(self.survey, query.factors)), []).append(place)
        found: dict[int, Answer] = {}
        for names, asked in places.items():
            layout = self.store.layout_for(names, len(asked))
            # On the fly one at a time; from a table as many as their decoders fit the cache.
            for some in chunks(asked, 1 if layout == REPORTS else MAX_ROWS_TOGETHER):
                asked_now = [queries[place] for place in some]
                answers = self._together(asked_now, layout, about)
                found.update(zip(some, map(self._bracketed, asked_now, answers), strict=True))
        return [found[place] for place in range(len(queries))]

    def _bracketed(self, query: Query, answer: Answer, *, free: bool = False) -> Answer:
        """With what a shorter interval can come from; `free` of assumptions."""
        found = Bracket(self.planner, query, self.n, self._table, lambda: self.n)
        if not free and self.planner.assumed and (assumed := found.assumed(answer)):
            answer = replace(answer, notes=(*answer.notes, f"brackets assume that {assumed}"))
        lie = partial(one_report, self.survey, query.functions)
        made = Terms.of(query, self)
        return replace(answer, bracket=found.free() if free else found, lie=lie, made=made)

    def _unread(self, query: Query, about: str) -> Answer:
        """What is known of an answer before any report is read, with its bracket."""
        readings = read(self.survey, query.functions)
        bounds, steps = estimate.one_person(readings.pairs()), readings.extremes().of(0)
        asked = query.words, query.notes
        answer = to_answer(0, 0, 0, bounds, steps, self.n, asked, about=about)
        return self._bracketed(query, answer, free=True)

    def _table(self, names: tuple[str, ...]) -> Table:
        if self._counted.get(names, (-1,))[0] != self.n:
            self._counted[names] = self.n, self.store.table_of(names)
        return self._counted[names][1]

    def _together(self, queries: list[Query], layout: str, about: str) -> list[Answer]:
        """Answers to queries about the same attributes; from reports, to one alone."""
        asked = [(query.words, query.notes) for query in queries]
        if layout == REPORTS and (cuts := Cuts.of(self.survey, queries[0].factors)):
            sums, bounds, steps = self.store.sums(cuts, layout), cuts.bounds(), cuts.extremes()
            found = partial(to_answer, bounds=bounds, steps=steps, n=self.n, asked=asked[0])
            return [found(**sums, about=about, layout=layout)]
        readings = read(self.survey, *(query.functions for query in queries))
        sums, limits = self.store.sums(readings, layout), variance_bounds(readings.pairs())
        steps = readings.extremes()
        return to_answers(sums, limits, steps, self.n, asked, about=about, layout=layout)
