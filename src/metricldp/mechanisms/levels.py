"""Probabilities by height: whole numbers, each at most e^unit times the next one.

A shape is how likely one report is from each position: P(y | x) depends on a whole depth alone, how
far x is below the shape's highest level, its top. The level below t is t fall / 2^64, rounded up;
fall is 2^64 e^-unit, rounded up as well. So k levels apart is a ratio of at most e^(k unit),
exactly, and no level is 0: whether a metric is kept is a question of whole depths.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from metricldp.basics.checks import is_list
from metricldp.basics.errors import CertificateError, InvalidSpecError
from metricldp.basics.numbers import is_whole
from metricldp.basics.text import shown
from metricldp_core.exact import WORD, ceil_of, exp_bounds
from metricldp_core.levels import DEEPEST, depths_text, levels

Shape = tuple[int, ...]
"""A depth for each position."""
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_TWO = ":"
"""What a text begins with that has two digits for each depth."""


def fall_of(unit: Fraction) -> int:
    """2^64 e^-unit, rounded up: what a level is over the one above it, in parts of 2^64."""
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


def in_text(saved: dict[str, Any], key: str) -> dict[str, Any]:
    """What a mechanism saves, with the shapes under a key, where there are any, as text."""
    if key not in saved:
        return saved
    return {**saved, key: [depths_text(shape) for shape in saved[key]]}


def from_text(said: Any, of: str) -> Shape:
    """Depths as a survey file has them, at least one of them 0; `of` is for the message."""
    found: Sequence[Any]
    if isinstance(said, str):
        found = _from_digits(said)
    elif is_list(said):
        found = said
    else:
        raise InvalidSpecError(f"{of} must be digits or a list of depths, not {shown(said)}")
    wrong = [depth for depth in found if not is_whole(depth) or not 0 <= depth <= DEEPEST]
    if wrong:
        what = shown(said if isinstance(said, str) else wrong[0])
        raise InvalidSpecError(
            f"{of} holds {what}; depths are digits from 0 to Z, or whole numbers "
            f"from 0 to {DEEPEST:,}"
        )
    if not found or min(found) > 0:
        raise InvalidSpecError(f"{of} has no depth 0")
    return tuple(int(depth) for depth in found)


def _from_digits(text: str) -> list[int]:
    """-1 for what is no digit."""
    if not text.startswith(_TWO):
        return [_DIGITS.find(digit) for digit in text]
    tens, ones = text[1::2], text[2::2]
    if len(tens) != len(ones):
        return [-1]
    pairs = zip(map(_DIGITS.find, tens), map(_DIGITS.find, ones), strict=True)
    return [len(_DIGITS) * ten + one if min(ten, one) >= 0 else -1 for ten, one in pairs]
