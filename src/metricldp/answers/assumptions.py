"""What a user may assume about how a population is spread along one attribute, and what it buys.

An assumption is a cone: C p >= 0 for the shares p of people at each position. The sum of u is then
at least that of f as soon as u = f + s + C^T r with s and r not negative, which leaves u more room
than u >= f does. If the assumption is wrong, so is the interval: the answer says what was assumed.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from metricldp.attributes.base import Attribute
from metricldp.basics.errors import QueryError, ValueRefused
from metricldp.basics.numbers import is_number
from metricldp.basics.optional import lazy
from metricldp.basics.text import plain, shown
from metricldp.channels import Floats

scipy_optimize = lazy("scipy.optimize")
FALLING, RISING = "falling", "rising"
_STEPS = 400
_TINY = 1e-300


@dataclass(frozen=True)
class Assumption:
    """The rows of C, as tuples so that plans can be looked up, and what it says."""

    cone: tuple[tuple[float, ...], ...]
    words: str
    typical: tuple[float, ...]
    """Shares well inside of the cone, to plan with: at its edge, anything would look free."""

    @property
    def rows(self) -> Floats:
        return np.array(self.cone)


def assumption(
    attribute: Attribute,
    name: str,
    *,
    smooth: Any = None,
    monotone: Any = None,
    peak: Any = None,
    **others: Any,
) -> Assumption:
    """Frequencies of neighbours within a factor, that fall or rise, or that rise up to a peak."""
    said = [what for what in (smooth, monotone, peak) if what is not None]
    if len(said) != 1 or others:
        raise QueryError(
            f"assume one thing of {name}: smooth=1.5, monotone='falling' or 'rising', or peak=40"
        )
    if not attribute.ordered or attribute.is_weight:
        raise QueryError(f"{name} has no order, so nothing can be assumed of neighbouring values")
    size = attribute.size
    here, there = np.eye(size)[:-1], np.eye(size)[1:]  # the shares at k, and at k + 1
    if smooth is not None:
        if not is_number(smooth) or not 1 < smooth < math.inf:
            raise QueryError(f"smooth is a factor between neighbours above 1, not {shown(smooth)}")
        rows = np.concatenate([smooth * here - there, smooth * there - here])
        words = f"neighbouring values of {name} differ by a factor of {smooth:g} at most"
        typical = np.ones(size)
    elif monotone is not None:
        if not isinstance(monotone, str) or monotone not in (FALLING, RISING):
            raise QueryError(f"monotone is {FALLING!r} or {RISING!r}, not {shown(monotone)}")
        rows = here - there if monotone == FALLING else there - here
        words = f"frequencies of {name} never {'rise' if monotone == FALLING else 'fall'}"
        typical = np.arange(1.0, size + 1)[:: -1 if monotone == FALLING else 1]
    else:
        at = _peak(attribute, name, peak)
        rows = np.concatenate([(there - here)[:at], (here - there)[at:]])
        words = f"frequencies of {name} rise up to {plain(peak)} and fall from there"
        typical = size - np.abs(np.arange(size) - at) + 0.0
    return Assumption(tuple(map(tuple, rows.tolist())), words, tuple(typical.tolist()))


def _peak(attribute: Attribute, name: str, peak: Any) -> int:
    """The position of a value, or of the bin that holds it."""
    if attribute.in_bins and is_number(peak):
        with suppress(ValueRefused):
            return attribute.position(peak, name)
    inside = attribute.choose(peak, name).inside
    if attribute.in_bins or inside.sum() != 1:
        raise QueryError(f"a peak of {name} is one value, not {shown(peak)}")
    return int(np.argmax(inside))


def soften_within(
    cone: Floats, shares: Floats, second: Floats, f: Floats, start: Floats, n: int, z: float
) -> Floats:
    """The best u whose sum is at least that of f for all shares in the cone; for drawn people."""
    size = len(f)

    def u_of(parts: Floats) -> Floats:
        return np.asarray(f + parts[:size] + parts[size:] @ cone)

    def cost(parts: Floats) -> tuple[float, Floats]:
        u = u_of(parts)
        mean = float(shares @ u)
        slope = second @ u
        variance = max(float(u @ slope) - mean**2, _TINY)
        along = shares + z / math.sqrt(n * variance) * (slope - mean * shares)
        return mean + z * math.sqrt(variance / n), np.concatenate([along, cone @ along])

    begin = np.concatenate([np.maximum(start - f, 0.0), np.zeros(len(cone))])
    bounds = [(0.0, None)] * len(begin)
    options = {"maxiter": _STEPS, "maxfun": 2 * _STEPS, "maxcor": 30}
    how = {"jac": True, "method": "L-BFGS-B", "bounds": bounds, "options": options}
    found = scipy_optimize.minimize(cost, begin, **how)
    best = np.maximum(found.x, 0.0)
    return u_of(best) if cost(best)[0] < cost(begin)[0] else u_of(begin)
