"""Charts of tables of estimates; the kind of chart follows from the table.

Counts along a line of numbers are steps with a band, counts and fractions of names are bars, other
estimates are points, two groupings are a heat map, distribution functions are steps with their
simultaneous band, and waves are a line over time. A row whose group is not distinguishable from
empty has neither a bar nor a point: the chart shows its interval alone, as a thin line.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from metricldp.answers.circular import CircularMean
from metricldp.answers.quantiles import Cdf
from metricldp.answers.waves import WaveAnswers
from metricldp.basics.errors import QueryError
from metricldp.basics.optional import optional
from metricldp.basics.text import counted, plain
from metricldp.estimate.display import percent, rounded
from metricldp.estimate.table import EstimateTable, Grouping
from metricldp.plot.style import (
    BAND,
    FITTED,
    GREY,
    INK,
    TRUTH,
    USUAL,
    Floats,
    add_legend,
    add_title,
    label_some,
    new_axes,
    round_ticks,
    shortened,
    tidy,
    value_ticks,
    write_cells,
)
from metricldp.survey.explain import short_guarantee

if TYPE_CHECKING:
    import matplotlib as mpl
    from matplotlib import colors, ticker
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
else:
    mpl = optional("matplotlib")
    colors = optional("matplotlib.colors")
    ticker = optional("matplotlib.ticker")

MOST_ROWS = 120
"""Bars or points below each other in one chart."""
_SIZES = {
    "people": "people",
    "of respondents": "fraction of respondents",
    "of the group": "fraction of the group",
}
"""The units of counts and fractions, and how they are written along an axis."""
_MOST_TEXTS = 80, 10
"""A heat map of more cells, or of more columns, has no numbers in its cells."""
_DIFFERENCES = ", minus "
"""In the labels of tables of differences."""
_FITTED, _TRUE = "fitted, biased", "true value"
_EMPTY = "not distinguishable from empty"
_ZERO = "not distinguishable from zero"
_UNKNOWN = "cannot be estimated"


@dataclass(frozen=True)
class Series:
    """What a chart shows of each row of a table."""

    values: Floats
    low: Floats
    high: Floats
    clear: npt.NDArray[np.bool_]
    """Whether there is an estimate and, of a count or a fraction, an interval above zero."""
    others: dict[str, Floats]
    """True and fitted values, by their entry in the legend."""
    sizes: bool
    """Whether all rows are counts or fractions."""
    unit: str
    interval: str
    """The legend's entry for intervals."""
    label: str
    color: str
    levels: tuple[str, ...] = ()
    """Of quantiles of an ordinal attribute; values are positions in it."""
    period: tuple[float, float] | None = None
    """Of circular means: the smallest value and the period."""
    view: tuple[float, float] | None = None
    """The limits of the axis of values, if an interval runs beyond it."""

    @property
    def shown(self) -> Floats:
        """The values that are drawn: NaN where a row is not clear."""
        return np.where(self.clear, self.values, np.nan)

    @property
    def band(self) -> str:
        """The colour of a band of intervals."""
        return BAND if self.color == INK else f"{self.color}40"

    def scaled(self, factors: Floats) -> Series:
        """All numbers times a factor for each row."""
        others = {name: values * factors for name, values in self.others.items()}
        low, high = self.low * factors, self.high * factors
        return replace(self, values=self.values * factors, low=low, high=high, others=others)


