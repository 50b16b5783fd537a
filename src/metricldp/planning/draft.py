"""A draft of a specification from made-up or public data; every choice has a comment.

Comments name what follows the data, and ask what only a person can decide. Do not use private data:
a range or a list of categories that follows respondents reveals something about them.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from metricldp.attributes.kinds import from_dict
from metricldp.basics.errors import InvalidSpecError, InvalidValueError
from metricldp.basics.optional import lazy
from metricldp.basics.text import counted, listed, plain, shown, type_name
from metricldp.basics.writing import path_of
from metricldp.reports.columns import columns_of
from metricldp.reports.files import read_columns
from metricldp.survey.spec import SurveySpec
from metricldp_core.canonical import is_line

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    pa, pc = lazy("pyarrow"), lazy("pyarrow.compute")

WARNING = (
    "Use synthetic or public data only, never private data. Ranges, names and bins follow the "
    "data, and a survey file is public: an end of a range, or a name, that only one person has "
    "reveals something about that person."
)
MOST_NAMES = 50
"""Categories of a draft; a column with more is probably text."""
MOST_VALUES = 200
"""Whole numbers of a draft, each with a position; more are put into bins."""
MOST_BINS, FEWEST_BINS = 100, 20
FEW_ROWS = 10
"""With fewer rows all values may differ by chance."""
LONG_TEXT = 40
"""Average length from which values are text."""
EPSILON, MAX_EPSILON = 1, 3
"""Placeholders, the same for all data."""
_HEAPED, _AS_EXPECTED, _SPIKE = 0.2, 3.0, 0.1
_DATE = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2}|\d{4}/\d{1,2}/\d{1,2}|\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2}))([ T].*)?"
)
_ID = re.compile(r"(?:^|[ _.-])(id|uuid|guid|key|index|nr|no|number)$|[a-z]Id$|^ID", re.IGNORECASE)
_CYCLE = re.compile(r"hour|week_?day|day_?of_?week|month|angle|direction|bearing", re.IGNORECASE)
"""Names of numbers that may be around a circle."""
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
"""Names that usually have this order."""


@dataclass(frozen=True)
class Column:
    """One column: its entry in a spec file, or why there is none."""

    name: str
    entry: dict[str, Any] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why a key has its value, for each key that follows the data."""
    questions: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    left_out: str = ""

    @property
    def comments(self) -> list[str]:
        """The lines of a spec file below the name of the attribute."""
        lines = [f"{key} = {_short_json(self.entry[key])}: {r}" for key, r in self.reasons.items()]
        return [*lines, *(f"? {question}" for question in self.questions), *self.hints]


def _short_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def draft(data: Any) -> SurveySpec:
    """Draft a specification from made-up or public data: a file, a frame, a table or a dict.

    Do not use private data: ranges and names that follow data reveal something about the data. The
    comments of the draft, in `comments`, when printed and in its file, name each choice that
    follows the data and ask what only you can decide.
    """
    columns: dict[str, Any]
    if isinstance(data, str | Path):
        path = path_of(data, InvalidValueError)
        columns, source = read_columns(path), path.name
    else:
        columns, source = columns_of(data), "a table"
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise InvalidValueError(f"columns differ in length: {sorted(lengths)}")
    if not columns or lengths == {0}:
        raise InvalidValueError(f"{source} has no rows; each row is one respondent")
    described = [_checked(describe(name, values)) for name, values in columns.items()]
    used = [column for column in described if not column.left_out]
    others = [column for column in described if column.left_out]
    if not used:
        # By place: without a header the names would be values of one row.
        reasons = [f"column {place}: {c.left_out}" for place, c in enumerate(others[:5], 1)]
        reasons += [f"and {len(others) - 5} more"] if len(others) > 5 else []
        raise InvalidValueError(f"no column of {source} can be an attribute: {'; '.join(reasons)}")
    top = [
        f"Draft of a survey from {source}, {counted(lengths.pop(), 'row')}.",
        WARNING,
        "Decide the points marked with ?, and change entries that follow the data. Then: "
        "metricldp design",
        *(f"Left out: {shown(column.name)}, {column.left_out}." for column in others),
    ]
    attributes = {column.name: from_dict(dict(column.entry), column.name) for column in used}
    comments = {"": top, **{column.name: column.comments for column in used}}
    return SurveySpec(attributes, comments=comments)


def _checked(column: Column) -> Column:
    """A column is left out if no attribute can be made of it."""
    if not column.left_out:
        try:
            from_dict(dict(column.entry), column.name)
        except InvalidSpecError as error:
            return Column(column.name, left_out=str(error))
    return column


