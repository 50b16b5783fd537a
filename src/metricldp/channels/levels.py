"""Probabilities by height: whole numbers, each at most e^unit times the next one.

A shape is how likely one report is from each position: P(y | x) depends on a whole depth alone, how
far x is below the shape's highest level. The highest level is t_0; t_{k+1} is t_k over a fraction
just below e^unit, rounded up. So k levels apart is a ratio of at most e^(k unit), exactly, and no
level is 0: whether a metric is kept is a question of whole depths.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from metricldp.basics.checks import is_list
from metricldp.basics.errors import CertificateError, SurveyError
from metricldp.basics.exact import ONE, ceil_of, exp_bounds
from metricldp.basics.numbers import is_whole
from metricldp.basics.text import shown

Shape = tuple[int, ...]
"""A depth for each position."""
DEEPEST = 1 << 14
"""Below the highest level: what is this deep is never seen."""
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_PRECISION = 96
"""Binary digits of e^unit: the levels have 64."""


def levels(top: int, unit: Fraction, deepest: int) -> list[int]:
    """From the highest level to the deepest."""
    ratio = exp_bounds(unit, _PRECISION)[0]
    found = [top]
    for _ in range(deepest):
        found.append(-(-found[-1] * ratio.denominator // ratio.numerator))
    return found


def highest(unit: Fraction, shape: Shape, most: int = ONE) -> int:
    """The highest level with which the levels of all depths of a shape add up to at most that.

    Rounding up adds less than 1 / (1 - e^-unit) + 1 to each, so that much is left free.
    """
    ratio = exp_bounds(unit, _PRECISION)[0]
    spare = len(shape) * (1 / (1 - 1 / ratio) + 1)
    if spare * 4 > most:
        raise CertificateError(
            f"epsilon {float(unit):.3g} per unit of height is too small for 64-bit coins; use a "
            "larger epsilon or a coarser grid"
        )
    tall = levels(ONE * ONE, unit, max(shape))
    return (most - ceil_of(spare)) * ONE * ONE // sum(tall[depth] for depth in shape)


def to_text(shape: Shape) -> str | list[int]:
    """A digit for each depth, up to 35 (z); a list where one is deeper."""
    if max(shape) >= len(_DIGITS):
        return list(shape)
    return "".join(_DIGITS[depth] for depth in shape)


def from_text(said: Any, of: str) -> Shape:
    """Depths as a survey file has them, at least one of them 0; `of` is for the message."""
    found: Sequence[Any]
    if isinstance(said, str):
        found = [_DIGITS.find(digit) for digit in said]
    elif is_list(said):
        found = said
    else:
        raise SurveyError(f"{of} must be digits or a list of depths, not {shown(said)}")
    wrong = next((depth for depth in found if not is_whole(depth) or not 0 <= depth <= DEEPEST), 0)
    if wrong:
        raise SurveyError(
            f"{of} holds {shown(said if isinstance(said, str) else wrong)}; depths are digits from "
            f"0 to z, or whole numbers from 0 to {DEEPEST:,}"
        )
    if not found or min(found) > 0:
        raise SurveyError(f"{of} has no depth 0")
    return tuple(int(depth) for depth in found)
