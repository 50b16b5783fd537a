"""Times of joint marginal tables and of single counts, and of another version beside this one.

    python benchmarks/marginals.py                      this version
    python benchmarks/marginals.py --other ../old/src   another version too, alternately
    python benchmarks/marginals.py --small              small sizes

Each version runs in a process of its own that stays open, so that compiled code is loaded once. One
round times every case in one version and then in the other, by the clock and by processor time,
which other programs hardly change. Both versions must give the same answers.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import measure

NAMES = ("a", "b")
Timed = tuple[float, float, str]
"""Seconds by the clock, seconds of the processors, and an answer."""
SURVEYS = {
    "threshold 256": ("threshold", 256),
    "threshold 64": ("threshold", 64),
    "geometric 256": ("geometric", 256),
}


def surveys() -> dict:
    from metricldp import Integer, Survey

    return {
        name: Survey.design(
            {k: Integer(0, size - 1, epsilon=1, mechanism=mechanism, per=1) for k in NAMES}
        )
        for name, (mechanism, size) in SURVEYS.items()
    }


def write(folder: Path, n: int) -> None:
    rng = np.random.default_rng(1)
    for name, survey in surveys().items():
        people = {k: rng.integers(0, SURVEYS[name][1], n) for k in NAMES}
        survey.tally(survey.randomize(people)).save(folder / f"{name}.parquet")


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What a call returns, and its seconds by the clock and of the processors."""
    started = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - started[0], time.process_time() - started[1]


def cases(folder: Path) -> dict[str, Callable[[], Timed]]:
    """What is timed: each returns seconds, and the answer to a query of the result."""
    made: dict[str, Callable[[], Timed]] = {}
    for name, survey in surveys().items():
        path, size = folder / f"{name}.parquet", SURVEYS[name][1]
        reports = pq.read_table(path)
        where = dict.fromkeys(NAMES, (size // 5, size // 2))
        numbers = count(1)

        def table(survey=survey, reports=reports, where=where, **more) -> Timed:
            totals, *seconds = timed(lambda: survey.tally(reports, keep=[NAMES], **more))
            return *seconds, str(totals.count(where))

        def first(survey=survey, reports=reports, where=where) -> Timed:
            tally = survey.tally(reports, layout="reports")
            answer, *seconds = timed(lambda: tally.count(where))
            return *seconds, str(answer)

        repeated = survey.tally(reports, layout="reports")
        for _ in range(40):
            repeated.count(where)

        def again(repeated=repeated, size=size, numbers=numbers) -> Timed:
            low = next(numbers) % (size // 4) + 1
            wheres = [dict.fromkeys(NAMES, (low, low + k)) for k in range(1, size // 2)]
            answers, *seconds = timed(lambda: [repeated.count(each) for each in wheres])
            return *(taken / len(wheres) for taken in seconds), str(answers[-1])

        def bars(survey=survey, path=path, size=size) -> Timed:
            tally = survey.tally(path, engine="duckdb")
            given = {"a": (size // 5, size // 2)}
            answer, *seconds = timed(lambda: tally.histogram("b", given, bins=8))
            return *seconds, str(answer.iloc[3])

        made[f"{name}: joint table"] = table
        made[f"{name}: joint table, DuckDB"] = lambda t=table, p=path: t(reports=p, engine="duckdb")
        made[f"{name}: first count"] = first
        made[f"{name}: a later count"] = again
        made[f"{name}: histogram given a range, DuckDB"] = bars
    return made


def serve(folder: Path) -> None:
    """Time the cases that are named on standard input, one to a line."""
    ready = cases(folder)
    print(json.dumps(list(ready)), flush=True)
    for line in sys.stdin:
        print(json.dumps(ready[line.strip()]()), flush=True)


class Version:
    """One version of the package, in a process of its own."""

    def __init__(self, source: str, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(folder)],
            env={**os.environ, "PYTHONPATH": source},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.cases = json.loads(self.process.stdout.readline())

    def run(self, case: str) -> Timed:
        self.process.stdin.write(case + "\n")
        self.process.stdin.flush()
        return tuple(json.loads(self.process.stdout.readline()))

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("--other", help="the src folder of another version")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = measure.arguments(parser)
    if options.serve:
        serve(Path(options.serve))
        return
    n, rounds = (70_000, 3) if options.small else (10**6, 9)
    own = str(Path(__file__).parents[1] / "src")
    sources = {"this": own} | ({"other": options.other} if options.other else {})
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), n)
        versions = {name: Version(source, Path(folder)) for name, source in sources.items()}
        times = {case: {name: [] for name in versions} for case in versions["this"].cases}
        for round_ in range(rounds + 1):  # the first compiles and fills caches
            for case, seconds in times.items():
                answers = set()
                for name, version in versions.items():
                    *taken, answer = version.run(case)
                    answers.add(answer)
                    seconds[name] += [taken] if round_ else []
                assert len(answers) == 1, f"{case}: {answers}"
        for version in versions.values():
            version.close()
    rows = []
    for case, seconds in times.items():
        row = {"case": case, "reports": n}
        for name in versions:
            wall, processor = (1000 * np.median(seconds[name], axis=0)).tolist()
            row |= {f"{name}, ms": wall, f"{name}, ms of processor": processor}
        if options.other:
            row["ratio of processor"] = row["this, ms of processor"] / row["other, ms of processor"]
        rows.append(row)
    measure.table(rows, list(rows[0]), "marginals")


if __name__ == "__main__":
    main()
