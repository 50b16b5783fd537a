"""Pictures. The only module that imports matplotlib."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt

from metricldp.answers.answer import percent
from metricldp.answers.container import Histogram
from metricldp.answers.quantiles import Cdf
from metricldp.attributes.base import Attribute
from metricldp.basics.errors import QueryError
from metricldp.basics.text import plain, shown
from metricldp.metrics import Distances, Line, Metric, Sensitive

mpl.use("Agg")
import matplotlib.pyplot as plt

_INK, _BAND, _TRUTH, _ZERO = "#1b4965", "#9ec5e0", "#d1495b", "#888888"
_TRUTH_LABEL = "truth (never collected)"
_TALLEST = 40.0
"""Inches; more names than fit are drawn on top of each other."""
_PICTURES = (".png", ".svg", ".pdf")
_DISTANCE = "distance (epsilon); the smaller, the harder to tell apart"
_MOST_NODES = 60
_TURNS = 24
"""So many ways to turn sensitive values within the others are tried."""
_CLEAR = 0.02
"""A node nearer than this to an edge of two others hides it."""
_MOST_KINDS = 5
"""Up to so many different lengths are told by a legend."""
_MOST_LENGTHS = 24
"""Up to so many edges carry their length."""


def histogram(
    bars: Histogram,
    path: str | Path,
    *,
    title: str,
    truth: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> None:
    """A histogram with its intervals, and the truth beside it where it is known.

    Numbers run along a line with a band of intervals; names stand below each other, each with an
    interval of its own.
    """
    draw = _draw_names if bars.named else _draw_numbers
    figure = draw(bars, None if truth is None else np.asarray(truth), level)
    axes = figure.axes[0]
    axes.set_title(title, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    _save(figure, path)


def _draw_numbers(
    bars: Histogram, truth: npt.NDArray[np.float64] | None, level: float
) -> mpl.figure.Figure:
    values, ends = _values_and_ends(bars, level)
    places = np.arange(len(bars))
    edges = np.concatenate([places - 0.5, places[-1:] + 0.5])
    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    axes.axhline(0, color=_ZERO, linewidth=0.8)
    band = f"{percent(level)} interval"
    axes.stairs(ends[:, 1], edges, baseline=ends[:, 0], fill=True, color=_BAND, label=band)
    axes.stairs(values, edges, baseline=None, color=_INK, linewidth=1.6, label="estimate")
    if truth is not None:
        axes.plot(places, truth, ".", color=_TRUTH, markersize=6, label=_TRUTH_LABEL)
    step = max(1, -(-len(bars) // 12))
    axes.set_xticks(places[::step], bars.labels[::step], parse_math=False)
    if max(len(label) for label in bars.labels) > 9:
        plt.setp(axes.get_xticklabels(), rotation=30, ha="right", rotation_mode="anchor")
    axes.set_xlim(edges[0], edges[-1])
    low, high = min(0.0, ends.min()), max(0.0, ends.max())
    axes.update_datalim([(0, low), (0, high)])
    axes.use_sticky_edges = False
    axes.autoscale_view(scalex=False)
    axes.set_xlabel(bars.attribute, parse_math=False)
    axes.set_ylabel(bars[0].unit)
    axes.yaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    return figure


def _draw_names(
    bars: Histogram, truth: npt.NDArray[np.float64] | None, level: float
) -> mpl.figure.Figure:
    values, ends = _values_and_ends(bars, level)
    labels = ["\n".join(textwrap.wrap(label, 40)) for label in bars.labels]
    lines = sum(1 + label.count("\n") for label in labels)
    places = np.arange(len(bars))
    height = min(max(1.8 + 0.26 * lines, 3.0), _TALLEST)
    figure, axes = plt.subplots(figsize=(9, height), layout="constrained")
    axes.axvline(0, color=_ZERO, linewidth=0.8)
    axes.barh(places, values, height=0.7, color=_BAND, label="estimate")
    axes.errorbar(
        values,
        places,
        xerr=np.abs(ends.T - values),
        fmt="none",
        ecolor=_INK,
        elinewidth=1.6,
        capsize=3,
        label=f"{percent(level)} interval",
    )
    if truth is not None:
        axes.plot(truth, places, ".", color=_TRUTH, markersize=6, label=_TRUTH_LABEL)
    axes.set_yticks(places, labels, parse_math=False)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_ylabel(bars.attribute, parse_math=False)
    axes.set_xlabel(bars[0].unit)
    axes.xaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    return figure


def _values_and_ends(
    bars: Histogram, level: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Values, and the ends of their intervals; an infinite one, which nothing can show, is none."""
    values = np.array([answer.value for answer in bars])
    ends = np.array([answer.interval(level) for answer in bars])
    return values, np.where(np.isfinite(ends), ends, values[:, None])


