"""The kernels of `metricldp.mechanisms` in numpy: the oracle of the compiled ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.mechanisms.randomness import Words


def decide(planes: Words, digits: int, below: Words, undecided: Words) -> int:
    """Compare lanes, one binary digit a plane, with `digits`; count those equal in all of them.

    Lanes that are below go to `below`, lanes that are equal so far to `undecided`.
    """
    below[:] = 0
    undecided[:] = ~np.uint64(0)
    for place, random in enumerate(planes):
        agree = undecided & random
        if digits >> (len(planes) - 1 - place) & 1:
            below |= undecided ^ agree
            undecided[:] = agree
        else:
            undecided ^= agree
    return int(np.bitwise_count(undecided).sum(dtype=np.int64))


def decide_rest(below: Words, undecided: Words, words: Words, rest: np.uint64) -> None:
    """Give each undecided lane, in order, a word of its own; it is below if the word is."""
    at = np.flatnonzero(undecided)
    left = undecided[at]
    counts = np.bitwise_count(left).astype(np.int64)
    turn = np.cumsum(counts) - counts
    while len(at):
        lane = left & (~left + np.uint64(1))
        hit = words[turn] < rest
        below[at[hit]] |= lane[hit]
        left ^= lane
        more = left != 0
        at, left, turn = at[more], left[more], turn[more] + 1


def rows(positions: npt.NDArray[Any], width: int) -> npt.NDArray[np.uint8]:
    """Rows of `width` bytes in which the bits from x on are 1, lowest bit first.

    Rows of equal x modulo 8 are windows of one line of bytes: zeros, one mixed byte, ones.
    """
    lines = np.zeros((8, 2 * width), dtype=np.uint8)
    lines[:, width] = 0xFF << np.arange(8) & 0xFF
    lines[:, width + 1 :] = 0xFF
    row = np.dtype((np.void, width))
    windows = np.ndarray((lines.size - width + 1,), row, lines, strides=(1,))
    found = windows[(positions & 7) * lines.shape[1] + width - (positions >> 3)]
    return found.view(np.uint8).reshape(-1, width)


def cross(flips: Words, positions: npt.NDArray[np.int64], width: int, bits: int) -> None:
    """Turn flips into reports: bits from x on are inverted, padding is cleared, row by row.

    The rows of `width` bytes lie in the words one after the other.
    """
    reports = flips.view(np.uint8)[: len(positions) * width].reshape(-1, width)
    reports ^= rows(positions, width)
    reports[:, -1] &= 0xFF >> (8 * width - bits)


def add_noise(
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
    count = len(positions)
    noise = np.ones(count, dtype=np.int64)
    for plane, weight in zip(planes, weights, strict=True):
        noise += _lanes(plane, count) * weight
    np.negative(noise, out=noise, where=_lanes(negative, count).view(bool))
    noise[_lanes(zero, count).view(bool)] = 0
    noise += positions
    out[:] = np.clip(noise, 0, last, out=noise)


def _lanes(words: Words, count: int) -> npt.NDArray[np.uint8]:
    return np.unpackbits(words.view(np.uint8), count=count, bitorder="little")
