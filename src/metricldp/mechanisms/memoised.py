"""Memoised responses: a lasting first randomization, and a second one for each report.

The attribute's guarantee holds for any number of reports of one value. A second epsilon, `each`,
is that of a single report, in the same unit. Along a line both randomizations together are
geometric noise with that epsilon, as accurate as without a memory: the second one is lazy noise.
Elsewhere it is randomized response on the first report, as true as `each` allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self, cast

import numpy as np

from metricldp.basics.checks import positive
from metricldp.basics.errors import CertificateError, InvalidSpecError
from metricldp.basics.progress import Progress
from metricldp.basics.text import listed, shown
from metricldp.mechanisms.base import Mechanism, Problem
from metricldp.mechanisms.channel import LARGEST_EPSILON, IntegerChannel
from metricldp.mechanisms.channels import channel_of
from metricldp.mechanisms.effort import Effort
from metricldp.mechanisms.extremal import (
    ExtremalMechanism,
    TightConstraints,
    has_tight_constraints,
)
from metricldp.mechanisms.geometric import GEOMETRIC, GeometricChannel
from metricldp.mechanisms.memoised_channel import LazyGeometricChannel, MemoisedChannel
from metricldp.mechanisms.randomized_response import RANDOMIZED_RESPONSE, RandomizedResponseChannel
from metricldp.metrics import Metric
from metricldp_core import distributions as core
from metricldp_core.distributions import Distribution
from metricldp_core.exact import WORD, decimal_of, exp_bounds, floor_of
from metricldp_core.levels import Extremal
from metricldp_core.verify import examined

FIRSTS: dict[str, Mechanism] = {
    mechanism.name: mechanism
    for mechanism in (GEOMETRIC, RANDOMIZED_RESPONSE, TightConstraints(), ExtremalMechanism())
}
"""What the first randomization may be: mechanisms that report one whole number."""
MOST_ON_A_LINE = 2048
"""Positions of geometric noise, of which one report's law is a table."""
SPARE = Fraction(1, 1 << 16)
"""By such a share one report's epsilon is smaller than it may be: room for rounding."""
MOST_MEMOISED = 256
"""Positions of tents and designed channels, every report of which is weighed against `each`."""


@dataclass(frozen=True, repr=False)
class MemoisedResponse(Mechanism):
    """`first` is a mechanism, `each` the epsilon of one report, in the unit of the attribute's.

    By default, `first` follows from the metric, and `each` is half of the attribute's epsilon.
    """

    first: Any = None
    each: float | None = None

    options: ClassVar[tuple[str, ...]] = ("first", "each")
    name: ClassVar[str] = "memoised"  # type: ignore[misc]
    kind: ClassVar[str] = "memoised"  # type: ignore[misc]
    title: ClassVar[str] = "permanent and instantaneous randomization"  # type: ignore[misc]
    source: ClassVar[str] = "Erlingsson et al. 2014, for a metric"  # type: ignore[misc]
    max_computed: ClassVar[int] = 0  # type: ignore[misc]
    max_simulated: ClassVar[int] = 0  # type: ignore[misc]

    def distribution(self, problem: Problem, effort: Effort, progress: Progress) -> Distribution:
        share = self._share(problem)
        mechanism, distribution = self._first(problem, effort, progress)
        first = cast(IntegerChannel, channel_of(distribution))
        metric = mechanism.proved_metric(problem.metric, distribution)
        return MemoisedChannel(first, _second(first, metric.scaled(share), share)).distribution

    def _first(
        self, problem: Problem, effort: Effort, progress: Progress
    ) -> tuple[Mechanism, Distribution]:
        """The stated mechanism, or the one that suits the metric."""
        metric = problem.metric
        problem = replace(problem, workload=None, prior=None)
        if self.first is None and not (metric.is_line or metric.is_uniform):
            try:
                return FIRSTS["tight-constraints"], TightConstraints().design(
                    problem, effort, progress
                )
            except (CertificateError, InvalidSpecError):
                distribution = ExtremalMechanism().design(problem, effort, progress)
                return FIRSTS["extremal"], distribution
        usual = "geometric" if metric.is_line else "randomized-response"
        mechanism = first_mechanism(usual if self.first is None else self.first)
        if mechanism.needs_order and not (problem.any_ordered or metric.is_line):
            raise InvalidSpecError(
                "geometric noise needs values with an order; use first = 'randomized-response'"
            )
        return mechanism, mechanism.design(problem, effort, progress)

    def _each(self, problem: Problem) -> float:
        epsilon = float(problem.unit_epsilon)
        if self.each is None:
            return epsilon / 2
        each = positive("each", self.each)
        if each >= epsilon:
            raise InvalidSpecError(
                f"each = {each:g} is the epsilon of one report and must be below {epsilon:g}, that "
                "of all reports together; else use the first mechanism alone"
            )
        return each

    def _share(self, problem: Problem) -> Fraction:
        """The epsilon of one report, relative to that of all reports of a value."""
        return decimal_of(self._each(problem)) / problem.unit_epsilon

    def resolved(self, problem: Problem, distribution: Distribution) -> Self:
        """With the name of the first mechanism, whose integers are in the distribution."""
        first = cast(core.Memoised, distribution).first
        if self.first is not None:
            name = first_mechanism(self.first).name
        elif isinstance(first, Extremal):
            tight = has_tight_constraints(first, problem.metric)
            name = "tight-constraints" if tight else "extremal"
        else:
            name = first.kind
        return replace(self, first=name, each=self._each(problem))

    def proved_metric(self, metric: Metric, distribution: Distribution) -> Metric:
        first = cast(core.Memoised, distribution).first
        return first_mechanism(self.first).proved_metric(metric, first)

    def one_report(self, problem: Problem, distribution: Distribution) -> Metric:
        return self.proved_metric(problem.metric, distribution).scaled(self._share(problem))

    def __repr__(self) -> str:
        return f"<memoised, each {self.each}>" if self.each else repr(self.name)


