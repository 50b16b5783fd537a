"""Pools: tallies of surveys that differ in epsilon, promise, mechanism or bins, asked as one.

Two things can be meant, and they have different names. `count`, `fraction`, `sum`, `mean` and
`histogram` are about all who answered any of the surveys: sums are added, and so are variances.
`common_fraction`, `common_mean` and `common_histogram` are about one population that the people of
every survey are a random sample of: a survey that tells more weighs more.

Weights that were found in the same reports would bias the result: an estimate that came out low
often has a low estimated variance as well, and would weigh too much. So weights are the inverse
of variances that are known before any report is read, of people spread like a prior. Whatever that
prior is, the result is unbiased; a good guess makes its error small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar

import numpy as np

from metricldp.answers.answer import Answer
from metricldp.answers.answer_table import Histogram
from metricldp.answers.circular import CircularMean
from metricldp.answers.conditions import Where, attributes_in, entries_in
from metricldp.answers.estimate import POPULATION, RESPONDENTS
from metricldp.answers.predict import one_draw
from metricldp.answers.queries import Query, chosen, parse, valued
from metricldp.answers.ratio import Ratio
from metricldp.answers.tally import Tally
from metricldp.answers.together import added, checked_tallies, circular_mean_of_all, is_circular
from metricldp.attributes.meaning import Meaning, meaning
from metricldp.basics.checks import is_list
from metricldp.basics.errors import QueryError
from metricldp.basics.text import counted, shown
from metricldp.store.readings import attribute_of

_A = TypeVar("_A", bound=Answer)
_F = TypeVar("_F")
UNIFORM = "uniform"
_FEWEST = 2
"""Reports from which on a tally tells how its population is spread."""


class Part(NamedTuple):
    """A tally of a pool, and how its people are expected to be spread."""

    place: int
    tally: Tally
    prior: Any = UNIFORM

    @property
    def called(self) -> str:
        return f"tally {self.place + 1} (survey {self.tally.survey.fingerprint[:16]})"


def pool(tallies: Iterable[Tally]) -> Pool:
    """Tallies of different people, to be asked as one; their surveys need not be the same."""
    return Pool(tuple(checked_tallies(tallies, "pool")))


@dataclass(frozen=True, repr=False, eq=False)
class Pool:
    """Tallies of surveys that share attributes, and answers from all of them."""

    tallies: tuple[Tally, ...]

    @property
    def n(self) -> int:
        """How many people reported to any of the surveys."""
        return sum(tally.n for tally in self.tallies)

    def __repr__(self) -> str:
        many = counted(len(self.tallies), "tally", "tallies")
        return f"<Pool of {many} with {counted(self.n, 'report')}>"

    # All respondents together --------------------------------------------------------------------

    def count(self, where: Where | None = None, *, about: str = RESPONDENTS) -> Answer:
        """How many of all who reported to any survey are in the where-clause."""
        parts = self._parts()
        _check_same(parts, where)
        return added(_each(parts, lambda tally: tally.count(where, about=about)))

    def fraction(self, where: Where | None = None, *, about: str = RESPONDENTS) -> Answer:
        """The same as a share of all who reported to any survey."""
        self._parts(1)
        return self.count(where, about=about).scaled(1 / self.n, "of all")

    def sum(
        self, attribute: str, where: Where | None = None, *, about: str = RESPONDENTS
    ) -> Answer:
        """The sum of an attribute or of a weight over the people of the where-clause, all surveys.

        Bins may differ: the interval reaches from every value at its lower edge to the upper one.
        """
        parts = self._parts()
        _check_same(parts, where, attribute)
        return added(_each(parts, lambda tally: tally.sum(attribute, where, about=about)))

    def mean(
        self, attribute: str, where: Where | None = None, *, about: str = RESPONDENTS
    ) -> Ratio | CircularMean:
        """The mean of an attribute over the people of the where-clause, all surveys together.

        Of a cyclic attribute, the circular mean.
        """
        parts = self._parts(1)
        _check_same(parts, where, attribute)
        tallies = [part.tally for part in parts]
        if is_circular(tallies, attribute):
            return circular_mean_of_all(tallies, attribute, where, about)
        found = _each(parts, lambda tally: _linear_mean(tally, attribute, where, about))
        return _less_rounded(added(found), parts, [1.0] * len(parts), attribute, where)

    def histogram(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        width: float | None = None,
        about: str = RESPONDENTS,
    ) -> Histogram:
        """A count for every bar, where all surveys have the same bars."""
        parts = self._parts()
        _check_bars(parts, attribute, where, width)
        found = _each(parts, lambda t: t.histogram(attribute, where, width=width, about=about))
        first, answers = found[0], [added(some) for some in zip(*found, strict=True)]
        people = None if first.people is None else self.n
        return Histogram(attribute, first.labels, answers, named=first.named, people=people)

    # One population ------------------------------------------------------------------------------

    def common_fraction(self, where: Where | None = None, *, prior: Any = UNIFORM) -> Answer:
        """The share of one population that the people of every survey were drawn from at random.

        Weights follow from `prior`, how people are expected to be spread: "uniform", or a list
        with a prior for each tally as in `survey.predict`. The answer is unbiased whatever it is.
        """
        parts = self._parts(_FEWEST, prior)
        _check_same(parts, where, common=True)
        shares = _shares(parts, lambda part: _drawn(part, parse(part.tally.survey, where)))
        found = _each(parts, lambda tally: tally.fraction(where, about=POPULATION))
        return self._weighted(found, shares)

    def common_mean(
        self, attribute: str, where: Where | None = None, *, prior: Any = UNIFORM
    ) -> Ratio:
        """The mean of an attribute in one population that every survey's people were drawn from.

        As every mean it is a ratio of two unbiased sums; weights are as in `common_fraction`.
        """
        parts = self._parts(_FEWEST, prior)
        _check_same(parts, where, attribute, common=True)
        found = _each(parts, lambda tally: _linear_mean(tally, attribute, where, POPULATION))
        shares = _shares(parts, lambda part: _drawn(part, _residual(part, attribute, where)))
        people = sum(part.tally.n for part in parts)
        factors = [share * people / p.tally.n for share, p in zip(shares, parts, strict=True)]
        heavy = [_heavier(one, factor) for one, factor in zip(found, factors, strict=True)]
        whole = _less_rounded(added(heavy), parts, factors, attribute, where)
        return self._noted(whole, shares)

    def common_histogram(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        width: float | None = None,
        prior: Any = UNIFORM,
    ) -> Histogram:
        """The share of one population at every bar, where all surveys have the same bars.

        A survey has one weight for all bars, by its total variance: so they add up as its own do.
        """
        parts = self._parts(_FEWEST, prior)
        _check_bars(parts, attribute, where, width, common=True)
        found = _each(parts, lambda t: t.histogram(attribute, where, width=width, about=POPULATION))
        shares = _shares(parts, lambda part: _drawn_bars(part, attribute, where, width))
        bars = [
            [one.scaled(1 / part.tally.n, "of all") for one in some]
            for part, some in zip(parts, found, strict=True)
        ]
        answers = [self._weighted(some, shares) for some in zip(*bars, strict=True)]
        return Histogram(attribute, found[0].labels, answers, named=found[0].named)

    # Parts ---------------------------------------------------------------------------------------

    def _parts(self, fewest: int = 0, prior: Any = UNIFORM) -> list[Part]:
        """The tallies with so many reports, each with its prior."""
        many = len(self.tallies)
        if isinstance(prior, str) and prior == UNIFORM:
            prior = [UNIFORM] * many
        if not is_list(prior) or len(prior) != many or any(_is_worst(one) for one in prior):
            raise QueryError(
                f"a prior is 'uniform', or a list with one for each of the {many} tallies, "
                f"'uniform' or shares of people, not {shown(prior)}"
            )
        said = zip(self.tallies, prior, strict=True)
        parts = [Part(place, *both) for place, both in enumerate(said)]
        found = [part for part in parts if part.tally.n >= fewest]
        if not found:
            few = "no reports at all" if fewest < _FEWEST else "one report at most of each survey"
            raise QueryError(f"{few}: there is no answer to that; ask with more")
        return found

    def _weighted(self, answers: Sequence[Answer], shares: Sequence[float]) -> Answer:
        """The sum of independent answers, each times its weight."""
        scaled = [
            one.scaled(share, one.unit) for one, share in zip(answers, shares, strict=True) if share
        ]
        return self._noted(added(scaled), shares)

    def _noted(self, answer: _A, shares: Sequence[float]) -> _A:
        """With its weights, and what was left out."""
        weights = ", ".join(f"{share:.3g}" for share in shares)
        notes = [f"weights {weights}, known before any report"]
        if left := len(self.tallies) - len(shares):
            few = counted(left, "tally", "tallies")
            notes.append(f"{few} of one report at most left out")
        return replace(answer, notes=(*answer.notes, *notes))


def _is_worst(prior: object) -> bool:
    return isinstance(prior, str) and prior != UNIFORM


def _each(parts: Sequence[Part], ask: Callable[[Tally], _F]) -> list[_F]:
    """An answer of each tally; a refusal says of which."""
    found = []
    for part in parts:
        try:
            found.append(ask(part.tally))
        except QueryError as wrong:
            raise QueryError(f"{part.called}: {wrong}") from None
    return found


def _linear_mean(tally: Tally, attribute: str, where: Where | None, about: str) -> Ratio:
    if is_circular([tally], attribute):
        raise QueryError(
            f"{attribute} is cyclic, and common_mean is for means along a line; use mean (circular)"
        )
    mean = tally.mean(attribute, where, about=about)
    assert isinstance(mean, Ratio)
    return mean


# Weights


def _shares(parts: Sequence[Part], variance_of: Callable[[Part], float]) -> list[float]:
    """The weight of each survey: n / v, of those that sum to 1, for v the variance of one draw.

    So each report counts with 1 / v of its survey. Where nothing is uncertain nothing else counts.
    """
    variances = [variance_of(part) for part in parts]
    if min(variances) <= 0:
        each = np.array([float(v <= 0) for v in variances])
    else:
        each = min(variances) / np.array(variances)
    weights = each * [part.tally.n for part in parts]
    return [float(share) for share in weights / weights.sum()]


def _drawn(part: Part, query: Query) -> float:
    """The variance of what one person adds, before any report is read."""
    try:
        return one_draw(part.tally.survey, query, part.prior)[1]
    except QueryError as wrong:
        raise QueryError(f"{part.called}: {wrong}") from None


def _residual(part: Part, attribute: str, where: Where | None) -> Query:
    """What values are above the mean that is expected, over the group: what a mean's error is of.

    Where nobody is expected to be in the group, above the middle.
    """
    survey = part.tally.survey
    query, group, inside = _valued(part, attribute, where)
    total, _ = one_draw(survey, query, part.prior)
    size, _ = one_draw(survey, group, part.prior)
    values = query.functions[attribute]
    there = values[inside > 0] / inside[inside > 0]
    mean = total / size if size > 0 else float(there.min() + there.max()) / 2
    return replace(query, factors={**query.factors, attribute: values - mean * inside})


def _valued(part: Part, attribute: str, where: Where | None) -> tuple[Query, Query, Any]:
    """The query of an attribute's values, that of its group, and how far each position is in it."""
    survey = part.tally.survey
    (query, *_), group = valued(survey, attribute, parse(survey, where, attribute))
    ones = np.ones(survey.attributes[attribute].size)
    return query, group, group.functions.get(attribute, ones)


