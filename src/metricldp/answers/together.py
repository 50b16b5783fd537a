"""Several tallies whose surveys differ in epsilon, metric or mechanism, fitted and added.

One likelihood for all of them would say that all groups are alike. So that is only the start: from
it each group has steps of its own, as many as are best for its halves, if it differs from all. The
fits are added, each with its number of people. Unbiased answers are added as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from metricldp.answers.answer import Estimate, barely, notes_of_all
from metricldp.answers.arithmetic import made_of_all
from metricldp.answers.brackets import Brackets
from metricldp.answers.circular import CircularMean, Functions, circular_mean
from metricldp.answers.conditions import Where
from metricldp.answers.estimate import mean_of
from metricldp.answers.fits import MOST_JOINT, check_progress
from metricldp.answers.liars import Ends, Lie
from metricldp.answers.likelihood import Reports, Shares
from metricldp.answers.maximise import Progress, climb, ladder, one_thread_each
from metricldp.answers.observed import Axis, axes_of, observed
from metricldp.answers.ratio import Excess, Ratio
from metricldp.answers.tally import Tally
from metricldp.basics.errors import QueryError
from metricldp.basics.text import shown
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement

_A = TypeVar("_A", bound=Estimate)
_DIFFERS = 10.0
"""Of a group that is not like all: its own steps make unseen reports e^10 times as likely."""


def fitted_together(
    groups: Sequence[Tally], attributes: Sequence[str] | str, progress: Progress
) -> tuple[tuple[Axis, ...], Shares]:
    """One fitted distribution of the respondents of several tallies; see `Pool`."""
    for place, tally in enumerate(groups):
        if not tally.n:
            raise QueryError(f"tally {place + 1} of the pool has no reports; leave it out")
    check_progress(progress)
    axes = axes_of(groups[0].survey, attributes)
    if len(axes) > MOST_JOINT:
        raise QueryError(
            f"tallies are fitted together over at most {MOST_JOINT} attributes, not {len(axes)}; "
            "fit fewer, or each tally alone"
        )
    names = [axis.attributes for axis in axes]
    reports = []
    for place, tally in enumerate(groups):
        own = axes_of(tally.survey, [name for some in names for name in some])
        if sorted(axis.attributes for axis in own) != sorted(names):
            raise QueryError(
                f"tally {place + 1} has other groups than tally 1; fit them separately"
            )
        _check_values(place, tally.survey, groups[0].survey, names)
        order = [[axis.attributes for axis in own].index(some) for some in names]
        reports.append(observed(tally.store, own).over(order))
    with one_thread_each():
        return axes, _pooled(reports, progress)


def _pooled(reports: Sequence[Reports], progress: Progress) -> Shares:
    parts = [(one, *one.halves()) for one in reports]
    whole, *halves = (Pooled(tuple(some)) for some in zip(*parts, strict=True))
    first = ladder(Dealt(whole.parts, (halves[0], halves[1])), lambda done: progress(done / 2))
    start = first.climbed[tuple(range(len(whole.shape)))]
    found = np.zeros(whole.shape)
    for place, every in enumerate(parts):
        climbed = climb(every, start.early)
        differs = climbed.scores[climbed.stop] - climbed.scores[0] > _DIFFERS
        found += every[0].n / whole.n * (climbed.early[0] if differs else start.shares)
        progress(0.5 + (place + 1) / (2 * len(parts)))
    return np.asarray(found / found.sum())


def checked_tallies(tallies: object, caller: str) -> list[Tally]:
    """Tallies of different reports."""
    if isinstance(tallies, Tally) or not isinstance(tallies, Iterable):
        raise QueryError(f"{caller} takes a list of tallies, not {shown(tallies)}")
    found = list(tallies)
    for place, tally in enumerate(found):
        if not isinstance(tally, Tally):
            raise QueryError(f"tally {place + 1} of {caller} is {shown(tally)}, not a tally")
        for earlier in range(place):
            if tally.store.counted & found[earlier].store.counted:
                raise QueryError(
                    f"tallies {earlier + 1} and {place + 1} have reports in common, which would "
                    "count twice; leave one out"
                )
    if not found:
        raise QueryError(f"{caller} takes a list of tallies, and there is none")
    return found


def _check_values(
    place: int, survey: Agreement, first: Agreement, names: Sequence[Sequence[str]]
) -> None:
    for name in (name for some in names for name in some):
        if survey.attributes[name].domain != first.attributes[name].domain:
            raise QueryError(
                f"{name} has other values in tally {place + 1} than in tally 1; tallies are fitted "
                "together over the same values"
            )


# One likelihood


@dataclass(frozen=True, eq=False)
class Pooled(Reports):
    """Reports of several kinds, as if all people were of one population."""

    parts: tuple[Reports, ...]

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.parts[0].shape

    @cached_property
    def n(self) -> float:  # type: ignore[override]
        return sum(part.n for part in self.parts)

    @property
    def work(self) -> float:
        return sum(part.work for part in self.parts)

    def gradient(self, shares: Shares) -> tuple[float, Shares]:
        found = [part.gradient(shares) for part in self.parts]
        return sum(one for one, _ in found), np.sum([two for _, two in found], axis=0)

    def likelihood(self, shares: Shares) -> float:
        return sum(part.likelihood(shares) for part in self.parts)

    def halves(self) -> tuple[Reports, Reports]:
        ones, others = zip(*(part.halves() for part in self.parts), strict=True)
        return Pooled(ones), Pooled(others)

    def over(self, axes: Sequence[int]) -> Pooled:
        return Pooled(tuple(part.over(axes) for part in self.parts))


@dataclass(frozen=True, eq=False)
class Dealt(Pooled):
    """The same with halves that are dealt out already."""

    dealt: tuple[Reports, Reports]

    def halves(self) -> tuple[Reports, Reports]:
        return self.dealt


# Sums over all tallies


def circular_mean_of_all(
    tallies: Sequence[Tally], attribute: str, wheres: Sequence[Where | None], target: str
) -> CircularMean:
    """The circular mean over the respondents of all tallies, each with its own condition."""
    pairs = zip(tallies, wheres, strict=True)
    each = [tally._circular_sums(attribute, where, target) for tally, where in pairs]
    circles = {
        (one.is_cyclic, *one.circle(attribute)[:2])
        for one in (attribute_of(tally.survey, attribute) for tally in tallies)
    }
    if len(circles) > 1:
        raise QueryError(f"{attribute} has another circle in one of the surveys; query each tally")

    def sums(functions: Functions) -> list[Estimate]:
        rows = [one(functions) for one, _ in each]
        return [added(list(row)) for row in zip(*rows, strict=True)]

    like = added([like for _, like in each])
    described = attribute_of(tallies[0].survey, attribute)
    return circular_mean(sums, described, attribute, like)


def added(answers: Sequence[_A]) -> _A:
    """The answer for all people of several groups: sums of independent estimates."""
    first = answers[0]
    if any(one.between for one in answers):
        edges = zip(*(one.between or (one, one) for one in answers), strict=True)
        between = tuple(added(list(some)) for some in edges)
        return replace(added([replace(one, between=()) for one in answers]), between=between)
    notes = notes_of_all(answers)
    if isinstance(first, Ratio):
        return _mean_of_all(answers, notes)  # type: ignore[arg-type, return-value]
    return replace(
        first,
        value=math.fsum(one.value for one in answers),
        variance=math.fsum(one.variance for one in answers),
        notes=notes,
        bounds=(sum(one.bounds[0] for one in answers), sum(one.bounds[1] for one in answers)),
        jump=max(one.jump for one in answers),
        hidden=max(one.hidden for one in answers),
        one=max(one.one for one in answers),
        bracket=_bracket_of_all(answers),
        reports=sum(one.reports for one in answers),
        lie=_worst_lie(answers),
        made=made_of_all(answers),
        possible=(
            math.fsum(one.possible[0] for one in answers),
            math.fsum(one.possible[1] for one in answers),
        ),
    )


def _worst_lie(answers: Sequence[Estimate]) -> Lie | None:
    """What one report can add where it can add the most, in the unit of the first answer."""
    found = [(one.lie, one.scale / answers[0].scale) for one in answers if one.lie is not None]
    if len(found) < len(answers):
        return None
    return lambda: _widest([(lie()[0] * scale, lie()[1] * scale) for lie, scale in found])


def _worst_lies(answers: Sequence[Ratio]) -> Callable[[float], Ends] | None:
    """The same for the sum of what values are above a number."""
    found = [one.lies for one in answers if one.lies is not None]
    if len(found) < len(answers):
        return None
    return lambda mean: _widest([lies(mean) for lies in found])


def _widest(ends: Sequence[Ends]) -> Ends:
    return max(ends, key=lambda two: abs(two[1] - two[0]))


def _bracket_of_all(answers: Sequence[Estimate]) -> Brackets | None:
    """The sum of the brackets, where all have one of the same unit."""
    found = [one.bracket for one in answers if one.bracket is not None]
    alike = len({one.scale for one in answers}) == 1
    return Brackets(tuple(found)) if alike and len(found) == len(answers) else None


def _above_all(answers: Sequence[Ratio]) -> Excess | None:
    """The sum of what values of all groups are above a number."""
    found = [one.above for one in answers if one.above is not None]
    if len(found) < len(answers):
        return None
    return Excess(
        lambda number: added([one.ask(number) for one in found]),
        math.fsum(one.likely for one in found) / len(found),
        min(one.low for one in found),
        max(one.high for one in found),
    )


def _mean_of_all(answers: Sequence[Ratio], notes: tuple[str, ...]) -> Ratio:
    """From the sums themselves: the mean of a small group may have been moved to what can be."""
    centre = min(one.centre for one in answers)
    answers = [one.centred_at(centre) for one in answers]
    size = math.fsum(one.denominator for one in answers)
    total = math.fsum(one.numerator or 0.0 for one in answers)
    numerator, denominator, shared = (
        math.fsum(getattr(one, part) for one in answers)
        for part in ("numerator_variance", "denominator_variance", "shared")
    )
    possible = min(one.possible[0] for one in answers), max(one.possible[1] for one in answers)
    spreads = numerator, denominator, shared
    mean, variance, note = mean_of(total, size, spreads, possible, centre)
    small = [barely(one.denominator, math.sqrt(one.denominator_variance)) for one in answers]
    kept = [one for one in notes if one not in small]
    return replace(
        answers[0],
        value=mean,
        variance=variance,
        notes=(*kept, note) if note else tuple(kept),
        bounds=(0.0, math.inf),
        bracket=None,
        made=None,
        above=_above_all(answers),
        jump=max(one.jump * abs(one.denominator) for one in answers) / (abs(size) or 1.0),
        hidden=max(one.hidden * one.denominator**2 for one in answers) / (size**2 or 1.0),
        denominator=size,
        numerator_variance=numerator,
        denominator_variance=denominator,
        shared=shared,
        possible=possible,
        numerator=total,
        ones=(max(one.ones[0] for one in answers), max(one.ones[1] for one in answers)),
        reports=sum(one.reports for one in answers),
        lie=_worst_lie(answers),
        lies=_worst_lies(answers),
    )
