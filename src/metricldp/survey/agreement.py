"""The agreement of a survey: what its people and its collector both know, as pure data.

`metricldp.Survey` adds methods: randomize, report, tally, expected_error, certify, explain.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from metricldp.attributes.answered import Answered, response_of
from metricldp.attributes.base import Attribute
from metricldp.attributes.kinds import from_dict
from metricldp.basics.checks import is_line, refuse_unknown
from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.progress import Progress, part_of, silent
from metricldp.basics.text import guess, listed, shown
from metricldp.mechanisms import registry
from metricldp.mechanisms.base import Mechanism, Problem
from metricldp.mechanisms.channel import Channel
from metricldp.mechanisms.effort import DEFAULT, Effort
from metricldp.mechanisms.extremal_search import BestMixture
from metricldp.mechanisms.fields import Clear, Field
from metricldp.mechanisms.memoised_channel import MemoisedChannel
from metricldp.metrics import Lp, Metric
from metricldp.survey import files
from metricldp.survey.blocks import USUAL, Block, Group, blocks_of, distributions_of
from metricldp.survey.design import (
    DESIGN_IT,
    check_designed,
    distribution_from,
    randomized,
)
from metricldp_core import manifest as core
from metricldp_core.canonical import canonical
from metricldp_core.distributions import SUPPORTED, Distribution
from metricldp_core.manifest import FORMAT, Manifest
from metricldp_core.verify import certify_steps, prove

MOST_VERIFIED = 1 << 20
"""Steps of a proof that runs when a survey is loaded; longer ones wait for the first report."""
MOST_ATTRIBUTES = 1000
"""More than a person would be asked, and than is read in a moment."""
SHORTEST_FINGERPRINT = 32
"""Hexadecimal digits, 128 bits: two surveys that share fewer can be made on purpose."""


class Agreement:
    """Several attributes of different kinds, each with its metric, mechanism and channel."""

    attributes: Mapping[str, Attribute]
    """The attributes by name, each with its mechanism fixed."""

    def __init__(
        self,
        attributes: Mapping[str, Attribute],
        *,
        metric: Lp | None = None,
        joint: Any = None,
        stored: Mapping[str, Distribution] | None = None,
        presentation: Mapping[str, Any] | None = None,
        effort: Effort = DEFAULT,
        progress: Progress = silent,
    ) -> None:
        check_attributes(attributes)
        stored = stored or {}
        self.presentation: Mapping[str, Any] = checked_presentation(
            {} if presentation is None else presentation, attributes
        )
        """Titles, texts of questions and long labels, by language; not part of the fingerprint."""
        attributes = _with_answered(attributes)
        self.metric = Lp() if metric is None else metric
        if not isinstance(self.metric, Lp):
            raise InvalidSpecError(f"a survey's metric is Lp(p), not {shown(metric)}")
        groups = blocks_of(joint, attributes)
        names_of = {name: names for names in groups for name in names}
        alone = [n for n, a in attributes.items() if not a.is_public and n not in names_of]
        self.parts = len(alone) + len(groups)
        """How many parts of a report are randomized independently."""
        self.share = self.metric.share(self.parts)
        """The part of each distance that the norm over several attributes leaves."""
        if not self.parts:
            raise InvalidSpecError("a survey needs at least one attribute that is randomized")
        # The mechanisms as they are stated, before a choice.
        self.stated: Mapping[str, Any] = {name: a.mechanism for name, a in attributes.items()}
        joined = list(dict.fromkeys(names_of[name] for name in attributes if name in names_of))
        blocks = {
            "+".join(names): Block.of(
                groups[names],
                {name: attributes[name] for name in names},
                self.share,
                self.metric,
                stored.get("+".join(names)),
                effort,
                part_of(progress, number, self.parts),
            )
            for number, names in enumerate(joined)
        }
        single = {
            name: randomized(
                name,
                attributes[name],
                self.share,
                stored.get(name),
                effort,
                part_of(progress, number, self.parts),
            )
            for number, name in enumerate(alone, len(joined))
        }
        final = {name: found.attribute for name, found in single.items()}
        self.attributes = MappingProxyType({**attributes, **final})
        self.channels: Mapping[str, Channel] = MappingProxyType(
            {name: found.channel for name, found in single.items()}
        )
        """The channels of attributes that are randomized alone."""
        self.blocks: Mapping[str, Block] = MappingProxyType(blocks)
        """Attributes that are randomized together, by their names joined with +."""
        self.problems: Mapping[str, Problem] = MappingProxyType(
            {name: found.problem for name, found in single.items()}
        )
        """For each attribute that is randomized alone, what its mechanism was designed for."""
        searches: dict[str, BestMixture | None] = {n: found.search for n, found in single.items()}
        searches |= {name: block.search for name, block in blocks.items()}
        self.searches: Mapping[str, BestMixture | None] = MappingProxyType(searches)
        """How searches for extremal mixtures ended, if the design ran any."""

    @cached_property
    def fields(self) -> Mapping[str, Field]:
        """The columns of a report."""
        fields: dict[str, Field] = {}
        for name, attribute in self.attributes.items():
            if attribute.public_ends is not None:
                fields[name] = Clear(*attribute.public_ends)
            elif name in self.channels:
                fields[name] = self.channels[name].field
            else:
                fields |= self._block_of[name].fields
        return MappingProxyType(fields)

    @property
    def asked(self) -> dict[str, Attribute]:
        """What a person is asked for: all but whether something was answered."""
        return {name: a for name, a in self.attributes.items() if not a.asks_whether}

    def block_of(self, name: str) -> Block | None:
        """The block that an attribute is blurred in, if it is in one."""
        return self._block_of.get(name) if isinstance(name, str) else None

    @cached_property
    def _block_of(self) -> dict[str, Block]:
        return {name: block for block in self.blocks.values() for name in block.names}

    @cached_property
    def tabled(self) -> Mapping[str, Channel]:
        """What reports can be counted by: attributes, and then blocks of one integer each."""
        blocks = ((name, block.channel.one) for name, block in self.blocks.items())
        return MappingProxyType({**self.channels, **{name: one for name, one in blocks if one}})

    @cached_property
    def mechanisms(self) -> Mapping[str, Mechanism]:
        """What blurs each attribute, with its saved data."""
        alone = {name: self.attributes[name].mechanism for name in self.channels}
        joint = {n: block.mechanism for block in self.blocks.values() for n in block.names}
        return MappingProxyType(alone | joint)

    def proved_metric(self, name: str) -> Metric:
        """What the distribution of an attribute guarantees: its part of the metric, or more."""
        if (block := self.block_of(name)) is not None:
            return block.margin(name)
        metric = self.attributes[name].distances.scaled(self.share)
        return self.mechanisms[name].proved_metric(metric, self.channels[name].distribution)

    def one_report(self, name: str) -> Metric | None:
        """What one report guarantees, if that is more than all reports of a value together."""
        if name not in self.channels:
            return None
        distribution = self.channels[name].distribution
        return self.mechanisms[name].one_report(self.problems[name], distribution)

    @property
    def distributions(self) -> dict[str, Distribution]:
        """The distributions that a survey file contains, by attribute or group."""
        alone = {name: channel.distribution for name, channel in self.channels.items()}
        stored = {name: each for name, each in alone.items() if each.kind in SUPPORTED}
        return stored | distributions_of(self.blocks.values())

    @property
    def report_bits(self) -> int:
        """The content of one report, without its header."""
        return sum(field.bits for field in self.fields.values())

    # As data -------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain data; what "auto" took and all that mechanisms save is written out."""
        data: dict[str, Any] = {"metricldp": FORMAT}
        if self.metric != Lp():
            data["norm"] = self.metric.to_dict()
        data["attributes"] = {name: self._entry(name) for name in self.asked}
        if self.blocks:
            data["groups"] = {name: block.to_dict() for name, block in self.blocks.items()}
        if self.presentation:
            data["presentation"] = dict(self.presentation)
        return data

    def _entry(self, name: str) -> dict[str, Any]:
        attribute = self.attributes[name]
        entry = attribute.to_dict()
        metric = entry.pop("metric", None)
        if metric is not None:
            entry["metric"] = metric
        if name not in self.channels:
            return entry
        stored = self.channels[name].distribution
        entry["mechanism"] = self.mechanisms[name].to_dict()
        if stored.kind in SUPPORTED:
            entry["distribution"] = stored.to_data()
        if attribute.optional is not None:
            entry["response"] = self.channels[response_of(name)].distribution.to_data()
        return entry

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The survey of a file. Nothing is searched: what a search finds has to be there."""
        if not isinstance(data, Mapping):
            raise InvalidSpecError(f"a survey file is an object, not a {type(data).__name__}")
        version = data.get("metricldp")
        if version is None and "attributes" in data:
            raise InvalidSpecError(
                "this is a spec, not a designed survey; design it first: Survey.design(spec), "
                "metricldp design"
            )
        if type(version) is not int or version != FORMAT:
            said = "and it is missing" if version is None else f"not {shown(version)}"
            raise InvalidSpecError(f"a survey file has metricldp = {FORMAT}, {said}")
        refuse_unknown("a survey", data, _KEYS)
        tables, groups = attribute_tables(data), _groups(data.get("groups", {}))
        stored: dict[str, Distribution] = {}
        attributes: dict[str, Attribute] = {}
        grouped = {name for names in groups for name in names}
        for name, table in tables.items():
            entry = dict(table)
            numbers = entry.pop("distribution", None), entry.pop("response", None)
            attributes[name] = attribute = from_dict(entry, name)
            place = f"attribute {name}: distribution"
            if numbers[0] is not None:
                if attribute.is_public or name in grouped or attribute.undecided:
                    raise InvalidSpecError(f"{place}: leave it out, {_ITS_PLACE}")
                stored[name] = distribution_from(numbers[0], attribute.size, place)
            elif not attribute.is_public and name not in grouped:
                check_designed(name, attribute)
            if (numbers[1] is None) != (attribute.optional is None):
                raise InvalidSpecError(f"attribute {name} has response if it is optional, else not")
            if numbers[1] is not None:
                stored[response_of(name)] = distribution_from(numbers[1], 2, place)
        joint = {}
        for names, group in groups.items():
            joint[names], place = group.get("mechanism", USUAL), f"group {'+'.join(names)}"
            if [n for n in attributes if n in names] != list(names):
                raise InvalidSpecError(
                    f"{place} names attributes of the survey in their order: {listed(attributes)}"
                )
            if "distribution" in group:
                size = math.prod(attributes[n].size for n in names)
                stored["+".join(names)] = distribution_from(
                    group["distribution"], size, f"{place}: distribution"
                )
            elif Group.of(joint[names]).mechanism.name in registry.BUILT_IN:
                raise InvalidSpecError(f"{place} is not designed; {DESIGN_IT}")
        norm = data.get("norm")
        survey = cls.fixed(
            attributes,
            metric=None if norm is None else Lp.from_dict(norm, "norm"),
            joint=joint,
            stored=stored,
            presentation=data.get("presentation"),
        )
        if survey._steps <= MOST_VERIFIED:
            survey._check_guarantee()
        return survey

    @cached_property
    def _violation(self) -> str:
        """The first field whose integers break its metric, with its losses; empty if none does."""
        from metricldp.survey.certify import one_report

        for field in self.client_manifest.fields:
            distribution, metric = field.distribution, field.metric
            if distribution is None or metric is None or distribution.kind not in SUPPORTED:
                continue  # `certify` examines baselines
            metric = metric.between_points() if field.stochastic else metric
            proof = prove(field.name, distribution, metric)
            if not proof.holds:
                loss, allowed = proof.tightest.loss, proof.tightest.limit.allowed
                return f"{field.name} has a privacy loss of {loss:.9g}, allowed {allowed:.9g}"
        for name in self.channels:
            pair = one_report(self, name)
            if pair is not None and not pair.holds:
                loss, allowed = pair.loss, pair.limit.allowed
                return f"one report of {name} has a loss of {loss:.9g}, allowed {allowed:.9g}"
        return ""

    @property
    def _steps(self) -> int:
        """About how many elementary steps the proof takes, that of single reports included."""
        memoised = [c.size for c in self.channels.values() if isinstance(c, MemoisedChannel)]
        return certify_steps(self.client_manifest) + sum(size**3 >> 4 for size in memoised)

    def _check_guarantee(self) -> None:
        """Raise an error if the integers of the survey break its guarantee; examined once."""
        if self._violation:
            raise InvalidSpecError(
                f"the integers of the survey break its guarantee: {self._violation}; "
                "use the file as it was designed"
            )

    @classmethod
    def fixed(cls, attributes: Mapping[str, Attribute], **more: Any) -> Self:
        """The survey of these attributes; what mechanisms leave open is searched for."""
        survey = cls.__new__(cls)
        Agreement.__init__(survey, attributes, **more)
        return survey

    def to_toml(self) -> str:
        """The survey as a TOML file, the form for people."""
        return files.to_toml(self.to_dict())

    @classmethod
    def from_toml(cls, text: str) -> Self:
        return cls.from_dict(files.from_toml(text))

    def to_json(self) -> str:
        """The survey as JSON, the form for programs."""
        return files.to_json(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls.from_dict(files.from_json(text))

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a .toml or .json file."""
        files.write(self.to_dict(), path, "survey", overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path, *, fingerprint: str | None = None) -> Self:
        """Read a .toml or .json file; with a fingerprint, only the survey that has it.

        On a device, always state the published fingerprint. Otherwise a distributor could give
        each device its own survey and recognize its reports.
        """
        data = files.read(path, "survey")
        try:
            survey = cls.from_dict(data)
            if fingerprint is not None:
                survey.verify(fingerprint)
        except InvalidSpecError as wrong:
            raise files.in_file(path, wrong) from None
        return survey

    # Its mark ------------------------------------------------------------------------------------

    @cached_property
    def client_manifest(self) -> Manifest:
        """All that a device needs: domains, metrics and output distributions as integers."""
        found: list[core.Field] = []
        for name, attribute in self.attributes.items():
            block = self.block_of(name)
            if block is None:
                found.append(self._field(name, attribute))
            elif name == block.names[0]:
                found.append(block.core_field({n: self.attributes[n] for n in block.names}))
        return Manifest(tuple(found))

    def _field(self, name: str, attribute: Attribute) -> core.Field:
        domain = attribute.domain_of(attribute.source(name))
        if attribute.is_public:
            return core.Field((domain,))
        metric = attribute.distances.scaled(self.share).to_core(attribute.size)
        return core.Field((domain,), metric, self.channels[name].distribution)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the manifest: equal for surveys with the same devices."""
        return self.client_manifest.fingerprint

    @cached_property
    def presentation_digest(self) -> str:
        """SHA-256 of the presentation as canonical JSON; the fingerprint does not cover it."""
        return hashlib.sha256(canonical(self.presentation).encode("utf-8")).hexdigest()

    def verify(self, fingerprint: str) -> None:
        """Raise an error unless this is the survey that was published with this fingerprint."""
        said = fingerprint.strip().lower() if isinstance(fingerprint, str) else ""
        if len(said) < SHORTEST_FINGERPRINT or set(said) - set("0123456789abcdef"):
            raise InvalidSpecError(
                f"a fingerprint is at least {SHORTEST_FINGERPRINT} hexadecimal digits, "
                f"not {shown(fingerprint)}"
            )
        if not self.fingerprint.startswith(said):
            raise InvalidSpecError(
                f"this is survey {self.fingerprint}, not {fingerprint.strip()}; do not report to it"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Agreement) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_dict, (self.to_dict(),)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.fingerprint[:16]} of {listed(self.asked)}>"


_KEYS = ("metricldp", "norm", "attributes", "groups", "presentation")


def attribute_tables(data: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The tables [attributes.NAME] of a file."""
    attributes = data.get("attributes")
    if not isinstance(attributes, Mapping) or not attributes:
        raise InvalidSpecError("a table [attributes.NAME] is needed for each attribute")
    for name, entry in attributes.items():
        if not isinstance(entry, Mapping):
            raise InvalidSpecError(f"attribute {name} must be a table, not {shown(entry)}")
    return dict(attributes)