def draw_table(
    table: EstimateTable,
    ax: Axes | None = None,
    *,
    confidence_level: float = 0.95,
    simultaneous: bool | None = None,
    truth: npt.ArrayLike | None = None,
    title: str | None = None,
    label: str = "estimate",
    color: str = INK,
) -> Axes:
    """Draw a table with its confidence intervals and return the Axes.

    Without `ax` the chart gets a figure of its own, with a title and the facts needed to read it.
    `simultaneous` intervals hold for all rows together. `truth` is a known value for each row, for
    demonstrations. `label` and `color` distinguish several tables in one Axes. Of a fitted
    distribution, both the fitted value and the unbiased estimate with its interval are drawn.
    """
    every = table._shows_all(simultaneous)
    kind = _kind(table)
    if not 1 <= len(table) <= MOST_ROWS and kind is _draw_rows:
        raise QueryError(
            f"a chart shows 1 to {MOST_ROWS} rows, not {len(table):,}; use wider bins or draw a "
            "part of the table, such as table.iloc[:50].plot()"
        )
    series = _series(table, confidence_level, every, truth, label, color)
    own = ax is None
    axes = new_axes(_height(table, kind)) if ax is None else ax
    kind(axes, table, series)
    if own:
        usual = table.label or "estimates"
        if isinstance(table, WaveAnswers):
            usual = f"{table.measure} over time"
        facts = _facts(table, confidence_level, every)
        add_title(axes.figure, title or f"{usual[:1].upper()}{usual[1:]}", facts)
    add_legend(axes, above=own, last=(series.interval, _EMPTY, _UNKNOWN, *series.others))
    if title and not own:
        axes.set_title(title, parse_math=False)
    return axes


def _kind(table: EstimateTable) -> Any:
    """The function that draws a table."""
    if isinstance(table, Cdf):
        return _draw_cdf
    if isinstance(table, WaveAnswers):
        return _draw_along
    if len(table.groupings) == 2 and _grid(table) is not None:
        return _draw_heat_map
    if len(table.groupings) == 1 and table.groupings[0].edges is not None:
        return _draw_steps if table.iloc[0].unit == "people" else _draw_along
    return _draw_rows


def _height(table: EstimateTable, kind: Any) -> float:
    """Of a figure, in inches."""
    if kind is _draw_rows:
        lines = sum(1 + text.count("\n") for text in _row_texts(table))
        return max(1.7 + 0.21 * lines, 2.4)
    if kind is _draw_heat_map:
        return min(max(1.9 + 0.26 * len(set(table.groupings[0].keys)), 3.0), 6.0)
    return 3.9


def _series(
    table: EstimateTable,
    confidence_level: float,
    every: bool,
    truth: npt.ArrayLike | None,
    label: str,
    color: str,
) -> Series:
    """The numbers of a table."""
    rows = [one for _, one in table]
    unbiased: list[Any] = [getattr(one, "unbiased", one) for one in rows]
    names: Sequence[str] = (
        unbiased[0].cdf.described.levels if isinstance(rows[0].value, str) else ()
    )
    levels = {name: float(place) for place, name in enumerate(names)}

    def numbers(column: Any) -> Floats:
        return np.array([levels[x] if isinstance(x, str) else x for x in column], dtype=np.float64)

    ends = table.confidence_interval(confidence_level, simultaneous=every)
    low, high = numbers(ends.low), numbers(ends.high)
    values = numbers([one.value for one in unbiased])
    if isinstance(table, Cdf):
        values = getattr(table, "unbiased", table).values
    sizes = all(one.unit in _SIZES and one.possible[0] >= 0 for one in rows)
    clear = np.array([bool(one.estimable) for one in rows])
    if sizes and not isinstance(table, Cdf):
        clear &= low > 0
    others = {}
    if any(one is not other for one, other in zip(rows, unbiased, strict=True)):
        others[_FITTED] = numbers([one.value for one in rows])
    if truth is not None:
        others[_TRUE] = numbers(np.asarray(truth).ravel().tolist())
        if len(others[_TRUE]) != len(rows):
            count = counted(len(others[_TRUE]), "value")
            raise QueryError(f"truth has {count} for {counted(len(rows), 'row')}; give one each")
    known = np.where(np.isfinite(values), np.clip(values, low, high), np.nan)
    interval = "band" if isinstance(table, Cdf) else "interval"
    interval = f"{percent(confidence_level)} confidence {interval}"
    found = Series(known, low, high, clear, others, sizes, _unit(table), interval, label, color)
    if isinstance(unbiased[0], CircularMean):
        found = _around(found, unbiased[0].low, unbiased[0].period)
    return _within_view(replace(found, levels=tuple(names)))


