"""Table 1: time and memory of the collector's three layouts as n, m and D grow.

The mechanism is the paper's (`threshold-paper`, epsilon 1); the query is the middle half of every
attribute. "first" is a new tally and its first answer, with the table that the layout needs;
"repeated" is the same count again. Answers include their standard errors. Times are the fastest of
several runs. Each growth factor stands beside the one that the paper's order gives.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from common import COLORS, SEED, Run, label, new_figure, print_table

from metricldp import Integer, Randomness, Survey

LAYOUTS = ("cells", "prefix", "reports")
MEASURES = {"first": "first answer (s)", "repeated": "repeated answer (s)", "kept": "bytes kept"}
SYMBOLS = {"respondents": "n", "values": "m", "attributes": "D"}


@dataclass(frozen=True)
class Size:
    """n respondents with D attributes of m values each."""

    respondents: int = 10_000
    values: int = 10
    attributes: int = 3

    @property
    def ends(self) -> tuple[int, int]:
        return self.values // 4, 3 * self.values // 4


SWEEPS = {
    "respondents": [Size(respondents=n) for n in (1_000, 10_000, 100_000, 1_000_000)],
    "values": [Size(values=m) for m in (4, 8, 16, 32, 64)],
    "attributes": [Size(attributes=d) for d in range(1, 7)],
}
QUICK = {
    "respondents": [Size(n, 4, 2) for n in (200, 400)],
    "values": [Size(200, m, 2) for m in (3, 4)],
    "attributes": [Size(200, 4, d) for d in (1, 2)],
}


def paper_order(size: Size, layout: str) -> dict[str, float]:
    """The entries of the paper's Table 1 without constants; the first answer includes building."""
    n, m, d = float(size.respondents), float(size.values), size.attributes
    low, high = size.ends
    observations, inside = d * m**d * n, float(high - low + 1) ** d
    if layout == "reports":
        query = max(observations, 2**d * inside)
        return {"first": query, "repeated": query, "kept": d * m * n}
    build = max(observations, (2 * m) ** d)
    query = inside if layout == "cells" else 2.0**d
    return {"first": build + query, "repeated": query, "kept": m**d}


def measure(size: Size, runs: int) -> list[dict[str, Any]]:
    """The three layouts on the same reports."""
    one = Integer(0, size.values - 1, epsilon=1, mechanism="threshold-paper", per=1)
    survey = Survey.design({f"v{d + 1}": one for d in range(size.attributes)})
    rng = np.random.default_rng(SEED)
    values = {name: rng.integers(0, size.values, size.respondents) for name in survey.attributes}
    reports = survey.randomize(values, randomness=Randomness.seeded(SEED))
    where = dict.fromkeys(survey.attributes, size.ends)
    rows = []
    for layout in LAYOUTS:
        first = fastest(
            lambda layout=layout: survey.tally(reports, layout=layout).count(where), runs
        )
        gc.collect()
        tracemalloc.start()
        tally = survey.tally(reports, layout=layout)
        tally.count(where)
        kept, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        rows.append(
            {
                **asdict(size),
                "layout": layout,
                "first": first,
                "repeated": fastest(lambda tally=tally: tally.count(where), runs),
                "kept": kept + (reports.nbytes if layout == "reports" else 0),
                "peak": peak,
            }
        )
    return rows


def fastest(work: Callable[[], object], runs: int) -> float:
    """Seconds of the fastest run; one more run before loads compiled code."""
    seconds = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds[1:])


def growth(sweep: str, sizes: list[Size], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How many times more the last step of a sweep costs, and the paper's factor."""
    result = []
    for layout in LAYOUTS:
        small, large = [row for row in rows if row["layout"] == layout][-2:]
        orders = [paper_order(size, layout) for size in sizes[-2:]]
        line: dict[str, Any] = {
            "step": f"{SYMBOLS[sweep]} from {small[sweep]:,} to {large[sweep]:,}",
            "layout": layout,
        }
        for name in MEASURES:
            line[name] = large[name] / small[name]
            line[f"{name}, paper"] = orders[1][name] / orders[0][name]
        result.append(line)
    return result


def draw(run: Run, sweeps: dict[str, list[Size]], costs: dict[str, list[dict[str, Any]]]) -> None:
    """Measurements, and dashed the paper's orders through the last point of each curve."""
    figure, grid = new_figure(len(MEASURES), len(sweeps), 3.6, 2.9)
    for column, (sweep, sizes) in zip(grid.T, sweeps.items(), strict=True):
        x = [getattr(size, sweep) for size in sizes]
        for axes, (name, text) in zip(column, MEASURES.items(), strict=True):
            for layout, color in zip(LAYOUTS, COLORS, strict=False):
                y = [row[name] for row in costs[sweep] if row["layout"] == layout]
                orders = [paper_order(size, layout)[name] for size in sizes]
                axes.plot(x, y, "o-", markersize=3, color=color, label=layout)
                axes.plot(x, [y[-1] * order / orders[-1] for order in orders], "--", color=color)
            axes.set_yscale("log")
            axes.set_xscale("linear" if sweep == "attributes" else "log")
            label(axes, "", f"{sweep} {SYMBOLS[sweep]}", text)
    run.save_figure(figure)


def main() -> None:
    run = Run.from_arguments("table1", __doc__)
    sweeps = QUICK if run.quick else SWEEPS
    costs = {
        sweep: [row for size in sizes for row in measure(size, 2 if run.quick else 5)]
        for sweep, sizes in sweeps.items()
    }
    factors = []
    for sweep, rows in costs.items():
        print_table(f"As {SYMBOLS[sweep]} grows (seconds, bytes)", rows)
        factors += growth(sweep, sweeps[sweep], rows)
    print_table("Growth of the last step of each sweep", factors)
    draw(run, sweeps, costs)
    run.save(costs=costs, growth=factors)


if __name__ == "__main__":
    main()
