"""Questions that are asked again: a lasting first blur, and a fresh second one for each report.

The attribute's promise is that of a lifetime: it holds for any number of reports of one value. A
second epsilon, `each`, is what a single report may tell, in the same unit. Along a line both blurs
together are geometric noise with that epsilon, as accurate as if there were no memory: the second
one is lazy noise. Elsewhere it is randomized response on what the first one made, as true as `each`
allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from metricldp.basics.checks import positive
from metricldp.basics.errors import CertificateError, InvalidSpecError
from metricldp.basics.text import listed, shown
from metricldp.mechanisms.base import ANY_TWO, Label, Mechanism, Simple
from metricldp.mechanisms.channel import LARGEST_EPSILON, Channel, IntegerChannel
from metricldp.mechanisms.extremal import Designed, Tents
from metricldp.mechanisms.geometric import Geometric
from metricldp.mechanisms.memoised_channel import Lazy, Memoised
from metricldp.mechanisms.randomized_response import Response
from metricldp.mechanisms.stored import check_kind
from metricldp.metrics import Metric
from metricldp_core import distributions as core
from metricldp_core.distributions import Distribution
from metricldp_core.exact import WORD, decimal_of, exp_bounds, floor_of
from metricldp_core.verify import examined

FIRSTS: dict[str, Mechanism] = {
    "geometric": Simple("geometric", Geometric.for_epsilon, needs_order=True),
    "randomized-response": Simple("randomized-response", Response.for_epsilon, ANY_TWO),
    "tight-constraints": Tents(),
    "extremal": Designed(),
}
"""What the first blur may be: channels that send one whole number."""
MOST_ON_A_LINE = 2048
"""Positions of geometric noise, of which one report's law is a table."""
SPARE = Fraction(1, 1 << 16)
"""By such a share one report's epsilon is smaller than it may be: room for rounding."""
MOST_MEMOISED = 256
"""Positions of tents and designed channels, every report of which is weighed against `each`."""


@dataclass(frozen=True, repr=False)
class MemoisedPlan(Mechanism):
    """`first` is a mechanism, `each` the epsilon of one report, in the unit of the attribute's.

    Left out, `first` follows from the metric, and `each` is half of the attribute's epsilon.
    """

    first: Any = None
    each: float | None = None
    epsilon: Fraction | None = None
    """What the attribute states; without one, its smallest distance."""

    saves: ClassVar[tuple[str, ...]] = ("first", "each")

    def settings(self) -> Any:
        """With the name of the first mechanism, whose integers are in the distribution."""
        return {"name": self.name, "first": _named(self.first).name, "each": self.each}

    def restored(self, distribution: Distribution) -> MemoisedPlan:
        assert isinstance(distribution, core.Memoised)
        first = _named(self.first)
        check_kind(first.name, distribution.first, (distribution.size,))
        each = positive("each", self.each)
        return replace(self, first=first.restored(distribution.first).to_dict(), each=each)

    name: ClassVar[str] = "memoised"  # type: ignore[misc]
    title: ClassVar[str] = "permanent and instantaneous randomization"  # type: ignore[misc]
    source: ClassVar[str] = "Erlingsson et al. 2014, for a metric"  # type: ignore[misc]
    max_computed: ClassVar[int] = 0  # type: ignore[misc]
    max_simulated: ClassVar[int] = 0  # type: ignore[misc]

    def beside(self, epsilon: Fraction) -> MemoisedPlan:
        return replace(self, epsilon=epsilon)

    @property
    def is_designed(self) -> bool:
        return self.first is not None and _named(self.first).is_designed

    def settled(
        self, size: int, metric: Metric, *, ordered: bool = False, label: Label = str
    ) -> MemoisedPlan:
        found = replace(self, each=self._each(size, metric))
        said = self.first
        if said is None:
            return replace(found, first=_first_for(size, metric, ordered, label).to_dict())
        chosen = _named(said)
        if chosen.needs_order and not (ordered or metric.is_line):
            raise InvalidSpecError(
                "geometric noise needs values with an order; use first = 'randomized-response'"
            )
        chosen = chosen.settled(size, metric, ordered=ordered, label=label)
        return replace(found, first=chosen.to_dict())

    def _each(self, size: int, metric: Metric) -> float:
        stated = float(self.epsilon or metric.smallest(size))
        if self.each is None:
            return stated / 2
        each = positive("each", self.each)
        if each >= stated:
            raise InvalidSpecError(
                f"each = {each:g} is the epsilon of one report and must be below {stated:g}, that "
                "of all reports together; else use the first mechanism alone"
            )
        return each

    def _share(self, size: int, metric: Metric) -> Fraction:
        """What one report may tell, of what all reports together may."""
        stated = self.epsilon or metric.smallest(size)
        return decimal_of(self._each(size, metric)) / stated

    def channel(self, size: int, metric: Metric, *, label: Label = str) -> Channel:
        settled = self.settled(size, metric, ordered=True, label=label)
        chosen = _named(settled.first)
        first = chosen.channel(size, metric, label=label)
        assert isinstance(first, IntegerChannel)
        share = self._share(size, metric)
        return Memoised(first, _second(first, chosen.kept(size, metric).scaled(share), share))

    def kept(self, size: int, metric: Metric) -> Metric:
        return _named(self.first).kept(size, metric) if self.first else metric

    def kept_by_one(self, size: int, metric: Metric) -> Metric:
        return self.kept(size, metric).scaled(self._share(size, metric))

    def __repr__(self) -> str:
        return f"<memoised, each {self.each}>" if self.each else repr(self.name)


