"""The client manifest: all that a device needs of a survey, in one line of canonical JSON.

It says how values become positions, which integers coins are compared with, how long a report is,
and which distances are promised, as exact fractions: a device can prove the promise by itself.
Whoever has the survey file makes the same line again, so its SHA-256 can be pinned by an app.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from metricldp.attributes.base import Attribute
from metricldp.basics.canonical import canonical
from metricldp.basics.errors import SurveyError
from metricldp.basics.text import counted, listed
from metricldp.basics.writing import replacing
from metricldp.channels.cells import Cells
from metricldp.metrics import Bent, Line, Metric, Sensitive, Uniform, Window
from metricldp.metrics.base import Integers
from metricldp.metrics.grid import Grid, summed
from metricldp.reports.bytes import header, packed_size
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import Block

FORMAT = 1
"""The version of client manifests."""
SUFFIX = ".client.json"
"""How the files are called."""
_ONE = ("threshold", "geometric", "response", "unary", "matrix", "table", "shaped", "shapes")
KNOWN = frozenset((*_ONE, "cells", "memoised"))
"""The laws that the JavaScript client knows."""
_KEYS = ("low", "high", "bins", "edges", "points")
"""What of an attribute says where a value stands, beside its names."""
_LARGEST = 1 << 53


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
    with replacing(path, SurveyError, "a client manifest", [".json"]) as file:
        file.write(data)
    unknown = tuple(unknown_laws(survey))
    return Saved(survey.fingerprint, str(path), pin(text), len(data), unknown)


def _field(survey: Agreement, name: str, attribute: Attribute) -> dict[str, Any]:
    """What one attribute adds to a report."""
    found = {"of": [_described(name, attribute)], "bits": survey.fields[name].bits}
    if attribute.is_public:
        return found
    promised = attribute.distances.scaled(survey.share)
    law = survey.channels[name].law()
    return found | {"law": law, "metric": metric_data(promised, attribute.size)}


def _joint_field(survey: Agreement, block: Block) -> dict[str, Any]:
    """What attributes that are blurred together add; the distances are those of their cells."""
    described = {name: survey.attributes[name] for name in block.names}
    found: dict[str, Any] = {
        "of": [_described(name, attribute) for name, attribute in described.items()],
        "bits": block.channel.bits,
        "law": block.channel.law(),
    }
    grid = block.mechanism.about(described, survey.share).grid
    if isinstance(block.channel, Cells) and grid is not None:
        promised = [attribute.distances.scaled(survey.share) for attribute in described.values()]
        found["metric"] = _grid_data(grid, promised)
    return found


def _described(name: str, attribute: Attribute) -> dict[str, Any]:
    """How a value becomes a position."""
    found: dict[str, Any] = {"name": attribute.source(name), "kind": attribute.kind}
    if attribute.asks_whether:
        return found
    data = attribute.domain
    found |= {key: data[key] for key in _KEYS if not isinstance(data.get(key, False), bool)}
    if data.get("private"):
        found["private"] = True
    names = data.get("levels", data.get("categories"))
    if names is not None:
        found["names"] = list(names)
    if attribute.optional is not None:
        found["optional"] = True
    if not attribute.is_public and attribute.is_cyclic:
        found["cyclic"] = True
    return found


def metric_data(metric: Metric, size: int) -> dict[str, Any]:
    """A metric on positions as plain data, with exact fractions as text."""
    if isinstance(metric, Line):
        return {"metric": "line", "step": str(metric.step)}
    if isinstance(metric, Uniform):
        return {"metric": "uniform", "step": str(metric.step)}
    if isinstance(metric, Sensitive):
        return {"metric": "sensitive", "step": str(metric.step), "places": sorted(metric.places)}
    if isinstance(metric, Window):
        found = {"metric": "line", "step": str(metric.epsilon)}
        if not isinstance(metric, Bent):
            found = {"metric": "window", "step": str(metric.epsilon), "width": str(metric.width)}
        if metric.cap is not None:
            found["cap"] = str(metric.cap)
        return found | ({} if metric.around is None else {"around": metric.around})
    return _graph_data(metric, size)


def _graph_data(metric: Metric, size: int) -> dict[str, Any]:
    """The pairs that generate it: the distance of all others is the shortest way over them."""
    pairs = list(metric.generating_pairs(size))
    far = [metric.distance(x, other) / metric.step for x, other in pairs]
    found: dict[str, Any] = {"metric": "graph", "step": str(metric.step)}
    if pairs == [(x, x + 1) for x in range(size - 1)]:
        return found | {"steps": _whole(far)}
    return found | {"pairs": [[x, other] for x, other in pairs], "steps": _whole(far)}


def _grid_data(grid: Grid, metrics: Sequence[Metric]) -> dict[str, Any]:
    """By the steps along each attribute: a list for each where they add up, else one of all."""
    sizes = grid.sizes
    sums = summed(metrics, sizes)
    found: dict[str, Any]
    if sums is not None and sums.capped(grid.diameter(math.prod(sizes))) == grid:
        along = [
            [metric.distance(0, d) / grid.step for d in range(size)]
            for metric, size in zip(metrics, sizes, strict=True)
        ]
        most = Fraction(int(grid.numbers.max()))
        found = {"along": [_whole(line) for line in along], "most": _number(most)}
    else:
        found = {"numbers": _whole(grid.numbers.ravel().tolist())}
    return {"metric": "grid", "step": str(grid.step), "sizes": list(sizes), **found}


def _whole(numbers: Sequence[Fraction | int] | Integers) -> list[int | str]:
    return [_number(Fraction(number)) for number in numbers]


def _number(number: Fraction) -> int | str:
    """A whole number; as text where it is none to everybody."""
    assert number.denominator == 1
    whole = int(number)
    return whole if whole <= _LARGEST else str(whole)
