"""The tally: the one object that a user asks, over whatever a collector keeps.

Merging is `+`; answers depend on which reports came in, never on their order or batches (to the
last digit where integers are counted: in all but weights and long lists of values).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from metricldp.answers import decoded, fits
from metricldp.answers.answer import Answer
from metricldp.answers.answer_table import Answers, Histogram
from metricldp.answers.arithmetic import divided
from metricldp.answers.asking import Asking
from metricldp.answers.brackets import Planner
from metricldp.answers.by import By, Quantiles, cells
from metricldp.answers.circular import CircularMean
from metricldp.answers.conditions import Where, all_of
from metricldp.answers.estimate import RESPONDENTS, check_about
from metricldp.answers.fits import Fit
from metricldp.answers.linear import Linear
from metricldp.answers.maximise import Progress
from metricldp.answers.quantiles import Cdf, Quantile
from metricldp.answers.queries import asked_of, valued, workload_for
from metricldp.answers.ratio import Ratio
from metricldp.answers.searches import BINARY_SEARCH, ISOTONIC, checked_all
from metricldp.answers.statistics import Statistics
from metricldp.answers.suspicion import Suspicion, suspicion
from metricldp.answers.weighted import weighted_sum
from metricldp.basics.errors import QueryError
from metricldp.basics.text import shown
from metricldp.design.workloads import Workload
from metricldp.store.opening import opened
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement
from metricldp.survey.outline import outline


class Tally(Asking, Statistics):
    """What was collected of one survey, and answers from it.

    Every answer says in its own `layout` how its sums were found.
    """

    @classmethod
    def of(
        cls,
        survey: Agreement,
        collected: Any,
        *,
        refused: Counter[str] | None = None,
        layout: str = "auto",
        keep: Iterable[Sequence[str]] | None = None,
        fingerprint: str | None = None,
        engine: str | None = None,
    ) -> Tally:
        """From reports in any form, which are kept; or, with `keep`, only totals of them."""
        return cls(opened(survey, collected, refused, layout, keep, fingerprint, engine))

    @classmethod
    def load(cls, survey: Agreement, path: str | Path) -> Tally:
        """From a file that `save` wrote."""
        return cls.of(survey, path)

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

    def _repr_html_(self) -> str:
        return outline(self.survey, repr(self)[1:-1])

    def plan_for(self, prior: Mapping[str, ArrayLike]) -> Tally:
        """The same tally, with brackets that are short for such people: see `survey.plan_for`."""
        return Tally(self.store, Planner(self.survey, prior))

    # Questions -----------------------------------------------------------------------------------

    @overload
    def count(
        self, where: Where | None = None, *, by: None = None, about: str = RESPONDENTS
    ) -> Answer: ...

    @overload
    def count(self, where: Where | None = None, *, by: By, about: str = RESPONDENTS) -> Answers: ...

    def count(
        self, where: Where | None = None, *, by: By | None = None, about: str = RESPONDENTS
    ) -> Answer | Answers:
        """How many people are in all the ranges and categories of the where-clause.

        With `by`, in each group that an attribute or two make: a table of answers.
        """
        if by is not None:
            groups = cells(self.survey, by, where)
            return groups.table(list(self.counts(groups.within(where), about=about)))
        return self._summed(self._answers(self._parts(where), about))

    def counts(self, wheres: Iterable[Where | None], *, about: str = RESPONDENTS) -> Answers:
        """Thousands of counts at once; "auto" builds the tables that so many are worth."""
        if isinstance(wheres, Mapping):
            raise QueryError("counts takes a list of where-clauses; for a single one ask count")
        if isinstance(wheres, str) or not isinstance(wheres, Iterable):
            raise QueryError(f"counts takes a list of where-clauses, not {shown(wheres)}")
        parts = []
        for place, where in enumerate(wheres):
            try:
                parts.append(self._parts(where))
            except QueryError as wrong:
                raise QueryError(f"where-clause {place + 1}: {wrong}") from None
        found = iter(self._answers([query for some in parts for query in some], about))
        answers = [self._summed(list(islice(found, len(some)))) for some in parts]
        return Answers("", [some[0].words for some in parts], answers)

    @overload
    def fraction(
        self,
        where: Where | None = None,
        *,
        of: Where | None = None,
        by: None = None,
        about: str = RESPONDENTS,
    ) -> Answer: ...

    @overload
    def fraction(
        self,
        where: Where | None = None,
        *,
        of: Where | None = None,
        by: By,
        about: str = RESPONDENTS,
    ) -> Answers: ...

    def fraction(
        self,
        where: Where | None = None,
        *,
        of: Where | None = None,
        by: By | None = None,
        about: str = RESPONDENTS,
    ) -> Answer | Answers:
        """The same as a share of all who reported; or, with `of`, of the people of another clause.

        A share within a group is an estimate over an estimate, with Fieller's interval. With `by`,
        the share within each group that an attribute or two make.
        """
        if not self.n:
            raise QueryError("a fraction of no reports at all has no answer")
        if by is not None:
            if not where:
                raise QueryError("a share in each group is of a where-clause; say which")
            groups = cells(self.survey, by, all_of(where, of or {}))
            return groups.answers(of, lambda whole: self.fraction(where, of=whole, about=about))
        if of is None:
            return self.count(where, about=about).scaled(1 / self.n, "of all")
        check_about(about, self.n)
        whole = self.count(of, about=about)
        both = of if where is None else all_of(where, of)
        words = f"{self._parts(where)[0].words} among {whole.question}"
        share = divided(self.count(both, about=about), whole, (0.0, 1.0))
        return replace(share, question=words, unit="of the group")

    @overload
    def sum(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        by: None = None,
        about: str = RESPONDENTS,
    ) -> Answer: ...

    @overload
    def sum(
        self, attribute: str, where: Where | None = None, *, by: By, about: str = RESPONDENTS
    ) -> Answers: ...

    def sum(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        by: By | None = None,
        about: str = RESPONDENTS,
    ) -> Answer | Answers:
        """The sum of an attribute or of a weight over the people of the where-clause.

        With `by`, in each group that an attribute or two make.
        """
        if by is not None:
            groups = cells(self.survey, by, where, attribute)
            return groups.answers(where, lambda group: self.sum(attribute, group, about=about))
        if attribute_of(self.survey, attribute).kind == "weight":
            query = self._parsed(where, attribute)
            return weighted_sum(self.store, attribute, query, about)
        return self._summed(
            [self._sum(attribute, part, about) for part in self._parts(where, attribute)]
        )

    @overload
    def mean(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        by: None = None,
        about: str = RESPONDENTS,
    ) -> Ratio | CircularMean: ...

    @overload
    def mean(
        self, attribute: str, where: Where | None = None, *, by: By, about: str = RESPONDENTS
    ) -> Answers: ...

    def mean(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        by: By | None = None,
        about: str = RESPONDENTS,
    ) -> Ratio | CircularMean | Answers:
        """The mean of an attribute over the people of the where-clause, with Fieller's interval.

        Of a cyclic attribute, the circular mean. With `by`, in each group that an attribute or two
        make.
        """
        if by is not None:
            groups = cells(self.survey, by, where, attribute)
            return groups.answers(where, lambda group: self.mean(attribute, group, about=about))
        described = attribute_of(self.survey, attribute)
        if described.is_cyclic and not described.named:
            return self._circular_mean(attribute, where, about)
        parts = self._parts(where, attribute)
        if len(parts) > 1:
            return self._mean_of_parts(attribute, parts, about)
        queries, group = valued(self.survey, attribute, parts[0])
        ratios = [self._mean(attribute, query, group, about) for query in queries]
        return replace(ratios[0], between=tuple(ratios[1:]))

    @overload
    def histogram(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        width: float | None = None,
        by: None = None,
        about: str = RESPONDENTS,
    ) -> Histogram: ...

    @overload
    def histogram(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        width: float | None = None,
        by: str,
        about: str = RESPONDENTS,
    ) -> Answers: ...

    def histogram(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        width: float | None = None,
        by: str | None = None,
        about: str = RESPONDENTS,
    ) -> Histogram | Answers:
        """A count for every value of an attribute, or for bars `width` of its own units wide.

        With `by`, one in each group that another attribute makes: a table of both.
        """
        if by is not None:
            if not isinstance(by, str):
                raise QueryError(f"a histogram is by one other attribute, not by {shown(by)}")
            return self.count(where, by={by: None, attribute: width}, about=about)
        described = attribute_of(self.survey, attribute)
        parts = self._parts(where, attribute)
        query = parts[0]
        if any(attribute in part.factors for part in parts):
            raise QueryError(f"{attribute} is the histogram's own attribute; leave it out of where")
        if described.kind == "weight":
            raise QueryError(f"{attribute} is a weight; ask for its sum")
        bars = [(bar.words, bar.note) for bar in described.bars(width, attribute)]
        labels = tuple(label for label, _ in bars)
        noted = tuple(note for note in dict.fromkeys(note for _, note in bars) if note)
        if width is not None and len(bars) == 1:
            noted = (*noted, f"one bar of everybody: {attribute} goes {labels[0]}")
        query = replace(query, notes=(*query.notes, *noted))
        parts = [replace(part, notes=query.notes) for part in parts]
        words = asked_of(attribute, labels, query)
        found = []
        for part in parts:
            functions = (b.inside.astype(np.float64) for b in described.bars(width, attribute))
            found.append(self.profile(attribute, part, functions, words, about=about))
        return Histogram(
            attribute,
            labels,
            [self._summed(list(bar)) for bar in zip(*found, strict=True)],
            named=described.named,
            people=None if query.factors else self.n,
            edges=described.edges_of(described.bars(width, attribute)),
        )

    def cdf(self, attribute: str, where: Where | None = None, *, about: str = RESPONDENTS) -> Cdf:
        """The share of the people at or below every value, with a band for all of it."""
        return self._cdf(attribute, where, about, literal=False)

    @overload
    def quantile(
        self,
        attribute: str,
        p: float,
        where: Where | None = None,
        method: str = ISOTONIC,
        *,
        by: None = None,
        about: str = RESPONDENTS,
    ) -> Quantile: ...

    @overload
    def quantile(
        self,
        attribute: str,
        p: float,
        where: Where | None = None,
        method: str = ISOTONIC,
        *,
        by: str | Mapping[str, float | None],
        about: str = RESPONDENTS,
    ) -> Quantiles: ...

    def quantile(
        self,
        attribute: str,
        p: float,
        where: Where | None = None,
        method: str = ISOTONIC,
        *,
        by: str | Mapping[str, float | None] | None = None,
        about: str = RESPONDENTS,
    ) -> Quantile | Quantiles:
        """The value x of the people with share(x - 1) < p <= share(x), and its interval.

        "isotonic" reads it off the monotone estimate of all shares; "binary-search" is the paper's
        procedure on the raw ones. With `by`, one in each group that another attribute makes.
        """
        if by is not None:
            groups = cells(self.survey, by, where, attribute)
            if len(groups.names) > 1:
                raise QueryError("quantiles are by one other attribute")
            asked = groups.within(where)
            found = [self.quantile(attribute, p, group, method, about=about) for group in asked]
            return Quantiles(groups.names[0], groups.labels[0], found)
        return self.quantiles(attribute, [p], where, method, about=about)[0]

    def quantiles(
        self,
        attribute: str,
        probabilities: Iterable[float],
        where: Where | None = None,
        method: str = ISOTONIC,
        *,
        by: None = None,
        about: str = RESPONDENTS,
    ) -> list[Quantile]:
        """Several quantiles of the same people, in one pass."""
        if by is not None:
            raise QueryError("quantiles takes no by; ask for one: tally.quantile(..., by=...)")
        asked = checked_all(probabilities, method)
        shares = self._cdf(attribute, where, about, literal=method == BINARY_SEARCH)
        return [shares.quantile(p, method) for p in asked]

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

    def decoded(
        self, where: Where | None = None, of: str | None = None, *, public: bool = False
    ) -> Any:
        """What each report adds to an answer and to its variance: a table, see `survey.decode`."""
        return decoded.of_store(self.store, where, of, public=public)

    def suspicion(self) -> Suspicion:
        """Whether the reports are such as no people could have sent: a p-value by attribute."""
        return suspicion(self.store)
