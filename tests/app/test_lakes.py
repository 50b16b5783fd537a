"""The slice command."""

import contextlib
import io
import sys
from unittest import mock

import numpy as np
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


def test_slice(folder):
    told = run("slice", folder / "survey.toml", folder / "reports", "-o", folder / "sliced")
    assert told.startswith("300 reports to survey")
    whole = SURVEY.tally(folder / "reports").count({"age": (3, 9)})
    assert SURVEY.tally(folder / "sliced", engine="duckdb").count({"age": (3, 9)}) == whole
    words = ("slice", folder / "survey.toml", folder / "none", "-o", folder / "other")
    assert "there is no reports file" in run(*words, code=2)
