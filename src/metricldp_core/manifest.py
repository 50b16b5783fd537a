"""Manifests: all that a device needs of a survey, as one line of canonical JSON.

A manifest lists the fields of a report. A field has the domains of one attribute, or of several
that are randomized jointly, the metric that it guarantees and the output distribution that draws
it, as integers. The fingerprint of a survey is the SHA-256 of its manifest, so an app that states
the fingerprint accepts no other. A manifest has no text about the guarantee: `guarantee` writes it
from the numbers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from math import prod

from metricldp_core import levels  # noqa: F401 - registers its distributions
from metricldp_core.canonical import Entry, is_canonical, parsed
from metricldp_core.distributions import MOST_BITS, SUPPORTED, Distribution
from metricldp_core.errors import InvalidManifestError
from metricldp_core.metrics import KINDS, Grid, Line, Metric, Uniform
from metricldp_core.random_words import Words
from metricldp_core.values import Domain, PublicWeight, Response, read_domain

FORMAT = 1
LONGEST_MANIFEST = 1 << 23
MOST_ATTRIBUTES = 1000


@dataclass(frozen=True)
class Field:
    """One part of a report."""

    domains: tuple[Domain, ...]
    metric: Metric | None = None
    distribution: Distribution | None = None
    """None for a public weight."""

    @property
    def name(self) -> str:
        names = "+".join(domain.name for domain in self.domains)
        return f"{names}=response" if isinstance(self.domains[0], Response) else names

    @property
    def bits(self) -> int:
        return 64 if self.distribution is None else self.distribution.bits

    @property
    def stochastic(self) -> bool:
        """Whether positions are rounded at random."""
        return self.domains[0].stochastic

    @property
    def point_metric(self) -> Metric | None:
        """What positions must keep: more than the metric if values are rounded to them."""
        return self.metric.between_points() if self.metric and self.stochastic else self.metric

    def position(self, positions: list[int]) -> int:
        """The position of the field from those of its attributes: cells are flattened."""
        found = positions[0]
        for domain, position in zip(self.domains[1:], positions[1:], strict=True):
            found = found * domain.size + position
        return found

    def draw(self, position: int, words: Words) -> int:
        """Randomize a position; a public weight is sent as it is."""
        if self.distribution is None:
            return position
        return self.distribution.draw(words.round(position) if self.stochastic else position, words)

    def is_possible(self, report: int) -> bool:
        """Whether an integer of `bits` bits can be this part of a report."""
        if self.distribution is not None:
            return self.distribution.is_possible(report)
        domain = self.domains[0]
        assert isinstance(domain, PublicWeight)
        return domain.is_possible(report)


@dataclass(frozen=True)
class Manifest:
    """The fields of a report, in order."""

    fields: tuple[Field, ...]
    text: str
    """The manifest as canonical JSON."""

    @classmethod
    def parse(cls, text: str) -> Manifest:
        """Read a manifest; whatever is unknown, missing or too large raises an error."""
        if len(text) > LONGEST_MANIFEST:
            raise InvalidManifestError(
                f"the manifest has more than {LONGEST_MANIFEST:,} characters"
            )
        data = parsed(text)
        top = Entry(data, "manifest")
        if top.whole("metricldp", 0, 1 << 53) != FORMAT:
            top.reject(f"has another format than {FORMAT}")
        fields, bits = list[Field](), 0
        for k, each in enumerate(top.list("fields", 1, 2 * MOST_ATTRIBUTES)):
            fields.append(_field(Entry(each, f"fields[{k}]", top)))
            bits += fields[-1].bits
            if bits > MOST_BITS:
                top.reject(f"has reports of more than {MOST_BITS // 8:,} bytes")
        top.done()
        found = cls(tuple(fields), text)
        found._check(top)
        if not is_canonical(text, data):
            top.reject("is not in canonical form")
        return found

    def _check(self, top: Entry) -> None:
        """Check what concerns several fields."""
        asked = [domain.name for domain in self.domains if not isinstance(domain, Response)]
        optional = [domain.name for domain in self.domains if domain.optional]
        responses = [domain.name for domain in self.domains if isinstance(domain, Response)]
        fields = {field.name for field in self.fields}
        if len(set(asked)) < len(asked) or len(fields) < len(self.fields):
            top.reject("needs different names")
        if sorted(optional) != sorted(responses):
            top.reject("needs one response field for each optional attribute")
        if len(asked) > MOST_ATTRIBUTES or all(f.distribution is None for f in self.fields):
            top.reject(f"needs 1 to {MOST_ATTRIBUTES:,} attributes, one of them private")

    @cached_property
    def domains(self) -> list[Domain]:
        """The domains of all fields, in order."""
        return [domain for field in self.fields for domain in field.domains]

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the text, in hexadecimal digits."""
        return hashlib.sha256(self.text.encode("utf-8")).hexdigest()


def _field(entry: Entry) -> Field:
    attributes = entry.list("attributes", 1, 8)
    domains = []
    for k, data in enumerate(attributes):
        of = Entry(data, f"{entry.path}.attributes[{k}]", entry)
        domains.append(read_domain(of))
        of.done()
    if isinstance(domains[0], PublicWeight) and len(domains) == 1:
        entry.done()
        return Field(tuple(domains))
    size = prod(domain.size for domain in domains)
    if len(domains) > 1 and any(not _can_be_joint(domain) for domain in domains):
        entry.reject("has attributes that cannot be randomized jointly")
    distribution = entry.entry("distribution").one_of(SUPPORTED)
    if distribution.size != size:
        entry.reject(f"has a distribution of {distribution.size:,} positions, needs {size:,}")
    metric = entry.entry("metric").one_of(KINDS, size)
    if not _fits(metric, domains):
        entry.reject("has a metric that does not fit its attributes")
    entry.done()
    return Field(tuple(domains), metric, distribution)


def _fits(metric: Metric, domains: list[Domain]) -> bool:
    """Whether a metric on positions is one on the values of these attributes.

    `between_points` and the sentences about the guarantee rely on it.
    """
    if isinstance(metric, Uniform):
        return True
    if len(domains) > 1 or isinstance(metric, Grid):
        return len(domains) > 1 and metric.grid == tuple(domain.size for domain in domains)
    if isinstance(metric, Line):
        return metric.ring == getattr(domains[0], "cyclic", False)
    return not domains[0].stochastic


def _can_be_joint(domain: Domain) -> bool:
    special = isinstance(domain, Response | PublicWeight) or domain.stochastic or domain.optional
    return not special and domain.kind != "weight"
