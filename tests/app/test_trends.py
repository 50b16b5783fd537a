"""The command `trend` as people type it."""

import contextlib
import io
import json
import sys
from unittest import mock

import numpy as np
import pytest

from metricldp import Coins, Integer, Survey, Waves
from metricldp.app import cli

SURVEYS = {
    name: Survey({"age": Integer(0, 20, epsilon=e, mechanism="geometric")})
    for name, e in (("survey.toml", 1), ("later.toml", 2))
}


def run(*words, code=0):
    out, wrong, ended = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", ["metricldp", "waves", *map(str, words)]),
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
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, survey in SURVEYS.items():
        survey.save(name)
    kinds = ("survey.toml", "survey.toml", "later.toml")
    for k, name in enumerate(kinds):
        people = {"age": (np.arange(300) * (k + 2)) % 21}
        survey = SURVEYS[name]
        survey.tally(survey.encode(people, coins=Coins.seeded(k))).save(f"{2023 + k}.parquet")
    return tmp_path


FILES = ("survey.toml", "2023.parquet", "2024.parquet", "later.toml", "2025.parquet")


def waves():
    names = ("survey.toml", "survey.toml", "later.toml")
    tallies = (SURVEYS[name].tally(f"{2023 + k}.parquet") for k, name in enumerate(names))
    return Waves(dict(zip(("2023", "2024", "2025"), tallies, strict=True)))


def test_it_says_what_waves_say(folder):
    found = waves().fraction({"age": (3, 8)})
    told = run(*FILES, "age=3..8")
    assert told.startswith(found.text()) and found.changes().text() in told
    assert f"trend: {found.trend().text()}; p-value " in told
    data = json.loads(run(*FILES, "age=3..8", "--json", "--level", "90%"))
    assert [row["value"] for row in data["answers"]] == found.values.tolist()
    assert [row["label"] for row in data["changes"]] == ["2024 less 2023", "2025 less 2024"]
    assert data["trend"]["per"] == "year" and 0 < data["trend"]["p"] <= 1
    assert data["trend"]["low"] == found.trend().interval(0.9)[0]


def test_a_picture_tells_what_is_asked_and_from_how_many(folder):
    told = run(*FILES, "--ask", "mean", "--attribute", "age", "--plot", "mean.svg")
    assert told.endswith("picture in mean.svg\n") and (folder / "mean.svg").exists()
    figure = waves().mean("age").plot()
    axes = figure.axes[0]
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("mean age", "year")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2023", "2024", "2025"]
    assert "from 900 blurred reports" in figure.get_supxlabel()
    assert waves().fraction({"age": (3, 8)}).plot().axes[0].get_ylabel() == "share of age 3 to 8"
    assert "ends in" in run(*FILES, "age<9", "--plot", "mean.doc", code=2)


def test_other_questions(folder):
    told = run(*FILES, "--ask", "mean", "--attribute", "age", "--base", "2023")
    assert waves().mean("age").changes("2023").text() in told
    told = run(*FILES, "--ask", "quantile", "--attribute", "age", "--p", "25%", "--labels", "a,b,c")
    assert "b less a" in told and "per wave" in told
    assert "people per year" in run(*FILES, "age<9", "--ask", "count", "--new-people")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("survey.toml", "2023.parquet", "age=3..8"), "two files of reports or more"),
        ((*FILES, "--ask", "mode"), "--ask is one of"),
        ((*FILES, "--ask", "mean"), "name it with --attribute"),
        ((*FILES, "--attribute", "age"), "leave --attribute out"),
        ((*FILES, "--labels", "a,b"), "--labels names 2 waves, and there are 3 files"),
        ((*FILES, "--labels", "a,b,b"), "the same name"),
        ((*FILES, "--labels", "2023,2025,2024"), "time order"),
        ((*FILES, "none.parquet"), "none.parquet is neither a file of reports nor a condition"),
        ((*FILES, "height=3"), "no attribute 'height'"),
        ((*FILES, "--base", "2022"), "no wave is called '2022'"),
        (("survey.toml", "2023.parquet", "2025.parquet"), "survey"),
    ],
)
def test_mistakes_are_one_line(folder, words, told):
    wrong = run(*words, code=2)
    assert told in wrong and wrong.count("\n") == 1
