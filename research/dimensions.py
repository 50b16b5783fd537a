"""Error of boxes against the number of attributes D: products, blocks and a proved lower limit.

All numbers are exact variances for one respondent, spread evenly over m values of each attribute,
averaged over all boxes of ranges; epsilon is per step of any attribute. Attributes randomized one
by one multiply their second moments, so the error grows like (1/epsilon^2)^D. A block randomizes
all attributes together under the same summed metric. No unbiased mechanism is below the limit.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
from common import COLORS, GREY, Run, label, new_figure, print_table

from metricldp import Integer, Survey, SurveySpec
from metricldp.lab.limits import nearness

PRODUCTS = ("threshold", "geometric", "additive")
METHODS = {
    "bound": ("paper's order, (2/ε²)^D", GREY, "--"),
    "threshold": ("product, threshold", COLORS[1], "o-"),
    "geometric": ("product, geometric", COLORS[0], "o-"),
    "additive": ("product, additive", COLORS[3], "o-"),
    "block": ("block, additive over cells", COLORS[5], "o-"),
    "limit": ("no mechanism is below (proved)", COLORS[2], "--"),
}
MOST_CELLS = 27
"""Cells up to which the limit is computed; 64 cells take many minutes."""
SMALL = 0.2
"""Slopes are fitted for epsilon up to this."""


def row(values: int, attributes: int, epsilon: float) -> dict[str, Any]:
    """The mean variance of a box for every method."""
    ranges = [(a, b) for a in range(values) for b in range(a, values)]
    mean_square = sum(b - a + 1 for a, b in ranges) / values / len(ranges)
    result: dict[str, Any] = {"values": values, "attributes": attributes, "epsilon": epsilon}
    result["bound"] = (2 / epsilon**2) ** attributes
    for mechanism in PRODUCTS:
        one = Survey.design(
            {"v1": Integer(0, values - 1, epsilon=epsilon, mechanism=mechanism, per=1)}
        )
        variance = (
            one.expected_error(attribute="v1", workload="ranges", prior="uniform", n=1).stderr ** 2
        )
        result[mechanism] = (variance + mean_square) ** attributes - mean_square**attributes
    names = tuple(f"v{d + 1}" for d in range(attributes))
    block = one  # the last product, of additive noise, if there is one attribute
    if attributes > 1:
        side = Integer(0, values - 1, epsilon=epsilon, per=1)
        block = Survey.design(SurveySpec(dict.fromkeys(names, side), joint={names: "additive"}))
    boxes = product(ranges, repeat=attributes)
    errors = [
        block.expected_error(dict(zip(names, box, strict=True)), prior="uniform", n=1).stderr
        for box in boxes
    ]
    result["block"] = float(np.mean(np.square(errors)))
    result["limit"], result["attained"] = None, False
    if values**attributes <= MOST_CELLS:
        limit = nearness(block, "+".join(names), workload="ranges", n=1)
        result["limit"], result["attained"] = limit.limit**2, limit.exact
    return result


def slopes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Slopes of ln variance against ln 1/epsilon: least squares, with a level for each m."""
    result = []
    for attributes in dict.fromkeys(r["attributes"] for r in rows):
        line = {"attributes": attributes}
        for method in METHODS:
            x, y = [], []
            for values in dict.fromkeys(r["values"] for r in rows):
                mine = [
                    (math.log(1 / r["epsilon"]), math.log(r[method]))
                    for r in rows
                    if (r["values"], r["attributes"]) == (values, attributes)
                    and r["epsilon"] <= SMALL
                    and r[method]
                ]
                if mine:
                    points = np.array(mine) - np.mean(mine, axis=0)
                    x, y = [*x, *points[:, 0]], [*y, *points[:, 1]]
            line[method] = float(np.dot(x, y) / np.dot(x, x)) if x else None
        result.append(line)
    return result


def main() -> None:
    run = Run.from_arguments("dimensions", __doc__)
    sizes = [2] if run.quick else [3, 4]
    counts = [1, 2] if run.quick else [1, 2, 3]
    epsilons = [0.05, 0.1, 0.2] if run.quick else [0.05, 0.1, 0.2, 0.5, 1.0]
    rows = [row(m, d, epsilon) for d in counts for m in sizes for epsilon in epsilons]
    fitted = slopes(rows)
    print_table("Mean variance of a box, one respondent", rows)
    print_table(f"Slope of ln variance against ln 1/epsilon, epsilon up to {SMALL:g}", fitted)
    figure, grid = new_figure(1, len(counts), 4.2, 4.0)
    for axes, attributes in zip(grid[0], counts, strict=True):
        mine = [r for r in rows if (r["attributes"], r["values"]) == (attributes, sizes[0])]
        for method, (text, color, style) in METHODS.items():
            points = [(r["epsilon"], r[method]) for r in mine if r[method]]
            if points:
                x, y = zip(*points, strict=True)
                axes.loglog(x, y, style, markersize=3, color=color, label=text)
        title = f"D = {attributes}, {sizes[0]} values each"
        label(axes, title, "epsilon per step", "mean variance, one respondent")
    run.save_figure(figure)
    run.save(rows=rows, slopes=fitted)


if __name__ == "__main__":
    main()
