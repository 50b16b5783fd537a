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
from metricldp_core.metrics import Limit, Metric, strictest

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
        return (
            f"{self.name}: {self.kind}, pairs examined: {len(self.pairs):,}, {numbers}: {verdict}"
        )


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
        distribution, metric = field.distribution, field.point_metric
        if distribution is None or metric is None:
            public.append(field.name)
            continue
        most_steps -= steps(distribution, metric)
        if most_steps < 0:
            raise InvalidManifestError(
                f"the proof of {field.name} takes more than {MOST_STEPS:,} steps; use fewer values"
            )
        proofs.append(prove(field.name, distribution, metric))
    return Certificate(manifest.fingerprint, tuple(proofs), tuple(public))


def steps(distribution: Distribution, metric: Metric) -> int:
    """About how many elementary steps a proof takes; at least so many if they are too many."""
    pairs = sum(1 for _ in islice(examined(distribution, metric), MOST_STEPS // _PAIR + 1))
    return distribution.work(pairs) + _PAIR * pairs


def prove(name: str, distribution: Distribution, metric: Metric) -> Proof:
    """Examine every pair that is needed, given what the ratio depends on."""
    pairs = []
    for limit, (x, other), bound in examined(distribution, metric):
        ratio = bound or distribution.ratio(x, other)
        pairs.append(Pair(x, other, limit, ratio, limit.allows(ratio)))
    return Proof(name, distribution.kind, tuple(pairs))


def examined(
    distribution: Distribution, metric: Metric
) -> Iterator[tuple[Limit, tuple[int, int], Fraction | None]]:
    """Limits, the pairs to compare with them, and the ratio if it is that of many pairs.

    If the ratio is the same for all pairs, a pair at the smallest distance is enough. If it depends
    on the difference of cells alone, as the metric does, one pair for each difference is; if it
    also rises with it, the widest pair is. The ratio of the highest and the lowest probability is a
    bound for all pairs: if the largest limit allows it, all pairs with that limit hold, and the
    first one is listed.
    """
    groups, bound = list(metric.groups()), distribution.largest_ratio()
    largest = max((group.limit for group in groups), key=lambda limit: limit.strictness)
    bounded, same = largest.allows(bound), by_difference(distribution, metric)
    alike = distribution.invariance == "all"
    for group in [strictest(groups)] if alike else groups:
        if alike or (bounded and group.limit == largest):
            yield group.limit, next(group.pairs(True)), bound
        elif same and distribution.rises:
            yield group.limit, group.widest, None
        else:
            for pair in group.pairs(not same):
                yield group.limit, pair, None


def by_difference(distribution: Distribution, metric: Metric) -> bool:
    """Whether pairs of cells with the same difference have the same ratio and distance.

    A difference of cells determines that of their positions, but not the other way round: the
    positions 0 and 1 are neighbours in a row of a grid, 3 and 4 can be in different rows.
    """
    same = distribution.grid in ((metric.size,), metric.grid)
    return distribution.invariance == "difference" and same
