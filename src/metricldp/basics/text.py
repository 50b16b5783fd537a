"""How values and names stand in messages: quoted, short, and with the nearest name there is."""

from __future__ import annotations

import difflib
import math
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence, Set
from decimal import Context, Decimal
from fractions import Fraction

from metricldp.basics.numbers import is_number

_MOST_NAMES = 8
_MOST_LETTERS = 80


def shown(value: object) -> str:
    """A value as Python writes it, on one line and never long; of a column or table its type."""
    if hasattr(value, "__len__") and not isinstance(value, Sequence | Mapping | Set | type):
        return f"a {type(value).__name__}"
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        text = "an integer too large to write"
    except Exception:  # whatever an object of somebody else's does, or data nested too deep
        text = f"a {type(value).__name__}"
    if "\n" in text:
        text = " ".join(text.split())
    half = _MOST_LETTERS // 2
    return text if len(text) <= _MOST_LETTERS else f"{text[:half]}...{text[-half // 2 :]}"


def listed(names: Iterable[object]) -> str:
    """Names in quotes, the first few of many."""
    quoted = [shown(name) for name in names]
    if not quoted:
        return "none"
    more = len(quoted) - _MOST_NAMES
    if more <= 1:
        return ", ".join(quoted)
    return f"{', '.join(quoted[:_MOST_NAMES])} and {more} more"


def guess(name: object, names: Iterable[object]) -> str:
    """The rest of a sentence that says which name was probably meant, or nothing."""
    if not isinstance(name, str):
        return ""
    known = [other for other in names if isinstance(other, str)]
    if same := same_but_spelling(name, known):
        return same
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def same_but_spelling(name: str, names: Iterable[object]) -> str:
    """The same, for a name that differs from it in spaces, case or accents only."""
    known = [other for other in names if isinstance(other, str)]
    for what, plain in (("spaces", _spaceless), ("case", _caseless), ("accents", _accentless)):
        for other in known:
            if plain(other) == plain(name):
                return f"; {other!r} differs only in its {what}"
    return ""


def _spaceless(name: str) -> str:
    return "".join(name.split())


def _caseless(name: str) -> str:
    return _spaceless(name).casefold()


def _accentless(name: str) -> str:
    letters = unicodedata.normalize("NFKD", _caseless(name))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def distinct(number: Fraction, other: Fraction) -> tuple[str, str]:
    """Two different numbers in as many digits as it takes to see that."""
    digits = 6
    while True:
        context = Context(prec=digits)
        first, second = (
            context.divide(Decimal(n.numerator), Decimal(n.denominator)) for n in (number, other)
        )
        if first != second:
            return str(first), str(second)
        digits *= 2


def counted(count: int, noun: str, many: str | None = None) -> str:
    """A number of things: 1 report, 2 reports."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def table(rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Rows under a header row; the first `left` columns flush left, the numbers flush right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            f"{cell:<{width}}" if place < left else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def plain(value: object) -> str:
    """A number as people write it: no exponent, no trailing zeros, thousands apart."""
    if not is_number(value):
        return str(value)
    if isinstance(value, int) and -10_000 < value < 10_000:
        return str(value)
    number = float(value)
    if not math.isfinite(number):
        return str(number)
    if number == int(number) and abs(number) < 1e15:
        return f"{int(number):,}" if abs(number) >= 10_000 else str(int(number))
    return f"{number:,.6g}" if 1e-4 <= abs(number) < 1e15 else f"{number:g}"


def plain_or_exact(value: object) -> str:
    """The same, with all digits of a number that rounding would change."""
    text = plain(value)
    if not is_number(value) or not math.isfinite(value) or float(text.replace(",", "")) == value:
        return text
    return f"{value:,}"


def type_name(arrow_type: object) -> str:
    """An Arrow type without the types in it: "struct" instead of "struct<HIV: bool>".

    The names of fields and a time zone come from values, so messages do not show them.
    """
    return re.sub(r"<.*|\[.*tz=.*", "", str(arrow_type), flags=re.DOTALL)


def filled(words: str) -> str:
    """A paragraph or an item of a list with line breaks after at most 100 characters."""
    indent = " " * 2 * (words[0] == "-")
    return textwrap.fill(" ".join(words.split()), 100, subsequent_indent=indent)
