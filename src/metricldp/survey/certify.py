"""Proofs that run: the exact privacy loss of the integers that are shipped, against the metric.

For every pair of values that generates the metric, the worst ratio of report probabilities is a
fraction of integers, the very integers the sampler compares its coins with; it is compared with
e^E without rounding (a fraction that would be too long is rounded up, never down). All other pairs
follow by the triangle inequality, all attributes together by the sum, and nothing that a collector
does to reports can undo it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from metricldp.attributes.answered import label
from metricldp.basics import markup, text
from metricldp.basics.errors import CertificateError
from metricldp.channels import Channel
from metricldp.metrics import Metric
from metricldp.metrics.grid import Grid
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import Block
from metricldp.survey.explain import (
    no_response,
    shown_epsilon,
    survey_epsilon,
    weak_guarantees,
)
from metricldp_core.exact import at_most_exp, log_of

_SAME = 1e-12
"""Losses that differ by no more are the same: machines round the last digits differently."""


_CERTAIN = Fraction(1 << (1 << 12))
"""Stands for the ratio of two values that a report tells apart for certain."""


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
        return log_of(self.ratio)


@dataclass(frozen=True)
class Proof:
    """The generating pairs of one attribute."""

    attribute: str
    mechanism: str
    pairs: tuple[Pair, ...]
    count: int
    """How many generating pairs there are; of those that are alike to the channel one is listed."""
    labels: tuple[str, str]
    """The tightest pair in the data's words."""
    promised: bool
    """Whether the distances that the channel keeps imply those that the survey promises."""
    any_two: Pair | None = None
    """Of a channel that treats all pairs alike, where the metric does not: the farthest pair, held
    against the smallest distance. Then any two values are within that: plain epsilon-LDP."""
    one_report: Pair | None = None
    """Of a channel that remembers its first blur, for which pairs are held against what all reports
    of a value may tell together: the tightest pair of what one report by itself may tell."""

    @property
    def holds(self) -> bool:
        """Whether every pair is within its distance, and that is what was promised."""
        others = [pair for pair in (self.any_two, self.one_report) if pair is not None]
        return self.promised and all(pair.holds for pair in (*self.pairs, *others))

    @property
    def tightest(self) -> Pair:
        """The pair that comes nearest to its limit, or furthest over it."""
        return tightest(self.pairs)


