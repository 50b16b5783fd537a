"""The picture of a plan: errors and an attacker's guesses against epsilon, side by side."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from metricldp.app.plots.shared import BAND, INK, TRUTH, ZERO, new_figure, open_axes, save
from metricldp.basics.errors import QueryError
from metricldp.basics.optional import optional
from metricldp.basics.text import counted, plain
from metricldp.lab.plans import Plan

if TYPE_CHECKING:
    from matplotlib import ticker
    from matplotlib.axes import Axes
else:
    ticker = optional("matplotlib.ticker")

_BLUES = (BAND, INK, "#4f8fb8")
"""Few people light, many in between, as many as advised dark: told apart by labels as well."""
_FEWEST = 2
"""Points that make a curve."""


def trade_off(plan: Plan, path: str | Path) -> None:
    """Two panels over the same epsilons: what the analyst has, and what an attacker has."""
    rows = plan.trade_off
    if len(rows) < _FEWEST:
        raise QueryError("there is nothing to draw; no other epsilon can be made")
    guessed = all(row.guess and row.guess["after"] is not None for row in rows)
    name, *others = rows[0].epsilons
    x = [row.epsilons[name] for row in rows]
    figure = new_figure(11 if guessed else 6.5, 4.4)
    panels = figure.subplots(1, 2 if guessed else 1, squeeze=False)[0]
    _errors(panels[0], plan, x)
    if guessed:
        _guesses(panels[1], plan, x)
    along = f"epsilon of {name}" + (" (others in proportion)" if others else "")
    for axes in panels:
        axes.set_xscale("log")
        axes.set_xlim(x[0] / 1.1, x[-1] * 2.6)
        axes.set_xlabel(along, parse_math=False)
        _round_ticks(axes, "x", x)
        axes.axvline(x[_advised(plan)], color=ZERO, linewidth=0.8, linestyle=":")
        axes.annotate(
            f"{'advised' if plan.find == 'epsilon' else 'as planned'}: {plain(x[_advised(plan)])}",
            (x[_advised(plan)], 0.02),
            xycoords=("data", "axes fraction"),
            xytext=(4, 0),
            textcoords="offset points",
            color="#666666",
            fontsize=9,
        )
        open_axes(axes, grid=True)
    words = plan.wish.words(plan.survey)
    figure.suptitle(f"Error of {words}, {plan.wish.spread}", parse_math=False, fontsize=11)
    save(figure, [path])


def _advised(plan: Plan) -> int:
    return next(place for place, row in enumerate(plan.trade_off) if row.factor == 1)


def _errors(axes: Axes, plan: Plan, x: list[float]) -> None:
    wish, times = plan.wish, 100 if plan.wish.kind == "fraction" else 1
    fewest, most = plan.people[0], plan.people[-1]
    axes.set_yscale("log")
    every = []
    for people, color in zip((fewest, plan.n, most), _BLUES, strict=True):
        y = [times * row.errors[people] for row in plan.trade_off]
        every += y
        axes.plot(x, y, "-o", color=color, markersize=4, linewidth=1.8)
        label = counted(people, "person", "people")
        _beside(axes, x[-1], y[-1], label, color if color != BAND else "#6f9dbd")
    wanted = times * wish.error
    axes.axhline(wanted, color=TRUTH, linewidth=1.2, linestyle="--")
    axes.annotate(
        f"wanted: ± {wish.shown(wish.error)}",
        (1, wanted),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        color=TRUTH,
        ha="right",
        fontsize=9,
    )
    at = _advised(plan)
    axes.plot(x[at], times * plan.error, "o", color=TRUTH, markersize=9, markerfacecolor="none")
    _round_ticks(axes, "y", [*every, wanted])
    meant = "standard error" if wish.measure == "stderr" else "half of the interval"
    axes.set_ylabel(f"± error in {wish.unit} ({meant})", parse_math=False)
    axes.set_title("what the analyst has", loc="left", fontsize=10)


def _guesses(axes: Axes, plan: Plan, x: list[float]) -> None:
    guesses = [row.guess or {} for row in plan.trade_off]
    before, after = ([100 * guess[when] for guess in guesses] for when in ("before", "after"))
    axes.plot(x, after, "-o", color=INK, markersize=4, linewidth=1.8)
    axes.plot(x, before, color=ZERO, linewidth=1.4, linestyle="--")
    _beside(axes, x[-1], after[-1], "after one report", INK)
    _beside(axes, x[-1], before[-1], "before any report", "#666666")
    name = next(iter(plan.trade_off[0].epsilons))
    axes.set(ylim=(0, 104), yticks=range(0, 101, 20))
    what = guesses[0]["of"]
    axes.set_ylabel(f"right guesses of {name}, {what} (%)", parse_math=False)
    axes.set_title("what an attacker has", loc="left", fontsize=10)


def _beside(axes: Axes, x: float, y: float, text: str, color: str) -> None:
    """A label at the end of its curve."""
    axes.annotate(
        text,
        (x, y),
        xytext=(6, 0),
        textcoords="offset points",
        color=color,
        va="center",
        fontsize=9,
    )


def _round_ticks(axes: Axes, which: str, values: list[float]) -> None:
    """At 1, 2 and 5 times powers of ten or, over many of them, at the powers."""
    low, high = min(values), max(values)
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    parts = (1, 2, 5) if high / low < 1e4 else (1,)
    ticks = [part * 10.0**power for power in powers for part in parts]
    kept = [tick for tick in ticks if low / 1.3 <= tick <= high * 1.3]
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(ticker.FixedLocator(kept))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: plain(float(f"{value:.3g}"))))
