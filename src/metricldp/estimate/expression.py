"""Conditions as in `pandas.DataFrame.query`, parsed with `ast` and never evaluated.

A comparison with a missing response is neither true nor false, as in SQL. Negations are moved to
the comparisons (De Morgan's laws hold in three-valued logic), and a negated comparison selects only
those who responded. What remains are unions and intersections.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from metricldp.attributes.base import Attribute
from metricldp.attributes.selection import Chosen, Part, both, inside, rest
from metricldp.basics.errors import QueryError
from metricldp.basics.text import guess, listed, shown
from metricldp.estimate.selections import (
    Product,
    Subset,
    intersection,
    not_responded,
    responded,
    simplified,
    union,
)
from metricldp.estimate.source import EXAMPLE, Source
from metricldp.survey.agreement import Agreement

MAX_COMPARISONS = 100
_SYMBOLS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}
_NEGATED = {"==": "!=", "!=": "==", "in": "not in", "not in": "in", "is": "is not", "is not": "is"}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}


class Comparison(NamedTuple):
    """An attribute, a symbol and a literal, with the positions of the first and the last."""

    name: str
    symbol: str
    value: Any
    name_at: int
    value_at: int
    negated: bool = False
    """Whether a comparison by order has to be false. Each has to be possible as it is written."""
    members_at: tuple[int, ...] = ()
    """The positions of the values of a list."""


@dataclass(frozen=True)
class Combination:
    """Conditions of which all or any hold."""

    every: bool
    parts: tuple[Comparison | Combination, ...]


Formula = Comparison | Combination


class Selection(NamedTuple):
    """The respondents that a condition selects, in words, with notes about its meaning."""

    products: list[Product]
    words: str
    notes: tuple[str, ...]


def select(survey: Agreement, text: str) -> Selection:
    """The respondents for whom a condition is true."""
    source = Source.of(text)
    formula = _Reader(source).formula()
    names = [name for name, attribute in survey.attributes.items() if not attribute.asks_whether]
    for comparison in _comparisons(formula):
        if comparison.name not in names:
            there = f"{listed(names)}{guess(comparison.name, names)}"
            message = f"the survey has no attribute {_brief(comparison.name)}; it has {there}"
            raise source.error(message, comparison.name_at)
    return _Selector(survey, source).selection(formula)


def entries(text: str) -> list[tuple[str, Any]]:
    """Each attribute that a condition compares, with values, a pair of ends, or None."""
    result: list[tuple[str, Any]] = []
    for name, symbol, value, *_ in _comparisons(_Reader(Source.of(text)).formula()):
        if symbol[0] in "<>":
            result.append((name, (value, None) if symbol[0] == ">" else (None, value)))
        else:
            result.append((name, value))
    return result


def _comparisons(formula: Formula) -> list[Comparison]:
    if isinstance(formula, Comparison):
        return [formula]
    return [one for part in formula.parts for one in _comparisons(part)]


class _Reader:
    """Turns a text into comparisons that are joined by and, or."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.encoded = source.python.encode()

    def formula(self) -> Formula:
        # Parentheses let leading spaces pass; they move positions by one.
        try:
            tree = ast.parse(f"({self.source.python})", mode="eval")
        except SyntaxError as error:
            position = min(max((error.offset or 2) - 2, 0), max(len(self.source.text) - 1, 0))
            message = f"the condition cannot be read here; write conditions such as {EXAMPLE}"
            raise self.source.error(message, position) from None
        except (RecursionError, MemoryError, ValueError):
            raise QueryError(
                "the condition is nested too deep or has too large numbers; write a simpler one"
            ) from None
        formula = self._formula(tree.body, negated=False)
        if len(_comparisons(formula)) > MAX_COMPARISONS:
            raise QueryError(
                f"the condition has more than {MAX_COMPARISONS} comparisons; write lists, as in "
                "region in ['north', 'south']"
            )
        return formula

    def _at(self, node: ast.expr) -> int:
        """The position of a node in characters; `ast` counts bytes."""
        return len(self.encoded[: node.col_offset - 1].decode())

    def _formula(self, node: ast.expr, *, negated: bool) -> Formula:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._formula(node.operand, negated=not negated)
        if isinstance(node, ast.BoolOp):
            every = isinstance(node.op, ast.And) != negated
            parts: list[Formula] = []
            for value in node.values:
                part = self._formula(value, negated=negated)
                nested = isinstance(part, Combination) and part.every == every
                parts += part.parts if isinstance(part, Combination) and nested else [part]
            return Combination(every, tuple(parts))
        if isinstance(node, ast.Compare):
            return self._chain(node, negated=negated)
        if (name := self._name(node)) is not None:
            message = f"{_brief(name)} is not a condition; compare it with a value, as in {EXAMPLE}"
            raise self.source.error(message, self._at(node))
        raise self.source.error(f"a condition is expected here, as in {EXAMPLE}", self._at(node))

    def _chain(self, node: ast.Compare, *, negated: bool) -> Formula:
        operands = [node.left, *node.comparators]
        comparisons = []
        for left, operator, right in zip(operands, node.ops, node.comparators, strict=False):
            symbol = _SYMBOLS[type(operator)]
            comparison = self._comparison(left, symbol, right)
            if negated:
                opposite = _NEGATED.get(comparison.symbol)
                comparison = comparison._replace(
                    symbol=opposite or comparison.symbol, negated=opposite is None
                )
            comparisons.append(comparison)
        if len(comparisons) == 1:
            return comparisons[0]
        return Combination(not negated, tuple(comparisons))

    def _comparison(self, left: ast.expr, symbol: str, right: ast.expr) -> Comparison:
        if self._name(left) is None and self._name(right) is not None and symbol in _MIRRORED:
            left, symbol, right = right, _MIRRORED[symbol], left
        name = self._name(left)
        if name is None:
            message = "a comparison needs the name of an attribute, as in 18 <= age"
            raise self.source.error(message, self._at(left))
        if (other := self._name(right)) is not None and symbol in _MIRRORED:
            message = (
                f"{_brief(name)} is compared with a name; compare it with a value, and write a "
                f"category in quotes, {_brief(other)}"
            )
            raise self.source.error(message, self._at(right))
        value = self._operand(right, symbol, name)
        members = right.elts if isinstance(right, ast.List | ast.Tuple) else ()
        members_at = tuple(map(self._at, members))
        return Comparison(
            name, symbol, value, self._at(left), self._at(right), members_at=members_at
        )

    def _operand(self, node: ast.expr, symbol: str, name: str) -> Any:
        if symbol in ("is", "is not"):
            if not _is_none(node):
                message = "only None follows is; compare with =="
                raise self.source.error(message, self._at(node))
            return None
        for value in node.elts if isinstance(node, ast.List | ast.Tuple) else [node]:
            if _is_none(value):
                message = f"missing responses are selected by {name} is None, or is not None"
                raise self.source.error(message, self._at(value))
        if symbol in ("in", "not in"):
            if not isinstance(node, ast.List | ast.Tuple):
                message = f"a list follows {symbol}, such as ['north', 'south']"
                raise self.source.error(message, self._at(node))
            if not node.elts:
                raise self.source.error("the list is empty; write values in it", self._at(node))
            return [self._literal(element) for element in node.elts]
        if isinstance(node, ast.List):
            message = f"a list follows in or not in; write in for {symbol}"
            raise self.source.error(message, self._at(node))
        return self._literal(node)

    def _name(self, node: ast.expr) -> str | None:
        """The name as it is written: `ast` normalises some letters."""
        if not isinstance(node, ast.Name):
            return None
        start = self._at(node)
        length = len(self.encoded[node.col_offset - 1 : (node.end_col_offset or 0) - 1].decode())
        return self.source.quoted.get(start, self.source.text[start : start + length])

    def _literal(self, node: ast.expr) -> Any:
        number, sign = node, 1
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            number, sign = node.operand, -1 if isinstance(node.op, ast.USub) else 1
        value = number.value if isinstance(number, ast.Constant) else ...
        if isinstance(value, str | bool) and number is node:
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            if isinstance(value, int) and value.bit_length() > 53:
                value = float(value) if value.bit_length() <= 1023 else math.inf
            if not math.isfinite(value):
                raise self.source.error("the number is too large", self._at(node))
            return sign * value
        message = "a value is expected here: a number, or a text in quotes"
        raise self.source.error(message, self._at(node))


