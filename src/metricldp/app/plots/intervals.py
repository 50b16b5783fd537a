"""Dots with their intervals: one for each label below the other, or in the order of time."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metricldp.answers.answer import Answer, percent
from metricldp.answers.answer_table import Answers
from metricldp.answers.differences import Groups
from metricldp.answers.waves import WaveAnswers
from metricldp.app.plots.answers import among, facts, outside
from metricldp.app.plots.curves import End, label_ends
from metricldp.app.plots.shared import (
    GREY,
    GRID,
    INK,
    WIDE,
    ZERO,
    Floats,
    finish,
    framed,
    hue,
    laid_out,
    new_figure,
    open_axes,
    round_ticks,
)
from metricldp.basics.errors import QueryError
from metricldp.basics.optional import optional
from metricldp.basics.text import counted, plain

if TYPE_CHECKING:
    from matplotlib import dates
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    dates = optional("matplotlib.dates")

MOST_ROWS = 120
"""Dots below each other; a picture of more is no picture."""


def intervals(
    found: Answers,
    path: str | Path | None = None,
    *,
    title: str | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
    promise: str | None = None,
) -> Figure:
    """Any answers: for each label a dot and its interval, one below the other."""
    _check_rows(len(found))
    ends = np.column_stack(found.interval(level, simultaneous=simultaneous))
    figure, (axes,) = _rows(found.labels, 1)
    _draw_rows(axes, found.values, ends, found[0].unit)
    axes.set_ylabel(found.attribute, parse_math=False)
    each = ", which hold for all rows together" if simultaneous else ", each for its own row"
    names = [found.attribute] if found.attribute else []
    told, off = f"{percent(level)} intervals{each}", outside(found.values, ends)
    read = facts(list(found), names, told, promise, off)
    group = among(found[0].question, f"{found.attribute} {found.labels[0]}")
    usual = f"{found[0].unit.capitalize()} by {found.attribute}{group}"
    framed(figure, title or (usual if found.attribute else "Answers"), read)
    return finish(figure, path)


def groups(
    found: Groups,
    path: str | Path | None = None,
    *,
    title: str | None = None,
    level: float = 0.95,
    promise: str | None = None,
) -> Figure:
    """Groups beside their differences from one of them, each with its interval.

    The right-hand panel shows whether two groups differ: answers from the same reports share their
    noise, so that intervals at the left may overlap although the difference is clear.
    """
    _check_rows(len(found.labels))
    figure, (left, right) = _rows(found.labels, 2)
    _draw_rows(left, *_found(found.answers, level), found.answers[0].unit)
    left.set_ylabel(found.by, parse_math=False)
    _draw_rows(right, *_found(found.differences, level), f"difference from {found.against}", (0.0,))
    right.axvline(0, color=ZERO, linewidth=0.8)
    what = "People" if found.measure is None else found.measure.words.capitalize()
    names = [found.by] if found.measure is None else [found.by, found.measure.attribute]
    read = facts(found.answers, names, f"{percent(level)} intervals, each for itself", promise)
    group = f" among {found.among}" if found.among else ""
    framed(figure, title or f"{what} by {found.by}{group}", read)
    return finish(figure, path)


def _check_rows(count: int) -> None:
    if not 1 <= count <= MOST_ROWS:
        raise QueryError(
            f"a picture has 1 to {MOST_ROWS} rows, not {count:,}; ask for wider bars, or draw some "
            "of the answers, such as answers[:50]"
        )


def _rows(labels: Sequence[str], columns: int) -> tuple[Figure, Sequence[Axes]]:
    """Axes beside each other, with the labels at the left of the first."""
    told = [textwrap.fill(textwrap.shorten(label, 96), 34) for label in labels]
    lines = sum(1 + label.count("\n") for label in told)
    figure = new_figure(WIDE, max(1.5 + 0.19 * lines, 2.2))
    axes = figure.subplots(1, columns, sharey=True, squeeze=False)[0]
    axes[0].set_yticks(range(len(labels)), told, parse_math=False)
    axes[0].set_ylim(len(labels) - 0.5, -0.5)
    return figure, axes


def _found(answers: Sequence[Answer | None], level: float) -> tuple[Floats, Floats]:
    """Values and ends, nothing where there is no answer."""
    values = [math.nan if one is None else one.value for one in answers]
    ends = [(math.nan, math.nan) if one is None else one.interval(level) for one in answers]
    return np.array(values), np.array(ends, np.float64).reshape(-1, 2)


def _draw_rows(
    axes: Axes, values: Floats, ends: Floats, unit: str, also: tuple[float, ...] = ()
) -> None:
    """Infinite intervals reach to the end of the axes, and do not move it."""
    rows = np.arange(len(values))
    there = np.concatenate([values, ends.ravel(), also])
    there = there[np.isfinite(there)]
    low, high = float(there.min(initial=0)), float(there.max(initial=0))
    if len(there):
        low, high = float(there.min()), float(there.max())
    room = 0.05 * (high - low or 1.0)
    shown = np.clip(ends, low - room, high + room)
    axes.hlines(rows, shown[:, 0], shown[:, 1], color=INK, linewidth=1.4)
    axes.plot(values, rows, "o", color=INK, markersize=4.5)
    axes.set_xlim(low - room, high + room)
    round_ticks(axes.xaxis, 5)
    axes.set_xlabel(unit, parse_math=False)
    open_axes(axes)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=True, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


# In the order of time


def trend(
    answers: Sequence[Answer] | Mapping[str, Sequence[Answer]],
    times: Sequence[Any],
    path: str | Path | None = None,
    *,
    title: str = "Over time",
    xlabel: str = "",
    ylabel: str | None = None,
    labels: Sequence[str] | None = None,
    level: float = 0.95,
    promise: str | None = None,
) -> Figure:
    """Answers to the same question at several times, with their intervals; for one or many groups.

    `times` are numbers, dates or words, one for each answer, and each has reports of its own;
    `labels` are what to write at numbers. Many groups are a dict of names and answers: the first
    six are in colour, and each name stands at the end of its line.
    """
    named = dict(answers) if isinstance(answers, Mapping) else {"": answers}
    every = [one for found in named.values() for one in found]
    if not every:
        raise QueryError("a trend needs answers; there are none")
    for name, found in named.items():
        if len(found) != len(times):
            told = f"{name}: " if name else ""
            count = counted(len(found), "answer")
            raise QueryError(f"{told}{count} at {counted(len(times), 'time')}; give one for each")
    figure = new_figure(WIDE, 3.6)
    axes = figure.subplots()
    words = all(isinstance(time, str) for time in times)
    x: Any = np.arange(len(times)) if words else np.asarray(times)
    apart = _apart(x, len(named))
    ends = []
    for place, (name, found) in enumerate(named.items()):
        color, values = hue(place) if name else INK, [one.value for one in found]
        low, high = np.array([one.interval(level) for one in found]).T
        at = x if apart is None else x + (place - (len(named) - 1) / 2) * apart
        axes.vlines(at, low, high, color=color, linewidth=1.0 if color == GREY else 1.3)
        axes.plot(at, values, "o-", color=color, linewidth=1.4, markersize=3.5)
        ends.append(End(name, _number(axes, at[-1]), values[-1], color))
    axes.set_ylabel(every[0].unit if ylabel is None else ylabel, parse_math=False)
    axes.set_xlabel(xlabel, parse_math=False)
    if words or np.issubdtype(x.dtype, np.number):
        step = -(-len(times) // 10)
        written = labels or [plain(time) for time in (times if words else x.tolist())]
        axes.set_xticks(x[::step], list(written)[::step], parse_math=False)
    else:
        days = dates.AutoDateLocator(maxticks=8)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(days)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(days))  # type: ignore
    round_ticks(axes.yaxis)
    open_axes(axes, grid=True)
    axes.xaxis.grid(visible=False)
    below = f"{percent(level)} intervals, each for itself"
    reports = sum(max(one.reports for one in wave) for wave in zip(*named.values(), strict=True))
    read = facts(every, [every[0].unit], below, promise, collected=reports or None)
    framed(figure, title, read)
    if len(named) > 1:
        laid_out(figure)
        label_ends(axes, ends)
    return finish(figure, path)


def waves(
    found: WaveAnswers,
    path: str | Path | None = None,
    *,
    title: str | None = None,
    **look: Any,
) -> Figure:
    """Waves of a survey in the order of time; it takes what `trend` takes."""
    per = found.waves.per
    look = {"xlabel": "" if per == "wave" else per, "ylabel": found.measure, **look}
    title = title or f"{found.measure[:1].upper()}{found.measure[1:]} over time"
    rows, times = list(found), found.waves.times
    return trend(rows, times, path, title=title, labels=found.labels, **look)


def _number(axes: Axes, time: Any) -> float:
    """A time as the axis counts it."""
    return float(axes.xaxis.convert_units(time))  # type: ignore[no-untyped-call]


def _apart(x: Any, count: int) -> float | None:
    """So far beside each other stand the intervals of groups; dates are not moved."""
    if count < 2 or not np.issubdtype(x.dtype, np.number) or len(x) < 2:
        return None
    return 0.25 * float(np.diff(x).min()) / count
