"""A column of made-up or public data as a draft of an attribute, with every choice told.

What follows the data is said to; what only a person can decide is a question. Private data must not
come here: a range or a list of names that follows people tells of those people.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from metricldp.basics.checks import is_line
from metricldp.basics.optional import lazy
from metricldp.basics.text import counted, listed, plain

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    pa, pc = lazy("pyarrow"), lazy("pyarrow.compute")

MOST_NAMES = 50
"""Categories of a draft; more are rather text."""
MOST_VALUES = 200
"""Whole numbers of a draft, each a position; more are kept in bins."""
MOST_BINS, FEWEST_BINS = 100, 20
FEW_ROWS = 10
"""With fewer rows it is no wonder that all values differ."""
LONG_TEXT = 40
"""Letters of a value, on average, beyond which it is text."""
EPSILON, CAP = 1, 3
"""Placeholders, the same for all data."""
_HEAPED, _AS_EXPECTED = 0.2, 3.0
_SPIKE = 0.1
_DATE = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2}|\d{4}/\d{1,2}/\d{1,2}|\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2}))([ T].*)?"
)
_ID = re.compile(r"(?:^|[ _.-])(id|uuid|guid|key|index|nr|no|number)$|[a-z]Id$|^ID", re.IGNORECASE)
_SCALES = (
    ("never", "rarely", "sometimes", "often", "always"),
    ("never", "seldom", "sometimes", "often", "always"),
    ("very low", "low", "medium", "high", "very high"),
    ("very low", "low", "middle", "high", "very high"),
    ("very low", "low", "moderate", "high", "very high"),
    ("none", "mild", "moderate", "severe"),
    ("very dissatisfied", "dissatisfied", "neutral", "satisfied", "very satisfied"),
    ("beginner", "intermediate", "advanced", "expert"),
    ("xs", "s", "m", "l", "xl", "xxl"),
    ("very bad", "bad", "fair", "good", "very good"),
    ("poor", "fair", "good", "very good", "excellent"),
    ("small", "medium", "large"),
    ("strongly disagree", "disagree", "neutral", "agree", "strongly agree"),
    ("none", "primary", "secondary", "tertiary"),
)
"""Words that are mostly meant in this order; a draft asks whether they are."""
Values = Any


@dataclass(frozen=True)
class Drafted:
    """One column: an entry of a survey file, or why there is none."""

    name: str
    entry: dict[str, Any] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    """For each key that follows the data, how."""
    questions: tuple[str, ...] = ()
    """What only a person can decide."""
    hints: tuple[str, ...] = ()
    left_out: str = ""


def drafted(name: str, values: pa.Array | list[Any]) -> Drafted:
    """What a column of values looks like."""
    if not is_line(name) or "=" in name:
        return Drafted(str(name), left_out="its name is no line of text without '='; rename it")
    array = _array(values)
    if array is None:
        return Drafted(name, left_out="its values are of several kinds; make them one kind")
    order = None
    if pa.types.is_dictionary(array.type):
        order = array.dictionary.to_pylist() if array.type.ordered else None
        array = array.dictionary_decode()
    kind, rows = array.type, len(array)
    if pa.types.is_temporal(kind):
        return Drafted(name, left_out=_DATES)
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    known = array.filter(pc.invert(_missing(array, texts)))
    if not len(known):
        return Drafted(
            name, left_out="no row has a value; fill it in, or say the attribute by hand"
        )
    found = _described(name, known, texts, order)
    missing = rows - len(known)
    if found.left_out or not missing:
        return found
    blank = f"{missing:,} of {rows:,} rows are blank"
    return Drafted(
        name,
        {**found.entry, "optional": True},
        {**found.why, "optional": blank},
        (*found.questions, "May people leave it out? If all have to answer, drop optional."),
        found.hints,
    )


_DATES = (
    "these are dates; a survey has numbers, so turn them into an age in years, days since a date, "
    "or a month from 1 to 12 with cyclic = true"
)


def _array(values: pa.Array | list[Any]) -> pa.Array | None:
    try:
        array = pa.array(values) if isinstance(values, list) else values
        if pa.types.is_null(array.type):
            return array.cast(pa.string())
        if pa.types.is_decimal(array.type):
            return array.cast(pa.float64())
        views = {pa.string_view(): pa.large_string()}
        return array.cast(views[array.type]) if array.type in views else array
    except (pa.ArrowException, OverflowError, TypeError, ValueError, UnicodeError):
        return None


def _missing(array: pa.Array, texts: bool) -> pa.Array:
    missing = array.is_null(nan_is_null=True)
    if texts:
        blank = pc.equal(pc.utf8_trim_whitespace(array), "")
        missing = pc.or_(missing, pc.fill_null(blank, True))
    return missing


def _described(name: str, known: pa.Array, texts: bool, order: list[Any] | None) -> Drafted:
    kind = known.type
    if pa.types.is_boolean(kind):
        return _named(name, ["true" if v else "false" for v in known.to_pylist()], None)
    if texts:
        numbers = None if order else _numbers(known)
        if numbers is not None:
            return _numeric(name, numbers)
        return _named(name, known.to_pylist(), order)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _numeric(name, np.asarray(known.to_numpy(zero_copy_only=False), dtype=np.float64))
    return Drafted(name, left_out=f"its values are {kind}; a survey has numbers and names")


def _numbers(texts: pa.Array) -> npt.NDArray[np.float64] | None:
    """All texts as numbers, if they are; codes such as 007 are names."""
    trimmed = pc.utf8_trim_whitespace(texts)
    if pc.any(pc.match_substring_regex(trimmed, r"^-?0\d|[xX]|[nN]")).as_py():
        return None
    try:
        return np.asarray(trimmed.cast(pa.float64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        return None


# Numbers -------------------------------------------------------------------------------------


def _numeric(name: str, numbers: npt.NDArray[np.float64]) -> Drafted:
    if not np.isfinite(numbers).all():
        return Drafted(name, left_out="it has infinite values; use finite ones")
    low, high = float(numbers.min()), float(numbers.max())
    if max(abs(low), abs(high)) >= 2**53:
        return Drafted(name, left_out="its numbers have more than 15 digits: rather an id")
    if low == high:
        return Drafted(name, left_out=f"every row has {plain(low)}; there is nothing to tell apart")
    whole, different = bool((numbers == np.rint(numbers)).all()), len(np.unique(numbers))
    if whole and len(numbers) >= FEW_ROWS and different == len(numbers):
        dense = high - low < 2 * len(numbers)
        if dense or _ID.search(name):
            return Drafted(name, left_out=f"all {different:,} values are different: an id")
    return _ranged(name, numbers, whole, different)


def _ranged(name: str, numbers: Any, whole: bool, different: int) -> Drafted:
    lowest, highest = float(numbers.min()), float(numbers.max())
    low, high = outward(lowest, highest, whole)
    why = {
        "kind": "some values are not whole",
        "low": f"the lowest value is {plain(lowest)}, rounded outward",
        "high": f"the highest value is {plain(highest)}, rounded outward",
    }
    entry: dict[str, Any] = {"kind": "continuous", "low": _short(low), "high": _short(high)}
    if whole and high - low < MOST_VALUES:
        entry["kind"], width = "integer", 1.0
        why["kind"] = f"all {len(numbers):,} values are whole"
    else:
        entry["bins"], width = _bins(high - low)
        why["bins"] = f"bins of {plain(width)}, a round number"
        if whole:
            why["kind"] = f"whole numbers, but more than {MOST_VALUES} of them, so kept in bins"
    part = _round_below((high - low) / 15)
    entry |= {"epsilon": EPSILON, "within": _short(max(part, width)), "cap": CAP}
    times = plain(float(f"{(high - low) / part:.2g}"))
    why["within"] = f"a placeholder: a round number; the range is {times} times as wide"
    if part < width:
        why["within"] = "a placeholder: one step"
    return Drafted(name, entry, why, _asked(entry, different), _hints(numbers, whole))


def _asked(entry: dict[str, Any], different: int) -> tuple[str, ...]:
    low, high, within = (plain(entry[key]) for key in ("low", "high", "within"))
    found = [
        f"Which values can people really have? Values outside {low} to {high} are refused, or "
        "moved to the end with --clip.",
        f"What is close? For values up to {within} apart, a report is at most e^epsilon times as "
        "likely from one as from the other; for any two, e^cap times. Do you want to promise that?",
    ]
    if entry["kind"] == "integer" and different <= 12:
        found.append('Are these codes of names? Then it is kind = "categorical".')
    if entry["kind"] == "continuous" and entry["low"] > 0:
        found.append(
            "Is close a ratio rather than a difference? Then leave within out and say "
            'metric = {kind = "relative", by = 0.1}.'
        )
    return tuple(found)


def outward(lowest: float, highest: float, whole: bool) -> tuple[float, float]:
    """The ends rounded away from each other, to multiples of a power of ten; near zero to zero."""
    span = highest - lowest
    power = math.floor(math.log10(span / 2))
    unit = 10.0 ** max(power, 0 if whole else power)
    low, high = math.floor(lowest / unit + 1e-9) * unit, math.ceil(highest / unit - 1e-9) * unit
    if span >= 20 * (1 if whole else unit / 10) and 0 < low <= span / 2:
        low = 0.0
    return float(f"{low:.12g}"), float(f"{high:.12g}")


def _bins(extent: float) -> tuple[int, float]:
    """As many bins as can be of a round width, up to a hundred."""
    top = math.floor(math.log10(extent))
    for power in range(top - 3, top + 1):
        for part in (1, 2, 2.5, 5):
            width = part * 10.0**power
            bins = round(extent / width)
            if bins <= MOST_BINS and math.isclose(bins * width, extent, rel_tol=1e-9):
                return max(bins, 2), float(f"{width:.12g}")
    return FEWEST_BINS, extent / FEWEST_BINS


def _short(number: float) -> float:
    """A whole number as one."""
    return int(number) if number == int(number) else number


def _round_below(number: float) -> float:
    power = 10.0 ** math.floor(math.log10(number))
    best = max(part for part in (1, 2, 5) if part * power <= number * (1 + 1e-9))
    return float(f"{best * power:.12g}")


def _hints(numbers: Any, whole: bool) -> tuple[str, ...]:
    """Where many people say the same: round numbers, or one value."""
    found = []
    span = float(numbers.max() - numbers.min())
    for base in (1000, 500, 100, 50, 10, 5, *(() if whole else (1,))):
        usual = 1 / base if whole else 0.01
        share = float(np.mean(np.mod(numbers, base) == 0))
        if base <= span / 4 and share >= max(_HEAPED, _AS_EXPECTED * usual):
            found.append(
                f"{100 * share:.0f} % of the values are multiples of {base}: people round. Begin "
                "and end ranges between round numbers, or place bins around these with edges."
            )
            break
    value, times = Counter(numbers.tolist()).most_common(1)[0]
    share = times / len(numbers)
    if share >= _SPIKE and len(np.unique(numbers)) > 20:
        found.append(
            f"{100 * share:.0f} % of the values are {plain(value)}. If that has a meaning of its "
            "own, give it a bin of its own with edges."
        )
    return tuple(found)


# Names ---------------------------------------------------------------------------------------


def _named(name: str, values: Sequence[str], order: list[Any] | None) -> Drafted:
    different = sorted(set(values))
    rows, count = len(values), len(different)
    if count == 1:
        return Drafted(name, left_out="every row has the same name; there is nothing to tell apart")
    dates = sum(bool(_DATE.fullmatch(text.strip())) for text in different)
    if dates == count:
        return Drafted(name, left_out=_DATES)
    long = sum(map(len, values)) / rows > LONG_TEXT
    if long or (count > MOST_NAMES and any(" " in text.strip() for text in different)):
        return Drafted(name, left_out="this is free text; a survey counts names and numbers")
    if rows >= FEW_ROWS and count == rows:
        return Drafted(name, left_out=f"all {count:,} values are different: an id, or free text")
    if count > MOST_NAMES:
        told = f"{count:,} different names are more than {MOST_NAMES}; group them first"
        return Drafted(name, left_out=told)
    if odd := [text for text in different if not is_line(text)]:
        return Drafted(name, left_out=f"it has names that cannot be printed: {listed(odd)}")
    levels = [str(level) for level in order if level in different] if order else _scale(different)
    if levels:
        said = "the column says so" if order else "these words usually have this order"
        return Drafted(
            name,
            {"kind": "ordinal", "levels": levels, "epsilon": EPSILON},
            {"kind": f"names with an order: {said}", "levels": f"the {count} names that are there"},
            (
                "Are the levels all there, and in order, the lowest first? If they have "
                'no order, say kind = "categorical" and categories.',
                "Are neighbouring levels equally close? Epsilon is for one step; within and cap "
                "say more.",
            ),
        )
    why = {"kind": f"{count} names in {counted(rows, 'row')}"}
    why["categories"] = "the names that are there, in alphabetical order"
    asked = (
        "Are all names there, also those that nobody in the data has? Other names are refused.",
        'Do they have an order? Then say kind = "ordinal" and levels, the lowest first.',
        "Are any two equally close? Epsilon is for any two; a metric says more.",
    )
    entry = {"kind": "categorical", "categories": different, "epsilon": EPSILON}
    return Drafted(name, entry, why, asked)


def _scale(different: Sequence[str]) -> list[str]:
    """The names in the order of a well-known scale, if they all are of one."""
    plainly = {text.strip().casefold(): text for text in different}
    for scale in _SCALES:
        if len(plainly) == len(different) > 2 and set(plainly) <= set(scale):
            return [plainly[word] for word in scale if word in plainly]
    return []
