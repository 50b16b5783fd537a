"""Pictures. The only module that imports matplotlib."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt

from metricldp.answers import Histogram

mpl.use("Agg")

import matplotlib.pyplot as plt

_INK, _BAND, _TRUTH = "#1b4965", "#9ec5e0", "#d1495b"


def histogram(
    bars: Histogram,
    path: str | Path,
    *,
    title: str,
    truth: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> None:
    """A histogram with the band of its intervals, and the truth beside it where it is known."""
    values = np.array([answer.value for answer in bars])
    ends = np.array([answer.interval(level) for answer in bars])
    places = np.arange(len(bars))
    edges = np.concatenate([places - 0.5, places[-1:] + 0.5])
    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    axes.axhline(0, color="#888888", linewidth=0.8)
    axes.stairs(
        ends[:, 1],
        edges,
        baseline=ends[:, 0],
        fill=True,
        color=_BAND,
        label=f"{level:.0%} interval",
    )
    axes.stairs(values, edges, baseline=None, color=_INK, linewidth=1.6, label="estimate")
    if truth is not None:
        axes.plot(
            places,
            np.asarray(truth),
            ".",
            color=_TRUTH,
            markersize=6,
            label="truth (never collected)",
        )
    step = max(1, -(-len(bars) // 12))
    axes.set_xticks(places[::step], [bars.labels[k] for k in places[::step]])
    if max(len(label) for label in bars.labels) > 9:
        axes.tick_params(axis="x", labelrotation=30)
    axes.set(xlabel=bars.attribute, ylabel=bars[0].unit, title=title)
    axes.set_xlim(edges[0], edges[-1])
    axes.yaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
