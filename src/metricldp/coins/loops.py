"""The inner loops of encoding: random words in, lanes, rows of bits and integers out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.basics.compiled import Loops, Words
from metricldp.coins import loops_plain as encoding_plain

__all__ = ["LARGE", "blur", "cross", "decide", "expect", "settle"]

LARGE = 1 << 30
"""Lanes drawn in this process from which on the compiled loops are used."""

loops = Loops(encoding_plain, "metricldp.coins.loops_compiled", LARGE)


def expect(lanes: int) -> None:
    """Say that so many lanes are coming; with those before, they may pay for compiled loops."""
    loops.expect(lanes)


def decide(planes: Words, digits: int, below: Words, undecided: Words) -> int:
    """Compare lanes, one binary digit a plane, with `digits`; count those equal in all of them.

    Lanes that are below go to `below`, lanes that are equal so far to `undecided`.
    """
    return int(loops.now.decide(planes, digits, below, undecided))


def settle(below: Words, undecided: Words, words: Words, rest: int) -> None:
    """Give each undecided lane, in order, a word of its own; it is below if the word is."""
    loops.now.settle(below, undecided, words, np.uint64(rest))


def cross(flips: Words, positions: npt.NDArray[np.int64], width: int, bits: int) -> None:
    """Turn flips into reports: bits from x on are inverted, padding is cleared, row by row.

    The rows of `width` bytes lie in the words one after the other.
    """
    loops.now.cross(flips, positions, width, bits)


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
    loops.now.blur(positions, planes, weights, negative, zero, out, last)
