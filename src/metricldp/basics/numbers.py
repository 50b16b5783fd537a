"""What counts as a number."""

from __future__ import annotations

import math
from typing import TypeGuard

import numpy as np


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
