"""Chart of a comparison of mechanisms: the error of each on a logarithmic scale."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from metricldp.lab.compare import BEST, FITTED, POST, Comparison, Row
from metricldp.plot.style import (
    COLORS,
    GREY,
    SMALL,
    TEXT,
    USUAL,
    add_title,
    log_ticks,
    new_figure,
    shortened,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LINE = 0.155
"""Inches for each row."""
_NOTE = "At the right: ε between neighbouring values to ε across the whole domain."


def draw_comparison(comparison: Comparison) -> Figure:
    """Draw a panel for each set of queries, with the smallest errors of each group."""
    panels = comparison.blocks(BEST)
    groups = dict.fromkeys(row.group for rows in panels.values() for row in rows)
    colors = {group: (*COLORS, GREY)[min(k, len(COLORS))] for k, group in enumerate(groups)}
    heights = [
        0.85 + _LINE * (len(rows) + 1.2 * len({row.group for row in rows}))
        for rows in panels.values()
    ]
    figure = new_figure(sum(heights) + 0.8)
    grid = figure.subplots(len(panels), 1, height_ratios=heights, squeeze=False).flat
    for axes, (about, rows) in zip(grid, panels.items(), strict=True):
        _panel(axes, rows, colors)
        title = textwrap.fill(f"{about} ({rows[0].questions})", 80)
        axes.set_title(title, parse_math=False, loc="left", fontsize=USUAL + 1)
    figure.axes[-1].set_xlabel("root mean squared error (people)")
    add_title(figure, f"Errors of counts among {comparison.people:,} people", [_NOTE])
    return figure


def _panel(axes: Any, rows: Sequence[Row], colors: dict[str, str]) -> None:
    """A point for each mechanism, below a line with the name of its group."""
    look: dict[str, Any] = {"fontsize": SMALL, "va": "center", "parse_math": False}
    places: list[float] = []
    at, group = 0.0, None
    for row in rows:
        if row.group != group:
            at += 1.2 if group is None else 1.3
            plate = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}
            left = {"transform": axes.get_yaxis_transform(), "bbox": plate, "weight": "bold"}
            axes.text(0.01, at - 1, row.group, color=TEXT, **left, **look)
        axes.plot(row.error, at, "o", color=colors[row.group], markersize=4.5)
        text = f"ε {row.step:.3g} to {row.width:.3g}"
        axes.text(1.01, at, text, transform=axes.get_yaxis_transform(), color=TEXT, **look)
        places.append(at)
        at, group = at + 1, row.group
    axes.set_xscale("log")
    log_ticks(axes.xaxis, [row.error for row in rows if row.error > 0] or [1.0], most=7)
    tidy(axes, grid="x")
    labels = [shortened(row_label(row, rows), 44) for row in rows]
    axes.set_yticks(places, labels, parse_math=False, fontsize=SMALL)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(at - 0.4, -0.5)


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
