"""Canonical JSON (RFC 8785), and strict reading of the objects in it.

Equal data have equal text in every language: keys in order, no spaces, no escapes that JSON does
not require, numbers as JavaScript writes them. Integers of 2^53 and above are text, because not
every language reads them as numbers.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn, TypeGuard

from metricldp_core.errors import InvalidManifestError

LARGEST_NUMBER = 1 << 53
MOST_ITEMS = 1 << 19
"""Items of all lists of a manifest together, so that it is read in a moment."""
LARGEST_FRACTION = 1 << 40
"""Of distances, which are logarithms, and of widths."""
_WORD = re.compile("[0-9a-f]{16}")
_DECIMAL = re.compile(r"(?=.*[1-9])(0|[1-9][0-9]{0,19})(\.[0-9]{0,19}[1-9])?")
_FRACTION = re.compile("[1-9][0-9]{0,1999}(/[1-9][0-9]{0,1999})?")
_NOT_IN_LINES = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Controls, separators of lines, controls of writing direction, surrogates. The list is explicit
because `str.isprintable` depends on the version of Unicode."""


def canonical(data: Any) -> str:
    """The canonical text of plain data: mappings, lists, strings, numbers, true, false and null."""
    if isinstance(data, str):
        return _text(data)
    if type(data) in (int, float):
        return _number(data)
    if isinstance(data, list | tuple):
        return "[" + ",".join(map(canonical, data)) + "]"
    if data is None or isinstance(data, bool):
        return json.dumps(data)
    if not isinstance(data, Mapping):
        raise TypeError(f"{type(data).__name__} is not plain data; use Python's own numbers")
    keys = sorted(data, key=lambda key: key.encode("utf-16-be"))
    return "{" + ",".join(f"{_text(key)}:{canonical(data[key])}" for key in keys) + "}"


def is_canonical(text: str, data: Any) -> bool:
    """Whether a text is the canonical one of its data."""
    try:
        return canonical(data) == text
    except ValueError:
        return False


_text = json.JSONEncoder(ensure_ascii=False).encode


def _number(number: float) -> str:
    """The shortest digits that read back as the same double, in the way of JavaScript."""
    if abs(number) <= LARGEST_NUMBER and number == int(number):
        return str(int(number))
    is_finite = abs(number) <= sys.float_info.max
    if not is_finite or (isinstance(number, int) and str(number) != _number(float(number))):
        raise ValueError(f"{number} is not a number in every language")
    mantissa, _, exponent = repr(float(number)).partition("e")
    if not exponent:
        return mantissa.removesuffix(".0")
    if -7 < int(exponent) < 21:
        return f"{Decimal(repr(float(number))):f}"
    return f"{mantissa}e{int(exponent):+d}"


def parsed(text: str) -> Any:
    """The data of a JSON text in which no object has a key twice."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, InvalidManifestError) else "not valid JSON"
        raise InvalidManifestError(f"the manifest is {why}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidManifestError("not valid: an object has a key twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise InvalidManifestError(f"not valid JSON: it has {name}")


def is_line(text: object) -> TypeGuard[str]:
    """Whether this is a line of text: not blank, without line breaks and control characters."""
    return isinstance(text, str) and bool(text.strip()) and not _NOT_IN_LINES.search(text)


class Entry:
    """One object of a manifest: each key is read once, with its type and limits.

    `done` raises an error if a key has not been read, so nothing in a manifest is ignored.
    """

    def __init__(self, data: object, path: str, within: Entry | None = None) -> None:
        self.path = path
        self._left: list[int] = [MOST_ITEMS] if within is None else within._left
        if not isinstance(data, dict):
            self.reject("is not an object")
        self._rest = dict(data)

    def reject(self, why: str) -> NoReturn:
        raise InvalidManifestError(f"the manifest is invalid: {self.path} {why}")

    def done(self) -> None:
        for key in self._rest:
            self.reject(f"has an unknown key {key!r:.40}")

    def charge(self, items: int) -> None:
        """Count what takes about as long as to read so many items of a list."""
        self._left[0] -= items
        if self._left[0] < 0:
            self.reject(f"takes too long to read: more than {MOST_ITEMS:,} items in all")

    def has(self, key: str) -> bool:
        return key in self._rest

    def any(self, key: str) -> Any:
        if key not in self._rest:
            self.reject(f"has no {key}")
        return self._rest.pop(key)

    def one_of(self, kinds: Mapping[str, Any], *arguments: Any) -> Any:
        """What the class of the entry `kind` reads; any other kind is rejected by name."""
        kind = self.text("kind")
        if kind not in kinds:
            self.reject(f"has a kind {kind!r:.40} that is not supported here")
        found = kinds[kind].read(self, *arguments)
        self.done()
        return found

    def entry(self, key: str) -> Entry:
        return Entry(self.any(key), f"{self.path}.{key}", self)

    def list(self, key: str, least: int, most: int) -> list[Any]:
        found = self.any(key)
        if not isinstance(found, list) or not least <= len(found) <= most:
            self.reject(f"needs {key}, a list of {least:,} to {most:,}")
        self.charge(len(found))
        return found

    def text(self, key: str) -> str:
        found = self.any(key)
        if not is_line(found):
            self.reject(f"needs {key}, a line of text")
        return found

    def true(self, key: str) -> bool:
        """Whether the key is there; its value can only be true."""
        if not self.has(key):
            return False
        if self.any(key) is not True:
            self.reject(f"has {key} that is not true")
        return True

    def whole(self, key: str, least: int, most: int) -> int:
        return self.whole_of(self.any(key), key, least, most)

    def whole_of(self, found: object, key: str, least: int, most: int) -> int:
        if type(found) is not int or not least <= found <= most:
            self.reject(f"needs {key}, a whole number from {least:,} to {most:,}")
        return found

    def number(self, found: object, key: str) -> float:
        if type(found) not in (int, float) or not abs(found) <= 1e300:  # type: ignore[arg-type]
            self.reject(f"needs {key}, a finite number")
        return float(found)  # type: ignore[arg-type]

    def probability(self, key: str, least: int = 0) -> int:
        return self.probability_of(self.any(key), key, least)

    def probability_of(self, found: object, key: str, least: int = 0) -> int:
        """16 hexadecimal digits."""
        if not isinstance(found, str) or not _WORD.fullmatch(found) or int(found, 16) < least:
            self.reject(f"needs {key}, 16 hexadecimal digits of at least {least}")
        return int(found, 16)

    def probabilities(self, key: str, least: int, most: int) -> tuple[int, ...]:
        return tuple(self.probability_of(p, key) for p in self.list(key, least, most))

    def decimal(self, key: str) -> str:
        """A positive decimal number as text, such as 2.5."""
        found = self.any(key)
        if not isinstance(found, str) or not _DECIMAL.fullmatch(found):
            self.reject(f"needs {key}, a decimal number as text")
        return found

    def fraction(self, key: str) -> Fraction:
        """A positive fraction in lowest terms, as text such as 3/2."""
        found = self.any(key)
        self.charge(len(found) >> 4 if isinstance(found, str) else 0)
        matches = isinstance(found, str) and _FRACTION.fullmatch(found)
        fraction = Fraction(str(found)) if matches else Fraction(0)
        if not 0 < fraction <= LARGEST_FRACTION or str(fraction) != found:
            self.reject(f"needs {key}, a positive fraction such as 3/2, at most 2^40")
        return fraction
