"""The chart of a comparison: the error of each mechanism on a logarithmic scale."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from metricldp.app.plots.shared import (
    SMALL,
    SOFT,
    USUAL,
    WIDE,
    finish,
    framed,
    hue,
    new_figure,
    open_axes,
    readable,
)
from metricldp.basics.optional import optional
from metricldp.lab.compare import BEST, FITTED, POST, Comparison, Row

if TYPE_CHECKING:
    from matplotlib import ticker
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    ticker = optional("matplotlib.ticker")

_LINE = 0.155
"""Inches to a line."""
_NOTE = "At the right: ε of one step to ε of the whole width. Errors are exact unless biased."


def comparison(found: Comparison, path: str | Path | None = None) -> Figure:
    """A panel for each set of queries; in it the mechanisms with the smallest errors by group."""
    blocks = found.blocks(BEST)
    groups = dict.fromkeys(row.group for rows in blocks.values() for row in rows)
    colors = {group: hue(place) for place, group in enumerate(groups)}
    heights = [
        0.85 + _LINE * (len(rows) + 1.2 * len({row.group for row in rows}))
        for rows in blocks.values()
    ]
    figure = new_figure(WIDE, sum(heights) + 0.8)
    grid = figure.subplots(len(blocks), 1, height_ratios=heights, squeeze=False)
    for axes, (about, rows) in zip(grid.flat, blocks.items(), strict=True):
        _panel(axes, rows, colors)
        title = textwrap.fill(f"{about} ({rows[0].questions})", 80)
        axes.set_title(title, parse_math=False, loc="left", fontsize=USUAL + 1)
    grid.flat[-1].set_xlabel("root mean squared error (people)", fontsize=USUAL)
    framed(figure, f"Errors of counts among {found.people:,} people", [_NOTE])
    return finish(figure, path)


def _panel(axes: Axes, rows: Sequence[Row], colors: dict[str, str]) -> None:
    axes.set_xscale("log")
    places: list[float] = []
    at, before = 0.0, None
    for row in rows:
        if row.group != before:
            at += 1.2 if before is None else 1.3
            axes.annotate(
                row.group,
                (0, at - 1),
                xycoords=("axes fraction", "data"),
                xytext=(4, 0),
                textcoords="offset points",
                fontsize=SMALL,
                color=readable(colors[row.group]),
                va="center",
                bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"},
                parse_math=False,
            )
        axes.plot(row.error, at, "o", color=colors[row.group], markersize=4.5)
        axes.annotate(
            f"ε {row.step:.3g} to {row.width:.3g}",
            (1, at),
            xycoords=("axes fraction", "data"),
            xytext=(5, 0),
            textcoords="offset points",
            fontsize=SMALL,
            color=SOFT,
            va="center",
            parse_math=False,
        )
        places.append(at)
        at, before = at + 1, row.group
    labels = [textwrap.shorten(row_label(row, rows), 44, placeholder="...") for row in rows]
    open_axes(axes)
    axes.grid(visible=True, axis="x", color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_yticks(places, labels, parse_math=False, fontsize=SMALL)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(at - 0.4, -0.5)
    axes.xaxis.set_major_locator(_few_ticks([row.error for row in rows]))
    axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())


def row_label(row: Row, rows: Sequence[Row]) -> str:
    """The name of the mechanism, with its guarantee if several rows of a group share the name."""
    if row.group in (POST, FITTED):
        return row.title
    same = [other for other in rows if (other.mechanism, other.group) == (row.mechanism, row.group)]
    names = [_short_name(one, several=len(same) > 1) for one in same]
    name = names[same.index(row)]
    return row.title if names.count(name) > 1 else name


def _short_name(row: Row, *, several: bool) -> str:
    name = row.mechanism + " over cells" * ("over cells" in row.title)
    _, comma, guarantee = row.title.rpartition(", ")
    return f"{name}, {guarantee}" if several and comma else name


def _few_ticks(values: Sequence[float]) -> ticker.FixedLocator:
    """At most seven round numbers on a logarithmic scale, so that their labels do not meet."""
    some = [value for value in values if value > 0] or [1.0]
    low, high = min(some) / 1.2, max(some) * 1.2
    first, last = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high)))
    ticks: list[float] = []
    fine = (1, 1.5, 2, 3, 5, 7)
    for parts, every in ((fine, 1), ((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 4)):
        powers = (10.0**k for k in range(first, last + 1, every))
        ticks = [part * power for power in powers for part in parts if low <= part * power <= high]
        if len(ticks) <= 7:
            break
    return ticker.FixedLocator(ticks)
