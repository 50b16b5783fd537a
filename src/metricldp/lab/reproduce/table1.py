"""Table 1: time and memory of the collector's three layouts, measured as n, m and D grow.

Each number stands beside what the paper's order of growth says. Only the paper's mechanism is
measured, and a query is the estimate alone, without its error.
"""

from __future__ import annotations

import gc
import math
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from metricldp.attributes.integer import Integer
from metricldp.basics.text import table
from metricldp.channels import Channel, Column
from metricldp.lab.crowd import seeded
from metricldp.lab.pages import Curve, Page, Panel, Panels, Progress, block, hue
from metricldp.reports.arrow import batches
from metricldp.reports.encode import encode
from metricldp.store import cubes, scan
from metricldp.store.readings import Reading, Readings
from metricldp.survey.agreement import Agreement

LAYOUTS = ("cells", "prefix", "reports")
SEED = 2026
MEASURES = ("build", "query", "kept")


@dataclass(frozen=True)
class Size:
    """n people with D attributes of m values each."""

    people: int = 10_000
    values: int = 10
    attributes: int = 3

    @property
    def ends(self) -> tuple[int, int]:
        """The middle half of each attribute."""
        return self.values // 4, 3 * self.values // 4

    @property
    def cells_inside(self) -> int:
        """|R|."""
        low, high = self.ends
        return int((high - low + 1) ** self.attributes)


Sweeps = Mapping[str, Sequence[Size]]
SWEEPS: Sweeps = {
    "people": [Size(people=n) for n in (1_000, 10_000, 100_000, 1_000_000)],
    "values": [Size(values=m) for m in (4, 8, 16, 32, 64)],
    "attributes": [Size(attributes=d) for d in range(1, 7)],
}


@dataclass(frozen=True)
class Setting:
    """What is measured, and for how many seconds at least."""

    sweeps: Sweeps = field(default_factory=lambda: SWEEPS)
    least: float = 0.2


QUICK = Setting(
    {
        "people": [Size(people=n, values=4, attributes=2) for n in (200, 400)],
        "values": [Size(people=200, values=m, attributes=2) for m in (3, 4)],
        "attributes": [Size(people=200, values=4, attributes=d) for d in (1, 2)],
    },
    least=0.01,
)


@dataclass(frozen=True)
class Cost:
    """What one layout costs at one size, in seconds and bytes."""

    people: int
    values: int
    attributes: int
    layout: str
    build: float
    query: float
    kept: float
    """Bytes that stay between two queries: a table, or the reports."""
    peak: float
    """Bytes at the worst moment of building and asking once, besides the reports."""


def paper_order(size: Size, layout: str) -> dict[str, float]:
    """The entries of the paper's Table 1, without their constants."""
    n, m, d = float(size.people), float(size.values), size.attributes
    observe, inside = d * m**d * n, float(size.cells_inside)
    if layout == "reports":
        return {"build": 1.0, "query": max(observe, 2**d * inside), "kept": d * m * n}
    build = max(observe, (2 * m) ** d)
    return {"build": build, "query": inside if layout == "cells" else 2.0**d, "kept": m**d}


# Measuring


def measure(size: Size, least: float = 0.2) -> list[Cost]:
    """The three layouts on the same reports; times are taken for at least so many seconds."""
    survey, collected = _reports(size)
    columns = list(batches(collected))
    readings = _readings(survey, size)
    costs = []
    for layout in LAYOUTS:
        build = partial(_build, columns, survey.channels, layout)
        ask = partial(_ask, columns, readings, layout)
        on_the_fly = layout == "reports"
        seconds = 0.0 if on_the_fly else _seconds(build, least)
        query = _seconds(partial(ask, build()), least)
        kept, peak = _memory(build, ask)
        kept = float(collected.nbytes) if on_the_fly else kept
        costs.append(
            Cost(**asdict(size), layout=layout, build=seconds, query=query, kept=kept, peak=peak)
        )
    return costs


