"""Counts over the size of their group, as shares with what they have in common."""

from __future__ import annotations

from dataclasses import replace

from metricldp.answers.answer import Answer, Ratio

_TINY = 1e-9
"""In place of a group of no people at all."""


def of_some(parts: list[Answer], whole: Answer) -> list[Ratio]:
    """Estimated counts over an estimated size; Var(whole - part) gives their covariance."""
    size, error = whole.value or _TINY, whole.stderr
    half = len(parts) // 2
    return [
        share(
            replace(
                below, jump=max(below.jump, above.jump), hidden=max(below.hidden, above.hidden)
            ),
            size,
            error**2,
            (below.stderr**2 + error**2 - above.stderr**2) / 2,
        )
        for below, above in zip(parts[:half], parts[half:], strict=True)
    ]


def share(count: Answer, size: float, size_variance: float = 0.0, covariance: float = 0.0) -> Ratio:
    """A count over the size of its group, as a share."""
    share, variance = count.value / size, count.stderr**2
    spread = variance - 2 * share * covariance + share**2 * size_variance
    return Ratio(
        share,
        max(0.0, spread) / size**2,
        unit="of the group",
        about=count.about,
        jump=count.jump / size,
        hidden=count.hidden / size**2,
        bracket=None if size_variance else count.bracket,
        lie=None if size_variance else count.lie,
        scale=1 / size,
        reports=count.reports,
        denominator=size,
        numerator_variance=variance,
        denominator_variance=size_variance,
        covariance=covariance,
        possible=(0.0, 1.0),
    )