def _around(series: Series, low: float, period: float) -> Series:
    """Circular means moved by whole periods, each as near to the first one as it can be."""
    first = series.values[series.clear][:1]
    turns = period * np.round((series.values - (first if len(first) else low)) / period)

    def nearest(values: Floats) -> Floats:
        middle = series.values - turns
        return np.asarray(values - period * np.round((values - middle) / period))

    others = {name: nearest(values) for name, values in series.others.items()}
    start = np.where(series.clear, series.low - turns, -np.inf)
    end = np.where(series.clear, series.high - turns, np.inf)
    moved = replace(series, values=series.values - turns, low=start, high=end, others=others)
    return replace(moved, period=(low, period))


def _within_view(series: Series) -> Series:
    """Intervals cut off at a range of numbers: those of the rows that are clear, if there are any.

    The interval of a row without an estimate may cover everything that is possible.
    """
    if series.levels:
        return replace(series, view=(-0.3, len(series.levels) - 0.7))
    ends = [series.low, series.high]
    rows = series.clear if series.clear.any() and not series.sizes else np.full(len(ends[0]), True)
    numbers = np.concatenate([x[rows] for x in (series.values, *ends, *series.others.values())])
    numbers = numbers[np.isfinite(numbers)]
    least, most = (numbers.min(), numbers.max()) if len(numbers) else (0.0, 1.0)
    room = 0.05 * (most - least or 1.0)
    low, high = (np.clip(end, least - room, most + room) for end in ends)
    cut = (low != series.low).any() or (high != series.high).any()
    view = (float(least - room), float(most + room)) if cut else None
    return replace(series, low=low, high=high, view=view)


def _unit(table: EstimateTable) -> str:
    """What the numbers are, along an axis."""
    if isinstance(table, WaveAnswers):
        return table.measure
    units = {one.unit for _, one in table}
    unit = units.pop() if len(units) == 1 else "estimate"
    by = f" by {' and '.join(grouping.name for grouping in table.groupings)}"
    measure, by, rest = table.label.partition(by)
    if unit in _SIZES or not by:
        return _SIZES.get(unit, unit)
    return f"difference of {measure}" if _DIFFERENCES in rest else measure


# Kinds of charts ---------------------------------------------------------------------------------


def _draw_rows(axes: Axes, table: EstimateTable, series: Series) -> None:
    """A row for each label: a bar of a count or a fraction, a point of another estimate."""
    rows = np.arange(len(table), dtype=np.float64)
    if series.sizes and table.groupings:
        axes.axvline(0, color=GREY, linewidth=0.8)
        clear = series.clear
        if clear.any():
            look: dict[str, Any] = {"color": series.band, "height": 0.7, "label": series.label}
            axes.barh(rows[clear], series.values[clear], **look)
    else:
        axes.plot(series.shown, rows, "o", color=series.color, markersize=4.5, label=series.label)
    _draw_intervals(axes.hlines, rows, series)
    _draw_others(axes, series, rows, across=True)
    axes.set_yticks(rows, _row_texts(table), parse_math=False)
    axes.set_ylim(len(table) - 0.4, -0.6)
    axes.set_ylabel(", ".join(grouping.name for grouping in table.groupings))
    axes.set_xlabel(series.unit)
    _number_ticks(axes.xaxis, series)
    tidy(axes, grid="x")
    axes.tick_params(axis="y", length=0)


def _row_texts(table: EstimateTable) -> list[str]:
    """The label of each row, with its unit where units differ."""
    columns = [grouping.texts for grouping in table.groupings] or [[table.label]]
    texts = [", ".join(plain(text) for text in row) for row in zip(*columns, strict=True)]
    units = [one.unit for _, one in table]
    if len(set(units)) > 1:
        texts = [f"{text} ({unit})" for text, unit in zip(texts, units, strict=True)]
    return [textwrap.fill(textwrap.shorten(text, 96, placeholder="..."), 34) for text in texts]