def _named(said: Any) -> Mechanism:
    """The first mechanism, by its name or by a table with its data."""
    rest = dict(said) if isinstance(said, Mapping) else {"name": said}
    name = rest.pop("name", None)
    if not isinstance(name, str) or name not in FIRSTS:
        raise InvalidSpecError(f"first is {listed(FIRSTS)}, not {shown(said)}")
    return FIRSTS[name].with_saved(rest)


def _first_for(size: int, metric: Metric, ordered: bool, label: Label) -> Mechanism:
    """Noise along a line, response where all are alike, else tents, or designed without those."""
    if metric.is_line or metric.is_uniform:
        return FIRSTS["geometric" if metric.is_line else "randomized-response"]
    try:
        return Tents().settled(size, metric, ordered=ordered, label=label)
    except (CertificateError, InvalidSpecError):
        return Designed().settled(size, metric, ordered=ordered, label=label)


def _second(first: IntegerChannel, kept: Metric, share: Fraction) -> IntegerChannel:
    if isinstance(first, Geometric):
        if first.size > MOST_ON_A_LINE:
            raise InvalidSpecError(
                f"{first.size:,} positions are too many to be memoised; use a grid of at most "
                f"{MOST_ON_A_LINE:,}"
            )
        after = kept.per_step(first.size)
        before = min(after / share, LARGEST_EPSILON)
        return Lazy.between(first.size, before, min(after, LARGEST_EPSILON * share) * (1 - SPARE))
    if not isinstance(first, Response) and first.size > MOST_MEMOISED:
        raise InvalidSpecError(
            f"{first.size:,} positions are too many for this first mechanism; use at most "
            f"{MOST_MEMOISED:,}, or first = 'geometric'"
        )
    return _truest(first, kept)


@lru_cache(maxsize=64)
def _truest(first: IntegerChannel, kept: Metric) -> Response:
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
    return Response(core.RandomizedResponse(outputs, keep))


def _beyond(first: IntegerChannel, x: int, other: int, most: Fraction) -> Fraction:
    """The largest p(y | x) - most p(y | other): floats find those that it can be."""
    if isinstance(first, Response):
        reports = np.array([x])
    else:
        chances = first.moments.probabilities
        found = chances[x] - float(most) * chances[other]
        reports = np.flatnonzero(found >= found.max() - _SLACK)
    return max(first.probability(x, y) - most * first.probability(other, y) for y in reports)


_SLACK = 1e-12
"""Differences of probabilities in floats are nearer than this."""
