"""Square waves: a report near the own position is e^epsilon times as likely as one elsewhere.

Position x sends one of the reports x .. x + w - 1 with probability p each, and each other of the
m + w - 1 reports with probability q, p = e^epsilon q. The width w is all that is left to choose:

Square Wave  w = 2b + 1 with b = floor(m (epsilon e^epsilon - e^epsilon + 1) / (2 e^epsilon
             (e^epsilon - 1 - epsilon))), which maximises the information that a report has of the
             position. Li et al., "Estimating Numerical Distributions under Local Differential
             Privacy" (SIGMOD 2020). Read by expectation maximisation, see `reconstruct`.
Piecewise    w about e^(-epsilon/2) (m - 1), for the least variance of a mean at the worst position.
             Wang et al., "Collecting and Analyzing Multidimensional Data with Local Differential
             Privacy" (ICDE 2019). See `means`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from metricldp.basics.errors import CertificateError, InvalidSpecError
from metricldp.mechanisms import Floats, Integers
from metricldp.mechanisms.table import TableChannel
from metricldp_core.exact import WORD, ceil_of, decimal_of, exp_bounds, floor_of

MOST_POSITIONS = 1024


class SquareWave(TableChannel):
    """Square Wave on positions; the decoder is that of any table, unbiased."""

    @classmethod
    def for_epsilon(cls, size: int, epsilon: Fraction) -> SquareWave:
        if size > MOST_POSITIONS:
            raise InvalidSpecError(
                f"{size:,} positions are too many for a square wave; use at most {MOST_POSITIONS:,}"
            )
        most = exp_bounds(epsilon)[0]
        reach = (epsilon * most - most + 1) / (2 * most * (most - 1 - epsilon))
        rows = wave(size, 2 * floor_of(size * reach) + 1, epsilon)
        return cls(TableChannel.of(rows).distribution)


def wave(size: int, width: int, epsilon: Fraction, total: int = WORD) -> list[list[int]]:
    """Rows of whole numbers that add up to `total`, q rounded up and p rounded down.

    What that leaves, less than w, goes to the end that is farther away. So every two positions
    still have a report of p from one of them and of q from the other.
    """
    low = ceil_of(total / (width * exp_bounds(epsilon)[0] + size - 1))
    high, left = divmod(total - (size - 1) * low, width)
    if high <= low:
        raise CertificateError(
            f"epsilon {float(epsilon):.3g} is too small for 64-bit words; use a larger epsilon"
        )
    rows = []
    for x in range(size):
        row = [low] * x + [high] * width + [low] * (size - 1 - x)
        row[0 if 2 * x >= size else -1] += left
        rows.append(row)
    return rows


def drawn_waves(
    positions: Integers, size: int, epsilon: float, rng: np.random.Generator
) -> tuple[SquareWave, Integers]:
    """A channel, and how often each report comes: at once for all people with the same value."""
    channel = SquareWave.for_epsilon(size, decimal_of(epsilon))
    law: Floats = channel.moments.probabilities
    people = np.bincount(positions, minlength=size)
    drawn = rng.multinomial(people, law / law.sum(axis=1, keepdims=True))
    return channel, np.asarray(drawn.sum(axis=0))