def _draw_steps(axes: Axes, table: EstimateTable, series: Series) -> None:
    """Counts along a line of numbers; per unit of it if the groups differ in width."""
    (grouping,) = table.groupings
    edges = np.array(grouping.edges)
    widths, unit = np.diff(edges), series.unit
    if not np.allclose(widths, widths[0]):
        series, unit = series.scaled(1 / widths), f"{unit} per unit of {grouping.name}"
    bounds = [np.where(series.clear, end, np.nan) for end in (series.low, series.high)]
    axes.axhline(0, color=GREY, linewidth=0.8)
    band: dict[str, Any] = {"fill": True, "color": series.band, "label": series.interval}
    axes.stairs(bounds[1], edges, baseline=np.where(series.clear, bounds[0], 0.0), **band)
    look: dict[str, Any] = {"color": series.color, "linewidth": 1.5, "label": series.label}
    axes.stairs(series.shown, edges, baseline=None, **look)
    centres = (edges[:-1] + edges[1:]) / 2
    _draw_thin(axes.vlines, centres, series)
    _draw_others(axes, series, centres)
    axes.set_xlim(edges[0], edges[-1])
    axes.autoscale_view(scalex=False)
    axes.set_xlabel(grouping.name)
    axes.set_ylabel(unit)
    value_ticks(axes.xaxis, edges)
    round_ticks(axes.yaxis)
    tidy(axes)


def _draw_along(axes: Axes, table: EstimateTable, series: Series) -> None:
    """Points with intervals along a line of numbers; those of waves joined by a line."""
    (grouping,) = table.groupings
    waves, per = isinstance(table, WaveAnswers), grouping.name
    edges = np.array(grouping.edges or (0.0, 1.0))
    places = (edges[:-1] + edges[1:]) / 2
    if isinstance(table, WaveAnswers):
        places, per = np.array(table.waves.times), table.waves.per
    size = 4.5 if len(table) <= 40 else 3.0
    look: dict[str, Any] = {"linewidth": 1.4, "markersize": size, "label": series.label}
    axes.plot(places, series.shown, "o-" if waves else "o", color=series.color, **look)
    _draw_intervals(axes.vlines, places, series)
    _draw_others(axes, series, places)
    if waves or len(table) <= 12:
        label_some(axes, places.tolist(), grouping.texts)
    else:
        value_ticks(axes.xaxis, edges)
    axes.set_xlabel("" if per == "wave" else per)
    axes.set_ylabel(series.unit)
    _number_ticks(axes.yaxis, series)
    tidy(axes, grid="y")


def _draw_cdf(axes: Axes, table: Cdf, series: Series) -> None:
    """A distribution function with its band.

    Of bins only the fractions at their edges are known: the line between them is straight, and the
    band covers whatever lies between.
    """
    named, in_bins = table.described.named, table.described.in_bins
    ends = np.array(range(len(table)) if named else table.ends, dtype=np.float64)
    low, edges = series.low, np.append(ends, ends[-1] + 1)
    if in_bins:
        first = table.described.values_at(table.positions[0])[0]
        low, edges = np.append(0.0, low[:-1]), np.append(first, ends)
    band: dict[str, Any] = {"fill": True, "color": series.band, "label": series.interval}
    axes.stairs(series.high, edges, baseline=low, **band)
    others = dict(series.others)
    curves = {series.label: (series.values, series.color, "-")}
    if _FITTED in others:
        curves[_FITTED] = others.pop(_FITTED), FITTED, "--"
    if not series.clear.all():
        axes.plot([], [], " ", label=_EMPTY)
        curves = {}
    for name, (values, color, style) in curves.items():
        look: dict[str, Any] = {"color": color, "linestyle": style, "linewidth": 1.3, "label": name}
        if in_bins:
            axes.plot(edges, np.append(0.0, values), **look)
        else:
            axes.stairs(values, edges, baseline=None, **look)
    size = 2.5 if len(table) > 40 else 4.5
    _draw_others(axes, replace(series, others=others), ends, size=size)
    axes.set_xlim(edges[0], edges[-1])
    axes.set(ylim=(0, 1.02), ylabel="fraction at or below")
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    axes.set_xlabel(table.attribute)
    if named:
        label_some(axes, (ends + 0.5).tolist(), [plain(end) for end in table.ends])
    else:
        value_ticks(axes.xaxis, edges)
    tidy(axes, grid="both")


