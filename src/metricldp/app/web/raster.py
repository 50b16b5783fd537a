"""The same drawings as PNG, mark by mark."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

from metricldp.app.web.scene import LOOKS, Box, Mark, Path, Scene, plain_text
from metricldp.basics.optional import optional

if TYPE_CHECKING:
    from matplotlib import figure as figures
    from matplotlib import patches
else:
    figures = optional("matplotlib.figure")
    patches = optional("matplotlib.patches")

_DOTS = 100
"""Points of the drawing to an inch."""
_SCALE = 2
"""Pixels to a point."""
_SIDES = {"start": "left", "middle": "center", "end": "right"}


def png(scene: Scene) -> bytes:
    """The bytes of a picture, two pixels to a point; without dates, so the same every time."""
    figure = figures.Figure(figsize=(scene.width / _DOTS, scene.height / _DOTS), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, scene.width), ylim=(scene.height, 0))
    axes.axis("off")
    for mark in scene.marks:
        _draw(axes, mark)
    sink = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(sink, format="png", dpi=_DOTS * _SCALE, metadata={"Software": None})
    return sink.getvalue()


def _draw(axes: Any, mark: Mark) -> None:
    look = LOOKS[mark.kind]
    points = 72 / _DOTS
    fill = None if look.fill == "none" else look.fill
    stroke = None if look.stroke == "none" else look.stroke
    dashes: Any = "-"
    if look.dashes:
        dashes = (0, tuple(float(part) for part in look.dashes.split()))
    if isinstance(mark, Box):
        axes.add_patch(
            patches.Rectangle(
                (mark.x, mark.y),
                mark.width,
                mark.height,
                facecolor=(fill, mark.strength) if fill else "none",
                edgecolor=stroke or "none",
                linewidth=look.width * points if stroke else 0,
            )
        )
    elif isinstance(mark, Path):
        if fill:
            axes.add_patch(patches.Polygon(mark.points, facecolor=fill, edgecolor="none"))
        if stroke:
            xs, ys = zip(*mark.points, strict=True)
            width = look.width * points
            axes.plot(xs, ys, color=stroke, linewidth=width, linestyle=dashes)
    else:
        axes.text(
            mark.x,
            mark.y,
            plain_text(mark.words),
            color=fill,
            fontsize=mark.size * points,
            horizontalalignment=_SIDES[mark.anchor],
            verticalalignment="baseline",
            parse_math=False,
        )
