"""Settings that all charts share: colours, ticks, legends, titles, and how figures are saved.

Figures are made without pyplot, so a chart changes no global state of matplotlib.
"""

from __future__ import annotations

import io
import math
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
    from matplotlib import colors, figure, ticker
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
else:
    mpl = optional("matplotlib")
    colors = optional("matplotlib.colors")
    figure = optional("matplotlib.figure")
    ticker = optional("matplotlib.ticker")

Floats = npt.NDArray[np.float64]
COLORS = ("#0072b2", "#d55e00", "#1a1a1a", "#8a2be2", "#7a3b00", "#a0006d")
"""Distinguishable in print and with red-green colour blindness."""
INK, BAND, TRUTH, FITTED = "#1b4965", "#a9cde6", "#c94f00", "#8a2be2"
"""Colours of estimates, of their intervals, and of true and fitted values."""
GREY, GRID, TEXT = "#8c8c8c", "#e6e6e6", "#4d4d4d"
SMALL, USUAL, LARGE = 7.5, 8.5, 11.0
"""Font sizes in points."""
WIDTH = 7.0
"""Inches; the width of the text of a page."""
_LETTERS_PER_INCH = 17.5
"""Of the small font."""
_FORMATS = (".png", ".svg", ".pdf")
_NO_GLYPH = "Glyph .* missing from"
"""A character that the font lacks is drawn as a box; a warning would add nothing."""


# Figures and files -------------------------------------------------------------------------------


def check_picture(path: str | Path) -> None:
    """Before long work: raise an error if the chart cannot be drawn or written."""
    path = Path(path)
    if path.suffix.lower() not in _FORMATS:
        raise QueryError(f"cannot draw {path}; name a file that ends in {', '.join(_FORMATS)}")
    try:
        fits = path.parent.is_dir() and not path.is_dir()
    except OSError:  # a name that is too long, for example
        fits = False
    if not fits:
        raise QueryError(f"cannot draw {path}; name a file in an existing directory")
    require("plot")


def save(drawing: Figure | Axes, path: str | Path, *, dpi: int = 150) -> None:
    """Write a figure, or the figure of an Axes, to a file; equal figures give equal bytes."""
    check_picture(path)
    whole: Any = drawing if isinstance(drawing, figure.Figure) else drawing.figure
    kind = Path(path).suffix.lower()
    undated: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with (
        warnings.catch_warnings(),
        mpl.rc_context({"svg.hashsalt": whole.get_suptitle() or "metricldp"}),
        replacing(path, QueryError) as file,
    ):
        warnings.filterwarnings("ignore", _NO_GLYPH)
        whole.savefig(file, format=kind[1:], dpi=dpi, metadata=undated.get(kind))


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """A figure of a size in inches, which notebooks show."""
    made = figure.Figure(figsize=(width, height), layout="constrained")
    made._repr_png_ = partial(_png, made)  # type: ignore[attr-defined]
    return made


def new_axes(height: float, width: float = WIDTH) -> Axes:
    """The only Axes of a new figure, which notebooks show as well."""
    made = new_figure(height, width)
    axes = made.subplots()
    axes._repr_png_ = partial(_png, made)  # type: ignore[attr-defined]
    return axes


def _png(drawn: Figure) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _NO_GLYPH)
        drawn.savefig(file, format="png", dpi=110)
    return file.getvalue()


def add_title(drawn: Any, title: str, facts: Sequence[str] = ()) -> None:
    """A title at the top left of a figure, and facts in small print at its bottom."""
    letters = int(_LETTERS_PER_INCH * drawn.get_figwidth())
    left: dict[str, Any] = {"x": 0.012, "ha": "left", "parse_math": False}
    lines = textwrap.fill(title, int(letters * SMALL / LARGE * 0.95))
    drawn.suptitle(lines, fontsize=LARGE, fontweight="bold", **left)
    below = "\n".join(textwrap.fill(fact, letters) for fact in facts if fact)
    if below:
        drawn.supxlabel(below, fontsize=SMALL, color=TEXT, linespacing=1.35, **left)


# Axes --------------------------------------------------------------------------------------------


