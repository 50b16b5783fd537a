"""Pools: estimates over all respondents of surveys that differ in epsilon, metric or mechanism.

Sums of different surveys are independent, so values are added, and so are variances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar, cast

from metricldp.answers.answer import Estimate
from metricldp.answers.by import Bars, By, bars_of, cells, edges_for
from metricldp.answers.conditions import Where, attributes_in, entries_in
from metricldp.answers.estimate import RESPONDENTS
from metricldp.answers.fits import Fit
from metricldp.answers.grouped import Grouped
from metricldp.answers.maximise import Progress
from metricldp.answers.quantiles import Cdf
from metricldp.answers.queries import chosen, parse_all
from metricldp.answers.ratio import Ratio
from metricldp.answers.tally import Tally
from metricldp.answers.together import (
    added,
    checked_tallies,
    circular_mean_of_all,
    fitted_together,
)
from metricldp.attributes.meaning import Meaning, meaning
from metricldp.basics.errors import QueryError
from metricldp.basics.text import counted
from metricldp.estimate.table import EstimateTable
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement

_F = TypeVar("_F")


class Part(NamedTuple):
    """A tally of a pool, its place there, and the condition of the query."""

    place: int
    tally: Tally
    where: Where | None

    @property
    def called(self) -> str:
        return f"tally {self.place + 1} (survey {self.tally.survey.fingerprint[:16]})"


Parts = Where | list[Part] | None
"""A condition of all tallies, or the parts of one group."""


def pool(tallies: Iterable[Tally]) -> Pool:
    """Tallies of different people, to be asked as one; their surveys need not be the same."""
    return Pool(tuple(checked_tallies(tallies, "pool")))


@dataclass(frozen=True, repr=False, eq=False)
class Pool(Grouped):
    """Tallies of surveys that share attributes, and estimates from all of them."""

    tallies: tuple[Tally, ...]

    @property
    def n(self) -> int:
        """How many people reported to any of the surveys."""
        return sum(tally.n for tally in self.tallies)

    def __repr__(self) -> str:
        many = counted(len(self.tallies), "tally", "tallies")
        return f"<Pool of {many} with {counted(self.n, 'report')}>"

    @property
    def _described(self) -> Agreement:
        return self.tallies[0].survey

    def _count(self, where: Parts, target: str) -> Estimate:
        parts = self._parts(where)
        return added(_each(parts, lambda part: part.tally.count(part.where, target=target)))

    def _fraction(self, where: Where | None, among: Parts, target: str) -> Estimate:
        self._parts(where, fewest=1)

        def each(part: Part) -> Estimate:
            return part.tally.fraction(where, among=part.where, target=target)

        return added(_each(self._parts(among, fewest=1), each))._reported()

    def _sum_of(self, attribute: str, where: Parts, target: str) -> Estimate:
        def each(part: Part) -> Estimate:
            return part.tally.sum(attribute, part.where, target=target)

        return added(_each(self._parts(where, attribute), each))

    def _mean_of(self, attribute: str, where: Parts, target: str) -> Estimate:
        return _mean(self._parts(where, attribute, fewest=1), attribute, target)._reported()

    def _by(
        self,
        by: By,
        where: Where | None,
        label: str,
        query: Callable[[list[Part]], Estimate],
        attribute: str | None = None,
    ) -> EstimateTable:
        """The same query for each group; a group has a condition of its own in each survey."""
        parts = self._parts(where, attribute, fewest=min(1, self.n))
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
        label = self._label(label, attribute, first, where)
        return EstimateTable(first.groupings, rows, label=label, others=others)

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
        return _row_by_row(
            _each(
                parts, lambda part: part.tally.histogram(attribute, where, bins=bins, target=target)
            )
        )

    def fit_distribution(
        self, attributes: Sequence[str] | str, *, progress: Progress = lambda done: None
    ) -> Fit:
        """One distribution of all respondents that maximizes the likelihood of their reports.

        Surveys may differ in epsilon, metric and mechanism. Intervals are those of the sums of the
        unbiased estimates.
        """
        axes, shares = fitted_together(self.tallies, attributes, progress)
        return Fit(_SameValues(self.tallies), axes, shares)

    def _parts(self, where: Parts, attribute: str | None = None, *, fewest: int = 0) -> list[Part]:
        """The tallies with at least so many reports, in which the query means the same."""
        if isinstance(where, list) and where and isinstance(where[0], Part):
            return where  # of a group
        where = cast("Where | None", where)
        tallies = [(place, one) for place, one in enumerate(self.tallies) if one.n >= fewest]
        if not tallies:
            raise QueryError("there are no reports, so there is no estimate")
        parts = [Part(place, one, where) for place, one in tallies]
        _check_same(parts, where, attribute)
        return parts


class _SameValues(Pool):
    """The tallies of a fit, whose attributes have the same values: their unbiased estimates."""

    def cdf(self, attribute: str, where: Where | None = None, *, target: str = RESPONDENTS) -> Cdf:
        found = [tally.cdf(attribute, where, target=target) for tally in self.tallies]
        first = found[0]
        points = [added(row) for row in zip(*(one.points for one in found), strict=True)]
        return Cdf(attribute, first.described, first.positions, points, first.question, first.notes)

    def workload(
        self, attribute: str, matrix: Any, where: Where | None = None, *, target: str = RESPONDENTS
    ) -> EstimateTable:
        return _row_by_row(
            [tally.workload(attribute, matrix, where, target=target) for tally in self.tallies]
        )


def _row_by_row(tables: Sequence[EstimateTable]) -> EstimateTable:
    """The sums of the rows of several tables with the same groups."""
    rows = zip(*(table._estimates for table in tables), strict=True)
    first = tables[0]
    return EstimateTable(first.groupings, [added(row) for row in rows], label=first.label)


def _mean(parts: Sequence[Part], attribute: str, target: str) -> Estimate:
    tallies = [part.tally for part in parts]
    described = [attribute_of(tally.survey, attribute) for tally in tallies]
    if any(one.is_cyclic and not one.named for one in described):
        return circular_mean_of_all(tallies, attribute, [part.where for part in parts], target)

    def each(part: Part) -> Estimate:
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
