"""Variances, standard deviations, covariances and correlations of what people reported.

A second moment is one sum over people, of x^2 or x z, and decodes without bias. What is subtracted
from it, a product of two noisy sums, is too large by their covariance on average, which is
subtracted as well. So of everybody variances and covariances are unbiased; of a group of unknown
size they are nearly so, as means are.

Of a population the same covariance is that of people who are drawn: it turns 1/n into 1/(n - 1).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from metricldp.answers.answer import Estimate, barely
from metricldp.answers.arithmetic import Terms
from metricldp.answers.conditions import Where
from metricldp.answers.smooth import Factors, People, Tallied, Through, kept
from metricldp.basics.errors import QueryError
from metricldp.estimate.display import NOT_ESTIMABLE
from metricldp.mechanisms import Floats
from metricldp.store.readings import attribute_of

_EVENLY = 1 / 6
"""Of the square of a step, what rounding at random adds to x^2 of values spread evenly; at most a
quarter, at least nothing."""


@dataclass(frozen=True, eq=False)
class Numeric:
    """An attribute whose values are numbers, over some people."""

    name: str
    values: Floats
    half: Floats
    """How far a value may be from the number that stands for its position."""
    step: float
    """Of the grid, where values are rounded at random to it; else 0."""
    mean: float
    possible: tuple[float, float]
    note: str = ""

    @property
    def binned(self) -> bool:
        return bool(self.half.any())

    @property
    def apart(self) -> Floats:
        return self.values - self.mean

    @property
    def square(self) -> Floats:
        """What stands for the squared distance from the mean."""
        return self.apart**2 - self.open_square

    @property
    def open_square(self) -> float:
        """What rounding at random adds to a square on average, of values spread evenly."""
        return _EVENLY * self.step**2


def numeric(people: People, name: str) -> Numeric:
    """An attribute with its mean over the people; refused where its values are no numbers."""
    described = attribute_of(people.tally.survey, name)
    values, note = described.numbers(name)
    there = np.ones(described.size)
    ends = described.extremes(there)
    half = np.zeros(described.size) if ends is None else (ends[1] - ends[0]) / 2
    step = 0.0
    if described.rounded_at_random:
        step, inside = float(np.diff(values).max()), people.group.functions.get(name)
        if inside is not None and np.ptp(inside):
            raise QueryError(
                f"{name} is rounded at random, so the square of {name} cannot be estimated "
                f"within a range of {name}; leave {name} out of where"
            )
        note = f"{name} is rounded at random: the interval includes the bias of its square"
    first, size = people.sums([{name: values}, {}])
    low, high = float((values - half).min()), float((values + half).max())
    mean = float(first / size) if size > 0 else (low + high) / 2
    return Numeric(name, values, half, step, mean, (low, high), note or "")


def variance(tally: Tallied, name: str, where: Where | None, target: str) -> Estimate:
    """Of the people of a where-clause; of a population, as n - 1 in place of n would tell it."""
    people = People.of(tally, where, target, [name])
    x = numeric(people, name)
    most = (x.possible[1] - x.possible[0]) ** 2 / 4
    raw = _per_person(people, x, x, (0.0, most), f"{name} squared", f"variance of {name}")
    found = _inside(raw, 0.0, most)
    return replace(found, between=_sides(people, [x], found, _variances(x), (0.0, most)))


def std(tally: Tallied, name: str, where: Where | None, target: str) -> Estimate:
    """The root of the variance, and its interval the root of that one's."""
    squared = variance(tally, name, where, target)
    root = _root(squared.value)
    slope = 1 / (2 * root) if root else math.inf
    words = squared.question.replace("variance", "standard deviation", 1)
    sides = [
        Through.of(one, _root, 1 / (2 * _root(one.value)) if one.value > 0 else 0.0, words, name)
        for one in squared.between
    ]
    found = Through.of(replace(squared, between=()), _root, slope, words, name)
    return replace(found, between=tuple(sides))


