"""What a reader would notice first in a picture: letters on letters, cut off, or too faint."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
from matplotlib.axes._base import _AxesBase
from matplotlib.colors import to_hex, to_rgb
from matplotlib.text import Text

from metricldp.plot.style import contrast

TOUCHING = 1.0
"""Pixels that two boxes may share: letters have some room around them."""
_SEEN = {
    "as most people": np.eye(3),
    "without red": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "without green": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}
"""Linear RGB as people see it without red or green cones (Machado, Oliveira and Fernandes 2009)."""
_TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
_WHITE = np.array([0.95047, 1.0, 1.08883])


def boxes(figure):
    """Every text that is drawn, and the pixels that it takes."""
    with warnings.catch_warnings(action="ignore"):
        figure.draw_without_rendering()
        hidden = set(_not_drawn(figure))
        found = [text for text in figure.findobj(Text) if text.get_text().strip()]
        shown = [text for text in found if text.get_visible() and id(text) not in hidden]
        # Of an annotation the letters alone, without the line that leads to them.
        return [(text, Text.get_window_extent(text)) for text in shown]


def _not_drawn(figure):
    """Labels of ticks beyond the limits of an axis, or of axes that are switched off."""
    for axes in figure.findobj(_AxesBase):
        for axis in (axes.xaxis, axes.yaxis):
            drawn = axis._update_ticks() if axes.axison else []
            low, high = sorted(axis.get_view_interval())
            room = 1e-9 * (high - low)
            inside = [tick for tick in drawn if low - room <= tick.get_loc() <= high + room]
            for tick in (*axis.majorTicks, *axis.minorTicks):
                yield from (id(tick.label2), *(() if tick in inside else (id(tick.label1),)))


def overlaps(figure):
    """Pairs of level texts that share pixels."""
    level = [(text, box) for text, box in boxes(figure) if text.get_rotation() % 90 == 0]
    return [
        (one.get_text(), other.get_text())
        for (one, box), (other, second) in itertools.combinations(level, 2)
        if min(box.x1, second.x1) - max(box.x0, second.x0) > TOUCHING
        and min(box.y1, second.y1) - max(box.y0, second.y0) > TOUCHING
    ]


def cut_off(figure):
    """Texts that reach over the edge of the picture."""
    whole = figure.bbox
    return [
        text.get_text()
        for text, box in boxes(figure)
        if box.x0 < -0.5 or box.y0 < -0.5 or box.x1 > whole.x1 + 0.5 or box.y1 > whole.y1 + 0.5
    ]


def faint(figure):
    """Texts that do not stand out from white as the guidelines for web content ask (4.5)."""
    found = [text for text, _ in boxes(figure) if contrast(to_hex(text.get_color())) < 4.5]
    return [text.get_text() for text in found if text.get_color() != "white"]


def least_difference(colors):
    """Of any two colours, as everybody sees them: distances in CIE Lab, by kind of sight."""
    found = {}
    for sight, seen in _SEEN.items():
        places = [_lab(np.clip(seen @ _linear(color), 0, 1)) for color in colors]
        pairs = itertools.combinations(places, 2)
        found[sight] = min(float(np.linalg.norm(one - other)) for one, other in pairs)
    return found


def _linear(color):
    parts = np.array(to_rgb(color))
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def _lab(linear):
    scaled = _TO_XYZ @ linear / _WHITE
    x, y, z = np.where(scaled > 216 / 24389, np.cbrt(scaled), (24389 / 27 * scaled + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])
