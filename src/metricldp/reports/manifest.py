"""The client manifest: all that a device needs of a survey, in one line of canonical JSON.

It says how values become positions, which integers coins are compared with, how long a report is,
and which distances are promised, as exact fractions: a device can prove the promise by itself.
Whoever has the survey file makes the same line again, so its SHA-256 can be pinned by an app.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from metricldp.attributes.base import Attribute
from metricldp.basics.canonical import canonical
from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.text import counted, listed, plain
from metricldp.basics.writing import replacing
from metricldp.metrics import Metric
from metricldp.reports.bytes import header, packed_size
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import Block
from metricldp.survey.explain import no_response, rounded_up, times

FORMAT = 1
"""The version of client manifests."""
SUFFIX = ".client.json"
"""How the files are called."""
_ONE = ("threshold", "geometric", "response", "unary", "matrix", "table", "shaped", "shapes")
KNOWN = frozenset((*_ONE, "cells", "memoised", "lazy"))
"""The laws that the JavaScript client knows."""
_KEYS = ("low", "high", "bins", "edges", "points")
"""What of an attribute says where a value stands, beside its names."""

_FOR_LIFE = (
    "That is for all reports of one answer together, however many; any other answer that you ever "
    "give counts again"
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
            lines.append(f"warning: the JavaScript client does not know {told} and will refuse it")
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
        return found | {"says": f"{name} is sent as it is: nothing protects it"}
    promised = attribute.distances.scaled(survey.share)
    law = survey.channels[name].law()
    if attribute.asks_whether:
        source = attribute.source(name)
        pairs = _against_no_answer(no_response(survey, source))
        words = f"whether {source} was answered: {'; '.join(pairs)}"
    else:
        words = _words(name, attribute, promised)
    if law["law"] == "memoised":
        words += f". {_FOR_LIFE}"
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
        far = float(grid.diameter(math.prod(block.sizes)))
        near = float(grid.smallest(math.prod(block.sizes)))
        names = " and ".join(block.names)
        told = f"{names}, blurred together: the nearest answers: {_graded(near)}"
        found["metric"] = grid.to_data(math.prod(grid.sizes))
        found["epsilon"] = rounded_up(far)
        found["says"] = f"{told}; any answers: {_graded(far)}"
    return found


def _words(name: str, attribute: Attribute, metric: Metric) -> str:
    """The promise of one attribute in words, by some pairs of answers."""
    size = attribute.size
    if metric.is_uniform:
        return f"{name}: any two answers: {_graded(float(metric.diameter(size)))}"
    pairs = {"the nearest": metric.nearest(size)}
    unit = getattr(attribute, "within", None) or getattr(attribute, "per", None)
    if unit and metric.by_difference(size) is not None:
        apart = min(max(1, round(unit / attribute.grid_step)), size - 1)
        step = " by their bins" if attribute.in_bins else ""
        pairs = {f"{plain(apart * attribute.grid_step)} apart{step}": (0, apart)}
    x, other = metric.farthest(size)
    if (x, other) not in pairs.values():
        pairs[f"{attribute.label(x)} and {attribute.label(other)}, the farthest"] = x, other
    far = {what: _graded(float(metric.distance(*pair))) for what, pair in pairs.items()}
    return f"{name}: {'; '.join(f'answers {what}: {told}' for what, told in far.items())}"


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


# Words of this format; they change with it.
_GRADES = ((1.5, "hardly a hint"), (10.0, "a hint"), (100.0, "a strong hint"))


def _graded(epsilon: float) -> str:
    grade = (word for most, word in _GRADES if epsilon <= math.log(most))
    return f"{times(epsilon)}, {next(grade, 'hardly any protection')}"


def _against_no_answer(epsilons: dict[str, float]) -> list[str]:
    (middle, near), (end, far) = epsilons.items()
    return [
        f"no answer against {middle}, the middle: {_graded(near)}",
        f"no answer against {end}: {_graded(far)}",
    ]