def covariance(tally: Tallied, one: str, other: str, where: Where | None, target: str) -> Estimate:
    """Of two attributes, over the people of a where-clause."""
    check_two(tally, one, other)
    people = People.of(tally, where, target, [one, other])
    x, z = numeric(people, one), numeric(people, other)
    most = math.prod((v.possible[1] - v.possible[0]) / 2 for v in (x, z))
    words = f"covariance of {one} and {other}"
    raw = _per_person(people, x, z, (-most, most), f"{one} times {other}", words)
    found = _inside(raw, -most, most)
    if not (x.binned or z.binned):
        return found
    return replace(found, between=_sides(people, [x, z], found, _COVARIANCES, (-most, most)))


def correlation(tally: Tallied, one: str, other: str, where: Where | None, target: str) -> Estimate:
    """Of two attributes, over the people of a where-clause: between -1 and 1.

    The covariance over the product of the deviations, with Fieller's interval: all correlations
    that the two do not contradict. Noise makes the deviations uncertain as well.
    """
    check_two(tally, one, other)
    people = People.of(tally, where, target, [one, other])
    x, z = numeric(people, one), numeric(people, other)
    words = f"correlation of {one} and {other}{people.group.among}"
    shared = about_means(people, x, z)
    squares = [about_means(people, v, v) for v in (x, z)]
    if any(v.value <= 2 * v.stderr for v in squares):
        flat = next(v for v, s in zip((x, z), squares, strict=True) if s.value <= 2 * s.stderr)
        note = f"the variance of {flat.name} is not distinguishable from zero"
        notes = (*people.group.notes, note)
        return _Flat(
            *(0.0, math.inf, words, "", target, notes),
            reports=tally.n,
            source=Estimate(0.0, math.inf),
            shape=kept(-1.0, 1.0),
        )
    product = math.sqrt(squares[0].value * squares[1].value)
    parts = [(product / (2 * s.value), v) for s, v in zip(squares, (x, z), strict=True)]
    bottom = people.smooth(
        product, [(c, {v.name: v.square}) for c, v in parts], "product of deviations", shared.unit
    )
    raw = replace(shared / bottom, question=words, unit="", notes=_notes(people, x, z))
    found = Through.of(raw, kept(-1.0, 1.0), 1.0, words, "")
    return replace(found, between=_sides(people, [x, z], found, _correlations(x, z), (-1.0, 1.0)))


class _Flat(Through):
    """A correlation with an attribute without a clear variance; a note names the attribute."""

    _unknown = NOT_ESTIMABLE


def _inside(raw: Estimate, low: float, high: float) -> Through:
    """An interval that ends where what is possible does; the value stays without bias."""
    found = Through.of(raw, kept(low, high), 1.0, raw.question, raw.unit)
    return replace(found, value=raw.value)


def check_two(tally: Tallied, one: str, other: str) -> None:
    """Refuse names that are none, and the same one twice."""
    for name in (one, other):
        attribute_of(tally.survey, name)
    if one == other:
        raise QueryError(f"{one} is named twice; name two attributes")


def _root(number: float) -> float:
    return math.sqrt(max(0.0, number))


def _notes(people: People, *used: Numeric) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*people.group.notes, *(x.note for x in used if x.note)]))


def _product(x: Numeric, z: Numeric) -> Factors:
    """What one person adds to the sum of products about the means."""
    return {x.name: x.square} if x is z else {x.name: x.apart, z.name: z.apart}


def about_means(people: People, x: Numeric, z: Numeric) -> Estimate:
    """The sum over people of (x - mean)(z - mean).

    It is flat in both means, so its error is that of the sum at the means that were found. These
    make it too small, by the covariance of the two sums over the size of the group.
    """
    factors = _product(x, z)
    value, size = people.sums([factors, {}])
    if size > 0:
        value += _missing(people, x, z) / size
    return people.smooth(float(value), [(1.0, factors)], f"{x.name} times {z.name}", "")


def _missing(people: People, x: Numeric, z: Numeric) -> float:
    """The covariance of the sums of what both are above their means."""
    one, other = (Terms(people.terms([(1.0, {v.name: v.apart})])) for v in (x, z))
    return one.covariance(other, people.target)