@dataclass(frozen=True, repr=False)
class Certificate:
    """The proofs of all attributes of a survey, in exact arithmetic."""

    fingerprint: str
    proofs: tuple[Proof, ...]
    """For each attribute, its pairs of values with their exact and their allowed privacy loss."""
    public: tuple[str, ...] = ()
    """Names of public weights, which are sent without protection."""
    warnings: tuple[str, ...] = ()
    """A line for each guarantee that is proved but weak."""
    missing: tuple[str, ...] = ()
    """A line for each optional attribute: the largest distance of no response and a value."""
    together: float = 0.0
    """The largest distance of two respondents."""
    norm: float = 1.0

    @property
    def holds(self) -> bool:
        """Whether every pair of values of every attribute is within its distance."""
        return all(proof.holds for proof in self.proofs)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "survey": self.fingerprint,
            "holds": self.holds,
            "public": list(self.public),
            "together": self.together,
            "warnings": list(self.warnings),
            "attributes": [
                {
                    "attribute": proof.attribute,
                    "mechanism": proof.mechanism,
                    "pairs": proof.count,
                    "tightest": list(proof.labels),
                    "loss": proof.tightest.loss,
                    "allowed": float(proof.tightest.allowed),
                    "holds": proof.holds,
                    "any_two": _plain_data(proof.any_two),
                }
                | ({"one_report": _plain_data(proof.one_report)} if proof.one_report else {})
                for proof in self.proofs
            ],
        }

    def __str__(self) -> str:
        return "\n".join([text.table(self._rows(), left=2), *self._lines()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        page = markup.table(self._rows(), caption=f"Survey {self.fingerprint[:16]}", left=2)
        return markup.beside(page, below=self._lines())

    def _rows(self) -> Sequence[tuple[str, ...]]:
        rows = [("attribute", "mechanism", "pairs", "tightest pair", "exact loss", "allowed", "")]
        for proof in self.proofs:
            numbers = f"{proof.tightest.loss:.9g}", f"{float(proof.tightest.allowed):.9g}"
            pair = f"{proof.count:,}", " | ".join(proof.labels)
            rows.append((label(proof.attribute), proof.mechanism, *pair, *numbers, _verdict(proof)))
        return rows

    def _lines(self) -> list[str]:
        """What is to be said below the table."""
        verdict = "certified: every pair of values is within its distance"
        if not self.holds:
            verdict = "NOT certified: at least one pair of values exceeds its distance"
        pairs = "The listed numbers of pairs imply all others by the triangle inequality."
        together = (
            "Distances of attributes add up"
            if self.norm == 1
            else f"Distances of attributes are combined by the {self.norm:g}-norm"
        )
        total = f"{together}; two respondents are at most {shown_epsilon(self.together)} apart."
        open_ones = [
            f"{name} is a public weight and sent without protection" for name in self.public
        ]
        plain = [_plain_line(p.attribute, p.any_two) for p in self.proofs if p.any_two]
        plain += [_one_line(p.attribute, p.one_report) for p in self.proofs if p.one_report]
        weak = [f"warning: {line}" for line in self.warnings]
        return [*plain, *open_ones, *self.missing, pairs, total, verdict, *weak]


def _plain_line(name: str, pair: Pair) -> str:
    epsilon = f"{float(pair.allowed):.9g}"
    return f"{label(name)}: any two values within {epsilon} (plain {epsilon}-LDP): {_verdict(pair)}"


def _one_line(name: str, pair: Pair) -> str:
    loss, allowed = f"{pair.loss:.9g}", f"{float(pair.allowed):.9g}"
    return (
        f"{name}: all reports of one value from one memory together; a single report has a loss "
        f"of {loss}, allowed {allowed}: {_verdict(pair)}"
    )


def _verdict(proved: Pair | Proof) -> str:
    return "holds" if proved.holds else "BROKEN"


def _plain_data(pair: Pair | None) -> dict[str, Any] | None:
    if pair is None:
        return None
    return {"loss": pair.loss, "allowed": float(pair.allowed), "holds": pair.holds}


def certify(survey: Agreement) -> Certificate:
    proofs = []
    for name, channel in survey.channels.items():
        attribute = survey.attributes[name]
        pairs = prove(channel.lifetime, survey.kept[name])
        near = tightest(pairs)
        labels = (attribute.label(near.x), attribute.label(near.other))
        count = survey.kept[name].generating_count(channel.size)
        promised = _implies(survey, name)
        any_two = prove_plain(channel.lifetime, survey.kept[name])
        said = survey.mechanisms[name]
        by_one = said.kept_by_one(channel.size, survey.kept[name])
        alone = None if by_one is None else tightest(prove(channel, by_one))
        proofs.append(Proof(name, said.name, pairs, count, labels, promised, any_two, alone))
    proofs += [_joint_proof(survey, block) for block in survey.blocks.values()]
    public = tuple(name for name, a in survey.attributes.items() if a.is_public)
    missing = tuple(
        f"{name}: no response is at most {shown_epsilon(max(no_response(survey, name).values()))} "
        "from any value"
        for name, attribute in survey.attributes.items()
        if attribute.optional is not None
    )
    return Certificate(
        survey.fingerprint,
        tuple(proofs),
        public,
        weak_guarantees(survey),
        missing,
        survey_epsilon(survey),
        survey.metric.p,
    )


def _implies(survey: Agreement, name: str) -> bool:
    """Whether the metric kept on the grid implies the attribute's promised one, under Lp.

    The kept distances are compared with the attribute's own, shrunk by the share of an Lp metric;
    of a value that is rounded at random, e^kept with 1 + e. Nothing is taken from where the channel
    was built.
    """
    attribute, kept = survey.attributes[name], survey.kept[name]
    promised = attribute.distances.scaled(survey.share)
    if not survey.metric.proves(survey.share, survey.parts):
        return False
    implies = kept.keeps_between if attribute.rounded_at_random else kept.within
    return implies(promised, attribute.size)


def _joint_proof(survey: Agreement, block: Block) -> Proof:
    """The worst pair of people of each kind, held against what the block keeps for them.

    That must be at most their distance in the plane, which no norm with p up to 2 is below; or, of
    a channel that treats all people alike, at most the smallest distance of any attribute. Where
    distances add up, single steps stand for all pairs, and what is kept for one attribute alone
    must be within its distances.
    """
    described = [survey.attributes[name] for name in block.names]
    again = block.mechanism.about({n: survey.attributes[n] for n in block.names}, survey.share)
    if again.grid is not None:
        return _cells_proof(survey, block, again.grid)
    promised = [attribute.distances.scaled(survey.share) for attribute in described]
    nearest = min(m.smallest(size) for m, size in zip(promised, block.sizes, strict=True))
    pairs, people = [], []
    proves = survey.metric.proves(survey.share, survey.parts)
    proves &= survey.metric.p <= block.mechanism.largest_norm
    if block.mechanism.adds_up:
        margins = block.mechanism.margins(block.sizes, promised)
        kept = zip(margins, promised, block.sizes, strict=True)
        proves &= all(margin.within(metric, size) for margin, metric, size in kept)
    for place, (x, other, ratio) in enumerate(block.channel.worst_pairs()):
        allowed = block.mechanism.distance(block.sizes, promised, x, other)
        pairs.append(Pair(place, place, allowed, ratio, at_most_exp(ratio, allowed)))
        people.append((x, other))
        apart = [m.distance(*ends) for m, *ends in zip(promised, x, other, strict=True)]
        alike = block.channel.same_ratio_for_all_pairs
        proves &= allowed**2 <= (nearest**2 if alike else sum(length**2 for length in apart))
    labels = _labels(survey, block, people[tightest(tuple(pairs)).x])
    count, name = math.comb(math.prod(block.sizes), 2), ", ".join(block.names)
    return Proof(name, block.mechanism.name, tuple(pairs), count, labels, proves)


def _labels(
    survey: Agreement, block: Block, people: tuple[tuple[int, ...], tuple[int, ...]]
) -> tuple[str, str]:
    described = [survey.attributes[name] for name in block.names]
    first, second = (
        ", ".join(a.label(at) for a, at in zip(described, person, strict=True)) for person in people
    )
    return first, second


def _cells_proof(survey: Agreement, block: Block, promised: Grid) -> Proof:
    """The generating pairs of the metric on cells, which is made again from the attributes.

    It is at most the sum of the distances of the attributes, or the root of their squares: a norm
    with p up to 1 or 2 promises no less. Of pairs at the largest distance, of which a cap makes
    very many, the ratio of the highest and the deepest level is proof at once where it is within.
    """
    holds, pairs, seen = cache(at_most_exp), list[Pair](), False
    wide, farthest = block.channel.widest_ratio(), promised.diameter(math.prod(block.sizes))
    below = wide is not None and holds(wide, farthest)
    for x, other in block.channel.proving_pairs(promised):
        allowed = promised.distance(x, other)
        if below and allowed == farthest:
            assert wide is not None
            if not seen:
                pairs.append(Pair(x, other, allowed, wide, holds=True))
            seen = True
            continue
        ratio = block.channel.worst_ratio(promised.cell(x), promised.cell(other))
        pairs.append(Pair(x, other, allowed, ratio, holds(ratio, allowed)))
    proves = survey.metric.proves(survey.share, survey.parts)
    proves &= survey.metric.p <= (2 if promised.straight else 1)
    near = tightest(tuple(pairs))
    labels = _labels(survey, block, (promised.cell(near.x), promised.cell(near.other)))
    count, name = promised.generating_count(math.prod(block.sizes)), ", ".join(block.names)
    return Proof(name, block.mechanism.name, tuple(pairs), count, labels, proves)


def prove(channel: Channel, metric: Metric) -> tuple[Pair, ...]:
    """The exact worst ratio of every pair that has to be looked at, held against e^E."""
    holds = cache(at_most_exp)
    found = []
    for x, other in channel.proving_pairs(metric):
        allowed = metric.distance(x, other)
        try:
            ratio = channel.worst_ratio(x, other)
        except CertificateError:  # a report comes from one of the two only
            found.append(Pair(x, other, allowed, _CERTAIN, False))
            continue
        found.append(Pair(x, other, allowed, ratio, holds(ratio, allowed)))
    return tuple(found)


def prove_plain(channel: Channel, metric: Metric) -> Pair | None:
    """The farthest pair of a channel that treats all alike, held against the smallest distance.

    Nothing where the channel does not, or the metric treats all pairs alike itself.
    """
    allowed = metric.smallest(channel.size)
    if not channel.same_ratio_for_all_pairs or metric.diameter(channel.size) == allowed:
        return None
    x, other = metric.farthest(channel.size)
    ratio = channel.worst_ratio(x, other)
    return Pair(x, other, allowed, ratio, at_most_exp(ratio, allowed))


def tightest(pairs: tuple[Pair, ...]) -> Pair:
    """The first pair with the least room, up to rounding; a broken one comes before all others."""
    listed = [pair for pair in pairs if not pair.holds] or pairs
    rooms = [float(pair.allowed) - pair.loss for pair in listed]
    least = min(rooms) + _SAME
    return next(pair for pair, room in zip(listed, rooms, strict=True) if room <= least)
