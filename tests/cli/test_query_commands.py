"""Each `query` command prints what the method of the tally returns."""

import csv
import io
import json

import pyarrow.parquet as pq
import pytest

from metricldp import Estimate, EstimateTable
from metricldp.estimate.request import KINDS

AGE = "18 <= age <= 29"
SOUTH = "region == 'south'"
TABLES = {
    # words after the reports: the same query in Python
    ("count",): lambda t: t.count(),
    ("count", AGE): lambda t: t.count(AGE),
    ("count", AGE, "--by", "region"): lambda t: t.count(AGE, by="region"),
    ("count", "--by", "age=0,18,65,100"): lambda t: t.count(by={"age": [0, 18, 65, 100]}),
    ("count", "--by", "region", "--by", "often"): lambda t: t.count(by=["region", "often"]),
    ("count", "--by", "region", "--by", "age=0,50,100"): lambda t: t.count(
        by={"region": None, "age": [0, 50, 100]}
    ),
    ("count", AGE, "--target", "population"): lambda t: t.count(AGE, target="population"),
    ("fraction", AGE): lambda t: t.fraction(AGE),
    ("fraction", AGE, "--among", SOUTH): lambda t: t.fraction(AGE, among=SOUTH),
    ("sum", "pay", SOUTH): lambda t: t.sum("pay", SOUTH),
    ("sum", "w", AGE): lambda t: t.sum("w", AGE),
    ("mean", "income", SOUTH): lambda t: t.mean("income", SOUTH),
    ("mean", "income", "--by", "region"): lambda t: t.mean("income", by="region"),
    ("variance", "pay", SOUTH): lambda t: t.variance("pay", SOUTH),
    ("std", "pay", "--by", "region"): lambda t: t.std("pay", by="region"),
    ("quantile", "age"): lambda t: t.quantile("age"),
    ("quantile", "age", SOUTH, "--q", "25%"): lambda t: t.quantile("age", 0.25, SOUTH),
    ("quantile", "pay", "--by", "region"): lambda t: t.quantile("pay", by="region"),
    ("histogram", "often", AGE): lambda t: t.histogram("often", AGE),
    ("histogram", "income", "--bins", "4"): lambda t: t.histogram("income", bins=4),
    ("histogram", "age", "--bins", "0,50,100"): lambda t: t.histogram("age", bins=[0, 50, 100]),
    ("cdf", "often", SOUTH): lambda t: t.cdf("often", SOUTH),
    ("top-k", "pay", "--k", "3"): lambda t: t.top_k("pay", 3),
    ("workload", "often"): lambda t: t.workload("often", "ranges"),
    ("workload", "often", "--matrix", "prefixes"): lambda t: t.workload("often", "prefixes"),
    ("covariance", "age", "pay", SOUTH): lambda t: t.covariance("age", "pay", SOUTH),
    ("correlation", "age", "pay"): lambda t: t.correlation("age", "pay"),
}
OTHERS = {
    ("regression", "pay", "age", "region", SOUTH.replace("==", "!="), "--base", "region=north"): (
        lambda t: t.linear_regression(
            "pay", ["age", "region"], "region != 'south'", base={"region": "north"}
        )
    ),
    ("independence", "age", "region", "--widths", "age=50"): (
        lambda t: t.independence_test("age", "region", widths={"age": 50})
    ),
    ("independence", "often", "region", "--target", "respondents"): (
        lambda t: t.independence_test("often", "region", target="respondents")
    ),
    ("trend", "pay", SOUTH, "--event", "age >= 50"): (
        lambda t: t.trend_test("age >= 50", "pay", SOUTH)
    ),
    ("goodness-of-fit",): lambda t: t.goodness_of_fit_test(),
}
KEYS = {"label", "unit", "target", "confidence_level", "simultaneous", "groups", "notes", "rows"}
COLUMNS = ["estimate", "std_error", "ci_low", "ci_high", "n", "note"]


def table_of(result):
    return EstimateTable.single(result) if isinstance(result, Estimate) else result


@pytest.fixture
def tally(survey, folder):
    return survey.tally("reports.parquet")


def query(kind, *words):
    return "query", kind, "survey.toml", "reports.parquet", *words


def test_every_query_is_compared():
    tested = {words[0] for words in (*TABLES, *OTHERS)} | {"contributions"}
    assert tested == set(KINDS)


@pytest.mark.parametrize("words", TABLES, ids=" ".join)
def test_query_prints_the_table_of_the_tally(words, tally, run):
    result = TABLES[words](tally)
    table = table_of(result)
    assert run(*query(*words)) == f"{result.to_text()}\n"
    data = json.loads(run(*query(*words), "--json"))
    assert data == json.loads(json.dumps(table.to_dict()))
    assert data.keys() >= KEYS
    assert all([*row] == [*data["groups"], *COLUMNS] for row in data["rows"])
    printed = run(*query(*words), "--csv")
    assert printed == table.to_csv()
    assert len([*csv.DictReader(io.StringIO(printed))]) == len(data["rows"])


