"""Additive noise on a ring or torus, drawn from one of a few patterns of levels.

Positions are the cells of a grid with one or more attributes. A cell lies at a place of a ring of n
places: at a s_1 + b s_2 + ... with as many places along every attribute as `lengths` says, so noise
that is added around the ring is added along all attributes at once. The report is the pattern j,
drawn uniformly, and (place + d) mod n with d drawn from the pattern.

With m the mean of P(y | x) over positions, M = sum_y P(y|x) P(y|x') / m(y) and u = M^-1 f, the
estimator F(y) = sum_x u(x) P(y|x) / m(y) is the best one, with the mean square f M^-1 f. Products
with P are convolutions.

Of many cells M would be too large to be inverted. Around the ring it is a circulant matrix C, so
for any values of f at the places between the cells u = C^-1 f is unbiased. f goes on smoothly
there, along one attribute after the other, as is best for the workload of all ranges; that costs a
few per cent more than the best estimator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, reduce
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import spread_of
from metricldp.mechanisms.channel import CoreChannel, IntegerChannel, Integers
from metricldp.mechanisms.fields import Column
from metricldp.mechanisms.levels import Shape, fall_of, highest
from metricldp.mechanisms.moments import TOLERANCE, Floats, OneHot, Prior, ranges_gram
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.sampling import Lookup
from metricldp_core.levels import Additive

Turned = npt.NDArray[np.complex128]
"""The transform of values at all places of a ring."""
MOST_SOLVED = 1024
"""Cells of several attributes up to which M is inverted."""
_MOST_ENTRIES = 1 << 23
"""Of a matrix of places by cells."""
_ROUNDS = 3
"""Attributes are gone through so often: what is best along one depends on the others."""
_LEAST_POWER = 1e-100
"""In place of a power of 0, which has no inverse."""


@dataclass(frozen=True)
class AdditiveChannel(CoreChannel, IntegerChannel):
    """Report j n + (place + d) mod n: the pattern j, and d with its level as probability."""

    distribution: Additive
    prior: Prior = field(default=None, kw_only=True)
    """The distribution of positions for which the estimator is best; None is uniform."""

    @classmethod
    def of(
        cls,
        sizes: Sequence[int],
        lengths: Sequence[int],
        depths: tuple[Shape, ...],
        unit: Fraction,
        prior: Prior = None,
    ) -> Self:
        fall = fall_of(unit)
        tops = tuple(highest(fall, pattern) for pattern in depths)
        return cls(Additive(tuple(sizes), tuple(lengths), depths, tops, fall), prior=prior)

    @cached_property
    def places(self) -> npt.NDArray[np.int64]:
        """The place of each position on the ring."""
        strides = self.distribution.strides
        steps = np.indices(self.distribution.sizes).reshape(len(strides), -1)
        return np.asarray(np.array(strides) @ steps)

    @cached_property
    def _lookup(self) -> Lookup:
        pairs = zip(self.distribution.depths, self.distribution.levels, strict=True)
        return Lookup([[levels[depth] for depth in pattern] for pattern, levels in pairs])

    def sample(self, positions: Integers, randomness: Randomness) -> Column:
        count, n = len(positions), self.distribution.ring
        drawn = np.frombuffer(randomness.draw(count), dtype=np.uint8)
        j = (drawn & np.uint8(len(self.distribution.depths) - 1)).astype(np.int64)
        y = self._lookup.many(j, randomness) + self.places[positions]
        y -= np.where(y >= n, n, 0)
        y += j * n
        return np.asarray(y.astype(self.field.dtype))

    @cached_property
    def _patterns(self) -> Floats:
        """P(d) of each pattern, (patterns, n)."""
        return np.array([_probabilities(sums) for sums in self._lookup.below])

    @cached_property
    def moments(self) -> AdditiveMoments:
        several = len(self.distribution.sizes) > 1
        few = self.size <= MOST_SOLVED and self.size * self.distribution.ring <= _MOST_ENTRIES
        solved = few or not several
        if solved:
            return AdditiveMoments(self._patterns, self.places, self.prior)
        return ExtendedAdditiveMoments(
            self._patterns, self.places, self.distribution.sizes, self.distribution.lengths
        )

    def log_likelihood(self, column: Column) -> Floats:
        j, y = np.divmod(column.astype(np.int64), self.distribution.ring)
        away = (y[:, None] - self.places) % self.distribution.ring
        return np.asarray(np.log(self._patterns / len(self._patterns))[j[:, None], away])


def _probabilities(sums: Sequence[int]) -> list[float]:
    """The probabilities of which these are the running sums, times the last of them."""
    pairs = zip([0, *sums], sums, strict=False)
    return [(end - start) / sums[-1] for start, end in pairs]


class AdditiveMoments(OneHot):
    """Convolutions around a ring, with the inverse of M."""

    def __init__(
        self, patterns: Floats, places: npt.NDArray[np.int64], prior: Prior = None
    ) -> None:
        self.size, self.feature_count = len(places), patterns.size
        self._patterns, self._places, self._prior = patterns, places, prior
        self._count, self._ring = patterns.shape

    @cached_property
    def _spectrum(self) -> Turned:
        return np.fft.rfft(self._patterns)

    def mean(self, values: Floats) -> Floats:
        return np.asarray(np.fft.irfft(self._turned_mean(values), self._ring)[..., self._places])

    def _turned_mean(self, values: Floats) -> Turned:
        """The transform of E[v(report) | x], for an x at every place."""
        parts = values.reshape(*values.shape[:-1], self._count, self._ring)
        turned = np.fft.rfft(parts)
        turned *= self._spectrum.conj() / self._count
        return np.asarray(turned.sum(axis=-2))

    def spread(self, shares: Floats) -> Floats:
        return self._spread_turned(np.fft.rfft(self._around(shares)))

    def _spread_turned(self, turned: Turned) -> Floats:
        """The same, from the transform of shares at all places."""
        spread = np.fft.irfft(turned[..., None, :] * (self._spectrum / self._count), self._ring)
        return np.asarray(spread.reshape(*turned.shape[:-1], self.feature_count))

    def _around(self, values: Floats) -> Floats:
        """Values at all places of the ring, 0 between the cells."""
        around = np.zeros((*values.shape[:-1], self._ring))
        around[..., self._places] = values
        return around

    def coefficients(self, functions: Floats) -> Floats:
        self._check()
        return self._spread_turned(self._solve(functions)) / self._means

    def frequencies(self, totals: Floats) -> Floats:
        """The transpose of `coefficients`, by the same transforms."""
        self._check()
        turned = self._turned_mean(np.moveaxis(totals, 0, -1) / self._means)
        return np.moveaxis(self._solve_transposed(turned), -1, 0)

    def mean_square(self, gram: Floats, prior: Floats | None = None) -> float:
        """tr G M^-1 under a uniform prior, and an estimator for it."""
        if prior is not None or self._prior is not None:
            return super().mean_square(gram, prior)
        self._check()
        return float((gram * self._inverse).sum())

    @cached_property
    def _means(self) -> Floats:
        """m(y), the mean of P(y | x) under the prior."""
        return self.spread(spread_of(self._prior, self.size))

    def _solve(self, functions: Floats) -> Turned:
        """The transform of u at all places of the ring."""
        return np.fft.rfft(self._around(functions @ self._inverse))

    def _solve_transposed(self, turned: Turned) -> Floats:
        around = np.fft.irfft(turned, self._ring)
        return np.asarray(around[..., self._places] @ self._inverse)

    @cached_property
    def _inverse(self) -> Floats:
        """M^-1, (size, size); 0 if there is none."""
        means = self._means.reshape(self._count, self._ring)
        noise = (np.arange(self._ring)[:, None] - self._places) % self._ring
        matrix = np.zeros((self.size, self.size))
        for pattern, mean in zip(self._patterns, means, strict=True):
            likely = pattern[noise] / np.sqrt(mean)[:, None]
            matrix += likely.T @ likely / self._count**2
        try:
            return np.asarray(np.linalg.inv(matrix), dtype=np.float64)
        except np.linalg.LinAlgError:
            return np.zeros_like(matrix)

    def _check(self) -> None:
        if not self._bias <= TOLERANCE:
            raise QueryError(
                "additive noise with these patterns does not determine the counts of values; use a "
                "larger epsilon or another mechanism"
            )

    @cached_property
    def _bias(self) -> float:
        """The largest difference of a random function and the mean of its estimator."""
        tried = np.random.default_rng(1).normal(size=(3, self.size))
        estimator = self._spread_turned(self._solve(tried)) / self._means
        return float(np.abs(self.mean(estimator) - tried).max())


class ExtendedAdditiveMoments(AdditiveMoments):
    """For many cells, with the inverse of a circulant matrix and a uniform prior on the ring."""

    def __init__(
        self,
        patterns: Floats,
        places: npt.NDArray[np.int64],
        sizes: Sequence[int],
        lengths: Sequence[int],
    ) -> None:
        super().__init__(patterns, places)
        self._sizes, self._lengths = tuple(sizes), tuple(lengths)

    @cached_property
    def _means(self) -> Floats:
        return np.full(self.feature_count, 1 / self.feature_count)

    def mean_square(self, gram: Floats, prior: Floats | None = None) -> float:
        return OneHot.mean_square(self, gram, prior)

    def _solve(self, functions: Floats) -> Turned:
        cells = functions.reshape(*functions.shape[:-1], *self._sizes)
        around = _along_each(cells, [onward.T for onward in self._onward])
        around = around.reshape(*functions.shape[:-1], self._ring)
        around += functions.mean(axis=-1, keepdims=True) * self._missing
        return np.asarray(np.fft.rfft(around) / self._power)

    def _solve_transposed(self, turned: Turned) -> Floats:
        around = np.fft.irfft(turned / self._power, self._ring)
        cells = around.reshape(*turned.shape[:-1], *self._lengths)
        values = _along_each(cells, self._onward).reshape(*turned.shape[:-1], self.size)
        return np.asarray(values + (around @ self._missing)[..., None] / self.size)

    @cached_property
    def _power(self) -> Floats:
        """The eigenvalues of C."""
        power: Floats = (np.abs(self._spectrum) ** 2).mean(axis=0)
        return np.asarray(self._ring * np.maximum(power, _LEAST_POWER))

    @cached_property
    def _missing(self) -> Floats:
        """1 minus what the function 1 goes on to: its mean is known, so it is put in as it is."""
        along = [onward.sum(axis=1) for onward in self._onward]
        return np.asarray(1.0 - reduce(np.multiply.outer, along).reshape(-1))

    @cached_property
    def _onward(self) -> list[Floats]:
        """Along each attribute, from a function at positions to its values at every place.

        The best for all ranges: their mean square along one attribute is a sum over the frequencies
        of the others, and the values between minimise it.
        """
        axes = range(1, 1 + len(self._sizes))
        noise = np.fft.fftn(self._patterns.reshape(-1, *self._lengths), axes=axes)
        cost = 1 / np.maximum((np.abs(noise) ** 2).mean(axis=0), np.finfo(np.float32).tiny)
        onward = [np.eye(n, size) for n, size in zip(self._lengths, self._sizes, strict=True)]
        for _ in range(_ROUNDS):
            for d, (n, size) in enumerate(zip(self._lengths, self._sizes, strict=True)):
                if n == size:
                    continue
                along: Any = cost
                for other in reversed(range(len(self._sizes))):
                    if other != d:
                        along = np.tensordot(along, _ranges_spectrum(onward[other]), (other, 0))
                lags = np.fft.ifft(along).real
                quadratic = lags[(np.arange(n)[:, None] - np.arange(n)) % n]
                between = np.linalg.solve(quadratic[size:, size:], -quadratic[size:, :size])
                onward[d] = np.concatenate([np.eye(size), between])
        return onward


def _along_each(values: Floats, matrices: Sequence[Floats]) -> Floats:
    """Each of the last axes multiplied with its matrix."""
    for d, matrix in enumerate(matrices):
        axis = d - len(matrices)
        values = np.moveaxis(np.moveaxis(values, axis, -1) @ matrix, -1, axis)
    return values


def _ranges_spectrum(onward: Floats) -> Floats:
    """The power of each frequency in all ranges of an attribute, at the places they go on to."""
    moved = np.fft.fft(onward, axis=0)
    gram = ranges_gram(onward.shape[1])
    return np.asarray(np.einsum("ka,ab,kb->k", moved, gram, moved.conj()).real)
