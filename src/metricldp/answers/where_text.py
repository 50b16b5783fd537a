"""Where-clauses as people type them: age=18..29, 'income>=50000', region=north or not age=..17."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from metricldp.answers.conditions import Where, all_of, any_of, none_of
from metricldp.answers.queries import UNANSWERED
from metricldp.attributes.base import Attribute
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import plain, shown
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement

_DASHED = re.compile(r"\s*(-?[\d.]+)\s*(?:-|–|:|to)\s*(-?[\d.]+)\s*")
"""A range as people also write it."""
_SIGN = r"\s*(<=|>=|!=|<>|<|>)\s*"
_COMPARED = re.compile(rf"\s*([^<>=!]+?){_SIGN}([^<>=!]+?)(?:{_SIGN}([^<>=!]+?))?\s*")
"""A condition with signs instead of an equals sign."""
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""What a sign becomes when its two sides change places."""
_STRICT = ("<", ">")
OPERATORS = ("or", "and", "not", "(", ")")
_BETWEEN = re.compile(r"(?i)(?:^|(?<=[\s()]))(or|and|not)(?=[\s()])|((?<![^\s(])\()|(\)(?![^\s)]))")
_SIGNS = {"≤": "<=", "≥": ">=", "≠": "!="}


_NOTHING = ("none", "null", "na", "n/a", "nan", "missing")
"""What the command line says for the people who left an optional attribute out."""


def parse_text(survey: Agreement, words: list[str]) -> Where:
    """A where-clause from command-line words such as age=18..29, age>=18 or region=north,south.

    Words that follow each other all have to be met; `or`, `not` and parentheses may stand between
    them, as words of their own or inside of one in quotes, which is then in parentheses: what
    stands in quotes is one condition, wherever it stands.
    """
    tokens = [token for word in words for token in _tokens(survey, word)]
    if not any(token in OPERATORS for token in tokens):
        return _conditions(survey, tokens)
    found, rest = _any(survey, tokens)
    if rest:
        raise QueryError(f"the where-clause goes on behind its end with {shown(rest[0])}")
    return found


def _tokens(survey: Agreement, word: str) -> list[str]:
    """A word; or its parts, where it holds conditions with operators between them."""
    parts = [part.strip() for part in _BETWEEN.split(word) if part and part.strip()]
    inner = [part for part in parts if part.lower() not in OPERATORS]
    several = len(parts) > 1 and parts.count("(") == parts.count(")")
    several = several and all(_names_one(survey, part) for part in inner)
    if not several:
        return [_lowered(word)]
    found = [_lowered(part) for part in parts]
    return found if found[0] in ("or", "and") else ["(", *found, ")"]


def _lowered(token: str) -> str:
    return token.lower() if token.lower() in OPERATORS else token


def _names_one(survey: Agreement, part: str) -> bool:
    """Whether it looks like a condition on an attribute that there is."""
    return any(
        re.match(rf"{re.escape(name)}\s*([=<>!≤≥≠])", part)
        or re.search(rf"[<>≤≥]=?\s*{name}", part)
        for name in survey.attributes
    )


def _any(survey: Agreement, tokens: list[str]) -> tuple[Where, list[str]]:
    found, rest = _all(survey, tokens)
    parts = [found]
    while rest and rest[0] == "or":
        found, rest = _all(survey, rest[1:])
        parts.append(found)
    return (parts[0] if len(parts) == 1 else any_of(*parts)), rest


def _all(survey: Agreement, tokens: list[str]) -> tuple[Where, list[str]]:
    parts: list[Where] = []
    plain: list[str] = []
    rest = tokens
    while rest and rest[0] not in ("or", ")"):
        token, *rest = rest
        if token == "and":
            continue
        if token == "not":
            one, rest = _one(survey, rest)
            parts.append(none_of(one))
        elif token == "(":
            one, rest = _one(survey, [token, *rest])
            parts.append(one)
        else:
            plain.append(token)
    if plain:
        parts.insert(0, _conditions(survey, plain))
    if not parts:
        raise QueryError("a condition is missing beside 'or', 'and', 'not' or a parenthesis")
    return (parts[0] if len(parts) == 1 else all_of(*parts)), rest


def _one(survey: Agreement, tokens: list[str]) -> tuple[Where, list[str]]:
    """A condition, or what stands in parentheses."""
    if tokens and tokens[0] == "(":
        found, rest = _any(survey, tokens[1:])
        if not rest or rest[0] != ")":
            raise QueryError("a parenthesis of the where-clause is not closed")
        return found, rest[1:]
    if tokens and tokens[0] == "not":
        found, rest = _one(survey, tokens[1:])
        return none_of(found), rest
    if not tokens or tokens[0] in OPERATORS:
        raise QueryError("'not' stands before a condition, such as not age=18..29")
    return _conditions(survey, tokens[:1]), tokens[1:]


def _conditions(survey: Agreement, words: Sequence[str]) -> dict[str, Any]:
    """Conditions that all have to be met."""
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
        if ".." in meant and "," in meant:
            return [_parse_meant(attribute, name, part) for part in meant.split(",")]
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
    if ".." in meant and "," in meant:
        return [_parse_meant(attribute, name, part) for part in meant.split(",")]
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