def _build(
    columns: list[dict[str, Column]], channels: Mapping[str, Channel], layout: str
) -> cubes.Table | None:
    if layout == "reports":
        return None
    built = cubes.build(columns, channels)
    _ = built.frequencies if layout == "cells" else built.prefixes
    return built


def _ask(
    columns: list[dict[str, Column]],
    readings: Readings,
    layout: str,
    built: cubes.Table | None,
) -> float:
    if built is None:
        return float(scan.from_reports(columns, readings)[0])
    found = built.from_cells(readings) if layout == "cells" else built.from_prefixes(readings)
    return float(found[0])


def _reports(size: Size) -> tuple[Agreement, Any]:
    attribute = Integer(0, size.values - 1, epsilon=1, mechanism="threshold-paper")
    survey = Agreement({f"v{d + 1}": attribute for d in range(size.attributes)})
    rng = np.random.default_rng(SEED)
    people = {name: rng.integers(0, size.values, size.people) for name in survey.attributes}
    return survey, encode(survey, people, coins=seeded(SEED))


def _readings(survey: Agreement, size: Size) -> Readings:
    low, high = size.ends
    grid = np.arange(size.values)
    inside = ((low <= grid) & (grid <= high)).astype(np.float64)[None]
    parts = [
        Reading(name, channel, inside, channel.coefficients(inside))
        for name, channel in survey.channels.items()
    ]
    return Readings(("value",), 1, tuple(parts))


def _seconds(work: Callable[[], object], least: float) -> float:
    """The fastest of three runs, or of as many as fit into `least`; one alone if it is long."""
    found: list[float] = []
    while sum(found) < least or (len(found) < 3 and sum(found) < 1):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return min(found)


def _memory(
    build: Callable[[], cubes.Table | None], ask: Callable[[cubes.Table | None], float]
) -> tuple[float, float]:
    """Bytes kept after building, and the peak until the first answer."""
    gc.collect()
    tracemalloc.start()
    try:
        built = build()
        kept = tracemalloc.get_traced_memory()[0]
        ask(built)
        return float(kept), float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


# What is written


def page(setting: Setting, progress: Progress) -> Page:
    """Measure one size after the other."""
    sweeps = setting.sweeps
    todo, done = sum(map(len, sweeps.values())), 0
    costs: dict[str, list[list[Cost]]] = {name: [] for name in sweeps}
    for name, sizes in sweeps.items():
        for size in sizes:
            costs[name].append(measure(size, setting.least))
            done += 1
            progress(done / todo)
    rows = [
        {"sweep": name, **asdict(cost)}
        for name, found in costs.items()
        for same_size in found
        for cost in same_size
    ]
    title = "Table 1 measured: the collector's three layouts, threshold-paper"
    files = ("table1.png", "table1.svg")
    drawn = Panels(files, title, picture(sweeps, costs), size=(2.2, 2.4), note=_NOTE)
    return Page("table1", describe(sweeps, costs), {"table1.csv": rows}, [drawn])


_NOTE = "Dots are measured. Dashes: the paper's orders, through the last point of each line."
QUICK_NOTE = "\nA quick version, for trying things out: much too small to show how costs grow.\n"
Costs = Mapping[str, Sequence[Sequence[Cost]]]

_PREFACE = """# Table 1 measured

The collector's three layouts under the paper's mechanism (`threshold-paper`, epsilon 1). A query is
the middle half of every attribute, and only its estimate, without the error. Times are the fastest
of several runs on this machine. `kept` is what stays between two queries, `peak` the most at any
moment of building and asking once, besides the reports (tracemalloc). People and coins are seeded.
Building multiplies matrices: on a busy machine the threads of the linear algebra library wait for
each other, and OPENBLAS_NUM_THREADS=1 gives steadier times.

What the paper states, n people, D attributes of m values, R the range:

```text
             store single-value frequencies  store all prefix sums  on the fly
here called                           cells                 prefix  reports
space                                   m^D                    m^D  D m n
preprocessing            max(D m^D n, (2m)^D)   max(D m^D n, (2m)^D)  1
query                                   |R|                    2^D  max(D m^D n, 2^D |R|)
```
"""

