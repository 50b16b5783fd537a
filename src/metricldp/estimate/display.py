"""How estimates are written: numbers rounded to their error, intervals, and what cannot be said."""

from __future__ import annotations

import math
from dataclasses import dataclass

NOT_ESTIMABLE = "cannot be estimated"
EMPTY = f"{NOT_ESTIMABLE}: the group is not distinguishable from empty"
_MOST_DIGITS = 12


@dataclass(frozen=True)
class Display:
    """One estimate in words, for a line of text or a row of a table."""

    value: str
    """Rounded to its error; a bound if the estimate is outside of its interval."""
    stderr: str
    """Empty if there is none."""
    interval: str
    notes: tuple[str, ...] = ()
    estimable: bool = True
    unbiased: str = ""
    """The estimate, if no possible value is in its interval; rows of a table leave it out."""

    def line(self, unit: str, confidence_level: float, every: bool = False) -> str:
        """The estimate, its standard error and its interval in one line."""
        if not self.estimable:
            return "; ".join(dict.fromkeys((self.value, *self.notes)))
        together = " for all rows together" if every else ""
        stderr = f"SE {self.stderr}, " if self.stderr else ""
        interval = f"{percent(confidence_level)} CI {self.interval}{together}"
        value = f"{self.value} {unit}".rstrip()
        unbiased = [f"the unbiased estimate is {self.unbiased}"] if self.unbiased else []
        return "; ".join([f"{value} ({stderr}{interval})", *unbiased, *self.notes])


def percent(confidence_level: float) -> str:
    """A level as a percentage: 95%, 99.9%."""
    return f"{100 * confidence_level:.10g}%"


def rounded(number: float, error: float, *, whole: bool = False) -> str:
    """A number with two digits of its error; people have no fractions."""
    digits = 0
    if math.isnan(number):
        return NOT_ESTIMABLE
    if math.isinf(number):
        return "no bound"
    if not whole:
        if not math.isfinite(error):
            return f"{float(f'{number:.4g}'):,.10g}"
        digits = 1 - math.floor(math.log10(error)) if error > 0 else 4
    text = f"{number:,.{min(max(digits, 0), _MOST_DIGITS)}f}"
    return text.removeprefix("-") if not text.strip("-0.,") else text


def rounded_error(error: float, *, whole: bool = False) -> str:
    """A standard error with two digits, above 0 wherever it is."""
    if not math.isfinite(error):
        return "unknown"
    if whole and 0 < error < 1:
        return "below 1"
    return rounded(error, error, whole=whole)


def interval_text(low: str, high: str) -> str:
    """The ends of an interval."""
    if low == high == "no bound":
        return "unbounded"
    if low == "no bound":
        return f"below {high}"
    if high == "no bound":
        return f"above {low}"
    return f"{low} to {high}"


def bounded(value: str, low: str, high: str, place: int) -> str:
    """An estimate below (-1) or above (1) its interval as a bound, else (0) as it is."""
    if place < 0:
        return f"fewer than {high}" if high != low else high
    if place > 0:
        return f"more than {low}" if high != low else low
    return value
