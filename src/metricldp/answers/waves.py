"""A survey that is asked again: several tallies in time order, and how answers change between them.

The waves have reports of their own, so their errors are independent, and the error of a change or
of a slope follows exactly: see `arithmetic.py`. That fails where one device answers two waves from
one memory (mechanism "memoised"): both reports then carry the error of the same first blur.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import combinations
from typing import Any

import numpy as np

from metricldp.answers.answer import Estimate
from metricldp.answers.arithmetic import made_of
from metricldp.answers.changes import OfQuantiles
from metricldp.answers.conditions import Where, attributes_in
from metricldp.answers.estimate import POPULATION, RESPONDENTS, draw
from metricldp.answers.predict import predicted
from metricldp.answers.queries import EVERYBODY, parse_all
from metricldp.answers.tally import Tally
from metricldp.answers.terms import Term
from metricldp.basics.checks import flag
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import counted, guess, listed, shown
from metricldp.estimate.table import EstimateTable, Grouping
from metricldp.mechanisms import Floats
from metricldp.mechanisms.memoised_channel import MemoisedChannel
from metricldp.store.readings import attribute_of, involved, read
from metricldp.survey.agreement import Agreement

_YEAR = 365.25
_CENTURIES = 1900, 2100
"""Whole numbers between these are years."""
_OWN_PEOPLE = "assuming that each wave sampled other respondents from the population"


def waves(
    tallies: Mapping[Any, Tally] | Sequence[Tally],
    labels: Sequence[Any] | None = None,
    *,
    same_people: bool | None = None,
) -> Waves:
    """Tallies of the same attributes in time order: a list, with or without labels, or a mapping.

    Labels may be dates, numbers or text; for dates and numbers a trend uses their distances.
    Surveys may differ in epsilon and mechanism if attributes have the same values. `same_people`
    states whether people may have responded to more than one wave.
    """
    if isinstance(tallies, Mapping) and labels is None:
        return Waves(dict(tallies), same_people=same_people)
    if not isinstance(tallies, list | tuple):
        raise QueryError(
            f"waves takes a list of tallies, or a dict {{label: tally}}, not {shown(tallies)}"
        )
    if labels is None:
        labels = [f"wave {place}" for place in range(1, len(tallies) + 1)]
    try:
        labels = list(labels)
        distinct = set(labels)
    except TypeError:
        why = f"labels of waves are dates, numbers or texts, not {shown(labels)}"
        raise QueryError(why) from None
    if len(labels) != len(tallies):
        raise QueryError(f"waves has {len(tallies)} tallies and {len(labels)} labels")
    if len(distinct) < len(labels):
        raise QueryError(f"labels of waves must differ, not {shown(labels)}")
    return Waves(dict(zip(labels, tallies, strict=True)), same_people=same_people)


class Waves:
    """Tallies of the same attributes in time order; made by `waves`."""

    def __init__(self, found: Mapping[Any, Tally], *, same_people: bool | None = None) -> None:
        self.same_people = None if same_people is None else flag("same_people", same_people)
        self.labels = tuple(_label(label) for label in found)
        self.tallies = tuple(found.values())
        self.times, self.per = _times(tuple(found), self.labels)
        """When each wave was, and what a difference of 1 is called."""
        self._check()

    def _check(self) -> None:
        for label, tally in zip(self.labels, self.tallies, strict=True):
            if not isinstance(tally, Tally):
                raise QueryError(f"wave {shown(label)} is {shown(tally)}, not a tally")
            if not tally.n:
                raise QueryError(f"wave {shown(label)} has no reports; leave it out")
        if len(self.tallies) < 2:
            raise QueryError("waves are two tallies or more; query a single one directly")
        pairs = zip(self.labels, self.times, strict=True)
        for (one, before), (other, after) in combinations(pairs, 2):
            if not before < after:
                raise QueryError(
                    f"waves are listed in time order, but {shown(other)} follows {shown(one)}"
                )
        for (one, first), (other, second) in combinations(self._named, 2):
            if first.store is second.store or first.store.counted & second.store.counted:
                raise QueryError(
                    f"waves {shown(one)} and {shown(other)} have reports in common; each report "
                    "belongs to one wave"
                )

    @property
    def _named(self) -> list[tuple[str, Tally]]:
        return list(zip(self.labels, self.tallies, strict=True))

    def __len__(self) -> int:
        return len(self.tallies)

    def __repr__(self) -> str:
        reports = counted(sum(tally.n for tally in self.tallies), "report")
        return f"<Waves: {', '.join(self.labels)}; {reports}>"

    # Questions -----------------------------------------------------------------------------------

    def count(self, where: Where | None = None, *, target: str = RESPONDENTS) -> WaveAnswers:
        """The number of respondents of each wave who meet a condition."""
        return self._asked(
            lambda tally: tally.count(where, target=target), where, None, target, "people: "
        )

    def fraction(self, where: Where | None = None, *, target: str = RESPONDENTS) -> WaveAnswers:
        """The fraction of respondents of each wave who meet a condition."""
        return self._asked(
            lambda tally: tally.fraction(where, target=target), where, None, target, "fraction of "
        )

    def sum(
        self, attribute: str, where: Where | None = None, *, target: str = RESPONDENTS
    ) -> WaveAnswers:
        """The sum of an attribute in each wave."""

        def ask(tally: Tally) -> Estimate:
            return tally.sum(attribute, where, target=target)

        return self._asked(ask, where, attribute, target, "sum of ")

    def mean(
        self, attribute: str, where: Where | None = None, *, target: str = RESPONDENTS
    ) -> WaveAnswers:
        """The mean of an attribute in each wave."""

        def ask(tally: Tally) -> Estimate:
            return tally.mean(attribute, where, target=target)

        return self._asked(ask, where, attribute, target, "mean ")

    def quantile(
        self,
        attribute: str,
        q: float = 0.5,
        where: Where | None = None,
        *,
        target: str = RESPONDENTS,
    ) -> WaveAnswers:
        """A quantile of an attribute in each wave; its SE is half of a 68% interval."""

        def ask(tally: Tally) -> Estimate:
            found = tally.quantile(attribute, q, where, target=target)
            if attribute_of(tally.survey, attribute).named:
                raise QueryError(
                    f"quantiles of {attribute} are levels, which have no differences; "
                    "query each tally"
                )
            return OfQuantiles.of([(1.0, found)], found.question, tally.n)

        return self._asked(ask, where, attribute, target)

    def _asked(
        self,
        ask: Callable[[Tally], Estimate],
        where: Where | None,
        attribute: str | None,
        target: str,
        kind: str = "",
    ) -> WaveAnswers:
        names = self._names(where, attribute)
        found = []
        for label, tally in self._named:
            try:
                found.append(ask(tally))
            except QueryError as wrong:
                raise QueryError(f"wave {shown(label)}: {wrong}") from None
        return WaveAnswers(self, found, target, names, kind)

    def _names(self, where: Where | None, attribute: str | None) -> set[str]:
        """The attributes of a question, which have to mean the same in all waves."""
        first = self.tallies[0].survey
        if attribute is not None:
            attribute_of(first, attribute)
        parse_all(first, where, attribute)
        names = {*attributes_in(where or {}), *(() if attribute is None else (attribute,))}
        for label, tally in self._named:
            for name in sorted(names):
                mine, here = (attribute_of(one, name).domain for one in (first, tally.survey))
                different = sorted(k for k in {*mine, *here} if mine.get(k) != here.get(k))
                if different:
                    key = different[0]
                    raise QueryError(
                        f"{name} has other values in wave {shown(label)} than in wave "
                        f"{shown(self.labels[0])}: {key} {shown(here.get(key))}, not "
                        f"{shown(mine.get(key))}; the queries would differ in meaning"
                    )
        return names

    def _check_independent(self, names: set[str], target: str) -> None:
        """Refuse where the errors of two waves go together, in a way that reports do not tell."""
        if target == POPULATION and self.same_people:
            raise QueryError(
                "the same people responded to all waves, so they were sampled once; use "
                "target='respondents'"
            )
        if self.same_people is False:
            return
        for (one, first), (other, second) in combinations(self._named, 2):
            if first.survey.fingerprint != second.survey.fingerprint:
                continue  # a memory belongs to one survey
            for name in remembered(first.survey, names):
                raise QueryError(
                    f"{name} is memoised: respondents of both {shown(one)} and {shown(other)} sent "
                    "the same randomized value twice, so the errors of the waves are dependent; if "
                    "no one responded twice, pass same_people=False"
                )


def remembered(survey: Agreement, names: set[str]) -> list[str]:
    """Those of some attributes whose first blur a device keeps and sends again."""
    found = involved(survey, names)
    channels = {name: survey.channels[name] for name in found if name in survey.channels}
    return [name for name, channel in channels.items() if isinstance(channel, MemoisedChannel)]


class WaveAnswers(EstimateTable):
    """One answer for each wave, in time order; `changes` and `trend` between them."""

    def __init__(
        self,
        waves: Waves,
        answers: Sequence[Estimate],
        target: str,
        names: set[str],
        kind: str = "",
    ) -> None:
        texts = list(waves.labels)
        super().__init__([Grouping("wave", texts, texts)], answers, label=answers[0].question)
        self.waves, self._about, self._names = waves, target, names
        self.measure = kind + answers[0].question.removesuffix(f" among {EVERYBODY}")
        """What is asked, in words such as "mean age"."""

    def differences(self, baseline: object = None) -> EstimateTable:
        """Each wave minus a baseline wave; without one, minus the wave before it."""
        self.waves._check_independent(self._names, self._about)
        pairs = [(k, k - 1) for k in range(1, len(self))]
        if baseline is not None:
            against = self._place(baseline)
            pairs = [(k, against) for k in range(len(self)) if k != against]
        labels = [f"{self.labels[k]} - {self.labels[b]}" for k, b in pairs]
        rows = self._estimates
        found = [self._combined([(1.0, rows[k]), (-1.0, rows[b])]) for k, b in pairs]
        label = f"{rows[0].question}, changes"
        return EstimateTable([Grouping("change", labels, labels)], found, label=label)

    def trend(self) -> Estimate:
        """The slope of the line that fits the waves best, with its error.

        Weighted least squares. Of counts, shares and sums the weights are one over the variances
        that were to be expected of people spread evenly. They do not look at the reports, so the
        slope has no bias, and its error is exact whatever the weights are. Of means they are one
        over the estimated variances; of quantiles, numbers of reports.
        """
        self.waves._check_independent(self._names, self._about)
        rows = self._estimates
        weights = _weights(rows, self._about)
        times = np.array(self.waves.times, dtype=np.float64)
        apart = times - np.average(times, weights=weights)
        factors = weights * apart / (weights * apart**2).sum()
        found = self._combined(list(zip(factors.tolist(), rows, strict=True)))
        per = self.waves.per
        words = f"trend of {rows[0].question} per {per}"
        return replace(found, question=words, unit=f"{rows[0].unit} per {per}")

    def _combined(self, parts: Sequence[tuple[float, Estimate]]) -> Estimate:
        found = parts[0][1]
        if isinstance(found, OfQuantiles):
            combined: Estimate = found.combined(parts)
        else:
            combined = found._made.combined(parts, 0.0, found.question)
        if self._about == POPULATION and self.waves.same_people is None:
            combined = replace(combined, notes=(*combined.notes, _OWN_PEOPLE))
        return combined

    def _place(self, label: object) -> int:
        said = _label(label)
        if said not in self.labels:
            there = f"there are {listed(self.labels)}{guess(said, self.labels)}"
            raise QueryError(f"no wave is called {shown(label)}; {there}")
        return self.labels.index(said)


# Labels, times and weights -----------------------------------------------------------------------


def _label(label: object) -> str:
    if isinstance(label, date):
        return label.isoformat()
    if isinstance(label, str) and label.strip() and label.isprintable():
        return label
    if is_number(label) and math.isfinite(label):
        return f"{label:g}" if isinstance(label, float) else str(label)
    raise QueryError(f"the label of a wave is a word, a number or a date, not {shown(label)}")


def _times(said: Sequence[object], labels: Sequence[str]) -> tuple[tuple[float, ...], str]:
    """When waves were, as far as their labels tell; and what the unit of that is called."""
    days = [_day(label) for label in labels]
    if days and None not in days:
        return tuple(day.toordinal() / _YEAR for day in days if day is not None), "year"
    numbers = [_number(one) for one in said]
    if numbers and None not in numbers:
        known = tuple(number for number in numbers if number is not None)
        years = all(n == int(n) and _CENTURIES[0] <= n <= _CENTURIES[1] for n in known)
        return known, "year" if years else "step"
    return tuple(float(place) for place in range(len(labels))), "wave"


def _number(label: object) -> float | None:
    if isinstance(label, str) and re.fullmatch(r"-?\d+(\.\d+)?", label):
        return float(label)
    return float(label) if is_number(label) else None


def _day(label: str) -> date | None:
    """2025-03-01, or 2025-03 for its first day."""
    if not re.match(r"\d{4}-\d{2}($|-\d{2})", label):
        return None
    try:
        return date.fromisoformat(label[:10] if len(label) > 7 else f"{label}-01")
    except ValueError:
        return None


def _weights(rows: Sequence[Estimate], target: str) -> Floats:
    """How much each wave counts in a line; all alike where some have no error to go by."""
    if all(isinstance(one, OfQuantiles) for one in rows):
        return np.array([one.reports for one in rows], dtype=np.float64)
    variances = []
    for one in rows:
        made = made_of(one)
        if made.exact and len(made.terms) == 1:
            variances.append(_expected(made.terms[0], target))
        else:
            variances.append(one.stderr**2)
    known = np.array(variances)
    if not np.isfinite(known).all() or not (known > 0).all():
        return np.ones(len(rows))
    return np.asarray(known.min() / known)


def _expected(term: Term, target: str) -> float:
    """The variance of a sum, for people spread evenly."""
    survey = term.tally.survey
    found = predicted(survey, term.query, term.n, "uniform") ** 2
    if target == POPULATION:
        found += term.n * draw(read(survey, term.query.functions).extremes().of(0))
    return term.factor**2 * found
