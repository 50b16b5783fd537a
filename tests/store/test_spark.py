"""Spark finds the same integers: on this machine, in a cluster, and when a worker dies."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lakes import MIXED, ONE, reports, wheres, written

from metricldp import Integer, InvalidReportError, Randomness, Survey
from metricldp.reports import parquet

pyspark = pytest.importorskip("pyspark", reason="needs metricldp[spark]")
pytestmark = [
    pytest.mark.skipif(not shutil.which("java"), reason="Spark needs Java"),
    pytest.mark.filterwarnings("ignore"),
]
SRC = str(Path(__file__).parents[2] / "src")
HERE = str(Path(__file__).parent)


def session(master="local[2]", **more):
    """A session whose workers have this package and nothing else of the machine."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = SRC
    builder = pyspark.sql.SparkSession.builder.master(master)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
        "spark.ui.showConsoleProgress": "false",
        "spark.executorEnv.PYTHONPATH": SRC,
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
        **more,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    return found


@pytest.fixture(scope="module")
def spark():
    found = session()
    yield found
    found.stop()


def same_everywhere(survey, folder):
    """Spark and memory agree to the last bit."""
    memory = {k: survey.tally(folder, layout=k) for k in ("reports", "cells", "prefix")}
    lake = survey.tally(folder, engine="spark")
    assert lake.n == memory["prefix"].n
    for where in wheres(survey):
        count = lake.count(where)
        other = memory[count.layout].count(where)
        assert (count.value, count.stderr) == (other.value, other.stderr)


@pytest.mark.slow
def test_one_count_on_this_machine(tmp_path, spark):
    survey = MIXED["integers"]
    folder = written(survey, tmp_path / "r", [50, 0, 1])
    assert survey.tally(folder, engine="spark", keep=[["a", "b"]]) == survey.tally(
        folder, keep=[["a", "b"]]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in (*ONE, *MIXED) if n not in ("parts", "weight")])
def test_every_mechanism(tmp_path, spark, name):
    survey = {**ONE, **MIXED}[name]
    same_everywhere(survey, written(survey, tmp_path / "r", [200, 0, 1, 130]))


@pytest.mark.slow
def test_frames_tables_and_refusals(tmp_path, spark):
    survey = MIXED["all kinds"]
    folder = written(survey, tmp_path / "r", [80, 0])
    frame = spark.read.parquet(f"file://{folder}")
    frame.createOrReplaceTempView("lake_of_reports")
    whole = survey.tally(folder, keep=[["a", "b"]])
    empty = frame.repartition(7).where("rand() < 2")
    for source in (frame, empty, "lake_of_reports"):
        with pytest.raises(InvalidReportError, match="fingerprint="):
            survey.tally(source, engine="spark")
        assert (
            survey.tally(source, engine="spark", fingerprint=survey.fingerprint, keep=[["a", "b"]])
            == whole
        )
    table = reports(survey, 50, 1)
    wrong = table.set_column(0, "a=report", pa.array([b"\xff"] * 50, pa.binary(1)))
    possible = "a value in column '{}=report' that no report of this survey can have"
    for column, changed, message, reason in (
        ("a", wrong, possible.format("a"), "range"),
        (
            "b",
            table.set_column(1, "b=report", pa.array([0] * 49 + [200])),
            possible.format("b"),
            "range",
        ),
        (
            "c",
            table.set_column(2, "c=report", pa.array([None] * 50, pa.uint8())),
            "empty row",
            "missing",
        ),
    ):
        path = tmp_path / f"{column}.parquet"
        pa.parquet.write_table(changed.replace_schema_metadata(None), path)
        lake = survey.tally(path, engine="spark", fingerprint=survey.fingerprint)
        with pytest.raises(InvalidReportError, match=message) as refused:
            lake.count({column: (1, 2)})
        assert refused.value.reason == reason, str(refused.value)


@pytest.mark.slow
def test_histogram_of_bits_given_ranges(tmp_path, spark):
    survey = MIXED["bits"]
    folder = written(survey, tmp_path / "r", [90, 30])
    memory = survey.tally(folder, layout="reports").histogram("b", {"a": (1, 3), "c": (2, 3)})
    lake = survey.tally(folder, engine="spark")
    assert list(lake.histogram("b", {"a": (1, 3), "c": (2, 3)})) == list(memory)


@pytest.mark.slow
def test_blocks_and_weights(tmp_path, spark):
    for name in ("parts", "weight"):
        survey = MIXED[name]
        folder = written(survey, tmp_path / name, [90, 30])
        one, two = (survey.tally(folder, engine=engine) for engine in ("spark", "duckdb"))
        for where in wheres(survey):
            assert one.count(where) == two.count(where)
    assert one.sum("w", {"a": (1, 3)}).value == pytest.approx(two.sum("w", {"a": (1, 3)}).value)