def _groups(groups: Any) -> dict[tuple[str, ...], Mapping[str, Any]]:
    """The tables [groups."x+y"], by the names of their attributes."""
    if not isinstance(groups, Mapping):
        raise InvalidSpecError(f'groups is a table [groups."x+y"], not {shown(groups)}')
    found = {}
    for name, entry in groups.items():
        if not isinstance(entry, Mapping) or not isinstance(name, str) or "+" not in name:
            raise InvalidSpecError(
                f'a table [groups."x+y"] names its attributes, not {shown(name)}'
            )
        refuse_unknown(f"group {name}", entry, ("mechanism", "distribution"))
        found[tuple(name.split("+"))] = entry
    return found


def checked_presentation(
    presentation: Any, attributes: Mapping[str, Attribute]
) -> Mapping[str, Any]:
    """Texts by language and attribute; no text about the guarantee is read from them."""
    if not isinstance(presentation, Mapping):
        raise InvalidSpecError(f"presentation is a table of languages, not {shown(presentation)}")
    for language, texts in presentation.items():
        if not is_line(language):
            raise InvalidSpecError(f"a language is a line of text, not {shown(language)}")
        if not isinstance(texts, Mapping) or not all(
            isinstance(t, Mapping) for t in texts.values()
        ):
            raise InvalidSpecError(
                f"[presentation.{language}] has a table of texts for each attribute"
            )
        for name, entry in texts.items():
            if name not in attributes:
                there = f"{listed(attributes)}{guess(name, attributes)}"
                raise InvalidSpecError(f"[presentation.{language}] has {shown(name)}, not {there}")
            refuse_unknown(f"[presentation.{language}.{name}]", entry, ("title", "text", "labels"))
            labels = entry.get("labels", {})
            texts_of = [entry.get("title", ""), entry.get("text", "")]
            texts_of += [*labels, *labels.values()] if isinstance(labels, Mapping) else [None]
            if not all(isinstance(text, str) and not _SURROGATE.search(text) for text in texts_of):
                raise InvalidSpecError(f"[presentation.{language}.{name}] has texts only")
    return MappingProxyType(dict(presentation))


