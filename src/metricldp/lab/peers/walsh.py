"""Walsh functions: the signs (-1)^|v & j| of a Hadamard matrix, without the matrix."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from metricldp.channels import Floats, Integers


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
    """The matrix itself, of 2^order rows."""
    places = np.arange(1 << order)
    return np.where(odd(places[:, None] & places), -1.0, 1.0)
