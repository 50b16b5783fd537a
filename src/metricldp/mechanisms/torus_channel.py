"""Additive noise over the cells of a grid: a ring that is wound up, row after row of cells.

Cell (a, b, ...) lies at place a s_1 + b s_2 + ..., with a few places more than positions along
every attribute. So noise that is added around the ring is added along all attributes at once.

Up to some number of cells the decoder is that of `additive_channel.py`. With more, the equations
for it would be too many to be solved. Around the ring they solve themselves: with q_j the transform
of pattern j and f that of a function on all places of the ring, the decoder's transform is

    F_j = q_j f / mean_i |q_i|^2,

unbiased at every place. The mean of f is known without asking, so it is left out and added again.
What f is at the places between the cells is free. It goes on smoothly
there, along one attribute after the other, as is best for the workload of all ranges; that costs a
few per cent more than the best decoder.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import root_of
from metricldp.mechanisms.additive_channel import ASTRAY, Shaped
from metricldp.mechanisms.channel import Floats, Integers, ranges_gram
from metricldp.mechanisms.joint import Functions, Sizes, kron, products
from metricldp.mechanisms.levels import Shape
from metricldp_core.levels import Additive

MOST_SOLVED = 1024
"""Cells up to which the best decoder is solved for."""
_MOST_ENTRIES = 1 << 23
"""Of a matrix of places by cells."""
_AT_ONCE = 1 << 17
"""Values of decoders at a time, so that they stay in the cache."""
_NOTHING = 1e-15
"""Rows of a root that are this share of it are rounding."""
_ROUNDS = 3
"""Attributes are gone through so often: what is best along one depends on the others."""


def strides_of(lengths: Sizes) -> Sizes:
    """How far one step along each attribute is, where the last runs fastest."""
    return tuple(math.prod(lengths[d + 1 :]) for d in range(len(lengths)))


def placed(along: Sequence[npt.NDArray[np.int64]], lengths: Sizes) -> npt.NDArray[np.int64]:
    """The places around the ring of all combinations of steps along each attribute."""
    axes = [steps * stride for steps, stride in zip(along, strides_of(lengths), strict=True)]
    return np.asarray(reduce(np.add.outer, axes)).reshape(-1) % math.prod(lengths)


@dataclass(frozen=True, eq=False)
class Wound(Shaped):
    """The positions are cells, along the last attribute first."""

    sizes: Sizes = field(kw_only=True)
    lengths: Sizes = field(kw_only=True)
    """How many places of the ring there are along each attribute."""

    @classmethod
    def on(cls, sizes: Sizes, lengths: Sizes, depths: tuple[Shape, ...], unit: Fraction) -> Wound:
        return cls.of(math.prod(sizes), depths, unit, sizes=sizes, lengths=lengths)

    @cached_property
    def distribution(self) -> Additive:
        return Additive(self.sizes, self.lengths, self.depths, self.tops, self.fall)

    @cached_property
    def places(self) -> npt.NDArray[np.int64]:
        return placed([np.arange(size) for size in self.sizes], self.lengths)

    def _placed(self, positions: Integers) -> Integers:
        return self.places[positions]

    def _at_positions(self, around: Floats) -> Floats:
        """The first places along each attribute: no need to look for one after the other."""
        first: tuple[Any, ...] = (..., *(slice(size) for size in self.sizes))
        found = around.reshape(*around.shape[:-1], *self.lengths)[first]
        return np.asarray(found.reshape(*around.shape[:-1], self.size))

    # Decoding

    @property
    def _solved(self) -> bool:
        return self.size <= MOST_SOLVED and self.size * self.around <= _MOST_ENTRIES

    def coefficients(self, functions: Floats) -> Floats:
        if self._solved:
            return super().coefficients(functions)
        found = functions.reshape(*functions.shape[:-1], *self.sizes)
        found = _along_each(found, [onward.T for onward in self._onward])
        return self._turned_back(found.reshape(*functions.shape[:-1], self.around), functions)

    def product_coefficients(self, functions: Functions) -> Floats:
        """The same for products of functions of each attribute, which go on apart: quicker."""
        if self._solved:
            return super().coefficients(products(functions))
        along = [f @ onward.T for f, onward in zip(functions, self._onward, strict=True)]
        means = reduce(np.multiply, [f.mean(axis=1, keepdims=True) for f in functions])
        return self._turned_back(products(along), means)

    def _turned_back(self, extended: Floats, functions: Floats) -> Floats:
        """From functions at all places to their decoders; what they are on average is known."""
        turned = np.fft.rfft(extended)
        turned += functions.mean(axis=-1, keepdims=True) * self._known
        found = np.fft.irfft(turned[..., None, :] * self._filter, self.around)
        return found.reshape(*extended.shape[:-1], self.outputs)

    @cached_property
    def _known(self) -> npt.NDArray[np.complex128]:
        """What a function that is 1 everywhere goes on to, taken away and put in as it is."""
        ones = products([onward.sum(axis=1)[None] for onward in self._onward])
        return np.asarray(np.fft.rfft(1.0 - ones[0]))

    def product_mean_square(self, grams: Sequence[Floats]) -> float:
        """`mean_square` of products of Gram matrices: the decoder of every row of their roots."""
        if self._solved:
            return self.mean_square(kron(grams))
        roots = [root_of(gram) for gram in grams]
        roots = [root[(root**2).sum(axis=1) > _NOTHING * (root**2).sum()] for root in roots]
        even = np.zeros(self.around)
        even[self.places] = 1 / (self.size * self.patterns)
        reached = np.fft.irfft(np.fft.rfft(even) * self._spectrum, self.around).reshape(-1)
        rows = np.indices([len(root) for root in roots]).reshape(len(roots), -1)
        total, step = 0.0, max(1, _AT_ONCE // self.outputs)
        for start in range(0, rows.shape[1], step):
            chosen = rows[:, start : start + step]
            some = [root[row] for root, row in zip(roots, chosen, strict=True)]
            total += float((self.product_coefficients(some) ** 2 @ reached).sum())
        return total

    def cells(self, totals: Floats) -> Floats:
        if self._solved:
            return super().cells(totals)
        parts = np.moveaxis(totals, 0, -1).reshape(*totals.shape[1:], self.patterns, self.around)
        turned = (np.fft.rfft(parts) * self._filter.conj()).sum(axis=-2)
        found = np.fft.irfft(turned, self.around).reshape(*totals.shape[1:], *self.lengths)
        found = _along_each(found, self._onward)
        found = np.moveaxis(found.reshape(*totals.shape[1:], self.size), -1, 0)
        return np.asarray(found + (totals.sum(axis=0) - found.sum(axis=0)) / self.size)

    @cached_property
    def _filter(self) -> npt.NDArray[np.complex128]:
        """From the transform of a function to those of its decoder, for each pattern."""
        power = (np.abs(self._spectrum) ** 2).mean(axis=0)
        found = self._spectrum / np.maximum(power, np.finfo(np.float64).tiny)
        tried = np.random.default_rng(1).normal(size=(3, self.around))
        turned = np.fft.rfft(tried)[:, None] * found
        values = np.fft.rfft(np.fft.irfft(turned, self.around))
        again = np.fft.irfft((values * self._spectrum.conj()).mean(axis=1), self.around)
        if not np.abs(again - tried).max() <= ASTRAY:
            raise QueryError(
                "additive noise with these patterns does not determine the counts of cells; use a "
                "larger epsilon or a coarser grid"
            )
        return np.asarray(found)

    @cached_property
    def _onward(self) -> list[Floats]:
        """Along each attribute, what a function is at every place, from what it is at positions.

        The best for all ranges: what they cost along one attribute is a sum over the frequencies of
        the others, and the places between are where that is least.
        """
        axes = range(1, 1 + len(self.sizes))
        noise = np.fft.fftn(self._shares.reshape(-1, *self.lengths), axes=axes)
        cost = 1 / np.maximum((np.abs(noise) ** 2).mean(axis=0), np.finfo(np.float32).tiny)
        onward = [np.eye(n, size) for n, size in zip(self.lengths, self.sizes, strict=True)]
        for _ in range(_ROUNDS):
            for d, (n, size) in enumerate(zip(self.lengths, self.sizes, strict=True)):
                if n == size:
                    continue
                along = cost
                for other in reversed(range(len(self.sizes))):
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
    """How strong each frequency is in all ranges of an attribute, at the places they go on to."""
    size = onward.shape[1]
    moved = np.fft.fft(onward, axis=0)
    return np.asarray(np.einsum("ka,ab,kb->k", moved, ranges_gram(size), moved.conj()).real)
