"""Shared by the research scripts: command-line options, tables, JSON files and figures."""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from metricldp import SeededRandomnessWarning

SEED = 2026
COLORS = ("#0072b2", "#d55e00", "#1a1a1a", "#8a2be2", "#7a3b00", "#a0006d")
GREY = "#8c8c8c"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """The options of one run: its name, its size and the folder for its files."""

    name: str
    quick: bool
    output: Path

    @classmethod
    def from_arguments(cls, name: str, description: str | None) -> Run:
        # Simulations use fixed seeds, so that a figure can be drawn again.
        warnings.filterwarnings("ignore", category=SeededRandomnessWarning)
        parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
        parser.add_argument("--quick", action="store_true", help="small sizes, for a first look")
        parser.add_argument("--output", type=Path, default=Path("build", "research", name))
        options = parser.parse_args()
        options.output.mkdir(parents=True, exist_ok=True)
        return cls(name, options.quick, options.output)

    def save(self, **results: Any) -> None:
        """Write the results as JSON."""
        path = self.output / f"{self.name}.json"
        path.write_text(json.dumps({"quick": self.quick, **results}, indent=1) + "\n", "utf-8")
        print(f"Results: {path}")

    def save_figure(self, figure: Figure, name: str | None = None) -> None:
        path = self.output / f"{name or self.name}.png"
        figure.savefig(path, dpi=150)
        print(f"Figure: {path}")


def print_table(title: str, rows: Sequence[Row], columns: Sequence[str] | None = None) -> None:
    """Print rows below the names of their columns; the first row names the columns by default."""
    names = list(columns or rows[0])
    lines = [names, *([_text(row.get(name)) for name in names] for row in rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(names))]
    print(f"\n{title}")
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def new_figure(rows: int, columns: int, width: float, height: float) -> tuple[Figure, Any]:
    """A figure and its axes, (rows, columns); width and height in inches are those of one panel."""
    figure = Figure((columns * width, rows * height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def label(axes: Axes, title: str, xlabel: str, ylabel: str, legend: bool = True) -> None:
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="#e6e6e6", linewidth=0.6)
    if legend:
        axes.legend(fontsize=7, frameon=False)


def mean_and_error(samples: Sequence[float]) -> tuple[float, float]:
    """The mean of independent samples and its standard error."""
    count = len(samples)
    mean = sum(samples) / count
    return mean, math.sqrt(sum((x - mean) ** 2 for x in samples) / (count - 1) / count)
