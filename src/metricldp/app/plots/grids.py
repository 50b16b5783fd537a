"""Heat maps: people in every pair of bars of two attributes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from metricldp.answers.answer import percent
from metricldp.answers.answer_table import Grid
from metricldp.app.plots.answers import among, facts
from metricldp.app.plots.shared import (
    SMALL,
    USUAL,
    WIDE,
    Floats,
    contrast,
    finish,
    framed,
    new_figure,
    open_axes,
    round_ticks,
    value_ticks,
)
from metricldp.basics.optional import optional

if TYPE_CHECKING:
    import matplotlib as mpl
    from matplotlib import colors
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
else:
    mpl = optional("matplotlib")
    colors = optional("matplotlib.colors")

_MOST_WRITTEN = 80
"""Cells, up to which each has its number written in it."""
_LETTER, _ACROSS = 0.078, 5.2
"""Inches: a letter, and all columns."""
_WIDEST = 10
"""Columns, up to which there is room for numbers."""


def heatmap(
    found: Grid,
    path: str | Path | None = None,
    *,
    title: str | None = None,
    level: float = 0.95,
    promise: str | None = None,
) -> Figure:
    """A count for every cell of two attributes, the darker the more people.

    Cells whose interval reaches zero are crossed out: there may be nobody. Where cells are few,
    each has its number; below stands how far the widest interval reaches.
    """
    rows, columns = found.shape
    values = found.values.reshape(rows, columns)
    low, high = (end.reshape(rows, columns) for end in found.interval(level))
    down, across = (_edges(e, n) for e, n in zip(found.edges, found.shape, strict=True))
    figure = new_figure(WIDE, min(max(1.7 + 0.24 * rows, 2.8), 5.5))
    axes = figure.subplots()
    shades, most = mpl.colormaps["Blues"], max(float(values.max()), 1.0)
    picture = axes.pcolormesh(across, down, values, cmap=shades, vmin=0, vmax=most)
    nobody = low <= 0
    for row, column in zip(*np.nonzero(nobody), strict=True):
        diagonal = across[column : column + 2], down[row : row + 2]
        axes.plot(*diagonal, color="#9a9a9a", linewidth=0.5)
    if values.size <= _MOST_WRITTEN and columns <= _WIDEST:
        for (row, column), value in np.ndenumerate(values):
            shade = colors.to_hex(shades(max(value, 0.0) / most))
            at = float(across[column : column + 2].mean()), float(down[row : row + 2].mean())
            room = _ACROSS * (across[column + 1] - across[column]) / (across[-1] - across[0])
            _write(axes, at, value, shade, float(room))
    axes.set(xlim=(across[0], across[-1]), ylim=(down[0], down[-1]))
    _label(axes.yaxis, found.edges[0], found.rows)
    if found.edges[0] is None:
        axes.invert_yaxis()  # names are read downwards, numbers grow upwards
    if _label(axes.xaxis, found.edges[1], found.columns):
        for label in axes.get_xticklabels():
            label.set(rotation=30, ha="right", rotation_mode="anchor")
    axes.set_xlabel(found.names[1], parse_math=False)
    axes.set_ylabel(found.names[0], parse_math=False)
    open_axes(axes)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(picture, ax=axes, pad=0.02, aspect=30)
    round_ticks(bar.ax.yaxis, 6)
    bar.ax.tick_params(labelsize=USUAL)
    bar.set_label(found[0].unit, fontsize=USUAL)
    bar.outline.set_visible(False)
    reach = float((high - low).max()) / 2
    told = f"{percent(level)} intervals reach at most {float(f'{reach:.2g}'):,.0f} each way"
    crossed = "crossed out: the interval reaches zero" if nobody.any() else ""
    read = facts(list(found), found.names, told, promise, crossed)
    asked = f"{found.names[0]} {found.rows[0]}, {found.names[1]} {found.columns[0]}"
    usual = f"People by {found.names[0]} and {found.names[1]}{among(found[0].question, asked)}"
    framed(figure, title or usual, read)
    return finish(figure, path)


def _edges(edges: Sequence[float] | None, count: int) -> Floats:
    """Cells of names are all as wide."""
    return np.array(np.arange(count + 1) - 0.5 if edges is None else edges, np.float64)


def _write(axes: Axes, at: tuple[float, float], value: float, shade: str, room: float) -> None:
    """A number in a cell so many inches wide, if it fits."""
    ink = "white" if contrast("white", shade) > contrast("#1a1a1a", shade) else "#1a1a1a"
    said = f"{value:,.0f}"
    said = "0" if said == "-0" else said
    if len(said) * 0.85 * _LETTER < room:
        axes.text(*at, said, ha="center", va="center", fontsize=SMALL, color=ink)


def _label(axis: Axis, edges: Sequence[float] | None, labels: Sequence[str]) -> bool:
    """Round numbers, or every name; whether names are too long to stand side by side."""
    if edges is not None:
        value_ticks(axis, edges)
        return False
    told = [textwrap.shorten(label, 28, placeholder="...") for label in labels]
    axis.set_ticks(range(len(labels)), told, parse_math=False)
    axis.set_tick_params(length=0)
    return _LETTER * (max(map(len, told)) + 1) > _ACROSS / len(labels)
