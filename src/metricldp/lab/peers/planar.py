"""Planar Laplace noise on a grid: geo-indistinguishability for two attributes.

Andrés, Bordenabe, Chatzikokolakis and Palamidessi, "Geo-Indistinguishability", CCS 2013. A person
at cell x of a plane reports cell z with probability proportional to e^-E(x, z), where

    E(x, z) = sqrt(E_1(x_1, z_1)^2 + E_2(x_2, z_2)^2)

is the survey's own distance under Lp(2), so that epsilon may differ along the two axes. The noise
lives on the unbounded grid, where it is the same for every x and the triangle inequality makes it
E-private. What falls outside is moved to the nearest cell of the domain, which is a thing done to
reports and costs nothing.

(Andrés et al. draw the noise in the continuous plane, with density eps^2 / (2 pi) e^(-eps r), and
then round and truncate; rounding costs them a correction of epsilon that depends on the machine's
precision. A law that is discrete from the start needs none.)

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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.answers.estimate import Bounds
from metricldp.basics.errors import CertificateError, SurveyError
from metricldp.basics.exact import ONE, at_most_exp, floor_of
from metricldp.channels import Column, Floats, Integers, Number
from metricldp.coins.stream import Coins
from metricldp.lab.peers.joint import Functions, Joint, on_grids
from metricldp.metrics import Line, Lp
from metricldp.survey.agreement import Agreement
from metricldp.survey.certify import Certificate, Pair, Proof, tightest

MOST_CELLS = 1 << 10
"""Laws, proof and decoder take the square and the cube of the cells."""
_SLACK = 2.0**-20
"""Distances are built smaller, and laws mixed with uniform ones, by this share."""
_SMALLEST = Fraction(1, 512)
"""A smaller epsilon per step has tails too long to be added up."""
_FAR = 36.0
"""Noise at more than this distance, a share of e^-36, is left out of the sums."""
_ROUNDING = 2.0**-48
"""Ratios of floats of integers are off by less than 2^-51."""
_MOST_ENTRIES = 1 << 18
"""Numbers that are compared, or added up, at a time."""
Table = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class PlanarLaplace(Joint):
    """Two attributes on lines, in a survey with metric Lp(2); up to 32 x 32 cells."""

    survey: Agreement

    mechanism: ClassVar[str] = "planar-laplace"

    def __post_init__(self) -> None:
        survey = on_grids(self.survey)
        names = list(survey.attributes)
        if len(names) != 2:
            raise SurveyError(f"planar Laplace noise is for two attributes, not {len(names)}")
        for name, attribute in survey.attributes.items():
            if not isinstance(attribute.distances, Line):
                raise SurveyError(f"{name} has no distance along a line; use numbers or levels")
            step = attribute.distances.step
            if step < _SMALLEST:
                raise SurveyError(
                    f"{name} has epsilon {float(step):.3g} per step, too small for planar Laplace "
                    f"noise; use a coarser grid, for at least {float(_SMALLEST):.3g} per step"
                )
        if survey.metric != Lp(2):
            raise SurveyError("planar Laplace noise keeps the distance in the plane; say Lp(2)")
        if math.prod(self.shape) > MOST_CELLS:
            raise SurveyError(
                f"{' x '.join(map(str, self.shape))} cells are too many for planar Laplace noise; "
                f"use at most {MOST_CELLS:,}"
            )
        broken = [pair for pair in self.pairs if not pair.holds]
        if broken:
            x, other = (", ".join(self._words(cell)) for cell in (broken[0].x, broken[0].other))
            raise CertificateError(
                f"planar Laplace noise tells {x} from {other} too well with 64-bit coins; "
                "use a larger epsilon per step"
            )

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Positions along the two axes; cells are counted along the second first."""
        first, second = (attribute.size for attribute in self.survey.attributes.values())
        return first, second

    @cached_property
    def steps(self) -> tuple[Fraction, Fraction]:
        """Epsilon per step along the two axes."""
        first, second = (a.distances.distance(0, 1) for a in self.survey.attributes.values())
        return first, second

    @cached_property
    def table(self) -> Table:
        """P(z | x) 2^64 of every two cells: (x, z)."""
        first, second = (float(step * (1 - Fraction(_SLACK))) for step in self.steps)
        return _integers(_law(self.shape, (first, second)))

    # Privacy -------------------------------------------------------------------------------------

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """For every offset of two cells the pair that is told apart best, its ratio exactly."""
        return tuple(_proved(self.table, self.shape, self.steps))

    def certify(self) -> Certificate:
        """All pairs of cells; of those with the same offset the worst stands for all."""
        near = tightest(self.pairs)
        cells = math.prod(self.shape)
        here, there = (", ".join(self._words(cell)) for cell in (near.x, near.other))
        proof = Proof(
            attribute=", ".join(self.survey.attributes),
            mechanism=self.mechanism,
            pairs=self.pairs,
            count=cells * (cells - 1) // 2,
            labels=(here, there),
            promised=self.survey.metric == Lp(2),
        )
        return Certificate(self.fingerprint, (proof,))

    def _words(self, cell: int) -> list[str]:
        places = divmod(cell, self.shape[1])
        attributes = self.survey.attributes.values()
        return [a.label(place) for a, place in zip(attributes, places, strict=True)]

    # The report ----------------------------------------------------------------------------------

    @cached_property
    def fields(self) -> Mapping[str, Number]:
        """A position of each attribute."""
        return dict(zip(self.survey.attributes, map(Number, self.shape), strict=True))

    @property
    def law(self) -> bytes:
        """The integers."""
        return self.table.astype("<u8").tobytes()

    def blur(self, positions: Mapping[str, Integers], coins: Coins) -> Mapping[str, Column]:
        """One uniform word for each person, looked up in the sums of her cell's law."""
        cells = self._cells(positions)
        words = coins.words(len(cells))
        drawn = np.empty(len(cells), dtype=np.int64)
        order = np.argsort(cells, kind="stable")
        for people in np.split(order, np.flatnonzero(np.diff(cells[order])) + 1):
            if len(people):
                sums = np.cumsum(self.table[cells[people[0]], :-1], dtype=np.uint64)
                drawn[people] = np.searchsorted(sums, words[people], side="right")
        places = np.unravel_index(drawn, self.shape)
        return {
            name: place.astype(field.empty(0).dtype)
            for (name, field), place in zip(self.fields.items(), places, strict=True)
        }

    def _cells(self, columns: Mapping[str, Column]) -> npt.NDArray[np.int64]:
        first, second = (columns[name].astype(np.int64) for name in self.fields)
        return np.asarray(first * self.shape[1] + second)

    def probability(self, person: Mapping[str, int], report: Mapping[str, int]) -> Fraction:
        """An entry of the table."""
        first, second = self.fields
        x, z = (int(at[first]) * self.shape[1] + int(at[second]) for at in (person, report))
        return Fraction(int(self.table[x, z]), ONE)

    # Decoding ------------------------------------------------------------------------------------

    @cached_property
    def _matrix(self) -> Floats:
        return self.table.astype(np.float64) / float(ONE)

    @cached_property
    def _inverse(self) -> Floats:
        return np.asarray(np.linalg.inv(self._matrix), dtype=np.float64)

    def _function(self, functions: Functions) -> Floats:
        """f on all cells."""
        first, second = (
            functions.get(name, np.ones(field.outputs)) for name, field in self.fields.items()
        )
        return np.outer(first, second).reshape(-1)

    def decoder(self, functions: Functions) -> Floats:
        """F(z) for every reported cell."""
        return np.asarray(self._inverse @ self._function(functions))

    def second_moment(self, functions: Functions) -> Floats:
        """S(x) for every cell."""
        return np.asarray(self._matrix @ self.decoder(functions) ** 2)

    def decoded(self, functions: Functions, columns: Mapping[str, Column]) -> tuple[float, float]:
        """Reports are counted by cell first."""
        counts = np.bincount(self._cells(columns), minlength=math.prod(self.shape))
        decoder = self.decoder(functions)
        return float(counts @ decoder), float(counts @ decoder**2)

    def _noise(self, functions: Functions) -> Floats:
        """S - f^2 at every cell."""
        return np.asarray(self.second_moment(functions) - self._function(functions) ** 2)

    def involved(self, functions: Functions) -> list[str]:
        """Both: a person's noise depends on her cell, whatever is asked."""
        return list(self.fields)

    def added(self, functions: Functions, shares: list[Floats] | Floats) -> float:
        """The mean over the cells."""
        noise = self._noise(functions).reshape(self.shape)
        spread = np.outer(*shares) if isinstance(shares, list) else shares
        return float((noise * spread).sum())

    def bounds(self, functions: Functions) -> Bounds:
        """The best and the worst cell."""
        noise = self._noise(functions)
        return max(0.0, float(noise.min())), float(noise.max())


