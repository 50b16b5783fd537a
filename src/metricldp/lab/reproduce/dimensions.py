"""How errors grow with the number of attributes D: products of channels, blocks, and proved limits.

All numbers are exact variances, and nothing is simulated: the mean over all boxes of ranges, one
person, people spread evenly over m values of each of D attributes, epsilon for a step of any of
them. A product of channels multiplies mean squares, so that its error grows like (1/epsilon^2)^D. A
block blurs all attributes as one and keeps the same summed metric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from metricldp.basics.text import table
from metricldp.design.boxes import Boxes
from metricldp.design.limits import limit
from metricldp.design.registry import BUILT_IN
from metricldp.design.shapes import extreme_shapes
from metricldp.design.torus import CellWorkload, Torus, best_torus, in_units
from metricldp.lab.pages import (
    COLORS,
    GREY,
    Curve,
    Page,
    Panel,
    Panels,
    Progress,
    block,
    filled,
    rows_of,
)
from metricldp.metrics import Line
from metricldp.metrics.grid import Grid, summed

PRODUCTS = ("threshold", "geometric", "shaped")
METHODS = ("bound", *PRODUCTS, "block", "limit")
"""The paper's (2/epsilon^2)^D, three products, a block, and what none is below."""
QUICK_NOTE = (
    "\nA quick version, for trying things out: too few epsilons for a slope to be trusted.\n"
)
SMALL = 0.2
"""Slopes are those of epsilons up to this."""
_STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306}


@dataclass(frozen=True)
class Setting:
    """Every m with every D and every epsilon."""

    values: Sequence[int] = (3, 4)
    attributes: Sequence[int] = (1, 2, 3)
    epsilons: Sequence[Fraction] = tuple(Fraction(k, 100) for k in (5, 10, 20, 50, 100))


QUICK = Setting((2,), (1, 2), (Fraction(1, 20), Fraction(1, 10), Fraction(1, 5)))


@dataclass(frozen=True)
class Row:
    """Mean variances of a box, for one person."""

    values: int
    attributes: int
    epsilon: float
    bound: float
    threshold: float
    geometric: float
    shaped: float
    block: float
    limit: float | None
    """None where there are too many shapes to list."""
    attained: bool
    """Whether the limit is what the best mechanism has, but for a thousandth."""


@dataclass(frozen=True)
class Slope:
    """Of ln variance against ln 1/epsilon, with the 95 per cent interval of the fit."""

    attributes: int
    method: str
    slope: float
    low: float
    high: float
    points: int


def row(values: int, attributes: int, epsilon: Fraction) -> Row:
    """All methods at one size."""
    line, sizes = Line(epsilon), (values,) * attributes
    boxes = Boxes.of("ranges", sizes)
    grid = summed([line] * attributes, sizes)
    assert grid is not None
    least, attained = _least(boxes, grid)
    products = {name: _product(name, values, line, attributes) for name in PRODUCTS}
    return Row(
        values=values,
        attributes=attributes,
        epsilon=float(epsilon),
        bound=float((2 / epsilon**2) ** attributes),
        threshold=products["threshold"],
        geometric=products["geometric"],
        shaped=products["shaped"],
        block=_block(boxes, grid),
        limit=least,
        attained=attained,
    )


def _product(name: str, values: int, line: Line, attributes: int) -> float:
    """The mean squares of the attributes multiply, and so do those of what is asked for."""
    one = Boxes.of("ranges", (values,))
    own = BUILT_IN[name].settled(values, line, ordered=True).channel(values, line)
    square = own.mean_square(one.gram, None) / one.rows
    return float(square**attributes - one.square**attributes)


def _block(boxes: Boxes, grid: Grid) -> float:
    few = in_units(grid)
    lengths, patterns = best_torus(CellWorkload(whole=boxes.gram), few)
    return boxes.variance(Torus(few, lengths).channel(patterns).one.mean_square(boxes.gram))


def _least(boxes: Boxes, grid: Grid) -> tuple[float | None, bool]:
    """Where all extreme shapes can be listed; the number is what its proof is worth."""
    size = len(boxes.gram)
    if extreme_shapes(np.asarray(grid.whole(size), dtype=np.int64)) is None:
        return None, False
    found = limit(size, grid, boxes.gram)
    return boxes.variance(found.total), found.exact


def slopes(rows: Sequence[Row]) -> list[Slope]:
    """Least squares over small epsilons, with one slope and a level for each m."""
    found = []
    for attributes in dict.fromkeys(r.attributes for r in rows):
        for method in METHODS:
            mine = [
                (r.values, math.log(1 / r.epsilon), math.log(getattr(r, method)))
                for r in rows
                if r.attributes == attributes and r.epsilon <= SMALL and getattr(r, method)
            ]
            levels = list(dict.fromkeys(m for m, _, _ in mine))
            left = len(mine) - len(levels) - 1
            if left < 1:
                continue
            x, y = (np.array([point[k] for point in mine]) for k in (1, 2))
            for m in levels:
                same = np.array([point[0] == m for point in mine])
                x[same] -= x[same].mean()
                y[same] -= y[same].mean()
            slope = float(x @ y / (x @ x))
            error = math.sqrt(float(((y - slope * x) ** 2).sum()) / left / float(x @ x))
            wide = _STUDENT.get(left, 2.3) * error
            found.append(Slope(attributes, method, slope, slope - wide, slope + wide, len(mine)))
    return found


