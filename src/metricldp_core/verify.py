"""The proof: the likelihood ratios of the integers in a manifest, compared with its metrics.

For every generating pair of a metric, the largest likelihood ratio of any report is a fraction of
the very integers that a device compares random words with, or that fraction rounded up. It is
compared with e^E without rounding. All other pairs follow, because ratios multiply along a path as
distances add. Fields are drawn from independent words, so the distances of fields add up. Nothing
that a collector does to reports can undo the guarantee.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from metricldp_core.distributions import Distribution
from metricldp_core.errors import InvalidManifestError
from metricldp_core.exact import log_of
from metricldp_core.manifest import Manifest
from metricldp_core.metrics import Limit, Metric

MOST_STEPS = 1 << 23
"""Elementary steps of a proof on a device; manifests that need more are rejected."""
_SAME = 1e-12
"""Losses that differ by no more are equal up to rounding."""


@dataclass(frozen=True)
class Pair:
    """Two positions, the ratio that the metric allows, and the largest likelihood ratio."""

    x: int
    other: int
    limit: Limit
    ratio: Fraction
    holds: bool

    @property
    def loss(self) -> float:
        """The privacy loss, the logarithm of the ratio."""
        return log_of(self.ratio)

    @property
    def room(self) -> float:
        return self.limit.allowed - self.loss


@dataclass(frozen=True)
class Proof:
    """The examined pairs of one field."""

    name: str
    kind: str
    pairs: tuple[Pair, ...]
    count: int
    """The number of generating pairs; of pairs that are equivalent one is examined."""

    @property
    def holds(self) -> bool:
        return all(pair.holds for pair in self.pairs)

    @property
    def tightest(self) -> Pair:
        """The first pair with the least room up to rounding; one that does not hold comes first."""
        listed = [pair for pair in self.pairs if not pair.holds] or self.pairs
        rooms = [pair.room for pair in listed]
        least = min(rooms) + _SAME
        return next(pair for pair, room in zip(listed, rooms, strict=True) if room <= least)

    def __str__(self) -> str:
        pair = self.tightest
        verdict = "holds" if self.holds else "BROKEN"
        numbers = f"exact loss {pair.loss:.9g}, allowed {pair.limit.allowed:.9g}"
        return f"{self.name}: {self.kind}, {self.count:,} pairs, {numbers}: {verdict}"


@dataclass(frozen=True)
class Certificate:
    """The proofs of all fields of a manifest."""

    fingerprint: str
    proofs: tuple[Proof, ...]
    public: tuple[str, ...]
    """Names of public weights, which are sent without protection."""

    @property
    def holds(self) -> bool:
        return all(proof.holds for proof in self.proofs)

    def __str__(self) -> str:
        lines = [str(proof) for proof in self.proofs]
        return "\n".join([*lines, *(f"{name}: sent without protection" for name in self.public)])


def certify(manifest: Manifest, *, most_steps: float = MOST_STEPS) -> Certificate:
    """Compare all likelihood ratios of a manifest with its metrics."""
    proofs, public = [], []
    for field in manifest.fields:
        if field.metric is None or field.distribution is None:
            public.append(field.name)
            continue
        metric = field.metric.between_points() if field.stochastic else field.metric
        most_steps -= steps(field.distribution, metric)
        if most_steps < 0:
            raise InvalidManifestError(
                f"the proof of {field.name} takes more than {MOST_STEPS:,} steps; use fewer values"
            )
        proofs.append(prove(field.name, field.distribution, metric))
    return Certificate(manifest.fingerprint, tuple(proofs), tuple(public))


def certify_steps(manifest: Manifest) -> int:
    """About how many elementary steps the proof of a manifest takes."""
    private = [(f.distribution, f.metric) for f in manifest.fields]
    return sum(steps(distribution, m) for distribution, m in private if distribution and m)


def prove(name: str, distribution: Distribution, metric: Metric) -> Proof:
    """Examine every pair that is needed, given what the ratio depends on.

    The ratio of the highest and the lowest probability is a bound for all pairs. If the largest
    distance allows it, all pairs at that distance hold, and one of them is listed.
    """
    bound, largest = distribution.largest_ratio(), metric.largest()
    bounded = Limit(largest).allows(bound)
    found: list[Pair] = []
    seen = False
    for x, other in examined(distribution, metric):
        limit = metric.limit(x, other)
        if bounded and limit == Limit(largest):
            if not seen:
                found.append(Pair(x, other, limit, bound, holds=True))
            seen = True
            continue
        ratio = distribution.ratio(x, other)
        found.append(Pair(x, other, limit, ratio, limit.allows(ratio)))
    return Proof(name, distribution.kind, tuple(found), metric.count())


def examined(distribution: Distribution, metric: Metric) -> Iterator[tuple[int, int]]:
    """The generating pairs; of equivalent ones that with the smallest distance.

    If the ratio is the same for all pairs, a pair at the smallest distance is enough. If it depends
    on the difference of positions alone, as the metric does, one pair for each difference is.
    """
    if distribution.invariance == "all":
        return iter([metric.smallest()])
    if _by_difference(distribution, metric):
        return metric.representatives()
    return metric.generating_pairs()


def _by_difference(distribution: Distribution, metric: Metric) -> bool:
    """Whether pairs of cells with the same difference have the same ratio and distance.

    A difference of cells determines that of their positions, but not the other way round: the
    positions 0 and 1 are neighbours in a row of a grid, 3 and 4 can be in different rows.
    """
    same = distribution.grid in ((metric.size,), metric.grid)
    return distribution.invariance == "difference" and same


def steps(distribution: Distribution, metric: Metric) -> int:
    """About how many elementary steps a proof takes."""
    if distribution.invariance == "all":
        return distribution.cost
    if _by_difference(distribution, metric):
        return distribution.cost * sum(1 for _ in metric.representatives())
    return distribution.cost * metric.count()