@pytest.mark.parametrize("words", OTHERS, ids=" ".join)
def test_query_prints_the_result_of_the_test(words, tally, run):
    result = OTHERS[words](tally)
    assert run(*query(*words)) == f"{result}\n"
    assert json.loads(run(*query(*words), "--json")) == json.loads(json.dumps(result.to_dict()))


@pytest.mark.parametrize("words", [("count", AGE), ("histogram", "often"), ("cdf", "often")])
@pytest.mark.parametrize("level", ["0.8", "80%"])
def test_confidence_level(words, level, tally, run):
    result = TABLES[words](tally) if words in TABLES else getattr(tally, words[0])(*words[1:])
    option = ("--confidence-level", level)
    assert run(*query(*words), *option) == f"{result.to_text(0.8)}\n"
    assert json.loads(run(*query(*words), *option, "--json"))["confidence_level"] == 0.8
    assert run(*query(*words), *option, "--csv") == table_of(result).to_csv(0.8)


def test_simultaneous_intervals_are_wider(tally, run):
    words = query("count", "--by", "region")
    each, every = (json.loads(run(*words, "--json", *s)) for s in ([], ["--simultaneous"]))
    assert every == tally.count(by="region").to_dict(simultaneous=True)
    for one, other in zip(each["rows"], every["rows"], strict=True):
        assert other["ci_low"] < one["ci_low"] and one["ci_high"] < other["ci_high"]
    assert "all rows" in run(*words, "--simultaneous") and "all rows" not in run(*words)


def test_regression_prints_its_coefficients_as_csv(tally, run):
    printed = run(*query("regression", "pay", "age"), "--csv")
    assert printed == tally.linear_regression("pay", ["age"]).coefficients.to_csv()


@pytest.mark.parametrize("k", ["3", "3.0", "3e0", "0_3"])
def test_numbers_are_read_as_people_write_them(k, tally, run):
    assert run(*query("top-k", "pay", "--k", k)) == run(*query("top-k", "pay", "--k", "3"))


# Report files ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [["days"], ["days/*.parquet"], ["days/0.parquet", "days/1.parquet", "days/2.parquet"]],
    ids=" ".join,
)
def test_several_report_files_are_one_tally(words, days, run):
    mean = ("query", "mean", "survey.toml", *words, "pay", SOUTH)
    assert run(*mean) == f"{days.mean('pay', SOUTH).to_text()}\n"
    assert run("query", "count", "survey.toml", *words) == f"{days.count().to_text()}\n"


def test_folder_with_the_name_of_an_attribute_can_hold_reports(days, folder, run):
    (folder / "days").rename("age")
    assert run("query", "mean", "survey.toml", "age", "pay") == f"{days.mean('pay').to_text()}\n"


