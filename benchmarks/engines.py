"""DuckDB, Polars and Spark beside reports in memory: the same estimates, and the times.

Two attributes of 256 values in Parquet files. Every query goes to a new tally. An engine that is
not installed is left out.
"""

import importlib.util
import os
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

import measure

FILES = 8
WHERE = dict.fromkeys(measure.NAMES, (50, 199))
QUERIES = {
    "count": lambda tally: tally.count(WHERE),
    "32 bins in a range": lambda tally: tally.histogram("b", {"a": (50, 199)}, bins=32),
}


def engines(small: bool) -> list[str]:
    """Those that are installed; Spark needs java, and half a minute to start."""
    names = [name for name in ("duckdb", "polars") if importlib.util.find_spec(name)]
    if not small and importlib.util.find_spec("pyspark") and shutil.which("java"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
        names.append("spark")
    return names


def write(survey, folder: Path, n: int) -> None:
    folder.mkdir()
    for k in range(FILES):
        reports = survey.randomize(measure.respondents_of(survey, n // FILES, seed=k))
        survey.tally(reports).save(folder / f"part-{k}.parquet")


def values_of(answer) -> list[float]:
    return answer.values.tolist() if hasattr(answer, "__len__") else [answer.value]


def main() -> None:
    small = measure.arguments(__doc__).small
    n, rounds = (80_000, 2) if small else (8_000_000, 5)
    names = engines(small)
    rows = []
    with tempfile.TemporaryDirectory() as root:
        for mechanism in ("geometric", "threshold"):
            survey = measure.survey_of(mechanism)
            folder = Path(root) / mechanism
            write(survey, folder, n)
            size = sum(path.stat().st_size for path in folder.iterdir()) / n
            for query, ask in QUERIES.items():
                works = {
                    engine or "memory": partial(
                        lambda ask, survey, folder, engine: ask(
                            survey.tally(folder, engine=engine)
                        ),
                        ask,
                        survey,
                        folder,
                        engine,
                    )
                    for engine in (None, *names)
                }
                expected = values_of(works["memory"]())
                for engine, work in works.items():
                    assert np.allclose(values_of(work()), expected, rtol=1e-9), (engine, query)
                for engine, taken in measure.median_seconds(works, rounds).items():
                    rows.append(
                        {
                            "mechanism": mechanism,
                            "reports": n,
                            "query": query,
                            "engine": engine,
                            "milliseconds": 1e3 * taken,
                            "file bytes a report": size,
                        }
                    )
    measure.table(rows, list(rows[0]), "engines")


if __name__ == "__main__":
    main()
