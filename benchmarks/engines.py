"""Engines beside totals in memory, in one run: the same questions, the same integers, the times.

    python benchmarks/engines.py            10^7 reports, and growth from 10^6 to 10^8
    python benchmarks/engines.py --quick    10^5 reports

Prints tables, saves benchmarks/results/engines.json. Spark is left out where it is not installed.
"""

import importlib.util
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from measure import (
    NAMES,
    Figure,
    by_turns,
    compiled_from,
    people_of,
    quick,
    save,
    show,
    survey_of,
    timed,
)
from metricldp import Coins
from metricldp.basics.text import table
from metricldp.collector.logs.seen import Seen
from metricldp.reports import parquet
from metricldp.store.slices import slice_files

SEGMENTS = 8
WHERE = dict.fromkeys(NAMES, (50, 199))
BARS = {"a": (50, 199)}


def spark_session():
    if not importlib.util.find_spec("pyspark") or not shutil.which("java"):
        return None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "3g")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def written(survey, folder: Path, n: int, segments: int) -> None:
    folder.mkdir()
    for k in range(segments):
        reports = survey.encode(people_of(survey, n // segments, seed=k), coins=Coins())
        parquet.write(survey, folder / f"part-{k:03}.parquet", [reports])


def fresh(survey, source, engine, layout="auto"):
    """A new tally, so that no table is kept from the question before."""
    return survey.tally(source, engine=engine, layout=layout, fingerprint=survey.fingerprint)


def compare(root: Path, n: int, rounds: int) -> tuple[list, list[Figure]]:
    geometric, threshold = survey_of("geometric"), survey_of("threshold")
    written(geometric, root / "integers", n, SEGMENTS)
    written(threshold, root / "bits", n, SEGMENTS)
    started = time.perf_counter()
    slice_files(threshold, root / "bits", root / "sliced")
    slicing = time.perf_counter() - started
    compiled_from(0)
    engines = ["duckdb", "polars", *(["spark"] if spark_session() else [])]
    integers, bits = geometric.tally(root / "integers"), threshold.tally(root / "bits")
    for _ in range(4):
        bits.count(WHERE)  # from now on columns of bits are there
    asked = {
        "joint table, geometric": (
            lambda: integers.store.table_of(NAMES).sums,
            lambda e: fresh(geometric, root / "integers", e).store.table_of(NAMES).sums,
        ),
        "one count, threshold, sliced": (
            lambda: bits.count(WHERE),
            lambda e: lakes[e].count(WHERE),
        ),
        "32 bars given a range, sliced": (
            lambda: bits.histogram("b", BARS, width=8),
            lambda e: lakes[e].histogram("b", BARS, width=8),
        ),
        "one count, threshold, rows": (
            None,
            lambda e: fresh(threshold, root / "bits", e).count(WHERE),
        ),
    }
    lakes = {e: fresh(threshold, root / "sliced", e, layout="reports") for e in engines}
    times: dict[str, dict[str, float]] = {}
    for question, (memory, ask) in asked.items():
        works = {"totals in memory": memory} if memory else {}
        works |= {e: partial(ask, e) for e in engines}
        found = {who: work() for who, work in works.items()}  # once before, to warm up
        first = next(iter(found.values()))
        for who, answer in found.items():
            assert (
                np.array_equal(list(answer), list(first))
                if hasattr(first, "__len__")
                else ((answer.value, answer.stderr) == (first.value, first.stderr))
            ), f"{who} differs in {question}"
        near = [who for who in works if who != "spark"]
        seconds = by_turns([works[who] for who in near], rounds)
        times[question] = {who: min(s) for who, s in zip(near, seconds, strict=True)}
        if "spark" in works:  # seconds, not milliseconds: once is enough
            times[question]["spark"] = timed(works["spark"])
        print(question, {who: round(1000 * t, 1) for who, t in times[question].items()}, flush=True)
    whole = {}
    for who in engines:
        started = time.perf_counter()
        whole[who] = fresh(threshold, root / "sliced", who).store.table_of(NAMES).sums
        times.setdefault("whole table, threshold, sliced", {})[who] = time.perf_counter() - started
    started = time.perf_counter()
    whole["totals in memory"] = bits.store.table_of(NAMES).sums
    memory_time = time.perf_counter() - started
    times["whole table, threshold, sliced"]["totals in memory"] = memory_time
    assert all(np.array_equal(sums, whole["duckdb"]) for sums in whole.values())
    started = time.perf_counter()
    geometric.tally(root / "integers", engine="duckdb")
    checking = time.perf_counter() - started
    bytes_each = {
        k: sum(p.stat().st_size for p in (root / k).glob("*.parquet")) / n
        for k in ("integers", "bits", "sliced")
    }
    joint, one = times["joint table, geometric"], times["one count, threshold, sliced"]
    figures = [
        Figure(
            "joint table",
            "DuckDB",
            "totals in memory",
            joint["duckdb"] / joint["totals in memory"],
            "times",
            3.0,
        ),
        Figure("threshold count, sliced", "DuckDB", "", 1000 * one["duckdb"], "ms", 40.0),
        Figure("threshold count, sliced", "Polars", "", 1000 * one["polars"], "ms", 40.0),
        Figure("marks, digests, ranges checked", "files", "", 1e9 * checking / n, "ns a report"),
        Figure("slicing", "threshold", "", 1e9 * slicing / n, "ns a report"),
        *(Figure("bytes", k, "", v, "a report") for k, v in bytes_each.items()),
        Figure("ids looked up", "a million at a time", "", ids(n), "ns an id"),
    ]
    return times, figures


def ids(n: int) -> float:
    """Nanoseconds an id, when so many are looked up and added, a million at a time."""
    seen, rng = Seen(), np.random.default_rng(1)
    many, seconds = min(n, 10**6), 0.0
    for _ in range(max(1, n // many)):
        some = rng.integers(0, 256, (many, 16), dtype=np.uint8)
        started = time.perf_counter()
        assert seen.fresh(some).all()
        seen.add(some)
        seconds += time.perf_counter() - started
    return 1e9 * seconds / len(seen)


def grown(folder: str, engine: str | None, pipe) -> None:
    """Time and peak memory of one joint table, in a process of its own."""
    survey = survey_of("geometric")
    more = {"engine": engine, "fingerprint": survey.fingerprint} if engine else {}
    small = sorted(Path(folder).glob("*.parquet"))[:1]
    compiled_from(0)
    survey.tally(small, keep=[NAMES], **more)
    started = time.perf_counter(), time.process_time()
    tally = survey.tally(folder, keep=[NAMES], **more)
    seconds = time.perf_counter() - started[0], time.process_time() - started[1]
    pipe.send((tally.n, *seconds, peak()))


def peak() -> int:
    """The most memory that this process had; what its parent had does not count."""
    about = Path("/proc/self/status")
    if not about.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line = next(line for line in about.read_text("utf-8").splitlines() if "VmHWM" in line)
    return 1024 * int(line.split()[1])


def growth(root: Path, sizes: list[int]) -> list[dict]:
    survey, found = survey_of("geometric"), []
    for n in sizes:
        folder = root / f"growth-{n}"
        written(survey, folder, n, max(1, n // 10**6))
        for engine in ("duckdb", None):
            here, there = multiprocessing.get_context("spawn").Pipe()
            process = multiprocessing.get_context("spawn").Process(
                target=grown, args=(str(folder), engine, there)
            )
            process.start()
            count, seconds, busy, most = here.recv()
            process.join()
            assert count == n
            row = {"engine": engine or "totals", "reports": n, "seconds": seconds}
            found.append({**row, "processor_seconds": busy, "peak_bytes": most})
            print(found[-1], flush=True)
        shutil.rmtree(folder)
    return found


def main() -> None:
    small = quick()
    n, rounds = (10**5, 3) if small else (10**7, 5)
    sizes = [10**4, 10**5] if small else [10**6, 10**7, 10**8]
    root = Path(tempfile.mkdtemp(prefix="engines-"))
    try:
        times, figures = compare(root, n, rounds)
        lines = growth(root, sizes)
    finally:
        shutil.rmtree(root)
    who = ["totals in memory", "duckdb", "polars", "spark"]
    rows = [["ms, best", *who]]
    for question, seconds in times.items():
        cells = [f"{1000 * seconds[w]:,.1f}" if w in seconds else "" for w in who]
        rows.append([question, *cells])
    print(f"\n{n:,} reports, two attributes of 256\n\n{table(rows)}")
    show("engines", figures)
    head = ["", "reports", "ns a report", "processor ns", "peak MB"]
    body = [
        [
            line["engine"],
            f"{line['reports']:,}",
            f"{1e9 * line['seconds'] / line['reports']:.1f}",
            f"{1e9 * line['processor_seconds'] / line['reports']:.1f}",
            f"{line['peak_bytes'] / 1e6:,.0f}",
        ]
        for line in lines
    ]
    print(f"\ngrowth\n\n{table([head, *body])}")
    save("engines", figures, reports=n, seconds=times, growth=lines)


if __name__ == "__main__":
    main()
