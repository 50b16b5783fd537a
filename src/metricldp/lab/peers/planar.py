"""Planar Laplace noise on a grid: geo-indistinguishability for two attributes.

Andrés, Bordenabe, Chatzikokolakis and Palamidessi, "Geo-Indistinguishability", CCS 2013. A person
at cell x of a plane reports cell z with probability proportional to e^-E(x, z), where

    E(x, z) = sqrt(E_1(x_1, z_1)^2 + E_2(x_2, z_2)^2)

is the distance of two lines under Lp(2), so that epsilon may differ along the two axes. The noise
lives on the unbounded grid, where it is the same for every x and the triangle inequality makes it
E-private. What falls outside is moved to the nearest cell of the domain, which is a thing done to
reports and costs nothing.

(Andrés et al. draw the noise in the continuous plane, with density eps^2 / (2 pi) e^(-eps r), at a
mean distance of 2 / eps, and then round and truncate; rounding costs them a correction of epsilon
that depends on the machine's precision. A law that is discrete from the start needs none.)

Floats propose, integers decide. The sums over everything outside are floats, built for a distance
that is smaller by a share of 2^-20; each law is mixed with a share of 2^-20 of uniform reports, so
that no integer is too small to be rounded; and at last it is 1,024 rows, or less, of integers over
2^64. That no ratio of two rows is above e^E is then proved for all pairs of cells with exact
integers, or the mechanism is refused. Every device and the collector make the table for themselves,
and the fingerprint covers its integers: two machines whose math libraries round differently may
refuse each other's reports, which is safe, and read none of them wrongly.

The decoder is the inverse of that matrix, the only one there is, and S(x) = sum_z P(z | x) F(z)^2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import CertificateError, InvalidSpecError
from metricldp.lab.peers.distribution import Baseline
from metricldp.mechanisms import Column, Floats, Integers, Number
from metricldp.mechanisms.joint import Columns, Functions, JointChannel, Part, People, Term
from metricldp.mechanisms.randomness import Randomness
from metricldp.metrics.grid import root_below
from metricldp_core.canonical import word
from metricldp_core.exact import WORD, at_most_exp
from metricldp_core.random_words import Words

MOST_CELLS = 1 << 10
"""Laws, proof and decoder take the square and the cube of the cells."""
SMALLEST_STEP = Fraction(1, 512)
"""A smaller epsilon per step has tails too long to be added up."""
_SLACK = 2.0**-20
"""Distances are built smaller, and laws mixed with uniform ones, by this share."""
_FAR = 36.0
"""Noise at more than this distance, a share of e^-36, is left out of the sums."""
_ROUNDING = 2.0**-48
"""Ratios of floats of integers are off by less than 2^-51."""
_SAME = 2.0**-40
"""Ratios that differ by less than this share of themselves are the same: machines round."""
_SAME_MOMENT = 1e-10
"""Second moments that differ by less than this share of the largest do so by rounding."""
_MOST_ENTRIES = 1 << 18
"""Numbers that are compared, or added up, at a time."""
Table = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Planar(Baseline, JointChannel):
    """A cell of a grid for a cell, up to 32 x 32; they count along the second axis first."""

    sizes: tuple[int, int]
    steps: tuple[Fraction, Fraction]
    """Epsilon per step along the two axes."""
    table: Table
    """P(z | x) 2^64 of every two cells: (x, z)."""

    mechanism: ClassVar[str] = "planar-laplace"

    @classmethod
    def for_steps(cls, sizes: tuple[int, int], steps: tuple[Fraction, Fraction]) -> Planar:
        """The law of that epsilon per step, proved for all pairs of cells."""
        if math.prod(sizes) > MOST_CELLS:
            raise InvalidSpecError(
                f"{' x '.join(map(str, sizes))} cells are too many for planar Laplace noise; "
                f"use at most {MOST_CELLS:,}"
            )
        first, second = (float(step * (1 - Fraction(_SLACK))) for step in steps)
        channel = cls(sizes, steps, _integers(_law(sizes, (first, second))))
        for x, other, ratio in channel.worst_pairs():
            if not at_most_exp(ratio, channel.distance(x, other)):
                here, there = (", ".join(map(str, cell)) for cell in (x, other))
                raise CertificateError(
                    f"planar Laplace noise exceeds the distance of {here} and {there} with 64-bit "
                    "words; use a larger epsilon per step"
                )
        return channel

    @cached_property
    def fields(self) -> Mapping[Part, Number]:
        return {d: Number(size) for d, size in enumerate(self.sizes)}

    def law(self) -> dict[str, Any]:
        rows = [[word(weight) for weight in row] for row in self.table.tolist()]
        return {"law": self.mechanism, "sizes": list(self.sizes), "weights": rows}

    def _cell(self, positions: Sequence[Any]) -> Any:
        """The number of a cell, or of many."""
        return np.ravel_multi_index((positions[0], positions[1]), self.sizes)

    def distance(self, x: People, other: People) -> Fraction:
        """E(x, other), rounded down by less than 2^-96."""
        apart = [step * (a - b) for step, a, b in zip(self.steps, x, other, strict=True)]
        return root_below(apart[0] ** 2 + apart[1] ** 2)

    @cached_property
    def _sums(self) -> Table:
        """Of every cell's law up to each report, without the last."""
        return np.cumsum(self.table[:, :-1], axis=1, dtype=np.uint64)

    def sample(self, positions: Sequence[Integers], randomness: Randomness) -> dict[Part, Column]:
        """One uniform word for each person, looked up in the sums of their cell's law."""
        cells = self._cell(positions)
        words = randomness.words(len(cells))
        drawn = np.empty(len(cells), dtype=np.int64)
        order = np.argsort(cells, kind="stable")
        for people in np.split(order, np.flatnonzero(np.diff(cells[order])) + 1):
            if len(people):
                sums = self._sums[cells[people[0]]]
                drawn[people] = np.searchsorted(sums, words[people], side="right")
        reports = zip(self.fields.items(), np.unravel_index(drawn, self.sizes), strict=True)
        return {d: column.astype(field.dtype) for (d, field), column in reports}

    def draw(self, positions: Sequence[int], words: Words) -> tuple[int, ...]:
        sums = self._sums[self._cell(positions)]
        drawn = int(np.searchsorted(sums, np.uint64(words.bits(64)), side="right"))
        return divmod(drawn, self.sizes[1])

    def probability(self, x: People, report: Mapping[Part, int]) -> Fraction:
        return Fraction(int(self.table[self._cell(x), self._cell((report[0], report[1]))]), WORD)

    def log_likelihood(self, columns: Columns) -> Floats:
        with np.errstate(divide="ignore"):
            found = np.log(self._matrix[:, self._cell([columns[0], columns[1]])].T)
        return np.asarray(found.reshape(-1, *self.sizes))

    def worst_ratio(self, x: People, other: People) -> Fraction:
        rows = (self.table[self._cell(cell)].tolist() for cell in (x, other))
        pairs = [(max(pair), min(pair)) for pair in zip(*rows, strict=True)]
        return max(Fraction(large, small) for large, small in pairs)

    def worst_pairs(self) -> Iterator[tuple[People, People, Fraction]]:
        """For every offset of two cells the first pair that is told apart best."""
        floats = self.table.astype(np.float64).reshape(*self.sizes, -1)
        for down in range(self.sizes[0]):
            for right in range(1 - self.sizes[1], self.sizes[1]):
                if (down, right) > (0, 0):
                    (row, column), ratio = _worst(self.table, floats, down, right)
                    yield (row, column), (row + down, column + right), ratio

    @cached_property
    def _matrix(self) -> Floats:
        return self.table.astype(np.float64) / float(WORD)

    @cached_property
    def _inverse(self) -> Floats:
        return np.asarray(np.linalg.inv(self._matrix), dtype=np.float64)

    def decoder(self, functions: Functions) -> Floats:
        first, second = functions
        return (first[:, :, None] * second[:, None, :]).reshape(len(first), -1) @ self._inverse.T

    def _decoded(self, functions: Functions, columns: Columns) -> Floats:
        return self.decoder(functions)[:, self._cell([columns[0], columns[1]])]

    def _influence(self, functions: Functions) -> Floats:
        return np.asarray(np.abs(self.decoder(functions)).max(axis=1))

    def _second_moment(self, functions: Functions, others: Functions) -> list[Term]:
        """That of every cell: a term for each position of the axis that has fewer of them.

        One term is enough where only one attribute is asked about: what falls outside is moved
        along its own axis, so that neither coordinate of a report tells of the other attribute.
        """
        product = self.decoder(functions) * self.decoder(others)
        second = (product @ self._matrix.T).reshape(-1, *self.sizes)
        for axis in (0, 1):
            if np.ptp(second, axis=1 + axis).max() <= _SAME_MOMENT * np.abs(second).max():
                ones = np.ones((len(second), self.sizes[axis]))
                varying = np.asarray(second.take(0, axis=1 + axis))
                return [Term(ones[:, 0], (varying, ones) if axis else (ones, varying))]
        axis = int(self.sizes[1] < self.sizes[0])
        terms = []
        for position, here in enumerate(np.eye(self.sizes[axis])):
            at = np.broadcast_to(here, (len(second), len(here)))
            across = np.asarray(second.take(position, axis=1 + axis))
            terms.append(Term(np.ones(len(second)), (across, at) if axis else (at, across)))
        return terms


