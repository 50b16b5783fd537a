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
from metricldp.basics.text import guess, listed, plain, shown
from metricldp.design.plans import workload_of
from metricldp.design.workloads import Workload
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement

Where = Mapping[str, Any]
"""Attribute to a value, a pair of inclusive ends (None is open), or a list of values."""
UNANSWERED = "unanswered"
_NOTHING = ("none", "null", "na", "n/a", "nan", "missing")
"""What the command line says for the people who left an optional attribute out."""
EVERYBODY = "everybody"
_DASHED = re.compile(r"\s*(-?[\d.]+)\s*(?:-|–|:|to)\s*(-?[\d.]+)\s*")
"""A range as people also write it."""
_SIGN = r"\s*(<=|>=|!=|<>|<|>)\s*"
_COMPARED = re.compile(rf"\s*([^<>=!]+?){_SIGN}([^<>=!]+?)(?:{_SIGN}([^<>=!]+?))?\s*")
"""A condition with signs instead of an equals sign."""
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""What a sign becomes when its two sides change places."""
_STRICT = ("<", ">")
_SIGNS = {"≤": "<=", "≥": ">=", "≠": "!="}


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
        example = "{'age': (18, 29), 'region': 'north'}"
        raise QueryError(
            f"a where-clause maps attributes to ranges or values, such as {example}, "
            f"not {shown(where)}"
        )
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
    return Query(factors, ", ".join(words) or EVERYBODY, tuple(notes))


def valued(survey: Agreement, name: str, group: Query) -> tuple[list[Query], Query]:
    """The query of an attribute's values over a group, and the group's own.

    Where a position leaves open what its people add, two more: of the least, and of the most.
    """
    described = attribute_of(survey, name)
    values, note = described.numbers(name)
    inside = group.functions.get(name, np.ones(described.size))
    bounds = described.extremes(inside) or ()
    if bounds and not note:
        note = f"{name} is open where its range fades; the interval is wider by that"
        note += ", as a bound"
    notes = (*group.notes, note) if note else group.notes
    queries = [
        Query({**group.factors, name: numbers}, f"{name} among {group.words}", notes)
        for numbers in (values * inside, *bounds)
    ]
    return queries, group


def asked_of(name: str, labels: Sequence[str], group: Query) -> list[str]:
    """A question for each part of an attribute, in words, with the conditions of the group."""
    among = "" if group.words == EVERYBODY else f" among {group.words}"
    return [f"{name} {label}{among}" for label in labels]


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
        raise QueryError(f"{name} is a weight; ask for its sum")
    if isinstance(rows, str) and rows in ("ranges", "prefixes") and not described.ordered:
        raise QueryError(f"{name} has no order, so no {rows}; ask for its values")
    if isinstance(rows, str) and rows == "mean":
        described.numbers(name)  # refused where values are names
        raise QueryError(f"the mean of {name} is an answer of its own; ask for mean({name!r})")
    return workload_of(rows, described.size)


def weight_of(survey: Agreement, name: object) -> Any:
    """A weight by name."""
    weights = [n for n, a in survey.attributes.items() if a.kind == "weight"]
    if name not in weights:
        there = f"{listed(weights)}{guess(name, weights)}"
        raise QueryError(f"name one of the survey's weights, not {shown(name)}; it has {there}")
    return survey.attributes[str(name)]


def parse_text(survey: Agreement, words: list[str]) -> dict[str, Any]:
    """A where-clause from command-line words such as age=18..29, age>=18 or region=north,south."""
    where: dict[str, Any] = {}
    for word in words:
        name, meant = _condition(survey, word)
        if name in where:
            meant = _joined(attribute_of(survey, name), name, where[name], meant)
        where[name] = meant
    return where


def _condition(survey: Agreement, word: str) -> tuple[str, Any]:
    """The attribute that a word is about, and what it asks of it."""
    name, equals, meant = word.partition("=")
    name = name if name in survey.attributes else name.strip()
    if name not in survey.attributes:
        for sign, plainly in _SIGNS.items():
            word = word.replace(sign, plainly)
        if compared := _COMPARED.fullmatch(word):
            return _compared(survey, compared, word)
    if not equals or not meant.strip():
        hint = "; in a shell, < and > need quotes" if name in survey.attributes else ""
        if equals and name in survey.asked:
            hint = _left_out(survey.asked[name], name)
        raise QueryError(f"{shown(word)} is not a condition; write {_example(survey)}{hint}")
    for other in survey.attributes:
        if re.search(rf"[\s,;&]{re.escape(other)}\s*[=<>]", meant):
            raise QueryError(
                f"{shown(word)} holds several conditions; give each as a word of its own"
            )
    return name, _parse_meant(attribute_of(survey, name), name, meant)


def _example(survey: Agreement) -> str:
    """Conditions that this survey understands."""
    found = []
    for name, attribute in survey.asked.items():
        if attribute.named:
            found.append(f"{name}={attribute.name_of(0)}")
        elif not attribute.is_weight:
            ends = attribute.values_at(0)[0], attribute.values_at(attribute.size - 1)[1]
            found.append(f"{name}={'..'.join(plain(end).replace(',', '') for end in ends)}")
    return " or ".join(found[:2]) or "attribute=value"


def _left_out(attribute: Attribute, name: str) -> str:
    """How to ask for those who did not answer, where that may be."""
    return "" if attribute.optional is None else f"; who left it out is {name}={UNANSWERED}"


def _compared(survey: Agreement, compared: re.Match[str], word: str) -> tuple[str, Any]:
    """A condition with signs: age>=18, 18<=age<30, region!=north."""
    first, sign, second, later_sign, third = compared.groups()
    ends: tuple[tuple[str, str], ...]
    if third is not None:
        name, ends = second, ((first, _TURNED.get(sign, sign)), (third, later_sign))
        if {sign[0], later_sign[0]} not in ({"<"}, {">"}):
            raise QueryError(f"{shown(word)} is not a range; write 18<=x<=29, or x=18..29")
    elif second in survey.attributes and first not in survey.attributes:
        name, ends = second, ((first, _TURNED.get(sign, sign)),)
    else:
        name, ends = first, ((second, sign),)
    attribute = attribute_of(survey, name)
    if sign in ("!=", "<>"):
        return name, _all_but(attribute, name, second if name == first else first)
    parts = [_bound(attribute, name, text, turned) for text, turned in ends]
    return name, parts[0] if len(parts) == 1 else _joined(attribute, name, *parts)


def _all_but(attribute: Attribute, name: str, text: str) -> list[str]:
    """The other names; of numbers there are too many to list."""
    names = [attribute.name_of(position) for position in range(attribute.size)]
    if not attribute.named:
        raise QueryError(
            f"{name} takes a range or values, not all but {shown(text)}; ask for everybody, "
            "and for that value, and take the difference"
        )
    attribute.choose(text, name)
    return [other for other in names if other != text]


def _bound(attribute: Attribute, name: str, text: str, sign: str) -> tuple[Any, Any]:
    """The range of a sign and an end: open on one side, without the end itself for < and >."""
    if not attribute.ordered:
        raise QueryError(f"{name} has no order, so nothing is {sign} {shown(text)}; name values")
    end: Any = text
    if attribute.named:
        (position,) = np.flatnonzero(attribute.choose(text, name).inside)
        beyond = int(position) + {"<": -1, ">": 1}.get(sign, 0)
        if not 0 <= beyond < attribute.size:
            domain = attribute.describe()
            raise QueryError(f"{name} has nothing {sign} {shown(text)}; {name} is {domain}")
        end = attribute.name_of(beyond)
    else:
        end = _number(text, name)
        if sign in _STRICT:
            end = attribute.beyond(end, above=sign == ">")
    return (end, None) if sign[0] == ">" else (None, end)


def _joined(attribute: Attribute, name: str, one: Any, other: Any) -> tuple[Any, Any]:
    """Two ranges, one open above and the other below, as one."""
    open_ends = [
        part.index(None) for part in (one, other) if isinstance(part, tuple) and None in part
    ]
    if sorted(open_ends) != [0, 1] or (None, None) in (one, other):
        raise QueryError(f"{name} is asked for twice; give it one range or a list")
    low, high = (
        next(end for end in ends if end is not None) for ends in zip(one, other, strict=True)
    )
    first, last = (
        np.flatnonzero(attribute.choose(part, name).inside) for part in ((low, None), (None, high))
    )
    if first[0] > last[-1]:
        over = f"; over the end it is {name}={low}..{high}" if attribute.is_cyclic else ""
        raise QueryError(f"no {name} is both from {low} and up to {high}{over}")
    return low, high


def _parse_meant(attribute: Attribute, name: str, meant: str) -> Any:
    left_out = attribute.optional is not None and meant.strip() == UNANSWERED
    if attribute.named:
        names = [attribute.name_of(position) for position in range(attribute.size)]
        for text in (meant, meant.strip(), meant.removeprefix("=").strip()):
            if text in names:
                return text
        if left_out:
            return None
        meant = meant.removeprefix("=")
        if ".." in meant:
            low, _, high = meant.partition("..")
            return tuple(_name(end, names) if end.strip() else None for end in (low, high))
        return [_name(part, names) for part in meant.split(",")]
    if left_out:
        return None
    meant = meant.removeprefix("=").strip()
    if meant.lower() in _NOTHING and (hint := _left_out(attribute, name)):
        raise QueryError(f"{name} takes finite numbers, not {shown(meant)}{hint}")
    if meant[:1] in _STRICT:
        raise QueryError(f"{name} takes {meant[0]}= and not ={meant[0]}, as in {name}{meant[0]}=5")
    if "..." in meant:
        raise QueryError(f"{name} takes a range with two dots, such as 10..20, not {shown(meant)}")
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
        meant = shown(f"{dashed[1]}..{dashed[2]}")[1:-1]
        raise QueryError(f"{name} takes a range as {meant}, not {shown(text)}")
    raise QueryError(f"{name} takes finite numbers, not {shown(text)}; an end left out is open")
