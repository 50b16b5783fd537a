"""What all pictures share: colours, the files that can be one, and how they are saved.

Figures are made without pyplot, so drawing one changes nothing for whoever else draws.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import QueryError
from metricldp.basics.optional import optional
from metricldp.basics.writing import replacing

if TYPE_CHECKING:
    import matplotlib as mpl
    from matplotlib import figure as figures
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    mpl = optional("matplotlib")
    figures = optional("matplotlib.figure")

INK, BAND, TRUTH, ZERO = "#1b4965", "#9ec5e0", "#d1495b", "#888888"
GRID = "#e6e6e6"
_FORMATS = (".png", ".svg", ".pdf")

Floats = npt.NDArray[np.float64]


def check_picture(path: Path) -> None:
    """Refuse a file that cannot become a picture, before the work and not after it."""
    if path.suffix.lower() not in _FORMATS:
        raise QueryError(f"cannot draw {path}; name a file that ends in {', '.join(_FORMATS)}")
    if path.is_dir() or not path.parent.is_dir():
        raise QueryError(f"cannot draw {path}; name a file in a directory that is there")


def new_figure(width: float, height: float) -> Figure:
    return figures.Figure(figsize=(width, height), layout="constrained")


def open_axes(axes: Axes, *, grid: bool = False) -> None:
    """Without a frame at the top and the right; with a grid behind everything, if asked for."""
    axes.spines[["top", "right"]].set_visible(False)
    if grid:
        axes.grid(visible=True, color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)


def label_some(axes: Axes, labels: Sequence[str]) -> None:
    """About twelve labels along the x axis, slanted where they are long."""
    step = max(1, -(-len(labels) // 12))
    axes.set_xticks(np.arange(len(labels))[::step], labels[::step], parse_math=False)
    if max(map(len, labels[::step])) > 9:
        for label in axes.get_xticklabels():
            label.set(rotation=30, ha="right", rotation_mode="anchor")


def save(figure: Figure, paths: Sequence[str | Path], dpi: int = 150) -> None:
    """Into each file, the same bytes every time."""
    undated: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with (
        warnings.catch_warnings(),
        mpl.rc_context({"svg.hashsalt": figure.get_suptitle() or "metricldp"}),
    ):
        # A letter that the font does not have is drawn as a box; that is no news for a terminal.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        for path in paths:
            kind = Path(path).suffix.lower()
            with replacing(path, QueryError) as file:
                figure.savefig(file, format=kind[1:], dpi=dpi, metadata=undated.get(kind))
