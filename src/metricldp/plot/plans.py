"""Chart of a plan: the error of the query and an adversary's risk against epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from metricldp.basics.errors import QueryError
from metricldp.basics.text import counted, plain
from metricldp.planning.target import FRACTION
from metricldp.plot.style import (
    GREY,
    INK,
    SMALL,
    TEXT,
    TRUTH,
    USUAL,
    add_title,
    log_ticks,
    new_figure,
    round_ticks,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from metricldp.planning.plan import Plan, Setting, TradeOff
    from metricldp.planning.risk import Risk

_BLUES = ("#6f9dbd", INK, "#4f8fb8")
"""For the fewest, the planned and the most respondents."""


def draw_plan(plan: Plan, settings: TradeOff | None = None) -> Figure:
    """Draw the error and, where it is known, an adversary's risk for several epsilons.

    `settings` is what `plan.trade_off()` returned, if you have called it before.
    """
    rows = (settings or plan.trade_off()).settings
    if len(rows) < 2:
        raise QueryError("there is nothing to draw; no other epsilon is possible")
    risks = [row.risk for row in rows if row.risk is not None and row.risk.after is not None]
    with_risk = len(risks) == len(rows)
    name, *others = rows[0].epsilons
    epsilons = [row.epsilons[name] for row in rows]
    figure = new_figure(4.2, 10 if with_risk else 6)
    panels = figure.subplots(1, 2 if with_risk else 1, squeeze=False)[0]
    _draw_errors(panels[0], plan, rows, epsilons)
    if with_risk:
        _draw_risks(panels[1], risks, epsilons)
    planned = next(row.epsilons[name] for row in rows if row.factor == 1)
    for axes in panels:
        axes.set_xscale("log")
        log_ticks(axes.xaxis, epsilons)
        axes.set_xlabel(f"epsilon of {name}" + (" (others in proportion)" if others else ""))
        axes.axvline(planned, color=GREY, linewidth=0.8, linestyle=":")
        look: dict[str, Any] = {"xytext": (4, 3), "textcoords": "offset points", "color": TEXT}
        text, where = f"planned: {plain(planned)}", ("data", "axes fraction")
        axes.annotate(text, (planned, 0), xycoords=where, fontsize=SMALL, **look)
        axes.legend(fontsize=SMALL, loc="best")
        tidy(axes, grid="both")
    add_title(figure, f"Error of {plan.target.words(plan.survey)}, {plan.target.assumption}")
    return figure


def _draw_errors(axes: Any, plan: Plan, rows: Sequence[Setting], epsilons: list[float]) -> None:
    """The error for fewer, for the planned and for more respondents, and the target."""
    target, every = plan.target, []
    times = 100 if target.query == FRACTION else 1
    axes.set_yscale("log")
    counts = list(rows[0].errors)
    for n, color, marker in zip((counts[0], plan.n, counts[-1]), _BLUES, "vo^", strict=True):
        errors = [times * row.errors[n] for row in rows]
        every += errors
        look = {"color": color, "markersize": 4, "label": counted(n, "respondent")}
        axes.plot(epsilons, errors, f"-{marker}", **look)
    label = f"target: {target.shown(target.error)}"
    axes.axhline(times * target.error, color=TRUTH, linestyle="--", label=label)
    log_ticks(axes.yaxis, [*every, times * target.error])
    axes.set_ylabel(target.measure + (f" ({target.unit})" if target.unit else ""))
    axes.set_title("Error", loc="left", fontsize=USUAL)


def _draw_risks(axes: Any, risks: Sequence[Risk], epsilons: list[float]) -> None:
    """An adversary's chance of a right guess with a report and without it."""
    after, before = [100 * (risk.after or 0.0) for risk in risks], [100 * r.before for r in risks]
    axes.plot(epsilons, after, "-o", color=INK, markersize=4, label="with the report")
    axes.plot(epsilons, before, "--", color=GREY, label="without the report")
    axes.set_ylim(0, 104)
    round_ticks(axes.yaxis)
    within = f" within {plain(risks[0].within)}" if risks[0].within else ""
    axes.set_ylabel(f"right guesses of {risks[0].attribute}{within} (%)")
    axes.set_title("Adversary", loc="left", fontsize=USUAL)
