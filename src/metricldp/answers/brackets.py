"""Brackets: intervals from smooth functions above and below the one that is asked for.

A sum over people of u >= f is at least that of f, whoever the people are. So the upper end of an
interval for u is one for f, and likewise from below. The two functions are chosen for people spread
in a way that was thought of before any report was looked at: the interval holds for all people, and
is short if they are spread about like that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricldp.answers.answer import Estimate, together
from metricldp.answers.estimate import POPULATION
from metricldp.answers.planning import Part, Soft, above
from metricldp.answers.predict import shares_of
from metricldp.answers.queries import Query, expected
from metricldp.answers.ratio import Excess
from metricldp.answers.softening import outer
from metricldp.basics.errors import QueryError
from metricldp.basics.text import shown
from metricldp.mechanisms import Floats
from metricldp.store.cubes import Table
from metricldp.store.readings import attribute_of, involved
from metricldp.survey.agreement import Agreement

Tables = Callable[[tuple[str, ...]], Table]
"""What was counted of some attributes together."""
_Key = tuple[tuple[str, bytes], ...]
_MOST_CELLS = 1 << 22
"""Combinations of positions up to which there are brackets."""
_MOST_AS_ONE = 1 << 10
"""Cells of attributes that are blurred as one up to which planning takes no more than seconds."""
_EVERYWHERE = 0.02
"""The share of people that a planner thinks to be spread evenly, whatever else is said."""


class Planner:
    """Brackets of one survey for people who are thought to be spread in one way."""

    def __init__(self, survey: Agreement, prior: Mapping[str, ArrayLike] | None = None) -> None:
        self.survey = survey
        self.prior: Any = {} if prior is None else prior
        if not isinstance(self.prior, Mapping):
            raise QueryError(
                "a prior has fractions of respondents by attribute, such as "
                f"{{'age': [...]}}, not {shown(prior)}"
            )
        sizes = {name: attribute_of(survey, name).size for name in self.prior}
        _, self.prior, _ = expected(1, dict(self.prior), None)
        said = shares_of(sizes, self.prior) if sizes else []
        arrays = (np.asarray(shares).tobytes() for shares in said)
        self._key = (survey.fingerprint, *zip(sizes, arrays, strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Planner) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def plan(
        self, functions: Mapping[str, Floats], names: tuple[str, ...], n: int, z: float, drawn: bool
    ) -> tuple[Soft, Soft]:
        """The functions below and above."""
        return _planned(self, _key(functions), names, n, z, drawn)

    def parts(self, functions: Mapping[str, Floats], names: tuple[str, ...]) -> list[Part]:
        return [self._part(name, functions) for name in names]

    def made(
        self, functions: Mapping[str, Floats], names: tuple[str, ...], n: int, z: float, drawn: bool
    ) -> tuple[Soft, Soft]:
        """The same, not looked up."""
        parts = self.parts(functions, names)
        # The largest comes first: it is never written out for pairs of knots.
        order = sorted(range(len(parts)), key=lambda d: -parts[d].channel.size)
        found = [above([parts[d] for d in order], sign, n, z, drawn) for sign in (-1, 1)]
        back = np.argsort(order)
        low, high = (soft.ordered(back.tolist()) for soft in found)
        return low.turned(), high

    def _part(self, name: str, functions: Mapping[str, Floats]) -> Part:
        survey, block = self.survey, self.survey.blocks.get(name)
        names = (name,) if block is None else block.names
        attributes = [survey.attributes[one] for one in names]
        sizes = {one: a.size for one, a in zip(names, attributes, strict=True)}
        return Part(
            survey.tabled[name],
            tuple(functions.get(one, np.ones(size)) for one, size in sizes.items()),
            tuple(bool(a.ordered) for a in attributes),
            self.shares(sizes),
        )

    def shares(self, sizes: Mapping[str, int]) -> Floats:
        """How people are spread over the attributes of a part; the prior, and a few everywhere."""
        even = {one: np.full(size, 1 / size) for one, size in sizes.items()}
        said = shares_of(sizes, {**even, **{n: p for n, p in self.prior.items() if n in sizes}})
        assert isinstance(said, list)
        mixed = [
            _EVERYWHERE * e + (1 - _EVERYWHERE) * s
            for e, s in zip(even.values(), said, strict=True)
        ]
        return outer(mixed).reshape(-1)


def _key(functions: Mapping[str, Floats]) -> _Key:
    """Functions as what plans are looked up by."""
    return tuple((name, f.tobytes()) for name, f in functions.items())


def _functions(key: _Key) -> dict[str, Floats]:
    return {name: np.frombuffer(f) for name, f in key}


@lru_cache(maxsize=64)
def _planned(
    planner: Planner, key: _Key, names: tuple[str, ...], n: int, z: float, drawn: bool
) -> tuple[Soft, Soft]:
    return planner.made(_functions(key), names, n, z, drawn)


@dataclass(frozen=True, eq=False)
class Bracket:
    """A question that a planner may have functions above and below for; found when asked for."""

    planner: Planner
    query: Query
    n: int
    tables: Tables
    people: Callable[[], int]
    """How many have reported by now."""

    @cached_property
    def functions(self) -> Mapping[str, Floats]:
        return self.query.functions

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What is blurred of the attributes that matter."""
        return tuple(involved(self.planner.survey, self.functions))

    @property
    def possible(self) -> bool:
        """Whether there is something to soften, and a table of the same reports to read it from."""
        return self._can_be and self.people() == self.n

    @cached_property
    def _can_be(self) -> bool:
        tabled, blocks = self.planner.survey.tabled, self.planner.survey.blocks
        if not self.n or not self.names:
            return False
        if not all(name in tabled and tabled[name].moments.is_linear for name in self.names):
            return False
        if any(tabled[name].size > _MOST_AS_ONE for name in self.names if name in blocks):
            return False
        cells = math.prod(tabled[name].size for name in self.names)
        return cells <= _MOST_CELLS and any(np.ptp(f) for f in self.functions.values())

    def between(self, answer: Estimate, z: float) -> tuple[Estimate, Estimate]:
        """The answers to the functions below and above, read from the reports."""
        low, high = self._plan(answer, z)
        return self._read(low, answer), self._read(high, answer)

    def _read(self, soft: Soft, answer: Estimate) -> Estimate:
        cells = self.tables(self.names).frequencies
        return soft.read(cells, answer, self.n, rounded=self._rounded)

    @property
    def _rounded(self) -> bool:
        attributes = self.planner.survey.attributes
        return any(attributes[n].rounded_at_random for n in self.names if n in attributes)

    def surely(self, answer: Estimate, level: float) -> tuple[float, float]:
        """An interval that holds for any number of people, however few."""
        low, high = self._plan(answer, math.sqrt(2 * math.log(2 / (1 - level))))
        ends = []
        for soft, sign in ((low, -1), (high, 1)):
            drawn = self._rounded or answer.target == POPULATION
            reach = soft.surely(self.tables(self.names), self.n, level, drawn=drawn)
            ends.append(self._read(soft, answer).value + sign * reach)
        return ends[0], ends[1]

    def raised(self, name: str, by: float) -> Bracket:
        if not by:
            return self
        factors = {**self.query.factors, name: self.functions[name] + by}
        return replace(self, query=replace(self.query, factors=factors))

    @property
    def limits(self) -> tuple[float, float]:
        """What the sum is at least and at most, whoever the people are."""
        ends = np.array([1.0, 1.0])
        for f in self.functions.values():
            products = np.multiply.outer(ends, [f.min(), f.max()])
            ends = np.array([products.min(), products.max()])
        return self.n * float(ends[0]), self.n * float(ends[1])

    def _plan(self, answer: Estimate, z: float) -> tuple[Soft, Soft]:
        drawn = answer.target == POPULATION
        return self.planner.plan(self.functions, self.names, self.n, z, drawn)


