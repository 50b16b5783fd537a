"""The client manifest: all that a device needs of a survey, in one line of canonical JSON.

It says how values become positions, which integers coins are compared with, how long a report is,
and which distances are promised, as exact fractions: a device can prove the promise by itself.
Whoever has the survey file makes the same line again, so its SHA-256 can be pinned by an app.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from metricldp.attributes.answered import label
from metricldp.attributes.base import Attribute
from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.text import counted, listed
from metricldp.basics.writing import replacing
from metricldp.reports.bytes import header, packed_size
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import Block
from metricldp.survey.explain import (
    group_guarantee,
    guarantee,
    no_response,
    rounded_up,
    times,
)
from metricldp_core.canonical import canonical

FORMAT = 1
"""The version of client manifests."""
SUFFIX = ".client.json"
"""How the files are called."""
_ONE = ("threshold", "geometric", "response", "unary", "matrix", "table", "shaped", "shapes")
KNOWN = frozenset((*_ONE, "cells", "memoised", "lazy"))
"""The laws that the JavaScript client knows."""
_KEYS = ("low", "high", "bins", "edges", "points")
"""What of an attribute says where a value stands, beside its names."""

_MEMOISED = (
    "This holds for all reports of one response together. Each different response counts again."
)


def manifest(survey: Agreement) -> str:
    """The line; the same survey has the same one for ever."""
    fields: list[dict[str, Any]] = []
    for name, attribute in survey.attributes.items():
        block = survey.block_of(name)
        if block is None:
            fields.append(_field(survey, name, attribute))
        elif name == block.names[0]:
            fields.append(_joint_field(survey, block))
    return canonical(
        {
            "metricldp-client": FORMAT,
            "survey": survey.fingerprint,
            "header": header(survey).hex(),
            "bytes": packed_size(survey),
            "fields": fields,
        }
    )


def pin(text: str) -> str:
    """The SHA-256 of a manifest, by which an app knows it."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def unknown_laws(survey: Agreement) -> list[str]:
    """The laws of a survey that the JavaScript client has not."""
    laws = [channel.law() for channel in survey.channels.values()]
    laws += [block.channel.law() for block in survey.blocks.values()]
    parts = [law[key] for law in laws for key in ("of", "first", "second") if key in law]
    return sorted({law["law"] for law in [*laws, *parts]} - KNOWN)


@dataclass(frozen=True)
class Saved:
    """A manifest that was written: where, of what, and what to pin."""

    survey: str
    file: str
    pin: str
    size: int
    unknown: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "unknown": list(self.unknown)}

    def __str__(self) -> str:
        lines = [f"client of survey {self.survey} in {self.file}, {counted(self.size, 'byte')}"]
        lines.append(f"pin {self.pin}")
        if self.unknown:
            told = listed(self.unknown)
            lines.append(f"warning: the JavaScript client does not support {told} and rejects it")
        return "\n".join(lines)


def save(survey: Agreement, path: Path) -> Saved:
    """Write the manifest, byte for byte what `pin` is of."""
    text = manifest(survey)
    data = text.encode("utf-8")
    with replacing(path, InvalidSpecError, "client manifest", [".json"]) as file:
        file.write(data)
    unknown = tuple(unknown_laws(survey))
    return Saved(survey.fingerprint, str(path), pin(text), len(data), unknown)


def _field(survey: Agreement, name: str, attribute: Attribute) -> dict[str, Any]:
    """What one attribute adds to a report."""
    found = {"name": name, "of": [_described(name, attribute)], "bits": survey.fields[name].bits}
    if attribute.is_public:
        return found | {"says": f"{name}: The value is sent without protection."}
    promised = attribute.distances.scaled(survey.share)
    law = survey.channels[name].law()
    if attribute.asks_whether:
        source = attribute.source(name)
        words = f"{label(name)}: {_against_no_response(no_response(survey, source))}"
    else:
        words = f"{name}: {_guarantee(survey, name)}"
    if law["law"] == "memoised":
        words += f" {_MEMOISED}"
    return found | {
        "law": law,
        "metric": promised.to_data(attribute.size),
        "epsilon": rounded_up(float(promised.diameter(attribute.size))),
        "says": words,
    }


def _joint_field(survey: Agreement, block: Block) -> dict[str, Any]:
    """What attributes that are blurred together add; the distances are those of their cells."""
    described = {name: survey.attributes[name] for name in block.names}
    found: dict[str, Any] = {
        "name": block.name,
        "of": [_described(name, attribute) for name, attribute in described.items()],
        "bits": block.channel.bits,
        "law": block.channel.law(),
    }
    grid = block.mechanism.about(described, survey.share).grid
    if grid is not None:
        parts = [f"{name}: {_guarantee(survey, name)}" for name in block.names]
        parts.append(f"{' and '.join(block.names)}: {group_guarantee(survey, block)}")
        found["metric"] = grid.to_data(math.prod(grid.sizes))
        found["epsilon"] = rounded_up(float(grid.diameter(math.prod(block.sizes))))
        found["says"] = "\n".join(parts)
    return found


def _guarantee(survey: Agreement, name: str) -> str:
    """The guarantee by the metric, which a device proves; the mechanism may guarantee more."""
    attribute = survey.attributes[name]
    return guarantee(survey, name, attribute.distances.diameter(attribute.size))


def _described(name: str, attribute: Attribute) -> dict[str, Any]:
    """How a value becomes a position."""
    found: dict[str, Any] = {"name": attribute.source(name), "kind": attribute.kind}
    if attribute.asks_whether:
        return found
    data = attribute.domain
    found |= {key: data[key] for key in _KEYS if key in data}
    if data.get("private"):
        found["private"] = True
    if "edges" in data:
        found |= {"low": data["edges"][0], "high": data["edges"][-1]}
    names = data.get("levels", data.get("categories"))
    if names is not None:
        found["names"] = list(names)
    if attribute.optional is not None:
        found["optional"] = True
    if attribute.is_cyclic:
        found["cyclic"] = True
    return found


def _against_no_response(epsilons: Mapping[str, float]) -> str:
    (middle, near), (end, far) = epsilons.items()
    return (
        f"A report is {times(near)} for no response as for {middle}, the middle, and {times(far)} "
        f"for no response as for {end}."
    )
