"""What "auto" takes: the mechanism with the smallest error, settled when a survey is made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from metricldp.basics.errors import CertificateError, InvalidSpecError, QueryError
from metricldp.mechanisms.additive import MOST_POSITIONS as MOST_SHAPED
from metricldp.mechanisms.base import Mechanism
from metricldp.mechanisms.channel import Channel
from metricldp.mechanisms.matrix import checked_prior, checked_workload, workload_of
from metricldp.mechanisms.moments import Floats
from metricldp.mechanisms.registry import BUILT_IN
from metricldp.mechanisms.workloads import Workload
from metricldp.metrics import Metric

MAX_UNARY_BITS = 256
"""Bits of a report that nobody asked for: with more values unary encoding has to be asked for."""
MAX_SEARCHED, MAX_SEARCHED_FOR = 16, 40
"""Positions up to which the best mixture of shapes takes part unasked: there it is found in a
second, or in some ten for questions such as the bars of a histogram, which fit no ring."""
MAX_WEIGHED = 2048
"""Positions up to which the exact error of additive noise takes some seconds."""
FAR_ENOUGH = 1
"""From this epsilon per step on, additive noise gains less than 1% over geometric noise."""
_WORTH = 0.99
"""A mechanism that comes later in the list has to be better by more than a hundredth."""
_NOTHING = 1e-12
"""A variance per person that is rounding."""


def choose(
    size: int, metric: Metric, *, ordered: bool = False, workload: Any = None, prior: Any = None
) -> Mechanism:
    """The smallest mean variance of a workload: of ranges, or of values where there is no order.

    People are spread evenly, or as a prior says. Who is simpler comes first and wins where others
    are hardly better.
    """
    found: Mechanism | None = None
    least = 0.0
    for mechanism, error in weighed(size, metric, ordered=ordered, workload=workload, prior=prior):
        if found is None or error < _WORTH * least - _NOTHING:
            found, least = mechanism, error
    if found is None:
        first = next(_candidates(size, metric, ordered))
        return BUILT_IN[first].settled(size, metric, ordered=ordered)
    return found


def weighed(
    size: int, metric: Metric, *, ordered: bool = False, workload: Any = None, prior: Any = None
) -> list[tuple[Mechanism, float]]:
    """What competes, settled, each with the variance that one person adds to a question."""
    asked = checked_workload(workload, size, ordered or metric.is_line)
    spread = checked_prior(prior, size)
    if isinstance(asked, str):
        return list(_weighed(size, metric, ordered, asked, spread))
    return list(_competing(size, metric, ordered, asked, spread))


@lru_cache(maxsize=256)
def _weighed(
    size: int, metric: Metric, ordered: bool, workload: str, prior: tuple[float, ...] | None
) -> tuple[tuple[Mechanism, float], ...]:
    return tuple(_competing(size, metric, ordered, workload, prior))


def _competing(
    size: int,
    metric: Metric,
    ordered: bool,
    workload: str | Workload,
    prior: tuple[float, ...] | None,
) -> Iterator[tuple[Mechanism, float]]:
    even = workload in ("ranges", "prefixes", "values")
    names = list(_candidates(size, metric, ordered, MAX_SEARCHED if even else MAX_SEARCHED_FOR))
    for name in names:
        wishes = {"workload": workload, "prior": prior}
        own = BUILT_IN[name]
        own = own.with_saved({key: wishes[key] for key in wishes if key in own.saves})
        with contextlib.suppress(
            CertificateError, QueryError, InvalidSpecError
        ):  # not for this metric
            settled = own.settled(size, metric, ordered=ordered)
            if len(names) == 1:
                yield settled, 0.0
            else:
                yield settled, mean_variance(settled.channel(size, metric), workload, prior)


def _candidates(
    size: int, metric: Metric, ordered: bool, searched: int = MAX_SEARCHED
) -> Iterator[str]:
    """Names, the simplest first; one alone is taken unweighed."""
    line, by_difference = metric.is_line, metric.by_difference(size) is not None
    if MAX_WEIGHED < size <= MOST_SHAPED and by_difference and ordered and not line:
        yield "additive"
        return
    if ordered or line:
        yield from ("geometric", "threshold")
    if not line:
        yield "randomized-response"
    if size > MAX_WEIGHED or (line and metric.smallest(size) >= FAR_ENOUGH):
        return
    if not line and size <= MAX_UNARY_BITS:
        yield "unary"
    yield "additive" if by_difference else "tight-constraints"
    if size <= searched:
        yield "extremal"


def mean_variance(
    channel: Channel, workload: str | Workload, prior: tuple[float, ...] | None = None
) -> float:
    """What one person adds to the variance of a question, mean over all of them and all people."""
    if workload == "ranges" and prior is None:
        return channel.moments.mean_range_variance()
    if workload == "values" and prior is None:
        return channel.moments.mean_frequency_variance()
    asked = workload_of(workload, channel.size)
    spread = None if prior is None else np.array(prior)
    return variance_of(channel.moments.mean_square(asked.gram(), spread), asked, spread)


def variance_of(squares: float, workload: Workload, prior: Floats | None) -> float:
    """The mean variance of a question, from the sum of the mean squares of all decoders."""
    known = np.average(np.diag(workload.gram()), weights=prior)
    return float(squares - known) / workload.rows
