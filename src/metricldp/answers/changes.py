"""Sums of quantiles of independent tallies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from metricldp.answers.answer import AUTO, NORMAL, Estimate, normal_reach
from metricldp.answers.quantiles import Quantile
from metricldp.basics.text import plain

_ONE_ERROR = 0.6826894921370859
"""The level of a normal interval that reaches one standard error each way."""


@dataclass(frozen=True, repr=False)
class OfQuantiles(Estimate):
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
        target = first.target
        found = cls(
            value,
            0.0,
            question,
            first.attribute,
            target,
            notes,
            reports=reports,
            parts=tuple(parts),
        )
        if not all(quantile.estimable for _, quantile in parts):
            return replace(found, variance=math.inf)
        low, high = found.confidence_interval(_ONE_ERROR)
        return replace(found, variance=((high - low) / 2) ** 2)

    def combined(self, parts: Sequence[tuple[float, Estimate]]) -> OfQuantiles:
        """With others of its kind."""
        own = [
            (factor * inner, quantile)
            for factor, answer in parts
            if isinstance(answer, OfQuantiles)
            for inner, quantile in answer.parts
        ]
        return OfQuantiles.of(own, self.question, sum(answer.reports for _, answer in parts))

    def _interval(
        self, confidence_level: float = 0.95, method: str = AUTO, *, anytime: bool = False
    ) -> tuple[float, float]:
        normal_reach(confidence_level)
        low = high = 0.0
        for factor, quantile in self.parts:
            each = confidence_level ** (1 / len(self.parts))
            found = quantile.confidence_interval(each, method=method, anytime=anytime)
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
