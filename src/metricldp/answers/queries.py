"""Queries: which people and which function of them. Descriptions only; nothing is computed here."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.attributes.answered import NO, YES, answered
from metricldp.attributes.base import Attribute
from metricldp.attributes.selection import Span
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number, is_whole
from metricldp.basics.text import guess, listed, shown
from metricldp.design.plans import workload_of
from metricldp.design.workloads import Workload
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement

Where = Mapping[str, Any]
"""Attribute to a value, a pair of inclusive ends (None is open), or a list of values."""
UNANSWERED = "unanswered"
"""What the command line says for the people who left an optional attribute out."""
_DASHED = re.compile(r"\s*(-?[\d.]+)\s*(?:-|–|:|to)\s*(-?[\d.]+)\s*")
"""A range as people also write it."""


@dataclass(frozen=True)
class Query:
    """The sum over people of a product of functions, one of each attribute named."""

    factors: Mapping[str, Span | npt.NDArray[Any]]
    """A function of the position, or the span of positions where it is 1 and not 0."""
    words: str
    notes: tuple[str, ...] = ()

    @property
    def functions(self) -> Mapping[str, npt.NDArray[np.float64]]:
        """The value of each function at each position."""
        arrays = {n: f.inside if isinstance(f, Span) else f for n, f in self.factors.items()}
        return {name: array.astype(np.float64, copy=False) for name, array in arrays.items()}


def parse(survey: Agreement, where: Where | None, about: str | None = None) -> Query:
    """A count query from a where-clause, None for everybody; whole domains are dropped.

    An optional attribute is read together with whether it was answered: here, and where the
    question is `about` one.
    """
    where = {} if where is None else where
    if not isinstance(where, Mapping):
        raise QueryError(f"a where-clause maps attributes to ranges or values, not {shown(where)}")
    factors: dict[str, Span | npt.NDArray[Any]] = {}
    words, notes = [], []
    for name, meant in where.items():
        described = attribute_of(survey, name)
        if described.optional is not None:
            if meant is None and name == about:
                raise QueryError(f"{name} is asked about and left out at once; drop it from where")
            factors[answered(name)] = NO if meant is None else YES
            if meant is None:
                words.append(f"{name} not answered")
                continue
        chosen = described.choose(meant, name)
        words.append(f"{name} {chosen.words}")
        if chosen.note:
            notes.append(chosen.note)
        if not chosen.whole:
            factors[name] = chosen.part
    if about is not None and about not in where and (there := if_answered(survey, about)):
        factors |= there
        words.append(f"{about} answered")
    return Query(factors, ", ".join(words) or "everybody", tuple(notes))


def if_answered(survey: Agreement, name: str) -> dict[str, Span]:
    """What a question about an attribute is multiplied with: nothing, unless it is optional."""
    return {} if attribute_of(survey, name).optional is None else {answered(name): YES}


def expected(n: Any, prior: Any, weights: Any) -> tuple[int, Any, Any]:
    """The people that a prediction is for: how many, how they are spread, a sample of weights."""
    if not is_whole(n) or n < 1:
        raise QueryError(f"an error needs a whole number of people, at least 1, not n = {shown(n)}")
    if isinstance(prior, Mapping):
        prior = {name: _numbers(shares, f"a prior for {name}") for name, shares in prior.items()}
    elif not isinstance(prior, str):
        prior = _numbers(prior, "a prior")
    if weights is not None:
        if not isinstance(weights, Mapping) or len(weights) > 1:
            raise QueryError(f"weights are a dict of one name and a sample, not {shown(weights)}")
        weights = {name: _numbers(sample, f"weights of {name}") for name, sample in weights.items()}
    return int(n), prior, weights


def _numbers(values: Any, what: str) -> npt.NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise QueryError(f"{what} is an array of numbers, not {shown(values)}") from None


def workload_for(survey: Agreement, name: str, rows: Any) -> Workload:
    """A workload over an attribute: itself, its name, or its rows."""
    described = attribute_of(survey, name)
    if described.kind == "weight":
        raise QueryError(f"{name} is a weight; ask tally.sum({name!r}, where)")
    if isinstance(rows, str) and rows in ("ranges", "prefixes") and not described.ordered:
        raise QueryError(f"{name} has no order, so no {rows}; ask for its values")
    return workload_of(rows, described.size)


def weight_of(survey: Agreement, name: object) -> Any:
    """A weight by name."""
    weights = [n for n, a in survey.attributes.items() if a.kind == "weight"]
    if name not in weights:
        there = f"{listed(weights)}{guess(name, weights)}"
        raise QueryError(f"name one of the survey's weights, not {shown(name)}; it has {there}")
    return survey.attributes[str(name)]


def parse_text(survey: Agreement, words: list[str]) -> dict[str, Any]:
    """A where-clause from command-line words such as age=18..29 or region=north,south."""
    where: dict[str, Any] = {}
    for word in words:
        name, equals, meant = word.partition("=")
        if name not in survey.attributes:
            name = name.strip()
        if not equals or not meant.strip():
            raise QueryError(
                f"{word!r} is not a condition; write age=18..29, age=..29 or region=north"
            )
        if name in where:
            raise QueryError(f"{name} is asked for twice; give it one range or a list")
        where[name] = _parse_meant(attribute_of(survey, name), name, meant)
    return where


def _parse_meant(attribute: Attribute, name: str, meant: str) -> Any:
    left_out = attribute.optional is not None and meant.strip() == UNANSWERED
    if attribute.named:
        names = [attribute.name_of(position) for position in range(attribute.size)]
        if meant in names or meant.strip() in names:
            return meant if meant in names else meant.strip()
        if left_out:
            return None
        if ".." in meant:
            low, _, high = meant.partition("..")
            return tuple(_name(end, names) if end.strip() else None for end in (low, high))
        return [_name(part, names) for part in meant.split(",")]
    if left_out:
        return None
    if "..." in meant:
        raise QueryError(f"{name} takes a range with two dots, such as 10..20, not {meant!r}")
    if ".." in meant:
        low, _, high = meant.partition("..")
        return tuple(_number(end, name) if end.strip() else None for end in (low, high))
    values = [_number(text, name) for text in meant.split(",")]
    return values[0] if len(values) == 1 else values


def _name(text: str, names: Sequence[str]) -> str:
    """A name as it is written, or without the spaces around it."""
    return text if text in names else text.strip()


def _number(text: str, name: str) -> float:
    for kind in (int, float):
        try:
            value: float = kind(text)
        except ValueError:
            continue
        if is_number(value) and math.isfinite(value):
            return value
    if dashed := _DASHED.fullmatch(text):
        raise QueryError(f"{name} takes a range as {dashed[1]}..{dashed[2]}, not {text!r}")
    raise QueryError(f"{name} takes finite numbers, not {shown(text)}; an end left out is open")