def test_totals_are_added(survey, reports, folder, run):
    for name, part in (("a.totals", reports.slice(0, 300)), ("b.totals", reports.slice(300))):
        survey.tally(part, keep=[("age",)]).save(name)
    expected = survey.tally(reports, keep=[("age",)]).count(AGE)
    assert run("query", "count", "survey.toml", "a.totals", "b.totals", AGE) == f"{expected}\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["reports.parquet", "./reports.parquet"], "the same file again"),
        (["reports.parquet", "copy.parquet"], "counted already"),
        (["reports.parquet", "people.parquet"], "people.parquet"),
        (["none.parquet"], "there is no reports file none.parquet"),
        (["none*"], "no file matches none*"),
        (["a.totals", "./a.totals"], "the reports in a.totals were counted already"),
        (["a.totals", "reports.parquet"], "query them separately"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_report_files_that_do_not_belong_together(words, error, survey, reports, folder, rejected):
    (folder / "copy.parquet").write_bytes((folder / "reports.parquet").read_bytes())
    survey.tally(reports, keep=[("age",)]).save("a.totals")
    assert error in rejected("query", "count", "survey.toml", *words)


def test_missing_report_file_suggests_no_file_of_raw_data(folder, rejected):
    assert (folder / "people.parquet").exists()
    message = rejected("query", "count", "survey.toml", "peopl.parquet")
    assert "there is no reports file peopl.parquet; check the path" in message
    assert "did you mean 'survey.toml'?" in rejected("query", "count", "survy.toml", "x.parquet")


def test_unmarked_reports_need_the_fingerprint(survey, folder, tally, run, rejected):
    pq.write_table(pq.read_table("reports.parquet").replace_schema_metadata(None), "no.parquet")
    words = ("query", "count", "survey.toml", "no.parquet", AGE)
    assert "--fingerprint" in rejected(*words)
    assert run(*words, "--fingerprint", survey.fingerprint[:32]) == f"{tally.count(AGE)}\n"
    assert rejected(*words, "--fingerprint", "0" * 32)


# Errors ------------------------------------------------------------------------------------------

ERRORS = [
    (["count", "reports.parquet", "survey.toml"], "reports.parquet is not a survey; a survey"),
    (["count", "age < 3", "survey.toml", "reports.parquet"], "age < 3 is not a survey; a survey"),
    (["count", "survey.toml", "age < 3", "reports.parquet"], "SURVEY REPORTS... [WHERE]"),
    (["count", "survey.json", "survey.toml"], "survey.toml is a survey; files of reports follow"),
    (["count", "survey.toml", "people.csv"], "randomize them first: metricldp randomize"),
    (["count", "spec.toml", "reports.parquet"], "metricldp design spec.toml -o survey.toml"),
    (["mean", "survey.toml", "age", "reports.parquet"], "SURVEY REPORTS... ATTRIBUTE [WHERE]"),
    (["count", "survey.toml"], "see metricldp query count --help"),
    (["cuont"], "Did you mean 'count'? see metricldp query --help"),
    (["mean", "survey.toml", "reports.parquet"], "ATTRIBUTE"),
    (["mean", "survey.toml", "reports.parquet", "age < 3"], "mean needs attribute"),
    (["mean", "survey.toml", "reports.parquet", SOUTH, "age"], "the condition comes last"),
    (["mean", "survey.toml", "reports.parquet", "ago"], "did you mean 'age'?"),
    (["mean", "survey.toml", "reports.parquet", "age", "more.parquet"], "files come before"),
    (["mean", "survey.toml", "reports.parquet", "region"], "no sum or mean"),
    (["variance", "survey.toml", "reports.parquet", "region"], "no sum or mean"),
    (["correlation", "survey.toml", "reports.parquet", "age"], "Y"),
    (["correlation", "survey.toml", "reports.parquet", "age", "pay", "w"], "'w'"),
    (["regression", "survey.toml", "reports.parquet", "pay", "--base", "a"], "X"),
    (["regression", "survey.toml", "reports.parquet", "pay", "age", "--base", "a"], "base: write"),
    (
        ["independence", "survey.toml", "reports.parquet", "age", "pay", "--widths", "age=x"],
        "widths: 'x' is not a number",
    ),
    (["trend", "survey.toml", "reports.parquet", "age"], "--event"),
    (["fraction", "survey.toml", "reports.parquet"], "WHERE"),
    (["count", "survey.toml", "reports.parquet", "age"], "a condition such as 'age >= 18'"),
    (["count", "survey.toml", "reports.parquet", "age<3", "pay>2"], '"age<3 and pay>2"'),
    (["count", "survey.toml", "reports.parquet", "height < 3"], "no attribute 'height'"),
    (["count", "survey.toml", "reports.parquet", "region == 'nrth'"], "did you mean 'north'?"),
    (["count", "survey.toml", "reports.parquet", "--by", "regoin"], "did you mean 'region'?"),
    (["count", "survey.toml", "reports.parquet", "--by", "age=10"], "two edges or more"),
    (["count", "survey.toml", "reports.parquet", "--by", "age=9,3"], "increase"),
    (["count", "survey.toml", "reports.parquet", "--by", "age=a,b"], "'a' is not a number"),
    (
        ["count", "survey.toml", "reports.parquet", *(3 * ["--by", "often"])],
        "by names 'often' twice",
    ),
    (["count", "survey.toml", "reports.parquet", AGE, "--by", "age"], "age defines the groups"),
    (["count", "survey.toml", "reports.parquet", "--confidence-level", "2"], "between 0 and 1"),
    (["count", "survey.toml", "reports.parquet", "--confidence-level", "x"], "not a number"),
    (["count", "survey.toml", "reports.parquet", "--target", "populations"], "'population'"),
    (["count", "survey.toml", "reports.parquet", "--json", "--csv"], "leave one out"),
    (["quantile", "survey.toml", "reports.parquet", "age", "--q", "1"], "between 0 and 1"),
    (["top-k", "survey.toml", "reports.parquet", "pay", "--k", "0"], "k is a number above 0"),
    (["top-k", "survey.toml", "reports.parquet", "pay", "--k", "1.5"], "'1.5' is not an integer"),
    (["workload", "survey.toml", "reports.parquet", "pay", "--matrix", "sums"], "'sums'"),
]


@pytest.mark.parametrize(("words", "error"), ERRORS, ids=lambda v: " ".join(v)[-40:])
def test_errors_say_what_to_do(words, error, folder, rejected):
    assert error in rejected("query", *words)


@pytest.mark.parametrize(
    "words",
    [
        ["count", "reports.parquet", "age < "],
        ["count", "reports.parquet", "height < 3"],
        ["count", "reports.parquet", "--by", "height"],
        ["count", "reports.parquet", "--by", "age=50,20"],
        ["fraction", "reports.parquet", AGE, "--among", "height < 3"],
        ["mean", "reports.parquet", "height"],
        ["trend", "reports.parquet", "age", "--event", "height < 3"],
        ["quantile", "reports.parquet", "age", "--q", "2"],
        ["count", "reports.parquet", "--plot", "chart.doc"],
    ],
    ids=" ".join,
)
def test_arguments_are_checked_before_reports_are_read(words, folder, rejected):
    (folder / "reports.parquet").write_bytes(b"not a Parquet file")
    assert "reports.parquet" not in rejected("query", words[0], "survey.toml", *words[1:])


HOSTILE = [
    "age < __import__('os').getpid()",
    "(lambda: 1)() == age",
    "age.__class__ == 1",
    "[x for x in age] == 1",
    "f'{age}' == 1",
    "age == " + "(" * 500 + "1" + ")" * 500,
    "age < 1 or " * 900 + "age < 1",
    "not " * 500 + "age < 3",
    "age < 3\x00",
    "age < 3; age",
    "age := 3 < 4",
    "\u202eage < 3",
]


@pytest.mark.parametrize("condition", HOSTILE, ids=lambda text: ascii(text)[:30])
def test_hostile_conditions_are_rejected(condition, folder, rejected):
    assert len(rejected("query", "count", "survey.toml", "reports.parquet", condition)) < 400


@pytest.mark.parametrize("word", ["\u0001", "a\nb", "../" * 500, "%s%n{0}", "x" * 5000])
def test_hostile_names_and_files_are_rejected(word, folder, rejected):
    for words in (
        ["count", word, "reports.parquet"],
        ["count", "survey.toml", word],
        ["mean", "survey.toml", "reports.parquet", word],
        ["count", "survey.toml", "reports.parquet", "--by", word],
        ["workload", "survey.toml", "reports.parquet", "pay", "--matrix", word],
    ):
        rejected("query", *words)


# Contributions -----------------------------------------------------------------------------------


def test_contributions_add_up_to_the_estimates(survey, tally, folder, run):
    words = query("contributions", "-o", "c.parquet")
    text = run(*words, AGE)
    assert text == f"contributions of 600 reports to {tally.count(AGE).question} in c.parquet\n"
    assert pq.read_table("c.parquet") == tally.contributions(AGE)
    data = json.loads(run(*words, "pay", AGE, "--public", "--json", "--force"))
    written = pq.read_table("c.parquet")
    assert written["contribution"].to_numpy().sum() == pytest.approx(tally.sum("pay", AGE).value)
    assert data["columns"] == written.column_names == ["contribution", "variance", "square", "w"]
    assert (data["reports"], data["unit"], data["file"]) == (600, "pay", "c.parquet")


def test_contributions_of_a_folder(survey, days, folder, run):
    run("query", "contributions", "survey.toml", "days", AGE, "-o", "c.parquet")
    assert pq.read_table("c.parquet") == days.contributions(AGE)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["height < 3", "-o", "c.parquet"], "no attribute 'height'"),
        (["height", "-o", "c.parquet"], "no attribute 'height'"),
        ([AGE, "-o", "c.csv"], "ends in .parquet"),
        ([AGE, "-o", "reports.parquet", "--force"], "would replace"),
        (["copy.parquet", "-o", "c.parquet"], "one file or folder"),
        ([AGE], "--output"),
    ],
)
def test_contributions_report_errors(words, error, folder, rejected):
    assert error in rejected(*query("contributions", *words))
    assert not (folder / "c.parquet").exists()


def test_interrupted_contributions_leave_no_file(survey, folder, execute, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("metricldp.answers.decoded.arrow.regrouped", interrupt)
    code, _, error = execute(*query("contributions", "-o", "c.parquet"))
    assert (code, error) == (130, "metricldp: stopped\n")
    assert not [*folder.glob("*c.parquet*")]


def test_reports_of_another_survey_are_rejected(survey, folder, rejected):
    table = pq.read_table("reports.parquet")
    marks = {**table.schema.metadata}
    key = next(key for key, mark in marks.items() if mark == survey.fingerprint.encode())
    pq.write_table(table.replace_schema_metadata({**marks, key: b"0" * 64}), "other.parquet")
    assert "another survey" in rejected("query", "count", "survey.toml", "other.parquet")
