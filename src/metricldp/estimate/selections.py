"""Sets of respondents as disjoint products of parts of attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from metricldp.attributes.answered import NO, YES, response_of
from metricldp.attributes.base import Attribute
from metricldp.attributes.selection import Part, both, either, inside, rest, same
from metricldp.basics.errors import QueryError

MAX_PRODUCTS = 64
"""A condition consists of at most this many products."""


class Subset(NamedTuple):
    """Responses to one attribute: a part of its domain, and whether missing ones are included."""

    part: Part
    missing: bool | None = None
    """None if the attribute is not optional."""

    @property
    def is_empty(self) -> bool:
        return not self.missing and not np.any(inside(self.part))

    @property
    def is_all(self) -> bool:
        return self.missing is not False and self.covers_domain

    @property
    def covers_domain(self) -> bool:
        return bool((inside(self.part) == 1).all())

    def __and__(self, other: Subset) -> Subset:
        return Subset(both(self.part, other.part), self.missing and other.missing)

    def __or__(self, other: Subset) -> Subset:
        return Subset(either(self.part, other.part), self.missing or other.missing)

    def __invert__(self) -> Subset:
        return Subset(rest(self.part), None if self.missing is None else not self.missing)

    def equals(self, other: Subset) -> bool:
        return self.missing == other.missing and same(self.part, other.part)


Product = dict[str, Subset]
"""Respondents whose response to each attribute is in its subset; {} is all respondents."""


def responded(attribute: Attribute, part: Part) -> Subset:
    """Respondents whose response is in a part of the domain."""
    return Subset(part, None if attribute.optional is None else False)


def not_responded(attribute: Attribute) -> Subset:
    """Respondents without a response to an optional attribute."""
    return Subset(np.zeros(attribute.size), True)


def simplified(product: Product) -> Product:
    """The same product without attributes that restrict nothing."""
    return {name: subset for name, subset in product.items() if not subset.is_all}


def intersection(first: Iterable[Product], second: Sequence[Product]) -> list[Product]:
    """Respondents in one of the first and in one of the second products."""
    pairs = ((one, other) for one in first for other in second)
    products: list[Product] = []
    for one, other in pairs:
        product = dict(one)
        for name, subset in other.items():
            product[name] = product[name] & subset if name in product else subset
        if not any(product[name].is_empty for name in other):
            products.append(product)
        if len(products) > MAX_PRODUCTS:
            raise _too_many()
    return products


def union(parts: Sequence[Sequence[Product]]) -> list[Product]:
    """Respondents in at least one of several lists, as products that exclude each other."""
    products: list[Product] = []
    remaining: list[Product] = [{}]
    for part in _by_attribute(parts):
        products += intersection(remaining, part)
        if len(products) > MAX_PRODUCTS:
            raise _too_many()
        for product in part:
            remaining = intersection(remaining, _complement_of_product(product))
    return products


def complement(products: Sequence[Product]) -> list[Product]:
    """Respondents in none of the products."""
    remaining: list[Product] = [{}]
    for product in products:
        remaining = intersection(remaining, _complement_of_product(product))
    return remaining


def merged(products: Iterable[Product]) -> list[Product]:
    """The same respondents; products that differ in one attribute are joined."""
    result: list[Product] = []
    for product in products:
        joined = product
        while (place := _neighbour(result, joined)) is not None:
            index, name = place
            other = result.pop(index)
            joined = simplified({**other, name: other[name] | joined[name]})
        result.append(joined)
    return result


def factors_of(product: Product) -> list[dict[str, Part]]:
    """The product in terms of the attributes of reports, where responding is one of them.

    There are several if a subset of an optional attribute includes missing and other responses.
    """
    alternatives: list[dict[str, Part]] = [{}]
    for name, subset in product.items():
        pairs = ((one, other) for one in alternatives for other in _alternatives(name, subset))
        alternatives = [
            {**one, **{n: both(one[n], p) if n in one else p for n, p in other.items()}}
            for one, other in pairs
        ]
        if len(alternatives) > MAX_PRODUCTS:
            raise _too_many()
    return [one for one in alternatives if all(np.any(inside(part)) for part in one.values())]


def _alternatives(name: str, subset: Subset) -> list[Mapping[str, Part]]:
    values = {} if subset.covers_domain else {name: subset.part}
    if subset.missing is None:
        return [values]
    if subset.is_all:
        return [{}]
    alternatives: list[Mapping[str, Part]] = []
    if np.any(inside(subset.part)):
        alternatives.append({response_of(name): YES, **values})
    if subset.missing:
        alternatives.append({response_of(name): NO})
    return alternatives


def _by_attribute(parts: Sequence[Sequence[Product]]) -> list[Sequence[Product]]:
    """The same union; conditions on one attribute are joined."""
    single: dict[str, Subset] = {}
    others: list[Sequence[Product]] = []
    for part in parts:
        if len(part) == 1 and len(part[0]) == 1:
            ((name, subset),) = part[0].items()
            single[name] = single[name] | subset if name in single else subset
        else:
            others.append(part)
    return [[simplified({name: subset})] for name, subset in single.items()] + others


def _complement_of_product(product: Product) -> list[Product]:
    """Respondents outside the first subset, or in it and outside the second, and so on."""
    products: list[Product] = []
    inner: Product = {}
    for name, subset in product.items():
        outside = ~subset
        if not outside.is_empty:
            products.append({**inner, name: outside})
        inner[name] = subset
    return products


def _neighbour(products: Sequence[Product], product: Product) -> tuple[int, str] | None:
    """A product that differs in one attribute only, and that attribute."""
    for index, other in enumerate(products):
        if other.keys() == product.keys():
            different = [name for name in other if not other[name].equals(product[name])]
            if len(different) == 1:
                return index, different[0]
    return None


def _too_many() -> QueryError:
    return QueryError(
        f"the condition has more than {MAX_PRODUCTS} parts that exclude each other; "
        "use fewer alternatives over different attributes"
    )
