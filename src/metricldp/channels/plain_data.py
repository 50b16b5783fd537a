"""Manifests from objects: what the core reads, as plain data and as text.

The core does not write manifests. Devices read the text, so whoever writes it need not be trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch
from itertools import groupby
from typing import Any

from metricldp_core import distributions, levels, metrics, values
from metricldp_core.canonical import LARGEST_NUMBER, canonical
from metricldp_core.manifest import FORMAT, Field, Manifest


def manifest_of(fields: Iterable[Field]) -> Manifest:
    """The manifest with these fields."""
    found = tuple(fields)
    data = {"metricldp": FORMAT, "fields": [plain_data(field) for field in found]}
    return Manifest(found, canonical(data))


def word(probability: int) -> str:
    """A probability over 2^64, or a 64-bit word, as 16 hexadecimal digits."""
    return f"{probability:016x}"


@singledispatch
def plain_data(described: Any) -> dict[str, Any]:
    """A field, domain, metric or output distribution as plain data for a manifest."""
    found: dict[str, Any] = described.to_data()
    return found


@plain_data.register
def _(field: Field) -> dict[str, Any]:
    data: dict[str, Any] = {"attributes": [plain_data(domain) for domain in field.domains]}
    if field.metric is None or field.distribution is None:
        return data
    return data | {
        "metric": plain_data(field.metric),
        "distribution": plain_data(field.distribution),
    }


# Output distributions ----------------------------------------------------------------------------


@plain_data.register
def _(found: distributions.RandomizedResponse) -> dict[str, Any]:
    return {"kind": found.kind, "size": found.size, "keep": word(found.keep)}


@plain_data.register
def _(found: distributions.Threshold) -> dict[str, Any]:
    return {"kind": found.kind, "size": found.size, "flips": _runs(found.flips, word)}


@plain_data.register
def _(found: distributions.Unary) -> dict[str, Any]:
    own, other = (_runs(part, word) for part in (found.own, found.other))
    return {"kind": found.kind, "own": own, "other": other}


@plain_data.register
def _(found: distributions.Geometric) -> dict[str, Any]:
    return {"kind": found.kind, "size": found.size, **noise_data(found)}


@plain_data.register
def _(found: distributions.LazyGeometric) -> dict[str, Any]:
    stays = {"size": found.size, "keep": word(found.keep), "end": word(found.end)}
    return {"kind": found.kind, **stays, **noise_data(found.geometric)}


@plain_data.register
def _(found: distributions.Matrix) -> dict[str, Any]:
    rows = []
    for row in found.rows:
        window = {"entries": _runs(row.entries, int), "low": row.low, "size": row.noise.size}
        rows.append({**window, **noise_data(row.noise)})
    return {"kind": found.kind, "rows": rows}


@plain_data.register
def _(found: distributions.Memoised) -> dict[str, Any]:
    first, second = plain_data(found.first), plain_data(found.second)
    return {"kind": found.kind, "first": first, "second": second}


@plain_data.register
def _(found: distributions.Table) -> dict[str, Any]:
    return {"kind": found.kind, "weights": [list(map(word, row)) for row in found.weights]}


@plain_data.register
def _(found: levels.Extremal) -> dict[str, Any]:
    return {"kind": found.kind, **_shapes(found)}


@plain_data.register
def _(found: levels.Additive) -> dict[str, Any]:
    grid = {"sizes": list(found.sizes), "lengths": list(found.lengths)}
    return {"kind": found.kind, **grid, **_shapes(found)}


def noise_data(noise: distributions.Geometric) -> dict[str, Any]:
    """The probabilities of geometric noise."""
    zero, digits, block = word(noise.zero), list(map(word, noise.digits)), word(noise.block)
    return {"zero": zero, "digits": digits, "block": block}


def _shapes(found: levels.Extremal | levels.Additive) -> dict[str, Any]:
    depths = [levels.depths_text(shape) for shape in found.depths]
    return {"depths": depths, "tops": list(map(word, found.tops)), "fall": word(found.fall)}


def _runs(listed: Sequence[int], write: Callable[[int], Any]) -> list[list[Any]]:
    """Equal neighbours together: [value, count] for each run."""
    return [[write(value), len(list(group))] for value, group in groupby(listed)]


# Metrics -----------------------------------------------------------------------------------------


@plain_data.register
def _(metric: metrics.Uniform) -> dict[str, Any]:
    return {"kind": metric.kind, "epsilon": str(metric.epsilon)}


@plain_data.register
def _(metric: metrics.Line) -> dict[str, Any]:
    data: dict[str, Any] = {"kind": metric.kind, "epsilon": str(metric.epsilon)}
    data |= {} if metric.width == 1 else {"width": str(metric.width)}
    data |= {} if metric.cap is None else {"cap": str(metric.cap)}
    return data | ({"ring": True} if metric.ring else {})


@plain_data.register
def _(metric: metrics.Graph) -> dict[str, Any]:
    data: dict[str, Any] = {"kind": metric.kind, "step": str(metric.step)}
    if metric.pairs != metrics.neighbours(metric.size):
        data["pairs"] = [list(pair) for pair in metric.pairs]
    return data | {"lengths": list(map(_length, metric.lengths))}


@plain_data.register
def _(metric: metrics.Grid) -> dict[str, Any]:
    pairs = zip(metric.steps, metric.lengths, strict=True)
    steps = [[*step, _length(length)] for step, length in pairs]
    sizes = list(metric.sizes)
    return {"kind": metric.kind, "step": str(metric.step), "sizes": sizes, "steps": steps}


def _length(number: int) -> int | str:
    return number if number < LARGEST_NUMBER else str(number)


# Domains -----------------------------------------------------------------------------------------


@plain_data.register
def _(domain: values.Domain) -> dict[str, Any]:
    data: dict[str, Any] = {"name": domain.name, "kind": domain.kind}
    match domain:
        case values.Names():
            data["names"] = list(domain.names)
        case values.Bins(given=(_, *_)):
            data["edges"] = list(domain.given)
        case values.WholeNumbers() | values.Bins() | values.Points() | values.PublicWeight():
            data |= {"low": domain.low, "high": domain.high}
    match domain:
        case values.Bins(given=()):
            data["bins"] = domain.bins
        case values.Points(weight=True):
            data["private"] = True
        case values.Points():
            data["points"] = domain.points
    close = {"within": domain.within, "ratio": domain.ratio}
    data |= {key: text for key, text in close.items() if text is not None}
    if getattr(domain, "cyclic", False) and "edges" not in data:
        data["cyclic"] = True
    return data | ({"optional": True} if domain.optional else {})