def _drawn_bars(part: Part, attribute: str, where: Where | None, width: float | None) -> float:
    """The sum of the variances of all bars."""
    survey = part.tally.survey
    group = parse(survey, where, attribute)
    bars = survey.attributes[attribute].bars(width, attribute)
    queries = (replace(group, factors={**group.factors, attribute: bar.part}) for bar in bars)
    return sum(_drawn(part, query) for query in queries)


def _heavier(mean: Ratio, factor: float) -> Ratio:
    """The same mean, of a sum and a count that are both multiplied: as if of so many more people.

    What it may rest on besides is left, as only sums of equal weight can be added there.
    """
    total = mean.value * mean.denominator if mean.numerator is None else mean.numerator
    return replace(
        mean,
        between=tuple(_heavier(one, factor) for one in mean.between if isinstance(one, Ratio)),
        numerator=total * factor,
        denominator=mean.denominator * factor,
        numerator_variance=mean.numerator_variance * factor**2,
        denominator_variance=mean.denominator_variance * factor**2,
        shared=mean.shared * factor**2,
        above=None,
        lie=None,
        lies=None,
        made=None,
    )


def _less_rounded(
    mean: Ratio,
    parts: Sequence[Part],
    factors: Sequence[float],
    attribute: str,
    where: Where | None,
) -> Ratio:
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
    for part, factor in zip(parts, factors, strict=True):
        values, _ = part.tally.survey.attributes[attribute].numbers(attribute)
        group = parse(part.tally.survey, where, attribute)
        above = [values - mean.value]
        (found,) = part.tally.profile(attribute, group, above, [attribute], about=mean.about)
        variance += factor**2 * found.stderr**2
    return mean.with_residual(variance)


