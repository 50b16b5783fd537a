"""Values in: columns of people's data to clean numbers and places, or a refusal that says where.

Rows count from 1 in messages, the header of a file not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from metricldp.basics.errors import ValueRefused
from metricldp.basics.text import guess, listed, plain, shown

_NOT_FINITE = "is not a finite number; correct it or leave the row out"


def numbers_of(values: pa.Array, name: str, *, booleans: bool = False) -> npt.NDArray[Any]:
    """A column as integers or floats, nothing missing; true and false only where they may be."""
    _refuse_missing(values, name)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_null(values.type) or (booleans and pa.types.is_boolean(values.type)):
        values = values.cast(pa.int64())
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False)
        if numbers.dtype.kind == "f":
            refuse(~np.isfinite(numbers), values, name, _NOT_FINITE)
        return np.asarray(numbers)
    if _is_text(values.type):
        return _parsed(values.cast(pa.large_string()), name)
    raise ValueRefused(f"holds {values.type} values where numbers are needed", attribute=name)


def _parsed(values: pa.Array, name: str) -> npt.NDArray[Any]:
    """Text as numbers: whole ones stay exact."""
    trimmed = pc.utf8_trim_whitespace(values)
    _refuse_blank(trimmed, name)
    # Arrow reads 0x1f as a whole number but not as a real one; here it is no number at all.
    hexadecimal = _as_numpy(pc.match_substring(trimmed, "x", ignore_case=True))
    if hexadecimal.any():
        raise _no_number(trimmed, int(np.argmax(hexadecimal)), name)
    for target in (pa.int64(), pa.float64()):
        try:
            numbers = np.asarray(trimmed.cast(target).to_numpy(zero_copy_only=False))
        except pa.ArrowInvalid:
            continue
        refuse(~np.isfinite(numbers), values, name, _NOT_FINITE)
        return numbers
    for row, text in enumerate(trimmed.to_pylist()):
        try:
            pa.array([text]).cast(pa.float64())
        except pa.ArrowInvalid:
            raise _no_number(trimmed, row, name) from None
    raise ValueRefused("holds text where numbers are needed", attribute=name)  # pragma: no cover


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def _no_number(values: pa.Array, row: int, name: str) -> ValueRefused:
    why = f"is {shown(values[row].as_py())}, not a number; correct it or leave the row out"
    return ValueRefused(why, attribute=name, row=row)


def places_of(
    values: pa.Array, names: Sequence[str], name: str, *, clip: bool = False
) -> npt.NDArray[np.int64]:
    """The place of each text in a list of names, which cannot be clipped."""
    _refuse_missing(values, name)
    known = pa.array(list(names), pa.string())
    if pa.types.is_dictionary(values.type):
        if _is_text(values.type.value_type):
            # A look-up per entry of the dictionary; an unknown one that nobody has is no matter.
            entries = pc.index_in(values.dictionary.cast(pa.string()), value_set=known)
            places = entries.take(values.indices)
            if not places.null_count:
                return np.asarray(places.to_numpy(), dtype=np.int64)
        values = values.dictionary_decode()
    try:
        texts = values.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        why = f"holds {values.type} values where names are needed"
        raise ValueRefused(why, attribute=name) from None
    places = pc.index_in(texts, value_set=known)
    if places.null_count:
        _refuse_blank(texts, name)
        unknown = _as_numpy(places.is_null())
        text = texts[int(np.argmax(unknown))].as_py()
        rest = "; only numbers can be clipped" if clip else ""
        refuse(unknown, texts, name, f"is not one of {listed(names)}{rest}{guess(text, names)}")
    return np.asarray(places.to_numpy(zero_copy_only=False), dtype=np.int64)


def _refuse_missing(values: pa.Array, name: str) -> None:
    if values.null_count:
        row = int(np.argmax(_as_numpy(values.is_null())))
        raise _missing(name, row)


def _refuse_blank(texts: pa.Array, name: str) -> None:
    blank = _as_numpy(pc.equal(texts, ""))
    if blank.any():
        raise _missing(name, int(np.argmax(blank)))


def _missing(name: str, row: int) -> ValueRefused:
    why = "is missing; every person needs a value, so fill it in or leave the row out"
    return ValueRefused(why, attribute=name, row=row)


def refuse(wrong: npt.NDArray[np.bool_], values: pa.Array, name: str, why: str) -> None:
    """Refuse the first wrong value, by name, row and value."""
    if wrong.any():
        row = int(np.argmax(wrong))
        value = values[row].as_py()
        raise ValueRefused(f"is {shown(value)}, which {why}", attribute=name, row=row)


def refuse_outside(
    numbers: npt.NDArray[Any], values: pa.Array, low: float, high: float, name: str
) -> None:
    """Refuse the first number outside low to high."""
    if not len(numbers) or (low <= numbers.min().item() and numbers.max().item() <= high):
        return
    domain = f"is outside {plain(low)} to {plain(high)}; correct it or clip it (clip=True, --clip)"
    refuse((numbers < low) | (numbers > high), values, name, domain)


def _as_numpy(mask: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(mask.to_numpy(zero_copy_only=False), dtype=bool)
