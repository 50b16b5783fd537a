"""The search for additive noise around long rings: many moves between two transforms.

What is searched for is that of `additive.py`. The kernel `anneal` knows what every single
move does to all frequencies, which takes too long where there are ten thousand. Here the slope of
the objective at every place of every pattern comes from one transform, as many moves are made by
those slopes as go well together, and then the objective is found anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metricldp.mechanisms import shapes
from metricldp.mechanisms.moments import Floats

Depths = npt.NDArray[np.int64]
ROUNDS = 500
_HOT, _COLD = 0.5, 1e-3
"""The temperature at first, as a share of a place's part of the objective; then of that."""
_FIRST, _MOST = 0.01, 0.1
"""Moves at a time, as a share of all places: in the first round, and at most."""
_MORE, _FEWER = 1.1, 0.7


@dataclass(frozen=True)
class Bounds:
    """What moves, and how far heights may be apart."""

    lengths: Depths
    """How many places there are along each attribute."""
    reach: Depths
    offsets: Depths
    """Of places so far apart around the ring"""
    most: Depths
    """the heights differ by at most so much,"""
    cap: int
    """and any two by at most so much."""


def annealed(
    heights: Depths, unit: float, spectrum: Floats, bounds: Bounds, rounds: int = ROUNDS
) -> tuple[Depths, float]:
    """Better heights than those given, (patterns, n), and the objective that they reach."""
    from metricldp.mechanisms import search_kernels as kernels

    now = _State.of(heights, unit, spectrum)
    best, many = now, _FIRST * heights.size
    for number in range(rounds):
        shapes.watching.get()(number / rounds)
        heat = now.objective * _HOT / heights.size * _COLD ** (number / rounds)
        moved, v = now.heights.copy(), now.v.copy()
        expected = kernels.move_many(
            *(moved, v, now.slopes, now.curves, unit, bounds.lengths, bounds.reach),
            *(bounds.offsets, bounds.most, bounds.cap, heat, max(1, int(many)), number),
        )
        found = _State.of(moved, unit, spectrum)
        beyond = found.objective - now.objective - expected
        if beyond > max(0.5 * many * heat, 0.3 * abs(expected)):
            many = max(1.0, many * _FEWER)
            if found.objective > now.objective + many * heat:
                continue
        else:
            many = min(many * _MORE, _MOST * heights.size)
        now = found
        best = min(best, now, key=lambda state: state.objective)
    return best.heights, best.objective


@dataclass(frozen=True, eq=False)
class _State:
    """Heights, and what the objective does where they move."""

    heights: Depths
    v: Floats
    objective: float
    slopes: Floats
    """The derivative by each v."""
    curves: Floats
    """Half of the second one, mean over the places of a pattern."""

    @classmethod
    def of(cls, heights: Depths, unit: float, spectrum: Floats) -> _State:
        """With p_j = |v_j(k)|^2 / v_j(0)^2 the objective is sum_k g_k / mean_j p_j."""
        patterns, n = heights.shape
        v = np.exp(unit * (heights - heights.max(axis=1, keepdims=True)))
        total = v.sum(axis=1, keepdims=True)
        turned = np.fft.rfft(v)
        power = np.abs(turned) ** 2 / total**2
        together = power.sum(axis=0)
        weight = patterns * spectrum / together**2
        one_side = weight.copy()
        one_side[1 : (n + 1) // 2] /= 2  # the mirror images are in the spectrum
        rising = n * np.fft.irfft(one_side * turned, n) / total
        slopes = 2 / total * ((weight * power).sum(axis=1, keepdims=True) - rising)
        curves = (2 * (weight / together * power).sum(axis=1) - weight.sum()) / total[:, 0] ** 2
        return cls(heights, v, float((patterns * spectrum / together).sum()), slopes, curves)
