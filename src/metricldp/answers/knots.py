"""Knots: functions of a position that are never negative and add up to 1.

A function that is a sum of them is above another as soon as it is above it at each knot.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metricldp.mechanisms import Floats

_MOST_KINKS = 24
"""A function with more kinks has a knot at every position."""
_ROUNDING = 1e-9


def hats(f: Floats, width: float, around: Sequence[float], exact: bool) -> tuple[Floats, Floats]:
    """Straight between knots, which stand close to the kinks of f and far apart elsewhere."""
    size = len(f)
    if not np.ptp(f):
        return np.ones((1, size)), f[:1]
    bend = np.abs(np.diff(f, n=2)) > _ROUNDING * max(1.0, float(np.abs(f).max()))
    kinks = [0, *(np.flatnonzero(bend) + 1).tolist(), size - 1]
    if len(kinks) > _MOST_KINKS + 2 and len(kinks) < size:
        kinks = list(range(size))
    at = np.arange(size)
    inner = set(kinks[1:-1])
    if not exact:  # of a step the higher side is enough
        low = {
            k if f[k] < f[k + 1] else k + 1 for k in inner if k + 1 in inner and f[k] != f[k + 1]
        }
        inner -= low
    steps = np.unique(np.rint(width * np.asarray(around)).astype(np.int64))
    wanted = {int(k + way * step) for k in inner for step in steps for way in (-1, 1)}
    knots = _thinned(wanted, {0, size - 1, *inner}, width)
    if (np.interp(at, knots, f[knots]) < f - _ROUNDING).any():
        knots = _thinned(wanted, set(kinks), width)
    basis = np.array([np.interp(at, knots, hat) for hat in np.eye(len(knots))])
    return basis, f[knots]


def _thinned(wanted: set[int], kept: set[int], width: float) -> list[int]:
    """The knots that are wanted, in order, but not too close to each other or to those kept."""
    knots: list[int] = []
    for k in sorted(wanted | kept):
        if k in kept:
            while knots and knots[-1] not in kept and k - knots[-1] < width / 2:
                knots.pop()
            knots.append(k)
        elif min(kept) < k < max(kept) and k - knots[-1] > width / 2:
            knots.append(k)
    return knots


def level_sets(f: Floats) -> tuple[Floats, Floats]:
    """Where there is no order: all positions with the same value are one."""
    values, which = np.unique(f, return_inverse=True)
    return (np.arange(len(values))[:, None] == which).astype(np.float64), values
