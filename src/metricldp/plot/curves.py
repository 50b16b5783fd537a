"""Curves of errors against what they cost: epsilon, or the number of respondents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from metricldp.basics.errors import QueryError
from metricldp.basics.text import counted, plain
from metricldp.plot.style import (
    COLORS,
    GREY,
    SMALL,
    add_title,
    log_ticks,
    new_axes,
    shortened,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^vP*X<>"


def draw_errors(
    errors: Mapping[str, Sequence[float]],
    at: Sequence[float],
    ax: Axes | None = None,
    *,
    xlabel: str,
    ylabel: str = "standard error (people)",
    title: str = "Errors",
    note: str = "",
    marked: Sequence[str] | None = None,
) -> Axes:
    """Draw errors against epsilon or the number of people, a line for each mechanism.

    `errors` has for each name an error at every number of `at`; both scales are logarithmic. The
    first six names are in colour, or those that are `marked`; all others are grey. `note` is the
    place for the guarantee and the number of people.
    """
    numbers = [*at, *(error for column in errors.values() for error in column)]
    if not errors or len(at) < 2 or not all(number > 0 for number in numbers):
        raise QueryError(
            "pass errors of at least one name, at two or more numbers, and all above 0"
        )
    for name, column in errors.items():
        if len(column) != len(at):
            raise QueryError(
                f"{name} has {counted(len(column), 'error')} for {counted(len(at), 'number')}; "
                "give one each"
            )
    chosen = list(errors) if marked is None else list(marked)
    colors = dict(zip(chosen, COLORS, strict=False))
    own = ax is None
    axes = new_axes(4.0) if ax is None else ax
    axes.set(xscale="log", yscale="log")
    for place, (name, column) in enumerate(errors.items()):
        color = colors.get(name, GREY)
        look: dict[str, Any] = {"color": color, "linewidth": 0.9 if color == GREY else 1.6}
        look |= {"marker": _MARKERS[place % len(_MARKERS)], "markersize": 4}
        axes.plot(at, column, label=shortened(name), zorder=2 + (color != GREY), **look)
    ticks = list(at)[:: -(-len(at) // 8)]
    axes.set_xticks(ticks, [plain(tick) for tick in ticks])
    axes.minorticks_off()
    log_ticks(axes.yaxis, numbers[len(at) :])
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    tidy(axes, grid="both")
    # In the order of the lines' right ends.
    lines = sorted(axes.lines, key=lambda line: -float(line.get_ydata()[-1]))  # type: ignore
    beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "frameon": False}
    legend = axes.legend(handles=lines, fontsize=SMALL, **beside)
    for text in legend.get_texts():
        text.set_parse_math(False)
    if own:
        add_title(axes.figure, title, [note])
    return axes