def _per_person(
    people: People,
    x: Numeric,
    z: Numeric,
    possible: tuple[float, float],
    unit: str,
    words: str,
) -> Estimate:
    """The same over the size of the group, as a mean is."""
    total = about_means(people, x, z)
    size = people.tally._answers([people.group], people.target)[0]
    found = total / size
    said = f"{words}{people.group.among}"
    notes = _notes(people, x, z)
    if not math.isfinite(found.variance):
        notes = (*notes, barely(size.value, size.stderr))
        value = min(max(found.value, possible[0]), possible[1]) if size.value > 0 else possible[0]
        found = replace(found, value=value)
    return replace(found, question=said, unit=unit, notes=notes, possible=possible)


# What bins and rounding at random leave open ----------------------------------------------------

Shape = Callable[[Floats], float]
"""A function of what one person adds on average: x z, x^2 and z^2 about the means, and the squares
of half a bin."""


def _sides(
    people: People,
    used: Sequence[Numeric],
    found: Estimate,
    shapes: Sequence[Shape],
    possible: tuple[float, float],
) -> tuple[Estimate, ...]:
    """The least and the most that it can be, where values are not known to the last digit."""
    if not math.isfinite(found.variance) or not any(x.binned or x.step for x in used):
        return ()
    x, z = used[0], used[-1]
    asked = [_product(x, z), _product(x, x), _product(z, z)]
    asked += [{v.name: v.half**2} if v.binned else {} for v in (x, z)]
    there = np.array([1.0, 1.0, 1.0, float(x.binned), float(z.binned)])

    def per_person(shape: Shape) -> Callable[[Floats], float]:
        return lambda sums: shape(there * sums[:-1] / sums[-1])

    sides = [
        people.function(per_person(shape), [*asked, {}], found.question, found.unit)
        for shape in shapes
    ]
    sides.sort(key=lambda side: side.value)
    ends = (sides[0], sides[-1])
    return tuple(
        Through.of(replace(side, notes=found.notes), kept(*possible), 1.0, side.question, side.unit)
        for side in ends
    )


def _variances(x: Numeric) -> list[Shape]:
    """In bins: deviations differ by at most the root mean square of what is open (Minkowski).

    Rounded at random: the square is at most a quarter of a step's square less than it is counted.
    """
    if x.binned:
        return [
            lambda m: max(0.0, _root(m[1]) - _root(m[3])) ** 2,
            lambda m: (_root(m[1]) + _root(m[3])) ** 2,
        ]
    below, above = (_EVENLY - 1 / 4) * x.step**2, _EVENLY * x.step**2
    return [lambda m: max(0.0, m[1] + below), lambda m: m[1] + above]


def _open(m: Floats) -> float:
    """How far a covariance may be off in bins (Cauchy and Schwarz)."""
    x, z = _root(m[3]), _root(m[4])
    return x * _root(m[2]) + z * _root(m[1]) + x * z


_COVARIANCES: list[Shape] = [lambda m: float(m[0] - _open(m)), lambda m: float(m[0] + _open(m))]


def _correlations(x: Numeric, z: Numeric) -> list[Shape]:
    """A correlation is the cosine of an angle, which bins can change by at most two others."""
    ways = []
    for sign in (-1, 1):
        for ends in itertools.product(*([-1 / 12, 1 / 6] if v.step else [0.0] for v in (x, z))):
            ways.append(_cosine(sign, ends[0] * x.step**2, ends[1] * z.step**2))
    return ways


def _cosine(sign: int, more_x: float, more_z: float) -> Shape:
    def shape(m: Floats) -> float:
        squares = max(m[1] + more_x, 1e-300), max(m[2] + more_z, 1e-300)
        cosine = min(max(m[0] / math.sqrt(squares[0] * squares[1]), -1.0), 1.0)
        turn = sum(
            math.asin(min(1.0, math.sqrt(max(0.0, open_ / square))))
            for open_, square in zip(m[3:5], squares, strict=True)
        )
        return math.cos(min(max(math.acos(cosine) - sign * turn, 0.0), math.pi))

    return shape
