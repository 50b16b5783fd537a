"""Drawings of lines, boxes and texts, written as SVG.

Every mark has a class, which is written with the attributes of its style: a saved file has its
colours, and on a page the stylesheet replaces them for light and dark schemes. A drawing contains
no style element and no script, and every text is escaped by one function.
"""

from __future__ import annotations

import html
import re
from itertools import groupby, pairwise

Point = tuple[float, float]
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
STYLES = {
    "ground": 'fill="#ffffff"',
    "axis": 'fill="none" stroke="#5f6b76" stroke-width="1"',
    "grid": 'fill="none" stroke="#dde3e8" stroke-width="1"',
    "zero": 'fill="none" stroke="#5f6b76" stroke-width="1"',
    "band": 'fill="#a9cbe3"',
    "bounds": 'fill="none" stroke="#a3462b" stroke-width="1.5" stroke-dasharray="5 3"',
    "line": 'fill="none" stroke="#14466b" stroke-width="2"',
    "bar": 'fill="#a9cbe3"',
    "whisker": 'fill="none" stroke="#14466b" stroke-width="2"',
    "dot": 'fill="#14466b"',
    "heat": 'fill="#14466b" stroke="#dde3e8" stroke-width="1"',
    "guide": 'fill="none" stroke="#5f6b76" stroke-width="1" stroke-dasharray="2 3"',
    "tick": 'fill="#4a545e" font-size="13"',
    "label": 'fill="#1d2329" font-size="13"',
}
"""By class; blue and rust differ for every kind of colour vision."""


class Drawing:
    """Marks from back to front, with a title and a description for screen readers."""

    def __init__(self, width: float, height: float, title: str, description: str = "") -> None:
        self.width, self.height = width, height
        self.title, self.description = title, description
        self._marks: list[tuple[str, str]] = []

    def line(self, kind: str, *points: Point) -> None:
        """A line through points; an area if its class has a fill."""
        places = [(_short(x), _short(y)) for x, y in points]
        steps = [
            f"V{y}" if x == before[0] else f"H{x}" if y == before[1] else f"L{x} {y}"
            for before, (x, y) in pairwise(places)
        ]
        self._marks.append((kind, f'<path d="M{" ".join(places[0])}{"".join(steps)}"/>'))

    def box(
        self, kind: str, point: Point, size: Point, strength: float = 1.0, title: str = ""
    ) -> None:
        """A rectangle; `strength` from 0 to 1 is the opacity of its colour."""
        names = zip(("x", "y", "width", "height"), (*point, *size), strict=True)
        place = " ".join(f'{name}="{_short(number)}"' for name, number in names)
        opacity = f' fill-opacity="{strength:.2g}"' if strength < 1 else ""
        text = f"><title>{escape(title)}</title></rect>" if title else "/>"
        self._marks.append((kind, f"<rect {place}{opacity}{text}"))

    def text(self, kind: str, x: float, y: float, text: str, anchor: str = "start") -> None:
        """One line of text, whose start, middle or end is at x."""
        how = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self._marks.append(
            (kind, f'<text x="{_short(x)}" y="{_short(y)}"{how}>{escape(text)}</text>')
        )

    def svg(self, name: str = "chart", *, standalone: bool = False) -> str:
        """An element of a page with this name as a class, or a file."""
        size = f'width="{self.width:g}" height="{self.height:g}"'
        space = f' xmlns="http://www.w3.org/2000/svg" {size}' if standalone else ""
        ground = f"<rect {STYLES['ground']} {size}/>" if standalone else ""
        groups = [
            f'<g class="{kind}" {STYLES[kind]}>{"".join(mark for _, mark in marks)}</g>'
            for kind, marks in groupby(self._marks, key=lambda mark: mark[0])
        ]
        return (
            f'<svg{space} viewBox="0 0 {self.width:g} {self.height:g}" class="drawing {name}" '
            f'role="img" aria-labelledby="{name}-title {name}-description" '
            f'font-family="system-ui, sans-serif"><title id="{name}-title">{escape(self.title)}'
            f'</title><desc id="{name}-description">{escape(self.description)}</desc>{ground}'
            f"{''.join(groups)}</svg>"
        )


def escape(text: object) -> str:
    """Text for XML, between elements or in quotes."""
    return html.escape(_NOT_XML.sub("\ufffd", str(text)), quote=True)


def _short(number: float) -> str:
    """A coordinate, to a tenth of a point."""
    return f"{round(number, 1):g}"
