"""Queries: which people and which function of them. Descriptions only; nothing is computed here."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from metricldp.answers.conditions import ALL, ANY, Condition, Where, all_of, any_of, none_of
from metricldp.attributes.answered import NO, YES, answered
from metricldp.attributes.base import Attribute
from metricldp.attributes.selection import Chosen, Span
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number, is_whole
from metricldp.basics.text import guess, listed, plain, shown
from metricldp.design.plans import workload_of
from metricldp.design.workloads import Workload
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement

MOST_PRODUCTS = 64
"""A where-clause is cut into so many parts at most, each a product of functions."""
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
OPERATORS = ("or", "and", "not", "(", ")")
_BETWEEN = re.compile(r"(?i)(?:^|(?<=[\s()]))(or|and|not)(?=[\s()])|((?<![^\s(])\()|(\)(?![^\s)]))")
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
    """A where-clause as one query; a refusal of one that has to be asked in parts."""
    found = parse_all(survey, where, about)
    if len(found) > 1:
        raise QueryError(
            f"{found[0].words} is asked in {len(found)} parts, which counts, shares, sums, means "
            "and histograms can be; here, give each attribute a range or a list of its own"
        )
    return found[0]


def parse_all(survey: Agreement, where: Where | None, about: str | None = None) -> list[Query]:
    """A where-clause as queries of which each person meets one at most; all have its words.

    A or B is A, and B without A. Not (A and B) is not A, and A without B.
    """
    if not isinstance(where, Condition):
        return [_parsed(survey, where, about)]
    factors, words, notes = _products(survey, where)
    there = {} if about is None else if_answered(survey, about)
    if there:
        factors = [product for f in factors if (product := _both(f, there)) is not None]
    if not factors:
        raise QueryError(f"nobody can be {words}; its conditions exclude each other")
    return [Query(product, words, notes) for product in _fewer(factors)]


Product = dict[str, Span | npt.NDArray[Any]]


def _products(survey: Agreement, where: Where) -> tuple[list[Product], str, tuple[str, ...]]:
    """Products that exclude each other, the words of the whole, and its notes."""
    if not isinstance(where, Condition):
        query = _parsed(survey, where, None)
        words = query.words if len(where) == 1 else f"({query.words})"
        return [dict(query.factors)], words, query.notes
    found = [_products(survey, part) for part in where.parts]
    said = [words for _, words, _ in found]
    notes = tuple(dict.fromkeys(note for _, _, some in found for note in some))
    if where.kind == ALL:
        products: list[Product] = [{}]
        for some, _, _ in found:
            products = _meeting(products, some)
        return products, " and ".join(said), notes
    products, rest = [], [cast(Product, {})]
    for some, _, _ in found:
        products += _meeting(rest, some)
        for one in some:
            rest = _meeting(rest, _without(survey, one))
    if where.kind == ANY:
        return products, f"({' or '.join(said)})", notes
    return rest, f"not {said[0]}" if len(said) == 1 else f"not ({' or '.join(said)})", notes


def _meeting(some: Sequence[Product], others: Sequence[Product]) -> list[Product]:
    """What is in one of some and in one of others."""
    found = [both for one in some for other in others if (both := _both(one, other)) is not None]
    if len(found) > MOST_PRODUCTS:
        raise QueryError(
            f"a where-clause of more than {MOST_PRODUCTS} parts would take long; ask for less"
        )
    return found


def _both(one: Mapping[str, Any], other: Mapping[str, Any]) -> Product | None:
    found = dict(one)
    for name, function in other.items():
        if name in found:
            mine, theirs = _values(found[name]), _values(function)
            found[name] = mine if np.array_equal(mine, theirs) and _plain(mine) else mine * theirs
            if not np.any(found[name]):
                return None
        else:
            found[name] = function
    return found


def _without(survey: Agreement, product: Mapping[str, Any]) -> list[Product]:
    """Everybody else: who fails the first condition, or meets it and fails the second, ..."""
    found: list[Product] = []
    met: Product = {}
    for name, function in product.items():
        left = 1.0 - _values(function)
        if np.any(left):
            found.append({**met, name: left})
        met[name] = function
    return found


def _fewer(products: list[Product]) -> list[Product]:
    """The same, with two that differ in one attribute put together where they can be."""
    found: list[Product] = []
    for product in products:
        joined = product
        while (place := _beside(found, joined)) is not None:
            joined = _joined_products(found.pop(place[0]), joined, place[1])
        found.append(joined)
    return found


def _beside(found: Sequence[Product], product: Product) -> tuple[int, str] | None:
    for place, other in enumerate(found):
        if other.keys() == product.keys():
            apart = [n for n in other if not np.array_equal(_values(other[n]), _values(product[n]))]
            if len(apart) == 1:
                return place, apart[0]
    return None


def _joined_products(one: Product, other: Product, name: str) -> Product:
    function = _values(one[name]) + _values(other[name])
    rest = {key: value for key, value in one.items() if key != name}
    return rest if (function == 1).all() else {**rest, name: function}


def _values(function: Any) -> npt.NDArray[np.float64]:
    inside = function.inside if isinstance(function, Span) else function
    return np.asarray(inside, dtype=np.float64)


def _plain(function: npt.NDArray[np.float64]) -> bool:
    return bool(((function == 0) | (function == 1)).all())


def _parsed(survey: Agreement, where: Any, about: str | None) -> Query:
    """A count query from a plain where-clause, None for everybody; whole domains are dropped.

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
        part = chosen(described, meant, name)
        words.append(f"{name} {part.words}")
        if part.note:
            notes.append(part.note)
        if not part.whole:
            factors[name] = part.part
    if about is not None and about not in where and (there := if_answered(survey, about)):
        factors |= there
        words.append(f"{about} answered")
    return Query(factors, ", ".join(words) or EVERYBODY, tuple(notes))


def chosen(described: Attribute, meant: Any, name: str) -> Chosen:
    """The positions of one entry; of a list with ranges in it, those of any of them."""
    if isinstance(meant, Chosen):
        return meant
    if not isinstance(meant, list) or not any(isinstance(part, tuple) for part in meant):
        return described.choose(meant, name)
    parts = [described.choose(part, name) for part in meant]
    inside = np.maximum.reduce([_values(part.inside) for part in parts])
    words = " or ".join(part.words for part in parts)
    note = "; ".join(dict.fromkeys(part.note for part in parts if part.note)) or None
    return Chosen.of(inside > 0, words, note) if _plain(inside) else Chosen(inside, words, note)


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


def parse_text(survey: Agreement, words: list[str]) -> Where:
    """A where-clause from command-line words such as age=18..29, age>=18 or region=north,south.

    Words that follow each other all have to be met; `or`, `not` and parentheses may stand between
    them, as words of their own or inside of one in quotes.
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
    return [_lowered(part) for part in parts] if several else [_lowered(word)]


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
