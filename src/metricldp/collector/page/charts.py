"""Charts of tables of estimates: steps, bars, distribution functions, heat maps, differences.

A group that is not distinguishable from empty has no bar, only its interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from metricldp.answers.quantiles import Cdf
from metricldp.basics.errors import QueryError
from metricldp.basics.text import plain
from metricldp.collector.page.svg import Drawing, Point
from metricldp.collector.page.view import Row, TableView

WIDE, NARROW = 680.0, 360.0
"""The widths of charts for screens and for phones."""
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Marked in a chart of a distribution function."""
_LEFT, _RIGHT, _TOP, _BOTTOM, _TALL = 62.0, 14.0, 26.0, 276.0, 320.0
_ROW, _LETTER = 30.0, 6.9
"""The height of a bar with its space, and the width of a letter, about."""


def chart(view: TableView, title: str, width: float = WIDE) -> Drawing:
    """The chart for the form of a table."""
    table, count = view.table, len(view.rows)
    if isinstance(table, Cdf) and not table.described.named and count > 1:
        return cdf_chart(table, view, title, width)
    if len(table.groupings) == 2 and not view.differences:
        return heat_map(view, title, width)
    if not table.groupings:
        raise QueryError("a single estimate has no chart; use .json or .csv")
    edges = table.groupings[0].edges
    if edges is None or len(edges) != count + 1 or count < 2 or view.differences:
        return bar_chart(view, title, width)
    return step_chart(edges, view, title, width)