_ITS_PLACE = "which belongs to private attributes that are randomized alone"
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a pair, which is not a character and not in UTF-8."""


def _with_answered(attributes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """Behind every attribute that is optional, whether it was answered."""
    found: dict[str, Attribute] = {}
    for name, attribute in attributes.items():
        found[name] = attribute
        if attribute.optional is not None:
            try:
                found[response_of(name)] = Answered.about(name, attribute)
            except InvalidSpecError as wrong:
                raise InvalidSpecError(f"attribute {name}: as optional, {wrong}") from None
    return found


def check_attributes(attributes: Any) -> None:
    """Reject what is not a dict of named attributes."""
    if not isinstance(attributes, Mapping) or not attributes:
        raise InvalidSpecError("a survey needs a dict of at least one attribute by name")
    if len(attributes) > MOST_ATTRIBUTES:
        raise InvalidSpecError(
            f"{len(attributes):,} attributes are too many for one survey; "
            f"use at most {MOST_ATTRIBUTES:,}"
        )
    for name, attribute in attributes.items():
        if not is_line(name) or "=" in name:
            raise InvalidSpecError(
                "an attribute's name must be a non-empty line of text without '=', "
                f"not {shown(name)}"
            )
        if not isinstance(attribute, Attribute):
            raise InvalidSpecError(
                f"attribute {name} must be an Integer, Continuous, Ordinal, Categorical or "
                f"Weight, not {shown(attribute)}"
            )
