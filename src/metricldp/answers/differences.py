"""How two groups of people differ, with the error of the difference itself.

Answers from the same reports share their noise, so the error of a difference is not what the two
errors add up to: see `arithmetic.py`. All counts and their differences are found in one pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from metricldp.answers import pictures
from metricldp.answers.answer import Answer
from metricldp.answers.conditions import Where, attributes_in
from metricldp.answers.estimate import RESPONDENTS
from metricldp.answers.queries import EVERYBODY, Query, if_answered, parse
from metricldp.answers.ratio import Ratio
from metricldp.answers.tally import Tally
from metricldp.attributes.selection import Chosen
from metricldp.basics.errors import QueryError
from metricldp.basics.text import guess, listed, shown
from metricldp.channels import Floats
from metricldp.store.readings import attribute_of


@dataclass(frozen=True)
class Measure:
    """What is averaged in every group: a function of one attribute."""

    attribute: str
    function: Floats
    words: str
    unit: str
    notes: tuple[str, ...] = ()
    open: float = 0.0
    """How far bins leave a mean open, each way."""


@dataclass(frozen=True)
class Groups:
    """An answer for each group, and how it differs from one of them; None for that one itself."""

    by: str
    labels: tuple[str, ...]
    answers: tuple[Answer, ...]
    against: str
    differences: tuple[Answer | None, ...]
    measure: Measure | None
    among: str = ""
    """Whom the groups are of, in words; nothing, if of everybody."""

    def plot(self, path: str | Path | None = None, **look: Any) -> Any:
        """A picture of the groups and of their differences: a figure of matplotlib."""
        return pictures.plot(self, path, **look)


def mean_of(tally: Tally, attribute: str) -> Measure:
    """The mean of an attribute's numbers."""
    described = attribute_of(tally.survey, attribute)
    values, note = described.numbers(attribute)
    ends = described.extremes(np.ones(described.size)) or ()
    slack = max((float(np.abs(end - values).max()) for end in ends), default=0.0)
    notes = (note,) if note else ()
    return Measure(attribute, values, f"mean {attribute}", attribute, notes, slack)


def share_of(tally: Tally, where: Where) -> Measure:
    """The share of a group that meets a condition on one attribute."""
    query = parse(tally.survey, where)
    if len(attributes_in(where)) != 1 or len(query.factors) != 1:
        raise QueryError(
            "a share of groups is of one condition on one attribute, not of "
            f"{shown(query.words)}; other conditions belong into where"
        )
    ((name, function),) = query.functions.items()
    return Measure(name, function, f"share of {query.words}", "of the group", query.notes)


def groups(
    tally: Tally,
    by: str,
    where: Where | None = None,
    *,
    width: float | None = None,
    measure: Measure | None = None,
    against: str | None = None,
    about: str = RESPONDENTS,
) -> Groups:
    """Count, or average a measure, in the groups that an attribute's bars make."""
    described = attribute_of(tally.survey, by)
    if described.is_weight:
        raise QueryError(f"{by} is a weight, and makes no groups")
    whole = parse(tally.survey, where, by)
    if by in whole.factors:
        raise QueryError(f"{by} makes the groups; leave it out of where")
    bars = list(described.bars(width, by))
    labels = [bar.words for bar in bars]
    against = labels[0] if against is None else against
    if against not in labels:
        raise QueryError(
            f"no group of {by} is called {shown(against)}; there are {listed(labels)}"
            f"{guess(against, labels)}"
        )
    base = labels.index(against)
    found = _counts if measure is None else _means
    return found(tally, by, whole, bars, base, measure, about)


def _counts(
    tally: Tally,
    by: str,
    whole: Query,
    bars: Sequence[Chosen],
    base: int,
    measure: Measure | None,
    about: str,
) -> Groups:
    inside = [bar.inside.astype(np.float64) for bar in bars]
    labels = [bar.words for bar in bars]
    other = [k for k in range(len(bars)) if k != base]
    functions = inside + [inside[k] - inside[base] for k in other]
    words = [f"{by} {label}" for label in labels]
    words += [f"{by} {labels[k]} less {by} {labels[base]}" for k in other]
    found = tally.profile(by, whole, functions, words, about=about)
    apart: list[Answer | None] = list(found[len(bars) :])
    apart.insert(base, None)
    rest = labels[base], tuple(apart), measure, _among(whole)
    return Groups(by, tuple(labels), tuple(found[: len(bars)]), *rest)


def _means(
    tally: Tally,
    by: str,
    whole: Query,
    bars: Sequence[Chosen],
    base: int,
    measure: Measure | None,
    about: str,
) -> Groups:
    assert measure is not None
    if measure.attribute == by:
        raise QueryError(f"{by} makes the groups; compare another attribute in them")
    factors = {**whole.factors, **if_answered(tally.survey, measure.attribute)}
    whole = replace(whole, factors=factors, notes=(*whole.notes, *measure.notes))
    means = []
    for bar in bars:
        group = replace(whole, factors={**factors, by: bar.inside.astype(np.float64)})
        valued = replace(_valued(group, measure), words=f"{measure.words} among {by} {bar.words}")
        mean = replace(tally._mean(measure.attribute, valued, group, about), unit=measure.unit)
        means.append(_opened(mean, measure.open))
    apart = [
        None if k == base else _less(mean, means[base], by, bars[k], bars[base], measure)
        for k, mean in enumerate(means)
    ]
    labels = tuple(bar.words for bar in bars)
    return Groups(by, labels, tuple(means), labels[base], tuple(apart), measure, _among(whole))


def _among(whole: Query) -> str:
    return "" if whole.words == EVERYBODY else whole.words


def _valued(group: Query, measure: Measure) -> Query:
    inside = group.functions.get(measure.attribute, 1.0)
    return replace(group, factors={**group.factors, measure.attribute: measure.function * inside})


def _opened(found: Ratio, by: float) -> Ratio:
    """With what bins leave open."""
    if not by:
        return found
    low, high = found.possible
    sides = (
        replace(found, value=found.value + shift, possible=(low + shift, high + shift))
        for shift in (-by, by)
    )
    return replace(found, between=tuple(sides))


def _less(
    one: Answer, other: Answer, by: str, bar: Chosen, base: Chosen, measure: Measure
) -> Answer:
    words = f"{measure.words}, {by} {bar.words} less {by} {base.words}"
    return replace(one - other, question=words)
