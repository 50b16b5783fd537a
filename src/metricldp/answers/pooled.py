"""Pools: estimates over all respondents of surveys that differ in epsilon, metric or mechanism.

Sums of different surveys are independent, so values are added, and so are variances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar

from metricldp.answers.answer import Estimate
from metricldp.answers.by import bars_of, edges_for
from metricldp.answers.circular import CircularMean
from metricldp.answers.conditions import Where, attributes_in, entries_in
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
    """A tally of a pool and its place there."""

    place: int
    tally: Tally

    @property
    def called(self) -> str:
        return f"tally {self.place + 1} (survey {self.tally.survey.fingerprint[:16]})"


def pool(tallies: Iterable[Tally]) -> Pool:
    """Combine tallies of different respondents; their surveys may differ."""
    return Pool(tuple(checked_tallies(tallies, "pool")))


@dataclass(frozen=True, repr=False, eq=False)
class Pool:
    """Tallies of surveys that share attributes, and estimates from all of them."""

    tallies: tuple[Tally, ...]

    @property
    def n(self) -> int:
        """Number of reports to any of the surveys."""
        return sum(tally.n for tally in self.tallies)

    def __repr__(self) -> str:
        many = counted(len(self.tallies), "tally", "tallies")
        return f"<Pool of {many} with {counted(self.n, 'report')}>"

    def count(self, where: Where | None = None, *, target: str = RESPONDENTS) -> Estimate:
        """The number of respondents of all surveys who meet a condition."""
        parts = self._parts()
        _check_same(parts, where)
        return added(_each(parts, lambda tally: tally.count(where, target=target)))

    def fraction(self, where: Where | None = None, *, target: str = RESPONDENTS) -> Estimate:
        """The fraction of respondents of all surveys who meet a condition."""
        self._parts(1)
        return self.count(where, target=target).scaled(1 / self.n, "of respondents")

    def sum(
        self, attribute: str, where: Where | None = None, *, target: str = RESPONDENTS
    ) -> Estimate:
        """The sum of an attribute or a weight over the respondents of all surveys.

        Bins may differ: the interval reaches from every value at its lower edge to the upper one.
        """
        parts = self._parts()
        _check_same(parts, where, attribute)
        return added(_each(parts, lambda tally: tally.sum(attribute, where, target=target)))

    def mean(
        self, attribute: str, where: Where | None = None, *, target: str = RESPONDENTS
    ) -> Ratio | CircularMean:
        """The mean of an attribute over the respondents of all surveys.

        For a cyclic attribute it is the circular mean.
        """
        parts = self._parts(1)
        _check_same(parts, where, attribute)
        tallies = [part.tally for part in parts]
        if is_circular(tallies, attribute):
            return circular_mean_of_all(tallies, attribute, where, target)
        whole = added(_each(parts, lambda tally: tally.mean(attribute, where, target=target)))
        assert isinstance(whole, Ratio), "no survey has a circular mean of it"
        return _less_rounded(whole, parts, attribute, where)

    def histogram(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        bins: int | Sequence[float] | None = None,
        target: str = RESPONDENTS,
    ) -> EstimateTable:
        """A count for every value or bin, if all surveys have the same ones."""
        parts = self._parts()
        _check_bars(parts, attribute, where, bins)
        tables = _each(parts, lambda t: t.histogram(attribute, where, bins=bins, target=target))
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

    def _parts(self, fewest: int = 0) -> list[Part]:
        """The tallies with at least so many reports."""
        parts = [Part(place, one) for place, one in enumerate(self.tallies) if one.n >= fewest]
        if not parts:
            raise QueryError("there are no reports, so there is no estimate")
        return parts


def _each(parts: Sequence[Part], ask: Callable[[Tally], _F]) -> list[_F]:
    """An answer of each tally; a refusal says of which."""
    found = []
    for part in parts:
        try:
            found.append(ask(part.tally))
        except QueryError as wrong:
            raise QueryError(f"{part.called}: {wrong}") from None
    return found


def _less_rounded(mean: Ratio, parts: Sequence[Part], attribute: str, where: Where | None) -> Ratio:
    """Where values are rounded at random, with the variance of what is above the mean of all.

    Rounding hides part of a covariance, but not of the values less their mean: see `tally.mean`.
    """
    surveys = [part.tally.survey for part in parts]
    named = {attribute, *attributes_in(where or {})}
    if not mean.clear or not any(
        survey.attributes[name].rounded_at_random for survey in surveys for name in named
    ):
        return mean
    variance = 0.0
    for part in parts:
        values, _ = part.tally.survey.attributes[attribute].numbers(attribute)
        groups, residual = parse_all(part.tally.survey, where, attribute), [values - mean.value]
        ask = partial(part.tally.profile, attribute, target=mean.target)
        found = [ask(group, residual, [attribute])[0] for group in groups]
        variance += part.tally._summed(found).stderr ** 2
    return mean.with_residual(variance)


# What words mean


def _check_same(parts: Sequence[Part], where: Where | None, attribute: str | None = None) -> None:
    """Refuse words that mean different things in the surveys."""
    if attribute is not None:
        _each(parts, lambda tally: attribute_of(tally.survey, attribute))
    _each(parts, lambda tally: parse_all(tally.survey, where, attribute))
    for name, asked in entries_in(where or {}):
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


def _check_bars(parts: Sequence[Part], attribute: str, where: Where | None, bins: Any) -> None:
    """Refuse bars that are not the same in all surveys."""
    _check_same(parts, where, attribute)

    def meanings(tally: Tally) -> list[Meaning]:
        described = attribute_of(tally.survey, attribute)
        bars = bars_of(described, attribute, edges_for(described, attribute, bins))
        return [meaning(described, bar) for bar in bars.chosen]

    every = _each(parts, meanings)
    for place, bars in enumerate(zip_longest(*every)):
        short = [part for part, bar in zip(parts, bars, strict=True) if bar is None]
        if short:
            long = next(part for part, bar in zip(parts, bars, strict=True) if bar is not None)
            raise QueryError(
                f"{attribute} has {counted(place, 'bar')} in {short[0].called} and more in "
                f"{long.called}; use bins with the same edges in all"
            )
        _compare(f"bar {place + 1} of {attribute}", list(zip(parts, bars, strict=True)))
