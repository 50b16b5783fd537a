"""A survey with data and reports in a folder, and commands that run in this process."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from metricldp import (
    Categorical,
    Continuous,
    Integer,
    Ordinal,
    Randomness,
    Survey,
    SurveySpec,
    Weight,
)
from metricldp.cli.main import main

FAR = "far, far away"


@pytest.fixture(scope="session")
def spec():
    return SurveySpec(
        {
            "age": Integer(0, 99, epsilon=3, per=5, mechanism="geometric"),
            "pay": Integer(0, 9, epsilon=3, per=1, mechanism="geometric"),
            "income": Continuous(0, 200_000, bins=20, epsilon=3, per=10_000, mechanism="geometric"),
            "region": Categorical(["north", "south", FAR], epsilon=3),
            "often": Ordinal(["never", "rarely", "often"], epsilon=2, mechanism="threshold", per=1),
            "w": Weight(0, 5),
        }
    )


@pytest.fixture(scope="session")
def survey(spec):
    return Survey.design(spec)


@pytest.fixture(scope="session")
def data():
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "age": rng.integers(0, 100, 600),
            "pay": rng.integers(0, 10, 600),
            "income": rng.uniform(0, 200_000, 600).round(2),
            "region": rng.choice(["north", "south", FAR], 600),
            "often": rng.choice(["never", "rarely", "often"], 600),
            "w": rng.uniform(0, 5, 600).round(2),
        }
    )


@pytest.fixture(scope="session")
def reports(survey, data):
    return survey.randomize(data, randomness=Randomness.seeded(1))


@pytest.fixture
def folder(spec, survey, data, reports, tmp_path, monkeypatch):
    """Work in a folder with all files that commands read."""
    monkeypatch.chdir(tmp_path)
    spec.save("spec.toml")
    survey.save("survey.toml")
    survey.save("survey.json")
    pc.write_csv(data, "people.csv")
    pq.write_table(data, "people.parquet")
    survey.tally(reports).save("reports.parquet")
    return tmp_path


@pytest.fixture
def days(survey, reports, folder):
    """The same reports in three files of a folder, and a tally of all."""
    (folder / "days").mkdir()
    for day in range(3):
        survey.tally(reports.slice(200 * day, 200)).save(f"days/{day}.parquet")
    return survey.tally("days")


@pytest.fixture
def execute(monkeypatch, capsys):
    """Run a command: its exit code, standard output and standard error."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["metricldp", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        return stopped.value.code, *capsys.readouterr()

    return call


@pytest.fixture
def run(execute):
    """The output of a command that succeeds without a word on standard error."""

    def call(*words, code=0):
        result = execute(*words)
        assert (result[0], result[2]) == (code, "")
        return result[1]

    return call


@pytest.fixture
def rejected(execute):
    """The error of a command that is rejected: one line, or three with a caret."""

    def call(*words):
        code, out, error = execute(*words)
        assert (code, out) == (2, "")
        lines = error.splitlines()
        assert error.startswith("metricldp: ") and error.endswith("\n")
        assert len(lines) == 1 or (len(lines) == 3 and lines[2].strip() == "^"), error
        return error.removeprefix("metricldp: ")

    return call
