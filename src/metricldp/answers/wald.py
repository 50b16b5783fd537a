"""Wald tests: whether two attributes are independent, and whether a share has a trend.

The decoded table of two attributes is compared with what its margins say. To first order each cell
less that is a sum over people of a product of two functions, so the covariance matrix of all cells
is decoded as any other, and the statistic is chi-square.

Tests are about the population that people were drawn from unless told otherwise: of the very people
who reported, no table is ever quite independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metricldp.answers.answer import Estimate, barely
from metricldp.answers.comparisons import POSITIVE, p_text
from metricldp.answers.conditions import Where, attributes_in
from metricldp.answers.moments import check_two
from metricldp.answers.smooth import Factors, People, Tallied
from metricldp.basics.errors import QueryError
from metricldp.basics.optional import lazy
from metricldp.basics.text import counted, shown
from metricldp.mechanisms import Floats
from metricldp.store.readings import attribute_of

special = lazy("scipy.special")

MOST_DEGREES = 100
"""Every two cells have a covariance, and with very many a chi-square is a poor approximation."""
_DEPENDENT = "dependence is significant", "no significant dependence"
_NO_TREND = "no significant trend"
_FLAT = 1e-9
"""A direction with less of the largest variance than this is known, and tells nothing."""


@dataclass(frozen=True)
class TestResult:
    """A Wald test: a statistic that is chi-square under the null hypothesis, and its p-value."""

    question: str
    statistic: float
    """The chi-square statistic."""
    df: int
    """Degrees of freedom."""
    pvalue: float
    """Probability of a statistic at least as large under the null hypothesis; at least 2e-308."""
    target: str
    notes: tuple[str, ...] = ()
    estimate: Estimate | None = None
    """The size of the effect, if it is one number."""
    findings: tuple[str, str] = ("a significant effect", "no significant effect")
    """What a p-value below 0.05 says, and what any other says."""

    __test__ = False  # so that pytest does not take it for tests

    @property
    def finding(self) -> str:
        """The conclusion from the p-value, in words."""
        return self.findings[self.pvalue >= 0.05]

    def to_text(self, confidence_level: float = 0.95) -> str:
        """The test in a line or two."""
        found = f"{self.statistic:.2f}, {counted(self.df, 'degree')} of freedom"
        said = f"p-value {p_text(self.pvalue)}: {self.finding}"
        lines = [f"{self.question}, for the {self.target}: chi-square {found}, {said}"]
        if self.estimate is not None:
            lines.append(f"{self.estimate.question}: {self.estimate.to_text(confidence_level)}")
        return "\n".join(["; ".join([lines[0], *self.notes]), *lines[1:]])

    def __str__(self) -> str:
        return self.to_text()

    def to_dict(self, confidence_level: float = 0.95) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "label": self.question,
            "statistic": self.statistic,
            "df": self.df,
            "pvalue": self.pvalue,
            "finding": self.finding,
            "target": self.target,
            "notes": list(self.notes),
            "estimate": None if self.estimate is None else self.estimate.to_dict(confidence_level),
        }


def independence(
    tally: Tallied,
    one: str,
    other: str,
    where: Where | None,
    widths: Mapping[str, float] | None,
    target: str,
) -> TestResult:
    """Whether two attributes are independent among the people of a where-clause."""
    check_two(tally, one, other)
    if widths is not None and not isinstance(widths, Mapping):
        example = f'{{"{one}": 10}}'
        raise QueryError(f"widths are a dict such as {example}, not {shown(widths)}")
    for name in widths or {}:
        if name not in (one, other):
            raise QueryError(
                f"{shown(name)} is not an attribute of the test; widths are of {one} and {other}"
            )
    people = People.of(tally, where, target, [one, other])
    bars = [_bars(people, name, (widths or {}).get(name)) for name in (one, other)]
    df = (len(bars[0]) - 1) * (len(bars[1]) - 1)
    if df > MOST_DEGREES:
        sizes = " x ".join(str(len(some)) for some in bars)
        longer = one if len(bars[0]) > len(bars[1]) else other
        raise QueryError(
            f"a table of {sizes} has {df} degrees of freedom, more than {MOST_DEGREES}; use "
            f"wider bars, as with widths={{{longer!r}: 10}}"
        )
    words = f"test of independence of {one} and {other}{people.group.among}"
    size = tally._answers([people.group], target)[0]
    notes = people.group.notes
    if df < 1:
        raise QueryError(f"{one} and {other} need two values each in this group")
    if size.value <= 2 * size.stderr:
        notes = (*notes, barely(size.value, size.stderr))
        return TestResult(words, 0.0, df, 1.0, target, notes, findings=_DEPENDENT)
    centred: list[list[Floats]] = []
    for name, some in zip((one, other), bars, strict=True):
        shares = people.sums([{name: bar} for bar in some]) / size.value
        centred.append([bar - share for bar, share in zip(some, shares, strict=True)][:-1])
    cells: list[Factors] = [{one: a, other: b} for a in centred[0] for b in centred[1]]
    statistic, rank = _wald(people.sums(cells), people.covariances(cells))
    if rank < df:
        notes = (*notes, f"{counted(df - rank, 'direction')} of {df} without variance, left out")
    p = _chi_square_p_value(statistic, rank)
    return TestResult(words, statistic, rank, p, target, notes, findings=_DEPENDENT)


def _bars(people: People, name: str, width: float | None) -> list[Floats]:
    """Parts of an attribute's domain that some of the people can be in."""
    described = attribute_of(people.tally.survey, name)
    if described.is_weight:
        raise QueryError(f"{name} is a weight; a table is of attributes")
    inside = people.group.functions.get(name, np.ones(described.size))
    bars = (bar.inside.astype(np.float64) for bar in described.bars(width, name))
    found = []
    for bar in bars:
        if (bar * inside).any():
            found.append(bar)
        if len(found) > 4 * MOST_DEGREES:
            break
    return found


