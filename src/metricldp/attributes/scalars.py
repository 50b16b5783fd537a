"""Columns of numbers and codes, checked against a domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import InvalidValueError


def reals_within(
    numbers: npt.NDArray[Any], ends: tuple[float, float], clip: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Numbers as floats, clipped if wanted, and which of them are not from low to high."""
    floats = numbers.astype(np.float64)
    finite = np.isfinite(floats)
    if clip:
        np.clip(floats, *ends, out=floats)
    return floats, ~(finite & (floats >= ends[0]) & (floats <= ends[1]))


def codes_within(codes: npt.NDArray[Any], size: int, name: str) -> npt.NDArray[np.int64]:
    wrong = (codes < 0) | (codes >= size)
    if wrong.any():
        why = f"has a code of no name; the codes of its names go from 0 to {size - 1}"
        raise InvalidValueError(why, attribute=name or None, row=int(np.argmax(wrong)))
    return codes.astype(np.int64)