def published_distance(epsilon: float) -> float:
    """The mean distance of a report from the truth, 2 / epsilon, where nothing is clipped.

    The radius of planar Laplace noise has the distribution 1 - (1 + eps r) e^(-eps r) (Andrés et
    al.): a sum of two exponential draws.
    """
    return 2 / epsilon


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
    """Sums along the first axis from each place to its end."""
    return np.asarray(np.cumsum(masses[::-1], axis=0)[::-1])


def _integers(law: Floats) -> Table:
    """Each row over 2^64, with a small share of uniform reports; the largest entry takes the rest.

    A law that is mixed with one that is the same for everybody tells nobody apart any better.
    """
    cells = len(law)
    share = int(_SLACK * ONE) // cells
    table = (law * float(ONE - share * cells)).astype(np.uint64) + np.uint64(share)
    for row in table:
        at = int(np.argmax(row))
        row[at] = int(row[at]) + ONE - sum(row.tolist())
    return table


# The proof ---------------------------------------------------------------------------------------


def _proved(
    table: Table, shape: tuple[int, int], steps: tuple[Fraction, Fraction]
) -> Iterator[Pair]:
    """The worst pair of every offset, held against e^E without rounding."""
    floats = table.astype(np.float64).reshape(*shape, -1)
    for down in range(shape[0]):
        for right in range(1 - shape[1], shape[1]):
            if (down, right) > (0, 0):
                x, other, ratio = _worst(table, floats, down, right)
                allowed = _root_below((down * steps[0]) ** 2 + (right * steps[1]) ** 2)
                yield Pair(x, other, allowed, ratio, at_most_exp(ratio, allowed))


