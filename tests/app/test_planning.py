"""`metricldp plan` says what `survey.plan` finds, and writes what it is told to."""

import json
import sys

import matplotlib.image
import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

from metricldp import Categorical, Continuous, Integer, Survey
from metricldp.app import cli, planning
from metricldp.app.plots.plans import trade_off

ASKED = ("fraction", "age=3..6", "region=north")


@pytest.fixture(scope="module")
def survey():
    return Survey(
        {
            "age": Integer(0, 19, epsilon=1, within=3, cap=2, mechanism="geometric"),
            "region": Categorical(["north", "south"], epsilon=2, mechanism="response"),
            "income": Continuous(0, 100, bins=20, epsilon=2, per=10, mechanism="geometric"),
        }
    )


@pytest.fixture
def run(survey, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    survey.save("survey.toml")

    def call(*words, code=0):
        monkeypatch.setattr(sys, "argv", ["metricldp", "plan", "survey.toml", *words])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        out, err = capsys.readouterr()
        assert stopped.value.code == code
        return err if code else out

    return call


def test_text_and_data_are_those_of_python(run, survey):
    where = {"age": (3, 6), "region": "north"}
    plan = survey.plan("fraction", where, error=0.05)
    assert run(*ASKED, "--error", "5%") == f"{plan}\n"
    assert json.loads(run(*ASKED, "--error", "0.05", "--json")) == json.loads(
        json.dumps(plan.to_dict())
    )
    data = json.loads(
        run("mean", "age", "region=north", "--error", "0.5", "--measure", "stderr", "--json")
    )
    mean = survey.plan("mean", {"region": "north"}, attribute="age", error=0.5, measure="stderr")
    assert data["found"] == mean.n
    level = json.loads(run(*ASKED, "--error", "5%", "--level", "90%", "--json"))
    assert level["found"] == survey.plan("fraction", where, error=0.05, level=0.9).n < plan.n


def test_the_advised_survey_is_written(run, survey, tmp_path):
    words = (*ASKED, "--error", "0.05", "--n", "9000", "--of", "age", "-o", "advised.toml")
    data = json.loads(run(*words, "--json"))
    advised = Survey.load(tmp_path / "advised.toml")
    assert advised.fingerprint == data["survey"] != survey.fingerprint
    assert advised.asked["age"].epsilon == data["found"]["age"]
    assert advised.asked["region"] == survey.attributes["region"]
    where = {"age": (3, 6), "region": "north"}
    assert 1.96 * advised.predict(where, 9000) / 9000 == pytest.approx(data["error"], rel=1e-4)
    assert "advised.toml" in run(*words)


def test_a_wrong_ending_is_refused_before_the_work(run, monkeypatch):
    monkeypatch.setattr(planning, "survey_in", None)
    told = run(*ASKED, "--error", "0.02", "-o", "advised.csv", code=2)
    assert "a survey file ends in .toml or .json" in str(told)


def test_people_in_a_file_are_a_prior(run, survey, tmp_path):
    rng = np.random.default_rng(1)
    ages = rng.integers(0, 8, 400)
    pc.write_csv(pa.table({"age": ages, "region": ["north"] * 400}), tmp_path / "census.csv")
    data = json.loads(run(*ASKED, "--error", "5%", "--prior", "census.csv", "--json"))
    prior = {"age": np.bincount(ages, minlength=20), "region": [1, 0]}
    where = {"age": (3, 6), "region": "north"}
    assert data["found"] == survey.plan("fraction", where, error=0.05, prior=prior).n
    assert data["holds"] == "if people are spread as was given"
    even = json.loads(run(*ASKED, "--error", "5%", "--prior", "uniform", "--json"))
    assert even["found"] < json.loads(run(*ASKED, "--error", "5%", "--json"))["found"]


def test_pictures(run, survey, tmp_path):
    assert "picture in plan.png" in run(*ASKED, "--error", "5%", "--plot", "plan.png")
    assert matplotlib.image.imread(tmp_path / "plan.png").std() > 0.05
    plan = survey.plan("mean", attribute="income", error=8, n=500)
    trade_off(plan, tmp_path / "mean.svg")
    text = (tmp_path / "mean.svg").read_text("utf-8")
    assert "<svg" in text


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (ASKED, "--error 0.02"),
        ((*ASKED, "--error", "much"), "not a number"),
        (("count", "age=3", "--n", "9", "--error", "5%"), "in its own unit"),
        (("mean", "region=north", "--error", "1"), "a mean is of one attribute"),
        (("fraction", "age", "--error", "0.1"), "is not a condition"),
        (("fraction", "age=3", "--error", "2"), "or 2% on the command line"),
        (("share", "age=3", "--error", "1"), "an answer is count, fraction or mean"),
        ((*ASKED, "--error", "5%", "--find", "people"), "a plan finds n, epsilon"),
        ((*ASKED, "--error", "5%", "--prior", "none.csv"), "there is no file none.csv"),
        ((*ASKED, "--error", "5%", "--plot", "plan.txt"), "cannot draw plan.txt"),
        ((*ASKED, "--error", "5%", "-o", "survey.toml"), "survey.toml"),
    ],
)
def test_mistakes_are_one_line(run, words, match):
    err = run(*words, code=2)
    assert err.count("\n") == 1
    assert match in err
