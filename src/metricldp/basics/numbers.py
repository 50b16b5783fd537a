"""What counts as a number."""

from __future__ import annotations

import math
from typing import TypeGuard

import numpy as np
import numpy.typing as npt


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number; True, False and what no float could hold are not."""
    if type(value) is float:
        return True
    if isinstance(value, int):
        return not isinstance(value, bool) and value.bit_length() <= 1023
    return isinstance(value, (float, np.integer, np.floating))


def is_whole(value: object) -> TypeGuard[int | float]:
    """Whether a value is a whole number, be it an int or a float."""
    return is_number(value) and math.isfinite(value) and value == int(value)


def root_of(gram: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """R with R^T R = gram."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)