def _wald(apart: Floats, shared: Floats) -> tuple[float, int]:
    """The squared distance from zero in standard errors, and in how many directions."""
    scale = np.sqrt(np.maximum(np.diag(shared), 0.0))
    scale[scale == 0] = 1.0
    values, vectors = np.linalg.eigh(shared / np.outer(scale, scale))
    there = values > _FLAT * max(float(values[-1]), _FLAT)
    along = vectors.T[there] @ (apart / scale)
    return float(np.sum(along**2 / values[there])), int(there.sum())


def trend(
    tally: Tallied, share: Where, attribute: str, where: Where | None, target: str
) -> TestResult:
    """Whether the share of people who meet some conditions rises or falls along an attribute."""
    if not isinstance(share, Mapping | str) or not share:
        raise QueryError(f"event is a condition such as vote == 'yes', not {shown(share)}")
    described = attribute_of(tally.survey, attribute)
    if not described.ordered:
        raise QueryError(f"{attribute} has no order, so it has no trend; use independence_test")
    names = attributes_in(share)
    if attribute in names:
        raise QueryError(
            f"the event has a condition on {attribute}; use conditions on other attributes"
        )
    people = People.of(tally, where, target, [attribute, *names])
    inside = tally._parsed(share)
    if shared := [name for name in names if name in attributes_in(where or {})]:
        raise QueryError(f"{shared[0]} is in the event and in where; remove it from one")
    scores = np.arange(described.size, dtype=np.float64)
    if not described.named:
        scores = described.numbers(attribute)[0]
    meeting = inside.functions
    size, first, those = people.sums([{}, {attribute: scores}, meeting])
    words = f"the fraction with {inside.words} along {attribute}{people.group.among}"
    said = f"test of a trend in {words}"
    whole = tally._answers([people.group], target)[0]
    notes = (*people.group.notes, *inside.notes)
    if whole.value <= 2 * whole.stderr:
        notes = (*notes, barely(whole.value, whole.stderr))
        return TestResult(said, 0.0, 1, 1.0, target, notes, findings=("", _NO_TREND))
    apart = scores - first / size
    together, spread = people.sums([{**meeting, attribute: apart}, {attribute: apart**2}])
    top = people.smooth(
        float(together),
        [(1.0, {**meeting, attribute: apart}), (-those / size, {attribute: apart})],
        f"change of {words}",
        "",
    )
    bottom = people.smooth(float(spread), [(1.0, {attribute: apart**2})], attribute, "")
    unit = f"per {attribute}" if not described.named else f"per level of {attribute}"
    slope = replace(top / bottom, question=top.question, unit=unit, notes=())
    statistic = (top.value / top.stderr) ** 2 if top.stderr else 0.0
    p = _chi_square_p_value(statistic, 1)
    findings = "the fraction rises" if top.value > 0 else "the fraction falls", _NO_TREND
    return TestResult(said, statistic, 1, p, target, notes, slope, findings)


def _chi_square_p_value(statistic: float, df: int) -> float:
    """P(a chi-square variable of df degrees of freedom is at least the statistic)."""
    return max(float(special.chdtrc(df, statistic)), POSITIVE) if df else 1.0