def _draw_heat_map(axes: Axes, table: EstimateTable, series: Series) -> None:
    """A cell for each pair of groups; a cross where the group is not distinguishable from empty."""
    rows, columns = _grid(table) or ([], [])
    down, across = (_cell_edges(g) for g in table.groupings)
    differences = _DIFFERENCES in table.label
    clear, note = series.clear, _EMPTY if series.sizes else _UNKNOWN
    if differences:
        clear, note = clear & ((series.low > 0) | (series.high < 0)), _ZERO
    shape = len(rows), len(columns)
    shown = np.ma.masked_array(series.values.reshape(shape), ~clear.reshape(shape))
    least, most = (float(shown.min()), float(shown.max())) if clear.any() else (0.0, 1.0)
    if series.sizes:
        least = 0.0
    elif differences:
        least, most = -max(-least, most), max(-least, most)
    shades = colors.ListedColormap(mpl.colormaps["Blues"](np.linspace(0.12, 1, 256)))
    scale: dict[str, Any] = {"cmap": mpl.colormaps["RdBu"] if differences else shades}
    mesh = axes.pcolormesh(across, down, shown, vmin=least, vmax=most, **scale)
    places = [(across[:-1] + across[1:]) / 2, (down[:-1] + down[1:]) / 2]
    centres = np.array([(x, y) for y, x in product(*places[::-1])])
    if not clear.all():
        axes.plot(*centres[~clear].T, "x", color=GREY, markersize=4)
    if len(table) <= _MOST_TEXTS[0] and len(columns) <= _MOST_TEXTS[1]:
        write_cells(axes, mesh, _cell_texts(table, series, clear), centres)
    axes.set(xlim=(across[0], across[-1]), ylim=(down[0], down[-1]))
    names = [g.name for g in table.groupings]
    axes.set_xlabel(names[1] if clear.all() else f"{names[1]}\n(x: {note})")
    axes.set_ylabel(names[0])
    if _label_cells(axes.yaxis, table.groupings[0], places[1]):
        axes.invert_yaxis()  # names are read downwards, numbers grow upwards
    if _label_cells(axes.xaxis, table.groupings[1], places[0]):
        label_some(axes, places[0].tolist(), list(dict.fromkeys(table.groupings[1].texts)))
    tidy(axes)
    axes.spines[:].set_visible(False)
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.02, aspect=30)
    round_ticks(bar.ax.yaxis, 6)
    bar.ax.tick_params(labelsize=USUAL)
    bar.set_label(series.unit, fontsize=USUAL, parse_math=False)
    bar.outline.set_visible(False)


def _grid(table: EstimateTable) -> tuple[list[Any], list[Any]] | None:
    """The groups along both sides, if the table has every pair of them."""
    rows, columns = (list(dict.fromkeys(grouping.keys)) for grouping in table.groupings)
    return (rows, columns) if table.labels == list(product(rows, columns)) else None


def _cell_edges(grouping: Grouping) -> Floats:
    """Where cells begin and end; those of names are all as wide."""
    count = len(dict.fromkeys(grouping.keys))
    known = grouping.edges is not None and len(grouping.edges) == count + 1
    return np.array(grouping.edges if known else np.arange(count + 1) - 0.5, np.float64)


