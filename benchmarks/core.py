"""How long the whole way takes: 1,000,000 people, two attributes of 256 values, epsilon 1.

Each row runs in a process of its own, so that its peak memory is its own. Prints a table and saves
benchmarks/results/core.json.
"""

import json
import multiprocessing
import platform
import resource
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from metricldp import Integer, Survey, Tally, Weight
from metricldp.basics.text import table

PEOPLE = 1_000_000
REPEATS = 5
RESULTS = Path(__file__).parent / "results"


def run(mechanism):
    attributes = {n: Integer(0, 255, epsilon=1, mechanism=mechanism) for n in ("a", "b")}
    survey = Survey(attributes)
    rng = np.random.default_rng(1)
    people = {n: rng.integers(0, 256, PEOPLE) for n in ("a", "b")}
    survey.encode({n: column[:1000] for n, column in people.items()})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "reports.parquet"
        encode = [timed(lambda: survey.encode(people)) for _ in range(REPEATS)]
        reports = survey.encode(people)
        survey.tally(reports).save(file)
        where = {"a": (20, 200), "b": (50, 180)}
        count = [timed(lambda: survey.tally(file).count(where)) for _ in range(REPEATS)]
        bars = [timed(lambda: survey.tally(file).histogram("a")) for _ in range(REPEATS)]
        size = file.stat().st_size
    # On the fly, each from a new tally: a repeated count would read prepared bit columns instead.
    weighty = Survey({**attributes, "w": Weight(0, 10)})
    weighed = weighty.encode({**people, "w": rng.uniform(0, 10, PEOPLE)})
    plain, heavy = [], []
    for _ in range(4 * REPEATS):
        fresh, weighted = Tally(survey, reports), Tally(weighty, weighed)
        plain.append(timed(partial(fresh.count, where)))
        heavy.append(timed(partial(weighted.weighted, where)))
    tally = Tally(survey, reports)
    again = [timed(lambda: tally.count(where)) for _ in range(4 * REPEATS)]
    return {
        "mechanism": mechanism,
        "encode_s": float(np.median(encode)),
        "count_from_file_s": float(np.median(count)),
        "histogram_from_file_s": float(np.median(bars)),
        "count_on_the_fly_s": float(np.median(plain)),
        "count_repeated_s": float(np.median(again)),
        "weighted_over_count": float(np.median(heavy) / np.median(plain)),
        "file_bytes_per_person": size / PEOPLE,
        "peak_memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def timed(work):
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main():
    context = multiprocessing.get_context("spawn")
    rows = []
    for mechanism in ("threshold", "geometric"):
        with context.Pool(1) as pool:
            rows.append(pool.apply(run, (mechanism,)))
    print(f"{PEOPLE:,} people, two attributes of 256 values, epsilon 1; medians of {REPEATS}")
    head = (
        "",
        "encode",
        "count, file to answer",
        "on the fly",
        "repeated",
        "weighted/count",
        "histogram",
        "file",
        "peak",
    )
    shown = [
        (
            r["mechanism"],
            f"{r['encode_s']:.2f} s",
            f"{r['count_from_file_s']:.3f} s",
            f"{1e3 * r['count_on_the_fly_s']:.1f} ms",
            f"{1e3 * r['count_repeated_s']:.2f} ms",
            f"{r['weighted_over_count']:.2f}",
            f"{r['histogram_from_file_s']:.2f} s",
            f"{r['file_bytes_per_person']:.1f} B/person",
            f"{r['peak_memory_gb']:.2f} GB",
        )
        for r in rows
    ]
    print(table([head, *shown]))
    RESULTS.mkdir(exist_ok=True)
    saved = {"machine": platform.processor() or platform.machine(), "rows": rows}
    (RESULTS / "core.json").write_text(json.dumps(saved, indent=2) + "\n")


if __name__ == "__main__":
    main()