# Axes --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """Numbers of an axis as coordinates."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, number: float) -> float:
        """The coordinate of a number; numbers beyond the axis are drawn at its end."""
        inside = min(max(number, self.low), self.high)
        fraction = (inside - self.low) / ((self.high - self.low) or 1.0)
        return self.start + fraction * (self.end - self.start)

    @classmethod
    def of(cls, rows: Iterable[Row], start: float, end: float) -> Scale:
        """An axis for estimates with their intervals and bounds."""
        known = [row for row in rows if math.isfinite(row.value)]
        numbers = (x for r in known for x in (r.value, r.low, r.high, *(r.bounds or ())))
        return cls.covering(numbers, start, end)

    @classmethod
    def covering(cls, numbers: Iterable[float], start: float, end: float) -> Scale:
        """An axis with 0 and all finite numbers, up to a round number."""
        finite = [0.0, *(number for number in numbers if math.isfinite(number))]
        low, high = min(finite), max(finite)
        high = high if high > low else low + 1.0
        marks = ticks(low, high)
        step = marks[1] - marks[0] if len(marks) > 1 else high - low
        return cls(low, math.ceil(high / step - 1e-9) * step, start, end)

    def grid(self, drawing: Drawing, start: float, end: float, about: int) -> None:
        """Draw vertical lines at round numbers."""
        for tick in ticks(self.low, self.high, about):
            kind = "zero" if tick == 0 else "grid"
            drawing.line(kind, (self(tick), start), (self(tick), end))


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten from low to high."""
    if not high > low:
        return [low]
    rough = (high - low) / max(about, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(k * power for k in (1, 2, 5, 10) if k * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def short(text: str, width: float) -> str:
    """A label that fits; the table has it in full."""
    letters = max(int(width / _LETTER + 1e-6), 2)
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def _vertical_axis(drawing: Drawing, y: Scale, name: str) -> None:
    """Draw a grid with numbers, and a name above it."""
    for tick in ticks(y.low, y.high):
        kind = "zero" if tick == 0 else "grid"
        drawing.line(kind, (_LEFT, y(tick)), (drawing.width - _RIGHT, y(tick)))
        drawing.text("tick", _LEFT - 8, y(tick) + 4, plain(tick), "end")
    drawing.text("label", 4, 14, short(name, drawing.width))


def _horizontal_axis(drawing: Drawing, x: Scale, name: str, bottom: float = _BOTTOM) -> None:
    for tick in ticks(x.low, x.high, 8 if x.end - x.start > 400 else 5):
        text, width = plain(tick), drawing.width
        is_cut = x(tick) + _LETTER * len(text) / 2 > width
        drawing.line("axis", (x(tick), bottom), (x(tick), bottom + 4))
        place, anchor = (width, "end") if is_cut else (x(tick), "middle")
        drawing.text("tick", place, bottom + 18, text, anchor)
    drawing.text("label", (x.start + x.end) / 2, bottom + 37, short(name, x.end), "middle")


# Lines -------------------------------------------------------------------------------------------

Sides = Sequence[tuple[float, float, Row]]
"""Rows with the two ends of each on a line of numbers."""


def step_chart(edges: Sequence[float], view: TableView, title: str, width: float) -> Drawing:
    """Groups along a line of numbers: steps, with their intervals as a band."""
    drawing = Drawing(width, _TALL, title, described(view, "bins"))
    x, y = Scale(edges[0], edges[-1], _LEFT, width - _RIGHT), Scale.of(view.rows, _BOTTOM, _TOP)
    _vertical_axis(drawing, y, view.unit)
    sides = list(zip(edges[:-1], edges[1:], view.rows, strict=True))
    _band(drawing, sides, x, y)
    for empty, some in groupby(sides, key=lambda side: side[2].empty):
        if not empty:
            drawing.line("line", *_steps(((a, b, row.value) for a, b, row in some), x, y))
    _horizontal_axis(drawing, x, view.table.groupings[0].name)
    return drawing


def _steps(sides: Iterable[tuple[float, float, float]], x: Scale, y: Scale) -> list[Point]:
    return [(x(edge), y(value)) for a, b, value in sides for edge in (a, b)]


def _band(drawing: Drawing, sides: Sides, x: Scale, y: Scale) -> None:
    """Draw intervals as a band, and poisoning bounds as a line on each side."""
    low = _steps(((a, b, row.low) for a, b, row in sides), x, y)
    drawing.line("band", *_steps(((a, b, row.high) for a, b, row in sides), x, y), *reversed(low))
    for k in (0, 1):
        if bounds := [(a, b, row.bounds[k]) for a, b, row in sides if row.bounds]:
            drawing.line("bounds", *_steps(bounds, x, y))


def cdf_chart(table: Cdf, view: TableView, title: str, width: float) -> Drawing:
    """A distribution function with its band, and some quantiles."""
    drawing = Drawing(width, _TALL, title)
    ends = [float(end) for end in table.ends]
    first = ends[0] - (ends[1] - ends[0])
    x, y = Scale(first, ends[-1], _LEFT, width - _RIGHT), Scale(0, 1, _BOTTOM, _TOP)
    _vertical_axis(drawing, y, "fraction of respondents")
    sides = list(zip(ends, [*ends[1:], ends[-1]], view.rows, strict=True))
    _band(drawing, sides, x, y)
    text = "not distinguishable from empty"
    if not view.rows[0].empty:
        steps = _steps(((a, b, row.value) for a, b, row in sides), x, y)
        drawing.line("line", (x(first), y(0)), (x(ends[0]), y(0)), *steps)
        quantiles = {p: table.quantile(p) for p in QUANTILES}
        for p, quantile in quantiles.items():
            place = x(float(quantile.value))
            shift, anchor = (7, "start") if place < width - 60 else (-7, "end")
            drawing.line("guide", (_LEFT, y(p)), (place, y(p)), (place, y(0)))
            drawing.box("dot", (place - 3, y(p) - 3), (6, 6))
            drawing.text("label", place + shift, y(p) + 14, quantile._shown(quantile.value), anchor)
        text = f"the median is {quantiles[0.5]._shown(quantiles[0.5].value)}"
    _horizontal_axis(drawing, x, table.attribute)
    drawing.description = f"The function with a {view.interval_name} band for all of it; {text}."
    return drawing


# Bars --------------------------------------------------------------------------------------------


def bar_chart(view: TableView, title: str, width: float) -> Drawing:
    """A bar for each group; its number beside it, or its difference from the baseline."""
    rows, bottom = view.rows, 8 + _ROW * len(view.rows)
    differences = view.differences
    drawing = Drawing(width, bottom + 46, title, described(view, "groups"))
    longest = max((len(row.label) for row in rows), default=0)
    left = min(max(60.0, 15 + _LETTER * longest), 0.28 * width)
    right = width - 104 if differences is None else (left + width - 74) / 2
    x = Scale.of(rows, left, right)
    x.grid(drawing, 4, bottom, 5 if differences is None else 3)
    for k, row in enumerate(rows):
        top = 8 + _ROW * k
        drawing.text("label", left - 8, top + _ROW / 2 + 4, short(row.label, left - 14), "end")
        if not row.empty:
            start, end = sorted((x(0.0), x(row.value)))
            drawing.box("bar", (start, top + 5), (end - start, _ROW - 10))
        _whisker(drawing, row, x, top + _ROW / 2)
        if differences is None:
            text = row.display.interval if row.empty else row.display.value
            drawing.text("label", width - 4, top + 19, short(text or "no estimate", 100), "end")
    _horizontal_axis(drawing, x, view.unit, bottom)
    if differences is not None:
        _differences(drawing, view, differences, Scale.of(differences.rows, right + 44, width - 30))
    return drawing


def _differences(drawing: Drawing, view: TableView, differences: TableView, x: Scale) -> None:
    """Draw the differences of all groups from the baseline, to the right of their bars."""
    bottom = 8 + _ROW * len(view.rows)
    x.grid(drawing, 4, bottom, 3)
    rows = {row.label: row for row in differences.rows}
    for k, row in enumerate(view.rows):
        if row.label in rows:
            _whisker(drawing, rows[row.label], x, 8 + _ROW * (k + 0.5))
        else:
            drawing.text("tick", x(0.0) + 6, 27 + _ROW * k, "baseline")
    name = f"difference from {view.query.baseline}"
    _horizontal_axis(drawing, x, short(name, x.end - x.start + 60), bottom)


def _whisker(drawing: Drawing, row: Row, x: Scale, middle: float) -> None:
    """Draw an interval with caps at ends on the axis, a dot at the estimate, and bounds."""
    if row.bounds is not None:
        start, end = map(x, row.bounds)
        drawing.line("bounds", (start, middle + 8), (end, middle + 8))
    drawing.line("whisker", (x(row.low), middle), (x(row.high), middle))
    for end in (row.low, row.high):
        if x.low <= end <= x.high:
            drawing.line("whisker", (x(end), middle - 4), (x(end), middle + 4))
    if math.isfinite(row.value) and not row.empty:
        drawing.box("dot", (x(row.value) - 2.5, middle - 2.5), (5, 5))


def column_chart(rows: Sequence[tuple[str, int]], title: str, name: str, width: float) -> Drawing:
    """Numbers of reports over time, a column each."""
    bottom, total = 160.0, sum(count for _, count in rows)
    drawing = Drawing(width, 200.0, title, f"{total:,} reports in all.")
    y = Scale.covering((count for _, count in rows), bottom, _TOP)
    _vertical_axis(drawing, y, "reports")
    side = (width - _RIGHT - _LEFT) / max(len(rows), 1)
    wide, every = min(side * 0.8, 60.0), max(1, math.ceil(90.0 / side))
    for k, (label, count) in enumerate(rows):
        middle = _LEFT + side * (k + 0.5)
        size = (wide, bottom - y(count))
        drawing.box("bar", (middle - wide / 2, y(count)), size, 1.0, f"{label}: {count:,}")
        if k % every == 0 and middle + 45 < width:
            drawing.text("tick", max(middle, _LEFT + 30), bottom + 16, label, "middle")
    drawing.text("label", (_LEFT + width) / 2, 194.0, name, "middle")
    return drawing


# Heat maps ---------------------------------------------------------------------------------------


def heat_map(view: TableView, title: str, width: float) -> Drawing:
    """A cell for each pair of groups; a dot in place of colour where a cell may be empty."""
    first, second = view.table.groupings
    count = len(set(second.texts))
    lines = [view.rows[k : k + count] for k in range(0, len(view.rows), count)]
    names, columns = [cells[0].groups[0] for cells in lines], [row.groups[1] for row in lines[0]]
    left = min(max(48.0, 14 + _LETTER * max(map(len, names))), 0.25 * width)
    wide = (width - left - 12) / count
    tall = min(max(wide, 14.0), 30.0)
    bottom = 28.0 + tall * len(lines)
    drawing = Drawing(width, bottom + 76, title, described(view, "cells"))
    values = [row.value for row in view.rows if not row.empty]
    low, high = min([0.0, *values]), max([1e-9, *values])
    drawing.text("label", 4, 16, short(first.name, width))
    for k, (name, cells) in enumerate(zip(names, lines, strict=True)):
        y = 28.0 + tall * k
        drawing.text("tick", left - 6, y + tall / 2 + 4, short(name, left - 12), "end")
        for j, (column, cell) in enumerate(zip(columns, cells, strict=True)):
            strength = 0.0 if cell.empty else (cell.value - low) / (high - low)
            text = f"{cell.display.value} ({view.interval} {cell.display.interval})"
            text = f"{first.name} {name}, {second.name} {column}: {text}"
            drawing.box("heat", (left + wide * j, y), (wide, tall), strength, text)
    for k, row in enumerate(view.rows):
        if row.empty:
            _dot(drawing, left + wide * (k % count + 0.5), 28.0 + tall * (k // count + 0.5))
    every = max(1, math.ceil(min(max(map(len, columns)) * _LETTER + 10, 120.0) / wide))
    for j in range(0, count, every):
        label = short(columns[j], every * wide)
        drawing.text("tick", left + wide * (j + 0.5), bottom + 16, label, "middle")
    drawing.text("label", (left + width - 12) / 2, bottom + 36, short(second.name, width), "middle")
    numbers = f"{plain(low)} {view.unit}", f"{high:,.0f}" if high >= 10 else f"{high:.2g}"
    _legend(drawing, left, bottom + 50, *numbers)
    return drawing


def _dot(drawing: Drawing, x: float, y: float) -> None:
    drawing.box("tick", (x - 1, y - 1), (2, 2))


def _legend(drawing: Drawing, left: float, top: float, low: str, high: str) -> None:
    left = left if drawing.width > NARROW else 4.0
    start = left + _LETTER * len(low) + 8
    drawing.text("tick", left, top + 14, low)
    for k in range(10):
        drawing.box("heat", (start + 8 * k, top + 3), (8, 14), (k + 0.5) / 10)
    drawing.text("tick", start + 86, top + 14, high)
    end = start + 100 + _LETTER * len(high)
    _dot(drawing, end, top + 10)
    text = "not distinguishable from empty"
    drawing.text("tick", end + 8, top + 14, text if drawing.width > NARROW else "may be empty")


def described(view: TableView, parts: str) -> str:
    """A chart in words."""
    clear = [row for row in view.rows if not row.empty]
    text = f"{len(view.rows)} {parts}, with {view.interval_name}s"
    if clear:
        most = max(clear, key=lambda row: row.value)
        text += f"; the largest is {most.label} with {most.display.value} {view.unit}"
    if len(clear) < len(view.rows):
        text += f"; {len(view.rows) - len(clear)} not distinguishable from empty"
    return f"{text}."
