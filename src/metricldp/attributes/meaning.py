"""What a part of a domain means outside of its survey: values, and not positions.

Two surveys may ask for the same thing with other bins, domains or lists of names. A question to
both has one answer only if its words choose the same values in each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from metricldp.attributes.base import Attribute
from metricldp.attributes.selection import Chosen, Span, range_words
from metricldp.basics.text import plain

_NAMES, _WHOLE, _BINS, _FADING = "names", "whole numbers", "bins", "points"
_BENT = 1e-6
"""How much the slope changes at least where a range bends; weights have nine digits."""
_REMEDIES = {
    _NAMES: "list the values instead of a range",
    _WHOLE: "use a range inside of all domains, or leave its end open",
    _BINS: "use a range whose ends are bin edges in all of them",
    _FADING: "remove the range, or give the surveys the same points",
}


@dataclass(frozen=True, eq=False)
class Meaning:
    """The values that some words choose."""

    kind: str
    names: frozenset[str]
    numbers: npt.NDArray[np.float64]
    """Ends of ranges; of a range that fades, where it bends and how far it counts there."""
    near: float
    """How far numbers may be apart that are meant to be the same."""
    words: str

    def same_as(self, other: Meaning) -> bool:
        if (self.kind, self.names) != (other.kind, other.names):
            return False
        near = min(self.near, other.near)
        alike = self.numbers.shape == other.numbers.shape
        return alike and np.allclose(self.numbers, other.numbers, rtol=1e-12, atol=near)

    def remedy(self, other: Meaning) -> str:
        """What to ask for where the two differ."""
        if self.kind != other.kind:
            return f"these are {self.kind} and {other.kind}, which have different values"
        return _REMEDIES[self.kind]


def meaning(attribute: Attribute, chosen: Chosen, asked: object = None) -> Meaning:
    """What was chosen, in values; an end that was `asked` for as None is open."""
    near = 1e-9 * attribute.narrowest_bar
    if attribute.named:
        names = [attribute.name_of(int(place)) for place in np.flatnonzero(chosen.inside)]
        return Meaning(_NAMES, frozenset(names), np.empty(0), near, ", ".join(names))
    if attribute.rounded_at_random:
        words = chosen.note or chosen.words
        return Meaning(_FADING, frozenset(), _bends(attribute, chosen.inside), near, words)
    low_open, high_open = (
        [end is None for end in asked] if isinstance(asked, tuple) else (False, False)
    )
    ends = [
        (
            -math.inf if low_open else float(attribute.values_at(first)[0]),
            math.inf if high_open else float(attribute.values_at(last)[1]),
        )
        for first, last in _runs(chosen)
    ]
    kind = _BINS if attribute.in_bins else _WHOLE
    words = " and ".join(_range(*two) for two in ends)
    return Meaning(kind, frozenset(), np.array(ends), near, words)


def _range(low: float, high: float) -> str:
    if low == high:
        return plain(low)
    return range_words(None if math.isinf(low) else low, None if math.isinf(high) else high)


def _runs(chosen: Chosen) -> list[tuple[int, int]]:
    """The first and the last position of every stretch of them."""
    if isinstance(chosen.part, Span):
        return [(chosen.part.first, chosen.part.end - 1)]
    steps = np.flatnonzero(np.diff(np.concatenate([[0], chosen.inside.astype(np.int8), [0]])))
    return [(int(first), int(end) - 1) for first, end in list(pairwise(steps))[::2]]


def _bends(attribute: Attribute, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The points where the straight lines of a range meet, and how far it counts there."""
    grid, _ = attribute.numbers(attribute.kind)
    bent = np.abs(np.diff(np.diff(weights), prepend=0.0, append=0.0)) > _BENT
    return np.concatenate([grid[bent], weights[bent]])