class _Selector:
    """Applies a formula to the attributes of a survey."""

    def __init__(self, survey: Agreement, source: Source) -> None:
        self.survey = survey
        self.source = source
        self.notes: dict[str, None] = {}
        self.empty_range: QueryError | None = None
        """The error to raise if nothing else is selected."""

    def selection(self, formula: Formula) -> Selection:
        products, words = self._products(formula)
        if not products:
            raise self.empty_range or QueryError(
                f"no respondent can satisfy {words}; its conditions exclude each other"
            )
        return Selection(products, words, tuple(self.notes))

    def _products(self, formula: Formula) -> tuple[list[Product], str]:
        if isinstance(formula, Comparison):
            return self._one([formula])
        parts = self._joined_ranges(formula) if formula.every else [[p] for p in formula.parts]
        results = [self._one(part) for part in parts]
        labels = [words for _, words in results]
        if not formula.every:
            labels = [f"({words})" if ", " in words else words for words in labels]
            return union([products for products, _ in results]), f"({' or '.join(labels)})"
        products: list[Product] = [{}]
        for some, _ in results:
            products = intersection(products, some)
        return products, ", ".join(labels)

    def _joined_ranges(self, formula: Combination) -> list[list[Formula]]:
        """The parts; a lower and an upper bound of one attribute that follow each other are one."""
        groups: list[list[Formula]] = []
        for part in formula.parts:
            last = groups[-1] if groups else []
            if len(last) == 1 and _are_bounds(last[0], part):
                last.append(part)
            else:
                groups.append([part])
        return groups

    def _one(self, parts: Sequence[Formula]) -> tuple[list[Product], str]:
        first = parts[0]
        if isinstance(first, Combination):
            return self._products(first)
        attribute = self.survey.attributes[first.name]
        if attribute.is_weight:
            self._chosen(attribute, first.name, first.value, first.name_at)
        if first.symbol in ("is", "is not"):
            subset, words = self._missing(attribute, first)
        elif first.symbol[0] in "<>":
            bounds = [part for part in parts if isinstance(part, Comparison)]
            subset, words = self._range(attribute, bounds)
        else:
            subset, words = self._members(attribute, first)
        product = simplified({first.name: subset})
        return ([] if subset.is_empty else [product]), f"{first.name} {words}"

    def _missing(self, attribute: Attribute, comparison: Comparison) -> tuple[Subset, str]:
        if attribute.optional is None:
            message = (
                f"{comparison.name} is not optional, so no response to it is missing; leave this "
                "comparison out"
            )
            raise self.source.error(message, comparison.name_at)
        missing = not_responded(attribute)
        return (
            (missing, "is missing") if comparison.symbol == "is" else (~missing, "is not missing")
        )

    def _members(self, attribute: Attribute, comparison: Comparison) -> tuple[Subset, str]:
        """The values of ==, !=, in and not in."""
        name, value = comparison.name, comparison.value
        values = value if isinstance(value, list) else [value]
        positions = comparison.members_at or (comparison.value_at,)
        at = positions[0]
        for one, position in zip(values, positions, strict=True):
            self._check_kind(attribute, name, one, position)
        if attribute.rounded_at_random:
            message = f"{name} is continuous; compare it by <, <=, > or >="
            raise self.source.error(message, at)
        alone = attribute.in_bins or len(values) == 1
        if not alone:
            at = positions[_first_invalid(attribute, name, values)]
        chosen = self._chosen(attribute, name, values[0] if alone else values, at)
        subset = responded(attribute, chosen.part)
        if comparison.symbol in ("==", "in"):
            return subset, chosen.words
        return responded(attribute, rest(chosen.part)), f"not {chosen.words}"

    def _range(self, attribute: Attribute, bounds: Sequence[Comparison]) -> tuple[Subset, str]:
        """A range with one or two ends; each end is checked by itself, for its position."""
        low = high = None
        parts: list[Part] = []
        for bound in bounds:
            name, symbol, at, negated = bound.name, bound.symbol, bound.value_at, bound.negated
            end = self._end(attribute, bound)
            ends = (end, None) if symbol[0] == ">" else (None, end)
            chosen = self._chosen(attribute, name, ends, at, noted=len(bounds) == 1)
            if attribute.in_bins and symbol in (">", "<=") and not np.all(chosen.inside):
                inside_or_not = "is included" if symbol == ">" else "is not included"
                note = f"bins of {name} include their lower edge, so {end:,g} {inside_or_not}"
                self.notes[note] = None
            parts.append(chosen.part)
            low, high = (low if ends[0] is None else end), (high if ends[1] is None else end)
        if len(bounds) == 2:
            part = both(*parts)
            if not np.any(inside(part)):
                remedy = "exchange its ends" if _are_reversed(attribute, bounds) else "widen it"
                if attribute.is_cyclic:
                    remedy = f"around the circle it is {name} >= {low} or {name} <= {high}"
                message = f"no {name} is in this range; {remedy}"
                self.empty_range = self.empty_range or self.source.error(
                    message, bounds[0].value_at
                )
                return responded(attribute, part), "in an empty range"
            chosen = self._chosen(attribute, name, (low, high), bounds[0].value_at)
        if negated:
            return responded(attribute, rest(chosen.part)), f"not {chosen.words}"
        return responded(attribute, chosen.part), chosen.words

    def _end(self, attribute: Attribute, bound: Comparison) -> Any:
        """The last value inside, of which < and > exclude their own."""
        name, symbol, value, at = bound.name, bound.symbol, bound.value, bound.value_at
        self._check_kind(attribute, name, value, at)
        if not attribute.ordered:
            message = f"{name} has no order; use ==, !=, in or not in"
            raise self.source.error(message, at)
        if not attribute.named:
            if isinstance(value, bool):
                message = f"{name} is a number; compare it with a number, as in {name} >= 1"
                raise self.source.error(message, at)
            return attribute.beyond(value, above=symbol == ">") if symbol in "<>" else value
        self._chosen(attribute, name, value, at)
        labels = [attribute.name_of(k) for k in range(attribute.size)]
        position = labels.index(value) + {"<": -1, ">": 1}.get(symbol, 0)
        if not 0 <= position < attribute.size:
            message = (
                f"{name} has nothing {symbol} {shown(value)}; {name} is {attribute.describe()}"
            )
            raise self.source.error(message, at)
        return labels[position]

    def _check_kind(self, attribute: Attribute, name: str, value: Any, at: int) -> None:
        """Reject a number in place of a label, and the reverse."""
        if attribute.named and not isinstance(value, str):
            labels = [attribute.name_of(k) for k in range(attribute.size)]
            known = str(value) in labels
            remedy = f"write {str(value)!r} in quotes" if known else f"it can be {listed(labels)}"
            raise self.source.error(f"{name} has no value {shown(value)}; {remedy}", at)
        if not attribute.named and isinstance(value, str):
            message = f"{name} is a number, and {_brief(value)} is a text; write it without quotes"
            raise self.source.error(message, at)

    def _chosen(
        self, attribute: Attribute, name: str, value: Any, at: int, *, noted: bool = True
    ) -> Chosen:
        try:
            chosen = attribute.choose(value, name)
        except QueryError as error:
            raise self.source.error(str(error), at) from None
        if noted and chosen.note:
            self.notes[chosen.note] = None
        return chosen


