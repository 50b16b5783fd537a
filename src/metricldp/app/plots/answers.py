"""Pictures of answers: histograms and distribution functions with their intervals."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from metricldp.answers.answer import percent
from metricldp.answers.answer_table import Histogram
from metricldp.answers.quantiles import Cdf
from metricldp.app.plots.shared import (
    BAND,
    INK,
    TRUTH,
    ZERO,
    Floats,
    label_some,
    new_figure,
    open_axes,
    save,
)
from metricldp.basics.optional import optional
from metricldp.basics.text import plain

if TYPE_CHECKING:
    from matplotlib import ticker
    from matplotlib.figure import Figure
else:
    ticker = optional("matplotlib.ticker")

_TRUTH_LABEL = "truth (never collected)"
_TALLEST = 40.0
"""Inches; more names than fit are drawn on top of each other."""


def histogram(
    bars: Histogram,
    path: str | Path,
    *,
    title: str,
    truth: npt.ArrayLike | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
) -> None:
    """A histogram with its intervals, and the truth beside it where it is known.

    Numbers run along a line with a band of intervals; names stand below each other, each with an
    interval of its own.
    """
    draw = _draw_names if bars.named else _draw_numbers
    label = f"{percent(level)} interval" + (" for all" if simultaneous else "")
    ends = _ends(bars, level, simultaneous)
    figure = draw(bars, ends, label, None if truth is None else np.asarray(truth))
    axes = figure.axes[0]
    axes.set_title(title, parse_math=False)
    open_axes(axes)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    save(figure, [path])


def _draw_numbers(bars: Histogram, ends: Floats, label: str, truth: Floats | None) -> Figure:
    positions = np.arange(len(bars))
    edges = np.concatenate([positions - 0.5, positions[-1:] + 0.5])
    figure = new_figure(9, 4.5)
    axes = figure.subplots()
    axes.axhline(0, color=ZERO, linewidth=0.8)
    axes.stairs(ends[:, 1], edges, baseline=ends[:, 0], fill=True, color=BAND, label=label)
    axes.stairs(bars.values, edges, baseline=None, color=INK, linewidth=1.6, label="estimate")
    if truth is not None:
        axes.plot(positions, truth, ".", color=TRUTH, markersize=6, label=_TRUTH_LABEL)
    label_some(axes, bars.labels)
    axes.set_xlim(edges[0], edges[-1])
    low, high = min(0.0, ends.min()), max(0.0, ends.max())
    axes.update_datalim([(0, low), (0, high)])
    axes.use_sticky_edges = False
    axes.autoscale_view(scalex=False)
    axes.set_xlabel(bars.attribute, parse_math=False)
    axes.set_ylabel(bars[0].unit)
    axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    return figure


def _draw_names(bars: Histogram, ends: Floats, label: str, truth: Floats | None) -> Figure:
    labels = ["\n".join(textwrap.wrap(name, 40)) for name in bars.labels]
    lines = sum(1 + name.count("\n") for name in labels)
    positions = np.arange(len(bars))
    figure = new_figure(9, min(max(1.8 + 0.26 * lines, 3.0), _TALLEST))
    axes = figure.subplots()
    axes.axvline(0, color=ZERO, linewidth=0.8)
    axes.barh(positions, bars.values, height=0.7, color=BAND, label="estimate")
    axes.errorbar(
        bars.values,
        positions,
        xerr=np.abs(ends.T - bars.values),
        fmt="none",
        ecolor=INK,
        elinewidth=1.6,
        capsize=3,
        label=label,
    )
    if truth is not None:
        axes.plot(truth, positions, ".", color=TRUTH, markersize=6, label=_TRUTH_LABEL)
    axes.set_yticks(positions, labels, parse_math=False)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_ylabel(bars.attribute, parse_math=False)
    axes.set_xlabel(bars[0].unit)
    axes.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    return figure


def _ends(bars: Histogram, level: float, simultaneous: bool) -> Floats:
    """The ends of the intervals; an infinite one, which nothing can show, is none."""
    ends = np.column_stack(bars.interval(level, simultaneous=simultaneous))
    return np.where(np.isfinite(ends), ends, bars.values[:, None])


def cdf(
    shares: Cdf,
    path: str | Path,
    *,
    title: str,
    truth: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> None:
    """A distribution function with its simultaneous band, and the truth where it is known."""
    low, high = shares.interval(level, simultaneous=True)
    positions = np.arange(len(low))
    figure = new_figure(9, 4.5)
    axes = figure.subplots()
    axes.fill_between(positions, low, high, step="post", color=BAND, label=f"{percent(level)} band")
    axes.step(positions, shares.values, where="post", color=INK, linewidth=1.6, label="estimate")
    if truth is not None:
        axes.plot(positions, np.asarray(truth), ".", color=TRUTH, label=_TRUTH_LABEL)
    label_some(axes, [plain(end) for end in shares.ends])
    axes.set_xlabel(shares.attribute, parse_math=False)
    axes.set_title(title, parse_math=False)
    axes.set(ylabel="share at or below", ylim=(0, 1.02))
    axes.set_xlim(positions[0] - 0.5, positions[-1] + 0.5)
    open_axes(axes)
    axes.legend(frameon=False)
    save(figure, [path])
