"""The kinds of attributes that a survey file can name."""

from __future__ import annotations

import warnings
from dataclasses import MISSING, fields
from typing import Any

from metricldp.attributes.base import Attribute
from metricldp.attributes.continuous import STOCHASTIC, Continuous
from metricldp.attributes.integer import Integer
from metricldp.attributes.named import Categorical, Ordinal
from metricldp.attributes.rounded import RoundedContinuous
from metricldp.attributes.weight import Weight
from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.text import listed, shown

KINDS: dict[str, type[Attribute]] = {
    attribute.kind: attribute for attribute in (Integer, Ordinal, Categorical, Continuous, Weight)
}


def from_dict(data: dict[str, Any], name: str) -> Attribute:
    """An attribute from plain data, as `to_dict` wrote it."""
    rest = dict(data)
    kind = rest.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidSpecError(
            f"attribute {name} has kind {shown(kind)}; choose {', '.join(KINDS)}"
        )
    cls: type[Attribute] = KINDS[kind]
    if cls is Continuous and "rounding" in rest:
        rounding = rest.pop("rounding")
        if rounding != STOCHASTIC:
            raise InvalidSpecError(
                f'attribute {name}: rounding is "{STOCHASTIC}" or left out, not {shown(rounding)}'
            )
        if "points" not in rest:
            raise InvalidSpecError(
                f"attribute {name}: rounding needs points, the number of points of the grid"
            )
        cls = RoundedContinuous
    for f in fields(cls):
        if f.default is MISSING and f.name not in rest:
            hint = f"; it has {listed(rest)}" if rest else ""
            raise InvalidSpecError(f"attribute {name} of kind {kind} needs {f.name!r}{hint}")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            made = cls(**rest)
        except InvalidSpecError as wrong:
            raise InvalidSpecError(f"attribute {name}: {wrong}") from None
    for warning in told:
        warnings.warn(f"attribute {name}: {warning.message}", warning.category, stacklevel=2)
    return made
