"""The inner loops of encoding, compiled by numba; bit for bit those of `loops_plain`."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_FULL = np.uint64(0xFFFFFFFFFFFFFFFF)
_BLOCK = 512
"""Words that are compared with all digits before the next: they stay in the fastest cache."""


@intrinsic
def ones(typing_context: Any, word: Any) -> Any:
    """The number of ones of a word, one machine instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@njit(nogil=True, cache=True)
def decide(planes, digits, below, undecided):
    """Compare lanes with binary digits, the highest first, a block of words at a time."""
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
            left += ones(equal[w])
    return np.int64(left)


@njit(nogil=True, cache=True)
def settle(below, undecided, words, rest):
    used = 0
    for w in range(len(undecided)):
        left = undecided[w]
        while left:
            lane = left & (~left + np.uint64(1))
            if words[used] < rest:
                below[w] |= lane
            used += 1
            left ^= lane


@njit(nogil=True, cache=True)
def cross(flips, positions, width, bits):
    """Each row is a stretch of bits in the words: invert from x to its end, clear the padding."""
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


@njit(nogil=True, cache=True)
def blur(positions, planes, weights, negative, zero, out, last):
    """64 lanes at a time: add up their planes, then sign, zero, position and clip."""
    noise = np.empty(64, dtype=np.int64)
    one = np.uint64(1)
    for w in range(len(negative)):
        noise[:] = 1
        for place in range(len(weights)):
            plane, weight = planes[place, w], weights[place]
            if plane:
                for lane in range(64):
                    noise[lane] += np.int64(plane >> np.uint64(lane) & one) * weight
        minus, keep = negative[w], ~zero[w]
        for lane in range(64):
            sign = -np.int64(minus >> np.uint64(lane) & one)
            kept = -np.int64(keep >> np.uint64(lane) & one)
            noise[lane] = ((noise[lane] ^ sign) - sign) & kept
        some = positions[64 * w : 64 * w + 64]
        result = out[64 * w : 64 * w + 64]
        for lane in range(len(some)):
            result[lane] = min(max(some[lane] + noise[lane], 0), last)


def try_out() -> None:
    """Compile something small, for no rows: raises OSError where the cache cannot be written."""
    cross(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64), 8, 64)