@dataclass(frozen=True, eq=False)
class Brackets:
    """The brackets of the same question to different people: their sums."""

    parts: tuple[Any, ...]

    @property
    def possible(self) -> bool:
        return all(part.possible for part in self.parts)

    @property
    def limits(self) -> tuple[float, float]:
        ends = [part.limits for part in self.parts]
        return math.fsum(low for low, _ in ends), math.fsum(high for _, high in ends)

    def raised(self, name: str, by: float) -> Brackets:
        return Brackets(tuple(part.raised(name, by) for part in self.parts))

    def between(self, answer: Estimate, z: float) -> tuple[Estimate, Estimate]:
        low, high = _summed(part.between(answer, self._each(z)) for part in self.parts)
        return low, high

    def surely(self, answer: Estimate, level: float) -> tuple[float, float]:
        """Each part may fail with its share of the probability."""
        ends = [part.surely(answer, together(level, len(self.parts))) for part in self.parts]
        return math.fsum(low for low, _ in ends), math.fsum(high for _, high in ends)

    def _each(self, z: float) -> float:
        """Standard errors of a sum are shorter than the sum of those of its parts."""
        return z / math.sqrt(len(self.parts))


def _summed(found: Iterable[Sequence[Estimate]]) -> list[Estimate]:
    """The sums of the first answers of all, of their second ones, and so on."""
    return [reduce(_added, some) for some in zip(*found, strict=True)]


def _added(one: Estimate, other: Estimate) -> Estimate:
    """The sum of two answers from different reports."""
    return replace(
        one,
        value=one.value + other.value,
        variance=one.variance + other.variance,
        bounds=(one.bounds[0] + other.bounds[0], one.bounds[1] + other.bounds[1]),
        jump=max(one.jump, other.jump),
        hidden=max(one.hidden, other.hidden),
    )


def excess(
    ask: Callable[[Query], Estimate], name: str, query: Query, group: Query
) -> Excess | None:
    """The sum of what values of an attribute are above a number, over a group, for any number.

    None where a range fades, so that values are open. `ask` need not read a report: what matters
    of its answers are their brackets.
    """
    values = query.functions[name]
    inside = group.functions.get(name, np.ones(len(values)))
    if not inside.any() or not np.isin(inside, (0.0, 1.0)).all():
        return None
    within = values[inside > 0]

    def above(number: float) -> Estimate:
        residual = {**query.factors, name: values - number * inside}
        return ask(replace(query, factors=residual))

    return Excess(above, float(within.mean()), float(within.min()), float(within.max()))
