"""What "auto" takes: the mechanism with the smallest error, chosen when a survey is designed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np

from metricldp.basics.errors import CertificateError, InvalidSpecError, QueryError
from metricldp.basics.progress import Progress, part_of, silent
from metricldp.mechanisms.additive import MOST_POSITIONS as MOST_SHAPED
from metricldp.mechanisms.base import Mechanism, Problem
from metricldp.mechanisms.channel import Channel
from metricldp.mechanisms.channels import channel_of
from metricldp.mechanisms.effort import DEFAULT, Effort
from metricldp.mechanisms.moments import Floats
from metricldp.mechanisms.registry import BUILT_IN
from metricldp.mechanisms.search_cache import cached_search
from metricldp.mechanisms.stated import checked_prior, checked_workload, workload_of
from metricldp.mechanisms.workloads import Workload
from metricldp.metrics import Metric
from metricldp_core.distributions import Distribution

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
    problem: Problem, effort: Effort = DEFAULT, progress: Progress = silent
) -> tuple[Mechanism, Distribution]:
    """The smallest mean variance of a workload: of ranges, or of values where there is no order.

    A mechanism that comes earlier is simpler, and is chosen if others are hardly better.
    """
    best: tuple[Mechanism, Distribution] | None = None
    least = 0.0
    for mechanism, distribution, error in compared(problem, effort, progress):
        if best is None or error < _WORTH * least - _NOTHING:
            best, least = (mechanism, distribution), error
    if best is None:
        first = BUILT_IN[next(_candidates(problem.size, problem.metric, problem.any_ordered))]
        distribution = first.design(problem, effort, progress)
        return first.resolved(problem, distribution), distribution
    return best


Compared = tuple[Mechanism, Distribution, float]
"""A mechanism, its distribution, and the variance that one respondent adds to a query."""


def compared(
    problem: Problem, effort: Effort = DEFAULT, progress: Progress = silent
) -> Sequence[Compared]:
    """The mechanisms that suit a problem, with their errors."""
    metric, ordered = problem.metric, problem.any_ordered
    workload = checked_workload(problem.workload, problem.size, ordered or metric.is_line)
    prior = checked_prior(problem.prior, problem.size)
    return _errors(Problem((problem.size,), metric, (ordered,), workload, prior), effort, progress)


@cached_search
def _errors(problem: Problem, effort: Effort, progress: Progress) -> Sequence[Compared]:
    size, metric, workload = problem.size, problem.metric, problem.workload
    even = workload in ("ranges", "prefixes", "values")
    searched = MAX_SEARCHED if even else MAX_SEARCHED_FOR
    names = list(_candidates(size, metric, problem.any_ordered, searched))
    found = []
    for number, name in enumerate(names):
        with contextlib.suppress(
            CertificateError, QueryError, InvalidSpecError
        ):  # not for this metric
            distribution = BUILT_IN[name].design(
                problem, effort, part_of(progress, number, len(names))
            )
            error = 0.0
            if len(names) > 1:
                channel = channel_of(distribution, problem.prior)
                error = mean_variance(channel, workload, problem.prior)
            found.append((BUILT_IN[name].resolved(problem, distribution), distribution, error))
    return found


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