def first_mechanism(stated: Any) -> Mechanism:
    """The first mechanism, by its name or by a table with its options."""
    options = dict(stated) if isinstance(stated, Mapping) else {"name": stated}
    name = options.pop("name", None)
    if not isinstance(name, str) or name not in FIRSTS:
        raise InvalidSpecError(f"first is {listed(FIRSTS)}, not {shown(stated)}")
    return FIRSTS[name].with_options(options)


def _second(first: IntegerChannel, kept: Metric, share: Fraction) -> IntegerChannel:
    if isinstance(first, GeometricChannel):
        if first.size > MOST_ON_A_LINE:
            raise InvalidSpecError(
                f"{first.size:,} positions are too many to be memoised; use a grid of at most "
                f"{MOST_ON_A_LINE:,}"
            )
        after = kept.per_step(first.size)
        before = min(after / share, LARGEST_EPSILON)
        return LazyGeometricChannel.between(
            first.size, before, min(after, LARGEST_EPSILON * share) * (1 - SPARE)
        )
    if not isinstance(first, RandomizedResponseChannel) and first.size > MOST_MEMOISED:
        raise InvalidSpecError(
            f"{first.size:,} positions are too many for this first mechanism; use at most "
            f"{MOST_MEMOISED:,}, or first = 'geometric'"
        )
    return _truest(first, kept)


@lru_cache(maxsize=64)
def _truest(first: IntegerChannel, kept: Metric) -> RandomizedResponseChannel:
    """Response on the first's reports that keeps as many of them as one report may tell.

    A report y comes from x with a probability in proportion to 1 + c p(y | x), c being what is kept
    beyond chance. It keeps e^E if 1 + c p <= e^E (1 + c p'), that is c (p - e^E p') <= e^E - 1, for
    every y and every pair that generates the metric, both ways.
    """
    least: Fraction | None = None
    for x, other in examined(first.distribution, kept.to_core(first.size)):
        most = exp_bounds(kept.distance(x, other))[0]
        over = max(_beyond(first, x, other, most), _beyond(first, other, x, most))
        if over > 0 and (least is None or (most - 1) / over < least):
            least = (most - 1) / over
    outputs = first.outputs
    if least is None:
        raise InvalidSpecError(
            "one report would have the loss of all reports together; use a smaller each"
        )
    keep = floor_of((least + 1) / (least + outputs) * WORD)
    if keep * outputs <= WORD:
        raise InvalidSpecError("each is too small for 64-bit words; use a larger one")
    return RandomizedResponseChannel(core.RandomizedResponse(outputs, keep))


def _beyond(first: IntegerChannel, x: int, other: int, most: Fraction) -> Fraction:
    """The largest p(y | x) - most p(y | other): floats find those that it can be."""
    if isinstance(first, RandomizedResponseChannel):
        reports = np.array([x])
    else:
        chances = first.moments.probabilities
        found = chances[x] - float(most) * chances[other]
        reports = np.flatnonzero(found >= found.max() - _SLACK)
    return max(first.probability(x, y) - most * first.probability(other, y) for y in reports)


_SLACK = 1e-12
"""Differences of probabilities in floats are nearer than this."""
