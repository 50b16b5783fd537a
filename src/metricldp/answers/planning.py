"""The functions of a bracket, chosen before any report is looked at.

For each side the best smooth function is looked for with few knots and then with more. With it
comes all that its answer needs besides the reports: second moments, bounds, largest values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from metricldp.answers.answer import Estimate
from metricldp.answers.estimate import POPULATION, drawn, kept_between
from metricldp.answers.knots import hats, level_sets
from metricldp.answers.softening import Axis, along, outer, soften
from metricldp.mechanisms import Channel, Floats, IntegerChannel
from metricldp.store.cubes import Table

_AROUND = {
    1: (0, 1, 2, 3, 4, 6, 8, 11, 15, 20, 28, 40, 60, 90, 130, 200),
    2: (0, 1, 2, 3, 4.5, 7, 11, 17),
    3: (0, 1, 3, 7),
}
"""How far from a cut there are knots, by the number of attributes, in steps of some width."""
_WIDTHS = (8, 4, 2, 1)
"""Knots get closer: what is found with few is where the next search starts."""
_MOST_REPORTS = 1 << 23
"""Combinations of reports up to which the largest value of a decoder is looked for."""
_FEWEST = 3
"""Reports below which their variance says nothing."""


@dataclass(frozen=True, eq=False)
class Part:
    """What one channel blurs: an attribute, or several as one; and what is asked of it."""

    channel: Channel
    factors: tuple[Floats, ...]
    """A function of each attribute."""
    ordered: tuple[bool, ...]
    shares: Floats
    """How a planner thinks that people are spread over the positions."""

    @cached_property
    def f(self) -> Floats:
        return outer(self.factors).reshape(-1)

    @property
    def softens(self) -> int:
        """How many of its attributes have an order, and a cut."""
        return sum(
            ordered and bool(np.ptp(f))
            for f, ordered in zip(self.factors, self.ordered, strict=True)
        )

    def knots(
        self, sign: int, width: float, around: Sequence[float], exact: bool
    ) -> tuple[Floats, Floats]:
        """Non-negative functions of the position that add up to 1, and f at each of them.

        Between knots each factor of f times `sign` lies on or below the straight line; or on it,
        where that has to be `exact`.
        """
        parts = [
            hats(sign * f, width, around, exact) if ordered else level_sets(sign * f)
            for f, ordered in zip(self.factors, self.ordered, strict=True)
        ]
        parts = [(basis, sign * values) for basis, values in parts]
        basis, values = parts[0]
        for more, others in parts[1:]:
            basis = np.einsum("ai,bj->abij", basis, more).reshape(len(basis) * len(more), -1)
            values = np.multiply.outer(values, others).reshape(-1)
        return basis, values

    def seconds(self, decoders: Floats, basis: Floats) -> Floats:
        """E[Phi_k Phi_l] of all pairs of knots, mean over people as planned."""
        if isinstance(self.channel, IntegerChannel):
            return np.asarray((decoders * self.channel.moments.spread(self.shares)) @ decoders.T)
        return np.asarray(
            self.channel.moments.second_moment(basis[:, None], basis[None]) @ self.shares
        )


@dataclass(frozen=True, eq=False)
class Soft:
    """A function of all positions, and what its answer rests on besides the reports."""

    function: Floats
    second: Floats
    """E[U^2 | x] at every x."""
    bounds: tuple[float, float]
    """The least and the most that one person adds to the variance."""
    jump: float
    hidden: float
    most: float
    """At least as large as |U - u| for any report."""
    spread: float
    """The variance of one report, as planned."""
    values: Floats | None
    """U at every combination of reports, where those are counted."""

    def turned(self) -> Soft:
        """Of the function with the other sign."""
        values = None if self.values is None else -self.values
        return replace(self, function=-self.function, values=values)

    def ordered(self, axes: Sequence[int]) -> Soft:
        """With the parts in another order."""
        return replace(
            self,
            function=self.function.transpose(axes),
            second=self.second.transpose(axes),
            values=None if self.values is None else self.values.transpose(axes),
        )

    def read(self, cells: Floats, like: Estimate, n: int, *, rounded: bool) -> Estimate:
        """The answer from estimated counts of all combinations.

        Values that are rounded at random to positions are like people who are drawn: what happens
        before the blur adds to the noise.
        """
        value, second = (float((cells * part).sum()) for part in (self.function, self.second))
        if rounded or like.target == POPULATION:
            variance = drawn(value, second, n)
        else:
            variance = second - float((cells * self.function**2).sum())
        return self._answer(like, n, value, variance, rounded=rounded)

    def surely(self, table: Table, n: int, level: float, *, drawn: bool) -> float:
        """How far the sum of U is off, at most, by Bernstein's inequality, each way.

        With the variance that reports have at most, wherever people are; or with that of the
        reports themselves (Maurer and Pontil 2009, theorems 4 and 11): whichever is planned to be
        shorter.
        """
        known, seen = math.log(2 / (1 - level)), math.log(4 / (1 - level))
        worst = self.bounds[1]
        if drawn:
            worst, most = float(self.second.max()), self.most + float(np.ptp(self.function))
        else:
            most = self.most
        first = math.sqrt(2 * n * worst * known) + most * known / 3
        if self.values is None or n < _FEWEST:
            return first
        beyond = 7 * float(np.ptp(self.values)) * seen * n / (3 * (n - 1))
        if math.sqrt(2 * n * self.spread * seen) + beyond >= first:
            return first
        values, counts = self.values, table.sums
        total, squares = float((counts * values).sum()), float((counts * values**2).sum())
        variance = max(0.0, squares - total**2 / n) / (n - 1)
        return math.sqrt(2 * n * variance * seen) + beyond

    def _answer(
        self, like: Estimate, n: int, value: float, variance: float, *, rounded: bool
    ) -> Estimate:
        (least, most), jump, hidden = kept_between(self.bounds, n), self.jump, self.hidden
        if rounded or like.target == POPULATION:
            width = float(np.ptp(self.function))
            most, jump, hidden = math.inf, max(jump, width), max(hidden, width**2)
        return replace(
            like,
            value=value,
            variance=variance,
            bounds=(least, most),
            jump=jump,
            hidden=hidden,
            bracket=None,
        )


@dataclass(frozen=True, eq=False)
class _Grid:
    """The knots of all parts, and what a search needs of them."""

    bases: list[Floats]
    decoders: list[Floats]
    axes: list[Axis]
    f: Floats
    """The function, times a sign, at the knots."""

    @classmethod
    def of(cls, parts: Sequence[Part], sign: int, width: float) -> _Grid:
        exact = any((part.f < 0).any() for part in parts)
        dimensions = max(1, sum(part.softens for part in parts))
        if any(len(part.factors) > 1 for part in parts):
            dimensions += 1  # its knots are not a product to the search
        around = _AROUND[min(dimensions, max(_AROUND))]
        knots = [part.knots(sign, width, around, exact) for part in parts]
        bases = [basis for basis, _ in knots]
        pairs = list(zip(parts, bases, strict=True))
        decoders = [part.channel.moments.coefficients(basis) for part, basis in pairs]
        axes = [
            Axis(basis @ part.shares, part.seconds(decoder, basis), (basis * part.shares) @ basis.T)
            for (part, basis), decoder in zip(pairs, decoders, strict=True)
        ]
        return cls(bases, decoders, axes, sign * outer([values for _, values in knots]))


def above(parts: Sequence[Part], sign: int, n: int, z: float, drawn: bool) -> Soft:
    """The best function that is at least `sign` times the one that is asked for."""
    sharp = sign * outer([part.f for part in parts])
    start: Floats | None = None
    last: tuple[int, ...] = ()
    for width in _WIDTHS:
        grid = _Grid.of(parts, sign, width)
        if grid.f.shape == last:
            continue
        last = grid.f.shape
        if start is not None:
            start = start[np.ix_(*(basis.argmax(axis=1) for basis in grid.bases))]
        u = soften(grid.axes, grid.f, n, z, drawn=drawn, start=start)
        start = along(u, [basis.T for basis in grid.bases])
    assert start is not None
    lift = max(0.0, float((sharp - start).max()))  # rounding
    u, function = u + lift, start + lift
    second = np.maximum(_second(parts, grid.bases, u), function**2)
    apart = second - function**2
    values, largest = _valued(parts, grid.decoders, u)
    most = jump = largest + float(np.abs(function).max())
    hidden = jump**2
    if len(parts) == 1:
        channel = parts[0].channel
        jump = float(channel.moments.skewness(function[None])[0])
        hidden = float(channel.moments.unseen_variance(apart[None])[0])
    shares = outer([part.shares for part in parts])
    mean, moment = (float((shares * part).sum()) for part in (function, second))
    spread = max(0.0, moment - mean**2)
    bounds = (float(apart.min()), float(apart.max()))
    return Soft(function, second, bounds, jump, hidden, most, spread, values)


def _second(parts: Sequence[Part], bases: Sequence[Floats], u: Floats) -> Floats:
    """E[U^2 | x] for all combinations of positions.

    U is a sum over the knots of all but the first part; the decoders of different channels are
    independent, so it takes the moments of all pairs of knots, part by part.
    """
    first, *others = parts
    lines = u.reshape(len(u), -1).T @ bases[0]
    if not others:
        return np.asarray(first.channel.moments.second_moment(lines)[0])
    count = len(lines)
    found = np.empty((count, count, first.channel.size))
    for row in range(count):
        found[row] = first.channel.moments.second_moment(lines[row : row + 1], lines)
    for part, basis in zip(others, bases[1:], strict=True):
        c, m = basis.shape
        pairs = part.channel.moments.second_moment(basis[:, None], basis[None]).reshape(c * c, m)
        rest = found.shape[0] // c
        # (c, rest, c, rest, x...) -> (rest, rest, x..., m)
        split = found.reshape(c, rest, c, rest, -1).transpose(1, 3, 4, 0, 2)
        found = split.reshape(rest, rest, -1, c * c) @ pairs
    sizes = [part.channel.size for part in parts]
    return np.asarray(found.reshape(sizes))


def _valued(
    parts: Sequence[Part], decoders: Sequence[Floats], u: Floats
) -> tuple[Floats | None, float]:
    """U at every report, where they are counted; and the largest |U|, or a bound of it."""
    counted = all(isinstance(part.channel, IntegerChannel) for part in parts)
    if math.prod(decoder.shape[1] for decoder in decoders) <= _MOST_REPORTS:
        values = along(u, [decoder.T for decoder in decoders])
        most = np.abs(values)
        for part in parts:
            channel = part.channel
            most = (
                most.max(axis=0)
                if isinstance(channel, IntegerChannel)
                else channel.largest * most.sum(axis=0)
            )
        return (values if counted else None), float(most)
    most = np.abs(u)
    for part, decoder in zip(parts, decoders, strict=True):
        size, channel = np.abs(decoder), part.channel
        each = (
            size.max(axis=1)
            if isinstance(channel, IntegerChannel)
            else channel.largest * size.sum(axis=1)
        )
        most = np.tensordot(each, most, axes=(0, 0))
    return None, float(most)
