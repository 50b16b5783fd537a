"""Additive noise: added around a ring, drawn from one of a few patterns of whole heights.

y = (x + d) mod n, n at least the number of positions; positions may also lie elsewhere on the ring
than one after the other. Which of J patterns d is drawn from is a fair draw of its own and part of
the report. P(d) is a level of the pattern's depth at d, and depths that
differ by no more than the metric allows between d and d + (x - x') keep it, for every x and x' at
once. Around the ring everything is a convolution.

With pbar the mean of P over positions, M = sum_y P(y|x) P(y|x') / pbar(y) and u = M^-1 f, the
decoder F(y) = sum_x u(x) P(y|x) / pbar(y) is unbiased, and the best one for people spread evenly:
its mean square is then f M^-1 f. A prior in place of the even spread gives the best one for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import spread_of
from metricldp.mechanisms.channel import Floats, Integers
from metricldp.mechanisms.features import IntegerChannel
from metricldp.mechanisms.fields import Column
from metricldp.mechanisms.levels import Shape, fall_of, highest
from metricldp.mechanisms.lookup import Lookup
from metricldp.mechanisms.randomness import Randomness
from metricldp_core.levels import Additive, levels

ASTRAY = 1e-6
"""Decoders that are off by more than this tell nothing."""


@dataclass(frozen=True)
class Shaped(IntegerChannel):
    """Report j n + (x + d) mod n: the pattern j, fair, and d with its level as probability."""

    size: int
    depths: tuple[Shape, ...]
    """For each pattern, a power of two of them, how far below its top each d is."""
    tops: tuple[int, ...]
    """The highest level of each pattern; the levels of its depths add up to nearly 2^64."""
    fall: int
    prior: tuple[float, ...] | None = None
    """How people are spread, for the decoder; evenly where nothing is said."""

    mechanism: ClassVar[str] = "shaped"

    @classmethod
    def of(
        cls,
        size: int,
        depths: tuple[Shape, ...],
        unit: Fraction,
        prior: tuple[float, ...] | None = None,
        **more: Any,
    ) -> Self:
        fall = fall_of(unit)
        tops = tuple(highest(fall, pattern) for pattern in depths)
        return cls(size, depths, tops, fall, prior, **more)

    @cached_property
    def _levels(self) -> list[list[int]]:
        """The level of each depth, for each pattern."""
        pairs = zip(self.tops, self.depths, strict=True)
        return [levels(top, self.fall, max(pattern)) for top, pattern in pairs]

    @property
    def around(self) -> int:
        """The length n of the ring."""
        return len(self.depths[0])

    @cached_property
    def places(self) -> npt.NDArray[np.int64]:
        """Where on the ring each position lies."""
        return np.arange(self.size)

    @property
    def patterns(self) -> int:
        return len(self.depths)

    @property
    def outputs(self) -> int:
        return self.patterns * self.around

    # The device

    @cached_property
    def distribution(self) -> Additive:
        grid = (self.size,), (self.around,)
        return Additive(*grid, self.depths, self.tops, self.fall)

    @cached_property
    def _weights(self) -> list[list[int]]:
        pairs = zip(self.depths, self._levels, strict=True)
        return [[heights[depth] for depth in pattern] for pattern, heights in pairs]

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self._weights)

    def encode(self, positions: Integers, randomness: Randomness) -> Column:
        count, n = len(positions), self.around
        drawn = np.frombuffer(randomness.draw(count), dtype=np.uint8)
        j = (drawn & np.uint8(self.patterns - 1)).astype(np.int64)
        y = self._lookup.many(j, randomness) + self._placed(positions)
        y -= np.where(y >= n, n, 0)
        y += j * n
        return np.asarray(y.astype(self.field.dtype))

    def _placed(self, positions: Integers) -> Integers:
        return positions

    # The certificate

    def probability(self, x: int, report: Column) -> Fraction:
        j, y = divmod(int(report), self.around)
        weight = self._weights[j][(y - int(self.places[x])) % self.around]
        return Fraction(weight, self.patterns * self._lookup.total(j))

    def log_chances(self, column: Column) -> Floats:
        j, y = np.divmod(column.astype(np.int64), self.around)
        away = (y[:, None] - self.places) % self.around
        return np.asarray(np.log(self._shares / self.patterns)[j[:, None], away])

    # Decoding

    @cached_property
    def _shares(self) -> Floats:
        """P(d) of each pattern, (patterns, n)."""
        totals = [self._lookup.total(j) for j in range(self.patterns)]
        rows = zip(self._weights, totals, strict=True)
        return np.array([[weight / total for weight in row] for row, total in rows])

    @cached_property
    def _spectrum(self) -> npt.NDArray[np.complex128]:
        return np.fft.rfft(self._shares)

    def _noise(self) -> npt.NDArray[np.int64]:
        """The d that leads from each position to each place y of the ring, (n, size)."""
        return (np.arange(self.around)[:, None] - self.places) % self.around

    @cached_property
    def _mean_shares(self) -> Floats:
        """The mean of P(y | x) over people, within each pattern."""
        noise = self._noise()
        return np.array(
            [shares[noise] @ spread_of(self.prior, self.size) for shares in self._shares]
        )

    @cached_property
    def _inverse(self) -> Floats:
        """M^-1, where it tells every position."""
        noise, found = self._noise(), np.zeros((self.size, self.size))
        for shares, mean in zip(self._shares, self._mean_shares, strict=True):
            likely = shares[noise] / np.sqrt(mean)[:, None]
            found += likely.T @ likely / self.patterns
        try:
            inverse = np.linalg.inv(found)
        except np.linalg.LinAlgError:
            inverse = np.zeros_like(found)
        tried = np.random.default_rng(1).normal(size=(self.size, 3))
        if np.abs(found @ (inverse @ tried) - tried).max() > ASTRAY:
            raise QueryError(
                "additive noise with these patterns does not determine the counts of values; use a "
                "larger epsilon or another mechanism"
            )
        return np.asarray(inverse)

    def coefficients(self, functions: Floats) -> Floats:
        padded = np.zeros((*functions.shape[:-1], 1, self.around))
        padded[..., 0, self.places] = functions @ self._inverse
        found = np.fft.irfft(np.fft.rfft(padded) * self._spectrum, self.around)
        return (found / self._mean_shares).reshape(*functions.shape[:-1], self.outputs)

    def mean(self, values: Floats) -> Floats:
        parts = values.reshape(*values.shape[:-1], self.patterns, self.around)
        turned = np.fft.rfft(parts)
        turned *= self._spectrum.conj() / self.patterns
        return self._at_positions(np.fft.irfft(turned.sum(axis=-2), self.around))

    def spread(self, shares: Floats) -> Floats:
        padded = np.zeros((*shares.shape[:-1], 1, self.around))
        padded[..., 0, self.places] = shares
        found = np.fft.irfft(np.fft.rfft(padded) * self._spectrum, self.around) / self.patterns
        return np.asarray(found.reshape(*shares.shape[:-1], self.outputs))

    def cells(self, totals: Floats) -> Floats:
        """The transpose of `coefficients`, by the same transforms."""
        parts = np.moveaxis(totals, 0, -1).reshape(*totals.shape[1:], self.patterns, self.around)
        turned = np.fft.rfft(parts / self._mean_shares) * self._spectrum.conj()
        found = self._at_positions(np.fft.irfft(turned.sum(axis=-2), self.around))
        return np.moveaxis(found @ self._inverse, -1, 0)

    def _at_positions(self, around: Floats) -> Floats:
        """What is known at all places of the ring, at those of positions."""
        return np.asarray(around[..., self.places])

    def mean_square(self, gram: Floats, prior: Floats | None = None) -> float:
        """tr G M^-1 for people spread evenly, and a decoder made for them."""
        if prior is not None or self.prior is not None:
            return super().mean_square(gram, prior)
        return float((gram * self._inverse).sum())
