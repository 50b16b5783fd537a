"""One value of a person: a Python or numpy scalar to a number or a name, or a refusal.

No table is made of it, so a device needs no library of tables. Columns of many people are cleaned
in `reports.columns`; whatever is wrong with one of their values is said here as well.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import ValueRefused
from metricldp.basics.text import guess, listed, plain, shown

Number = int | float | Fraction
_NUMBER = re.compile(
    r"[+-]?(inf|infinity|nan|(\d+\.?\d*|\.\d+)(e[+-]?\d+)?)", re.ASCII | re.IGNORECASE
)
_MISSING = ("NAType", "NaTType")
"""What pandas has where a value is missing."""


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
        _refuse(f"holds {type(found).__name__} values where numbers are needed", name)
    if isinstance(found, float) and math.isinf(found):
        _refuse_infinite(value, name)
    return found


def _parsed(text: str, name: str) -> Number:
    """Whole numbers stay exact."""
    trimmed = text.strip()
    if not trimmed:
        _refuse_missing(None, name)
    if not _NUMBER.fullmatch(trimmed):
        _refuse(f"is {shown(trimmed)}, not a number; correct it or leave the row out", name)
    number = float(trimmed)
    if not math.isfinite(number):
        _refuse_infinite(text, name)
    return int(trimmed) if trimmed.lstrip("+-").isdigit() else number


def real_within(value: Any, ends: tuple[float, float], name: str, clip: bool) -> float:
    """A value as a float from low to high; clipping is the same work for every number."""
    if type(value) is float and math.isfinite(value):
        number = value
    else:
        value = _plain(value)
        number = _float(value if type(value) is int else _number(value, name))
    low, high = ends
    if clip:
        number = min(max(number, low), high)
    return number if low <= number <= high else _refuse_outside(value, ends, name)


def whole_within(
    value: Any, ends: tuple[int, int], name: str, clip: bool, *, booleans: bool
) -> int:
    """A value as a whole number from low to high; fractions are refused, not rounded."""
    if type(value) is int:
        number = value
    else:
        value = _plain(value)
        exact = _number(value, name, booleans=booleans)
        number = int(exact)
        if number != exact:
            why = f"is {shown(value)}, which is not a whole number; round it first"
            _refuse(why, name, "whole")
    low, high = ends
    if clip:
        number = min(max(number, low), high)
    return number if low <= number <= high else _refuse_outside(value, ends, name)


def _plain(value: Any) -> Any:
    """What a row of a data frame holds, as Python has it."""
    return value.item() if isinstance(value, np.generic) else value


def _float(number: Number) -> float:
    """Beyond the largest float, infinity."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


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
    found = _plain(value)
    _refuse_missing(found, name)
    if isinstance(found, bool):
        found = "true" if found else "false"
    elif isinstance(found, int):
        found = str(found)
    elif not isinstance(found, str):
        _refuse(f"holds {type(found).__name__} values where names are needed", name)
    if found not in positions:
        _refuse_missing(found or None, name)
        rest = "; only numbers can be clipped" if clip else ""
        names = f"{listed(positions)}{rest}{guess(found, positions)}"
        _refuse(f"is {shown(found)}, which is not one of {names}", name, "name")
    return positions[found]


def codes_within(codes: npt.NDArray[Any], size: int, name: str) -> npt.NDArray[np.int64]:
    wrong = (codes < 0) | (codes >= size)
    if wrong.any():
        row = int(np.argmax(wrong))
        why = f"has the code {codes[row]}; the codes of its names go from 0 to {size - 1}"
        raise ValueRefused(why, attribute=name or None, row=row)
    return codes.astype(np.int64)


def _refuse(why: str, name: str, reason: str = "kind") -> NoReturn:
    raise ValueRefused(why, attribute=name or None, reason=reason)


def _refuse_outside(value: Any, ends: tuple[float, float], name: str) -> NoReturn:
    domain = f"outside {plain(ends[0])} to {plain(ends[1])}"
    why = f"is {shown(value)}, which is {domain}; correct it or clip it (clip=True, --clip)"
    _refuse(why, name, "range")


def _refuse_infinite(value: Any, name: str) -> NoReturn:
    why = "is not a finite number; correct it or leave the row out"
    _refuse(f"is {shown(value)}, which {why}", name, "range")


def _refuse_missing(value: Any, name: str) -> None:
    nan = isinstance(value, float) and math.isnan(value)
    if value is None or nan or type(value).__name__ in _MISSING:
        why = "is missing; every person needs a value, so fill it in or leave the row out"
        _refuse(why, name, "missing")
