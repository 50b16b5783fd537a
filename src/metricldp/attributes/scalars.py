"""One value of a person: a Python or numpy scalar to a number or a name, or a refusal.

No table is made of it, so a device needs no library of tables. Columns of many people are cleaned
in `reports.columns`; whatever is wrong with one of their values is said here as well. A refusal
says what is allowed and never what the value is: messages end up in logs. What is accepted or
clipped takes the same steps whatever its size; there are no shortcuts and no exceptions on the way.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import InvalidValueError
from metricldp.basics.text import listed, plain

Number = int | float | Fraction
N = TypeVar("N", int, float)
_NUMBER = re.compile(
    r"[+-]?(inf|infinity|nan|(\d+\.?\d*|\.\d+)(e[+-]?\d+)?)", re.ASCII | re.IGNORECASE
)
_MISSING = ("NAType", "NaTType")
"""What pandas has where a value is missing."""
_LONGEST_TEXT = 1_000
"""Letters of a number; what is longer is none."""
_LARGEST = int(sys.float_info.max)
_ZERO = Decimal(0)
CLIP = "correct it or clip it (clip=True, --clip)"


def _number(value: Any, name: str, *, booleans: bool = False) -> Number:
    """A finite number, also from its text; true and false only where they may be."""
    if isinstance(value, str):
        return _parsed(value, name)
    found = value
    if isinstance(found, Decimal):
        found = math.nan if found.is_nan() else float(found)
    _refuse_missing(found, name)
    if isinstance(found, bool) and booleans:
        return int(found)
    if isinstance(found, bool) or not isinstance(found, int | float | Fraction):
        kind = type(found).__name__
        _refuse(f"holds {kind} values where numbers are needed; convert them to numbers", name)
    if isinstance(found, float) and math.isinf(found):
        _refuse_infinite(name)
    return found


def _parsed(text: str, name: str) -> Number:
    """Whole numbers stay exact."""
    trimmed = text.strip()
    _refuse_missing(trimmed, name)
    if len(trimmed) > _LONGEST_TEXT or not _NUMBER.fullmatch(trimmed):
        _refuse("is not a number; correct it or leave the row out", name)
    number = float(trimmed)
    if not math.isfinite(number):
        _refuse_infinite(name)
    return int(trimmed) if trimmed.lstrip("+-").isdigit() else number


def real_within(
    value: Any, ends: tuple[float, float], name: str, clip: bool, remedy: str = CLIP
) -> float:
    """A value as a float from low to high."""
    if type(value) is float and math.isfinite(value):
        return _within(value, ends, name, clip, remedy)
    value = _plain(value)
    exact: Any = value if type(value) is int else _number(value, name)
    # The nearest float, and twice the largest one, which is infinity, for whatever is beyond it.
    number: float = float(min(max(exact, -_LARGEST), _LARGEST)) * (1 + (abs(exact) > _LARGEST))
    return _within(number, ends, name, clip, remedy)


def whole_within(
    value: Any,
    ends: tuple[int, int],
    name: str,
    clip: bool,
    remedy: str = CLIP,
    *,
    booleans: bool,
) -> int:
    """A value as a whole number from low to high; fractions are refused, not rounded."""
    if type(value) is int:
        return _within(value, ends, name, clip, remedy)
    exact = _number(_plain(value), name, booleans=booleans)
    number = int(exact)
    if number != exact:
        _refuse("is not a whole number; round it first", name, "whole")
    return _within(number, ends, name, clip, remedy)


def _within(number: N, ends: tuple[N, N], name: str, clip: bool, remedy: str) -> N:
    """The number, or the end that is nearest; refused where they differ and nothing is clipped."""
    low, high = ends
    nearest = min(max(number, low), high)
    if not clip and nearest != number:
        domain = f"outside {plain(low)} to {plain(high)}"
        _refuse(f"is {domain}; {remedy}", name, "range")
    return nearest


def _plain(value: Any) -> Any:
    """What a row of a data frame holds, as Python has it; a span of time is no number."""
    known = isinstance(value, np.number | np.bool_ | np.str_)
    return value.item() if known and not isinstance(value, np.timedelta64) else value


def reals_within(
    numbers: npt.NDArray[Any], ends: tuple[float, float], clip: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Numbers as floats, clipped if wanted, and which of them are not from low to high."""
    floats = numbers.astype(np.float64)
    finite = np.isfinite(floats)
    if clip:
        np.clip(floats, *ends, out=floats)
    return floats, ~(finite & (floats >= ends[0]) & (floats <= ends[1]))


def named_position(value: Any, positions: Mapping[str, int], name: str, clip: bool) -> int:
    """The position of a name; whole numbers and truth values may be names, too."""
    if type(value) is str and value in positions:
        return positions[value]
    found = as_name(value)
    _refuse_missing(found, name)
    if not isinstance(found, str):
        kind = type(found).__name__
        _refuse(f"holds {kind} values where names are needed; convert them to text", name)
    if found not in positions:
        rest = "; only numbers can be clipped" if clip else ""
        _refuse(f"is not one of {listed(positions)}{rest}", name, "name")
    return positions[found]


def as_name(value: Any) -> Any:
    """A whole number or a truth value as the name that it is; all others as they are."""
    found = _plain(value)
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, int):
        return str(min(max(found, -_LARGEST), _LARGEST))
    return found


def codes_within(codes: npt.NDArray[Any], size: int, name: str) -> npt.NDArray[np.int64]:
    wrong = (codes < 0) | (codes >= size)
    if wrong.any():
        why = f"has a code of no name; the codes of its names go from 0 to {size - 1}"
        raise InvalidValueError(why, attribute=name or None, row=int(np.argmax(wrong)))
    return codes.astype(np.int64)


def _refuse(why: str, name: str, reason: str = "kind") -> NoReturn:
    raise InvalidValueError(why, attribute=name or None, reason=reason)


def _refuse_infinite(name: str) -> NoReturn:
    _refuse("is not a finite number; correct it or leave the row out", name, "range")


def is_missing(value: Any) -> bool:
    """Whether there is no value: None, NaN or a blank text. The same steps, whatever there is."""
    nothing = (value is None) | (type(value).__name__ in _MISSING)
    nan = math.isnan((0.0, value)[isinstance(value, float | np.floating)])
    no_decimal = (_ZERO, value)[isinstance(value, Decimal)].is_nan()
    blank = not ("-", value)[isinstance(value, str)].strip()
    return nothing | nan | no_decimal | blank


def _refuse_missing(value: Any, name: str) -> None:
    if is_missing(value):
        why = "is missing; each response needs a value, so fill it in or leave the row out"
        _refuse(why, name, "missing")
