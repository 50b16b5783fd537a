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
from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.optional import lazy
from metricldp.mechanisms import LARGEST_EPSILON, GeometricChannel, ThresholdChannel
from metricldp_core.exact import decimal_of

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy("pyarrow")

_MOST_BINS = 4096
_ROUND_MANTISSAS = (Fraction(1), Fraction(2), Fraction(5, 2), Fraction(5))
_FOR_ROUND_WIDTHS = 1.25
"""Round widths may cost this factor of the smallest squared error."""
_CHANNELS: dict[str, tuple[type[GeometricChannel] | type[ThresholdChannel], ...]] = {
    "threshold": (ThresholdChannel,),
    "geometric": (GeometricChannel,),
    "auto": (GeometricChannel, ThresholdChannel),
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
    width = decimal_of(attribute.high) - decimal_of(attribute.low)
    whole = (
        decimal_of(attribute.epsilon)
        * width
        / decimal_of(attribute.within or attribute.per or 1)
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
    return min(channel.moments.mean_range_variance() for channel in built)
