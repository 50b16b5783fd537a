"""What is largest of a query, and sums of products of functions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from metricldp.mechanisms import Floats

_ROUNDING = 1e-12
Sum = list[tuple[float, dict[tuple[str, ...], Floats]]]
"""A sum of products: numbers times functions of some attributes, an axis for each."""


class Extremes(NamedTuple):
    """What is largest of a query: numbers, or arrays with one for each query."""

    low: Any
    """The least that f is,"""
    high: Any
    """and the most."""
    jump: Any
    """How far one coin can move the answer."""
    hidden: Any
    """The size of the steps in which its variance is estimated."""

    @property
    def width(self) -> Any:
        """How far one person can move the answer who is drawn from a population."""
        return self.high - self.low

    def scaled(self, factor: float) -> Extremes:
        """Of a query times a number."""
        low, high, jump, hidden = self
        return Extremes(low * factor, high * factor, jump * factor, hidden * factor**2)

    def of(self, query: int) -> Extremes:
        """Of one query alone."""
        return Extremes(*(float(part[query]) for part in self))

    def times(self, other: Extremes) -> Extremes:
        """Of a product with a function of another attribute, whose coins are others.

        A jump is that of one factor times the most that the other is, with or without its own.
        """
        ends = [a * b for a in self[:2] for b in other[:2]]
        one, two = (np.maximum(np.abs(part.low), np.abs(part.high)) for part in (self, other))
        return Extremes(
            np.minimum.reduce(ends),
            np.maximum.reduce(ends),
            _either(one, self.jump, two, other.jump),
            _either(one**2, self.hidden, two**2, other.hidden),
        )


KNOWN = Extremes(np.ones(1), np.ones(1), np.zeros(1), np.zeros(1))
"""Of the function that is 1 for everybody."""


def _either(one: Floats, step: Floats, other: Floats, other_step: Floats) -> Floats:
    """A step of one factor, or of the other, or of both."""
    return np.maximum(step * np.maximum(other, other_step), other_step * np.maximum(one, step))


def varies(function: Floats) -> bool:
    """Whether positions differ, but for rounding."""
    return bool(np.ptp(function) > _ROUNDING * np.abs(function).max())