def check_picture(path: Path) -> None:
    """Refuse a file that cannot become a picture, before the work and not after it."""
    if path.suffix.lower() not in _PICTURES:
        raise QueryError(f"cannot draw {path}; name a file that ends in {', '.join(_PICTURES)}")
    if path.is_dir() or not path.parent.is_dir():
        raise QueryError(f"cannot draw {path}; name a file in a directory that is there")


def _save(figure: mpl.figure.Figure, path: str | Path) -> None:
    with warnings.catch_warnings():
        # A letter that the font does not have is drawn as a box; that is no news for a terminal.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(path, dpi=150)
    plt.close(figure)


def cdf(
    shares: Cdf,
    path: str | Path,
    *,
    title: str,
    truth: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> None:
    """A distribution function with its simultaneous band, and the truth where it is known."""
    low, high = shares.band(level)
    places = np.arange(len(low))
    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    axes.fill_between(places, low, high, step="post", color=_BAND, label=f"{percent(level)} band")
    axes.step(places, shares.values, where="post", color=_INK, linewidth=1.6, label="estimate")
    if truth is not None:
        axes.plot(places, np.asarray(truth), ".", color=_TRUTH, label=_TRUTH_LABEL)
    step = max(1, -(-len(places) // 12))
    ends = [plain(end) for end in shares.ends[::step]]
    axes.set_xticks(places[::step], ends, parse_math=False)
    if max(map(len, ends)) > 9:
        plt.setp(axes.get_xticklabels(), rotation=30, ha="right", rotation_mode="anchor")
    axes.set_xlabel(shares.attribute, parse_math=False)
    axes.set_title(title, parse_math=False)
    axes.set(ylabel="share at or below", ylim=(0, 1.02))
    axes.set_xlim(places[0] - 0.5, places[-1] + 0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    _save(figure, path)


# Metrics


def metric_graph(
    metric: Attribute | Metric,
    path: str | Path,
    *,
    labels: Sequence[str] | None = None,
    title: str = "Thick: hard to tell apart",
    marked: Collection[Any] = (),
) -> None:
    """A metric as a graph: a node for each value, an edge for each generating pair.

    The distance of any two values is the length of the shortest path; the thicker an edge, the
    harder its two values are to tell apart. `metric` is an attribute, or a metric on positions with
    a label for each. `marked` values (of a metric: positions), such as sensitive ones, stand out.
    There can be 2 to 60 values, and the file ends in .png, .svg or .pdf.
    """
    check_picture(Path(path))
    distances, names, places = _read_metric(metric, labels, marked)
    size = len(names)
    pairs = list(distances.generating_pairs(size))
    nodes = _node_places(distances, size)
    wide, high = np.ptp(nodes, axis=0)
    flat = not high
    figure, axes = plt.subplots(
        figsize=(max(6.0, 0.55 * size), 2.4)
        if flat
        else (8, 2.4 + 5 * min(1, high / max(wide, 1e-9))),
        layout="constrained",
    )
    _draw_edges(axes, nodes, pairs, [distances.distance(*pair) for pair in pairs])
    colors = [_TRUTH if place in places else _INK for place in range(size)]
    axes.scatter(
        nodes[:, 0], nodes[:, 1], s=70, color=colors, edgecolor="white", linewidth=1.2, zorder=5
    )
    for place, label in enumerate(names):
        rim = not flat and bool(np.isclose(np.linalg.norm(nodes[place]), 1))
        turn = rim and size > 12
        _draw_label(axes, nodes[place], label, color=colors[place], turned=turn, flat=flat)
    figure.suptitle(title, parse_math=False)
    axes.set_axis_off()
    axes.margins(*((0.06, 0.5) if flat else (0.16, 0.16)))
    if not flat:
        axes.set_aspect("equal")
    _save(figure, path)


def _read_metric(
    given: object, labels: Sequence[str] | None, marked: Collection[Any]
) -> tuple[Metric, list[str], set[int]]:
    """The metric, the label of each position, and which positions are marked."""
    marked = [marked] if isinstance(marked, str) else marked
    places: dict[Any, int | None]
    if isinstance(given, Attribute):
        metric, size = given.distances, given.size
        places = {value: given.place(value) for value in marked}
    elif isinstance(given, Metric):
        if labels is None:
            raise QueryError("a metric on positions has no names; pass labels, or the attribute")
        metric = given
        size = len(given.table.numbers) if isinstance(given, Distances) else len(labels)
        places = {value: value if value in range(size) else None for value in marked}
    else:
        raise QueryError(f"a graph is drawn of an attribute or a metric, not {shown(given)}")
    if not 2 <= size <= _MOST_NODES:
        raise QueryError(f"a graph is drawn for 2 to {_MOST_NODES} values, not {size:,}")
    if isinstance(given, Attribute) and labels is None:
        labels = [given.name_of(place) for place in range(size)]
    assert labels is not None
    if len(labels) != size:
        raise QueryError(f"{len(labels)} labels for {size} values; give one for each")
    for value, place in places.items():
        if place is None:
            kind = "value" if isinstance(given, Attribute) else "position"
            raise QueryError(f"{shown(value)} is marked, which is no {kind} of the metric")
    return metric, [str(label) for label in labels], set(places.values())  # type: ignore[arg-type]


def _node_places(metric: Metric, size: int) -> npt.NDArray[np.float64]:
    """In a row, around a circle, or as far apart as the metric says, as well as a page allows."""
    if isinstance(metric, Line) or size == 2:
        return np.column_stack([np.arange(size), np.zeros(size)]).astype(np.float64)
    if isinstance(metric, Sensitive) and 0 < size - len(metric.places) < size:
        inner = sorted(metric.places)
        outer = [place for place in range(size) if place not in metric.places]
        nodes = np.zeros((size, 2))
        nodes[outer] = _circle(len(outer))
        if len(inner) == 1:
            return nodes
        pairs = np.array(list(metric.generating_pairs(size)))
        turned = []
        for turn in 2 * np.pi / len(inner) * np.arange(_TURNS) / _TURNS:
            nodes[inner] = 0.45 * _circle(len(inner), turn)
            turned.append(nodes.copy())
        return max(turned, key=lambda nodes: _clearance(nodes, pairs))
    if metric.smallest(size) == metric.diameter(size):
        return _circle(size)
    nodes = _stretched(metric.matrix(size))
    hidden = _clearance(nodes, np.array(list(metric.generating_pairs(size)))) < _CLEAR
    return _circle(size) if hidden else nodes


def _circle(count: int, turn: float = 0.0) -> npt.NDArray[np.float64]:
    angles = np.pi / 2 + turn - 2 * np.pi * np.arange(count) / count
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _clearance(nodes: npt.NDArray[np.float64], pairs: npt.NDArray[np.int64]) -> float:
    """How near any node comes to an edge of two others, which it would hide."""
    start, along = nodes[pairs[:, 0], None], nodes[pairs[:, 1], None] - nodes[pairs[:, 0], None]
    share = np.sum((nodes - start) * along, axis=2) / np.sum(along**2, axis=2)
    foot = start + np.clip(share, 0, 1)[:, :, None] * along
    apart = np.linalg.norm(nodes - foot, axis=2)
    apart[np.arange(len(pairs))[:, None], pairs] = np.inf
    return float(apart.min())


def _stretched(distances: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
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
    axes: mpl.axes.Axes,
    nodes: npt.NDArray[np.float64],
    pairs: Sequence[tuple[int, int]],
    lengths: Sequence[Fraction],
) -> None:
    """Short edges dark and heavy, long ones light; lengths in the legend or on the edges.

    A short edge joins two values that are hard to tell apart.
    """
    kinds = sorted(set(lengths))
    few = len(kinds) <= _MOST_KINDS
    low, wide = float(kinds[0]), float(kinds[-1] - kinds[0]) or 1.0
    thin = min(1.0, (40 / len(pairs)) ** 0.5)
    for (x, other), length in zip(pairs, lengths, strict=True):
        ends, far = nodes[[x, other]], (float(length) - low) / wide
        axes.plot(
            *ends.T, color=_shade(far), linewidth=thin * (2.2 - 1.4 * far), zorder=1 - far / 2
        )
        if not few and len(pairs) <= _MOST_LENGTHS:
            axes.text(
                ends[:, 0].mean(),
                ends[:, 1].mean(),
                plain(float(length)),
                parse_math=False,
                fontsize=8,
                ha="center",
                va="center",
                bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"},
                zorder=2,
            )
    if few:
        handles = [
            mpl.lines.Line2D(
                [], [], color=_shade(far), lw=1.5 * (2.2 - 1.4 * far), label=plain(float(kind))
            )
            for kind, far in ((kind, (float(kind) - low) / wide) for kind in kinds)
        ]
        axes.figure.legend(
            handles=handles,
            title=_DISTANCE,
            loc="outside lower center",
            ncols=len(kinds),
            frameon=False,
        )
    elif len(pairs) > _MOST_LENGTHS:
        shades = mpl.colors.ListedColormap([_shade(far) for far in np.linspace(0, 1, 64)])
        axes.figure.colorbar(
            mpl.cm.ScalarMappable(mpl.colors.Normalize(low, low + wide), shades),
            ax=axes,
            location="bottom",
            shrink=0.5,
            label=_DISTANCE,
        )


def _shade(far: float) -> str:
    """Dark for the shortest edge, at 0, and light for the longest, at 1."""
    return mpl.colors.to_hex(plt.get_cmap("Blues_r")(0.05 + 0.5 * far))


def _draw_label(
    axes: mpl.axes.Axes,
    node: npt.NDArray[np.float64],
    label: str,
    *,
    color: str,
    turned: bool,
    flat: bool,
) -> None:
    """Outside of its node, seen from the middle; along the radius where many share a circle."""
    angle = 90.0 if flat else float(np.degrees(np.arctan2(node[1], node[0])))
    x, y = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    left, beside = x < -1e-9, turned or abs(x) > 0.3
    beyond = "right" if left else "left"
    axes.annotate(
        textwrap.shorten(label, 24, placeholder="...") if len(label) > 24 else label,
        (node[0], node[1]),
        xytext=(9 * x, 9 * y),
        textcoords="offset points",
        rotation=(angle - 180 if left else angle) if turned else 0,
        rotation_mode="anchor",
        ha=beyond if beside else "center",
        va="center" if beside else ("bottom" if y >= 0 else "top"),
        color=color,
        fontsize=9,
        bbox={
            "boxstyle": "round,pad=0.1",
            "facecolor": "white",
            "edgecolor": "none",
            "alpha": 0.75,
        },
        parse_math=False,
        zorder=4,
    )


# Rankings


def ranking(
    blocks: Mapping[str, Sequence[tuple[str, str, float]]],
    path: str | Path,
    *,
    title: str,
    xlabel: str,
) -> None:
    """For each block its lines (label, group, value) as dots on a logarithmic scale, in order."""
    groups = dict.fromkeys(group for lines in blocks.values() for _, group, _ in lines)
    colors = dict(zip(groups, (_TRUTH, _INK, "#3a8f5c", "#7a5195"), strict=False))
    columns = 2 if len(blocks) > 1 else 1
    lengths = [len(lines) for lines in blocks.values()]
    heights = [1.2 + 0.23 * max(lengths[k : k + columns]) for k in range(0, len(blocks), columns)]
    longest = max(len(label) for lines in blocks.values() for label, _, _ in lines)
    figure, grid = plt.subplots(
        len(heights),
        columns,
        figsize=((4.2 + 0.075 * longest) * columns, sum(heights) + 0.8),
        height_ratios=heights,
        layout="constrained",
        squeeze=False,
    )
    for axes in grid.flat[len(blocks) :]:
        axes.set_axis_off()
    for axes, (name, lines) in zip(grid.flat, blocks.items(), strict=False):
        axes.set_xscale("log")
        for place, (_, group, value) in enumerate(lines):
            axes.plot(value, place, "o", color=colors[group], markersize=6)
        axes.set_yticks(range(len(lines)), [label for label, _, _ in lines], parse_math=False)
        axes.set_ylim(len(lines) - 0.4, -0.6)
        axes.xaxis.set_major_locator(_few_ticks([value for _, _, value in lines]))
        axes.xaxis.set_major_formatter(mpl.ticker.EngFormatter(sep=""))
        axes.xaxis.set_minor_formatter(mpl.ticker.NullFormatter())
        # Over the labels of the rows there is room, beyond the right end there is none.
        axes.set_title(textwrap.fill(name, 64), parse_math=False, loc="right")
        axes.set_xlabel(xlabel, loc="right")
        axes.grid(visible=True, color="#e6e6e6", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    handles = [
        mpl.lines.Line2D([], [], color=colors[g], marker="o", linestyle="none", label=g)
        for g in groups
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(groups), frameon=False)
    figure.suptitle(title, parse_math=False)
    _save(figure, path)


def _few_ticks(values: Sequence[float]) -> mpl.ticker.FixedLocator:
    """At most seven round numbers on a logarithmic scale, so that their labels do not meet."""
    some = [value for value in values if value > 0] or [1.0]
    low, high = min(some) / 1.2, max(some) * 1.2
    first, last = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high)))
    ticks: list[float] = []
    fine = (1, 1.5, 2, 3, 5, 7)
    for parts, every in ((fine, 1), ((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 4)):
        powers = (10.0**k for k in range(first, last + 1, every))
        ticks = [part * power for power in powers for part in parts if low <= part * power <= high]
        if len(ticks) <= 7:
            break
    return mpl.ticker.FixedLocator(ticks)


# Panels of curves


@dataclass(frozen=True)
class Curve:
    """Points of one colour, joined by a line, dashes or nothing; a label for the legend."""

    label: str
    x: npt.ArrayLike
    y: npt.ArrayLike
    color: str
    look: str = "line"
    """One of "line", "dashes", "marked" (points joined by a line) and "points"."""
    error: npt.ArrayLike | None = None
    """Half the length of each error bar."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes; `above` names a second scale on top, so many times the first."""

    title: str
    xlabel: str
    ylabel: str
    curves: Sequence[Curve]
    above: tuple[str, float] | None = None
    logs: str = "y"
    """Which axes are logarithmic: any of x and y."""
    line: float | None = None
    """A level to mark."""
    ticks: Sequence[float] | None = None
    """Where the x axis is labelled, if not left to matplotlib."""
    from_zero: bool = False
    """Whether the y axis starts at zero."""


def panels(
    rows: Sequence[Sequence[Panel]],
    paths: Sequence[Path],
    *,
    title: str,
    size: tuple[float, float] = (5.2, 3.9),
) -> None:
    """Rows of panels that share their y axis; a legend at the right of a row, where it is new."""
    width, height = max(map(len, rows)), len(rows)
    figure, grid = plt.subplots(
        height,
        width,
        figsize=(size[0] * width + 1.8, size[1] * height),
        layout="constrained",
        sharey="row",
        squeeze=False,
    )
    figure.suptitle(title)
    before: dict[str, object] = {}
    for places, row in zip(grid, rows, strict=True):
        for axes, panel in zip(places, row, strict=True):
            _draw(axes, panel)
        for axes in places[1:]:
            axes.set_ylabel("")
        named: dict[str, object] = {}
        for axes in places:
            handles, labels = axes.get_legend_handles_labels()
            named.update(zip(labels, handles, strict=True))
        if named.keys() != before.keys():
            places[-1].legend(
                named.values(),
                named.keys(),
                loc="center left",
                bbox_to_anchor=(1.02, 0.5),
                frameon=False,
            )
        before = named
    with mpl.rc_context({"svg.hashsalt": title}):
        for path in paths:
            dated = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, dpi=130, metadata=dated)
    plt.close(figure)


def _draw(axes: mpl.axes.Axes, panel: Panel) -> None:
    for letter in panel.logs:
        getattr(axes, f"set_{letter}scale")("log")
    if panel.line is not None:
        axes.axhline(panel.line, color="#888888", linewidth=0.8)
    for curve in panel.curves:
        axes.errorbar(
            curve.x,
            curve.y,
            yerr=curve.error,
            linestyle={"dashes": "--", "points": "none"}.get(curve.look, "-"),
            marker="o" if curve.look in ("marked", "points") else None,
            markersize=4,
            color=curve.color,
            linewidth=1.6,
            elinewidth=1,
            label=curve.label,
        )
    axes.set(title=panel.title, xlabel=panel.xlabel, ylabel=panel.ylabel)
    if panel.from_zero:
        axes.set_ylim(bottom=0)
    if panel.ticks is not None:
        axes.set_xticks(panel.ticks, [f"{tick:g}" for tick in panel.ticks])
        axes.minorticks_off()
    axes.grid(visible=True, color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if panel.above is not None:
        label, times = panel.above
        scales = (partial(_scaled, by=times), partial(_scaled, by=1 / times))
        axes.secondary_xaxis("top", functions=scales).set_xlabel(label)


def _scaled(x: npt.NDArray[np.float64], by: float) -> npt.NDArray[np.float64]:
    return x * by
