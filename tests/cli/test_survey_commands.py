"""`draft`, `explain`, `risk` and `plan` print and write what the functions of Python return."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

from metricldp import Categorical, Survey, SurveySpec, draft, plan

WHERE = "age < 20 and region == 'north'"


def as_json(data):
    return json.loads(json.dumps(data))


def test_draft_writes_a_spec_with_comments(folder, run):
    spec = draft("people.csv")
    assert run("draft", "people.csv") == str(spec)
    assert "draft in draft.toml\nEdit it, then: metricldp design draft.toml" in run(
        "draft", "people.csv", "-o", "draft.toml"
    )
    assert (folder / "draft.toml").read_text("utf-8") == str(spec)
    assert SurveySpec.load("draft.toml") == spec
    data = json.loads(run("draft", "people.csv", "--json"))
    comments = data.pop("comments")
    assert SurveySpec.from_dict(data) == spec
    assert comments == {name: list(lines) for name, lines in spec.comments.items()}


def test_explain_prints_the_explanation(survey, folder, run):
    assert run("explain", "survey.toml") == f"{survey.explain()}\n"
    assert run("explain", "survey.toml", "--n", "1e3") == f"{survey.explain(n=1000)}\n"
    assert run("explain", "survey.json", "--details") == f"{survey.explain().details()}\n"
    data = json.loads(run("explain", "survey.toml", "--n", "777", "--json"))
    assert data == as_json(survey.explain(n=777).to_dict())


def test_design_prints_weak_guarantees_on_standard_error(folder, execute):
    SurveySpec({"c": Categorical(["a", "b"], epsilon=11)}).save("weak.toml")
    code, out, error = execute("design", "weak.toml", "-o", "designed.toml")
    assert code == 0 and "designed.toml" in out
    lines = error.splitlines()
    assert lines[0] == "metricldp: weak privacy guarantee"
    assert [line.strip() for line in lines[1:]] == Survey.load("designed.toml").explain().warnings


def test_risk_prints_the_risk(survey, folder, run):
    assert run("risk", "survey.toml", "region") == f"{survey.risk('region')}\n"
    data = json.loads(run("risk", "survey.toml", "pay", "--within", "2", "--json"))
    assert data == survey.risk("pay", within=2).to_dict()
    pays = np.array([1, 1, 2, 8])
    pc.write_csv(pa.table({"pay": pays}), "public.csv")
    known = survey.risk("pay", prior=np.bincount(pays, minlength=10))
    assert run("risk", "survey.toml", "pay", "--prior", "public.csv") == f"{known}\n"


def test_plan_prints_the_plan(survey, folder, run):
    words = ("plan", "survey.toml", "fraction", WHERE)
    found = plan(survey, 0.05, WHERE)
    assert run(*words, "--error", "5%") == f"{found}\n"
    assert json.loads(run(*words, "--error", "0.05", "--json")) == as_json(found.to_dict())
    stderr = plan(survey, 0.05, WHERE, confidence_level=None, prior="worst")
    data = json.loads(run(*words, "--error", "5%", "--stderr", "--prior", "worst", "--json"))
    assert data["value"] == stderr.n
    mean = plan(survey, 2, "region == 'north'", query="mean", attribute="age")
    words = ("plan", "survey.toml", "mean", "age", "region == 'north'", "--error", "2")
    assert json.loads(run(*words, "--json"))["value"] == mean.n


def test_plan_takes_a_prior_from_public_data(survey, folder, run):
    ages = np.random.default_rng(1).integers(0, 40, 400)
    pc.write_csv(pa.table({"age": ages, "region": ["north"] * 400}), "census.csv")
    prior = {"age": np.bincount(ages, minlength=100), "region": [1, 0, 0]}
    words = ("plan", "survey.toml", "fraction", WHERE, "--error", "5%", "--prior", "census.csv")
    data = json.loads(run(*words, "--json"))
    assert data["value"] == plan(survey, 0.05, WHERE, prior=prior).n
    assert data["assumption"] == "for the given prior"


def test_plan_writes_the_planned_survey(survey, folder, run):
    words = ("plan", "survey.toml", "fraction", WHERE, "--error", "0.05", "--n", "9000")
    data = json.loads(run(*words, "--change", "age", "-o", "planned.toml", "--json"))
    planned = Survey.load("planned.toml")
    assert planned.fingerprint == data["survey"] != survey.fingerprint
    assert planned.asked["age"].epsilon == data["value"]["age"]
    assert planned.asked["region"] == survey.attributes["region"]
    assert planned.expected_error(WHERE, n=9000).margin() / 9000 == pytest.approx(data["error"])


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("risk", "survey.toml", "w"), "w is a public weight"),
        (("risk", "survey.toml", "agee"), "no attribute 'agee'"),
        (("risk", "survey.toml", "age", "--prior", "worst"), "not 'worst'"),
        (("risk", "survey.toml", "age", "--prior", "none.csv"), "there is no file none.csv"),
        (("explain", "survey.toml", "--n", "0"), "a whole number from 1"),
        (("plan", "survey.toml", "fraction", WHERE), "--error 0.02"),
        (("plan", "survey.toml", "count", WHERE, "--n", "9", "--error", "5%"), "in percent"),
        (("plan", "survey.toml", "share", WHERE, "--error", "1"), "count, fraction or mean"),
        (("plan", "survey.toml", "mean", "age < 20", "--error", "1"), "a mean has one attribute"),
        (("plan", "survey.toml", "fraction", WHERE, "--error", "2"), "2 percentage points"),
        (("plan", "survey.toml", "fraction", WHERE, "--error", "5%", "--find", "m"), "find is n"),
    ],
)
def test_wrong_arguments_are_one_line(words, error, folder, rejected):
    assert error in rejected(*words)
