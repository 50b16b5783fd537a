"""Threshold bits: section 4.1 of the paper, with the constant last bit left at home.

Bit k says whether x <= k and is flipped with probability 1/(e^epsilon + 1). One step of x changes
one bit, so the report keeps E(x, x') = epsilon |x - x'|. The paper's m-th bit is 1 for everybody;
here the collector knows that and pays no noise for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from metricldp.basics.errors import CertificateError
from metricldp.mechanisms.channel import Cut, Floats, Integers
from metricldp.mechanisms.features import BitChannel
from metricldp.mechanisms.fields import Column
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.sampling import BLOCK, fill, words_for
from metricldp_core import distributions as core
from metricldp_core.distributions import Distribution
from metricldp_core.exact import WORD, ceil_of, exp_bounds


@dataclass(frozen=True)
class Threshold(BitChannel):
    """`size - 1` bits; each flipped with probability flip / 2^64."""

    size: int
    flip: int

    mechanism: ClassVar[str] = "threshold"
    constant: ClassVar[bool] = True

    @classmethod
    def for_epsilon(cls, size: int, epsilon: Fraction) -> Threshold:
        """The smallest flip probability, rounded up, that keeps epsilon per step."""
        flip = ceil_of(WORD / (1 + exp_bounds(epsilon)[0]))
        if 2 * flip >= WORD:
            raise CertificateError(
                f"epsilon {float(epsilon):.3g} per step is too small for 64-bit words; "
                "use a coarser grid or a larger epsilon"
            )
        return cls(size, flip)

    @property
    def bits(self) -> int:
        return self.size - 1

    @cached_property
    def kappa(self) -> float:
        """What a flipped sign is multiplied with to be unbiased, (e^eps + 1)/(e^eps - 1)."""
        return float(Fraction(WORD, WORD - 2 * self.flip))

    @cached_property
    def noise(self) -> float:
        """kappa^2 - 1: the variance of one unbiased sign."""
        keep, gap = Fraction(self.flip * (WORD - self.flip)), Fraction(WORD - 2 * self.flip)
        return float(4 * keep / gap**2)

    def bit_chances(self) -> Floats:
        flip, grid = self.flip / WORD, np.arange(self.size)
        return np.where(np.arange(self.bits)[:, None] >= grid, 1 - flip, flip)

    def encode(self, positions: Integers, randomness: Randomness) -> Column:
        from metricldp.mechanisms import sampling_kernels as kernels

        count, width = len(positions), self.field.width
        column = np.empty(words_for(8 * count * width), dtype=np.uint64)
        wide = np.ascontiguousarray(positions, dtype=np.int64)
        # Eight rows fill whole words; as many of them as stay in the cache are made at a time.
        step = 8 * max(1, BLOCK // width)
        for start in range(0, count, step):
            part = wide[start : start + step]
            first = start // 8 * width
            flips = column[first : first + words_for(8 * len(part) * width)]
            fill(randomness, self.flip, flips)
            kernels.cross(flips, part, width, self.bits)
        return column.view(np.uint8)[: count * width].reshape(count, width)

    @cached_property
    def distribution(self) -> Distribution:
        return core.Threshold(self.size, (self.flip,) * self.bits)

    def coefficients(self, functions: Floats) -> Floats:
        """Write f as its steps: f(x) = f(last) + sum_k (f(k) - f(k+1)) [x <= k]."""
        steps = functions[..., :-1] - functions[..., 1:]
        middle = (functions[..., :1] + functions[..., -1:]) / 2
        return np.concatenate([middle, self.kappa / 2 * steps], axis=-1)

    def moment(self, functions: Floats, others: Floats | None = None) -> Floats:
        """f g, and what everybody pays for every step of both, wherever they are."""
        others = functions if others is None else others
        steps = np.diff(functions) * np.diff(others)
        return np.asarray(functions * others + self.noise / 4 * steps.sum(axis=-1, keepdims=True))

    def cells(self, totals: Floats) -> Floats:
        signs = self.kappa / 2 * totals[1:]
        result = np.zeros((self.size, *totals.shape[1:]))
        result[:-1] += signs
        result[1:] -= signs
        result[0] += totals[0] / 2
        result[-1] += totals[0] / 2
        return result

    def cut(self, first: int, end: int) -> Cut | None:
        """Each end inside the domain is a bit and adds (kappa^2 - 1)/4, wherever a person is."""
        if first == 0:
            return Cut(end - 1, None, 0.5, self.kappa / 2, self.noise / 4)
        if end == self.size:
            return Cut(first - 1, None, 0.5, -self.kappa / 2, self.noise / 4)
        return Cut(end - 1, first - 1, 0.0, self.kappa, self.noise / 2)

    def mean_range_variance(self) -> float:
        inner_ends = 2 * (self.size - 1) / (self.size + 1)
        return self.noise / 4 * inner_ends

    def probability(self, x: int, report: Column) -> Fraction:
        truth = (1 << self.bits) - (1 << x)
        flipped = (truth ^ int.from_bytes(report.tobytes(), "little")).bit_count()
        kept = self.bits - flipped
        return Fraction(self.flip**flipped * (WORD - self.flip) ** kept, WORD**self.bits)

    def log_chances(self, column: Column) -> Floats:
        """Of x the bits below it are 1 by a flip, and those from it on 0."""
        bits = np.unpackbits(column, axis=1, count=self.bits, bitorder="little")
        ones = np.zeros((len(column), self.bits + 1))
        np.cumsum(bits, axis=1, out=ones[:, 1:])
        x = np.arange(self.size)
        flipped = 2 * ones[:, : self.size] - ones[:, -1:] + (self.bits - x)
        kept = math.log1p(-self.flip / WORD)
        return np.asarray(self.bits * kept + flipped * (math.log(self.flip / WORD) - kept))
