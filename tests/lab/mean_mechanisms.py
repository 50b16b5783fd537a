"""Mechanisms that are made for means: Duchi's, Piecewise and Hybrid, on equally spaced positions.

All keep one epsilon between any two positions. Each report stands for a number whose mean is the
own position, and that is all that can be read of it: sums and means. They are no mechanisms of a
survey, because the error of an answer would need the mean of squares, which two different reports
do not tell. With positions as t from -1 to 1 the published variances of one person are

    Duchi      ((e^E + 1)/(e^E - 1))^2 - t^2
    Piecewise  t^2/(e^(E/2) - 1) + (e^(E/2) + 3)/(3 (e^(E/2) - 1)^2)
    Hybrid     Piecewise with probability 1 - e^(-E/2) if E > 0.61, else and otherwise Duchi's.

Duchi, Jordan and Wainwright, "Minimax Optimal Procedures for Locally Private Estimation" (JASA
2018); the others Wang et al., "Collecting and Analyzing Multidimensional Data with Local
Differential Privacy" (ICDE 2019). Here reports are whole numbers, so the variance of Piecewise is
that of `variances`, and tends to the published one as positions become many.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from metricldp.basics.errors import QueryError
from metricldp.lab.peers.waves import wave
from metricldp.mechanisms import Floats
from metricldp.mechanisms.moments import OneHotMatrix
from metricldp.mechanisms.table import TableChannel
from metricldp_core.exact import WORD, ceil_of, exp_bounds, floor_of

_HYBRID_FROM = Fraction("0.61")
_STRAIGHT = 1e-9
"""Of its largest value a function may be so far from a straight line."""


class MeanMoments(OneHotMatrix):
    """Numbers that are unbiased for positions, and so for straight lines."""

    def __init__(self, probabilities: Floats, numbers: tuple[float, ...]) -> None:
        super().__init__(probabilities)
        self.numbers = numbers

    def coefficients(self, functions: Floats) -> Floats:
        ends = functions[..., :1], functions[..., -1:]
        slope = (ends[1] - ends[0]) / (self.size - 1)
        bent = np.abs(functions - ends[0] - slope * np.arange(self.size)).max()
        if bent > _STRAIGHT * np.abs(functions).max():
            raise QueryError("these reports tell sums and means only; ask for one of them")
        return np.asarray(ends[0] + slope * np.array(self.numbers))

    def frequencies(self, totals: Floats) -> Floats:
        return np.tensordot(self.coefficients(np.eye(self.size)), totals, axes=1)


@dataclass(frozen=True)
class MeanTable(TableChannel):
    """A table whose reports stand for positions: unbiased for straight lines, and for no other."""

    numbers: tuple[float, ...]

    @cached_property
    def moments(self) -> MeanMoments:
        return MeanMoments(super().moments.probabilities, self.numbers)

    def variances(self) -> Floats:
        """Of one person's report as an estimate of t, at every position, exactly."""
        positions = np.arange(float(self.size))
        return (self.moments.second_moment(positions) - positions**2) * (2 / (self.size - 1)) ** 2


def duchi(size: int, epsilon: Fraction) -> MeanTable:
    """One of two numbers beyond both ends."""
    rows, numbers = _two_numbers(size, epsilon, WORD)
    return _table(rows, numbers)


def piecewise(size: int, epsilon: Fraction) -> MeanTable:
    """A number near the own one, or any other of an interval around all of them."""
    rows, numbers = _pieces(size, epsilon, WORD)
    return _table(rows, numbers)


def hybrid(size: int, epsilon: Fraction) -> MeanTable:
    """Either of the two; which, is drawn without looking at the value."""
    share = floor_of((1 - exp_bounds(-epsilon / 2)[0]) * WORD)
    if epsilon <= _HYBRID_FROM:
        return duchi(size, epsilon)
    near, near_numbers = _pieces(size, epsilon, share)
    far, far_numbers = _two_numbers(size, epsilon, WORD - share)
    rows = [one + other for one, other in zip(near, far, strict=True)]
    return _table(rows, near_numbers + far_numbers)


def _table(rows: list[list[int]], numbers: list[float]) -> MeanTable:
    return MeanTable(TableChannel.of(rows).distribution, tuple(numbers))


def _two_numbers(size: int, epsilon: Fraction, total: int) -> tuple[list[list[int]], list[float]]:
    """The larger number with a probability that rises along a straight line, low to high."""
    low = ceil_of(total / (exp_bounds(epsilon)[0] + 1))
    span = total - 2 * low
    rise = [low + span * x // (size - 1) for x in range(size)]
    rows = [[total - one, one] for one in rise]
    middle, reach = (size - 1) / 2, (size - 1) / 2 * float(Fraction(total, span))
    return rows, [middle - reach, middle + reach]


def _pieces(size: int, epsilon: Fraction, total: int) -> tuple[list[list[int]], list[float]]:
    """A square wave; the mean of its reports rises along a straight line with the position."""
    width = max(1, round(exp_bounds(-epsilon / 2)[0] * (size - 1)))
    rows = wave(size, width, epsilon, total)
    reports, low = len(rows[0]), min(rows[0])
    gap = Fraction(total - reports * low, total)
    start = Fraction(low * reports * (reports - 1), 2 * total) + gap * Fraction(width - 1, 2)
    return rows, [float((y - start) / gap) for y in range(reports)]
