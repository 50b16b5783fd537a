"""Grids over attributes and pairs of them: HDG and TDG, fitted and biased.

Everybody is put into one group at random and reports, by optimised unary encoding with the whole
epsilon, the cell that they are in: of a fine grid over one attribute, or of a coarse grid over two
(TDG has only those). Which grids there are and how fine they are follows from the numbers of people
and attributes, before anybody reports. Yang et al., "Answering Multi-Dimensional Range Queries
under Local Differential Privacy" (PVLDB 14(3), 2020).

What is made of the reports is not unbiased: shares below 0 are taken away (Norm-Sub), grids that
share an attribute are made to agree on it, and within cells people are spread so that all grids
hold and nothing else is assumed. Questions about parts of a cell are answered by that assumption.
So no survey reads these reports, and no error can be stated beside an answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from metricldp.answers.postprocess import norm_sub
from metricldp.basics.errors import InvalidSpecError
from metricldp.mechanisms import Floats, Integers

_FINE, _COARSE = 0.7, 0.03
"""How far people are thought not to be spread evenly inside a cell, in the published guideline."""
_ROUNDS = 100
_Names = tuple[int, ...]
_Alone = Callable[[Integers, int, float, np.random.Generator], Floats]
"""From positions, how many there can be, and epsilon, to estimated shares."""


def granularities(people: int, attributes: int, epsilon: float, hybrid: bool) -> tuple[int, int]:
    """Cells of a fine grid, and for each of its two attributes of a coarse one: powers of two."""
    each = people / (attributes * hybrid + math.comb(attributes, 2))
    gain = math.expm1(epsilon)
    fine = (each * (gain * _FINE) ** 2 / (2 * math.exp(epsilon))) ** (1 / 3)
    coarse = math.sqrt(2 * _COARSE * gain * math.sqrt(each / math.exp(epsilon)))
    few = _power_of_two(coarse)
    return max(_power_of_two(fine), few), few


def _power_of_two(cells: float) -> int:
    """The nearest one, at least 2."""
    below = 1 << math.floor(math.log2(max(cells, 2.0)))
    return below if cells - below <= 2 * below - cells else 2 * below


def noisy_shares(counts: Integers, people: int, epsilon: float, rng: np.random.Generator) -> Floats:
    """Shares of people in cells, from optimised unary encoding: unbiased.

    Bits of a report are independent, so the ones of each cell are two binomial numbers.
    """
    own, other = 0.5, 1 / (math.exp(epsilon) + 1)
    ones = rng.binomial(counts, own) + rng.binomial(people - counts, other)
    return np.asarray((ones / people - other) / (own - other))


@dataclass(frozen=True)
class Grids:
    """The share of people at every two values of every two attributes."""

    people: int
    pairs: Mapping[_Names, Floats]

    def shares(self, functions: Sequence[Floats]) -> Floats:
        """Of ranges over two attributes or more, each 1 inside and 0 outside: (questions,)."""
        both: dict[_Names, Floats] = {
            (a, b): np.einsum("qx,xy,qy->q", functions[a], matrix, functions[b])
            for (a, b), matrix in self.pairs.items()
        }
        return both[0, 1] if len(functions) == 2 else self._inside_all(both, len(functions))

    def _inside_all(self, both: Mapping[_Names, Floats], count: int) -> Floats:
        """Of three and more: in or out of each, as even as the shares in both of any two allow."""
        table = np.full((len(both[0, 1]), *(2,) * count), 0.5**count)
        every = tuple(range(1, count + 1))
        for _ in range(_ROUNDS):
            before = table.copy()
            for (a, b), wanted in both.items():
                inside: list[slice | int] = [slice(None)] * (count + 1)
                inside[a + 1] = inside[b + 1] = 1
                part = table[tuple(inside)]
                there = part.reshape(len(part), -1).sum(axis=1)
                factor = np.divide(wanted, there, out=np.ones_like(there), where=there > 0)
                table[tuple(inside)] *= factor.reshape(-1, *(1,) * (part.ndim - 1))
                table /= np.maximum(table.sum(axis=every, keepdims=True), np.finfo(float).tiny)
            if np.abs(table - before).sum(axis=every).max() < 1 / self.people:
                break
        return np.asarray(table.reshape(len(table), -1)[:, -1])


def collected(
    positions: Sequence[Integers],
    sizes: Sequence[int],
    epsilon: float,
    rng: np.random.Generator,
    *,
    hybrid: bool = True,
    alone: _Alone | None = None,
) -> Grids:
    """Everybody's reports, drawn anew, and what HDG makes of them; TDG where not hybrid.

    With `alone`, half of the people tell of one attribute each, by that in place of a fine grid.
    """
    count, people = len(sizes), len(positions[0])
    kinds = [(a,) for a in range(count)] * hybrid + list(combinations(range(count), 2))
    if count < 2 or people < len(kinds):
        raise InvalidSpecError(
            f"grids need two attributes and a person for each of {len(kinds)} groups, not "
            f"{count} and {people}"
        )
    fine, coarse = granularities(people, count, epsilon, hybrid)
    most = [1 << size.bit_length() - 1 for size in sizes]
    cuts = {
        kind: [min(most[a], fine if len(kind) == 1 else coarse) for a in kind] for kind in kinds
    }
    shuffled = rng.permutation(people)
    groups = np.array_split(shuffled, len(kinds))
    if alone is not None:
        halves = zip(np.array_split(shuffled, 2), (count, len(kinds) - count), strict=True)
        groups = [group for half, many in halves for group in np.array_split(half, many)]
    found: dict[_Names, Floats] = {}
    for kind, group in zip(kinds, groups, strict=True):
        if alone and len(kind) == 1:
            (a,) = kind
            shares = alone(positions[a][group], sizes[a], epsilon, rng)
            found[kind] = np.add.reduceat(shares, -(-np.arange(most[a]) * sizes[a] // most[a]))
            continue
        cells = [positions[a][group] * g // sizes[a] for a, g in zip(kind, cuts[kind], strict=True)]
        places = np.ravel_multi_index(cells, cuts[kind])
        counts = np.bincount(places, minlength=math.prod(cuts[kind]))
        shares = noisy_shares(counts, len(group), epsilon, rng)
        found[kind] = shares.reshape(cuts[kind])
    _agree(found, count)
    wanted = (kind for kind in kinds if len(kind) == 2)
    return Grids(people, {pair: _spread(found, pair, sizes, people) for pair in wanted})


def _agree(found: dict[_Names, Floats], count: int) -> None:
    """Shares that are not negative, of grids that agree on each attribute, in turn."""
    _not_negative(found)
    for _ in range(_ROUNDS + 1):
        for attribute in range(count):
            _agree_on(found, attribute)
        before = {kind: grid.copy() for kind, grid in found.items()}
        _not_negative(found)
        if all(np.array_equal(before[kind], grid) for kind, grid in found.items()):
            return


def _not_negative(found: dict[_Names, Floats]) -> None:
    for kind, grid in found.items():
        found[kind] = norm_sub(grid.ravel(), 1).reshape(grid.shape)


def _agree_on(found: dict[_Names, Floats], attribute: int) -> None:
    """Every grid with the attribute gets the mean of what they say of its coarse cells.

    A sum of C cells has C times the variance of one, and so the weight 1/C; what it differs from
    the mean is shared out over the C cells.
    """
    views = list(_along(found, attribute))
    weights = [1 / view.shape[1] for view in views]
    mean = np.average([view.sum(axis=1) for view in views], axis=0, weights=weights)
    for view, weight in zip(views, weights, strict=True):
        np.add(view, ((mean - view.sum(axis=1)) * weight)[:, None], out=view)


def _along(found: Mapping[_Names, Floats], attribute: int) -> Iterator[Floats]:
    """Each grid as a view: a row for each coarse cell of the attribute."""
    coarse = next(
        grid.shape[kind.index(attribute)]
        for kind, grid in found.items()
        if len(kind) == 2 and attribute in kind
    )
    for kind, grid in found.items():
        if kind == (attribute,):
            yield grid.reshape(coarse, -1)
        elif attribute in kind:
            yield grid if kind[0] == attribute else grid.T


def _spread(
    found: Mapping[_Names, Floats], pair: _Names, sizes: Sequence[int], people: int
) -> Floats:
    """Shares of every two values that all grids of the pair hold for, from even ones on."""
    matrix = np.full([sizes[a] for a in pair], 1 / math.prod(sizes[a] for a in pair))
    single = [found.get((a,)) for a in pair]
    for _ in range(_ROUNDS):
        before = matrix.copy()
        for axis, fine in enumerate(single):
            if fine is not None:
                matrix = _scaled(matrix, fine[:, None] if axis == 0 else fine)
        matrix = _scaled(matrix, found[pair])
        if np.abs(matrix - before).sum() < 1 / people:
            break
    return matrix


def _scaled(matrix: Floats, wanted: Floats) -> Floats:
    """The matrix with every cell of a grid scaled to its share; where nobody is nobody comes."""
    grid = np.atleast_2d(wanted)
    at = [np.arange(n) * g // n for n, g in zip(matrix.shape, grid.shape, strict=True)]
    starts = [np.flatnonzero(np.diff(cells, prepend=-1)) for cells in at]
    there = np.add.reduceat(np.add.reduceat(matrix, starts[0], axis=0), starts[1], axis=1)
    factor = np.divide(grid, there, out=np.ones_like(there), where=there > 0)
    scaled = matrix * factor[np.ix_(*at)]
    return np.asarray(scaled / scaled.sum())
