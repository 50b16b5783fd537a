"""Walsh functions: the signs (-1)^|v & j| of a Hadamard matrix, without the matrix."""

from __future__ import annotations

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

    The fast transform: log2(size) passes. What is missing of `size` values counts as zero.
    """
    result = np.zeros((*values.shape[:-1], size))
    result[..., : values.shape[-1]] = values
    half = 1
    while half < size:
        pairs = result.reshape(*values.shape[:-1], -1, 2, half)
        first, second = pairs[..., 0, :], pairs[..., 1, :]
        first += second
        second *= -2
        second += first
        half *= 2
    return result