_WORDS = {"people": "n", "values": "m", "attributes": "D"}


def describe(sweeps: Sweeps, costs: Costs) -> str:
    """All measurements, and their growth beside that of the paper's orders."""
    parts = [_PREFACE]
    for name, found in costs.items():
        rows = [("n", "m", "D", "layout", "build", "query", "kept", "peak")]
        for cost in (c for same_size in found for c in same_size):
            size = f"{cost.people:,}", str(cost.values), str(cost.attributes)
            times = _time(cost.build) if cost.build else "-", _time(cost.query)
            rows.append((*size, cost.layout, *times, _bytes(cost.kept), _bytes(cost.peak)))
        parts.append(f"## As {_WORDS[name]} grows\n\n{block(table(rows, left=0))}")
    parts.append("## Growth\n\nThe last step of each sweep: so many times more, and the paper's.\n")
    parts.append(block(table(_growth(sweeps, costs), left=2)))
    return "\n".join(parts)


def _growth(sweeps: Sweeps, costs: Costs) -> list[tuple[str, ...]]:
    head = [f"{measure}{paper}" for measure in MEASURES for paper in ("", " (paper)")]
    rows: list[tuple[str, ...]] = [("step", "layout", *head)]
    for name, sizes in sweeps.items():
        before, after = (getattr(size, name) for size in sizes[-2:])
        for k, layout in enumerate(LAYOUTS):
            small, large = (asdict(same_size[k]) for same_size in costs[name][-2:])
            order, larger = (paper_order(size, layout) for size in sizes[-2:])
            row = [f"{_WORDS[name]} from {before:,} to {after:,}", layout]
            for measure in MEASURES:
                measured = large[measure] / small[measure] if small[measure] else math.nan
                row.append("-" if math.isnan(measured) else f"×{measured:.3g}")
                row.append(f"×{larger[measure] / order[measure]:.3g}")
            rows.append(tuple(row))
    return rows


def _time(seconds: float) -> str:
    return _in_units(seconds, {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9})


def _bytes(count: float) -> str:
    return _in_units(count, {"GB": 1e9, "MB": 1e6, "kB": 1e3, "B": 1.0})


def _in_units(number: float, units: Mapping[str, float]) -> str:
    """In the largest unit that it has one of."""
    unit = next((unit for unit, scale in units.items() if number >= scale), [*units][-1])
    return f"{number / units[unit]:.3g} {unit}"


_UNITS = {"build": "build (s)", "query": "one query (s)", "kept": "memory kept (bytes)"}


def picture(sweeps: Sweeps, costs: Costs) -> list[list[Panel]]:
    """A row for each measure, a column for each of n, m and D; the paper's orders dashed."""
    return [
        [_panel(measure, name, sweeps[name], costs[name]) for name in sweeps]
        for measure in MEASURES
    ]


def _panel(
    measure: str, name: str, sizes: Sequence[Size], found: Sequence[Sequence[Cost]]
) -> Panel:
    grown = [getattr(size, name) for size in sizes]
    curves = []
    for k, layout in enumerate(LAYOUTS):
        measured = [getattr(same_size[k], measure) for same_size in found]
        if not measured[-1]:
            continue
        orders = [paper_order(size, layout)[measure] for size in sizes]
        scaled = [measured[-1] * order / orders[-1] for order in orders]
        curves.append(Curve(layout, grown, measured, hue(k), "marked"))
        curves.append(Curve("", grown, scaled, hue(k), "dashes"))
    fixed = asdict(sizes[0])
    others = ", ".join(f"{_WORDS[k]} = {v:,}" for k, v in fixed.items() if k != name)
    return Panel(
        f"{_WORDS[name]} grows" if measure == MEASURES[0] else "",
        f"{name} {_WORDS[name]} ({others})",
        _UNITS[measure],
        curves,
        logs="y" if name == "attributes" else "xy",
        ticks=None if name == "people" else grown,
    )
