"""Commands that make surveys and reports print and write what the package returns."""

import functools
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from metricldp import Categorical, Continuous, Integer, Survey
from metricldp.channels.plain_data import word
from metricldp.cli import demo
from metricldp.reports.arrow import column_of
from metricldp.survey import agreement
from metricldp_core.exact import WORD

PNG = b"\x89PNG\r\n\x1a\n"


def plain(data):
    return json.loads(json.dumps(data))


# Reports -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["people.csv", "people.parquet"])
@pytest.mark.parametrize("file", ["survey.toml", "survey.json"])
def test_randomize(source, file, survey, data, folder, run):
    text = run("randomize", file, source, "-o", "out.parquet")
    assert text == f"600 reports for survey {survey.fingerprint[:16]} in out.parquet\n"
    estimate = survey.tally("out.parquet").count("age <= 49")
    truth = int((data["age"].to_numpy() <= 49).sum())
    # Seven of the worst standard errors: less than one false alarm in 10^11 runs.
    error = survey.expected_error("age <= 49", n=600, prior="worst").stderr
    assert abs(estimate.value - truth) < 7 * error


def test_randomize_prints_json(survey, folder, run):
    printed = json.loads(run("randomize", "survey.toml", "people.csv", "-o", "r.pq", "--json"))
    assert printed == {"survey": survey.fingerprint, "reports": 600, "file": "r.pq"}


def test_values_outside_are_moved_only_with_clip(survey, folder, run, rejected):
    rows = "120,0,-5,north,never,1\n-1,9,1e9,south,often,5\n"
    (folder / "odd.csv").write_text(f"age,pay,income,region,often,w\n{rows}")
    words = ("randomize", "survey.toml", "odd.csv", "-o", "out.parquet")
    assert "--clip" in rejected(*words)
    assert not (folder / "out.parquet").exists()
    assert run(*words, "--clip").startswith("2 reports")
    assert survey.tally("out.parquet").n == 2


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["people.csv", "survey.toml"], "people.csv is not a survey; a survey"),
        (["spec.toml", "people.csv"], "metricldp design spec.toml -o survey.toml"),
        (["survey.toml", "none.csv"], "there is no file none.csv"),
        (["none.toml", "people.csv"], "none.toml"),
        (["survey.toml"], "RESPONSES"),
    ],
)
def test_randomize_reports_errors(words, error, folder, rejected):
    assert error in rejected("randomize", *words, "-o", "out.parquet")
    assert not (folder / "out.parquet").exists()


# Surveys -----------------------------------------------------------------------------------------


def test_design_writes_the_survey_of_the_spec(survey, folder, execute):
    code, text, warning = execute("design", "spec.toml", "-o", "new.toml")
    assert (code, warning.splitlines()[0]) == (0, "metricldp: weak privacy guarantee")
    assert "  age: a report can be" in warning
    assert text.endswith(f"survey {survey.fingerprint} in new.toml\n")
    assert Survey.load("new.toml").fingerprint == survey.fingerprint
    code, text, _ = execute("design", "spec.toml", "-o", "new.toml", "--force", "--json")
    data = json.loads(text)
    assert (data["survey"], data["file"]) == (survey.fingerprint, "new.toml")


def test_design_rejects_a_designed_survey(folder, rejected):
    line = rejected("design", "survey.toml", "-o", "new.toml")
    assert "this is a designed survey, not a spec" in line
    assert not (folder / "new.toml").exists()


@pytest.mark.parametrize(
    "words",
    [
        *(["explain"], ["certify"], ["risk", "age"], ["plan", "count", "age < 3"]),
        *(["collector", "manifest"], ["lab", "limit"], ["lab", "amplify"]),
    ],
    ids=" ".join,
)
def test_commands_say_how_to_design_a_spec(words, folder, rejected):
    place = 2 if words[0] in ("collector", "lab") else 1
    words = [*words[:place], "spec.toml", *words[place:], *(["--error", "9"] * ("plan" in words))]
    line = rejected(*words)
    assert line.startswith("spec.toml is a spec, not a designed survey; design it first: ")
    assert line.endswith("metricldp design spec.toml -o survey.toml\n")


@pytest.mark.parametrize(("n", "error"), [("1.5", "not an integer"), ("x", "not a number")])
def test_numbers_of_respondents_are_checked(n, error, folder, rejected):
    line = rejected("explain", "survey.toml", "--n", n)
    assert error in line and line.endswith("see metricldp explain --help\n")


def test_certify(survey, folder, run):
    assert run("certify", "survey.toml") == f"{survey.certify()}\n"
    printed = json.loads(run("certify", "survey.toml", "--json"))
    assert printed == plain(survey.certify().to_dict())
    assert printed["holds"] is True