def _label_cells(axis: Axis, grouping: Grouping, places: Floats) -> bool:
    """Round numbers along a line of numbers, else every name; returns whether these are names."""
    texts = [shortened(text) for text in dict.fromkeys(grouping.texts)]
    if grouping.edges is not None and len(grouping.edges) == len(texts) + 1:
        round_ticks(axis, 8, counts=False)
        return False
    axis.set_ticks(places.tolist(), texts, parse_math=False)
    axis.set_tick_params(length=0)
    return True


def _cell_texts(table: EstimateTable, series: Series, clear: npt.NDArray[np.bool_]) -> list[str]:
    """The estimate of each cell that has one, rounded to its error."""
    texts = []
    for (_, one), value, is_clear in zip(table, series.values.tolist(), clear, strict=True):
        text = rounded(value, one.stderr, whole=one.unit == "people")
        texts.append(text if is_clear else "")
    return texts


# Parts of charts ---------------------------------------------------------------------------------


def _draw_intervals(lines: Any, places: Floats, series: Series) -> None:
    """A line from the low to the high end of each row that is clear, and a thin one of others."""
    at = series.clear
    look: dict[str, Any] = {"color": series.color, "linewidth": 1.5, "label": series.interval}
    lines(places[at], series.low[at], series.high[at], **look)
    _draw_thin(lines, places, series)


def _draw_thin(lines: Any, places: Floats, series: Series) -> None:
    at = ~series.clear
    if at.any():
        note = _EMPTY if series.sizes else _UNKNOWN
        lines(places[at], series.low[at], series.high[at], color=GREY, linewidth=0.8, label=note)


def _draw_others(
    axes: Axes, series: Series, places: Floats, *, across: bool = False, size: float = 5.0
) -> None:
    """True and fitted values as markers."""
    looks: dict[str, dict[str, Any]] = {
        _TRUE: {"marker": ".", "color": TRUTH, "markersize": size + 1},
        _FITTED: {"marker": "D", "color": FITTED, "markerfacecolor": "white"},
    }
    for name, values in series.others.items():
        points = (values, places) if across else (places, values)
        look: dict[str, Any] = {"linestyle": "none", "markersize": size - 1, "label": name}
        axes.plot(*points, **(look | looks[name]))


def _number_ticks(axis: Axis, series: Series) -> None:
    """Round numbers, names of levels, or values modulo a period; and the limits of the axis."""
    round_ticks(axis, 6)
    if series.view is not None:
        axis.set_view_interval(*series.view, ignore=True)
    if series.levels:
        axis.set_ticks(range(len(series.levels)), series.levels, parse_math=False)
    elif series.period is not None:
        low, period = series.period
        axis.set_major_formatter(ticker.FuncFormatter(lambda x, _: plain((x - low) % period + low)))


# Facts -------------------------------------------------------------------------------------------


def _facts(table: EstimateTable, confidence_level: float, every: bool) -> list[str]:
    """The kind of intervals, the number of reports and the privacy guarantee."""
    rows = [one for _, one in table]
    kind = "confidence band" if isinstance(table, Cdf) else "confidence intervals"
    parts = [f"{percent(confidence_level)} {'simultaneous ' if every else ''}{kind}"]
    numbers = sorted({one.n for one in rows if one.n})
    if numbers:
        text = counted(numbers[0], "report")
        text = text if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,} reports"
        each = " each" if isinstance(table, WaveAnswers) or len(numbers) > 1 else ""
        parts.append(f"{text}{each}")
    if rows[0].target == "population":
        parts.append("estimates for the population from which respondents were sampled")
    survey = next((one.survey for one in rows if one.survey is not None), None)
    names = [grouping.name for grouping in table.groupings] + sorted({one.unit for one in rows})
    if isinstance(table, WaveAnswers):
        names = sorted(table._names)
    guarantee = "" if survey is None else f"Guarantee: {short_guarantee(survey, names)}."
    return [f"{'; '.join(parts)}.", guarantee]