# What is written


def page(setting: Setting, progress: Progress) -> Page:
    """One size after the other."""
    todo = [(m, d, e) for d in setting.attributes for m in setting.values for e in setting.epsilons]
    rows = []
    for done, (m, d, epsilon) in enumerate(todo, 1):
        rows.append(row(m, d, epsilon))
        progress(done / len(todo))
    fitted = slopes(rows)
    tables = {"dimensions.csv": rows_of(rows), "dimensions-slopes.csv": rows_of(fitted)}
    title = f"Error of boxes over D attributes of {setting.values[0]} values"
    files, note = ("dimensions.png", "dimensions.svg"), "Epsilon per step of each attribute."
    drawn = Panels(files, title, [picture(rows)], size=(2.3, 3.6), note=note)
    return Page("dimensions", describe(rows, fitted), tables, [drawn])


_WORDS = {
    "bound": "(2/ε²)^D",
    "threshold": "threshold",
    "geometric": "geometric",
    "shaped": "shaped",
    "block": "block",
    "limit": "none is below",
}
_PREFACE = """# Errors against the number of attributes

The paper's error for D attributes is of order (2/ε²)^D. That is the error of products of channels,
one for each attribute, and not of the problem. A block blurs all attributes as one, by shaped noise
over cells, and keeps the same promise, ε for every step, added up over attributes.
"""
_NUMBERS = """Mean variance over all boxes of ranges, one person, people spread evenly; ε per step.
Nothing is simulated. "threshold", "geometric" and "shaped" are products, "block" is shaped noise
over cells. No mechanism that keeps the promise and decodes without bias is below the last column.
It is proved by a point of the dual that was checked on every extreme shape, and the best mechanism
is within a thousandth of it, unless there is a ~. "-": too many shapes to list."""
_SLOPES = """Slopes of ln variance against ln 1/ε for ε up to 0.2, by least squares with a level of
its own for each m. The 95 per cent interval is that of the fit: it tells how far points are from a
straight line and from the same slope for every m. There is no chance in the numbers themselves."""


def describe(rows: Sequence[Row], fitted: Sequence[Slope]) -> str:
    """The two tables."""
    lines: list[tuple[str, ...]] = [("D", "m", "ε", *_WORDS.values())]
    for r in rows:
        numbers = [_number(getattr(r, method)) for method in METHODS]
        numbers[-1] += "~" * (r.limit is not None and not r.attained)
        lines.append((str(r.attributes), str(r.values), f"{r.epsilon:g}", *numbers))
    parts = [_PREFACE, filled(_NUMBERS) + "\n", block(table(lines, left=0))]
    steep: list[tuple[str, ...]] = [("D", "method", "slope", "interval", "points")]
    for s in fitted:
        wide = f"{s.low:.3f} to {s.high:.3f}"
        steep.append((str(s.attributes), _WORDS[s.method], f"{s.slope:.3f}", wide, str(s.points)))
    if fitted:
        parts += [filled(_SLOPES) + "\n", block(table(steep, left=2))]
    return "\n".join(parts)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


_COLORS = {
    "bound": GREY,
    "threshold": COLORS[1],
    "geometric": COLORS[0],
    "shaped": COLORS[3],
    "block": COLORS[5],
    "limit": COLORS[2],
}
_LABELS = {
    "bound": "the paper's order, (2/ε²)^D",
    "threshold": "product, threshold",
    "geometric": "product, geometric",
    "shaped": "product, shaped",
    "block": "block, shaped over cells",
    "limit": "none is below (proved)",
}


def picture(rows: Sequence[Row]) -> list[Panel]:
    """A panel for each D, at the smallest m."""
    few = min(r.values for r in rows)
    panels = []
    for attributes in dict.fromkeys(r.attributes for r in rows):
        mine = [r for r in rows if (r.attributes, r.values) == (attributes, few)]
        curves = []
        for method in METHODS:
            points = [(r.epsilon, getattr(r, method)) for r in mine if getattr(r, method)]
            if points:
                look = "dashes" if method in ("bound", "limit") else "marked"
                x, y = zip(*points, strict=True)
                curves.append(Curve(_LABELS[method], x, y, _COLORS[method], look))
        panels.append(
            Panel(
                f"D = {attributes}",
                "epsilon per step",
                "mean variance, one person",
                curves,
                logs="xy",
                ticks=[r.epsilon for r in mine],
            )
        )
    return panels
