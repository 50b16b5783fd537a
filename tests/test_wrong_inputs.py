"""Forty wrong inputs: each error is one or two lines with a remedy, and comes at once.

14 conditions, 10 specs, 8 tables of values and 8 files, in Python and on the command line. A line
that repeats a condition and the line with its caret do not count. No message shows a value of a
respondent. `pytest -s` prints every input with its message.
"""

import json
import re
import sys
import time

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from metricldp import (
    Categorical,
    Continuous,
    Integer,
    InvalidSpecError,
    InvalidValueError,
    MetricLdpError,
    Ordinal,
    QueryError,
    Randomness,
    Survey,
    SurveySpec,
)
from metricldp.cli.main import main

SPEC = {
    "age": Integer(0, 99, epsilon=1, per=5, max_epsilon=3, mechanism="geometric"),
    "income": Continuous(
        edges=[0, 20_000, 40_000, 60_000, 100_000], epsilon=1, within=20_000, max_epsilon=3
    ),
    "region": Categorical(["north", "south", "east", "west"], epsilon=2),
    "often": Ordinal(["never", "rarely", "often"], epsilon=1, within=1, max_epsilon=2),
}
PEOPLE = {
    "age": [31, 47, 53] * 20,
    "income": [1234.5, 20_777.0, 99_888.0] * 20,
    "region": ["north", "south", "east"] * 20,
    "often": ["never", "rarely", "often"] * 20,
}
LINES = "".join(json.dumps({"age": 31 + k, "region": "north"}) + "\n" for k in range(4))
QUERY = ["query", "count", "survey.toml"]
RANDOMIZE = ["randomize", "survey.toml"]

CONDITIONS = {
    "agee <= 29": "did you mean 'age'?",
    "region == 'nroth'": "did you mean 'north'?",
    "income <= 30_000": "use bin edges as ends",
    "age == 'thirty'": "write it without quotes",
    "abs(age) > 3": "compare attributes with values",
    "(lambda: age)() == 1": "compare attributes with values",
    "age.real > 3": "write a name with a dot in backticks",
    "age <= " + "9" * 9_993: "use at most 4,000",
    "(" * 500 + "age > 3" + ")" * 500: "remove some",
    "age = 18": "write == for one value",
    "age=18..29": "18 <= age <= 29 for a range",
    "region == north": "write a category in quotes, 'north'",
    "29 <= age <= 18": "exchange its ends",
    "  ": "leave it out, or write",
}


def two(**options):
    return SurveySpec({"age": SPEC["age"], "height": SPEC["age"]}, **options)


SPECS = {
    "Integer(0, 99, epsilon=1)": (lambda: Integer(0, 99, epsilon=1), "state within="),
    "Integer(0, 99, epsilon=-1, within=5)": (
        lambda: Integer(0, 99, epsilon=-1, within=5),
        "must be a positive finite number",
    ),
    "Integer(0, 99, epsilon=1, witin=5)": (
        lambda: Integer(0, 99, epsilon=1, witin=5),
        "did you mean 'within'?",
    ),
    'Categorical(["a", "b", "a"], epsilon=1)': (
        lambda: Categorical(["a", "b", "a"], epsilon=1),
        "write each name once",
    ),
    "Integer(0, 9, epsilon=1, within=5, per=5)": (
        lambda: Integer(0, 9, epsilon=1, within=5, per=5),
        "not both",
    ),
    "Continuous(edges=[0, 6, 24], epsilon=1, within=1, cyclic=True)": (
        lambda: Continuous(edges=[0, 6, 24], epsilon=1, within=1, cyclic=True),
        "use bins, or leave cyclic out",
    ),
    'Integer(0, 9, epsilon=1, within=3, mechanism="geometrc")': (
        lambda: Survey.design({"age": Integer(0, 9, epsilon=1, within=3, mechanism="geometrc")}),
        "did you mean 'geometric'?",
    ),
    'SurveySpec({"age": ..., "height": ...}, joint=[["age", "heigth"]])': (
        lambda: two(joint=[["age", "heigth"]]),
        "did you mean 'height'?",
    ),
    "Continuous(edges=[0, 5, 3, 10], epsilon=1, within=3)": (
        lambda: Continuous(edges=[0, 5, 3, 10], epsilon=1, within=3),
        "in increasing order",
    ),
    "Integer(0, 99, epsilon=3, within=5, max_epsilon=1)": (
        lambda: Integer(0, 99, epsilon=3, within=5, max_epsilon=1),
        "use a smaller epsilon, or a larger max_epsilon",
    ),
}

VALUES = {
    "age 150": ({"age": [150] * 60}, "correct it or clip it"),
    "age NaN": ({"age": [float("nan")] * 60}, "fill it in or leave the row out"),
    "age 'forty-two'": ({"age": ["forty-two"] * 60}, "correct it or leave the row out"),
    "no income": ({"income": None}, "it has 'age', 'region', 'often'"),
    "region 'Nrth'": ({"region": ["Nrth"] * 60}, "is not one of 'north', 'south', 'east', 'west'"),
    "attribute 'regoin'": ({"region": None, "regoin": PEOPLE["region"]}, "Rename that column"),
    "age True": ({"age": [True] * 60}, "convert them to numbers"),
    "age [31]": ({"age": [[31]] * 60}, "convert them to numbers"),
}

