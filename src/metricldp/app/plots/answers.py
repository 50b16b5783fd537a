"""Pictures of answers: histograms and distribution functions with their intervals."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from metricldp.answers.answer import Answer, percent
from metricldp.answers.answer_table import Histogram
from metricldp.answers.quantiles import Cdf
from metricldp.answers.queries import EVERYBODY
from metricldp.app.plots.shared import (
    BAND,
    INK,
    TRUTH,
    WIDE,
    ZERO,
    Floats,
    finish,
    framed,
    label_some,
    legend_above,
    new_figure,
    open_axes,
    round_ticks,
    value_ticks,
)
from metricldp.app.words import promise_in_short
from metricldp.basics.text import counted, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TRUTH_LABEL = "truth (never collected)"
_TALLEST = 40.0
"""Inches; more names than fit are drawn on top of each other."""


def facts(
    answers: Sequence[Answer],
    names: Sequence[str],
    told: str,
    promise: str | None = None,
    note: str = "",
    collected: int | None = None,
) -> list[str]:
    """What a picture says below: how to read it, from whom it is, and what they were promised."""
    reports = sorted({one.reports for one in answers if one.survey or one.reports})
    if collected is not None:
        reports = [collected]
    people = "".join(f"from {counted(n, 'blurred report')}" for n in reports[:1])
    if len(reports) > 1:
        people = f"from {reports[0]:,} to {reports[-1]:,} blurred reports each"
    survey = next((one.survey for one in answers if one.survey is not None), None)
    if promise is None and survey is not None:
        promise = promise_in_short(survey, names)
    about = {"population": "about the population that they were drawn from"}
    drawn = about.get(answers[0].about, "") if answers else ""
    first = ", ".join(part for part in (told, people, drawn) if part)
    first = f"{first}; {note}" if note else first
    return [f"{first[:1].upper()}{first[1:]}.", f"Promise: {promise}." if promise else ""]


def among(question: str, asked: str) -> str:
    """The conditions of a question, after the part of it that is known."""
    rest = question.removeprefix(asked)
    return rest if rest.startswith(" among ") and rest != f" among {EVERYBODY}" else ""


def outside(values: Floats, ends: Floats) -> str:
    """A word of warning where an interval does not hold its estimate."""
    off = (values < ends[:, 0]) | (values > ends[:, 1])
    return "an estimate outside its interval is the noisier of the two" if off.any() else ""


def histogram(
    bars: Histogram,
    path: str | Path | None = None,
    *,
    title: str | None = None,
    truth: npt.ArrayLike | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
    density: bool | None = None,
    promise: str | None = None,
) -> Figure:
    """A histogram with its intervals, and the truth beside it where it is known.

    Numbers run along a line, each bar as wide as it is, with a band of intervals; names stand below
    each other, each with an interval of its own. Bars of different widths, but for a last one that
    is shorter, show people per unit, so that areas can be compared; `density` decides otherwise.
    """
    told = f"{percent(level)} interval" + (" for all" if simultaneous else "")
    each = ", which hold for all bars together" if simultaneous else ", each for its own bar"
    ends = _ends(bars, level, simultaneous)
    shown = None if truth is None else np.asarray(truth, dtype=np.float64)
    if bars.named:
        figure, note = _draw_names(bars, ends, told, shown), ""
    else:
        figure, note = _draw_numbers(bars, ends, told, shown, density)
    axes = figure.axes[0]
    open_axes(axes)
    legend_above(axes)
    noted = "; ".join(words for words in (note, outside(bars.values, ends)) if words)
    read = facts(list(bars), [bars.attribute], f"{percent(level)} intervals{each}", promise, noted)
    group = among(bars[0].question, f"{bars.attribute} {bars.labels[0]}")
    framed(figure, title or f"People by {bars.attribute}{group}", read)
    return finish(figure, path)


def _draw_numbers(
    bars: Histogram, ends: Floats, label: str, truth: Floats | None, density: bool | None
) -> tuple[Figure, str]:
    places = np.arange(len(bars) + 1) - 0.5
    edges = places if bars.edges is None else np.array(bars.edges)
    widths, note, unit, by = np.diff(edges), "", bars[0].unit, np.ones(len(bars))
    if not np.allclose(widths[:-1], widths[0]) or widths[-1] > widths[0] * 1.001:
        density = True if density is None else density
    elif not np.isclose(widths[-1], widths[0]):
        note = "the last bar is narrower"
    if density:
        by, unit = widths, f"{unit} per unit of {bars.attribute}"
    figure = new_figure(WIDE, 3.9)
    axes = figure.subplots()
    axes.axhline(0, color=ZERO, linewidth=0.8)
    low, high = ends.T / by
    axes.stairs(high, edges, baseline=low, fill=True, color=BAND, label=label)
    axes.stairs(bars.values / by, edges, baseline=None, color=INK, linewidth=1.5, label="estimate")
    if truth is not None:
        middles = (edges[:-1] + edges[1:]) / 2
        axes.plot(middles, truth / by, ".", color=TRUTH, markersize=6, label=_TRUTH_LABEL)
    if bars.edges is None:
        label_some(axes, bars.labels)
    else:
        value_ticks(axes.xaxis, edges)
    axes.set_xlim(edges[0], edges[-1])
    least, most = min(0.0, low.min()), max(0.0, high.max())
    axes.update_datalim([(edges[0], least), (edges[0], most)])
    axes.use_sticky_edges = False
    axes.autoscale_view(scalex=False)
    axes.set_xlabel(bars.attribute, parse_math=False)
    axes.set_ylabel(unit, parse_math=False)
    round_ticks(axes.yaxis)
    return figure, note


def _draw_names(bars: Histogram, ends: Floats, label: str, truth: Floats | None) -> Figure:
    labels = ["\n".join(textwrap.wrap(name, 40)) for name in bars.labels]
    lines = sum(1 + name.count("\n") for name in labels)
    positions = np.arange(len(bars))
    figure = new_figure(WIDE, min(max(1.6 + 0.21 * lines, 2.6), _TALLEST))
    axes = figure.subplots()
    axes.axvline(0, color=ZERO, linewidth=0.8)
    axes.barh(positions, bars.values, height=0.7, color=BAND, label="estimate")
    axes.errorbar(
        bars.values,
        positions,
        xerr=np.abs(ends.T - bars.values),
        fmt="none",
        ecolor=INK,
        elinewidth=1.4,
        capsize=2.5,
        label=label,
    )
    if truth is not None:
        axes.plot(truth, positions, ".", color=TRUTH, markersize=6, label=_TRUTH_LABEL)
    axes.set_yticks(positions, labels, parse_math=False)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_ylabel(bars.attribute, parse_math=False)
    axes.set_xlabel(bars[0].unit)
    round_ticks(axes.xaxis)
    return figure


def _ends(bars: Histogram, level: float, simultaneous: bool) -> Floats:
    """The ends of the intervals; an infinite one, which nothing can show, is none."""
    ends = np.column_stack(bars.interval(level, simultaneous=simultaneous))
    return np.where(np.isfinite(ends), ends, bars.values[:, None])


def cdf(
    shares: Cdf,
    path: str | Path | None = None,
    *,
    title: str | None = None,
    truth: npt.ArrayLike | None = None,
    level: float = 0.95,
    promise: str | None = None,
) -> Figure:
    """A distribution function with its simultaneous band, and the truth where it is known.

    Of whole numbers it is a line of steps. Of bins only the shares at their edges are known: the
    line between is straight, and the band holds whatever lies between.
    """
    low, high = shares.interval(level, simultaneous=True)
    figure = new_figure(WIDE, 3.9)
    axes = figure.subplots()
    _draw_shares(axes, shares, low, high, f"{percent(level)} band")
    if truth is not None:
        ends = np.arange(len(shares)) if shares.described.named else np.array(shares.ends)
        axes.plot(ends, np.asarray(truth), ".", color=TRUTH, markersize=4, label=_TRUTH_LABEL)
    axes.set_xlabel(shares.attribute, parse_math=False)
    axes.set(ylabel="share at or below", ylim=(0, 1.02))
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    open_axes(axes, grid=True)
    legend_above(axes)
    told = f"the whole curve lies in the band with {percent(level)} confidence"
    read = facts(list(shares), [shares.attribute], told, promise)
    group = among(shares.question, shares.attribute)
    framed(figure, title or f"Share of people up to each value of {shares.attribute}{group}", read)
    return finish(figure, path)


def _draw_shares(axes: Axes, shares: Cdf, low: Floats, high: Floats, label: str) -> None:
    named, in_bins = shares.described.named, shares.described.in_bins
    ends = np.arange(len(low), dtype=np.float64) if named else np.array(shares.ends, np.float64)
    edges = np.append(ends, 2 * ends[-1] - ends[-2] if len(ends) > 1 else ends[-1] + 1)
    if in_bins:
        first = float(shares.described.values_at(shares.positions[0])[0])
        edges, low = np.append(first, ends), np.append(0.0, low[:-1])
    axes.stairs(high, edges, baseline=low, fill=True, color=BAND, label=label)
    look: dict[str, Any] = {"color": INK, "linewidth": 1.2, "label": "estimate"}
    if in_bins:
        axes.plot(edges, np.append(0.0, shares.values), **look)
    else:
        axes.stairs(shares.values, edges, baseline=None, **look)
    axes.set_xlim(edges[0], edges[-1])
    if named:
        label_some(axes, [plain(end) for end in shares.ends])
    else:
        value_ticks(axes.xaxis, edges)