def tidy(axes: Axes, *, grid: str = "") -> None:
    """No frame at the top and the right, one font size, and a grid along "x", "y" or "both"."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=USUAL)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set(fontsize=USUAL + 0.5, parse_math=False)
    if grid:
        axes.grid(visible=True, axis=grid, color=GRID, linewidth=0.6)  # type: ignore[arg-type]
        axes.set_axisbelow(True)


def add_legend(axes: Axes, *, above: bool, last: Sequence[str] = ()) -> None:
    """The labelled parts of a chart: above it, in as few rows as fit, or inside of it.

    Some labels come last, in their order; of parts with the same label, one is listed.
    """
    parts = {label: part for part, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    labels = sorted(parts, key=lambda label: last.index(label) if label in last else -1)
    handles = [parts[label] for label in labels]
    if not labels:
        return
    look: dict[str, Any] = {"fontsize": SMALL, "borderaxespad": 0.2, "columnspacing": 1.4}
    if not above:
        _plain_texts(axes.legend(handles, labels, loc="best", **look))
        return
    look |= {"frameon": False, "loc": "lower left", "bbox_to_anchor": (0, 1)}
    for columns in range(len(handles), 0, -1):
        legend = axes.legend(handles, labels, ncols=columns, **look)
        _plain_texts(legend)
        lay_out(axes.figure)
        if legend.get_window_extent().x1 <= axes.figure.bbox.x1:
            break


def _plain_texts(legend: Any) -> None:
    for text in legend.get_texts():
        text.set_parse_math(False)


def lay_out(drawn: Any) -> None:
    """Give all parts of a figure the places that they will be drawn at."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _NO_GLYPH)
        drawn.draw_without_rendering()


def round_ticks(axis: Axis, most: int = 7, *, counts: bool = True) -> None:
    """A few round numbers; counts with separators, such as 5,000, but not values: the year 2026."""

    def text(number: float, _: object) -> str:
        short = float(f"{number:.9g}")
        return f"{short:,.9g}" if counts else plain(short)

    axis.set_major_locator(ticker.MaxNLocator(most, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(ticker.FuncFormatter(text))


def value_ticks(axis: Axis, edges: Floats) -> None:
    """Round values of an attribute, fewer where they have many digits."""
    round_ticks(axis, 6 if np.abs(edges).max() >= 10_000 else 10, counts=False)


def log_ticks(axis: Axis, values: Sequence[float], most: int = 8) -> None:
    """At most so many round numbers over the range of some positive values."""
    low, high = min(values) / 1.3, max(values) * 1.3
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks: list[float] = []
    fine = (1, 1.5, 2, 3, 5, 7)
    for parts, step in ((fine, 1), ((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 4)):
        ticks = [part * 10.0**k for k in range(first, last + 1, step) for part in parts]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= most:
            break
    axis.set_major_locator(ticker.FixedLocator(ticks))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(lambda number, _: plain(float(f"{number:.3g}"))))


def label_some(axes: Axes, places: Sequence[float], labels: Sequence[str]) -> None:
    """About twelve labels along the x axis, none too near to the one before; slanted if long."""
    apart = 0.999 * (places[-1] - places[0]) / 12
    chosen: list[int] = []
    for k, place in enumerate(places):
        if not chosen or place - places[chosen[-1]] >= apart:
            chosen.append(k)
    texts = [shortened(labels[k]) for k in chosen]
    axes.set_xticks([places[k] for k in chosen], texts, parse_math=False)
    if max(map(len, texts)) * len(texts) > 80:
        for label in axes.get_xticklabels():
            label.set(rotation=30, ha="right", rotation_mode="anchor")


def shortened(label: str, most: int = 28) -> str:
    """A label of at most so many characters."""
    return label if len(label) <= most else f"{label[: most - 3].rstrip()}..."


def contrast(color: str, other: str = "white") -> float:
    """The contrast of two colours as defined for web content, from 1 to 21."""
    light, dark = sorted((_luminance(color), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: str) -> float:
    parts = np.array(colors.to_rgb(color))
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def write_cells(axes: Axes, mesh: Any, texts: Sequence[str], centres: Floats) -> None:
    """A text in each cell of a mesh, white on dark cells."""
    shades = mesh.to_rgba(np.ma.ravel(mesh.get_array()))
    for text, (x, y), shade in zip(texts, centres, shades, strict=True):
        white = shade[3] > 0 and contrast(colors.to_hex(shade)) > 4.5
        look: dict[str, Any] = {"fontsize": SMALL, "color": "white" if white else "#1a1a1a"}
        axes.text(x, y, text, ha="center", va="center", parse_math=False, **look)
