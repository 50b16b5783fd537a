"""Queries: which people and which function of them. Descriptions only; nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.answers.conditions import ALL, ANY, Condition, Where, attributes_in, check_mapping
from metricldp.attributes.answered import YES, response_of
from metricldp.attributes.base import Attribute
from metricldp.attributes.selection import (
    Chosen,
    Part,
    Span,
    Stretches,
    either,
    inside,
)
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_whole
from metricldp.basics.text import guess, listed, shown
from metricldp.estimate.expression import Selection, select
from metricldp.estimate.selections import (
    Product,
    complement,
    factors_of,
    intersection,
    merged,
    not_responded,
    responded,
    simplified,
    union,
)
from metricldp.mechanisms.stated import workload_of
from metricldp.mechanisms.workloads import Workload
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement

EVERYBODY = "all respondents"


@dataclass(frozen=True)
class Query:
    """The sum over people of a product of functions, one of each attribute named."""

    factors: Mapping[str, Part]
    """A function of the position, or the part of the domain where it is 1 and not 0."""
    words: str
    notes: tuple[str, ...] = ()

    @property
    def functions(self) -> Mapping[str, npt.NDArray[np.float64]]:
        """The value of each function at each position."""
        arrays = {name: inside(part) for name, part in self.factors.items()}
        return {name: array.astype(np.float64, copy=False) for name, array in arrays.items()}

    @property
    def among(self) -> str:
        """The condition, as it follows the words of a statistic; empty without a condition."""
        return "" if self.words == EVERYBODY else f" among {self.words}"


def parse(survey: Agreement, where: Where | None, target: str | None = None) -> Query:
    """A where-clause as one query; a refusal of one that has to be asked in parts."""
    found = parse_all(survey, where, target)
    if len(found) > 1:
        raise QueryError(
            f"{found[0].words} is a union of {len(found)} parts, which this query does not "
            "take; use a range or a list for each attribute, joined with and"
        )
    return found[0]


def parse_all(survey: Agreement, where: Where | None, target: str | None = None) -> list[Query]:
    """A where-clause as queries of which each person meets one at most; all have its words.

    A or B is A, and B without A. Not (A and B) is not A, and A without B.
    """
    if not isinstance(where, Condition | str):
        return [_parsed(survey, where, target)]
    products, words, notes = _selection(survey, where)
    if target is not None and attribute_of(survey, target).optional is not None:
        attribute = attribute_of(survey, target)
        whole = Span(0, attribute.size, attribute.size)
        products = intersection(products, [{target: responded(attribute, whole)}])
        if isinstance(where, str) and target not in attributes_in(where):
            words = f"{words}, {target} is not missing"
    if not products:
        raise QueryError(f"{words} selects no possible value; its conditions exclude each other")
    alternatives = [factors for product in merged(products) for factors in factors_of(product)]
    return [Query(factors, words, notes) for factors in alternatives]


def _selection(survey: Agreement, where: Where) -> Selection:
    """Products that exclude each other, the words of the whole, and its notes."""
    if isinstance(where, str):
        return select(survey, where)
    if not isinstance(where, Condition):
        product, labels, notes = _conjunction(survey, where, None)
        words = ", ".join(labels) or EVERYBODY
        return Selection([product], words if len(where) == 1 else f"({words})", notes)
    parts = [_selection(survey, part) for part in where.parts]
    labels = [
        f"({words})" if isinstance(part, str) and ", " in words else words
        for part, (_, words, _) in zip(where.parts, parts, strict=True)
    ]
    notes = tuple(dict.fromkeys(note for _, _, some in parts for note in some))
    if where.kind == ALL:
        products: list[Product] = [{}]
        for some, _, _ in parts:
            products = intersection(products, some)
        return Selection(products, " and ".join(labels), notes)
    products = union([some for some, _, _ in parts])
    if where.kind == ANY:
        return Selection(products, f"({' or '.join(labels)})", notes)
    words = f"not {labels[0]}" if len(labels) == 1 else f"not ({' or '.join(labels)})"
    return Selection(complement(products), words, notes)


def _parsed(survey: Agreement, where: Any, target: str | None) -> Query:
    """A count query from a plain where-clause, None for everybody; whole domains are dropped.

    An optional attribute is read together with whether it has a response: here, and where the
    question is `about` one.
    """
    product, words, notes = _conjunction(survey, {} if where is None else where, target)
    (factors,) = factors_of(product)
    if target is not None and target not in product and (there := if_answered(survey, target)):
        factors |= there
        words.append(f"{target} is not missing")
    return Query(factors, ", ".join(words) or EVERYBODY, notes)


def _conjunction(
    survey: Agreement, where: Any, target: str | None
) -> tuple[Product, list[str], tuple[str, ...]]:
    """The product of a plain where-clause, words for each entry, and notes."""
    check_mapping(where)
    product: Product = {}
    words, notes = [], []
    for name, meant in where.items():
        described = attribute_of(survey, name)
        if described.optional is not None and meant is None:
            if name == target:
                raise QueryError(
                    f"{name} is the attribute of the query and excluded by where; remove it "
                    "from where"
                )
            product[name] = not_responded(described)
            words.append(f"{name} is missing")
            continue
        part = chosen(described, meant, name)
        words.append(f"{name} {part.words}")
        if part.note:
            notes.append(part.note)
        product[name] = responded(described, part.part)
    return simplified(product), words, tuple(notes)


def chosen(described: Attribute, meant: Any, name: str) -> Chosen:
    """The positions of one entry; of a list with ranges in it, those of any of them."""
    if isinstance(meant, Chosen):
        return meant
    if not isinstance(meant, list) or not any(isinstance(part, tuple) for part in meant):
        return described.choose(meant, name)
    parts = [described.choose(part, name) for part in meant]
    whole = reduce(either, (part.part for part in parts))
    words = " or ".join(part.words for part in parts)
    note = "; ".join(dict.fromkeys(part.note for part in parts if part.note)) or None
    if isinstance(whole, Stretches):
        found = Chosen(whole, words, note)
        return replace(found, note=None) if found.whole else found
    return Chosen.of(inside(whole) > 0, words, note)


def valued(survey: Agreement, name: str, group: Query) -> tuple[list[Query], Query]:
    """The query of an attribute's values over a group, and the group's own.

    Where a position leaves open what its people add, two more: of the least, and of the most.
    """
    described = attribute_of(survey, name)
    values, note = described.numbers(name)
    within = group.functions.get(name, np.ones(described.size))
    bounds = described.extremes(within) or ()
    if bounds and not note:
        note = f"{name} is open where its range fades; the interval is wider by that"
        note += ", as a bound"
    notes = (*group.notes, note) if note else group.notes
    queries = [
        Query({**group.factors, name: numbers}, f"{name} among {group.words}", notes)
        for numbers in (values * within, *bounds)
    ]
    return queries, group


def asked_of(name: str, labels: Sequence[str], group: Query) -> list[str]:
    """A question for each part of an attribute, in words, with the conditions of the group."""
    return [f"{name} {label}{group.among}" for label in labels]


def if_answered(survey: Agreement, name: str) -> dict[str, Span]:
    """What a question about an attribute is multiplied with: nothing, unless it is optional."""
    return {} if attribute_of(survey, name).optional is None else {response_of(name): YES}


def expected(n: Any, prior: Any, weights: Any) -> tuple[int, Any, Any]:
    """The people that a prediction is for: how many, how they are spread, a sample of weights."""
    if not is_whole(n) or n < 1:
        raise QueryError(
            f"expected errors need n, a number of respondents from 1 on, not {shown(n)}"
        )
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
        raise QueryError(f"{name} is a weight; use its sum")
    if isinstance(rows, str) and rows in ("ranges", "prefixes") and not described.ordered:
        raise QueryError(f"{name} has no order, so no {rows}; use its values")
    if isinstance(rows, str) and rows == "mean":
        described.numbers(name)  # refused where values are names
        raise QueryError(f"the mean of {name} is a query of its own; use mean({name!r})")
    return workload_of(rows, described.size)


def weight_of(survey: Agreement, name: object) -> Any:
    """A weight by name."""
    weights = [n for n, a in survey.attributes.items() if a.kind == "weight"]
    if name not in weights:
        there = f"{listed(weights)}{guess(name, weights)}"
        raise QueryError(f"name one of the survey's weights, not {shown(name)}; it has {there}")
    return survey.attributes[str(name)]
