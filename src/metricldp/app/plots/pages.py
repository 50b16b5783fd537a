"""The pictures of pages: panels of curves, rankings, and metrics as graphs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metricldp.app.plots.curves import panels
from metricldp.app.plots.metrics import metric_figure
from metricldp.app.plots.shared import (
    SMALL,
    SOFT,
    USUAL,
    WIDE,
    framed,
    new_figure,
    open_axes,
    readable,
    save,
)
from metricldp.basics.optional import optional
from metricldp.lab.pages import MetricGraph, Panels, Picture, Ranking, hue

if TYPE_CHECKING:
    from matplotlib import ticker
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    ticker = optional("matplotlib.ticker")

_ROW = 0.155
"""Inches to a line of a ranking."""


def draw(picture: Picture, output: Path) -> list[Path]:
    """A picture into its files in a directory."""
    figure, dpi = _DRAWN[type(picture)]
    paths = [output / name for name in picture.files]
    save(figure(picture), paths, dpi)
    return paths


# Rankings


def _ranking(picture: Ranking) -> Figure:
    """A block below the other; in each the groups with a head, and what each line promises."""
    blocks = picture.blocks
    groups = dict.fromkeys(line.group for found in blocks.values() for line in found)
    colors = {group: hue(place) for place, group in enumerate(groups)}
    heights = [
        0.85 + _ROW * (len(found) + 1.2 * len({line.group for line in found}))
        for found in blocks.values()
    ]
    figure = new_figure(WIDE, sum(heights) + 0.8)
    grid = figure.subplots(len(blocks), 1, height_ratios=heights, squeeze=False)
    for axes, (name, found) in zip(grid.flat, blocks.items(), strict=True):
        _block(axes, found, colors)
        axes.set_title(textwrap.fill(name, 80), parse_math=False, loc="left", fontsize=USUAL + 1)
    grid.flat[-1].set_xlabel(picture.xlabel, fontsize=USUAL)
    framed(figure, picture.title, [" ".join(picture.note.split())])
    return figure


def _block(axes: Axes, found: Sequence[Any], colors: dict[str, str]) -> None:
    axes.set_xscale("log")
    places: list[float] = []
    at, before = 0.0, None
    for line in found:
        if line.group != before:
            at += 1.2 if before is None else 1.3
            axes.annotate(
                line.group,
                (0, at - 1),
                xycoords=("axes fraction", "data"),
                xytext=(4, 0),
                textcoords="offset points",
                fontsize=SMALL,
                color=readable(colors[line.group]),
                va="center",
                bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"},
                parse_math=False,
            )
        axes.plot(line.value, at, "o", color=colors[line.group], markersize=4.5)
        axes.annotate(
            line.beside,
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
        at, before = at + 1, line.group
    labels = [textwrap.shorten(line.label, 44, placeholder="...") for line in found]
    open_axes(axes)
    axes.grid(visible=True, axis="x", color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_yticks(places, labels, parse_math=False, fontsize=SMALL)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(at - 0.4, -0.5)
    axes.xaxis.set_major_locator(_few_ticks([line.value for line in found]))
    axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())


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


def _metric(picture: MetricGraph) -> Figure:
    return metric_figure(picture.metric, picture.labels, picture.title, picture.marked)


_DRAWN: dict[type[Picture], tuple[Callable[[Any], Figure], int]] = {
    Panels: (panels, 150),
    Ranking: (_ranking, 150),
    MetricGraph: (_metric, 150),
}
"""How each kind is drawn, and its dots per inch."""
