"""The pictures of pages: panels of curves, rankings, and metrics as graphs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metricldp.app.plots.metrics import metric_figure
from metricldp.app.plots.shared import INK, TRUTH, ZERO, Floats, new_figure, open_axes, save
from metricldp.basics.optional import optional
from metricldp.lab.pages import MetricGraph, Panel, Panels, Picture, Ranking, hue

if TYPE_CHECKING:
    from matplotlib import lines, ticker
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    lines = optional("matplotlib.lines")
    ticker = optional("matplotlib.ticker")


def draw(picture: Picture, output: Path) -> list[Path]:
    """A picture into its files in a directory."""
    figure, dpi = _DRAWN[type(picture)]
    paths = [output / name for name in picture.files]
    save(figure(picture), paths, dpi)
    return paths


# Rankings


def _ranking(picture: Ranking) -> Figure:
    blocks = picture.blocks
    groups = dict.fromkeys(line.group for found in blocks.values() for line in found)
    colors = {group: hue(place, _GROUPS) for place, group in enumerate(groups)}
    columns = 2 if len(blocks) > 1 else 1
    lengths = [len(found) for found in blocks.values()]
    heights = [1.2 + 0.23 * max(lengths[k : k + columns]) for k in range(0, len(blocks), columns)]
    longest = max(len(line.label) for found in blocks.values() for line in found)
    figure = new_figure((4.2 + 0.075 * longest) * columns, sum(heights) + 0.8)
    grid = figure.subplots(len(heights), columns, height_ratios=heights, squeeze=False)
    for axes in grid.flat[len(blocks) :]:
        axes.set_axis_off()
    for axes, (name, found) in zip(grid.flat, blocks.items(), strict=False):
        axes.set_xscale("log")
        for place, line in enumerate(found):
            axes.plot(line.value, place, "o", color=colors[line.group], markersize=6)
        axes.set_yticks(range(len(found)), [line.label for line in found], parse_math=False)
        axes.set_ylim(len(found) - 0.4, -0.6)
        axes.xaxis.set_major_locator(_few_ticks([line.value for line in found]))
        axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
        # Over the labels of the rows there is room, beyond the right end there is none.
        axes.set_title(textwrap.fill(name, 64), parse_math=False, loc="right")
        axes.set_xlabel(picture.xlabel, loc="right")
        open_axes(axes, grid=True)
    handles = [
        lines.Line2D([], [], color=colors[g], marker="o", linestyle="none", label=g) for g in groups
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(groups), frameon=False)
    figure.suptitle(picture.title, parse_math=False)
    return figure


_GROUPS = (TRUTH, INK, "#3a8f5c", "#7a5195")


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


# Panels of curves


def _panels(picture: Panels) -> Figure:
    """A legend stands at the right of a row, where it is new."""
    rows, (wide, high) = picture.rows, picture.size
    width, height = max(map(len, rows)), len(rows)
    figure = new_figure(wide * width + 1.8, high * height)
    grid = figure.subplots(height, width, sharey="row", squeeze=False)
    figure.suptitle(picture.title, parse_math=False)
    before: dict[str, object] = {}
    for places, row in zip(grid, rows, strict=True):
        for axes, panel in zip(places, row, strict=False):
            _panel(axes, panel)
        for axes in places[len(row) :]:
            axes.set_axis_off()
        for axes in places[1:]:
            axes.set_ylabel("")
        named: dict[str, object] = {}
        for axes in places:
            handles, labels = axes.get_legend_handles_labels()
            named.update(zip(labels, handles, strict=True))
        if named.keys() != before.keys():
            places[-1].legend(
                named.values(),
                named.keys(),
                loc="center left",
                bbox_to_anchor=(1.02, 0.5),
                frameon=False,
            )
        before = named
    return figure


def _panel(axes: Axes, panel: Panel) -> None:
    for letter in panel.logs:
        getattr(axes, f"set_{letter}scale")("log")
    if panel.line is not None:
        axes.axhline(panel.line, color=ZERO, linewidth=0.8)
    for curve in panel.curves:
        axes.errorbar(
            curve.x,
            curve.y,
            yerr=curve.error,
            linestyle={"dashes": "--", "points": "none"}.get(curve.look, "-"),
            marker="o" if curve.look in ("marked", "points") else None,
            markersize=4,
            color=curve.color,
            linewidth=1.6,
            elinewidth=1,
            label=curve.label,
        )
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel)
    axes.set_title(panel.title, parse_math=False)
    if panel.from_zero:
        axes.set_ylim(bottom=0)
    if panel.ticks is not None:
        axes.set_xticks(panel.ticks, [f"{tick:g}" for tick in panel.ticks])
        axes.minorticks_off()
    open_axes(axes, grid=True)
    if panel.above is not None:
        label, times = panel.above
        scales = (partial(_scaled, by=times), partial(_scaled, by=1 / times))
        axes.secondary_xaxis("top", functions=scales).set_xlabel(label)


def _scaled(x: Floats, by: float) -> Floats:
    return x * by


def _metric(picture: MetricGraph) -> Figure:
    return metric_figure(picture.metric, picture.labels, picture.title, picture.marked)


_DRAWN: dict[type[Picture], tuple[Callable[[Any], Figure], int]] = {
    Panels: (_panels, 130),
    Ranking: (_ranking, 150),
    MetricGraph: (_metric, 150),
}
"""How each kind is drawn, and its dots per inch."""
