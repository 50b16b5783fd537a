"""Walsh functions: the signs (-1)^|v & j| of a Hadamard matrix, without the matrix.

And what channels have in common of which a report tells such a sign and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Self

import numpy as np
import numpy.typing as npt

from metricldp.lab.peers.distribution import Baseline
from metricldp.mechanisms import Floats, IntegerChannel, Integers, OneHot, keep_for
from metricldp_core.exact import WORD


@dataclass(frozen=True)
class SignChannel(Baseline, IntegerChannel, OneHot):
    """A sign that depends on the value is kept with probability keep / 2^64, else turned."""

    size: int
    keep: int

    same_ratio_for_all_pairs = True

    @classmethod
    def for_epsilon(cls, size: int, epsilon: Fraction) -> Self:
        return cls(size, keep_for(2, epsilon))

    @property
    def moments(self) -> Self:
        return self

    @property
    def feature_count(self) -> int:  # type: ignore[override]
        return self.outputs

    @cached_property
    def gap(self) -> float:
        """t: how much more often a sign is kept than turned, and so its mean."""
        return float(Fraction(2 * self.keep - WORD, WORD))

    def worst_ratio(self, x: int, other: int) -> Fraction:
        """Two values differ in some sign: kept against turned."""
        return Fraction(1) if x == other else Fraction(self.keep, WORD - self.keep)


def power_of_two(count: int) -> int:
    """The smallest power of two that is not below `count`."""
    return 1 << (count - 1).bit_length()


def odd(numbers: Integers) -> npt.NDArray[np.int64]:
    """1 where a number has an odd number of ones in binary, else 0."""
    return np.bitwise_count(numbers).astype(np.int64) & 1


def transform(values: Floats, size: int) -> Floats:
    """sum_v values[..., v] (-1)^|v & j| for every j below `size`, a power of two.

    What is missing of `size` values counts as zero. The matrix is a Kronecker product of two
    smaller ones; products with these, size^1.5 steps, are quicker in numpy than log2(size) passes.
    """
    order = size.bit_length() - 1
    left, right = _signs(order // 2), _signs(order - order // 2)
    padded = np.zeros((*values.shape[:-1], len(left), len(right)))
    padded.reshape(*values.shape[:-1], size)[..., : values.shape[-1]] = values
    return np.asarray((left @ padded @ right).reshape(*values.shape[:-1], size))


@lru_cache(maxsize=32)
def _signs(order: int) -> Floats:
    rows = np.arange(1 << order)
    return np.where(odd(rows[:, None] & rows), -1.0, 1.0)