# What words mean


def _check_same(
    parts: Sequence[Part],
    where: Where | None,
    attribute: str | None = None,
    *,
    common: bool = False,
) -> None:
    """Refuse words that mean different things in the surveys."""
    if attribute is not None:
        _each(parts, lambda tally: attribute_of(tally.survey, attribute))
    _each(parts, lambda tally: parse(tally.survey, where, attribute))
    for name, asked in entries_in(where or {}):
        if asked is not None:
            _compare(name, [(part, _meant(part, name, asked)) for part in parts])
    if common:
        for name in dict.fromkeys(
            [*attributes_in(where or {}), *([attribute] if attribute else [])]
        ):
            _check_optional(parts, name)


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


def _check_optional(parts: Sequence[Part], name: str) -> None:
    """One quantity is of everybody, or of those who answered, but not now this and now that."""
    ways = {part.tally.survey.attributes[name].optional is not None: part for part in parts}
    if len(ways) > 1:
        raise QueryError(
            f"{name} may be left out in {ways[True].called} and not in {ways[False].called}: "
            "those who answer are another population; ask each for its own, or count respondents"
        )


def _check_bars(
    parts: Sequence[Part],
    attribute: str,
    where: Where | None,
    width: float | None,
    *,
    common: bool = False,
) -> None:
    """Refuse bars that are not the same in all surveys."""
    _check_same(parts, where, attribute, common=common)

    def bars_of(tally: Tally) -> list[Meaning]:
        described = attribute_of(tally.survey, attribute)
        return [meaning(described, bar) for bar in described.bars(width, attribute)]

    every = _each(parts, bars_of)
    for place, bars in enumerate(zip_longest(*every)):
        short = [part for part, bar in zip(parts, bars, strict=True) if bar is None]
        if short:
            long = next(part for part, bar in zip(parts, bars, strict=True) if bar is not None)
            raise QueryError(
                f"{attribute} has {counted(place, 'bar')} in {short[0].called} and more in "
                f"{long.called}; ask for a width that gives all of them the same bars"
            )
        _compare(f"bar {place + 1} of {attribute}", list(zip(parts, bars, strict=True)))
