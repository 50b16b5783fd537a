"""The pictures of table 2: errors against m, D and the meaning of epsilon.

A mechanism has the same colour in all of them; how its line looks says what it promises.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from metricldp.channels.mechanism import ANY_TWO
from metricldp.design.registry import AUTO
from metricldp.lab.contest import WITHIN
from metricldp.lab.pages import COLORS, GREY, Curve, Panel, Panels, short_name
from metricldp.lab.reproduce.table2 import Point, Setting


def pictures(setting: Setting, found: Sequence[Point]) -> list[Panels]:
    """Against m, for ranges and for quantiles; against D; and against the meaning of epsilon."""
    one = f"of one attribute, ε = {setting.epsilon:g}"
    over = f"Ranges over D attributes of {setting.modest} values, ε = {setting.epsilon:g} for each"
    error = "error", "mean squared error per person (people²)"
    quantile = "quantile", "mean error of quantiles × √people (± 2 s.e.)"
    against_m = "m", "size", "m, the number of values"
    against_d = "D", "attributes", "D, the number of attributes"
    shown = {
        "ranges": (f"Ranges {one}", against_m, error, "xy"),
        "quantiles": (f"Quantiles {one}", against_m, quantile, "xy"),
        "attributes": (over, against_d, error, "y"),
    }
    drawn = [
        Panels(
            (f"table2-{name}.png", f"table2-{name}.svg"),
            title,
            [[_panel([p for p in found if p.panel == across[0]], across[1:], up, logs)]],
            size=(5.3, 4.8),
            note=_LOOKS,
        )
        for name, (title, across, up, logs) in shown.items()
    ]
    for attributes, told in {1: "", 2: " in each of two attributes"}.items():
        sizes = [size for count, size, _ in setting.meanings if count == attributes]
        here = [[p for p in meant(found, attributes, m) if p.mechanism in _DRAWN] for m in sizes]
        name = f"table2-within{'-two' * (attributes > 1)}"
        panels = [
            _panel(some, ("within", "w, in steps"), error, "xy", f"{size:,} values")
            for some, size in zip(here, sizes, strict=True)
        ]
        title = f"An equal meaning: values up to w apart get ε = {setting.epsilon:g}{told}"
        files, rows = (f"{name}.png", f"{name}.svg"), [[panel] for panel in panels]
        drawn += [Panels(files, title, rows, size=(5.3, 4.2), note=_EQUALLY)]
    return drawn


_LOOKS = """Solid lines: ε per step. Dashes: ε between any two values. Mechanisms whose lines look
like one share a label."""
_EQUALLY = """Dots: ε within w, and ε more for every further w steps. Solid lines without dots: ε/w
per step. Dashes: ε between any two values, near or far. Mechanisms whose lines look like one share
a label."""
_DRAWN = (
    *("geometric", "shaped", "threshold", "faces", "designed", "tents", AUTO, "haar"),
    *("hierarchy-4-unary", "unary-optimised", "hio-hashing"),
)
"""Who is in the pictures of an equal meaning; tables have everybody."""


def meant(found: Sequence[Point], attributes: int, size: int) -> list[Point]:
    """Where the meaning of epsilon changes, for so many attributes and values."""
    return [p for p in found if (p.panel, p.attributes, p.size) == ("within", attributes, size)]


def _panel(
    here: Sequence[Point],
    across: tuple[str, str],
    up: tuple[str, str],
    logs: str,
    told: str = "",
) -> Panel:
    """Of one sweep: the field along the x axis, its label; the field of the y axis, its label."""
    (x, xlabel), (y, ylabel) = across, up
    here = [p for p in here if getattr(p, y)]
    ticks = sorted({getattr(p, x) for p in here})
    curves = []
    for title in dict.fromkeys(p.title for p in here):
        mine = {getattr(p, x): p for p in here if p.title == title}
        one, row = next(iter(mine.values())), [mine.get(at) for at in ticks]
        several = len({p.title for p in here if p.mechanism == one.mechanism}) > 1
        look = {ANY_TWO: "dashes", WITHIN: "marked"}.get(one.promise, "line")
        look = "points" if one.mechanism == AUTO else look
        heights = [getattr(p, y, math.nan) for p in row]
        bars = [2 * (getattr(p, "quantile_error", 0) or 0) for p in row]
        errors = bars if y == "quantile" else None
        curves.append(
            Curve(
                short_name(one.mechanism, title, several=several),
                ticks,
                heights,
                _color(one),
                look,
                errors,
            )
        )
    return Panel(told, xlabel, ylabel, curves, logs=logs, ticks=ticks)


_MARKED = ("geometric", "threshold", "haar", "shaped", "unary-optimised")
"""Mechanisms in colour, the same in every picture; all others are grey."""


def _color(point: Point) -> str:
    if "over cells" in point.title:
        return COLORS[len(_MARKED)]
    return COLORS[_MARKED.index(point.mechanism)] if point.mechanism in _MARKED else GREY
