"""People and the questions that they are asked, to set mechanisms side by side on both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.attributes.base import Attribute
from metricldp.mechanisms import Floats, Integers

_AT_ONCE = 1 << 22
"""Products of factors written out at a time."""
_SMALL = 1 << 16
"""A table with so many cells is never too large."""


# People and questions


@dataclass(frozen=True)
class Crowd:
    """People, as a position for each attribute."""

    attributes: Mapping[str, Attribute]
    positions: Mapping[str, Integers]

    @property
    def n(self) -> int:
        return len(next(iter(self.positions.values())))

    def only(self, names: Sequence[str]) -> Crowd:
        """The same people with some of their attributes."""
        attributes = {name: self.attributes[name] for name in names}
        return Crowd(attributes, {name: self.positions[name] for name in names})

    def some(self, rows: Integers) -> Crowd:
        return Crowd(self.attributes, {name: x[rows] for name, x in self.positions.items()})

    @cached_property
    def cells(self) -> tuple[list[Integers], Floats]:
        """The combinations of positions that somebody has, by attribute, and how many have each."""
        sizes = tuple(a.size for a in self.attributes.values())
        if math.prod(sizes) >= 1 << 62:
            people = np.array(list(self.positions.values()))
            found, counts = np.unique(people, axis=1, return_counts=True)
            return list(found), counts.astype(np.float64)
        codes, counts = np.unique(
            np.ravel_multi_index(tuple(self.positions.values()), sizes), return_counts=True
        )
        return list(np.unravel_index(codes, sizes)), counts.astype(np.float64)

    @cached_property
    def table(self) -> Floats | None:
        """How many people have each combination, where that is not much larger than the people."""
        sizes = tuple(a.size for a in self.attributes.values())
        if math.prod(sizes) > max(_SMALL, 4 * self.n):
            return None
        codes = np.ravel_multi_index(tuple(self.positions.values()), sizes)
        return np.bincount(codes, minlength=math.prod(sizes)).reshape(sizes).astype(np.float64)

    def truth(self, asked: Questions) -> Floats:
        return asked.over(self)


@dataclass(frozen=True)
class Questions:
    """Ranges over some attributes: the first and the last position of each, (questions, 2)."""

    attributes: Mapping[str, Attribute]
    ends: Mapping[str, npt.NDArray[np.int64]]

    @classmethod
    def draw(
        cls, attributes: Mapping[str, Attribute], count: int, rng: np.random.Generator
    ) -> Questions:
        """Both ends of a range are uniform; of categories one is drawn.

        The same generator gives the same ranges relative to the domain, whatever its size.
        """
        ends = {}
        for name, attribute in attributes.items():
            drawn = np.sort((rng.random((count, 2)) * attribute.size).astype(np.int64), axis=1)
            if not attribute.ordered:
                drawn[:, 1] = drawn[:, 0]
            ends[name] = drawn
        return cls(attributes, ends)

    @property
    def count(self) -> int:
        """How many questions there are."""
        return len(next(iter(self.ends.values())))

    @cached_property
    def functions(self) -> dict[str, Floats]:
        """1 inside and 0 outside, (questions, size) for each attribute."""
        found = {}
        for name, ends in self.ends.items():
            grid = np.arange(self.attributes[name].size)
            found[name] = ((ends[:, :1] <= grid) & (grid <= ends[:, 1:])).astype(np.float64)
        return found

    def wheres(self) -> list[dict[str, Any]]:
        """The same in the words of where-clauses."""
        return [
            {name: self._words(name, *ends[k].tolist()) for name, ends in self.ends.items()}
            for k in range(self.count)
        ]

    def _words(self, name: str, first: int, last: int) -> Any:
        attribute = self.attributes[name]
        if not attribute.ordered:
            return attribute.name_of(first)
        return attribute.values_at(first)[0], attribute.values_at(last)[1]

    def over(self, crowd: Crowd, factors: Mapping[str, Floats] | None = None) -> Floats:
        """The sum over people of the product of factors, (questions, size) for each attribute."""
        given = self.functions if factors is None else factors
        if tuple(given) == tuple(crowd.attributes) and crowd.table is not None:
            return _contracted(crowd.table, list(given.values()))
        if not given:
            return np.full(self.count, float(crowd.n))
        cells, counts = crowd.cells
        places = dict(zip(crowd.positions, cells, strict=True))
        step = max(1, _AT_ONCE // self.count)
        found = np.zeros(self.count)
        for start in range(0, len(counts), step):
            part = slice(start, start + step)
            product = counts[part]
            for name, factor in given.items():
                product = product * factor[:, places[name][part]]
            found += product.sum(axis=-1)
        return found


def _contracted(table: Floats, factors: list[Floats]) -> Floats:
    """One attribute after the other summed out of a table of counts, for every question."""
    left = factors[0] @ table.reshape(table.shape[0], -1)
    for factor in factors[1:]:
        left = np.einsum("qx,qxr->qr", factor, left.reshape(*factor.shape, -1))
    return np.asarray(left[:, 0])
