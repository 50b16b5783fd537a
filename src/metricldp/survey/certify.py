"""Certificates: the proof of the core for the integers of a survey, in the data's words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np

from metricldp.attributes.answered import label, response_of
from metricldp.basics import markup, text
from metricldp.mechanisms.memoised_channel import MemoisedChannel
from metricldp.metrics import Metric
from metricldp.metrics.grid import root_below
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import Block
from metricldp.survey.explain import (
    no_response,
    shown_epsilon,
    survey_epsilon,
    weak_guarantees,
)
from metricldp_core import verify
from metricldp_core.metrics import Limit

Cell = tuple[int, ...]
"""A position of each attribute of a group."""


@dataclass(frozen=True)
class Proof:
    """The generating pairs of one attribute or group, with the tightest in the data's words."""

    attribute: str
    mechanism: str
    core: verify.Proof
    labels: tuple[str, str]
    one_report: verify.Pair | None = None
    """Of a memoised response, whose pairs are compared with what all reports of a value guarantee
    together: the tightest pair of a single report."""

    @property
    def holds(self) -> bool:
        """Whether every pair is within its distance."""
        return self.core.holds and (self.one_report is None or self.one_report.holds)

    @property
    def count(self) -> int:
        return self.core.count

    @property
    def tightest(self) -> verify.Pair:
        """The pair that comes nearest to its limit, or furthest over it."""
        return self.core.tightest


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
    norm_holds: bool = True
    """Whether the distances of the fields give the norm over attributes."""

    @property
    def holds(self) -> bool:
        """Whether every pair of values of every attribute is within its distance."""
        return self.norm_holds and all(proof.holds for proof in self.proofs)

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
                    "allowed": proof.tightest.limit.allowed,
                    "holds": proof.holds,
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
            numbers = f"{proof.tightest.loss:.9g}", f"{proof.tightest.limit.allowed:.9g}"
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
        plain = [_one_line(p.attribute, p.one_report) for p in self.proofs if p.one_report]
        weak = [f"warning: {line}" for line in self.warnings]
        return [*plain, *open_ones, *self.missing, pairs, total, verdict, *weak]


def _one_line(name: str, pair: verify.Pair) -> str:
    loss, allowed = f"{pair.loss:.9g}", f"{pair.limit.allowed:.9g}"
    return (
        f"{name}: all reports of one value from one memory together; a single report has a loss "
        f"of {loss}, allowed {allowed}: {_verdict(pair)}"
    )


def _verdict(proved: verify.Pair | Proof) -> str:
    return "holds" if proved.holds else "BROKEN"


def _plain_data(pair: verify.Pair | None) -> dict[str, Any] | None:
    if pair is None:
        return None
    return {"loss": pair.loss, "allowed": pair.limit.allowed, "holds": pair.holds}


def certify(survey: Agreement) -> Certificate:
    """Compare the likelihood ratios of the integers in use with the metrics of the survey.

    The core examines the manifest that devices use. Under an Lp norm with p above 1 the manifest
    has distances times a share, and that the share gives the norm is checked here.
    """
    proofs = []
    for field in survey.client_manifest.fields:
        if field.metric is None or field.distribution is None:
            continue
        metric = field.metric.between_points() if field.stochastic else field.metric
        names = field.name.split("+") if field.name in survey.blocks else [field.name]
        names = [response_of(field.domains[0].name)] if field.name.endswith("=response") else names
        if field.name in survey.blocks and survey.blocks[field.name].grid is None:
            proof = _baseline_proof(survey, survey.blocks[field.name])
        else:
            proof = verify.prove(field.name, field.distribution, metric)
        near = proof.tightest
        labels = tuple(_label(survey, names, position) for position in (near.x, near.other))
        one = one_report(survey, field.name) if len(names) == 1 else None
        mechanism = survey.mechanisms[names[0]].name
        name = ", ".join(names)
        proofs.append(Proof(name, mechanism, proof, (labels[0], labels[1]), one))
    public = tuple(name for name, a in survey.attributes.items() if a.is_public)
    missing = tuple(
        f"{name}: no response is at most {shown_epsilon(no_response(survey, name))} from any value"
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
        survey.metric.proves(survey.share, survey.parts),
    )


def _label(survey: Agreement, names: Sequence[str], position: int) -> str:
    """A position, or a cell of several attributes, in the data's words."""
    parts = []
    for name in reversed(names):
        position, x = divmod(position, survey.attributes[name].size)
        parts.append(survey.attributes[name].label(x))
    return ", ".join(reversed(parts))


def one_report(survey: Agreement, name: str) -> verify.Pair | None:
    """The tightest pair of a single report, if all reports of a value together guarantee less."""
    channel, alone = survey.channels.get(name), survey.one_report(name)
    if not isinstance(channel, MemoisedChannel) or alone is None:
        return None
    metric = alone.to_core(channel.size)
    # Pairs that are equivalent for the first randomization need not be so for a report.
    alike = channel.report_invariance == "all"
    pairs = []
    for x, other in [metric.smallest()] if alike else metric.generating_pairs():
        limit, ratio = metric.limit(x, other), channel.report_ratio(x, other)
        pairs.append(verify.Pair(x, other, limit, ratio, limit.allows(ratio)))
    return verify.Proof(name, "", tuple(pairs), len(pairs)).tightest


def _baseline_proof(survey: Agreement, block: Block) -> verify.Proof:
    """The worst pairs of respondents of a joint baseline without a metric on cells.

    A pair is compared with the distance that the baseline states, or with what the attributes imply
    if that is less.
    """
    sizes, alike = block.sizes, block.channel.distribution.invariance == "all"
    metrics = [survey.attributes[name].distances.scaled(survey.share) for name in block.names]
    if alike:
        cells = (0,) * len(sizes), tuple(size - 1 for size in sizes)
        worst = [(*cells, block.channel.distribution.largest_ratio())]
    else:
        worst = cast(Any, block.channel).worst_pairs()
    pairs = []
    for x, other, ratio in worst:
        if alike:
            implied = min(m.smallest(size) for m, size in zip(metrics, sizes, strict=True))
        else:
            implied = _implied(block, metrics, x, other)
        first, second = (int(np.ravel_multi_index(cell, sizes)) for cell in (x, other))
        limit = Limit(min(implied, block.metric.distance(first, second)))
        pairs.append(verify.Pair(first, second, limit, ratio, limit.allows(ratio)))
    return verify.Proof(
        block.name, block.mechanism.name, tuple(pairs), math.comb(math.prod(sizes), 2)
    )


def _implied(block: Block, metrics: Sequence[Metric], x: Cell, other: Cell) -> Fraction:
    """The sum of the distances along each attribute, or the root of the sum of their squares.

    For sums, pairs are single steps, so the distances are those of the steepest line below.
    """
    if block.largest_norm == 1:
        steps = [m.per_step(size) for m, size in zip(metrics, block.sizes, strict=True)]
        return sum((s * abs(a - b) for s, a, b in zip(steps, x, other, strict=True)), Fraction(0))
    apart = [m.distance(a, b) for m, a, b in zip(metrics, x, other, strict=True)]
    return root_below(sum((length**2 for length in apart), Fraction(0)))
