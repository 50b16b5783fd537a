"""Least squares from decoded moments: the columns of X, X'X and X'y, and how coefficients move.

X'X and X'y are sums over people of products of two functions. A coefficient moves with the scores,
the sums of x (y - x'b), to first order; their covariance matrix, between two inverses of X'X, is
that of the coefficients (the sandwich).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from metricldp.answers.answer import Estimate, barely
from metricldp.answers.arithmetic import Combination, Terms
from metricldp.answers.moments import Numeric, about_means
from metricldp.answers.smooth import Factors, People, Through, kept
from metricldp.basics.errors import QueryError
from metricldp.basics.text import listed, shown
from metricldp.mechanisms import Floats
from metricldp.store.readings import attribute_of

INTERCEPT = "intercept"
_CLEARLY = 4.0
"""A predictor has to vary, beyond the others, by so many standard errors of that estimate."""
MOST_COLUMNS = 40
"""Every two columns and every two scores are asked about, so of more it would take long."""


@dataclass(frozen=True, eq=False)
class Column:
    """A column of X: a function of one attribute, centred and scaled where it is a number."""

    label: str
    name: str
    function: Floats
    centre: float = 0.0
    scale: float = 1.0
    open_square: float = 0.0
    """What rounding at random adds to its square on average, of values spread evenly."""

    @property
    def factors(self) -> dict[str, Floats]:
        return {self.name: self.function} if self.name else {}

    def at(self, value: Any, position: int | None) -> float:
        """For a person with that value."""
        if position is not None:
            return float(self.function[position])
        return float(value - self.centre) / self.scale


def columns_for(
    people: People, names: Sequence[str], base: Mapping[str, str] | None
) -> tuple[list[Column], dict[str, str], list[str]]:
    chosen = dict(base or {})
    found, bases, notes = [Column(INTERCEPT, "", np.ones(1))], {}, []
    for name in names:
        described = attribute_of(people.tally.survey, name)
        if not described.named:
            values, note = described.numbers(name)
            low, high = float(values.min()), float(values.max())
            centre, scale = (low + high) / 2, (high - low) / 2
            step = float(np.diff(values).max()) / scale if described.rounded_at_random else 0.0
            function = (values - centre) / scale
            found.append(Column(name, name, function, centre, scale, step**2 / 6))
            if described.in_bins:
                notes.append(f"{name} is taken at the middle of its bins, and so is the regression")
            elif note:
                notes.append(note)
            if step:
                notes.append(f"{name} is rounded at random; assumed uniform between points")
            continue
        levels = [described.name_of(k) for k in range(described.size)]
        against = chosen.pop(name, levels[0])
        if against not in levels:
            raise QueryError(f"{name} has no level {shown(against)}; it has {listed(levels)}")
        bases[name] = against
        inside = people.group.functions.get(name, np.ones(len(levels)))
        if not inside[levels.index(against)]:
            raise QueryError(f"where excludes {name} {against}; use another base")
        if np.count_nonzero(inside) < 2:
            raise QueryError(f"where selects {name} {against} only; leave {name} out")
        found += [
            Column(f"{name}: {level}", name, np.eye(len(levels))[k])
            for k, level in enumerate(levels)
            if level != against and inside[k]
        ]
    if chosen:
        raise QueryError(
            f"{shown(next(iter(chosen)))} has no base: it is not a categorical predictor"
        )
    if len(found) > MOST_COLUMNS:
        raise QueryError(
            f"{len(found)} columns are more than {MOST_COLUMNS}; leave out predictors with many "
            "levels"
        )
    return found, bases, notes


@dataclass(frozen=True, eq=False)
class Fitting:
    """One regression on the way."""

    people: People
    y: Numeric
    columns: tuple[Column, ...]

    @cached_property
    def moments(self) -> tuple[Floats, Floats]:
        """X'X and X'y, the outcome less its mean."""
        size = len(self.columns)
        pairs = [(i, j) for i in range(size) for j in range(i, size)]
        asked = [self._product(self.columns[i], self.columns[j]) for i, j in pairs]
        there = [place for place, factors in enumerate(asked) if factors is not None]
        outcomes = [self._with_outcome(column) for column in self.columns]
        sums = self.people.sums([*(asked[place] or {} for place in there), *outcomes])
        squares = np.zeros((size, size))
        for place, value in zip(there, sums, strict=False):
            i, j = pairs[place]
            squares[i, j] = squares[j, i] = value
        return squares, sums[len(there) :]

    def _product(self, one: Column, other: Column) -> dict[str, Floats] | None:
        """Of two columns; None where no person can add to it."""
        if one.name != other.name or not one.name:
            return {**one.factors, **other.factors}
        function = one.function * other.function
        if one is other:
            function = function - one.open_square
        return {one.name: function} if function.any() else None

    def _with_outcome(self, column: Column, less: float = 0.0) -> dict[str, Floats]:
        return {**column.factors, self.y.name: self.y.apart - less}

    @cached_property
    def inverse(self) -> Floats:
        """Of X'X; refused where a predictor does not clearly vary beyond the others."""
        squares, _ = self.moments
        size = squares[0, 0]
        counted = self.people.tally._answers([self.people.group], self.people.target)[0]
        if counted.value <= 2 * counted.stderr:
            raise QueryError(f"{barely(counted.value, counted.stderr)}; use a larger group")
        eigenvalues, vectors = np.linalg.eigh(squares)
        if eigenvalues[0] <= 1e-12 * max(eigenvalues[-1], 1.0):
            flattest = int(np.argmax(np.abs(vectors[1:, 0]))) + 1
            raise self._refusal(self.columns[flattest], float(eigenvalues[0]), math.nan, size)
        inverse: Floats = np.linalg.inv(squares).astype(np.float64)
        for place, column in enumerate(self.columns):
            if not column.name:
                continue
            beyond = 1 / inverse[place, place]
            error = self._error_beyond(inverse[place] * beyond)
            if beyond <= _CLEARLY * error:
                raise self._refusal(column, float(beyond), error, size)
        return inverse

    def _error_beyond(self, weights: Floats) -> float:
        """Of the sum of squares of a combination of columns."""
        parts = self._squared(weights[0], self._contributions(weights))
        found = self.people.smooth(0.0, parts, "", "")
        return found.stderr

    def _refusal(self, column: Column, beyond: float, error: float, size: float) -> QueryError:
        found = beyond * column.scale**2 / max(size, 1.0)
        said = f"{found:.3g}"
        if math.isfinite(error):
            said += f" (SE {error * column.scale**2 / max(size, 1.0):.2g})"
        merged = "merge levels, " if ": " in column.label else ""
        return QueryError(
            f"{column.label} is nearly determined by the other predictors: its residual variance "
            f"is estimated at {said}; leave it out, {merged}use a larger group, or collect more "
            "reports"
        )

    def _contributions(self, weights: Floats) -> dict[str, tuple[Floats, float]]:
        """Of each attribute: its part of a combination, and what to take from its square."""
        found: dict[str, tuple[Floats, float]] = {}
        for weight, column in zip(weights.tolist(), self.columns, strict=True):
            if column.name:
                before, less = found.get(column.name, (np.zeros(len(column.function)), 0.0))
                found[column.name] = (
                    before + weight * column.function,
                    less + weight**2 * column.open_square,
                )
        return found

    def _squared(
        self, constant: float, parts: Mapping[str, tuple[Floats, float]]
    ) -> list[tuple[float, Factors]]:
        """(constant + parts)^2 as sums of products."""
        found: list[tuple[float, Factors]] = [(constant**2, {})]
        named = list(parts.items())
        for place, (name, (part, less)) in enumerate(named):
            found.append((1.0, {name: part**2 + 2 * constant * part - less}))
            found += [(2.0, {name: part, other: with_}) for other, (with_, _) in named[:place]]
        return found

    @cached_property
    def scaled(self) -> Floats:
        """The coefficients of centred and scaled columns, for the outcome less its mean."""
        return np.asarray(self.inverse @ self.moments[1])

    @cached_property
    def shared(self) -> Floats:
        """The covariances of the sums that scores are made of."""
        return self.people.covariances(self.scores[0])

    @cached_property
    def moves(self) -> Floats:
        """How each scaled coefficient moves with those sums."""
        return np.asarray(self.inverse @ self.scores[1])

    @cached_property
    def hidden(self) -> Floats:
        return np.sqrt(self.people.hidden(self.scores[0]))

    def combination(self, row: Floats, words: str, unit: str) -> Estimate:
        """The sum of scaled coefficients, each times a number, with the error of all together."""
        factors, people = row @ self.moves, self.people
        open_part = float(np.abs(factors) @ self.hidden)
        terms = people.terms(list(zip(factors.tolist(), self.scores[0], strict=True)))
        return Combination(
            float(row @ self.scaled + row[0] * self.y.mean),
            max(float(factors @ self.shared @ factors), 0.0) + open_part**2,
            words,
            unit,
            people.target,
            reports=people.tally.n,
            made=Terms(terms, exact=False),
        )

    def back(self) -> Floats:
        """From coefficients of centred and scaled columns to those in the data's units."""
        back = np.diag([1 / column.scale for column in self.columns])
        back[0] -= [column.centre / column.scale for column in self.columns]
        back[0, 0] = 1.0
        return back

    @cached_property
    def scores(self) -> tuple[list[Factors], Floats]:
        """The sums that scores are made of, and which belong to each score: (columns, sums)."""
        scaled = self.scaled
        asked: list[Factors] = []
        owners: list[int] = []
        parts = self._contributions(scaled)
        for place, column in enumerate(self.columns):
            asked.append(self._with_outcome(column, float(scaled[0])))
            for name, (part, _) in parts.items():
                if name != column.name:
                    asked.append({**column.factors, name: -part})
                    continue
                square = column.function * part - scaled[place] * column.open_square
                asked.append({name: -square})
            owners += [place] * (len(asked) - len(owners))
        owner = np.zeros((len(self.columns), len(asked)))
        owner[owners, range(len(asked))] = 1.0
        return asked, owner

    def r_squared(self) -> Estimate:
        """One less the residuals' part of the outcome's variance.

        Noise in the coefficients makes the residuals look too small, by the trace of the scores'
        covariances and the inverse of X'X; that is added.
        """
        people, y, scaled, owner = self.people, self.y, self.scaled, self.scores[1]
        whole = about_means(people, y, y)
        (square,) = people.sums([{y.name: y.square}])
        unseen = np.trace(self.inverse @ owner @ self.shared @ owner.T)
        parts = {**self._contributions(-scaled), y.name: (y.apart, y.open_square)}
        rest = people.smooth(
            float(square - scaled @ self.moments[1] + unseen),
            self._squared(-float(scaled[0]), parts),
            *("residuals", whole.unit),
        )
        words = f"R^2 of {y.name}"
        raw = replace((whole - rest) / whole, question=words, unit="", notes=())
        return Through.of(raw, kept(0.0, 1.0), 1.0, words, "")
