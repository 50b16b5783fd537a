"""The agreement of a survey: what its people and its collector both know, as pure data.

`metricldp.Survey` is this with verbs: encode, report, tally, predict, certify, explain.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from metricldp import channels
from metricldp.attributes.base import Attribute, Discrete, OnLine, Planned
from metricldp.attributes.continuous import AutoBins, Continuous
from metricldp.attributes.kinds import from_dict
from metricldp.attributes.weight import Weight
from metricldp.basics.errors import CertificateError, SurveyError
from metricldp.basics.exact import log_bounds
from metricldp.basics.text import distinct, shown
from metricldp.channels import Channel, Clear, Field, Matrix
from metricldp.design import auto, plans, strategies
from metricldp.metrics import Line, Lp, Metric

FORMAT = 1
"""The version of survey files, fingerprints and reports."""


class Agreement:
    """Several attributes of different kinds, each with its metric and its channel."""

    def __init__(self, attributes: Mapping[str, Attribute], *, metric: Lp | None = None) -> None:
        if not isinstance(attributes, Mapping) or not attributes:
            raise SurveyError("a survey needs a dict of at least one attribute by name")
        self.metric = Lp() if metric is None else metric
        if not isinstance(self.metric, Lp):
            raise SurveyError(f"a survey's metric is Lp(p), not {metric!r}")
        share = self.metric.share(
            sum(not getattr(a, "is_public", False) for a in attributes.values())
        )
        chosen: dict[str, Attribute] = {}
        built: dict[str, Channel] = {}
        kept: dict[str, Metric] = {}
        clear: dict[str, Clear] = {}
        for name, attribute in attributes.items():
            _check_name(name)
            if not isinstance(attribute, Attribute):
                raise SurveyError(
                    f"attribute {name} must be an Integer, Continuous, Real, Ordinal, Categorical "
                    f"or Weight, not {shown(attribute)}"
                )
            if isinstance(attribute, Weight) and attribute.is_public:
                chosen[name] = attribute
                clear[name] = Clear(attribute.low, attribute.high)
                continue
            try:
                chosen[name] = _settle(attribute, share)
                kept[name] = _kept(chosen[name], share)
                built[name] = _channel(chosen[name], kept[name])
            except (CertificateError, SurveyError) as wrong:
                raise SurveyError(f"attribute {name}: {wrong}") from None
        if not built:
            raise SurveyError("a survey needs at least one attribute that is blurred")
        self.attributes: Mapping[str, Attribute] = MappingProxyType(chosen)
        self.channels: Mapping[str, Channel] = MappingProxyType(built)
        self.kept: Mapping[str, Metric] = MappingProxyType(kept)
        self.fields: Mapping[str, Field] = MappingProxyType(
            {name: clear[name] if name in clear else built[name].field for name in chosen}
        )

    # The agreement as a file ---------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain data; the mechanism that "auto" took is written out."""
        data: dict[str, Any] = {"metricldp": FORMAT}
        if self.metric != Lp():
            data["metric"] = {"p": "inf" if self.metric.p == math.inf else self.metric.p}
        data["attributes"] = {name: a.to_dict() for name, a in self.attributes.items()}
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """A survey from plain data, refusing what it does not know."""
        for key in data:
            if key not in ("metricldp", "metric", "attributes"):
                raise SurveyError(f"a survey has no entry {key!r}; it has metricldp and attributes")
        version = data.get("metricldp")
        if type(version) is not int or version != FORMAT:
            raise SurveyError(f"a survey file says metricldp = {FORMAT}, not {shown(version)}")
        attributes = data.get("attributes")
        if not isinstance(attributes, Mapping) or not attributes:
            raise SurveyError("a survey file needs a table [attributes.NAME] for each attribute")
        for name, entry in attributes.items():
            if not isinstance(entry, Mapping):
                raise SurveyError(f"attribute {name} must be a table, not {shown(entry)}")
        found = {name: from_dict(dict(entry), name) for name, entry in attributes.items()}
        return cls(found, metric=_lp(data.get("metric")))

    def to_toml(self) -> str:
        """The survey as a TOML file, the form for people."""
        lines = [f"metricldp = {FORMAT}"]
        if self.metric != Lp():
            lines += ["", "[metric]", f"p = {self.metric.p!r}"]
        for name, attribute in self.attributes.items():
            lines += ["", f"[attributes.{_toml_key(name)}]"]
            entries = attribute.to_dict()
            metric = entries.pop("metric", None)
            lines += [f"{key} = {_toml(value)}" for key, value in entries.items()]
            if metric is not None:
                lines += ["", f"[attributes.{_toml_key(name)}.metric]"]
                lines += [f"{key} = {_toml(value)}" for key, value in metric.items()]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """A survey from the text of a TOML file."""
        try:
            data = tomllib.loads(text)
        except (ValueError, RecursionError) as wrong:
            raise SurveyError(f"not a TOML file: {wrong}") from None
        return cls.from_dict(data)

    def to_json(self) -> str:
        """The survey as JSON, the form for programs."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """A survey from the text of a JSON file."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as wrong:
            raise SurveyError(f"not a JSON file: {wrong}") from None
        if not isinstance(data, dict):
            raise SurveyError(f"a survey file holds an object, not a {type(data).__name__}")
        return cls.from_dict(data)

    def save(self, path: str | Path) -> None:
        """Write a .toml or .json file."""
        path = Path(path)
        text = self.to_json() if path.suffix == ".json" else self.to_toml()
        try:
            path.write_text(text, "utf-8")
        except OSError as wrong:
            raise SurveyError(f"cannot write the survey {path}: {wrong.strerror}") from None

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a .toml or .json file."""
        path = Path(path)
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as wrong:
            why = wrong.strerror if isinstance(wrong, OSError) else "not a text file"
            raise SurveyError(f"cannot read the survey {path}: {why}") from None
        try:
            return cls.from_json(text) if path.suffix == ".json" else cls.from_toml(text)
        except SurveyError as wrong:
            raise SurveyError(f"{path}: {wrong}") from None

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical form: equal exactly for equal agreements."""
        listed: list[Any] = [[name, a.to_dict()] for name, a in self.attributes.items()]
        if self.metric != Lp():
            listed.append(self.to_dict()["metric"])
        canonical = json.dumps([FORMAT, listed], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Agreement) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_dict, (self.to_dict(),)

    def __repr__(self) -> str:
        inside = ", ".join(f"{name!r}: {a!r}" for name, a in self.attributes.items())
        return f"Survey({{{inside}}})"

    @property
    def report_bits(self) -> int:
        """The content of one report, without its header."""
        return sum(field.bits for field in self.fields.values())


