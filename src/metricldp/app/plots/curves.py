"""Lines with their names at their ends: panels of curves, and errors against what they cost."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from metricldp.app.plots.shared import (
    GREY,
    SMALL,
    USUAL,
    WIDE,
    Floats,
    finish,
    framed,
    hue,
    laid_out,
    new_figure,
    open_axes,
    readable,
    round_ticks,
)
from metricldp.basics.errors import QueryError
from metricldp.basics.optional import lazy, optional
from metricldp.basics.text import counted, plain

if TYPE_CHECKING:
    from matplotlib import ticker
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    ticker = optional("matplotlib.ticker")
optimize = lazy("scipy.optimize")

_ALIKE = 0.007
"""Lines that are nowhere farther apart than this share of the height look like one."""
_LETTERS = 24
"""Of a name, to a line."""


@dataclass(frozen=True)
class Curve:
    """Points of one colour, joined by a line, dashes or nothing; a label at its end, or none."""

    label: str
    x: npt.ArrayLike
    y: npt.ArrayLike
    color: str
    look: str = "line"
    """One of "line", "dashes" and "marked" (points joined by a line)."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    xlabel: str
    ylabel: str
    curves: Sequence[Curve]
    logs: str = "y"
    """Which axes are logarithmic: any of x and y."""
    ticks: Sequence[float] | None = None
    """Where the x axis is labelled, if not left to the library."""
    from_zero: bool = False
    """Whether the y axis starts at zero."""


class End(NamedTuple):
    """Where a line ends, and what to write there."""

    label: str
    x: float
    y: float
    color: str


# Names at the ends of lines


def label_ends(axes: Axes, ends: Sequence[End]) -> None:
    """Names at the right of axes that are laid out, moved apart where they would touch."""
    height = axes.bbox.height / axes.figure.dpi
    places = [_place(axes, end.x, end.y) for end in ends]
    farthest = max((place[0] for place in places), default=0.0)
    order = sorted(range(len(ends)), key=lambda k: places[k][1])
    told = [textwrap.fill(ends[k].label, _LETTERS, break_on_hyphens=False) for k in order]
    heights = np.array([1.3 * SMALL / 72 / height * (1 + words.count("\n")) for words in told])
    wanted = np.array([places[k][1] for k in order])
    for k, words, at in zip(order, told, spread(wanted, heights), strict=True):
        end, color = ends[k], readable(ends[k].color)
        axes.annotate(
            words,
            (end.x, end.y),
            xytext=(1.035, at),
            textcoords="axes fraction",
            fontsize=SMALL,
            color=color,
            va="center",
            parse_math=False,
            arrowprops={
                "arrowstyle": "-",
                "color": end.color,
                "linewidth": 0.6,
                "linestyle": "-" if places[k][0] > farthest - 0.05 else ":",
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 1,
            },
        )


def spread(wanted: Floats, heights: Floats) -> Floats:
    """Middles of boxes of such heights that do not overlap, near the wanted ones, from 0 to 1.

    With what is below each taken off, boxes that touch are values in the wrong order; they share
    their mean.
    """
    below = np.cumsum(heights) - heights / 2
    room = max(1.0, heights.sum())
    free = optimize.isotonic_regression(wanted - below).x if len(wanted) else wanted
    kept = np.clip(free, 0.0, room - heights.sum())
    return np.asarray(kept + below - (room - 1.0) / 2, dtype=np.float64)


def _place(axes: Axes, x: float, y: float) -> Floats:
    """A point in parts of the axes, whatever their size."""
    whole = axes.transScale + axes.transLimits
    return np.array(whole.transform((x, y)), dtype=np.float64)


def named_ends(axes: Axes, curves: Sequence[Curve]) -> list[End]:
    """The ends of curves with a name; grey ones that look like another line stand beside its."""
    found: list[tuple[list[str], Curve, dict[float, float]]] = []
    for curve in sorted(curves, key=lambda curve: curve.color == GREY):
        points = [
            (float(x), float(y))
            for x, y in zip(np.asarray(curve.x), np.asarray(curve.y), strict=True)
            if np.isfinite(y)
        ]
        if not curve.label or not points:
            continue
        rows = {x: float(_place(axes, x, y)[1]) for x, y in points}
        for names, other, at in found:
            shared = rows.keys() & at.keys()
            alike = len(shared) > 1 and all(abs(rows[x] - at[x]) < _ALIKE for x in shared)
            if alike and curve.color in (GREY, other.color):
                names.append(curve.label)
                break
        else:
            found.append(([curve.label], curve, rows))
    ends = []
    for names, curve, rows in found:
        last = max(rows)
        height = dict(zip(np.asarray(curve.x).tolist(), np.asarray(curve.y).tolist(), strict=True))
        ends.append(End(", ".join(names), last, height[last], curve.color))
    return ends


# Panels


