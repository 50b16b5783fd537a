"""Answers of a fit: a better number that is biased, with the interval of the unbiased answer.

A fit has no error of its own that could be stated: how far its bias reaches depends on people that
nobody sees. What is guaranteed stays that of the unbiased answer to the same question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from metricldp.answers.answer import (
    AUTO,
    BRACKET,
    Answer,
    percent,
    together,
)
from metricldp.answers.answer_table import Answers
from metricldp.answers.linear import Linear
from metricldp.answers.quantiles import Cdf, Quantile
from metricldp.answers.searches import ISOTONIC
from metricldp.basics.errors import QueryError
from metricldp.basics.markup import beside
from metricldp.basics.text import plain, shown
from metricldp.channels import Floats

LABEL = "fitted: biased, no guarantee; the interval is that of the unbiased answer"
OUTSIDE = "the fit lies outside of that interval"
MOVED = "the fit lay outside of its bracket and was moved to the nearest end"


def kept_within(value: float, unbiased: Answer, level: float = 0.95) -> tuple[float, str]:
    """The value of a fit, and what to say of where it lies.

    A bracket moves it to the nearest end. A plain interval does not: one in twenty is far from
    the truth, and would take the fit along.
    """
    low, high = unbiased.interval(level)
    if low <= value <= high:
        return value, ""
    if unbiased.method(level) == BRACKET:
        return min(max(value, low), high), MOVED
    return value, OUTSIDE


@dataclass(frozen=True, repr=False, kw_only=True)
class Fitted(Answer):
    """A fitted value; its error and interval are those of the unbiased answer."""

    unbiased: Answer
    """To the same question, from the same reports."""

    @classmethod
    def of(cls, value: float, unbiased: Answer) -> Fitted:
        kept, note = kept_within(value, unbiased)
        notes = tuple(dict.fromkeys((*unbiased.notes, LABEL, *((note,) if note else ()))))
        return cls(
            kept,
            unbiased.variance,
            unbiased.question,
            unbiased.unit,
            unbiased.about,
            notes,
            unbiased.bounds,
            unbiased.jump,
            unbiased.hidden,
            unbiased.layout,
            reports=unbiased.reports,
            survey=unbiased.survey,
            unbiased=unbiased,
        )

    def interval(
        self, level: float = 0.95, method: str = AUTO, *, anytime: bool = False
    ) -> tuple[float, float]:
        """That of the unbiased answer."""
        return self.unbiased.interval(level, method, anytime=anytime)

    def method(self, level: float = 0.95, method: str = AUTO) -> str:
        return self.unbiased.method(level, method)

    def rests_on(self, level: float = 0.95, method: str = AUTO) -> str:
        return self.unbiased.rests_on(level, method)

    def moved_by(self, liars: int) -> tuple[float, float]:
        raise QueryError(
            "no bound is known for how far liars move a fit; ask the tally for the same"
        )

    def scaled(self, factor: float, unit: str) -> Answer:
        found = super().scaled(factor, unit)
        return replace(found, unbiased=self.unbiased.scaled(factor, unit))  # type: ignore[call-arg]

    def _shown_ends(self, low: float, high: float) -> str:
        return self.unbiased._shown_ends(low, high)

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        return {**super().to_dict(level), "fitted": True, "unbiased": self.unbiased.value}

    def text(self, level: float = 0.95, *, among: int = 1, method: str = AUTO) -> str:
        """The fit, then the unbiased answer and its interval at that level."""
        low, high = self.interval(together(level, among), method)
        show, every = self._shown, " for all" if among > 1 else ""
        text = f"{show(self.value)} {self.unit} fitted"
        text += f", unbiased {show(self.unbiased.value)} ± {show(self.stderr)}"
        text += f" ({percent(level)}{every}: {self._shown_ends(low, high)})"
        return "; ".join([text, *self.notes])

    def _repr_html_(self) -> str:
        unbiased = f"{self._shown(self.unbiased.value)} {self.unit}"
        said = (
            f"The value is fitted. Error and interval are those of the unbiased answer, {unbiased}."
        )
        return beside(super()._repr_html_(), below=[said])


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
        self._answers = tuple(Fitted.of(share, point) for share, point in pairs)

    @cached_property
    def values(self) -> Floats:
        """As they are fitted: nothing has to be made monotone."""
        return self._shares

    def interval(
        self,
        level: float = 0.95,
        *,
        simultaneous: bool = False,
        method: str = AUTO,
        anytime: bool = False,
    ) -> tuple[Floats, Floats]:
        """Those of the unbiased shares, or their band."""
        return self.unbiased.interval(
            level, simultaneous=simultaneous, method=method, anytime=anytime
        )

    def quantile(self, p: float, method: str = ISOTONIC) -> FittedQuantile:
        """Read off the fit; the interval is that of the unbiased quantile."""
        if method != ISOTONIC:
            raise QueryError(f"a fit rises by itself; leave method={shown(method)} out")
        found = super().quantile(p, method)
        return FittedQuantile(
            found.value,
            found.probability,
            found.position,
            self,
            method,
            found.notes,
            unbiased=self.unbiased.quantile(p, method),
        )


@dataclass(frozen=True, repr=False, kw_only=True)
class FittedQuantile(Quantile):
    """A quantile of a fit."""

    unbiased: Quantile

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        return {**super().to_dict(level), "fitted": True, "unbiased": self.unbiased.value}

    def text(self, level: float = 0.95) -> str:
        low, high = self.interval(level)
        text = f"{self.attribute} {self.probability:g}-quantile {self.shown()} fitted"
        text += f", unbiased {self.unbiased.shown()}"
        return "; ".join([f"{text} ({percent(level)}: {plain(low)} to {plain(high)})", *self.notes])


class FittedLinear(Answers):
    """A fitted answer for every row of a workload, in its order."""

    def __init__(self, unbiased: Linear, values: Floats) -> None:
        super().__init__(unbiased.attribute, (), ())
        self.unbiased, self._values = unbiased, values

    def __len__(self) -> int:
        return len(self.unbiased)

    @cached_property
    def labels(self) -> Sequence[str]:
        return self.unbiased.labels

    @cached_property
    def values(self) -> Floats:
        return np.array([answer.value for answer in self])

    def shared_notes(self) -> list[str]:
        return [*self.unbiased.shared_notes(), LABEL]

    def _block(self, start: int, stop: int) -> list[Answer]:
        found = self.unbiased._block(start, stop)
        values = self._values[start:stop].tolist()
        return [Fitted.of(value, one) for value, one in zip(values, found, strict=True)]