def _settle(attribute: Attribute, share: Fraction) -> Attribute:
    """Everything that says "auto" chosen, so that both sides agree for ever."""
    if isinstance(attribute, Continuous) and isinstance(attribute.bins, AutoBins):
        from metricldp.design.bins import trade_off

        attribute = replace(attribute, bins=trade_off(attribute, share).best)
    if isinstance(attribute, Planned) and attribute.workload is not None:
        return attribute if attribute.epsilons is not None else _planned(attribute, share)
    kept = _kept(attribute, share)
    if attribute.mechanism == "auto":
        chosen = auto.choose(attribute.size, kept, ordered=isinstance(attribute, OnLine))
        attribute = replace(attribute, mechanism=chosen)
    if isinstance(attribute, Discrete) and attribute.mechanism == "unary" and not attribute.bits:
        attribute = replace(attribute, bits=channels.best_losses(kept, attribute.size))
    return attribute


def _planned(attribute: Planned, share: Fraction) -> Planned:
    """The plan of a matrix mechanism made, and with it everything that can be asked."""
    wish, rows, kept = attribute.workload, attribute.strategy, _kept(attribute, share)
    assert wish is not None
    assert rows is not None
    if not isinstance(rows, str) and (undetermined := strategies.undetermined(rows)) is not None:
        raise SurveyError(
            "the rows of the strategy cannot tell how many people have the value "
            f"{attribute.label(undetermined)}; add rows, or leave strategy out to have it chosen"
        )
    strategy, epsilons = plans.made(wish, rows, kept, attribute.size)
    workload = wish if isinstance(wish, str) else plans.GIVEN
    return replace(attribute, workload=workload, strategy=strategy, epsilons=epsilons)


def _channel(attribute: Attribute, kept: Metric) -> Channel:
    """The channel that blurs an attribute; bits or a plan that break the metric are refused."""
    if not isinstance(attribute, Planned) or attribute.strategy is None:
        return _without_plan(attribute, kept)
    assert attribute.epsilons is not None
    rows = plans.rows_of(attribute.strategy, attribute.size)
    epsilons = plans.epsilons_of(attribute.epsilons, len(rows))
    found = plans.broken(rows, epsilons, kept)
    if found is not None:
        x, other, spent = found
        told, allowed = distinct(spent, kept.distance(x, other))
        raise SurveyError(
            f"the epsilons of the strategy's rows add up to {told} between {attribute.label(x)} "
            f"and {attribute.label(other)}, where the metric allows {allowed}; "
            "leave epsilons out to have them chosen"
        )
    undetermined = plans.undetermined(attribute.strategy, rows, epsilons)
    if undetermined is not None:
        raise SurveyError(
            "the rows with an epsilon above 0 cannot tell how many people have the value "
            f"{attribute.label(undetermined)}; send more rows, or leave epsilons out to have them "
            "chosen"
        )
    return Matrix.of(rows, epsilons, attribute.reach)


def _without_plan(attribute: Attribute, kept: Metric) -> Channel:
    bits = attribute.bits if isinstance(attribute, Discrete) else None
    pair = channels.too_near(bits, kept, attribute.size) if bits else None
    if pair:
        raise SurveyError(
            f"the bits of {attribute.name_of(pair[0])} and {attribute.name_of(pair[1])} tell more "
            "than their distance allows; leave bits out, and the best are found"
        )
    return auto.build(attribute.mechanism, attribute.size, kept, bits)


def _kept(attribute: Attribute, share: Fraction) -> Metric:
    """The metric that the channel itself has to keep on positions.

    Distances shrink by the share of an Lp metric; where positions are rounded at random, a step
    of 1 + e between neighbours, ln(1 + e) of it as epsilon, keeps e per step for real values.
    """
    metric = attribute.distances.scaled(share)
    if attribute.rounded_at_random and isinstance(metric, Line):
        return Line(log_bounds(1 + metric.step)[0])
    return metric


def _lp(entry: object) -> Lp | None:
    if entry is None:
        return None
    if not isinstance(entry, Mapping) or set(entry) != {"p"}:
        raise SurveyError(f"the entry metric says p = a number of at least 1, not {entry!r}")
    return Lp(math.inf if entry["p"] == "inf" else entry["p"])


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or "=" in name:
        raise SurveyError(
            f"an attribute's name must be a non-empty line of text without '=', not {shown(name)}"
        )


def _toml_key(name: str) -> str:
    bare = name.isascii() and name.replace("-", "a").replace("_", "a").isalnum()
    return name if bare else _toml(name)


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, dict):
        inside = ", ".join(f"{_toml_key(key)} = {_toml(item)}" for key, item in value.items())
        return "{" + inside + "}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