# The law -----------------------------------------------------------------------------------------


def _law(shape: tuple[int, int], steps: tuple[float, float]) -> Floats:
    """P(z | x) of every two cells, as floats: (x, z).

    Along each axis z is told from x by the steps between, or, at an end of the domain, by the sum
    over all steps from there on.
    """
    sums = _sums(shape, steps)
    apart = [np.abs(np.arange(size)[:, None] - np.arange(size)) for size in shape]
    ends = [np.isin(np.arange(size), (0, size - 1)).astype(np.intp) for size in shape]
    law = sums[
        ends[0][None, None, :, None],
        ends[1][None, None, None, :],
        apart[0][:, None, :, None],
        apart[1][None, :, None, :],
    ].reshape(math.prod(shape), -1)
    return np.asarray(law / law.sum(axis=1, keepdims=True))


def _sums(shape: tuple[int, int], steps: tuple[float, float]) -> Floats:
    """e^-E at (a, b) steps, or its sum from a on, from b on, or from both: (2, 2, *shape)."""
    beyond = [size + math.ceil(_FAR / step) for size, step in zip(shape, steps, strict=True)]
    across = (steps[1] * np.arange(beyond[1])) ** 2
    exact = np.empty((beyond[0], 2, shape[1]))
    block = max(1, _MOST_ENTRIES // beyond[1])
    for start in range(0, beyond[0], block):
        rows = np.arange(start, min(start + block, beyond[0]))
        masses = np.exp(-np.sqrt((steps[0] * rows[:, None]) ** 2 + across))
        exact[rows, 0] = masses[:, : shape[1]]
        exact[rows, 1] = masses[:, shape[1] :].sum(axis=1, keepdims=True)
        exact[rows, 1] += _from_here_on(masses[:, : shape[1]].T).T
    tails = exact[shape[0] :].sum(axis=0) + _from_here_on(exact[: shape[0]])
    return np.stack([exact[: shape[0]], tails]).swapaxes(1, 2)


def _from_here_on(masses: Floats) -> Floats:
    return np.asarray(np.cumsum(masses[::-1], axis=0)[::-1])


def _integers(law: Floats) -> Table:
    """Each row over 2^64, with a small share of uniform reports; the largest entry takes the rest.

    A law that is mixed with one that is the same for everybody tells nobody apart any better.
    """
    cells = len(law)
    share = int(_SLACK * WORD) // cells
    table = (law * float(WORD - share * cells)).astype(np.uint64) + np.uint64(share)
    for row in table:
        at = int(np.argmax(row))
        row[at] = int(row[at]) + WORD - sum(row.tolist())
    return table


# The proof ---------------------------------------------------------------------------------------


def _worst(table: Table, floats: Floats, down: int, right: int) -> tuple[tuple[int, int], Fraction]:
    """The largest ratio, either way round, of any report from any two cells of that offset.

    Floats only rule out what rounding leaves no doubt of; integers decide among the rest. The cell
    is that of the first pair that comes so near to this ratio that no machine would tell.
    """
    height, width, _ = floats.shape
    first, last = max(0, -right), width - max(0, right)
    numerator, denominator, largest = 1, 1, 1.0
    told = []
    for row in range(height - down):
        ratios = floats[row, first:last] / floats[row + down, first + right : last + right]
        most, least = ratios.max(axis=1), ratios.min(axis=1)
        told.append(np.maximum(most, 1 / least))
        largest = max(largest, float(told[-1].max()))
        doubtful = largest * (1 - _ROUNDING)
        near = np.flatnonzero((most >= doubtful) | (least * doubtful <= 1))
        pair, report = np.nonzero((ratios[near] >= doubtful) | (ratios[near] * doubtful <= 1))
        here = row * width + first + near[pair]
        there = here + down * width + right
        one, two = table[here, report], table[there, report]
        large, small = np.maximum(one, two), np.minimum(one, two)
        # Most pairs of an offset have the very same integers.
        for at in np.flatnonzero((large != numerator) | (small != denominator)).tolist():
            a, b = int(large[at]), int(small[at])
            if a * denominator > numerator * b:
                numerator, denominator = a, b
    row, column = np.argwhere(np.array(told) >= largest * (1 - _SAME))[0].tolist()
    return (row, first + column), Fraction(numerator, denominator)
