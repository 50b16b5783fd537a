"""Answers of a fit: a better number that is biased, with the interval of the unbiased answer.

A fit has no error of its own that could be stated: how far its bias reaches depends on people that
nobody sees. What is guaranteed stays that of the unbiased answer to the same question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

from metricldp.answers.answer import (
    AUTO,
    Estimate,
    Interval,
)
from metricldp.answers.linear import WorkloadRows
from metricldp.answers.quantiles import Cdf, Quantile
from metricldp.answers.searches import ISOTONIC
from metricldp.basics.errors import QueryError
from metricldp.basics.text import shown
from metricldp.estimate.display import Display
from metricldp.mechanisms import Floats

LABEL = "fitted, biased; SE and CI are those of the unbiased estimate"
OUTSIDE = "the fitted value is outside of this interval"


@dataclass(frozen=True, repr=False, kw_only=True)
class Fitted(Estimate):
    """A fitted value; its error and interval are those of the unbiased answer."""

    unbiased: Estimate
    """To the same question, from the same reports."""

    @classmethod
    def of(cls, value: float, unbiased: Estimate) -> Fitted:
        low, high = unbiased.confidence_interval()
        outside = () if low <= value <= high else (OUTSIDE,)
        notes = tuple(dict.fromkeys((*unbiased.notes, LABEL, *outside)))
        return cls(
            value if unbiased.estimable else math.nan,
            unbiased.variance,
            unbiased.question,
            unbiased.unit,
            unbiased.target,
            notes,
            unbiased.bounds,
            unbiased.jump,
            unbiased.hidden,
            unbiased.layout,
            reports=unbiased.reports,
            survey=unbiased.survey,
            possible=unbiased.possible,
            unbiased=unbiased,
        )

    @property
    def estimable(self) -> bool:
        """A fit of a group that may be empty is arbitrary there."""
        return self.unbiased.estimable

    def _interval(
        self, confidence_level: float = 0.95, method: str = AUTO, *, anytime: bool = False
    ) -> tuple[float, float]:
        """That of the unbiased answer."""
        return self.unbiased._interval(confidence_level, method, anytime=anytime)

    def method(self, level: float = 0.95, method: str = AUTO) -> str:
        return self.unbiased.method(level, method)

    def poisoning_bounds(self, malicious: int) -> Interval:
        raise QueryError("no poisoning bounds are known for a fitted distribution; query the tally")

    def scaled(self, factor: float, unit: str) -> Estimate:
        found = super().scaled(factor, unit)
        return replace(found, unbiased=self.unbiased.scaled(factor, unit))  # type: ignore[call-arg]

    def _shown_ends(self, low: float, high: float) -> str:
        return self.unbiased._shown_ends(low, high)

    def display(self, confidence_level: float) -> Display:
        """The fitted value with the error of the unbiased estimate."""
        unbiased = self.unbiased.display(confidence_level)
        return _displayed(self._shown(self.value), self.notes, unbiased)


class FittedCdf(Cdf):
    """The fitted share at or below every position; `points` stay the unbiased ones."""

    def __init__(self, unbiased: Cdf, shares: Floats) -> None:
        super().__init__(
            unbiased.attribute,
            unbiased.described,
            unbiased.positions,
            unbiased.points,
            unbiased.question,
            (*unbiased.notes, LABEL),
        )
        self.unbiased, self._shares = unbiased, shares
        self.bracketed = unbiased.bracketed
        pairs = zip(shares.tolist(), unbiased.points, strict=True)
        self._estimates = tuple(Fitted.of(share, point) for share, point in pairs)

    @cached_property
    def _monotone(self) -> Floats:
        """As they are fitted: nothing has to be made monotone."""
        return self._shares

    def confidence_interval(
        self,
        confidence_level: float = 0.95,
        *,
        simultaneous: bool = True,
        method: str = AUTO,
        anytime: bool = False,
    ) -> Interval:
        """The band of the unbiased estimates, or their own intervals."""
        return self.unbiased.confidence_interval(
            confidence_level, simultaneous=simultaneous, method=method, anytime=anytime
        )

    def quantile(self, p: float, method: str = ISOTONIC) -> FittedQuantile:
        """Read off the fit; the interval is that of the unbiased quantile."""
        if method != ISOTONIC:
            raise QueryError(f"a fit rises by itself; leave method={shown(method)} out")
        fitted = super().quantile(p, method)
        own = {field.name: getattr(fitted, field.name) for field in fields(Quantile)}
        return FittedQuantile(**own, unbiased=self.unbiased.quantile(p, method))


@dataclass(frozen=True, repr=False, kw_only=True)
class FittedQuantile(Quantile):
    """A quantile of a fit."""

    unbiased: Quantile

    def confidence_interval(
        self, confidence_level: float = 0.95, *, method: str = AUTO, anytime: bool = False
    ) -> Interval:
        """The interval of the unbiased quantile."""
        return self.unbiased.confidence_interval(confidence_level, method=method, anytime=anytime)

    def display(self, confidence_level: float) -> Display:
        unbiased = self.unbiased.display(confidence_level)
        return _displayed(self._shown(self.value), self.notes, unbiased)


def _displayed(value: str, notes: tuple[str, ...], unbiased: Display) -> Display:
    """A fitted value, the error of the unbiased estimate, and that estimate."""
    if not unbiased.estimable:
        return unbiased
    ends = unbiased.stderr, unbiased.interval
    return Display(value, *ends, notes, unbiased=unbiased.value)


class FittedRows(WorkloadRows):
    """The fitted estimate of every row of a workload, in its order."""

    def __init__(self, unbiased: WorkloadRows, values: Floats) -> None:
        super().__init__(unbiased.workload, unbiased.profile)
        self._unbiased, self._values = unbiased, values

    @cached_property
    def values(self) -> Floats:
        return self._values

    @property
    def notes(self) -> tuple[str, ...]:
        return (*super().notes, LABEL)

    def _block(self, rows: Sequence[int]) -> list[Estimate]:
        values = [float(self._values[row]) for row in rows]
        unbiased = self._unbiased._block(rows)
        return [Fitted.of(value, one) for value, one in zip(values, unbiased, strict=True)]
