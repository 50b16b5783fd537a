"""How answers of independent tallies differ: tables of changes, and sums of quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from metricldp.answers.answer import AUTO, NORMAL, Answer, normal_reach
from metricldp.answers.answer_table import Answers
from metricldp.answers.comparisons import p_text
from metricldp.answers.quantiles import Quantile
from metricldp.basics.optional import loaded
from metricldp.basics.text import plain

_ONE_ERROR = 0.6826894921370859
"""The level of a normal interval that reaches one standard error each way."""


class Changes(Answers):
    """Differences between waves, each with the p-value of no change; p-values are not adjusted."""

    def _with_p(self, level: float, simultaneous: bool | None) -> dict[str, Any]:
        return {**self._columns(level, simultaneous), "p": self.p_values()}

    def to_arrow(self, level: float = 0.95, *, simultaneous: bool | None = None) -> Any:
        return loaded("pyarrow").table(self._with_p(level, simultaneous))

    def to_pandas(self, level: float = 0.95, *, simultaneous: bool | None = None) -> Any:
        return loaded("pandas").DataFrame(self._with_p(level, simultaneous))

    def to_polars(self, level: float = 0.95, *, simultaneous: bool | None = None) -> Any:
        return loaded("polars").DataFrame(self._with_p(level, simultaneous))

    def to_dict(self, level: float = 0.95, *, simultaneous: bool | None = None) -> dict[str, Any]:
        found = super().to_dict(level, simultaneous=simultaneous)
        for row, p in zip(found["answers"], self.p_values().tolist(), strict=True):
            row["p"] = p
        return found

    def text(self, level: float = 0.95, *, simultaneous: bool | None = None) -> str:
        shared = self.shared_notes()
        lines = [
            f"{line}; p-value {p_text(p)}"
            for line, p in zip(
                Answers("", self.labels, [_without(one, shared) for one in self])
                .text(level, simultaneous=simultaneous)
                .splitlines(),
                self.p_values().tolist(),
                strict=True,
            )
        ]
        many = ["all: p-values are not adjusted for several changes"] if len(self) > 1 else []
        return "\n".join([*lines, *many, *(f"all: {note}" for note in shared)])


def _without(answer: Answer, notes: Sequence[str]) -> Answer:
    return replace(answer, notes=tuple(note for note in answer.notes if note not in notes))


# Quantiles --------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class OfQuantiles(Answer):
    """A sum of quantiles of independent waves, each times a factor.

    A quantile has no variance that could be added. But k independent intervals of level a^(1/k)
    hold together at level a, and so does what follows for the sum: at least so often, often wider.
    """

    parts: tuple[tuple[float, Quantile], ...] = ()

    @classmethod
    def of(
        cls, parts: Sequence[tuple[float, Quantile]], question: str, reports: int
    ) -> OfQuantiles:
        value = math.fsum(factor * float(quantile.value) for factor, quantile in parts)
        first = parts[0][1]
        notes = tuple(dict.fromkeys(note for _, quantile in parts for note in quantile.notes))
        about = first.cdf.points[0].about
        found = cls(
            value, 0.0, question, first.attribute, about, notes, reports=reports, parts=tuple(parts)
        )
        low, high = found.interval(_ONE_ERROR)
        return replace(found, variance=((high - low) / 2) ** 2)

    def combined(self, parts: Sequence[tuple[float, Answer]]) -> OfQuantiles:
        """With others of its kind."""
        own = [
            (factor * inner, quantile)
            for factor, answer in parts
            if isinstance(answer, OfQuantiles)
            for inner, quantile in answer.parts
        ]
        return OfQuantiles.of(own, self.question, sum(answer.reports for _, answer in parts))

    def interval(
        self, level: float = 0.95, method: str = AUTO, *, anytime: bool = False
    ) -> tuple[float, float]:
        normal_reach(level)
        low = high = 0.0
        for factor, quantile in self.parts:
            each = level ** (1 / len(self.parts))
            found = quantile.interval(each, method, anytime=anytime)
            ends = sorted(factor * float(end) for end in found)
            low, high = low + ends[0], high + ends[1]
        return low, high

    def _shown(self, number: float) -> str:
        return plain(round(number, 6))

    def method(self, level: float = 0.95, method: str = AUTO) -> str:
        return NORMAL

    def scaled(self, factor: float, unit: str) -> OfQuantiles:
        parts = [(factor * inner, quantile) for inner, quantile in self.parts]
        return replace(OfQuantiles.of(parts, self.question, self.reports), unit=unit)