def _worst(table: Table, floats: Floats, down: int, right: int) -> tuple[int, int, Fraction]:
    """The largest ratio, either way round, of any report from any two cells of that offset.

    Floats only rule out what rounding leaves no doubt of; integers decide among the rest.
    """
    height, width, _ = floats.shape
    first, last = max(0, -right), width - max(0, right)
    above, below, x, other, largest = 1, 1, 0, 0, 1.0
    for row in range(height - down):
        ratios = floats[row, first:last] / floats[row + down, first + right : last + right]
        most, least = ratios.max(axis=1), ratios.min(axis=1)
        largest = max(largest, float(most.max()), 1 / float(least.min()))
        doubtful = largest * (1 - _ROUNDING)
        near = np.flatnonzero((most >= doubtful) | (least * doubtful <= 1))
        place, report = np.nonzero((ratios[near] >= doubtful) | (ratios[near] * doubtful <= 1))
        here = row * width + first + near[place]
        there = here + down * width + right
        one, two = table[here, report], table[there, report]
        large, small = np.maximum(one, two), np.minimum(one, two)
        # Most pairs of an offset have the very same integers.
        for at in np.flatnonzero((large != above) | (small != below)).tolist():
            a, b = int(large[at]), int(small[at])
            if a * below > above * b:
                above, below, x, other = a, b, int(here[at]), int(there[at])
    return x, other, Fraction(above, below)


def _root_below(square: Fraction) -> Fraction:
    """The root of a fraction, rounded down by less than 2^-96."""
    return Fraction(math.isqrt(floor_of(square * (1 << 192))), 1 << 96)
