"""The commands for variances, correlations, lines, tests and ranks say what a tally says."""

import json
import sys

import numpy as np
import pytest

from metricldp import Categorical, Coins, Integer, Survey
from metricldp.app import cli

SURVEY = Survey(
    {
        "age": Integer(0, 9, epsilon=3, mechanism="geometric"),
        "pay": Integer(0, 9, epsilon=3, mechanism="threshold"),
        "region": Categorical(["north", "south"], epsilon=3),
    }
)


@pytest.fixture
def tally(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(1)
    age, south = random.integers(0, 10, 3000), random.integers(0, 2, 3000)
    people = {
        "age": age,
        "pay": np.clip(age // 2 + 2 * south + random.integers(0, 3, 3000), 0, 9),
        "region": np.array(["north", "south"])[south],
    }
    SURVEY.save("survey.toml")
    found = SURVEY.tally(SURVEY.encode(people, coins=Coins.seeded(1)))
    found.save("reports.parquet")
    return found


@pytest.fixture
def run(monkeypatch, capsys):
    def call(name, *words, code=0):
        line = ["metricldp", name, "survey.toml", "reports.parquet", *words]
        monkeypatch.setattr(sys, "argv", line)
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        out, err = capsys.readouterr()
        assert stopped.value.code == code
        return err if code else out

    return call


NORTH = {"region": "north"}
SAME = {
    "variance": (["age", "region=north"], lambda t: t.variance("age", NORTH)),
    "std": (["age", "--about", "population"], lambda t: t.std("age", about="population")),
    "covariance": (["age", "pay", "region=north"], lambda t: t.covariance("age", "pay", NORTH)),
    "correlation": (["age", "pay"], lambda t: t.correlation("age", "pay")),
    "regression": (
        ["pay", "age", "region", "--base", "region=south"],
        lambda t: t.regression("pay", ["age", "region"], base={"region": "south"}),
    ),
    "independence": (
        ["age", "region", "--width", "age=5"],
        lambda t: t.independence("age", "region", widths={"age": 5}),
    ),
    "trend": (
        ["age", "--share", "pay>=3", "region=north"],
        lambda t: t.trend({"pay": (3, None)}, "age", NORTH),
    ),
    "top": (["pay", "--k", "2"], lambda t: t.top("pay", 2)),
}


@pytest.mark.parametrize("name", SAME)
def test_a_command_says_what_the_tally_says(name, tally, run):
    words, ask = SAME[name]
    found = ask(tally)
    assert run(name, *words) == f"{found.text()}\n"
    assert run(name, *words, "--level", "0.9") == f"{found.text(0.9)}\n"
    data = json.loads(run(name, *words, "--json"))
    expected = json.loads(json.dumps(found.to_dict()))
    for one in (data, expected, data.get("estimate") or {}, expected.get("estimate") or {}):
        one.pop("layout", None)
    data.get("r_squared", {}).pop("layout", None)
    expected.get("r_squared", {}).pop("layout", None)
    assert data == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["covariance", "age"], "name one other attribute"),
        (["correlation", "age", "pay", "region"], "name one other attribute"),
        (["regression", "pay"], "name the predictors"),
        (["regression", "pay", "region", "--base", "north"], "a base is said as"),
        (["independence", "age", "region", "--width", "age=x"], "a width is a number"),
        (["trend", "age"], "say what the share is of"),
        (["variance", "region"], "values are names"),
        (["top", "pay", "--k", "0"], "at least 1"),
    ],
)
def test_mistakes_are_told_in_a_line(words, said, tally, run):
    err = run(*words, code=2)
    assert said in err and err.count("\n") == 1
