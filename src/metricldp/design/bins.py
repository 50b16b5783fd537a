"""How many bins a continuous attribute should have: the open question at the end of section 4.2.

More bins put the ends of a range nearer to where they were asked for, but every bin is a smaller
step for the same epsilon per unit, so the noise grows. For n people, squared errors in people:

estimation   n times the mean variance of a range, uniform people, of the better channel
truncation   n^2 s^2 / (6 bins^2): both ends of a range are moved to an edge, by up to half a bin,
             over people who lie s times as dense as if they were spread evenly
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from metricldp.attributes.base import SMALLEST_STEP
from metricldp.attributes.continuous import AutoBins, Continuous
from metricldp.attributes.ordered import check_ends
from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.exact import as_written
from metricldp.basics.optional import lazy
from metricldp.basics.text import plain
from metricldp.channels import LARGEST_EPSILON, Geometric, Threshold

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy("pyarrow")

_MOST_BINS = 4096
_ROUND_MANTISSAS = (Fraction(1), Fraction(2), Fraction(5, 2), Fraction(5))
_FOR_ROUND_WIDTHS = 1.25
"""Round widths may cost this factor of the smallest squared error."""
_CHANNELS: dict[str, tuple[type[Geometric] | type[Threshold], ...]] = {
    "threshold": (Threshold,),
    "geometric": (Geometric,),
    "auto": (Geometric, Threshold),
}


@dataclass(frozen=True)
class TradeOff:
    """Squared errors of a typical range, in people squared, for each number of bins."""

    bins: npt.NDArray[np.int64]
    estimation: npt.NDArray[np.float64]
    truncation: npt.NDArray[np.float64]

    @property
    def total(self) -> npt.NDArray[np.float64]:
        return self.estimation + self.truncation

    width: Fraction
    """Of the whole domain."""

    @property
    def best(self) -> int:
        """The number with the smallest error, and preferably with a round width.

        A query can only use the edges of bins, so edges at 5,000 are worth more than edges at
        5,882.35, unless they cost more than a quarter of the squared error.
        """
        least = float(self.total.min())
        widths = ((error, int(m)) for error, m in zip(self.total, self.bins, strict=True))
        cheap = [(error, m) for error, m in widths if error <= _FOR_ROUND_WIDTHS * least]
        return min([one for one in cheap if _is_round(self.width / one[1])] or cheap)[1]

    def to_arrow(self) -> pa.Table:
        columns = {"bins": self.bins, "estimation": self.estimation}
        return pa.table({**columns, "truncation": self.truncation, "total": self.total})


def with_best_bins(attribute: Any, share: Fraction) -> Any:
    """An attribute with bins="auto", settled."""
    return replace(attribute, bins=trade_off(attribute, share).best)


def trade_off(attribute: Continuous, share: Fraction = Fraction(1)) -> TradeOff:
    """The curve for an attribute with bins="auto", distances multiplied with `share` (see Lp)."""
    wanted = attribute.bins
    if not isinstance(wanted, AutoBins):
        raise InvalidSpecError(f"the attribute has {attribute.size} bins already; use bins='auto'")
    mechanism = str(attribute.mechanism)
    if mechanism not in _CHANNELS:
        raise InvalidSpecError(
            f"bins='auto' compares threshold and geometric, not {mechanism}; "
            "choose one of them, or give the number of bins"
        )
    width = as_written(attribute.high) - as_written(attribute.low)
    whole = (
        as_written(attribute.epsilon)
        * width
        / as_written(attribute.within or attribute.per or 1)
        * share
    )
    bins = [m for m in _candidates(width) if whole / m >= SMALLEST_STEP]
    if not bins:
        raise InvalidSpecError("epsilon is too small for any number of bins; use a larger one")
    estimation = [_estimation(mechanism, m, whole / m) for m in bins]
    sizes = np.array(bins, dtype=np.int64)
    truncation = (wanted.n * wanted.density / sizes) ** 2 / 6
    return TradeOff(sizes, wanted.n * np.array(estimation), truncation, width)


def _candidates(width: Fraction) -> list[int]:
    """Every number up to 64, then steps of about four per cent, and all of round widths."""
    numbers = {*range(2, 65), _MOST_BINS}
    numbers |= {round(64 * 1.04**k) for k in range(math.ceil(math.log(_MOST_BINS / 64, 1.04)))}
    largest = math.floor(math.log10(width))
    widths = (
        mantissa * Fraction(10) ** power
        for power in range(largest - math.ceil(math.log10(_MOST_BINS)) - 1, largest + 1)
        for mantissa in _ROUND_MANTISSAS
    )
    numbers |= {int(width / one) for one in widths if (width / one).denominator == 1}
    return sorted(m for m in numbers if 2 <= m <= _MOST_BINS)


def _is_round(width: Fraction) -> bool:
    """Whether a width is 1, 2, 2.5 or 5 times a power of ten."""
    return width / Fraction(10) ** math.floor(math.log10(width)) in (*_ROUND_MANTISSAS, 10)


def _estimation(mechanism: str, bins: int, step: Fraction) -> float:
    epsilon = min(step, LARGEST_EPSILON)
    built = (channel.for_epsilon(bins, epsilon) for channel in _CHANNELS[mechanism])
    return min(channel.mean_range_variance() for channel in built)


# Values that many people share

_MOST_SHOWN = 5
_HEAP, _TIMES = 0.01, 5
"""A heap is so much of all people, and so many times what a value of the sample has on average."""
_NEARLY_ALL = 0.95
_COARSE = 1000
"""Multiples of a number that fit in the domain at most, for values to be heaped at them."""


@dataclass(frozen=True)
class Heaps:
    """The values that many people of a sample share, and edges of bins that suit them."""

    low: float
    high: float
    values: tuple[float, ...]
    """Single values with many people, most of them first."""
    shares: tuple[float, ...]
    grid: float | None
    """The largest round number that nearly all other values are multiples of."""

    def __bool__(self) -> bool:
        """Whether a survey should know of them."""
        return bool(self.values) or (self.grid or 0) * _COARSE >= self.high - self.low

    def edges(self, bins: int) -> list[float]:
        """Of about so many bins, each heap in the middle of its own and no value at an edge."""
        evenly = np.linspace(self.low, self.high, bins + 1)
        if not self:
            return [float(edge) for edge in evenly]
        grid = self.grid or (self.high - self.low) * 2.0**-20
        around = [heap + side * grid / 2 for heap in self.values for side in (-1, 1)]
        between = (np.floor(evenly[1:-1] / grid) + 0.5) * grid
        first = min(self.low, (np.ceil(self.low / grid) - 0.5) * grid)
        last = max(self.high, (np.floor(self.high / grid) + 0.5) * grid)
        found = {float(f"{edge:.12g}") for edge in (first, *around, *between, last)}
        return sorted(edge for edge in found if first <= edge <= last)

    def __str__(self) -> str:
        if not self:
            return "no value is frequent"
        top = list(zip(self.values, self.shares, strict=True))[:_MOST_SHOWN]
        told = [f"{share:.1%} at {plain(value)}" for value, share in top]
        if len(self.values) > len(top):
            told.append(f"{len(self.values) - len(top):,} values more")
        if (self.grid or 0) * _COARSE >= self.high - self.low:
            told.append(f"nearly all {'others ' if top else ''}at multiples of {plain(self.grid)}")
        return f"frequent values: {', '.join(told)}"


def heaps(values: npt.ArrayLike, low: float | None = None, high: float | None = None) -> Heaps:
    """Look at a sample, for the person who designs a survey: does it need edges of its own?

    Look at data that you may look at, such as a pilot: the edges stand in a survey that everybody
    can read. A device never does this. Without low and high they are those of the sample.
    """
    try:
        sample = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        sample = np.empty(0)
    sample = sample[np.isfinite(sample)]
    if not len(sample):
        raise InvalidSpecError(
            "frequent values are found in a sample of at least one finite number"
        )
    low = float(sample.min() if low is None else low)
    high = float(sample.max() if high is None else high)
    check_ends(low, high)
    found, of, counts = np.unique(
        np.clip(sample, low, high), return_inverse=True, return_counts=True
    )
    heaped = counts >= max(2, len(sample) * max(_HEAP, _TIMES / len(found)))
    order = np.flatnonzero(heaped)[np.argsort(-counts[heaped], kind="stable")]
    others = found[of[~heaped[of]]]
    grid = _round_number(others if len(others) else found, high - low)
    shares = counts[order] / len(sample)
    return Heaps(low, high, tuple(found[order].tolist()), tuple(shares.tolist()), grid)


def _round_number(sample: npt.NDArray[np.float64], extent: float) -> float | None:
    """The largest of 1, 2, 5, 10, 20, ... times a power of ten that nearly all are multiples of."""
    most = math.floor(math.log10(extent))
    for power in range(most, most - 9, -1):
        for first in (5, 2, 1):
            unit = float(f"{first}e{power}")
            parts = sample / unit
            if 2 * unit <= extent and (np.abs(parts - np.rint(parts)) < 1e-6).mean() >= _NEARLY_ALL:
                return unit
    return None
