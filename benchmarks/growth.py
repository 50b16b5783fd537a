"""Time and memory against the number of people, encoded and tallied as a stream.

Every size runs in a process of its own, so that its peak memory is its own. Prints tables and
straight lines, saves benchmarks/results/growth.json and growth.png.
"""

import multiprocessing
import resource
import sys
import time
from pathlib import Path

import numpy as np

from measure import NAMES, RESULTS, Figure, compiled_from, people_of, quick, save, show, survey_of
from metricldp.basics.text import table

BATCH = 100_000
"""People at a time, for every size: so the smallest size is one batch."""
SIZES = [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000]
MECHANISMS = ("geometric", "threshold")
CLOCKS = ("time", "processor time")
"""Processor time adds up all cores and hardly depends on who else uses them."""
REPEATS, LONG = 5, 5_000_000
"""Small sizes are streamed a few times, up to so many people in all, for their median."""


def stream(mechanism: str, n: int) -> dict:
    """Encode and tally n people batch after batch; compiling is not part of it."""
    survey = survey_of(mechanism)
    people = people_of(survey, BATCH)  # always the same: making them up is not what is measured
    compiled_from(0)
    survey.tally((survey.encode(people) for _ in range(2)), keep=[NAMES])
    seconds, busy = [], []
    for _ in range(min(REPEATS, max(1, LONG // n))):
        started = time.perf_counter(), time.process_time()
        reports = (survey.encode(people) for _ in range(n // BATCH))
        tally = survey.tally(reports, keep=[NAMES])
        seconds.append(time.perf_counter() - started[0])
        busy.append(time.process_time() - started[1])
    assert tally.n == n
    inside = dict.fromkeys(NAMES, (50, 199))
    truth = n // BATCH * np.logical_and.reduce([_within(people[m], 50, 199) for m in NAMES]).sum()
    answer = tally.count(inside)
    assert abs(answer.value - truth) < 8 * answer.stderr, f"{answer} but {truth} in truth"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "mechanism": mechanism,
        "people": n,
        "seconds": float(np.median(seconds)),
        "processor_seconds": float(np.median(busy)),
        "repeats": len(seconds),
        "peak_bytes": peak * (1 if sys.platform == "darwin" else 1024),
    }


def _within(values: np.ndarray, low: int, high: int) -> np.ndarray:
    return (values >= low) & (values <= high)


def line(x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """The line with the least squares of relative errors, so that small sizes count as well.

    R^2 is that of the absolute errors about this line, and `furthest` the largest relative one.
    """
    slope, intercept = np.polyfit(x, y, 1, w=1 / y)
    off = y - slope * x - intercept
    explained = 1 - np.sum(off**2) / np.sum((y - y.mean()) ** 2) if np.ptp(y) else 1.0
    return {
        "slope": float(slope),
        "intercept": float(intercept),
        "r2": float(explained),
        "furthest": float(np.max(np.abs(off) / y)),
    }


def fit(mechanism: str, rows: list[dict]) -> dict:
    mine = [row for row in rows if row["mechanism"] == mechanism]
    people, seconds, busy, peak = (
        np.array([row[key] for row in mine], dtype=np.float64)
        for key in ("people", "seconds", "processor_seconds", "peak_bytes")
    )
    return {
        "time": line(people, seconds),
        "processor time": line(people, busy),
        "memory": line(people, peak),
        "memory_largest_over_smallest": float(peak.max() / peak.min()),
    }


def figures_of(mechanism: str, found: dict, most: int) -> list[Figure]:
    held = found["memory"]
    return [
        *(straight(f"{mechanism}, {clock} to {most:,}", found[clock]) for clock in CLOCKS),
        Figure(
            f"{mechanism}, peak memory to {most:,}",
            f"{held['slope']:+.2f} bytes per person",
            "largest over smallest",
            found["memory_largest_over_smallest"],
            "times",
            1.1,
        ),
    ]


def straight(what: str, taken: dict) -> Figure:
    return Figure(
        what,
        f"{1e6 * taken['slope']:.2f} s per million",
        f"straight line, {taken['intercept']:+.3f} s at 0, at most {taken['furthest']:.0%} off",
        taken["r2"],
        "R^2",
        0.99,
        at_least=True,
    )


def draw(rows: list[dict], fits: dict, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (above, below) = plt.subplots(
        2, 1, figsize=(7, 7.5), sharex=True, height_ratios=(3, 2), layout="constrained"
    )
    marks = {"geometric": ("o", "#d1495b"), "threshold": ("s", "#1b4965")}
    for mechanism, (mark, colour) in marks.items():
        mine = [row for row in rows if row["mechanism"] == mechanism]
        people = np.array([row["people"] for row in mine])
        above.loglog(people, [row["seconds"] for row in mine], mark, color=colour, label=mechanism)
        fitted = fits[mechanism]["time"]
        grid = np.geomspace(people.min(), people.max(), 200)
        straight = fitted["slope"] * grid + fitted["intercept"]
        label = f"{1e6 * fitted['slope']:.2f} s per million people, R² = {fitted['r2']:.4f}"
        above.loglog(
            grid[straight > 0], straight[straight > 0], "-", color=colour, lw=1, label=label
        )
        megabytes = [row["peak_bytes"] / 1e6 for row in mine]
        below.loglog(people, megabytes, f"{mark}-", color=colour, lw=1, label=mechanism)
    above.set_ylabel("seconds to encode and tally")
    above.set_title("A stream of people: two attributes of 256 values")
    below.set_ylabel("peak memory of the process, MB")
    below.set_xlabel("people")
    below.set_ylim(50, 2000)
    below.set_yticks([100, 200, 500, 1000], ["100", "200", "500", "1000"])
    below.minorticks_off()
    for axes in (above, below):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    sizes = SIZES[:3] if quick() else SIZES
    context = multiprocessing.get_context("spawn")
    rows = []
    for n in sizes:
        for mechanism in MECHANISMS:
            with context.Pool(1) as pool:
                rows.append(pool.apply(stream, (mechanism, n)))
    head = ("people", *(f"{m}, {what}" for m in MECHANISMS for what in ("time", "peak")))
    shown = []
    for n in sizes:
        cells = [f"{n:,}"]
        for row in (row for row in rows if row["people"] == n):
            cells += [f"{row['seconds']:.2f} s", f"{row['peak_bytes'] / 1e6:.0f} MB"]
        shown.append(cells)
    print(f"\nGrowth: encode and tally as a stream, {BATCH:,} people at a time\n")
    print(table([head, *shown], left=0))
    fits = {mechanism: fit(mechanism, rows) for mechanism in MECHANISMS}
    figures = [f for m in MECHANISMS for f in figures_of(m, fits[m], sizes[-1])]
    show("Straight lines through these", figures)
    save("growth", figures, batch=BATCH, rows=rows, fits=fits)
    draw(rows, fits, RESULTS / "growth.png")


if __name__ == "__main__":
    main()
