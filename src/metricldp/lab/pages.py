"""A page: what a study found, as text, rows and descriptions of pictures; others write and draw it.

Nothing here knows how a picture is made. Colours are names that every library of pictures knows.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy.typing as npt

from metricldp.metrics import Metric

Progress = Callable[[float], None]
"""Is told the share of the work that is done."""
Rows = Sequence[Mapping[str, Any]]


def silent(done: float) -> None:
    """Nobody watches."""


# Pictures

COLORS = ("#0072b2", "#d55e00", "#1a1a1a", "#8a2be2", "#7a3b00", "#a0006d")
"""Told apart on paper and by people who do not see red and green; the first stand out most."""
GREY = "#8c8c8c"
"""Lines that are there to compare with."""


@dataclass(frozen=True)
class Curve:
    """Points of one colour, joined by a line, dashes or nothing; a label at its end, or none."""

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
    note: str = field(default="", kw_only=True)
    """What stands below in small letters: how to read it, and what was promised."""

    def quick(self) -> Self:
        """The same, said to be a small version."""
        return replace(self, title=f"{self.title} (quick version)")


@dataclass(frozen=True)
class Panels(Picture):
    """Rows of panels that share their y axis; each panel of a size in inches."""

    rows: Sequence[Sequence[Panel]]
    size: tuple[float, float] = (5.2, 3.9)


class Line(NamedTuple):
    """A line of a ranking; beside its value stands in small letters what it promises."""

    label: str
    group: str
    value: float
    beside: str = ""


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


def hue(place: int) -> str:
    """The first few have colours, all others are grey."""
    return COLORS[place] if place < len(COLORS) else GREY


def short_name(mechanism: str, title: str, *, several: bool) -> str:
    """A mechanism as surveys name it; with its promise, where several of that name are shown."""
    name = mechanism + " over cells" * ("over cells" in title)
    _, comma, promise = title.rpartition(", ")
    return f"{name}, {promise}" if several and comma else name


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
