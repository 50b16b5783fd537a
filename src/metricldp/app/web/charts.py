"""The charts of the page as scenes: axes with round ticks, direct labels, intervals as bands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from metricldp.app.web.scene import Box, Mark, Path, Scene, Text, line
from metricldp.basics.text import plain

WIDTH = 680.0
_TALL, _LEFT, _RIGHT, _TOP, _BOTTOM = 320.0, 62.0, 14.0, 26.0, 44.0
_ROW = 30.0
_LETTER = 6.9
"""The width of a letter of 13 points, about."""


@dataclass(frozen=True)
class Row:
    """A value with its interval, and how far liars could move it each way."""

    label: str
    value: float
    low: float
    high: float
    liars: tuple[float, float] | None = None


@dataclass(frozen=True)
class Scale:
    """Numbers along an axis, to places on the plane."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, number: float) -> float:
        """The place of a number; what is beyond the axis ends at its end."""
        kept = min(max(number, self.low), self.high)
        share = (kept - self.low) / ((self.high - self.low) or 1.0)
        return self.start + share * (self.end - self.start)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from low to high: multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / max(about, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(k * power for k in (1, 2, 5, 10) if k * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def spanned(rows: Sequence[Row]) -> tuple[float, float]:
    """From zero, or below, to the highest end that is a number."""
    ends = [end for r in rows for end in (r.value, r.low, r.high, *(r.liars or ()))]
    numbers = [end for end in ends if math.isfinite(end)] or [0.0]
    low, high = min(0.0, *numbers), max(0.0, *numbers)
    return low, high if high > low else low + 1.0


def rounded_out(low: float, high: float) -> tuple[float, float]:
    """The same range, up to the next round number; below zero only as far as there is something."""
    marks = ticks(low, high)
    step = marks[1] - marks[0] if len(marks) > 1 else (high - low) or 1.0
    return low, math.ceil(high / step - 1e-9) * step


def short(text: str, letters: int) -> str:
    """A label that fits; the table has it in full."""
    return text if len(text) <= letters else f"{text[: max(letters - 1, 1)]}…"


def steps(
    edges: Sequence[float], rows: Sequence[Row], title: str, told: str, across: str, up: str
) -> Scene:
    """Bars of numbers: a line of steps with a band of intervals around it."""
    low, high = rounded_out(*spanned(rows))
    y, x = (
        Scale(low, high, _TALL - _BOTTOM, _TOP),
        Scale(edges[0], edges[-1], _LEFT, WIDTH - _RIGHT),
    )
    marks: list[Mark] = _upright(y, up)
    sides = list(zip(edges[:-1], edges[1:], rows, strict=True))
    top = [(x(edge), y(_end(r.high, high))) for a, b, r in sides for edge in (a, b)]
    bottom = [(x(edge), y(_end(r.low, low))) for a, b, r in sides for edge in (a, b)]
    marks.append(Path("band", (*top, *reversed(bottom))))
    marks += _lied(sides, x, y)
    marks.append(Path("line", tuple((x(e), y(r.value)) for a, b, r in sides for e in (a, b))))
    marks += _flat(x, across)
    return Scene(WIDTH, _TALL, title, told, tuple(marks))


def _lied(sides: Sequence[tuple[float, float, Row]], x: Scale, y: Scale) -> list[Mark]:
    """How far liars could have moved steps, as a line on each side."""
    if not all(row.liars for _, _, row in sides):
        return []
    return [
        Path("liars", tuple((x(e), y(r.liars[k])) for a, b, r in sides for e in (a, b) if r.liars))
        for k in (0, 1)
    ]


def _end(number: float, instead: float) -> float:
    return number if math.isfinite(number) else instead


def _upright(
    y: Scale, words: str, left: float = _LEFT, right: float = WIDTH - _RIGHT
) -> list[Mark]:
    """Grid, ticks and the zero of an axis that goes up; its unit stands above it."""
    found: list[Mark] = []
    for tick in ticks(y.low, y.high):
        kind = "zero" if tick == 0 else "grid"
        found.append(line(kind, (left, y(tick)), (right, y(tick))))
        found.append(Text("tick", left - 8, y(tick) + 4, plain(tick), "end"))
    return [*found, Text("tick", left - 8, 14, words, "start" if len(words) > 8 else "end")]


def _flat(x: Scale, words: str, bottom: float = _TALL - _BOTTOM) -> list[Mark]:
    found: list[Mark] = []
    for tick in ticks(x.low, x.high, 8):
        found.append(line("axis", (x(tick), bottom), (x(tick), bottom + 4)))
        found.append(Text("tick", x(tick), bottom + 18, plain(tick), "middle"))
    middle = (x.start + x.end) / 2
    return [*found, Text("label", middle, bottom + 37, short(words, 80), "middle")]


def names(rows: Sequence[Row], title: str, told: str, across: str, digits: int = 0) -> Scene:
    """Bars of names below each other, each with its interval and its number beside it."""
    left = _margin(rows)
    right = WIDTH - 92
    low, high = rounded_out(*spanned(rows))
    x, bottom = Scale(low, high, left, right), 8 + _ROW * len(rows)
    marks: list[Mark] = [
        line("zero" if t == 0 else "grid", (x(t), 4), (x(t), bottom)) for t in ticks(low, high)
    ]
    for k, row in enumerate(rows):
        marks += _named(row, x, 8 + _ROW * k, left)
        marks.append(Text("label", WIDTH - 4, 8 + _ROW * k + 19, f"{row.value:,.{digits}f}", "end"))
    marks += _flat(x, across, bottom)
    return Scene(WIDTH, bottom + 46, title, told, tuple(marks))


def _margin(rows: Sequence[Row]) -> float:
    longest = max((len(row.label) for row in rows), default=0)
    return min(max(60.0, 14 + _LETTER * longest), 190.0)


def _named(row: Row, x: Scale, top: float, left: float) -> list[Mark]:
    middle, zero = top + _ROW / 2, x(0.0)
    label = short(row.label, int((left - 14) / _LETTER))
    found: list[Mark] = [Text("label", left - 8, middle + 4, label, "end")]
    start, end = sorted((zero, x(row.value)))
    found.append(Box("bar", start, top + 5, end - start, _ROW - 10))
    return found + _whisker(row, x, middle)


def _whisker(row: Row, x: Scale, middle: float) -> list[Mark]:
    found: list[Mark] = []
    if row.liars is not None:
        start, end = (x(_end(e, edge)) for e, edge in zip(row.liars, (x.low, x.high), strict=True))
        found.append(line("liars", (start, middle + 8), (end, middle + 8)))
    start, end = x(_end(row.low, x.low)), x(_end(row.high, x.high))
    found.append(line("whisker", (start, middle), (end, middle)))
    for place, there in ((start, row.low), (end, row.high)):
        if math.isfinite(there):
            found.append(line("whisker", (place, middle - 4), (place, middle + 4)))
    return [*found, Box("dot", x(row.value) - 2.5, middle - 2.5, 5, 5)]


def shares(
    ends: Sequence[float],
    rows: Sequence[Row],
    quantiles: Sequence[tuple[float, float]],
    title: str,
    told: str,
    across: str,
) -> Scene:
    """A distribution function with its band; quantiles are where a share is reached."""
    first = ends[0] - (ends[1] - ends[0] if len(ends) > 1 else 1.0)
    x, y = Scale(first, ends[-1], _LEFT, WIDTH - _RIGHT), Scale(0, 1, _TALL - _BOTTOM, _TOP)
    marks: list[Mark] = _upright(y, "share")
    sides = list(zip(ends, [*ends[1:], ends[-1]], rows, strict=True))
    top = [(x(e), y(r.high)) for a, b, r in sides for e in (a, b)]
    low = [(x(e), y(r.low)) for a, b, r in sides for e in (a, b)]
    middle = [(x(e), y(r.value)) for a, b, r in sides for e in (a, b)]
    marks.append(Path("band", (*top, *reversed(low))))
    marks += _lied(sides, x, y)
    marks.append(Path("line", ((x(first), y(0)), (x(ends[0]), y(0)), *middle)))
    for share, value in quantiles:
        place = x(value)
        marks.append(line("guide", (_LEFT, y(share)), (place, y(share)), (place, y(0))))
        marks.append(Box("dot", place - 3, y(share) - 3, 6, 6))
        side = "start" if place < WIDTH - 90 else "end"
        marks.append(
            Text(
                "label",
                place + (7 if side == "start" else -7),
                y(share) + 14,
                plain(round(value, 6)),
                side,
            )
        )
    marks += _flat(x, across)
    return Scene(WIDTH, _TALL, title, told, tuple(marks))


def heat(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[Row]],
    axes: tuple[str, str],
    title: str,
    told: str,
) -> Scene:
    """Cells whose strength is their count; a dot where it may as well be zero."""
    longest = max(len(row) for row in rows)
    left = min(max(48.0, 14 + _LETTER * longest), 150.0)
    side = (WIDTH - left - 12) / len(columns)
    tall = min(max(side, 14.0), 30.0)
    top, bottom = 28.0, 28.0 + tall * len(rows)
    most = max([row.value for line_of in cells for row in line_of] + [1.0])
    marks: list[Mark] = [Text("label", 4, 16, short(axes[0], 40))]
    labels: list[Mark] = []
    dots: list[Mark] = []
    every = max(1, math.ceil(13.0 / tall))
    for k, (label, line_of) in enumerate(zip(rows, cells, strict=True)):
        y = top + tall * k
        if k % every == 0:
            words = short(label, int((left - 12) / _LETTER))
            labels.append(Text("tick", left - 6, y + tall / 2 + 4, words, "end"))
        for j, cell in enumerate(line_of):
            x = left + side * j
            strength = min(max(cell.value / most, 0.0), 1.0)
            ends = f"{cell.value:,.0f} ({cell.low:,.0f} to {cell.high:,.0f})"
            said = f"{axes[0]} {label}, {axes[1]} {columns[j]}: {ends}"
            marks.append(Box("heat", x, y, side, tall, strength, said))
            if cell.low <= 0 and len(columns) * len(rows) <= 900:
                dots.append(Box("tick", x + side / 2 - 1, y + tall / 2 - 1, 2, 2))
    widest = max(len(column) for column in columns) * _LETTER + 10
    every = max(1, math.ceil(min(widest, 120.0) / side))
    for j, column in enumerate(columns):
        if j % every == 0:
            words = short(column, max(3, int(every * side / _LETTER)))
            labels.append(Text("tick", left + side * (j + 0.5), bottom + 16, words, "middle"))
    marks += dots + labels
    marks.append(
        Text("label", left + (WIDTH - left - 12) / 2, bottom + 36, short(axes[1], 60), "middle")
    )
    marks += _legend(left, bottom + 50, most)
    return Scene(WIDTH, bottom + 76, title, told, tuple(marks))


def _legend(left: float, top: float, most: float) -> list[Mark]:
    found: list[Mark] = [Text("tick", left, top + 14, "0 people")]
    start, wide = left + 66, 12.0
    found += [Box("heat", start + wide * k, top + 3, wide, 14, (k + 0.5) / 10) for k in range(10)]
    found.append(Text("tick", start + wide * 10 + 8, top + 14, f"{most:,.0f}"))
    dot = start + wide * 10 + 30 + _LETTER * len(f"{most:,.0f}")
    found.append(Box("tick", dot, top + 9, 2, 2))
    return [*found, Text("tick", dot + 8, top + 14, "not clearly above zero")]


def beside(
    rows: Sequence[Row], apart: Sequence[Row | None], heads: tuple[str, str], title: str, told: str
) -> Scene:
    """Groups on the left, how each differs from one of them on the right."""
    left = _margin(rows)
    half = (WIDTH - left - 74) / 2
    bottom = 30 + _ROW * len(rows)
    found = [row for row in apart if row is not None]
    marks: list[Mark] = []
    for start, head, some in ((left, heads[0], rows), (left + half + 44, heads[1], found)):
        low, high = rounded_out(*spanned(some))
        x = Scale(low, high, start, start + half)
        marks.append(Text("label", start, 16, short(head, int(half / _LETTER))))
        for tick in ticks(low, high, 3):
            marks.append(line("zero" if tick == 0 else "grid", (x(tick), 26), (x(tick), bottom)))
            marks.append(Text("tick", x(tick), bottom + 18, plain(tick), "middle"))
        for k, row in enumerate(rows if start == left else apart):
            top = 30 + _ROW * k
            if row is None:
                marks.append(Text("tick", x(0.0) + 6, top + 19, "compared with"))
            elif start == left:
                marks += _named(row, x, top, left)
            else:
                marks += _whisker(row, x, top + _ROW / 2)
    return Scene(WIDTH, bottom + 28, title, told, tuple(marks))


def columns(
    rows: Sequence[tuple[str, int]], title: str, told: str, across: str, up: str = "reports"
) -> Scene:
    """Plain counts over time, a column each."""
    tall, bottom = 200.0, 160.0
    most = max([count for _, count in rows] + [1])
    low, high = rounded_out(0.0, float(most))
    y = Scale(low, high, bottom, _TOP)
    marks: list[Mark] = []
    for tick in ticks(low, high, 3):
        marks.append(
            line("zero" if tick == 0 else "grid", (_LEFT, y(tick)), (WIDTH - _RIGHT, y(tick)))
        )
        marks.append(Text("tick", _LEFT - 8, y(tick) + 4, plain(tick), "end"))
    marks.append(Text("tick", _LEFT - 8, 14, up, "start" if len(up) > 8 else "end"))
    side = (WIDTH - _RIGHT - _LEFT) / max(len(rows), 1)
    wide = min(side * 0.8, 60.0)
    every = max(1, math.ceil(84.0 / side))
    for k, (label, count) in enumerate(rows):
        x = _LEFT + side * k
        marks.append(
            Box(
                "bar",
                x + (side - wide) / 2,
                y(count),
                wide,
                bottom - y(count),
                1.0,
                f"{label}: {count:,}",
            )
        )
        if k % every == 0:
            marks.append(
                Text(
                    "tick",
                    x + side / 2 if side > 30 else x,
                    bottom + 16,
                    label,
                    "middle" if side > 30 else "start",
                )
            )
    marks.append(Text("label", (_LEFT + WIDTH) / 2, tall - 6, across, "middle"))
    return Scene(WIDTH, tall, title, told, tuple(marks))
