"""The inner loops of encoding: random words in, lanes, rows of bits and integers out.

The numpy loops and the compiled ones give the same bits from the same words. numba takes time to
load, so encoding has to have gone on for about as long before the compiled loops take over.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.kernels import encoding_plain
from metricldp.kernels.plain import Words

__all__ = ["LARGE", "blur", "cross", "decide", "expect", "settle"]

LARGE = 1 << 30
"""Lanes drawn in this process from which on the compiled loops are used."""

_loaded: list[ModuleType] = []
_drawn = 0


def expect(lanes: int) -> None:
    """Say that so many lanes will be drawn; with those before, they may pay for compiled loops."""
    global _drawn  # noqa: PLW0603 - one count per process; a lost update changes no report
    _drawn += lanes
    # Arrays are read as little-endian words, and numba knows the machine's own order only.
    if not _loaded and _drawn >= LARGE and sys.byteorder == "little":
        _loaded.append(importlib.import_module("metricldp.kernels.encoding_compiled"))


def _loops() -> ModuleType:
    return _loaded[0] if _loaded else encoding_plain


def decide(planes: Words, digits: int, below: Words, undecided: Words) -> int:
    """Compare lanes, one binary digit a plane, with `digits`; count those equal in all of them.

    Lanes that are below go to `below`, lanes that are equal so far to `undecided`.
    """
    return int(_loops().decide(planes, digits, below, undecided))


def settle(below: Words, undecided: Words, words: Words, rest: int) -> None:
    """Give each undecided lane, in order, a word of its own; it is below if the word is."""
    _loops().settle(below, undecided, words, np.uint64(rest))


def cross(flips: Words, positions: npt.NDArray[np.int64], width: int, bits: int) -> None:
    """Turn flips into reports: bits from x on are inverted, padding is cleared, row by row.

    The rows of `width` bytes lie in the words one after the other.
    """
    _loops().cross(flips, positions, width, bits)


def blur(
    positions: npt.NDArray[np.int64],
    planes: Words,
    weights: npt.NDArray[np.int64],
    negative: Words,
    zero: Words,
    out: npt.NDArray[Any],
    last: int,
) -> None:
    """Add noise to positions and clip to 0 .. last.

    The noise of a lane is 1 plus the weights of the planes in which it is 1, negative or zero
    where those lanes say so.
    """
    _loops().blur(positions, planes, weights, negative, zero, out, last)
