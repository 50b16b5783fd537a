"""Proofs that run: the exact privacy loss of the integers that are shipped, against the metric.

For every pair of values that generates the metric, the worst ratio of report probabilities is a
fraction of integers, the very integers the sampler compares its coins with; it is compared with
e^E without rounding. All other pairs follow by the triangle inequality, all attributes together
by the sum, and nothing that a collector does to reports can undo it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import islice
from typing import Any

from metricldp.channels import Channel
from metricldp.exact import at_most_exp, log
from metricldp.metrics import Metric
from metricldp.survey import Survey
from metricldp.tables import table


@dataclass(frozen=True)
class Pair:
    """Two positions, how far the report may tell them apart, and how far it does."""

    x: int
    other: int
    allowed: Fraction
    ratio: Fraction
    holds: bool

    @property
    def loss(self) -> float:
        """The exact loss, as a number to read."""
        return log(self.ratio)


@dataclass(frozen=True)
class Proof:
    """All generating pairs of one attribute."""

    attribute: str
    mechanism: str
    pairs: tuple[Pair, ...]
    count: int
    """How many generating pairs there are; of a channel that treats all alike, one is listed."""
    labels: tuple[str, str]
    """The tightest pair in the data's words."""

    @property
    def holds(self) -> bool:
        """Whether every pair is within its distance."""
        return all(pair.holds for pair in self.pairs)

    @property
    def tightest(self) -> Pair:
        """The pair that comes nearest to its limit, or furthest over it."""
        return tightest(self.pairs)


@dataclass(frozen=True)
class Certificate:
    """The proofs of all attributes of a survey."""

    fingerprint: str
    proofs: tuple[Proof, ...]
    clear: tuple[str, ...] = ()
    """Public weights: sent as they are, nothing is promised for them."""

    @property
    def holds(self) -> bool:
        """Yes or no."""
        return all(proof.holds for proof in self.proofs)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a program."""
        return {
            "survey": self.fingerprint,
            "holds": self.holds,
            "clear": list(self.clear),
            "attributes": [
                {
                    "attribute": proof.attribute,
                    "mechanism": proof.mechanism,
                    "pairs": proof.count,
                    "tightest": list(proof.labels),
                    "loss": proof.tightest.loss,
                    "allowed": float(proof.tightest.allowed),
                    "holds": proof.holds,
                }
                for proof in self.proofs
            ],
        }

    def __str__(self) -> str:
        rows = [("attribute", "mechanism", "pairs", "tightest pair", "exact loss", "allowed", "")]
        for proof in self.proofs:
            pair = proof.tightest
            rows.append(
                (
                    proof.attribute,
                    proof.mechanism,
                    f"{proof.count:,}",
                    " | ".join(proof.labels),
                    f"{pair.loss:.15g}",
                    f"{float(pair.allowed):.15g}",
                    "holds" if proof.holds else "BROKEN",
                )
            )
        if self.holds:
            verdict = "certified: every pair of values is within its distance"
        else:
            verdict = "NOT certified: at least one pair of values can be told apart too well"
        open_ones = [f"{name} is a public weight and sent in the clear" for name in self.clear]
        return "\n".join([table(rows, left=2), *open_ones, verdict])


def certify(survey: Survey) -> Certificate:
    """The certificate of a survey as it is shipped."""
    proofs = []
    for name, channel in survey.channels.items():
        attribute = survey.attributes[name]
        pairs = prove(channel, survey.kept[name])
        near = tightest(pairs)
        labels = (attribute.label(near.x), attribute.label(near.other))
        count = survey.kept[name].generating_count(channel.size)
        proofs.append(Proof(name, channel.mechanism, pairs, count, labels))
    clear = tuple(name for name, a in survey.attributes.items() if a.clear)
    return Certificate(survey.fingerprint, tuple(proofs), clear)


def prove(channel: Channel, metric: Metric) -> tuple[Pair, ...]:
    """The exact worst ratio of every generating pair, held against e^E.

    Of a channel that treats all pairs alike the first one is proof for all: the distances of
    generating pairs are the same as well.
    """
    holds = cache(at_most_exp)
    found = []
    generating = metric.generating_pairs(channel.size)
    for x, other in islice(generating, 1) if channel.alike else generating:
        ratio, allowed = channel.worst_ratio(x, other), metric.distance(x, other)
        found.append(Pair(x, other, allowed, ratio, holds(ratio, allowed)))
    return tuple(found)


def tightest(pairs: tuple[Pair, ...]) -> Pair:
    """The first pair with the least room; a broken one comes before all others."""
    return min(pairs, key=lambda pair: (pair.holds, float(pair.allowed) - pair.loss))
