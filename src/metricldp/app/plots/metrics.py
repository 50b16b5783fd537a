"""A metric as a graph: values as nodes, generating pairs as edges."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from metricldp.app.plots.shared import (
    INK,
    SMALL,
    TRUTH,
    USUAL,
    WIDE,
    Floats,
    check_picture,
    finish,
    framed,
    new_figure,
)
from metricldp.attributes.base import Attribute
from metricldp.basics.errors import QueryError, ValueRefused
from metricldp.basics.optional import optional
from metricldp.basics.text import plain, shown
from metricldp.metrics import Metric

if TYPE_CHECKING:
    import matplotlib as mpl
    from matplotlib import cm, colors, lines
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    mpl = optional("matplotlib")
    cm = optional("matplotlib.cm")
    colors = optional("matplotlib.colors")
    lines = optional("matplotlib.lines")

_TITLE = "How far apart values are"
_DISTANCE = "distance (ε)"
_WAYS = "Any two are as far apart as the shortest way between them is long."
_UPRIGHT = 5
"""Labels of up to so many letters are never turned: 6 and 9 would look alike."""
_MOST_NODES = 60
_TURNS = 24
"""So many ways to turn the inner values within the others are tried."""
_CLEAR = 0.02
"""A node nearer than this to an edge of two others hides it."""
_MOST_KINDS = 5
"""Up to so many different lengths are told by a legend."""
_MOST_LENGTHS = 24
"""Up to so many edges carry their length."""


def metric_graph(
    metric: Attribute | Metric,
    path: str | Path | None = None,
    *,
    labels: Sequence[str] | None = None,
    title: str = _TITLE,
    marked: Collection[Any] = (),
) -> Figure:
    """A metric as a graph: a node for each value, an edge for each generating pair.

    The distance of any two values is the length of the shortest path; the thicker an edge, the
    harder its two values are to tell apart. `metric` is an attribute, or a metric on positions with
    a label for each. `marked` values (of a metric: positions), such as sensitive ones, stand out.
    There can be 2 to 60 values, and the file ends in .png, .svg or .pdf.
    """
    if path is not None:
        check_picture(Path(path))
    distances, names, positions = _read_metric(metric, labels, marked)
    return finish(metric_figure(distances, names, title, positions), path)


def metric_figure(
    metric: Metric, labels: Sequence[str], title: str, marked: Collection[int]
) -> Figure:
    """The graph of a metric on positions, with a label for each."""
    size = len(labels)
    pairs = list(metric.generating_pairs(size))
    lengths = [metric.distance(*pair) for pair in pairs]
    nodes = _nodes(metric, size, pairs, lengths)
    wide, high = np.ptp(nodes, axis=0)
    flat = not high
    figure = (
        new_figure(max(WIDE, 0.4 * size), 1.9)
        if flat
        else new_figure(WIDE, 1.6 + 4.4 * min(1, high / max(wide, 1e-9)))
    )
    axes = figure.subplots()
    _draw_edges(axes, nodes, pairs, lengths)
    inks = [TRUTH if position in marked else INK for position in range(size)]
    axes.scatter(
        nodes[:, 0], nodes[:, 1], s=45, color=inks, edgecolor="white", linewidth=1, zorder=5
    )
    longest = max(map(len, labels))
    for position, label in enumerate(labels):
        rim = not flat and bool(np.isclose(np.linalg.norm(nodes[position]), 1))
        turn = rim and size > 12 and longest > _UPRIGHT
        _draw_label(axes, nodes[position], label, color=inks[position], turned=turn, flat=flat)
    framed(figure, title, [f"{_told(lengths)} {_WAYS}"])
    axes.set_axis_off()
    axes.margins(*((0.06, 0.5) if flat else (0.1, 0.1)))
    if not flat:
        axes.set_aspect("equal")
    return figure


def _told(lengths: Sequence[Fraction]) -> str:
    """What edges mean."""
    if len(set(lengths)) == 1:
        return f"Every edge is ε {plain(float(lengths[0]))} long."
    return "Thick and dark edges: hard to tell apart; thin and light ones: easier."


def _read_metric(
    given: object, labels: Sequence[str] | None, marked: Collection[Any]
) -> tuple[Metric, list[str], set[int]]:
    """The metric, the label of each position, and which positions are marked."""
    marked = [marked] if isinstance(marked, str) else marked
    positions: dict[Any, int | None]
    if isinstance(given, Attribute):
        metric, size, kind = given.distances, given.size, "value"
        positions = {value: _position(given, value) for value in marked}
    elif isinstance(given, Metric):
        if labels is None:
            raise QueryError("a metric on positions has no names; pass labels, or the attribute")
        _check_size(len(labels))
        metric, size, kind = given, len(given.whole(len(labels))), "position"
        positions = {value: value if value in range(size) else None for value in marked}
    else:
        raise QueryError(f"a graph is drawn of an attribute or a metric, not {shown(given)}")
    _check_size(size)
    if isinstance(given, Attribute) and labels is None:
        labels = [given.name_of(position) for position in range(size)]
    assert labels is not None
    if len(labels) != size:
        raise QueryError(f"{len(labels)} labels for {size} values; give one for each")
    for value, position in positions.items():
        if position is None:
            raise QueryError(f"{shown(value)} is marked, which is no {kind} of the metric")
    return metric, [str(x) for x in labels], {x for x in positions.values() if x is not None}


def _position(attribute: Attribute, value: object) -> int | None:
    try:
        return attribute.position(value)
    except ValueRefused:
        return None


def _check_size(size: int) -> None:
    if not 2 <= size <= _MOST_NODES:
        raise QueryError(f"a graph is drawn for 2 to {_MOST_NODES} values, not {size:,}")


def _nodes(
    metric: Metric, size: int, pairs: Sequence[tuple[int, int]], lengths: Sequence[Fraction]
) -> Floats:
    """In a row, around a circle, or as far apart as the metric says, as well as a page allows."""
    equal = len(set(lengths)) == 1
    if size == 2 or (equal and all(other == x + 1 for x, other in pairs)):
        return np.column_stack([np.arange(size), np.zeros(size)]).astype(np.float64)
    edges = np.array(pairs)
    joined = np.bincount(edges.ravel(), minlength=size) == size - 1
    if equal and joined[edges].any(axis=1).all():
        return _circle(size) if joined.all() else _within_a_circle(joined, edges)
    nodes = _stretched(metric.matrix(size))
    return _circle(size) if _clearance(nodes, edges) < _CLEAR else nodes


def _within_a_circle(inner: npt.NDArray[np.bool_], edges: npt.NDArray[np.int64]) -> Floats:
    """Those that are joined to all, such as sensitive values, within a circle of the others."""
    nodes = np.zeros((len(inner), 2))
    nodes[~inner] = _circle(int((~inner).sum()))
    count = int(inner.sum())
    if count == 1:
        return nodes
    turned = []
    for turn in 2 * np.pi / count * np.arange(_TURNS) / _TURNS:
        nodes[inner] = 0.45 * _circle(count, turn)
        turned.append(nodes.copy())
    return max(turned, key=lambda nodes: _clearance(nodes, edges))


def _circle(count: int, turn: float = 0.0) -> Floats:
    angles = np.pi / 2 + turn - 2 * np.pi * np.arange(count) / count
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _clearance(nodes: Floats, pairs: npt.NDArray[np.int64]) -> float:
    """How near any node comes to an edge of two others, which it would hide."""
    start, along = nodes[pairs[:, 0], None], nodes[pairs[:, 1], None] - nodes[pairs[:, 0], None]
    share = np.sum((nodes - start) * along, axis=2) / np.sum(along**2, axis=2)
    foot = start + np.clip(share, 0, 1)[:, :, None] * along
    apart = np.linalg.norm(nodes - foot, axis=2)
    apart[np.arange(len(pairs))[:, None], pairs] = np.inf
    return float(apart.min())


def _stretched(distances: Floats) -> Floats:
    """Multidimensional scaling: places whose distances are near the metric's (SMACOF).

    Relative errors count, so that near values are as true as far ones. It starts on a circle and
    ends with the widest side level.
    """
    size = len(distances)
    apart = distances + np.eye(size)
    weights = (1 - np.eye(size)) / apart**2
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian)
    nodes = _circle(size) * distances.max() / 2
    for _ in range(300):
        between = np.linalg.norm(nodes[:, None] - nodes, axis=2) + np.eye(size)
        pull = -weights * distances / np.maximum(between, 1e-9)
        np.fill_diagonal(pull, -pull.sum(axis=1))
        nodes = inverse @ pull @ nodes
    nodes -= nodes.mean(axis=0)
    widest_first = np.linalg.svd(nodes, full_matrices=False)[2]
    return np.asarray(nodes @ widest_first.T / np.abs(nodes).max())


def _draw_edges(
    axes: Axes,
    nodes: Floats,
    pairs: Sequence[tuple[int, int]],
    lengths: Sequence[Fraction],
) -> None:
    """Short edges dark and heavy, long ones light; lengths in the legend or on the edges.

    A short edge joins two values that are hard to tell apart.
    """
    kinds = sorted(set(lengths))
    few = len(kinds) <= _MOST_KINDS
    alpha = 1.0 if len(pairs) <= 40 else 0.6
    low, wide = float(kinds[0]), float(kinds[-1] - kinds[0]) or 1.0
    thin = min(0.9, (24 / len(pairs)) ** 0.5)
    for (x, other), length in zip(pairs, lengths, strict=True):
        ends, far = nodes[[x, other]], (float(length) - low) / wide
        axes.plot(
            *ends.T,
            color=_shade(far),
            linewidth=thin * (2.2 - 1.4 * far),
            alpha=alpha,
            zorder=1 - far / 2,
        )
        if not few and len(pairs) <= _MOST_LENGTHS:
            axes.text(
                ends[:, 0].mean(),
                ends[:, 1].mean(),
                plain(float(f"{float(length):.3g}")),
                parse_math=False,
                fontsize=SMALL,
                ha="center",
                va="center",
                bbox=_plate(0.15, 1.0),
                zorder=2,
            )
    if few and len(kinds) > 1:
        handles = [
            lines.Line2D(
                [], [], color=_shade(far), lw=1.5 * (2.2 - 1.4 * far), label=plain(float(kind))
            )
            for kind, far in ((kind, (float(kind) - low) / wide) for kind in kinds)
        ]
        axes.legend(
            handles=handles,
            title=_DISTANCE,
            loc="center left",
            bbox_to_anchor=(1, 0.5),
            fontsize=USUAL,
            title_fontsize=USUAL,
            frameon=False,
        )
    elif not few and len(pairs) > _MOST_LENGTHS:
        shades = colors.ListedColormap([_shade(far) for far in np.linspace(0, 1, 64)])
        bar = axes.figure.colorbar(
            cm.ScalarMappable(colors.Normalize(low, low + wide), shades),
            ax=axes,
            location="right",
            shrink=0.5,
        )
        bar.set_label(_DISTANCE, fontsize=USUAL)
        bar.ax.tick_params(labelsize=USUAL)


def _plate(pad: float, alpha: float) -> dict[str, Any]:
    """White behind letters."""
    look = {"boxstyle": f"round,pad={pad}", "facecolor": "white", "edgecolor": "none"}
    return {**look, "alpha": alpha}


def _shade(far: float) -> str:
    """Dark for the shortest edge, at 0, and light for the longest, at 1."""
    return colors.to_hex(mpl.colormaps["Blues_r"](0.05 + 0.5 * far))


def _draw_label(
    axes: Axes,
    node: Floats,
    label: str,
    *,
    color: str,
    turned: bool,
    flat: bool,
) -> None:
    """Outside of its node, seen from the middle; along the radius where many share a circle."""
    angle = 90.0 if flat else float(np.degrees(np.arctan2(node[1], node[0])))
    x, y = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    deep_inside = not flat and np.linalg.norm(node) < 0.5
    left, beside = x < -1e-9, turned or (abs(x) > 0.3 and not deep_inside)
    beyond = "right" if left else "left"
    axes.annotate(
        textwrap.shorten(label, 24, placeholder="...") if len(label) > 24 else label,
        (node[0], node[1]),
        xytext=(8 * x, 8 * y),
        textcoords="offset points",
        rotation=(angle - 180 if left else angle) if turned else 0,
        rotation_mode="anchor",
        ha=beyond if beside else "center",
        va="center" if beside else ("bottom" if y >= 0 else "top"),
        color=color,
        fontsize=USUAL,
        bbox=_plate(0.1, 0.8),
        parse_math=False,
        zorder=4,
    )
