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
from metricldp.basics.errors import SurveyError
from metricldp.basics.exact import as_written
from metricldp.basics.optional import optional
from metricldp.channels import LARGEST_EPSILON, Geometric, Threshold

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = optional("pyarrow")

_MOST_BINS = 4096
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

    @property
    def best(self) -> int:
        return int(self.bins[np.argmin(self.total)])

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
        raise SurveyError(f"the attribute has {wanted} bins already; say bins='auto'")
    mechanism = str(attribute.mechanism)
    if mechanism not in _CHANNELS:
        raise SurveyError(
            f"bins='auto' weighs threshold against geometric, not {mechanism}; "
            "choose one of them, or give the number of bins"
        )
    width = as_written(attribute.high) - as_written(attribute.low)
    whole = as_written(attribute.epsilon) * width / as_written(attribute.per) * share
    bins = [m for m in _candidates() if whole / m >= SMALLEST_STEP]
    if not bins:
        raise SurveyError("epsilon is too small for any number of bins; use a larger one")
    estimation = [_estimation(mechanism, m, whole / m) for m in bins]
    sizes = np.array(bins, dtype=np.int64)
    truncation = (wanted.n * wanted.density / sizes) ** 2 / 6
    return TradeOff(sizes, wanted.n * np.array(estimation), truncation)


def _candidates() -> list[int]:
    """Every number up to 64, then steps of about four per cent."""
    found = set(range(2, 65))
    found |= {round(64 * 1.04**k) for k in range(math.ceil(math.log(_MOST_BINS / 64, 1.04)))}
    return sorted(found | {_MOST_BINS})


def _estimation(mechanism: str, bins: int, step: Fraction) -> float:
    epsilon = min(step, LARGEST_EPSILON)
    built = (channel.for_epsilon(bins, epsilon) for channel in _CHANNELS[mechanism])
    return min(channel.mean_range_variance() for channel in built)
