"""The highest levels of shapes (see `metricldp_core.levels`), rounded so that the guarantee holds.

A level is at most e^unit times the next one: `fall` is 2^64 e^-unit, rounded up. So k levels apart
is a ratio of at most e^(k unit), exactly.
"""

from __future__ import annotations

from fractions import Fraction

from metricldp.basics.errors import CertificateError
from metricldp_core.exact import WORD, ceil_of, exp_bounds
from metricldp_core.levels import levels

Shape = tuple[int, ...]
"""A depth for each position."""


def fall_of(unit: Fraction) -> int:
    """2^64 e^-unit, rounded up: the ratio of a level and the one above it, in parts of 2^64."""
    return ceil_of(exp_bounds(-unit)[1] * WORD)


def highest(fall: int, shape: Shape) -> int:
    """The highest level with which the levels of all depths of a shape add up to at most 2^64.

    Rounding up adds less than 1 / (1 - e^-unit) + 1 to each, so that much is left free.
    """
    spare = len(shape) * (-(-WORD // (WORD - fall)) + 1) if fall < WORD else WORD
    if spare * 4 > WORD:
        raise CertificateError(
            f"epsilon {(WORD - fall) / WORD:.3g} per unit of height is too small for 64-bit words; "
            "use a larger epsilon or a coarser grid"
        )
    tall = levels(WORD * WORD, fall, max(shape))
    return (WORD - spare) * WORD * WORD // sum(tall[depth] for depth in shape)
