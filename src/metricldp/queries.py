"""Queries: which people and which function of them. Descriptions only; nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.errors import QueryError
from metricldp.survey import Survey

Where = Mapping[str, Any]
"""Attribute to a value, a pair of inclusive ends (None is open), or a list of values."""


@dataclass(frozen=True)
class Query:
    """The sum over people of a product of functions, one of each attribute named."""

    functions: Mapping[str, npt.NDArray[np.float64]]
    words: str
    notes: tuple[str, ...] = ()


def parse(survey: Survey, where: Where) -> Query:
    """A count query from a where-clause; what means the whole domain is dropped."""
    if not isinstance(where, Mapping):
        raise QueryError(f"a where-clause maps attributes to ranges or values, not {where!r}")
    functions, words, notes = {}, [], []
    for name, meant in where.items():
        chosen = attribute_of(survey, name).choose(meant, name)
        words.append(f"{name} {chosen.words}")
        if chosen.note:
            notes.append(chosen.note)
        if not chosen.inside.all():
            functions[name] = chosen.inside.astype(np.float64)
    return Query(functions, ", ".join(words) or "everybody", tuple(notes))


def attribute_of(survey: Survey, name: object) -> Any:  # noqa: ANN401 - Attribute, seen from here
    """An attribute by name, or the names there are."""
    if name not in survey.attributes:
        raise QueryError(
            f"the survey has no attribute {name!r}; it has {', '.join(survey.attributes)}"
        )
    return survey.attributes[str(name)]


def parse_text(survey: Survey, words: list[str]) -> dict[str, Any]:
    """A where-clause from command-line words such as age=18..29 or region=north,south."""
    where: dict[str, Any] = {}
    for word in words:
        name, equals, meant = word.partition("=")
        if not equals or not meant:
            raise QueryError(
                f"{word!r} is not a condition; write age=18..29, age=..29 or region=north"
            )
        if name in where:
            raise QueryError(f"{name} is asked for twice; give it one range or a list")
        where[name] = _parse_meant(attribute_of(survey, name), name, meant)
    return where


def _parse_meant(attribute: Any, name: str, meant: str) -> Any:  # noqa: ANN401
    names = getattr(attribute, "levels", None) or getattr(attribute, "categories", None)
    if names is not None:
        if meant in names:
            return meant
        if ".." in meant:
            low, _, high = meant.partition("..")
            return (low or None, high or None)
        return meant.split(",")
    if ".." in meant:
        low, _, high = meant.partition("..")
        return (_number(low, name), _number(high, name))
    values = [_number(text, name) for text in meant.split(",")]
    return values[0] if len(values) == 1 else values


def _number(text: str, name: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise QueryError(f"{name} takes numbers, not {text!r}") from None
    return int(value) if value == int(value) else value
