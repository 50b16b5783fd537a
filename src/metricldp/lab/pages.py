"""A page: what a study found, as text, rows and descriptions of pictures; others write and draw it.

Nothing here knows how a picture is made. Colours are names that every library of pictures knows.
"""

from __future__ import annotations

import colorsys
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Self

import numpy.typing as npt

from metricldp.metrics import Metric

Progress = Callable[[float], None]
"""Is told the share of the work that is done."""
Rows = Sequence[Mapping[str, Any]]


def silent(done: float) -> None:
    """Nobody watches."""


# Pictures


@dataclass(frozen=True)
class Curve:
    """Points of one colour, joined by a line, dashes or nothing; a label for the legend."""

    label: str
    x: npt.ArrayLike
    y: npt.ArrayLike
    color: str
    look: str = "line"
    """One of "line", "dashes", "marked" (points joined by a line) and "points"."""
    error: npt.ArrayLike | None = None
    """Half the length of each error bar."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes; `above` names a second scale on top, so many times the first."""

    title: str
    xlabel: str
    ylabel: str
    curves: Sequence[Curve]
    above: tuple[str, float] | None = None
    logs: str = "y"
    """Which axes are logarithmic: any of x and y."""
    line: float | None = None
    """A level to mark."""
    ticks: Sequence[float] | None = None
    """Where the x axis is labelled, if not left to the library."""
    from_zero: bool = False
    """Whether the y axis starts at zero."""


@dataclass(frozen=True)
class Picture:
    """What every picture has: the files it goes into, one for each format, and a title."""

    files: tuple[str, ...]
    title: str

    def quick(self) -> Self:
        """The same, said to be a small version."""
        return replace(self, title=f"{self.title} (quick version)")


@dataclass(frozen=True)
class Panels(Picture):
    """Rows of panels that share their y axis; each panel of a size in inches."""

    rows: Sequence[Sequence[Panel]]
    size: tuple[float, float] = (5.2, 3.9)


class Line(NamedTuple):
    """A line of a ranking."""

    label: str
    group: str
    value: float


@dataclass(frozen=True)
class Ranking(Picture):
    """For each block its lines as dots on a logarithmic scale, in order."""

    xlabel: str
    blocks: Mapping[str, Sequence[Line]]


@dataclass(frozen=True)
class MetricGraph(Picture):
    """A metric on positions as a graph, some of them marked."""

    metric: Metric
    labels: Sequence[str]
    marked: Collection[int] = ()

    def quick(self) -> Self:
        """Of a metric there is no other version."""
        return self


def hue(place: int, palette: Sequence[str]) -> str:
    """A colour of the palette; beyond its end hues a golden angle apart, for any number."""
    if place < len(palette):
        return palette[place]
    angle = (place - len(palette)) * 0.6180339887 % 1
    parts = colorsys.hls_to_rgb(angle, 0.35 + 0.1 * (place % 3), 0.6)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


# Pages


@dataclass(frozen=True)
class Page:
    """All that is written: a text, tables by their file, and pictures."""

    name: str
    text: str
    tables: Mapping[str, Rows]
    pictures: Sequence[Picture] = ()
    kind: str = "md"
    """How the file of the text ends."""

    def quick(self, note: str) -> Page:
        """The same, said to be a small version."""
        smaller = [picture.quick() for picture in self.pictures]
        return replace(self, text=self.text + note, pictures=smaller)


def rows_of(found: Sequence[Any], without: Collection[str] = ()) -> Rows:
    """Data classes as rows, some fields left out."""
    return [{k: v for k, v in asdict(one).items() if k not in without} for one in found]


def filled(words: str) -> str:
    """A paragraph or a point of a list, its lines broken anew."""
    hanging = " " * 2 * (words[0] == "-")
    return textwrap.fill(" ".join(words.split()), 100, subsequent_indent=hanging)


def block(text: str) -> str:
    """A table as it stands."""
    return f"```text\n{text}\n```\n"