@pytest.fixture
def defective(survey, folder):
    """A survey file with flips that are too rare."""
    data = survey.to_dict()
    data["attributes"]["often"]["distribution"]["flips"] = [[word(WORD // 100), 2]]
    (folder / "defective.json").write_text(json.dumps(data))


def test_survey_that_breaks_its_guarantee_is_rejected(defective, rejected):
    line = rejected("certify", "defective.json")
    assert "often has a privacy loss of 4.595" in line and "allowed 2;" in line
    assert line.endswith("use the file as it was designed\n")


def test_certify_fails_if_the_proof_was_not_run_before(defective, run, monkeypatch):
    """Loading leaves out proofs of many steps; then `certify` finds the pair."""
    monkeypatch.setattr(agreement, "MOST_VERIFIED", 0)
    assert "NOT certified" in run("certify", "defective.json", code=1)
    printed = json.loads(run("certify", "defective.json", "--json", code=1))
    assert printed["holds"] is False
    assert [a["attribute"] for a in printed["attributes"] if not a["holds"]] == ["often"]


def test_warning_of_distances_is_one_line(folder, execute):
    (folder / "loose.toml").write_text(
        '[attributes.v]\nkind = "categorical"\ncategories = ["a", "b", "c"]\nepsilon = 1\n'
        '[attributes.v.metric]\nkind = "distance-matrix"\n'
        "rows = [[0, 1, 9], [1, 0, 1], [9, 1, 0]]\n"
    )
    code, out, error = execute("design", "loose.toml", "-o", "new.toml")
    assert code == 0 and "new.toml" in out
    assert error.startswith("metricldp: attribute v: some distances")
    assert error.endswith("'a' to 'c' from 9 to 2\n")
    assert error.count("\n") == 1


# Plans -------------------------------------------------------------------------------------------


def test_planned_survey_and_chart_are_written(folder, run):
    words = ("fraction", "age < 30 and region == 'north'", "--error", "0.05", "--n", "9000")
    text = run("plan", "survey.toml", *words, "-o", "new.toml", "--plot", "plan.png")
    assert f"survey {Survey.load('new.toml').fingerprint[:16]} in new.toml" in text
    assert "chart in plan.png" in text
    assert (folder / "plan.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["fraction", "age < 30"], "such as --error 0.02"),
        (["count", "age < 30", "--error", "2%"], "only a fraction has an error in percent"),
        (["mean", "age < 30", "--error", "2"], "metricldp plan SURVEY mean ATTRIBUTE"),
        (["count", "age", "--error", "2"], "'age' is not a condition"),
        (["count", "age < 3", "pay < 3", "--error", "2"], "joined with and"),
        (["fraction", "age < 30", "--error", "x"], "'x' is not a number"),
        (["median", "age < 30", "--error", "2"], "median"),
        (["fraction", "age < 30", "--error", "2%", "-o", "x.csv"], "ends in .toml or .json"),
        (["fraction", "age < 30", "--error", "2%", "--prior", "none.csv"], "none.csv"),
    ],
)
def test_plan_reports_errors(words, error, folder, rejected):
    assert error in rejected("plan", "survey.toml", *words)


# The demonstration and charts --------------------------------------------------------------------


@pytest.fixture
def small_demo(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "population", functools.partial(demo.population, 5000))
    return tmp_path


def test_demo(small_demo, run):
    text = run("demo")
    assert text.startswith("5,000 synthetic respondents")
    assert "Certified in exact arithmetic: yes" in text
    assert all(condition in text for condition in demo.CONDITIONS)
    assert text.endswith("The chart is in demo.png.\n")
    assert (small_demo / "demo.png").read_bytes().startswith(PNG)


def test_demo_prints_json(small_demo, run):
    data = json.loads(run("demo", "-o", "other.png", "--json"))
    assert (data["n"], data["survey"]) == (5000, demo.survey().fingerprint)
    assert [row["label"] for row in data["rows"]] == list(demo.CONDITIONS)
    ratios = []
    for row in data["rows"]:
        estimate = row.get("rows", [row])[0]
        assert row["covered"] == (estimate["ci_low"] <= row["truth"] <= estimate["ci_high"])
        assert 0 <= row["fitted"] <= 5000
        if not row["label"].startswith("region"):
            ratios += [error / estimate["std_error"] for error in row["other_errors"].values()]
    assert np.median(ratios) > 2
    assert (small_demo / "other.png").read_bytes().startswith(PNG)
    assert not (small_demo / "demo.png").exists()


def test_guarantee_in_the_text_of_the_demo_is_that_of_its_survey():
    expected = {
        "age": Integer(0, 99, epsilon=1, within=5, max_epsilon=3),
        "income": Continuous(0, 200_000, bins=100, epsilon=1, within=10_000, max_epsilon=3),
        "region": Categorical(demo.REGIONS, epsilon=2),
    }
    for name, attribute in demo.survey().attributes.items():
        assert attribute.to_dict() == expected[name].to_dict()
    names = [mechanism.name for mechanism in demo.survey().mechanisms.values()]
    assert names == ["additive", "additive", "randomized-response"]


def test_histogram_is_drawn(folder, run):
    words = ("query", "histogram", "survey.toml", "reports.parquet", "age", "--bins", "10")
    text = run(*words)
    for name, start in (("a.png", PNG), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")):
        assert run(*words, "--plot", name) == f"{text}chart in {name}\n"
        assert (folder / name).read_bytes().startswith(start)
    data = json.loads(run(*words, "--plot", "b.png", "--json"))
    assert data["plot"] == "b.png"
    assert run(*words, "--plot", "c.png", "--csv") == run(*words, "--csv")


def test_columns_of_reports_are_those_of_the_survey(survey, folder, run):
    run("randomize", "survey.toml", "people.csv", "-o", "out.parquet")
    assert pq.read_table("out.parquet").column_names == [*map(column_of, survey.fields)]
