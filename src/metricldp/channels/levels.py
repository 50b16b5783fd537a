"""Probabilities by height: whole numbers, each at most e^unit times the next one.

A shape's probability depends on its height alone. The highest level is t_0; t_{k+1} is t_k over a
fraction just below e^unit, rounded up. So k levels apart is a ratio of at most e^(k unit), exactly,
and no level is 0: keeping a metric is a question of whole heights.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from metricldp.basics.errors import CertificateError
from metricldp.basics.exact import ONE, ceil_of, exp_bounds

_PRECISION = 96
"""Binary digits of e^unit: the levels have 64."""


def levels(unit: Fraction, depths: Sequence[int], most: int = ONE) -> tuple[int, ...]:
    """Levels 0 to the largest depth, such that those of all the depths add up to at most `most`.

    Rounding up adds less than 1 / (1 - e^-unit) + 1 to each, so that much is left free.
    """
    ratio = exp_bounds(unit, _PRECISION)[0]
    deepest = max(depths)
    shares, weight = [0] * (deepest + 1), Fraction(1)
    for depth in depths:
        shares[depth] += 1
    total = Fraction(0)
    for count in shares:
        total += count * weight
        weight = Fraction(ceil_of(weight / ratio * ONE * ONE), ONE * ONE)
    spare = len(depths) * (1 / (1 - 1 / ratio) + 1)
    if spare * 4 > most:
        raise CertificateError(
            f"epsilon {float(unit):.3g} per unit of height is too small for 64-bit coins; use a "
            "larger epsilon or a coarser grid"
        )
    found = [int((most - spare) / total)]
    for _ in range(deepest):
        found.append(ceil_of(found[-1] / ratio))
    assert sum(found[depth] for depth in depths) <= most
    return tuple(found)
