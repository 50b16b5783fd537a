"""One attribute left open, from sums of digits alone: for reports whose bits were sliced.

Every sum here is an integer, and they are put together as a pass over the reports does it, so that
the floats are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from metricldp.channels import Channel, Floats
from metricldp.store.bits import Digit, Product
from metricldp.store.readings import Reading, Readings

MOST_TERMS = 1 << 12
"""Products of digits up to which a table of all of them is not worth its time."""


def opened_from_digits(
    readings: Readings,
    name: str,
    channel: Channel,
    counts: Callable[[Sequence[Product]], list[int]],
) -> Floats | None:
    """Sums of every feature of one attribute times the others' decoders; None if that is long.

    How many reports have each combination of the bits that decoders read, times a feature, follows
    from the sums of the products of their signs: [bits are c] = prod (1 + c_j s_j) / 2.
    """
    parts = readings.parts
    if not all(isinstance(part, Reading) and part.channel.is_bits for part in parts):
        return None
    used = [(part, bit) for part in parts for bit in _used(part)]
    if channel.features << len(used) > MOST_TERMS:
        return None
    own: list[Product] = [()] if channel.constant else []
    own += [(Digit(name, channel, bit, None),) for bit in range(channel.bits)]
    digits = [Digit(part.name, part.channel, bit, None) for part, bit in used]
    chosen = list(product((0, 1), repeat=len(digits)))
    terms = [
        (*feature, *(digit for digit, there in zip(digits, some, strict=True) if there))
        for feature in own
        for some in chosen
    ]
    sums = np.array(counts(terms), dtype=np.int64).reshape([len(own), *[2] * len(digits)])
    return np.asarray(_decoders(parts, readings.count) @ _by_code(sums, parts).T)


def _used(reading: Reading) -> list[int]:
    """The bits that any decoder reads."""
    weights = reading.coefficients[:, int(reading.channel.constant) :]
    return [int(bit) for bit in np.flatnonzero(weights.any(axis=0))]


def _by_code(sums: npt.NDArray[np.int64], parts: Sequence[Reading]) -> npt.NDArray[np.int64]:
    """From sums over chosen signs to sums over reports with certain bits: (features, codes)."""
    for axis in range(1, sums.ndim):
        none, one = np.moveaxis(sums, axis, 0)
        sums = np.stack([(none - one) // 2, (none + one) // 2], axis=axis)
    # Within an attribute the first bit it reads is the lowest of its code.
    order, start = [0], 1
    for part in parts:
        count = len(_used(part))
        order += reversed(range(start, start + count))
        start += count
    return sums.transpose(order).reshape(len(sums), -1)


def _decoders(parts: Sequence[Reading], rows: int) -> Floats:
    """The product of all decoders at each joint code, (rows, codes)."""
    table = np.ones((rows, 1))
    for part in parts:
        levels = part.levels()
        assert levels is not None
        table = (table[:, :, None] * levels.table[:, None, :]).reshape(rows, -1)
    return table
