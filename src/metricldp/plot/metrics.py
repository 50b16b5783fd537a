"""Chart of a metric: a graph with a node for each value and an edge for each generating pair."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from metricldp.attributes.base import Attribute
from metricldp.basics.errors import InvalidValueError, QueryError
from metricldp.basics.optional import optional
from metricldp.basics.text import plain, shown
from metricldp.metrics import Metric
from metricldp.plot.style import (
    INK,
    SMALL,
    TRUTH,
    USUAL,
    WIDTH,
    Floats,
    add_title,
    new_axes,
    shortened,
)

if TYPE_CHECKING:
    import matplotlib as mpl
    from matplotlib import cm, colors
    from matplotlib.axes import Axes
else:
    mpl = optional("matplotlib")
    cm = optional("matplotlib.cm")
    colors = optional("matplotlib.colors")

_MOST_VALUES = 60
_MOST_TEXTS = 24
"""Up to so many edges have their lengths written beside them."""
_CLEAR = 0.02
"""A node this near to an edge of two others would hide it."""


def draw_metric(
    metric: Attribute | Metric,
    ax: Axes | None = None,
    *,
    labels: Sequence[str] | None = None,
    marked: Collection[Any] = (),
    title: str = "Distances between values",
) -> Axes:
    """Draw a metric as a graph and return the Axes.

    The distance of any two values is the length of the shortest path between them; the thicker an
    edge, the harder its two values are to distinguish. `metric` is an attribute, or a metric on
    positions with a label for each. `marked` values (of a metric: positions), such as sensitive
    ones, have another colour. There can be 2 to 60 values.
    """
    distances, names, positions = _read(metric, labels, marked)
    pairs = list(distances.generating_pairs(len(names)))
    lengths = [distances.distance(*pair) for pair in pairs]
    inks = [TRUTH if position in positions else INK for position in range(len(names))]
    places = _places(distances, len(names), pairs, lengths)
    wide, high = np.ptp(places, axis=0)
    size = (1.6 + 4.4 * min(1, high / max(wide, 1e-9)), WIDTH)
    if not high:
        size = (1.9, max(WIDTH, 0.4 * len(names)))
    axes = new_axes(*size) if ax is None else ax
    _draw_edges(axes, places, pairs, lengths)
    node: dict[str, Any] = {"s": 45, "edgecolor": "white", "linewidth": 1, "zorder": 5}
    axes.scatter(places[:, 0], places[:, 1], color=inks, **node)
    turned = bool(high) and len(names) > 12 and max(map(len, names)) > 5
    for place, name, ink in zip(places, names, inks, strict=True):
        _draw_label(axes, place, shortened(name, 24), ink, turned=turned, flat=not high)
    axes.set_axis_off()
    beside = 0.1 + 0.012 * min(max(map(len, names)), 24)
    axes.margins(*((beside, 0.1) if high else (0.06, 0.5)))
    if high:
        axes.set_aspect("equal")
    if ax is None:
        facts = "The distance of two values is the length of the shortest path between them."
        if len(set(lengths)) == 1:
            facts = f"Every edge has the length ε {plain(float(lengths[0]))}. {facts}"
        add_title(axes.figure, title, [facts])
    return axes


def _read(
    given: object, labels: Sequence[str] | None, marked: Collection[Any]
) -> tuple[Metric, list[str], set[int]]:
    """The metric, the label of each position, and which positions are marked."""
    marked = [marked] if isinstance(marked, str) else marked
    if isinstance(given, Attribute):
        metric, size, kind = given.distances, given.size, "value"
        places = {value: _position(given, value) for value in marked}
    elif isinstance(given, Metric):
        if labels is None:
            raise QueryError("a metric on positions has no names; pass labels, or the attribute")
        _check_size(len(labels))
        metric, size, kind = given, len(given.whole(len(labels))), "position"
        places = {value: value if value in range(size) else None for value in marked}
    else:
        raise QueryError(f"pass an attribute or a metric, not {shown(given)}")
    _check_size(size)
    if isinstance(given, Attribute) and labels is None:
        labels = [given.name_of(position) for position in range(size)]
    assert labels is not None
    if len(labels) != size:
        raise QueryError(f"{len(labels)} labels for {size} values; give one for each")
    for value, position in places.items():
        if position is None:
            raise QueryError(f"marked {shown(value)} is not a {kind} of the metric")
    return metric, [str(x) for x in labels], {x for x in places.values() if x is not None}


def _position(attribute: Attribute, value: object) -> int | None:
    try:
        return attribute.position(value)
    except InvalidValueError:
        return None


def _check_size(size: int) -> None:
    if not 2 <= size <= _MOST_VALUES:
        raise QueryError(f"a metric is drawn for 2 to {_MOST_VALUES} values, not {size:,}")


# Graph -------------------------------------------------------------------------------------------


def _draw_edges(
    axes: Axes, places: Floats, pairs: Sequence[tuple[int, int]], lengths: Sequence[Fraction]
) -> None:
    """Short edges dark and thick, long ones light and thin, with their lengths or a colour bar."""
    short, long = float(min(lengths)), float(max(lengths))
    shades = colors.ListedColormap(mpl.colormaps["Blues_r"](np.linspace(0.05, 0.55, 64)))
    scale = cm.ScalarMappable(colors.Normalize(short, max(long, short + 1e-9)), shades)
    thin = min(0.9, (24 / len(pairs)) ** 0.5)
    words: dict[str, Any] = {
        "ha": "center",
        "va": "center",
        "fontsize": SMALL,
        "zorder": 2,
        "parse_math": False,
    }
    for pair, length in zip(pairs, lengths, strict=True):
        ends, far = places[list(pair)], (float(length) - short) / ((long - short) or 1.0)
        color, width = scale.to_rgba(np.array(float(length))), thin * (2.2 - 1.4 * far)
        axes.plot(*ends.T, color=color, linewidth=width, zorder=1 - far / 2)
        if short < long and len(pairs) <= _MOST_TEXTS:
            (x, y), text = ends.mean(axis=0), plain(float(f"{float(length):.3g}"))
            axes.text(x, y, text, bbox=_plate(), **words)
    if short < long and len(pairs) > _MOST_TEXTS:
        bar = axes.figure.colorbar(scale, ax=axes, shrink=0.6)
        bar.set_label("length of an edge (ε)", fontsize=USUAL)
        bar.ax.tick_params(labelsize=USUAL)


def _draw_label(
    axes: Axes, place: Floats, label: str, color: str, *, turned: bool, flat: bool
) -> None:
    """Beside its node, away from the middle; along the radius where many share a circle.

    Short labels are not turned: 6 and 9 would look alike.
    """
    angle = 90.0 if flat else float(np.degrees(np.arctan2(place[1], place[0])))
    x, y = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    left, beside = x < -1e-9, turned or abs(x) > 0.3
    axes.annotate(
        label,
        (place[0], place[1]),
        xytext=(8 * x, 8 * y),
        textcoords="offset points",
        rotation=(angle - 180 if left else angle) if turned else 0,
        rotation_mode="anchor",
        ha=("right" if left else "left") if beside else "center",
        va="center" if beside else ("bottom" if y >= 0 else "top"),
        color=color,
        fontsize=USUAL,
        bbox=_plate(),
        parse_math=False,
        zorder=4,
    )


def _plate() -> dict[str, Any]:
    """A white background of a text."""
    return {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}


def _places(
    metric: Metric, size: int, pairs: Sequence[tuple[int, int]], lengths: Sequence[Fraction]
) -> Floats:
    """Nodes in a row, or as far apart as the metric says, or around a circle."""
    if size == 2 or (len(set(lengths)) == 1 and all(other == x + 1 for x, other in pairs)):
        return np.column_stack([np.arange(size), np.zeros(size)]).astype(np.float64)
    places = _scaled(metric.matrix(size))
    return _circle(size) if _clearance(places, np.array(pairs)) < _CLEAR else places


def _circle(count: int) -> Floats:
    angles = np.pi / 2 - 2 * np.pi * np.arange(count) / count
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _clearance(places: Floats, pairs: Any) -> float:
    """The least distance of a node from an edge of two others."""
    start, along = places[pairs[:, 0], None], places[pairs[:, 1], None] - places[pairs[:, 0], None]
    share = np.sum((places - start) * along, axis=2) / np.sum(along**2, axis=2)
    foot = start + np.clip(share, 0, 1)[:, :, None] * along
    apart = np.linalg.norm(places - foot, axis=2)
    apart[np.arange(len(pairs))[:, None], pairs] = np.inf
    return float(apart.min())


def _scaled(distances: Floats) -> Floats:
    """Multidimensional scaling of relative errors by SMACOF, from a circle; widest side level."""
    size = len(distances)
    weights = (1 - np.eye(size)) / (distances + np.eye(size)) ** 2
    inverse = np.linalg.pinv(np.diag(weights.sum(axis=1)) - weights)
    places = _circle(size) * distances.max() / 2
    for _ in range(300):
        between = np.linalg.norm(places[:, None] - places, axis=2) + np.eye(size)
        pull = -weights * distances / np.maximum(between, 1e-9)
        np.fill_diagonal(pull, -pull.sum(axis=1))
        places = inverse @ pull @ places
    places -= places.mean(axis=0)
    axes = np.linalg.svd(places, full_matrices=False)[2]
    return np.asarray(places @ axes.T / np.abs(places).max())
