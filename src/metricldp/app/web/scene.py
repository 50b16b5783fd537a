"""Drawings as a few marks on a plane, and how they are written as SVG.

Every mark has a class. What a class looks like stands once, as attributes of SVG: a file that is
saved looks right by itself, and on a page the stylesheet has other colours for light and dark.
No style and no script is ever written into a drawing, and every text goes through one escape.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

Point = tuple[float, float]
_UNPRINTABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Letters that XML cannot hold."""


@dataclass(frozen=True)
class Look:
    """How a class of marks is drawn where nothing else is said."""

    fill: str = "none"
    stroke: str = "none"
    width: float = 1.0
    dashes: str = ""


LOOKS = {
    "ground": Look(fill="#ffffff"),
    "axis": Look(stroke="#5f6b76"),
    "grid": Look(stroke="#dde3e8"),
    "zero": Look(stroke="#5f6b76"),
    "band": Look(fill="#a9cbe3"),
    "liars": Look(stroke="#a3462b", width=1.5, dashes="5 3"),
    "line": Look(stroke="#14466b", width=2),
    "bar": Look(fill="#a9cbe3"),
    "whisker": Look(stroke="#14466b", width=2),
    "dot": Look(fill="#14466b"),
    "heat": Look(fill="#14466b", stroke="#dde3e8"),
    "guide": Look(stroke="#5f6b76", dashes="2 3"),
    "tick": Look(fill="#4a545e"),
    "label": Look(fill="#1d2329"),
}
"""By class; blue and rust are told apart by every kind of eye."""


@dataclass(frozen=True)
class Box:
    """A rectangle; `strength` from 0 to 1 is how much of its colour is seen."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    strength: float = 1.0
    title: str = ""


@dataclass(frozen=True)
class Path:
    """Points joined by lines; an area if its class has a fill."""

    kind: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Text:
    """One line of text; the anchor is start, middle or end."""

    kind: str
    x: float
    y: float
    words: str
    anchor: str = "start"
    size: float = 13.0


Mark = Box | Path | Text


@dataclass(frozen=True)
class Scene:
    """Marks from back to front, with a title and what is to be seen, in words."""

    width: float
    height: float
    title: str
    told: str
    marks: tuple[Mark, ...]


def line(kind: str, *points: Point) -> Path:
    return Path(kind, tuple(points))


def escape(words: object) -> str:
    """Text as it stands in XML, between marks or in quotes."""
    return html.escape(_UNPRINTABLE.sub("\ufffd", str(words)), quote=True)


def svg(scene: Scene, *, name: str = "chart", alone: bool = False) -> str:
    """The drawing as SVG: to stand in a page, or as a file of its own."""
    space = ' xmlns="http://www.w3.org/2000/svg"' if alone else ""
    size = f' width="{scene.width:g}" height="{scene.height:g}"' if alone else ""
    head = (
        f'<svg{space}{size} viewBox="0 0 {scene.width:g} {scene.height:g}" class="drawing" '
        f'role="img" aria-labelledby="{name}-title {name}-told" '
        'font-family="system-ui, sans-serif">'
    )
    told = (
        f'<title id="{name}-title">{escape(scene.title)}</title>'
        f'<desc id="{name}-told">{escape(scene.told)}</desc>'
    )
    marks = (Box("ground", 0, 0, scene.width, scene.height), *scene.marks) if alone else scene.marks
    drawn = []
    for kind, some in groupby(marks, key=lambda mark: mark.kind):
        drawn.append(f"<g {_look(kind)}>{''.join(map(_written, some))}</g>")
    return "".join([head, told, *drawn, "</svg>"])


def _written(mark: Mark) -> str:
    if isinstance(mark, Text):
        anchor = f' text-anchor="{mark.anchor}"' if mark.anchor != "start" else ""
        place = f'x="{_short(mark.x)}" y="{_short(mark.y)}" font-size="{mark.size:g}"'
        return f"<text {place}{anchor}>{escape(mark.words)}</text>"
    if isinstance(mark, Path):
        return f'<path d="{_way(mark.points)}"/>'
    seen = f' fill-opacity="{mark.strength:.2g}"' if mark.strength < 1 else ""
    sides = {"x": mark.x, "y": mark.y, "width": mark.width, "height": mark.height}
    place = " ".join(f'{name}="{_short(number)}"' for name, number in sides.items())
    if mark.title:
        return f"<rect {place}{seen}><title>{escape(mark.title)}</title></rect>"
    return f"<rect {place}{seen}/>"


def _look(kind: str) -> str:
    look = LOOKS[kind]
    parts = [f'class="{kind}"', f'fill="{look.fill}"']
    if look.stroke != "none":
        parts += [f'stroke="{look.stroke}"', f'stroke-width="{look.width:g}"']
    if look.dashes:
        parts.append(f'stroke-dasharray="{look.dashes}"')
    return " ".join(parts)


def _way(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{_short(x)} {_short(y)}" for x, y in points)


def _short(number: float) -> str:
    """A place on the plane, to a tenth of a point."""
    return f"{round(number, 1):g}"
