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
from itertools import islice

from metricldp_core.distributions import Distribution
from metricldp_core.errors import InvalidManifestError
from metricldp_core.exact import log_of
from metricldp_core.manifest import Manifest
from metricldp_core.metrics import Limit, Metric, Pairs

MOST_STEPS = 1 << 23
"""Elementary steps of a proof on a device; manifests that need more are rejected."""
_PAIR = 1 << 8
"""Steps of a pair, besides those for its ratio."""
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
    proofs = []
    for name, distribution, metric in _private(manifest):
        plan = _Plan(distribution, metric)
        most_steps -= plan.steps
        if most_steps < 0:
            raise InvalidManifestError(
                f"the proof of {name} takes more than {MOST_STEPS:,} steps; use fewer values"
            )
        proofs.append(plan.proof(name))
    public = tuple(field.name for field in manifest.fields if field.distribution is None)
    return Certificate(manifest.fingerprint, tuple(proofs), public)


def certify_steps(manifest: Manifest) -> int:
    """About how many elementary steps the proof of a manifest takes."""
    return sum(steps(distribution, metric) for _, distribution, metric in _private(manifest))


def prove(name: str, distribution: Distribution, metric: Metric) -> Proof:
    """Examine every pair that is needed, given what the ratio depends on."""
    return _Plan(distribution, metric).proof(name)


def steps(distribution: Distribution, metric: Metric) -> int:
    """About how many elementary steps a proof takes."""
    return _Plan(distribution, metric).steps


def examined(distribution: Distribution, metric: Metric) -> Pairs:
    """The generating pairs; of pairs with the same ratio that with the smallest distance."""
    if distribution.invariance == "all":
        return iter([metric.smallest()])
    if _by_difference(distribution, metric):
        return metric.representatives()
    return metric.generating_pairs()


def _private(manifest: Manifest) -> Iterator[tuple[str, Distribution, Metric]]:
    """The name and the distribution of each private field, and the metric that it must keep."""
    for field in manifest.fields:
        if field.metric is not None and field.distribution is not None:
            metric = field.metric.between_points() if field.stochastic else field.metric
            yield field.name, field.distribution, metric


def _by_difference(distribution: Distribution, metric: Metric) -> bool:
    """Whether pairs of cells with the same difference have the same ratio and distance.

    A difference of cells determines that of their positions, but not the other way round: the
    positions 0 and 1 are neighbours in a row of a grid, 3 and 4 can be in different rows.
    """
    same = distribution.grid in ((metric.size,), metric.grid)
    return distribution.invariance == "difference" and same


class _Plan:
    """The pairs that a proof examines.

    If the ratio is the same for all pairs, a pair at the smallest distance is enough. If it depends
    on the difference of cells alone, as the metric does, one pair for each difference is; if it
    also rises with it, the widest pair is. The ratio of the highest and the lowest probability is a
    bound for all pairs: if the largest limit allows it, all pairs with that limit hold, and the
    first one is listed.
    """

    def __init__(self, distribution: Distribution, metric: Metric) -> None:
        groups = list(metric.groups())
        self._distribution, self._count = distribution, sum(group.count for group in groups)
        self._parts: list[tuple[Limit, int, Pairs]] = []
        """Limits, each with how many pairs are examined, and which."""
        largest = max((group.limit for group in groups), key=lambda limit: limit.strictness)
        self._bound, self._bounded = distribution.largest_ratio(), None
        if largest.allows(self._bound):
            self._bounded = largest
        if distribution.invariance == "all":
            groups = [min(groups, key=lambda group: group.limit.strictness)]
        same = _by_difference(distribution, metric)
        for group in groups:
            count, pairs = group.count, group.pairs
            if distribution.invariance == "all" or group.limit == self._bounded:
                count, pairs = 1, islice(group.pairs, 1)
            elif same and distribution.rises:
                count, pairs = 1, iter([group.widest])
            elif same:
                count, pairs = group.differences, group.representatives
            self._parts.append((group.limit, count, pairs))

    @property
    def steps(self) -> int:
        """About how many elementary steps the proof takes."""
        pairs = sum(count for _, count, _ in self._parts)
        return self._distribution.work(pairs) + _PAIR * pairs

    def proof(self, name: str) -> Proof:
        pairs = []
        for limit, _, examined in self._parts:
            for x, other in examined:
                bounded = limit == self._bounded
                ratio = self._bound if bounded else self._distribution.ratio(x, other)
                pairs.append(Pair(x, other, limit, ratio, limit.allows(ratio)))
        return Proof(name, self._distribution.kind, tuple(pairs), self._count)
