"""One text for one piece of plain data, the same in every language: RFC 8785, canonical JSON.

Keys are sorted by their UTF-16 code units, there are no spaces, strings are escaped as little as
JSON allows, and numbers are written as JavaScript writes them. Whole numbers beyond 2^53 are not
numbers to everybody, so they do not occur: they are written as text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_LARGEST = 1 << 53


def canonical(data: Any) -> str:
    """The canonical text of plain data: mappings, lists, strings, numbers, true, false and null."""
    if isinstance(data, str):  # first, because a law may hold a million of them
        return _text(data)
    if isinstance(data, Mapping):
        keys = sorted(data, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{_text(key)}:{canonical(data[key])}" for key in keys) + "}"
    if isinstance(data, list | tuple):
        return "[" + ",".join(canonical(item) for item in data) + "]"
    if data is None or isinstance(data, bool):
        return json.dumps(data)
    if type(data) not in (int, float):
        raise TypeError(f"{type(data).__name__} is not plain data; use Python's own numbers")
    return _number(data)


_text = json.JSONEncoder(ensure_ascii=False).encode


def _number(number: float) -> str:
    """The shortest digits that read back as the same double, in the way of JavaScript."""
    if (isinstance(number, int) and abs(number) > _LARGEST) or not math.isfinite(number):
        raise ValueError(f"{number} is not a number in every language")
    if number == int(number) and abs(number) <= _LARGEST:
        return str(int(number))
    sign, digits, exponent = Decimal(repr(float(number))).normalize().as_tuple()
    text, point = "".join(map(str, digits)), len(digits) + int(exponent)
    if -6 < point <= 0:
        text = "0." + "0" * -point + text
    elif 0 < point <= 21:
        text = text.ljust(point, "0")
        text = f"{text[:point]}.{text[point:]}".rstrip(".")
    else:
        fraction = f".{text[1:]}" if text[1:] else ""
        text = f"{text[0]}{fraction}e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return "-" * sign + text


def as_lists(value: Any) -> Any:
    """Tuples in tuples as lists, which is what files hold."""
    return [as_lists(item) for item in value] if isinstance(value, tuple) else value


def hexadecimal(word: int) -> str:
    """A 64-bit word, or a probability over 2^64, as 16 hexadecimal digits."""
    return f"{word:016x}"
