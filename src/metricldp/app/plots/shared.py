"""What all pictures share: a frame with title and facts, colours, labels, and how they are saved.

Figures are made without pyplot, so drawing one changes nothing for whoever else draws.
"""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import QueryError
from metricldp.basics.optional import optional, require
from metricldp.basics.text import plain
from metricldp.basics.writing import replacing

if TYPE_CHECKING:
    import matplotlib as mpl
    from matplotlib import colors, ticker
    from matplotlib import figure as figures
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
else:
    mpl = optional("matplotlib")
    colors = optional("matplotlib.colors")
    figures = optional("matplotlib.figure")
    ticker = optional("matplotlib.ticker")

COLORS = ("#0072b2", "#d55e00", "#1a1a1a", "#8a2be2", "#7a3b00", "#a0006d")
"""Distinguishable in print and by people with red-green colour blindness; the first stand out."""
GREY = "#8c8c8c"
"""Lines to compare with."""
INK, BAND, TRUTH, ZERO = "#1b4965", "#a9cde6", "#c94f00", "#8c8c8c"
SOFT = "#4d4d4d"
"""Small letters: grey, and dark enough to read."""
GRID = "#e6e6e6"
SMALL, USUAL, LARGE = 7.5, 8.5, 11.0
"""Sizes of letters in points; a picture 7 inches wide is as wide as the text of a page."""
WIDE = 7.0
_FORMATS = (".png", ".svg", ".pdf")
_LETTERS = 17.5
"""Small letters to an inch."""

Floats = npt.NDArray[np.float64]


def check_picture(path: Path) -> None:
    """Before long work: raise an error if the plot cannot be drawn or written."""
    if path.suffix.lower() not in _FORMATS:
        raise QueryError(f"cannot draw {path}; name a file that ends in {', '.join(_FORMATS)}")
    try:
        fits = path.parent.is_dir() and not path.is_dir()
    except OSError:  # a name that is too long, for example
        fits = False
    if not fits:
        raise QueryError(f"cannot draw {path}; name a file in a directory that is there")
    require("plot")


def hue(place: int) -> str:
    """The first few have colours, all others are grey."""
    return COLORS[place] if place < len(COLORS) else GREY


def new_figure(width: float, height: float) -> Figure:
    figure = figures.Figure(figsize=(width, height), layout="constrained")
    figure._repr_png_ = partial(_as_png, figure)  # type: ignore[attr-defined]  # for notebooks
    return figure


def _as_png(figure: Figure) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _NO_GLYPH)
        figure.savefig(file, format="png", dpi=110)
    return file.getvalue()


def framed(figure: Figure, title: str, facts: Sequence[str]) -> None:
    """The title above, at the left; below in small letters what one has to know to read it."""
    letters = int(_LETTERS * figure.get_figwidth())
    said = textwrap.fill(title, int(letters * SMALL / LARGE * 0.95))
    look: dict[str, Any] = {"x": 0.012, "ha": "left", "parse_math": False}
    figure.suptitle(said, fontsize=LARGE, fontweight="bold", **look)
    told = "\n".join(textwrap.fill(fact, letters) for fact in facts if fact)
    if told:
        figure.supxlabel(told, fontsize=SMALL, color=SOFT, linespacing=1.35, **look)


def laid_out(figure: Figure) -> None:
    """Give all axes the places that they will be drawn at."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _NO_GLYPH)
        figure.draw_without_rendering()


def open_axes(axes: Axes, *, grid: bool = False) -> None:
    """Without a frame at the top and the right; with a grid behind everything, if asked for."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=USUAL)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set(fontsize=USUAL + 0.5, parse_math=False)
    if grid:
        axes.grid(visible=True, color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)


def legend_above(axes: Axes) -> None:
    """A row of at most a few entries between title and picture."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        look: dict[str, Any] = {"frameon": False, "fontsize": USUAL, "borderaxespad": 0.2}
        where: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1)}
        axes.legend(handles, labels, ncols=len(handles), columnspacing=1.6, **look, **where)


def round_ticks(axis: Axis, most: int = 7, *, counts: bool = True) -> None:
    """A few round numbers, written as people write them: 5,000 people, but the year 2026."""
    axis.set_major_locator(ticker.MaxNLocator(most, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(ticker.FuncFormatter(_counted if counts else _written))


def value_ticks(axis: Axis, ends: npt.ArrayLike) -> None:
    """The same for an attribute's own values, fewer where they are long."""
    long = float(np.abs(np.asarray(ends)).max()) >= 10_000
    round_ticks(axis, 6 if long else 10, counts=False)


def _counted(number: float, place: object) -> str:
    return f"{float(f'{number:.9g}'):,.9g}"


def _written(number: float, place: object) -> str:
    return plain(float(f"{number:.9g}"))


def label_some(axes: Axes, labels: Sequence[str]) -> None:
    """About twelve labels along the x axis, slanted where they are long."""
    step = max(1, -(-len(labels) // 12))
    axes.set_xticks(np.arange(len(labels))[::step], labels[::step], parse_math=False)
    if max(map(len, labels[::step])) > 9:
        for label in axes.get_xticklabels():
            label.set(rotation=30, ha="right", rotation_mode="anchor")


def readable(color: str) -> str:
    """The same colour, as dark as letters have to be on white: a contrast of at least 4.5."""
    red, green, blue = colors.to_rgb(color)
    while contrast(found := colors.to_hex((red, green, blue))) < 4.5:
        red, green, blue = 0.95 * red, 0.95 * green, 0.95 * blue
    return found


def contrast(color: str, other: str = "white") -> float:
    """Of two colours, as the guidelines for web content define it: 1 for none, 21 at most."""
    light, dark = sorted((_luminance(color), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: str) -> float:
    parts = np.array(colors.to_rgb(color))
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


_NO_GLYPH = "Glyph .* missing from"
"""A letter that the font does not have is drawn as a box; that is no news for a terminal."""


def finish(figure: Figure, path: str | Path | None) -> Figure:
    """Into a file, if one is named."""
    if path is not None:
        save(figure, [path])
    return figure


def save(figure: Figure, paths: Sequence[str | Path], dpi: int = 150) -> None:
    """Into each file, the same bytes every time."""
    undated: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with (
        warnings.catch_warnings(),
        mpl.rc_context({"svg.hashsalt": figure.get_suptitle() or "metricldp"}),
    ):
        warnings.filterwarnings("ignore", _NO_GLYPH)
        for path in paths:
            check_picture(Path(path))
            kind = Path(path).suffix.lower()
            with replacing(path, QueryError) as file:
                figure.savefig(file, format=kind[1:], dpi=dpi, metadata=undated.get(kind))
