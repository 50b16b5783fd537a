"""Pools: estimates over all respondents of surveys that differ in epsilon, metric or mechanism.

Sums of different surveys are independent, so values are added, and so are variances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import NamedTuple, TypeVar, overload

from metricldp.answers.answer import Estimate
from metricldp.answers.by import Bars, By, bars_of, cells, edges_for
from metricldp.answers.circular import CircularMean
from metricldp.answers.conditions import Where, all_of, attributes_in, entries_in
from metricldp.answers.estimate import RESPONDENTS
from metricldp.answers.fits import Fit
from metricldp.answers.maximise import Progress
from metricldp.answers.queries import chosen, parse_all
from metricldp.answers.ratio import Ratio
from metricldp.answers.tally import Tally
from metricldp.answers.together import (
    added,
    checked_tallies,
    circular_mean_of_all,
    fit_of_pool,
    is_circular,
)
from metricldp.attributes.meaning import Meaning, meaning
from metricldp.basics.errors import QueryError
from metricldp.basics.text import counted
from metricldp.estimate.table import EstimateTable
from metricldp.store.readings import attribute_of

_F = TypeVar("_F")


class Part(NamedTuple):
    """A tally of a pool, its place there, and the condition of the query."""

    place: int
    tally: Tally
    where: Where | None

    @property
    def called(self) -> str:
        return f"tally {self.place + 1} (survey {self.tally.survey.fingerprint[:16]})"


def pool(tallies: Iterable[Tally]) -> Pool:
    """Tallies of different people, to be asked as one; their surveys need not be the same."""
    return Pool(tuple(checked_tallies(tallies, "pool")))


@dataclass(frozen=True, repr=False, eq=False)
class Pool:
    """Tallies of surveys that share attributes, and estimates from all of them."""

    tallies: tuple[Tally, ...]

    @property
    def n(self) -> int:
        """How many people reported to any of the surveys."""
        return sum(tally.n for tally in self.tallies)

    def __repr__(self) -> str:
        many = counted(len(self.tallies), "tally", "tallies")
        return f"<Pool of {many} with {counted(self.n, 'report')}>"

    @overload
    def count(
        self, where: Where | None = None, *, by: None = None, target: str = RESPONDENTS
    ) -> Estimate: ...

    @overload
    def count(
        self, where: Where | None = None, *, by: By, target: str = RESPONDENTS
    ) -> EstimateTable: ...

    def count(
        self, where: Where | None = None, *, by: By | None = None, target: str = RESPONDENTS
    ) -> Estimate | EstimateTable:
        """The number of respondents of all surveys who meet a condition; with `by`, in each group.

        Groups mean the same in all surveys.
        """

        def query(parts: Sequence[Part]) -> Estimate:
            return added(_each(parts, lambda part: part.tally.count(part.where, target=target)))

        parts = self._parts(where)
        return query(parts) if by is None else _by(parts, by, "respondents", query)

    @overload
    def fraction(
        self,
        where: Where | None = None,
        *,
        among: Where | None = None,
        by: None = None,
        target: str = RESPONDENTS,
    ) -> Estimate: ...

    @overload
    def fraction(
        self,
        where: Where | None = None,
        *,
        among: Where | None = None,
        by: By,
        target: str = RESPONDENTS,
    ) -> EstimateTable: ...

    def fraction(
        self,
        where: Where | None = None,
        *,
        among: Where | None = None,
        by: By | None = None,
        target: str = RESPONDENTS,
    ) -> Estimate | EstimateTable:
        """The fraction of all respondents who meet a condition; `among`: of those who meet another.

        With `by`, the fraction within each group.
        """
        self._parts(where, fewest=1)
        if by is None and among is None:
            return self.count(where, target=target).scaled(1 / self.n, "of respondents")

        def query(parts: Sequence[Part]) -> Estimate:
            def each(part: Part) -> Estimate:
                return part.tally.fraction(where, among=part.where, target=target)

            return added(_each(parts, each))._reported()

        parts = self._parts(among, fewest=1)
        if by is None:
            return query(parts)
        if where is None:
            raise QueryError("fraction(by=...) needs a condition")
        first = parts[0].tally
        cells(
            first.survey, by, all_of(where, {} if among is None else among)
        )  # neither condition is about a group
        return _by(parts, by, f"fraction of {first._parts(where)[0].words}", query)

    @overload
    def sum(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        by: None = None,
        target: str = RESPONDENTS,
    ) -> Estimate: ...

    @overload
    def sum(
        self, attribute: str, where: Where | None = None, *, by: By, target: str = RESPONDENTS
    ) -> EstimateTable: ...

    def sum(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        by: By | None = None,
        target: str = RESPONDENTS,
    ) -> Estimate | EstimateTable:
        """The sum of an attribute or a weight over the respondents of all surveys.

        Bins may differ: the interval reaches from every value at its lower edge to the upper one.
        """

        def query(parts: Sequence[Part]) -> Estimate:
            def each(part: Part) -> Estimate:
                return part.tally.sum(attribute, part.where, target=target)

            return added(_each(parts, each))

        parts = self._parts(where, attribute)
        if by is None:
            return query(parts)
        return _by(parts, by, f"sum of {attribute}", query, attribute)

    @overload
    def mean(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        by: None = None,
        target: str = RESPONDENTS,
    ) -> Ratio | CircularMean: ...

    @overload
    def mean(
        self, attribute: str, where: Where | None = None, *, by: By, target: str = RESPONDENTS
    ) -> EstimateTable: ...

    def mean(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        by: By | None = None,
        target: str = RESPONDENTS,
    ) -> Ratio | CircularMean | EstimateTable:
        """The mean of an attribute over the respondents of all surveys; circular if cyclic."""

        def query(parts: Sequence[Part]) -> Ratio | CircularMean:
            return _mean(parts, attribute, target)._reported()

        parts = self._parts(where, attribute, fewest=1)
        return query(parts) if by is None else _by(parts, by, f"mean {attribute}", query, attribute)

    def histogram(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        bins: int | Sequence[float] | None = None,
        target: str = RESPONDENTS,
    ) -> EstimateTable:
        """A count for every value or bin, where all surveys have the same ones."""
        parts = self._parts(where, attribute)

        def chosen_bars(part: Part) -> Bars:
            described = attribute_of(part.tally.survey, attribute)
            return bars_of(described, attribute, edges_for(described, attribute, bins))

        _check_bars(parts, attribute, _each(parts, chosen_bars))
        tables = _each(
            parts, lambda part: part.tally.histogram(attribute, where, bins=bins, target=target)
        )
        rows = zip(*(table._estimates for table in tables), strict=True)
        first = tables[0]
        return EstimateTable(first.groupings, [added(row) for row in rows], label=first.label)

    def fit_distribution(
        self, attributes: Sequence[str] | str, *, progress: Progress = lambda done: None
    ) -> Fit:
        """One distribution of all respondents that maximizes the likelihood of their reports.

        Surveys may differ in epsilon, metric and mechanism. Intervals are those of the sums of the
        unbiased estimates.
        """
        return fit_of_pool(self.tallies, attributes, progress)

    def _parts(
        self, where: Where | None, attribute: str | None = None, *, fewest: int = 0
    ) -> list[Part]:
        """The tallies with at least so many reports, in which the query means the same."""
        tallies = [(place, one) for place, one in enumerate(self.tallies) if one.n >= fewest]
        if not tallies:
            raise QueryError("there are no reports, so there is no estimate")
        parts = [Part(place, one, where) for place, one in tallies]
        _check_same(parts, where, attribute)
        return parts


def _by(
    parts: Sequence[Part],
    by: By,
    label: str,
    query: Callable[[Sequence[Part]], Estimate],
    attribute: str | None = None,
) -> EstimateTable:
    """The same query for each group; a group has a condition of its own in each survey."""
    where, survey = parts[0].where, parts[0].tally.survey
    groups = _each(parts, lambda part: cells(part.tally.survey, by, where, attribute))
    first = groups[0]
    for bars in zip(*(one.bars for one in groups), strict=True):
        _check_bars(parts, bars[0].name, bars)

    def of_row(conditions: Iterable[Where]) -> Estimate:
        pairs = zip(parts, conditions, strict=True)
        return query([part._replace(where=condition) for part, condition in pairs])

    def others(row: int) -> Estimate:
        return of_row(one.outside(where, row) for one in groups)

    with ExitStack() as planned:
        for part in parts:
            planned.enter_context(part.tally._planned_for_many(len(first.clauses)))
        rows = [of_row(row) for row in zip(*(one.within(where) for one in groups), strict=True)]
    among = "" if where is None else f" among {parse_all(survey, where)[0].words}"
    label = f"{label} by {first.names}{among}"
    return EstimateTable(first.groupings, rows, label=label, others=others)


def _mean(parts: Sequence[Part], attribute: str, target: str) -> Ratio | CircularMean:
    tallies = [part.tally for part in parts]
    if is_circular(tallies, attribute):
        return circular_mean_of_all(tallies, attribute, [part.where for part in parts], target)

    def each(part: Part) -> Ratio | CircularMean:
        return part.tally.mean(attribute, part.where, target=target)

    whole = added(_each(parts, each))
    assert isinstance(whole, Ratio), "no survey has a circular mean of it"
    return _less_rounded(whole, parts, attribute)


def _each(parts: Sequence[Part], ask: Callable[[Part], _F]) -> list[_F]:
    """A result of each tally; an error names the tally."""
    found = []
    for part in parts:
        try:
            found.append(ask(part))
        except QueryError as wrong:
            raise QueryError(f"{part.called}: {wrong}") from None
    return found


def _less_rounded(mean: Ratio, parts: Sequence[Part], attribute: str) -> Ratio:
    """Where values are rounded at random, with the variance of what is above the mean of all.

    Rounding hides part of a covariance, but not of the values less their mean: see `tally.mean`.
    """
    surveys = [part.tally.survey for part in parts]
    named = {attribute, *attributes_in(parts[0].where or {})}
    if not mean.clear or not any(
        survey.attributes[name].rounded_at_random for survey in surveys for name in named
    ):
        return mean
    variance = 0.0
    for part in parts:
        values, _ = part.tally.survey.attributes[attribute].numbers(attribute)
        groups = parse_all(part.tally.survey, part.where, attribute)
        residual = [values - mean.value]
        ask = partial(part.tally.profile, attribute, target=mean.target)
        found = [ask(group, residual, [attribute])[0] for group in groups]
        variance += part.tally._summed(found).stderr ** 2
    return mean.with_residual(variance)


# What words mean


def _check_same(parts: Sequence[Part], where: Where | None, attribute: str | None = None) -> None:
    """Refuse words that mean different things in the surveys."""
    if attribute is not None:
        _each(parts, lambda part: attribute_of(part.tally.survey, attribute))
    _each(parts, lambda part: parse_all(part.tally.survey, where, attribute))
    for name, asked in entries_in({} if where is None else where):
        if asked is not None:
            _compare(name, [(part, _meant(part, name, asked)) for part in parts])


def _meant(part: Part, name: str, asked: object) -> Meaning:
    described = part.tally.survey.attributes[name]
    return meaning(described, chosen(described, asked, name), asked)


def _compare(what: str, found: Sequence[tuple[Part, Meaning]]) -> None:
    (first, expected), *others = found
    for part, meant in others:
        if not meant.same_as(expected):
            here, there = (one.words.removeprefix(f"{what} ") for one in (expected, meant))
            raise QueryError(
                f"{what} means {here} in {first.called} and {there} in {part.called}; "
                f"{expected.remedy(meant)}"
            )


def _check_bars(parts: Sequence[Part], attribute: str, bars_in_each: Sequence[Bars]) -> None:
    """Reject bars that are not the same in all surveys."""
    every = [[meaning(one.described, bar) for bar in one.chosen] for one in bars_in_each]
    for place, bars in enumerate(zip_longest(*every)):
        short = [part for part, bar in zip(parts, bars, strict=True) if bar is None]
        if short:
            long = next(part for part, bar in zip(parts, bars, strict=True) if bar is not None)
            raise QueryError(
                f"{attribute} has {counted(place, 'bar')} in {short[0].called} and more in "
                f"{long.called}; use bins with the same edges in all"
            )
        _compare(f"bar {place + 1} of {attribute}", list(zip(parts, bars, strict=True)))