def describe(name: str, values: pa.Array | list[Any]) -> Column:
    """The attribute that a column of values may be."""
    if not is_line(name) or "=" in name:
        return Column(str(name), left_out="its name is not a line of text without '='; rename it")
    array = _array(values)
    if array is None:
        return Column(name, left_out="its values have several types; use one type")
    order = None
    if pa.types.is_dictionary(array.type):
        order = array.dictionary.to_pylist() if array.type.ordered else None
        array = array.dictionary_decode()
    if pa.types.is_temporal(array.type):
        return Column(name, left_out=_DATES)
    texts = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    present = array.filter(pc.invert(_missing(array, texts)))
    if not len(present):
        return Column(
            name, left_out="no row has a value; fill it in, or write the attribute yourself"
        )
    column, missing = _described(name, present, texts, order), len(array) - len(present)
    if column.left_out or not missing:
        return column
    return replace(
        column,
        entry={**column.entry, "optional": True},
        reasons={**column.reasons, "optional": f"{missing:,} of {len(array):,} rows are blank"},
        questions=(*column.questions, "May a respondent leave it out? If not, remove optional."),
    )


_DATES = (
    "these are dates, and a survey has numbers; use an age in years, days since a date, or a month "
    "from 1 to 12 with cyclic = true"
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


def _described(name: str, present: pa.Array, texts: bool, order: list[Any] | None) -> Column:
    kind = present.type
    if pa.types.is_boolean(kind):
        return _named(name, ["true" if value else "false" for value in present.to_pylist()], None)
    if texts:
        numbers = None if order else _numbers(present)
        if numbers is not None:
            return _numeric(name, numbers)
        return _named(name, present.to_pylist(), order)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _numeric(name, np.asarray(present.to_numpy(zero_copy_only=False), dtype=np.float64))
    return Column(
        name, left_out=f"its values are {type_name(kind)}; a survey has numbers and names"
    )


def _numbers(texts: pa.Array) -> npt.NDArray[np.float64] | None:
    """The texts as numbers, if all are; codes such as 007 are names."""
    trimmed = pc.utf8_trim_whitespace(texts)
    if pc.any(pc.match_substring_regex(trimmed, r"^-?0\d|[xX]|[nN]")).as_py():
        return None
    try:
        return np.asarray(trimmed.cast(pa.float64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        return None


# Numbers ------------------------------------------------------------------------------------------


def _numeric(name: str, numbers: npt.NDArray[np.float64]) -> Column:
    if not np.isfinite(numbers).all():
        return Column(name, left_out="it has infinite values; use finite ones")
    low, high = float(numbers.min()), float(numbers.max())
    if max(abs(low), abs(high)) >= 2**53:
        return Column(name, left_out="its numbers have more than 15 digits: probably an id")
    if low == high:
        return Column(name, left_out=f"every row has the same value, {plain(low)}")
    whole, different = bool((numbers == np.rint(numbers)).all()), len(np.unique(numbers))
    if whole and len(numbers) >= FEW_ROWS and different == len(numbers):
        dense = high - low < 2 * len(numbers)
        if dense or _ID.search(name):
            return Column(name, left_out=f"all {different:,} values are different: an id")
    return _ranged(name, numbers, whole, different)


def _ranged(name: str, numbers: Any, whole: bool, different: int) -> Column:
    lowest, highest = float(numbers.min()), float(numbers.max())
    low, high = outward(lowest, highest, whole)
    reasons = {
        "kind": "some values are not whole",
        "low": f"the lowest value is {plain(lowest)}, rounded outward",
        "high": f"the highest value is {plain(highest)}, rounded outward",
    }
    entry: dict[str, Any] = {"kind": "continuous", "low": _whole(low), "high": _whole(high)}
    if whole and high - low < MOST_VALUES:
        entry["kind"], width = "integer", 1.0
        reasons["kind"] = f"all {len(numbers):,} values are whole"
    else:
        entry["bins"], width = _bins(high - low)
        reasons["bins"] = f"bins of {plain(width)}, a round number"
        if whole:
            reasons["kind"] = f"whole numbers, but more than {MOST_VALUES} of them, so in bins"
    part = _round_below((high - low) / 15)
    within = _whole(max(part, width))
    entry |= {"epsilon": EPSILON, "within": within, "max_epsilon": MAX_EPSILON}
    times = plain(float(f"{(high - low) / part:.2g}"))
    reasons["within"] = f"a placeholder: a round number; the range is {times} times as wide"
    if part < width:
        reasons["within"] = "a placeholder: one step"
    questions = _numeric_questions(name, entry, different)
    return Column(name, entry, reasons, questions, _hints(numbers, whole))


def _numeric_questions(name: str, entry: dict[str, Any], different: int) -> tuple[str, ...]:
    low, high, within = (plain(entry[key]) for key in ("low", "high", "within"))
    questions = [
        f"Which values are possible? Values outside of {low} to {high} are rejected, or moved to "
        "the nearest end with --clip.",
        f"Which values are close? A report is at most e^epsilon times as likely for one value as "
        f"for another within {within}, and at most e^max_epsilon times for any two. Is that the "
        "guarantee that you want?",
    ]
    if _CYCLE.search(name):
        questions.append(
            "Is the highest value next to the lowest, as for hours of the day? Then set low and "
            "high, such as 0 and 23, and cyclic = true."
        )
    if entry["kind"] == "integer" and different <= 12:
        questions.append('Are these codes of categories? Then use kind = "categorical".')
    if entry["kind"] == "continuous" and entry["low"] > 0:
        questions.append(
            "Are values close if their ratio is small? Then replace within by "
            'metric = {kind = "relative", by = 0.1}.'
        )
    return tuple(questions)


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
    """As many bins of a round width as possible, up to a hundred."""
    top = math.floor(math.log10(extent))
    for power in range(top - 3, top + 1):
        for part in (1, 2, 2.5, 5):
            width = part * 10.0**power
            bins = round(extent / width)
            if bins <= MOST_BINS and math.isclose(bins * width, extent, rel_tol=1e-9):
                return max(bins, 2), float(f"{width:.12g}")
    return FEWEST_BINS, extent / FEWEST_BINS


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number


def _round_below(number: float) -> float:
    power = 10.0 ** math.floor(math.log10(number))
    best = max(part for part in (1, 2, 5) if part * power <= number * (1 + 1e-9))
    return float(f"{best * power:.12g}")


def _hints(numbers: Any, whole: bool) -> tuple[str, ...]:
    """Values that many rows have: round numbers, or a single value."""
    hints = []
    span = float(numbers.max() - numbers.min())
    for base in (1000, 500, 100, 50, 10, 5, *(() if whole else (1,))):
        expected = 1 / base if whole else 0.01
        fraction = float(np.mean(np.mod(numbers, base) == 0))
        if base <= span / 4 and fraction >= max(_HEAPED, _AS_EXPECTED * expected):
            hints.append(
                f"{100 * fraction:.0f} % of the values are multiples of {base}: people round. "
                "Begin and end ranges between round numbers, or centre bins on them with edges."
            )
            break
    value, count = Counter(numbers.tolist()).most_common(1)[0]
    fraction = count / len(numbers)
    if fraction >= _SPIKE and len(np.unique(numbers)) > 20:
        hints.append(
            f"{100 * fraction:.0f} % of the values are {plain(value)}. If this value has a special "
            "meaning, give it a bin of its own with edges."
        )
    return tuple(hints)


# Names --------------------------------------------------------------------------------------------


def _named(name: str, values: Sequence[str], order: list[Any] | None) -> Column:
    different = sorted(set(values))
    rows, count = len(values), len(different)
    if count == 1:
        return Column(name, left_out="every row has the same name")
    if all(_DATE.fullmatch(text.strip()) for text in different):
        return Column(name, left_out=_DATES)
    is_long = sum(map(len, values)) / rows > LONG_TEXT
    if is_long or (count > MOST_NAMES and any(" " in text.strip() for text in different)):
        return Column(name, left_out="this is free text; a survey has numbers and names")
    if rows >= FEW_ROWS and count == rows:
        return Column(name, left_out=f"all {count:,} values are different: an id, or free text")
    if count > MOST_NAMES:
        why = f"{count:,} different names are more than {MOST_NAMES}; group them first"
        return Column(name, left_out=why)
    if odd := [text for text in different if not is_line(text)]:
        return Column(name, left_out=f"it has names that cannot be printed: {listed(odd)}")
    levels = [str(level) for level in order if level in different] if order else _scale(different)
    if levels:
        why = "the column states it" if order else "these names usually have this order"
        return Column(
            name,
            {"kind": "ordinal", "levels": levels, "epsilon": EPSILON},
            {"kind": f"names with an order: {why}", "levels": f"the {count} names in the data"},
            (
                "Are all levels listed, in order, the lowest first? If they have no order, use "
                'kind = "categorical" and categories.',
                "Are neighbouring levels equally close? Epsilon is for one step; within and "
                "max_epsilon state more.",
            ),
        )
    return Column(
        name,
        {"kind": "categorical", "categories": different, "epsilon": EPSILON},
        {
            "kind": f"{count} names in {counted(rows, 'row')}",
            "categories": "the names in the data, in alphabetical order",
        },
        (
            "Are all names listed, also those that do not occur in the data? Others are rejected.",
            'Do they have an order? Then use kind = "ordinal" and levels, the lowest first.',
            "Are any two equally close? Epsilon is for any two; a metric states more.",
        ),
    )


def _scale(different: Sequence[str]) -> list[str]:
    """The names in the order of a well-known scale, if all belong to one."""
    by_name = {text.strip().casefold(): text for text in different}
    for scale in _SCALES:
        if len(by_name) == len(different) > 2 and set(by_name) <= set(scale):
            return [by_name[name] for name in scale if name in by_name]
    return []
