"""decode as people type it."""

import contextlib
import io
import json
import sys
from unittest import mock

import numpy as np
import pyarrow.parquet as pq
import pytest

from metricldp import Coins, Integer, Survey
from metricldp.app import cli

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
    return tmp_path


def test_decode(folder):
    asked = ("decode", folder / "survey.toml", folder / "reports", "-o", folder / "column.parquet")
    told = run(*asked, "age=3..9")
    assert told == f"300 reports decoded for age 3 to 9 in {folder}/column.parquet\n"
    found, tally = pq.read_table(folder / "column.parquet"), SURVEY.tally(folder / "reports")
    assert found == tally.decoded({"age": (3, 9)})
    data = json.loads(run(*asked, "age=3..9", "--of", "visits", "--json"))
    assert data["question"] == "visits among age 3 to 9"
    assert data["columns"] == ["decoded", "variance", "square"]
    assert (data["reports"], data["unit"]) == (300, "visits")
    total = pq.read_table(folder / "column.parquet")["decoded"].to_numpy().sum()
    assert total == pytest.approx(tally.sum("visits", {"age": (3, 9)}).value)


def test_mistakes_are_told_in_one_line(folder):
    asked = ("decode", folder / "survey.toml", folder / "reports")
    output = ("-o", folder / "column.parquet")
    assert "no attribute 'height'" in run(*asked, "height=3", *output, code=2)
    assert "no attribute 'height'" in run(*asked, "--of", "height", *output, code=2)
    assert "ends in .parquet" in run(*asked, "age=3", "-o", folder / "column.csv", code=2)
    one = folder / "reports" / "0.parquet"
    assert "would replace" in run(*asked, "age=3", "-o", one, code=2)
    turned = ("decode", folder / "survey.toml", "age=3..9", folder / "reports")
    assert "which come second" in run(*turned, *output, code=2)