def panels(
    title: str,
    rows: Sequence[Sequence[Panel]],
    path: str | Path | None = None,
    *,
    size: tuple[float, float] = (5.2, 3.9),
    note: str = "",
) -> Figure:
    """Rows of panels, each of a size in inches; panels of a row share their y axis.

    Where all panels of a row have the same lines, only the last is labelled.
    """
    wide, high = size
    width, height = max(map(len, rows)), len(rows)
    told = {id(row): _labelled(row) for row in rows}
    names = max(sum(told[id(row)]) for row in rows)
    figure = new_figure(wide * width + 1.5 * names + 0.2, high * height + 0.5)
    grid = figure.subplots(height, width, sharey="row", squeeze=False)
    for places, row in zip(grid, rows, strict=True):
        for axes, panel in zip(places, row, strict=False):
            _panel(axes, panel)
        for axes in places[len(row) :]:
            axes.set_axis_off()
        for axes in places[1:]:
            axes.set_ylabel("")
    framed(figure, title, [note])
    laid_out(figure)
    for places, row in zip(grid, rows, strict=True):
        for axes, panel, named in zip(places, row, told[id(row)], strict=False):
            if named:
                label_ends(axes, named_ends(axes, panel.curves))
    return finish(figure, path)


def _labelled(row: Sequence[Panel]) -> list[bool]:
    """Which panels of a row get names."""
    sets = [{curve.label for curve in panel.curves if curve.label} for panel in row]
    same = all(one == sets[-1] for one in sets)
    return [bool(one) and (not same or k == len(row) - 1) for k, one in enumerate(sets)]


def _panel(axes: Axes, panel: Panel) -> None:
    for letter in panel.logs:
        getattr(axes, f"set_{letter}scale")("log")
    for curve in panel.curves:
        grey = curve.color == GREY
        axes.plot(
            curve.x,
            curve.y,
            linestyle=(0, (4, 2)) if curve.look == "dashes" else "-",
            marker="o" if curve.look == "marked" else None,
            markersize=3.2,
            color=curve.color,
            linewidth=0.9 if grey else 1.6,
            zorder=2 if grey else 3,
            label=curve.label or "_",
        )
    axes.set_xlabel(panel.xlabel)
    axes.set_ylabel(panel.ylabel)
    axes.set_title(panel.title, parse_math=False, loc="left", fontsize=USUAL + 1)
    if panel.from_zero:
        axes.set_ylim(bottom=0)
    if panel.ticks is not None:
        axes.set_xticks(panel.ticks, [plain(tick) for tick in panel.ticks])
        axes.minorticks_off()
    elif "x" not in panel.logs:
        round_ticks(axes.xaxis, counts=False)
    if "y" not in panel.logs:
        round_ticks(axes.yaxis)
    for letter in panel.logs:
        if letter == "y" or panel.ticks is None:
            _round_logs(axes, letter)
    open_axes(axes, grid=True)


# Errors against what they cost


def tradeoff(
    errors: Mapping[str, Sequence[float]],
    at: Sequence[float],
    path: str | Path | None = None,
    *,
    xlabel: str,
    ylabel: str = "standard error (people)",
    title: str = "What accuracy costs",
    note: str = "",
    marked: Sequence[str] | None = None,
) -> Figure:
    """Errors against epsilon, or against the number of people: one line for each mechanism.

    `errors` has for each name an error at every number of `at`; both scales are logarithmic. The
    first six names are in colour, or those that are `marked`; all others are grey. `note` is the
    place for what was promised and how many people there are.
    """
    numbers = [*at, *(error for found in errors.values() for error in found)]
    if not errors or len(at) < 2 or not all(number > 0 for number in numbers):
        raise QueryError("a trade-off needs a name, two places to compare, and positive numbers")
    for name, found in errors.items():
        if len(found) != len(at):
            told = counted(len(found), "error")
            raise QueryError(f"{name} has {told} for {counted(len(at), 'place')}; give one each")
    chosen = list(errors) if marked is None else list(marked)
    colors = {name: hue(place) for place, name in enumerate(chosen)}
    curves = [
        Curve(name, at, found, colors.get(name, GREY), "marked") for name, found in errors.items()
    ]
    figure = new_figure(WIDE, 4.0)
    axes = figure.subplots()
    _panel(axes, Panel("", xlabel, ylabel, curves, logs="xy", ticks=_few(at)))
    framed(figure, title, [note])
    laid_out(figure)
    label_ends(axes, named_ends(axes, curves))
    return finish(figure, path)


def _few(at: Sequence[float]) -> list[float]:
    """At most eight of the places."""
    return list(at)[:: -(-len(at) // 8)]


def _round_logs(axes: Axes, letter: str) -> None:
    """Ticks at powers of ten, with 2 and 5 times them where there is room; written out if short."""
    low, high = getattr(axes, f"get_{letter}lim")()
    axis = getattr(axes, f"{letter}axis")
    if high / low < 500:
        axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    if low > 1e-5 and high < 1e7:
        axis.set_major_formatter(ticker.FuncFormatter(_plainly))
    axis.set_minor_formatter(ticker.NullFormatter())


def _plainly(number: float, place: Any) -> str:
    return plain(float(f"{number:.6g}"))