FILES = {
    "missing": ([*QUERY, "report.parquet", "age < 30"], "check the path"),
    "directory": (["explain", "days"], "name a .toml or .json file"),
    "CSV as Parquet": ([*QUERY, "csv.parquet", "age < 30"], "write it as Parquet again"),
    "JSON lines as CSV": (
        [*RANDOMIZE, "lines.csv", "-o", "o.parquet"],
        "save it as CSV or Parquet",
    ),
    "reports of another survey": (
        [*QUERY, "other.parquet", "age < 30"],
        "use the survey file that the devices used",
    ),
    "raw values as reports": ([*QUERY, "people.parquet", "age < 30"], "randomize them first"),
    "one digit edited": (["explain", "edited.toml"], "use the file as it was designed"),
    "output exists": ([*RANDOMIZE, "people.csv", "-o", "reports.parquet"], "or add --force"),
}


@pytest.fixture(scope="module")
def survey():
    return Survey.design(SPEC)


@pytest.fixture(scope="module")
def reports(survey):
    return survey.randomize(PEOPLE, randomness=Randomness.seeded(1))


@pytest.fixture
def folder(survey, reports, tmp_path, monkeypatch):
    """A folder with every file that the commands read."""
    monkeypatch.chdir(tmp_path)
    other = Survey.design({"age": SPEC["age"]})
    survey.save("survey.toml")
    survey.tally(reports).save("reports.parquet")
    other.tally(other.randomize({"age": [31, 47]})).save("other.parquet")
    pc.write_csv(pa.table(PEOPLE), "people.csv")
    pc.write_csv(pa.table(PEOPLE), "csv.parquet")
    pq.write_table(pa.table(PEOPLE), "people.parquet")
    (tmp_path / "days").mkdir()
    (tmp_path / "lines.csv").write_text(LINES)
    text = (tmp_path / "survey.toml").read_text()
    top = max(re.findall(r'"([0-9a-f]{16})"', text))  # the largest of the mechanism's numbers
    edited = text.replace(top, f"f{top[1:]}", 1)
    assert edited != text
    (tmp_path / "edited.toml").write_text(edited)
    return tmp_path


def check(given, message, remedy, seconds):
    """The message is short, quick and has the remedy; with `-s` it is printed."""
    lines = message.splitlines()
    if lines[-1].strip() == "^":
        lines = lines[:-2]
    print(f"\n> {given[:90]}\n{message}")
    assert 1 <= len(lines) <= 2
    assert remedy in lines[0] + lines[-1]
    assert "Traceback" not in message
    assert seconds < 2


def error_of(call, kind):
    """The message of the error that a call raises, and the seconds that it takes."""
    start = time.perf_counter()
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, MetricLdpError)
    return str(caught.value), time.perf_counter() - start


def test_there_are_forty_wrong_inputs():
    assert [len(table) for table in (CONDITIONS, SPECS, VALUES, FILES)] == [14, 10, 8, 8]


@pytest.mark.parametrize("text", CONDITIONS, ids=lambda text: text[:20])
def test_wrong_condition_shows_the_remedy(survey, reports, text):
    message, seconds = error_of(lambda: survey.tally(reports).count(text), QueryError)
    check(text, message, CONDITIONS[text], seconds)


@pytest.mark.parametrize("text", SPECS)
def test_wrong_spec_shows_the_remedy(text):
    call, remedy = SPECS[text]
    message, seconds = error_of(call, InvalidSpecError)
    check(text, message, remedy, seconds)


@pytest.mark.parametrize("name", VALUES)
def test_wrong_value_is_not_shown_with_the_remedy(survey, name):
    changes, remedy = VALUES[name]
    people = {key: column for key, column in {**PEOPLE, **changes}.items() if column is not None}
    message, seconds = error_of(lambda: survey.randomize(people), InvalidValueError)
    check(name, message, remedy, seconds)
    values = {str(value) for column in changes.values() if column for value in column}
    for value in values - set(SPEC["region"].categories):
        assert value not in message


@pytest.mark.parametrize("name", FILES)
def test_wrong_file_shows_the_remedy(folder, monkeypatch, capsys, name):
    words, remedy = FILES[name]
    monkeypatch.setattr(sys, "argv", ["metricldp", *words])
    start = time.perf_counter()
    with pytest.raises(SystemExit) as stopped:
        main()
    seconds = time.perf_counter() - start
    out, error = capsys.readouterr()
    assert (stopped.value.code, out) == (2, "")
    assert error.startswith("metricldp: ")
    check(" ".join(["metricldp", *words]), error.removeprefix("metricldp: "), remedy, seconds)
    for value in {*PEOPLE["age"], *PEOPLE["income"]}:
        assert not re.search(rf"\b{value}\b", error)
