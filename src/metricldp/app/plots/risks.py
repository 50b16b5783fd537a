"""The chart of a risk assessment: an attacker's right guesses against the number of reports."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from metricldp.app.plots.curves import Curve, Panel, panels
from metricldp.app.plots.shared import hue
from metricldp.basics.errors import QueryError
from metricldp.basics.text import plain
from metricldp.lab.risk import Risk

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOTE = "Dots: how often the best guess is right. Dashes: the most that the metric allows."


def risk(found: Risk, path: str | Path | None = None) -> Figure:
    """A panel for each attribute, three in a row."""
    if not found.chances:
        raise QueryError(f"there is nothing to draw; {'; '.join(found.left_out)}")
    drawn = []
    for name, chances in groupby(found.chances, lambda chance: chance.attribute):
        title, curves = name, []
        for place, (within, same) in enumerate(groupby(chances, lambda chance: chance.within)):
            listed, color = list(same), hue(place)
            what = "exactly" if within is None else "nearly"
            title += "" if within is None else f" (nearly: within {plain(within)})"
            x = [chance.reports for chance in listed]
            if listed[-1].chance is not None:
                right = [100 * (chance.chance or 0.0) for chance in listed]
                curves.append(Curve(f"guessed {what}", x, right, color, "marked"))
            most = [100 * chance.limit for chance in listed]
            curves.append(Curve(f"{what}, limit", x, most, color, "dashes"))
        labels = "reports of one person", "right guesses (%)"
        drawn.append(Panel(title, *labels, curves, logs="", from_zero=True))
    rows = [drawn[start : start + 3] for start in range(0, len(drawn), 3)]
    title = f"What an attacker learns, people {found.prior}"
    return panels(title, rows, path, size=(2.6, 2.9), note=_NOTE)
