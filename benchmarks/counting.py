"""Counts from reports in memory and in files, many counts at once, and streams of reports.

Two attributes of 256 values, epsilon 1 per step. A stream encodes and tallies batches of 100,000
respondents and keeps one joint table; every size has a process of its own for its peak memory.
"""

import multiprocessing
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

import measure
from metricldp import Survey, Weight

BATCH = 100_000
MECHANISMS = ("geometric", "threshold")


def counts(mechanism: str, n: int, rounds: int) -> list[dict[str, object]]:
    survey = measure.survey_of(mechanism)
    values = measure.respondents_of(survey, n)
    reports = survey.randomize(values)
    rng = np.random.default_rng(3)
    where = measure.random_ranges(rng)
    wheres = [measure.random_ranges(rng) for _ in range(10_000)]
    kept = survey.tally(reports)
    weighted = Survey.design({**survey.attributes, "w": Weight(0, 10)})
    tally = weighted.tally(weighted.randomize({**values, "w": rng.uniform(0, 10, n)}))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "reports.parquet"
        survey.tally(reports).save(file)
        works = {
            "count, new tally": lambda: survey.tally(reports).count(where),
            "count, from a file": lambda: survey.tally(file).count(where),
            "count, same tally": lambda: kept.count(where),
            "histogram, new tally": lambda: survey.tally(reports).histogram("a"),
            "10,000 counts, new tally": lambda: survey.tally(reports).counts(wheres),
            "sum of weights, same tally": lambda: tally.sum("w", where),
        }
        seconds = measure.median_seconds(works, rounds)
        size = file.stat().st_size / n
    rows = [
        {"mechanism": mechanism, "reports": n, "query": query, "milliseconds": 1e3 * taken}
        for query, taken in seconds.items()
    ]
    return [{**row, "file bytes a report": size} for row in rows]


def stream(mechanism: str, n: int) -> dict[str, object]:
    """Encode and tally n respondents in batches; the same batch of values each time."""
    survey = measure.survey_of(mechanism)
    values = measure.respondents_of(survey, BATCH)
    survey.tally((survey.randomize(values) for _ in range(2)), keep=[measure.NAMES])
    started = time.perf_counter(), time.process_time()
    reports = (survey.randomize(values) for _ in range(n // BATCH))
    tally = survey.tally(reports, keep=[measure.NAMES])
    seconds, processor = time.perf_counter() - started[0], time.process_time() - started[1]
    estimate = tally.count(dict.fromkeys(measure.NAMES, (50, 199)))
    inside = [(column >= 50) & (column <= 199) for column in values.values()]
    truth = n // BATCH * int((inside[0] & inside[1]).sum())
    assert abs(estimate.value - truth) < 8 * estimate.stderr, f"{estimate}, truth {truth}"
    return {
        "mechanism": mechanism,
        "respondents": n,
        "seconds": seconds,
        "processor seconds": processor,
        "peak MB": measure.peak_megabytes(),
    }


def main() -> None:
    small = measure.arguments(__doc__).small
    n, rounds = (100_000, 2) if small else (1_000_000, 5)
    rows = [row for mechanism in MECHANISMS for row in counts(mechanism, n, rounds)]
    measure.table(rows, list(rows[0]), "counting")
    sizes = [200_000, 400_000] if small else [10**6, 3 * 10**6, 10**7, 3 * 10**7, 10**8]
    rows = []
    for mechanism in MECHANISMS:
        for size in sizes:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                rows.append(pool.apply(partial(stream, mechanism, size)))
    measure.table(rows, list(rows[0]), "counting-streams")


if __name__ == "__main__":
    main()
