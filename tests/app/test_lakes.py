"""compact and ingest as people type them."""

import contextlib
import io
import json
import sys
from unittest import mock

import numpy as np
import pytest

from metricldp import Coins, Integer, Survey
from metricldp.app import cli
from metricldp.reports.bytes import pack

SURVEY = Survey(
    {
        "age": Integer(0, 20, epsilon=1, mechanism="threshold"),
        "visits": Integer(0, 9, epsilon=1, mechanism="geometric"),
    }
)


def run(*words, code=0):
    out, wrong, ended = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", ["metricldp", *map(str, words)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(wrong),
    ):
        try:
            cli.main()
        except SystemExit as end:
            ended = end.code or 0
    assert ended == code, wrong.getvalue()
    return out.getvalue() if not code else wrong.getvalue()


@pytest.fixture
def folder(tmp_path):
    SURVEY.save(tmp_path / "survey.toml")
    (tmp_path / "reports").mkdir()
    rng = np.random.default_rng(1)
    people = {"age": rng.integers(0, 21, 300), "visits": rng.integers(0, 10, 300)}
    table = SURVEY.encode(people, coins=Coins.seeded(1))
    for k in range(3):
        part = SURVEY.tally(table.slice(100 * k, 100))
        part.save(tmp_path / "reports" / f"{k}.parquet")
    records = [rng.bytes(16) + blob for blob in pack(SURVEY, table)]
    bad = records[0][:16] + b"\x07" + records[0][17:]
    (tmp_path / "a.log").write_bytes(b"".join([*records, *records[:40], bad]))
    return tmp_path


def test_compact(folder):
    words = ("compact", folder / "survey.toml", folder / "reports", "-o", folder / "out")
    told = run(*words, "--keep", "age,visits", "--keep", "visits")
    assert told.startswith("300 reports from 3 new segments, 0 known; 300 in")
    again = json.loads(run(*words, "--keep", "age,visits", "--keep", "visits", "--json"))
    assert (again["segments"], again["known"], again["reports"]) == (0, 3, 300)
    totals = SURVEY.tally(next((folder / "out").glob("*.totals")))
    assert totals == SURVEY.tally(folder / "reports", keep=[["age", "visits"], ["visits"]])
    assert "say the same, or begin anew" in run(*words, code=2)


def test_ingest(folder):
    words = ("ingest", folder / "survey.toml", folder / "a.log", "-o", folder / "out")
    told = run(*words, "--at-once", 64)
    assert told.startswith(
        "300 reports from 341 records; 40 duplicates; 1 refused (version); 300 in"
    )
    assert json.loads(run(*words, "--json"))["read"] == 0
    assert SURVEY.tally(folder / "out") == SURVEY.tally(folder / "reports")
    assert "kafka://HOST:PORT/TOPIC" in run(*words[:2], "http://x/y", *words[3:], code=2)


def test_ingest_follows_until_it_is_stopped(folder, monkeypatch):
    def pause(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("metricldp.app.lakes.time.sleep", pause)
    words = ("ingest", folder / "survey.toml", folder / "a.log", "-o", folder / "out", "--follow")
    assert "stopped" in run(*words, code=130)
    assert SURVEY.tally(folder / "out").n == 300