def _are_bounds(one: Formula, other: Formula) -> bool:
    """Whether two comparisons bound one attribute below and above."""
    if not isinstance(one, Comparison) or not isinstance(other, Comparison):
        return False
    opposite = {one.symbol[0], other.symbol[0]} == {"<", ">"}
    return one.name == other.name and opposite and not one.negated and not other.negated


def _are_reversed(attribute: Attribute, bounds: Sequence[Comparison]) -> bool:
    """Whether the lower end of a range, as it is written, is above the upper end."""
    low, high = sorted(bounds, key=lambda bound: bound.symbol, reverse=True)
    if not attribute.named:
        return bool(low.value > high.value)
    labels = [attribute.name_of(k) for k in range(attribute.size)]
    return labels.index(low.value) > labels.index(high.value)


def _first_invalid(attribute: Attribute, name: str, values: list[Any]) -> int:
    """The place of the first value that an attribute does not have, by bisection; 0 if none."""
    valid, invalid = 0, len(values)
    if _can_choose(attribute, name, values):
        return 0
    while invalid - valid > 1:
        middle = (valid + invalid) // 2
        if _can_choose(attribute, name, values[:middle]):
            valid = middle
        else:
            invalid = middle
    return valid


def _can_choose(attribute: Attribute, name: str, values: list[Any]) -> bool:
    try:
        attribute.choose(values, name)
    except QueryError:
        return False
    return True


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _brief(name: str) -> str:
    return shown(name if len(name) <= 30 else f"{name[:27]}...")