def large(folder, n, mechanism="geometric"):
    survey = Survey.design(
        {k: Integer(0, 255, epsilon=1, mechanism=mechanism, per=1) for k in "ab"}
    )
    folder.mkdir()
    for k in range(10):
        rng = np.random.default_rng(k)
        people = {name: rng.integers(0, 256, n // 10) for name in "ab"}
        reports = survey.randomize(people, randomness=Randomness.seeded(k))
        parquet.write(survey, folder / f"part-{k}.parquet", [reports])
    return survey


@pytest.mark.slow
def test_ten_million_reports(tmp_path, spark):
    survey = large(tmp_path / "r", 10**7)
    whole = survey.tally(tmp_path / "r", keep=[["a", "b"]])
    for engine in ("duckdb", "polars", "spark"):
        assert (
            survey.tally(
                tmp_path / "r", engine=engine, fingerprint=survey.fingerprint, keep=[["a", "b"]]
            )
            == whole
        )


# A cluster ---------------------------------------------------------------------------------------


class Cluster:
    """A master and workers on loopback, each a process of its own."""

    def __init__(self, folder):
        self.folder, self.started = folder, []
        home = Path(pyspark.__file__).parent
        self.command = [str(home / "bin" / "spark-class")]
        self.env = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "512m",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": SRC,
        }
        self._start("deploy.master.Master", "--host", "127.0.0.1", "--port", "0")
        self.address = self._wait("master", r"Starting Spark master at (spark://[^\s]+)")
        self.workers = [self._worker(k) for k in range(2)]

    def _start(self, kind, *words):
        log = (self.folder / f"{len(self.started)}.log").open("w")
        full = [*self.command, f"org.apache.spark.{kind}", *words, "--webui-port", "0"]
        process = subprocess.Popen(full, env=self.env, stdout=log, stderr=log)
        self.started.append(process)
        return process

    def _worker(self, k):
        place = str(self.folder / f"work-{k}")
        found = self._start(
            *("deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1"),
            *("--memory", "1g", "--work-dir", place, self.address),
        )
        self._wait(len(self.started) - 1, r"Successfully registered with (master)")
        return found

    def _wait(self, number, pattern):
        path = self.folder / f"{0 if number == 'master' else number}.log"
        for _ in range(600):
            if told := re.search(pattern, path.read_text("utf-8")):
                return told[1]
            time.sleep(0.1)
        raise AssertionError(path.read_text("utf-8")[-2000:])

    def kill(self, worker):
        """The worker and what it started, by their ids, without a word."""
        children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children")
        for child in children.read_text("utf-8").split():
            os.kill(int(child), signal.SIGKILL)
        worker.kill()

    def stop(self):
        for process in reversed(self.started):
            process.terminate()
        for process in self.started:
            process.wait(30)


@pytest.mark.slow
def test_a_cluster_of_two_workers_of_which_one_is_killed(tmp_path):
    """In a process of its own: a session is one for each process."""
    large(tmp_path / "r", 10**6, "threshold")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([SRC, HERE, str(Path(HERE).parent)])},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert "the same with two workers" in run.stdout
    assert "the same with one of them killed" in run.stdout


def cluster_of(folder):
    survey = Survey.design(
        {k: Integer(0, 255, epsilon=1, mechanism="threshold", per=1) for k in "ab"}
    )
    where = {"a": (50, 199), "b": (20, 99)}
    memory = survey.tally(folder / "r", layout="reports").count(where)
    (folder / "logs").mkdir()
    cluster = Cluster(folder / "logs")
    try:
        spark = session(cluster.address, **{"spark.executor.memory": "512m"})
        spark.conf.set("spark.sql.files.maxPartitionBytes", "7m")
        lake = survey.tally(folder / "r", engine="spark", fingerprint=survey.fingerprint)
        found = lake.count(where)
        assert (found.value, found.stderr) == (memory.value, memory.stderr)
        assert {w.poll() for w in cluster.workers} == {None}
        print("the same with two workers", flush=True)
        tracker = spark.sparkContext.statusTracker()

        def strike():
            while True:
                stages = [tracker.getStageInfo(s) for s in tracker.getActiveStageIds()]
                if any(s and 0 < s.numCompletedTasks < s.numTasks for s in stages):
                    cluster.kill(cluster.workers[0])
                    return
                time.sleep(0.02)

        hand = threading.Thread(target=strike, daemon=True)
        hand.start()
        whole = survey.tally(folder / "r", engine="spark", fingerprint=survey.fingerprint).count(
            where
        )
        hand.join(60)
        assert not hand.is_alive() and cluster.workers[0].wait(10) is not None
        assert (whole.value, whole.stderr) == (memory.value, memory.stderr)
        print("the same with one of them killed", flush=True)
        spark.stop()
    finally:
        cluster.stop()


if __name__ == "__main__":
    cluster_of(Path(sys.argv[1]))
