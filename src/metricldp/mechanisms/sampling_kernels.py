"""Kernels that make reports from random words, 64 independent lanes to a word."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricldp.basics.kernel import kernel, popcount

_FULL = np.uint64(0xFFFFFFFFFFFFFFFF)
_BLOCK = 512
"""Words that are compared with all digits before the next: they stay in the fastest cache."""


@kernel
def decide(planes: Any, digits: int, below: Any, undecided: Any) -> int:
    """Compare lanes with binary digits, the highest first, a block of words at a time.

    A lane has one binary digit in each plane. Lanes that are less go to `below`, lanes that are
    equal in all planes to `undecided`; the number of the latter is returned.
    """
    count, words = planes.shape
    left = np.uint64(0)
    for start in range(0, words, _BLOCK):
        # Slices, because numba then knows that no index is negative, and vectorises.
        stop = start + _BLOCK
        under = below[start:stop]
        equal = undecided[start:stop]
        under[:] = np.uint64(0)
        equal[:] = _FULL
        for place in range(0, count - 1, 2):
            one = _FULL if digits >> (count - 1 - place) & 1 else np.uint64(0)
            two = _FULL if digits >> (count - 2 - place) & 1 else np.uint64(0)
            random = planes[place, start:stop]
            second = planes[place + 1, start:stop]
            for w in range(len(random)):
                agree = equal[w] & (random[w] ^ ~one)
                both = agree & (second[w] ^ ~two)
                under[w] |= ((equal[w] ^ agree) & one) | ((agree ^ both) & two)
                equal[w] = both
        if count & 1:
            one = _FULL if digits & 1 else np.uint64(0)
            random = planes[count - 1, start:stop]
            for w in range(len(random)):
                agree = equal[w] & (random[w] ^ ~one)
                under[w] |= (equal[w] ^ agree) & one
                equal[w] = agree
        for w in range(len(equal)):
            left += popcount(equal[w])
    return np.int64(left)  # type: ignore[return-value]


@kernel
def decide_rest(below: Any, undecided: Any, words: Any, rest: Any) -> None:
    """Compare each undecided lane, in order, with a word of its own."""
    used = 0
    for w in range(len(undecided)):
        left = undecided[w]
        while left:
            lane = left & (~left + np.uint64(1))
            if words[used] < rest:
                below[w] |= lane
            used += 1
            left ^= lane


@kernel
def cross(flips: Any, positions: Any, width: int, bits: int) -> None:
    """Turn flips into threshold reports: rows of `width` bytes, one after another in the words.

    In each row the bits from the position on are inverted and the padding is cleared.
    """
    pad = np.uint64(0xFF << (bits - 8 * (width - 1)) & 0xFF)
    for row in range(len(positions)):
        start = 8 * width * row + positions[row]
        end = 8 * width * row + bits
        first, last = start >> 6, end >> 6
        low, high = np.uint64(start & 63), np.uint64(end & 63)
        for w in range(first, last):
            flips[w] ^= _FULL
        if low:
            flips[first] ^= ~(_FULL << low)
        if high:
            flips[last] ^= ~(_FULL << high)
        if pad:
            byte = np.uint64(8 * width * (row + 1) - 8 & 63)
            flips[last] &= ~(pad << byte)


@kernel
def add_noise(
    positions: Any, planes: Any, weights: Any, negative: Any, zero: Any, out: Any, last: int
) -> None:
    """Add noise to positions and clip to 0 .. last, 64 lanes at a time.

    The noise of a lane is 1 plus the weights of the planes in which it is 1, negated or set to zero
    where the lane is 1 in `negative` or `zero`.
    """
    noise = np.empty(64, dtype=np.int64)
    one = np.uint64(1)
    for w in range(len(negative)):
        noise[:] = 1
        for place in range(len(weights)):
            plane, weight = planes[place, w], weights[place]
            if plane:
                for lane in range(64):
                    noise[lane] += np.int64(plane >> np.uint64(lane) & one) * weight
        minus, nonzero = negative[w], ~zero[w]
        for lane in range(64):
            sign = -np.int64(minus >> np.uint64(lane) & one)
            mask = -np.int64(nonzero >> np.uint64(lane) & one)
            noise[lane] = ((noise[lane] ^ sign) - sign) & mask
        some = positions[64 * w : 64 * w + 64]
        result = out[64 * w : 64 * w + 64]
        for lane in range(len(some)):
            result[lane] = min(max(some[lane] + noise[lane], 0), last)
