"""The command line does what Python does, prints it for people or programs, and nothing else."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from typer.main import get_command

from metricldp import Categorical, Coins, Continuous, Integer, Ordinal, Survey, Weight
from metricldp.app import cli, demo
from metricldp.basics import exact
from metricldp.channels import Threshold
from metricldp.collector.folder import Collector
from metricldp.design import registry

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def survey():
    return Survey(
        {
            "age": Integer(0, 99, epsilon=1, per=5),
            "income": Continuous(0, 200_000, bins=20, epsilon=1, per=10_000),
            "region": Categorical(["north", "south", "far, far away"], epsilon=2),
            "often": Ordinal(["never", "rarely", "often"], epsilon=1, mechanism="threshold"),
        }
    )


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "age": rng.integers(0, 100, 500),
            "income": rng.uniform(0, 200_000, 500).round(2),
            "region": rng.choice(["north", "south", "far, far away"], 500),
            "often": rng.choice(["never", "rarely", "often"], 500),
        }
    )


@pytest.fixture
def at_work(survey, people, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    survey.save("survey.toml")
    survey.save("survey.json")
    pc.write_csv(people, "people.csv")
    pq.write_table(people, "people.parquet")
    survey.tally(survey.encode(people, coins=Coins.seeded(1))).save("reports.parquet")
    return tmp_path


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command in this process; what it printed, with a silent standard error."""

    def call(*words, code=0):
        monkeypatch.setattr(sys, "argv", ["metricldp", *words])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        out, err = capsys.readouterr()
        assert stopped.value.code == code
        assert err == ""
        return out

    return call


def test_help(run):
    overview = run("--help")
    assert run() == overview
    for command in ("demo", "explain", "risk", "certify", "encode", "merge", "count", "histogram"):
        assert command in overview
        assert "--json" in run(command, "--help")
    for command in ("count", "mean", "quantile", "cdf"):
        assert "or the population" in " ".join(run(command, "--help").split())
    for command in ("histogram", "linear"):
        assert "hold for all" in " ".join(run(command, "--help").split())


def test_version(run):
    assert run("--version") == f"metricldp {version('metricldp')}\n"


# Encoding ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["people.csv", "people.parquet"])
@pytest.mark.parametrize("agreed", ["survey.toml", "survey.json"])
def test_encode(source, agreed, survey, people, at_work, run):
    out = run("encode", agreed, source, "-o", "out.parquet")
    assert out == f"500 reports to survey {survey.fingerprint[:16]} in out.parquet\n"
    tally = survey.tally("out.parquet")
    assert tally.n == 500
    # Seven of the worst standard errors: less than one false alarm in 10^11 runs.
    true = int((people["age"].to_numpy() <= 49).sum())
    off = tally.count({"age": (0, 49)}).value - true
    assert abs(off) < 7 * survey.predict({"age": (0, 49)}, 500)
    assert not list(at_work.glob("*.part"))


def test_encode_for_a_program(survey, at_work, run):
    data = json.loads(run("encode", "survey.toml", "people.csv", "-o", "out.parquet", "--json"))
    assert data == {"survey": survey.fingerprint, "reports": 500, "file": "out.parquet"}


def test_every_encoding_is_fresh(survey, at_work, run):
    run("encode", "survey.toml", "people.csv", "-o", "one.parquet")
    run("encode", "survey.toml", "people.csv", "-o", "other.parquet")
    assert survey.tally("one.parquet") != survey.tally("other.parquet")


def test_encode_replaces_an_old_file(survey, at_work, run):
    (at_work / "out.parquet").write_text("old")
    run("encode", "survey.toml", "people.csv", "-o", "out.parquet")
    assert survey.tally("out.parquet").n == 500


def test_encode_clips_when_asked(survey, at_work, run):
    (at_work / "odd.csv").write_text(
        "age,income,region,often\n120,-5,north,never\n-1,1e9,south,often\n"
    )
    assert run("encode", "survey.toml", "odd.csv", "-o", "out.parquet", "--clip").startswith("2 ")
    assert survey.tally("out.parquet").n == 2


def test_merge(survey, people, at_work, run):
    survey.tally(survey.encode(people.slice(0, 1), coins=Coins.seeded(1))).save("one.parquet")
    words = ("merge", "survey.toml", "reports.parquet", "one.parquet", "-o", "all.parquet")
    assert run(*words) == f"501 reports to survey {survey.fingerprint[:16]} in all.parquet\n"
    expected = survey.tally("reports.parquet") + survey.tally("one.parquet")
    assert survey.tally("all.parquet") == expected
    data = {"survey": survey.fingerprint, "reports": 501, "file": "all.parquet"}
    assert json.loads(run(*words, "--json")) == data
    assert "1 report to" in run("merge", "survey.toml", "one.parquet", "-o", "one.parquet")
    assert survey.tally("one.parquet").n == 1


@pytest.mark.parametrize("other", ["reports.parquet", "./reports.parquet", "people.parquet"])
def test_merge_of_what_does_not_belong(other, at_work, monkeypatch, capsys):
    words = ["merge", "survey.toml", "reports.parquet", other, "-o", "all.parquet"]
    monkeypatch.setattr(sys, "argv", ["metricldp", *words])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    out, err = capsys.readouterr()
    assert (stopped.value.code, out, err.count("\n")) == (2, "", 1)
    assert other.removeprefix("./") in err
    assert not list(at_work.glob("all*"))


@pytest.fixture
def refused(monkeypatch, capsys):
    """Run a command that is refused: the one line that says why."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["metricldp", *words])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        out, err = capsys.readouterr()
        assert (stopped.value.code, out, err.count("\n")) == (2, "", 1)
        return err

    return call


WRITING = {
    ("encode", "-o out.parquet"): "survey.toml people.csv",
    ("merge", "-o out.parquet"): "survey.toml",  # of reports, a file may hold more of them then
    ("design", "-o out.toml"): "survey.toml",
    ("compile", "-o out.json"): "survey.toml",
    ("decode", "-o out.parquet"): "survey.toml reports.parquet",
    ("draft", "-o out.toml"): "people.csv",
    ("plan", "-o out.toml"): "survey.toml fraction age=1..9 --error 0.1 --prior people.csv",
    ("plan", "--plot out.png"): "survey.toml fraction age=1..9 --error 0.1 --prior people.csv",
    ("risk", "--plot out.png"): "survey.toml age --prior people.csv",
    ("cdf", "--plot out.png"): "survey.toml reports.parquet age",
    ("histogram", "--plot out.png"): "survey.toml reports.parquet age",
    ("waves", "--plot out.png"): "survey.toml reports.parquet survey.json more.parquet",
    ("compare", "-o new/compare.txt"): "survey.toml people.csv",
    ("audit", "-o new/audit.csv"): "survey.toml",
    ("token invites", "-o out.txt"): "survey.toml survey.collected/collector.sqlite",
}
"""Commands with a file that they would write, and all that they read. Of a folder that they write,
one of its files."""
APART = {"demo"}
"""Those that write, and read no file."""
NEW = {"backup"}
"""Those that write into a folder of their own; their tests see that it is."""


def writers(command, *names):
    """The commands that have an option for what they write, with each such option."""
    if hasattr(command, "commands"):
        return {one for name, sub in command.commands.items() for one in writers(sub, *names, name)}
    found = {opt for param in command.params for opt in param.opts if opt in ("-o", "--plot")}
    return {(" ".join(names), option) for option in found}


def test_every_command_that_writes_is_tried():
    tried = {(command, out.split()[0]) for command, out in WRITING}
    others = {(command, "-o") for command in APART | NEW}
    assert writers(get_command(cli.app)) == tried | others


@pytest.mark.parametrize(("command", "out"), WRITING)
@pytest.mark.parametrize("link", ["hardlink_to", "symlink_to"])
def test_what_is_read_is_never_replaced(command, out, link, survey, people, at_work, refused):
    """Under any name of any file that it reads."""
    survey.tally(survey.encode(people, coins=Coins.seeded(2))).save("more.parquet")
    if command == "token invites":
        with Collector("survey.collected") as collector:
            collector.open(survey)
    (at_work / "new").mkdir()
    words = WRITING[command, out].split()
    option, name = out.split()
    read = [word for word in words if Path(word).is_file()]
    assert read
    before = {path: path.read_bytes() for path in at_work.rglob("*") if path.is_file()}
    if command == "merge":
        words.append("reports.parquet")
    elif command == "token invites":
        words.pop()
    where = name if name.startswith("out") else "new"
    for one in read:
        getattr(at_work / name, link)(at_work / one)
        line = refused(*command.split(), *words, option, where)
        assert f"{name} would replace " in line
        assert "name another file" in line
        (at_work / name).unlink()
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("output", ["out.csv", "out", "out.totals", "out.json", "out.parquet.gz"])
def test_reports_are_parquet_and_nothing_else(output, at_work, refused):
    line = refused("encode", "survey.toml", "people.csv", "-o", output)
    assert line == f"metricldp: cannot write {output}: a reports file ends in .parquet or .pq\n"
    if output != "out.totals":
        assert "ends in .parquet" in refused(
            "merge", "survey.toml", "reports.parquet", "-o", output
        )
    assert not list(at_work.glob("out*"))


def test_encode_keeps_the_order_only_when_asked(at_work, run):
    """Public weights stand for who is who."""
    Survey({"x": Integer(0, 1, epsilon=1), "w": Weight(0, 1000)}).save("s.toml")
    rows = "".join(f"0,{k}\n" for k in range(500))
    (at_work / "p.csv").write_text("x,w\n" + rows)
    run("encode", "s.toml", "p.csv", "-o", "mixed.parquet")
    run("encode", "s.toml", "p.csv", "-o", "kept.parquet", "--no-shuffle")
    mixed, kept = (pq.read_table(f"{k}.parquet")["w"].to_pylist() for k in ("mixed", "kept"))
    assert kept == list(range(500))
    assert sorted(mixed) == kept
    # At random a Poisson number with mean 1: 20 or more has probability 2e-19.
    assert sum(a == b for a, b in zip(mixed, kept, strict=True)) < 20


def test_folders_and_patterns(survey, people, at_work, run, refused):
    (at_work / "days").mkdir()
    for k in range(2):
        survey.tally(survey.encode(people.slice(k, 100))).save(f"days/{k}.parquet")
    whole = survey.tally("days")
    assert (
        run("count", "survey.toml", "days", "age=18..29") == f"{whole.count({'age': (18, 29)})}\n"
    )
    assert run("count", "survey.toml", "days/*.parquet").startswith("200 ± 0 people")
    assert run("merge", "survey.toml", "days", "-o", "all.parquet").startswith("200 reports")
    assert "counted already" in refused("merge", "survey.toml", "days", "all.parquet", "-o", "x.pq")
    assert "days/x*" in refused("count", "survey.toml", "days/x*")


def test_unmarked_reports_are_merged_with_the_fingerprint(survey, at_work, run, refused):
    pq.write_table(pq.read_table("reports.parquet").replace_schema_metadata(None), "duck.parquet")
    for words in (
        ("count", "survey.toml", "duck.parquet"),
        ("merge", "survey.toml", "duck.parquet", "-o", "a.pq"),
    ):
        assert "metricldp merge --fingerprint" in refused(*words)
    run(
        "merge",
        "survey.toml",
        "duck.parquet",
        "-o",
        "a.pq",
        "--fingerprint",
        survey.fingerprint[:16],
    )
    assert survey.tally("a.pq") == survey.tally("reports.parquet")


# Answers -----------------------------------------------------------------------------------------

QUESTIONS = [
    ([], {}),
    (["age=18..29"], {"age": (18, 29)}),
    (["age=..29"], {"age": (None, 29)}),
    (["age=65.."], {"age": (65, None)}),
    (["age=.."], {}),
    (["age=30"], {"age": 30}),
    (["age=30,40,50"], {"age": [30, 40, 50]}),
    (["income=50000..100000"], {"income": (50_000, 100_000)}),
    (["income=1e5.."], {"income": (1e5, None)}),
    (["income=10000.00.."], {"income": (10000.0, None)}),
    (["income=10000..20000"], {"income": (10000, 20000)}),
    (["region=north"], {"region": "north"}),
    (["region=north,south"], {"region": ["north", "south"]}),
    (["region=far, far away"], {"region": "far, far away"}),
    (["often=rarely.."], {"often": ("rarely", None)}),
    (["often=never..rarely"], {"often": ("never", "rarely")}),
    (["often=never,often"], {"often": ["never", "often"]}),
    (["age=30..59", "region=north"], {"age": (30, 59), "region": "north"}),
    (["age = 18 .. 29", " region = north"], {"age": (18, 29), "region": "north"}),
    (["region=north, south"], {"region": ["north", "south"]}),
    (["often = never .. rarely"], {"often": ("never", "rarely")}),
    (["age>=18"], {"age": (18, None)}),
    (["age < 30"], {"age": (None, 29)}),
    (["18<=age<=29"], {"age": (18, 29)}),
    (["age==30"], {"age": 30}),
    (["region!=north"], {"region": ["south", "far, far away"]}),
]


@pytest.mark.parametrize(("words", "where"), QUESTIONS, ids=lambda v: str(v)[:30])
def test_count(words, where, survey, at_work, run):
    answer = survey.tally("reports.parquet").count(where)
    assert run("count", "survey.toml", "reports.parquet", *words) == f"{answer}\n"
    data = json.loads(run("count", "survey.json", "reports.parquet", *words, "--json"))
    expected = answer.to_dict()
    assert data.pop("question")
    assert data == {key: value for key, value in expected.items() if key != "question"}


@pytest.mark.parametrize(
    ("attribute", "words", "where", "width"),
    [
        ("age", [], {}, None),
        ("age", ["--width", "10"], {}, 10),
        ("age", ["--width", "7", "region=north"], {"region": "north"}, 7),
        ("income", ["age=18..65", "often=often"], {"age": (18, 65), "often": "often"}, None),
        ("income", ["--width", "50,000"], {}, 50_000),
        ("income", ["--width", "3e4"], {}, 30_000),
        ("income", ["--width", "40_000"], {}, 40_000),
        ("region", [], {}, None),
        ("often", ["--width", "2"], {}, 2),
    ],
)
def test_histogram(attribute, words, where, width, survey, at_work, run):
    bars = survey.tally("reports.parquet").histogram(attribute, where, width=width)
    out = run("histogram", "survey.toml", "reports.parquet", attribute, *words, "--json")
    assert json.loads(out) == bars.to_dict()
    lines = run("histogram", "survey.toml", "reports.parquet", attribute, *words).splitlines()
    assert lines[0].split()[0] == attribute
    notes = bars.shared_notes()
    assert lines[len(bars) + 1 :] == [f"all: {note}" for note in notes]
    for line, label, answer in zip(lines[1 : len(bars) + 1], bars.labels, bars, strict=True):
        assert line.startswith(label)
        assert f" {answer.value:,.0f} " in line


@pytest.mark.parametrize(
    ("name", "start"), [("a.png", PNG), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")]
)
def test_histogram_draws(name, start, at_work, run):
    plain = run("histogram", "survey.toml", "reports.parquet", "age", "--width", "5")
    drawn = run(
        "histogram", "survey.toml", "reports.parquet", "age", "--width", "5", "--plot", name
    )
    assert drawn == plain + f"picture in {name}\n"
    assert (at_work / name).read_bytes().startswith(start)


@pytest.mark.parametrize("command", ["count", "fraction", "histogram"])
def test_level_and_about(command, survey, at_work, run):
    tally = survey.tally("reports.parquet")
    if command == "histogram":
        words, answer = ["region"], tally.histogram("region", about="population")
    else:
        words = ["age=18..29"]
        answer = getattr(tally, command)({"age": (18, 29)}, about="population")
    options = ("--level", "0.9", "--about", "population")
    data = json.loads(run(command, "survey.toml", "reports.parquet", *words, *options, "--json"))
    assert data == answer.to_dict(0.9)
    assert "90%" in run(command, "survey.toml", "reports.parquet", *words, *options)


def test_cdf(survey, at_work, run):
    shares = survey.tally("reports.parquet").cdf("age", {"region": "north"})
    words = ("cdf", "survey.toml", "reports.parquet", "age", "region=north")
    assert json.loads(run(*words, "--json", "--level", "0.9")) == shares.to_dict(0.9)
    lines = run(*words).splitlines()
    assert lines[0].split() == ["age", "share", "±", "error", "95%", "band"]
    assert len(lines) == 101
    assert lines[30].split()[:2] == ["29", f"{shares.values[29]:.3f}"]
    assert run(*words, "--plot", "a.png").endswith("picture in a.png\n")
    assert (at_work / "a.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("workload", ["ranges", "prefixes", "values"])
def test_linear(workload, survey, at_work, run):
    found = survey.tally("reports.parquet").linear("often", workload, {"age": (20, 59)})
    words = ("linear", "survey.toml", "reports.parquet", "often", "age=20..59")
    words = (*words, "--workload", workload)
    rows = json.loads(run(*words, "--json"))["answers"]
    assert [row["label"] for row in rows] == found.labels
    assert [row["value"] for row in rows] == pytest.approx(found.values)
    assert [row["stderr"] for row in rows] == pytest.approx(found.stderr)
    lines = run(*words).splitlines()
    assert len(lines) == len(rows) + 1
    assert all(line.startswith(label) for line, label in zip(lines[1:], found.labels, strict=True))


@pytest.mark.parametrize(
    "words",
    [
        ["count"],
        ["fraction"],
        ["sum", "age"],
        ["mean", "age"],
        ["quantile", "age"],
        ["cdf", "age"],
        ["histogram", "often"],
        ["linear", "often"],
    ],
    ids=lambda words: words[0],
)
def test_the_question_for_a_program_has_its_conditions(words, at_work, run):
    command, *attribute = words
    asked = ("survey.toml", "reports.parquet", *attribute, "age>=20", "--json")
    data = json.loads(run(command, *asked))
    rows = data.get("quantiles", data.get("answers", [data]))
    for row in [data] if data.get("question") else rows:
        assert row["question"].endswith("age 20 and up")


@pytest.mark.parametrize("n", ["1e6", "1_000_000", "1,000,000", "1000000.0"])
def test_numbers_as_people_write_them(n, survey, at_work, run):
    assert json.loads(run("explain", "survey.toml", "--n", n, "--json"))["n"] == 1_000_000


def test_levels_and_probabilities_in_percent(at_work, run):
    asked = ("survey.toml", "reports.parquet")
    assert "(90%: " in run("count", *asked, "age=18..29", "--level", "90%")
    assert run("quantile", *asked, "age", "25%") == run("quantile", *asked, "age", "0.25")


SWAPPED = [
    (
        ["encode", "people.csv", "survey.toml", "-o", "o.parquet"],
        "people.csv is not a survey; that",
    ),
    (["count", "reports.parquet", "survey.toml"], "reports.parquet is not a survey; that"),
    (["count", "age=1..2", "survey.toml", "reports.parquet"], "age=1..2 is not a survey; that"),
    (["merge", "reports.parquet", "survey.toml", "-o", "o.parquet"], "is not a survey; that"),
    (["compare", "people.csv", "survey.toml"], "people.csv is not a survey; that"),
    (["count", "survey.toml", "age=1..2", "reports.parquet"], "SURVEY REPORTS CONDITIONS"),
    (["count", "survey.json", "survey.toml"], "survey.toml is a survey; reports come after it"),
    (["count", "survey.toml", "people.csv"], "people.csv holds people, not reports; encode them"),
    (["mean", "survey.toml", "age", "reports.parquet"], "SURVEY REPORTS ATTRIBUTE CONDITIONS"),
    (
        ["mean", "survey.toml", "reports.parquet", "age=1..2"],
        "'age=1..2' is not an attribute, which",
    ),
    (
        ["mean", "survey.toml", "reports.parquet", "region=north", "age"],
        "is not an attribute, which",
    ),
    (
        ["quantile", "survey.toml", "reports.parquet", "0.5", "age"],
        "'0.5' is not an attribute, which",
    ),
    (["count", "survey.toml", "reports.parquet", "age"], "in a shell, < and > need quotes"),
    (["count", "survey.toml", "reports.parquet", "age=1 region=north"], "a word of its own"),
    (["count", "survey.toml"], "see metricldp count --help"),
    (["cuont"], "Did you mean 'count'? see metricldp --help"),
    (["explain", "survey.toml", "--n", "1.5"], "'1.5' is not a whole number"),
]


@pytest.mark.parametrize(("words", "needle"), SWAPPED, ids=lambda v: " ".join(v)[:40])
def test_words_in_the_wrong_place_are_told_where_they_belong(
    words, needle, at_work, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "argv", ["metricldp", *words])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    out, err = capsys.readouterr()
    assert (stopped.value.code, out, err.count("\n")) == (2, "", 1)
    assert needle in err


@pytest.mark.parametrize("command", ["histogram", "linear"])
def test_intervals_that_hold_together(command, survey, at_work, run):
    words = (command, "survey.toml", "reports.parquet", "often", "--json")
    tally = survey.tally("reports.parquet")
    found = tally.histogram("often") if command == "histogram" else tally.linear("often", "ranges")
    assert json.loads(run(*words, "--simultaneous")) == found.to_dict(simultaneous=True)
    assert json.loads(run(*words)) == found.to_dict()
    assert "95% for all" in run(*words[:-1], "--simultaneous")
    assert "95% interval" in run(*words[:-1])
    if command == "histogram":
        run(*words, "--simultaneous", "--plot", "a.png")
        assert (at_work / "a.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("command", ["mean", "quantile", "cdf"])
def test_about_the_population(command, survey, at_work, run):
    words = (command, "survey.toml", "reports.parquet", "age", "--json")
    tally = survey.tally("reports.parquet")
    ask = {
        "mean": tally.mean,
        "cdf": tally.cdf,
        "quantile": lambda a, **k: tally.quantile(a, 0.5, **k),
    }
    for about in ("respondents", "population"):
        data = json.loads(run(*words, "--about", about))
        data = data["quantiles"][0] if command == "quantile" else data
        assert data == ask[command]("age", about=about).to_dict()
        assert data["about"] == about


def test_a_picture_for_a_program(at_work, run):
    words = ("histogram", "survey.toml", "reports.parquet", "age", "--plot", "a.png", "--json")
    assert json.loads(run(*words))["picture"] == "a.png"


# The survey itself -------------------------------------------------------------------------------


def test_explain(survey, at_work, run):
    assert run("explain", "survey.toml") == f"{survey.explain()}\n"
    assert run("explain", "survey.json", "--n", "777") == f"{survey.explain(777)}\n"
    data = json.loads(run("explain", "survey.toml", "--n", "777", "--json"))
    assert data == survey.explain(777).to_dict()


def test_risk(survey, at_work, run):
    assert run("risk", "survey.toml") == f"{survey.risk()}\n"
    words = ("age", "--within", "2", "--reports", "3", "--seed", "4")
    data = json.loads(run("risk", "survey.json", *words, "--json"))
    assert data == survey.risk("age", within=2, reports=3, seed=4).to_dict()
    out = run("risk", "survey.toml", "--prior", "people.csv", "--plot", "risk.png")
    assert "people are spread as the 500 people in people.csv" in " ".join(out.split())
    assert out.endswith("picture in risk.png\n")
    assert Path("risk.png").read_bytes().startswith(PNG)
    data = json.loads(run("risk", "survey.toml", "often", "--prior", "people.parquet", "--json"))
    often = pq.read_table("people.parquet").column("often").to_pylist()
    assert data["chances"][0]["chance"] == max(map(often.count, often)) / 500


def test_certify(survey, at_work, run):
    out = run("certify", "survey.toml")
    assert out == f"{survey.certify()}\n"
    assert "certified" in out
    data = json.loads(run("certify", "survey.toml", "--json"))
    assert data == survey.certify().to_dict()
    assert data["holds"] is True


@pytest.mark.parametrize("digits", [32, 33, 64])
def test_verify(digits, survey, at_work, run):
    published = survey.fingerprint[:digits].upper()
    out = run("verify", "survey.toml", published)
    assert out == f"survey.toml is survey {survey.fingerprint}, as published\n"
    data = {"survey": survey.fingerprint, "published": published, "same": True}
    assert json.loads(run("verify", "survey.json", published, "--json")) == data


@pytest.mark.parametrize(
    ("published", "code", "words"),
    [
        ("0" * 32, 1, "not the published 00000000000000000000000000000000; do not report to it"),
        ("{31}", 2, "a fingerprint is at least 32 hexadecimal digits, not"),
        ("{32} and more", 2, "a fingerprint is at least 32"),
        ("{64}0", 1, "do not report to it"),
        ("{31}x", 2, "a fingerprint is at least 32"),
        ("", 2, "hexadecimal digits, not ''"),
    ],
)
def test_verify_of_another_survey(published, code, words, survey, at_work, monkeypatch, capsys):
    for digits in (31, 32, 64):
        published = published.replace(f"{{{digits}}}", survey.fingerprint[:digits])
    monkeypatch.setattr(sys, "argv", ["metricldp", "verify", "survey.toml", published])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    out, err = capsys.readouterr()
    assert (stopped.value.code, out, err.count("\n")) == (code, "", 1)
    assert words in err


def test_verify_of_another_survey_for_a_program(at_work, run):
    assert json.loads(run("verify", "survey.toml", "f" * 32, "--json", code=1))["same"] is False


def test_a_tightened_metric_is_told_in_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "loose.toml").write_text(
        'metricldp = 2\n[attributes.v]\nkind = "categorical"\ncategories = ["a", "b", "c"]\n'
        "epsilon = 1\n[attributes.v.metric]\n"
        'kind = "table"\nrows = [[0, 1, 9], [1, 0, 1], [9, 1, 0]]\n'
    )
    monkeypatch.setattr(sys, "argv", ["metricldp", "certify", str(tmp_path / "loose.toml")])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    out, err = capsys.readouterr()
    assert stopped.value.code == 0
    assert "holds" in out
    assert err.startswith("metricldp: attribute v: some distances")
    assert err.endswith("'a' to 'c' from 9 to 2\n")


def test_certify_of_a_broken_channel(at_work, run, monkeypatch):
    careless = replace(
        registry.BUILT_IN["threshold"], make=lambda size, epsilon: Threshold(size, exact.ONE // 100)
    )
    monkeypatch.setitem(registry.BUILT_IN, "threshold", careless)
    out = run("certify", "survey.toml", code=1)
    assert "BROKEN" in out
    assert "NOT certified" in out
    data = json.loads(run("certify", "survey.toml", "--json", code=1))
    assert data["holds"] is False
    assert [a["attribute"] for a in data["attributes"] if not a["holds"]] == ["often"]


# Fits --------------------------------------------------------------------------------------------


def test_fits_stand_beside_unbiased_answers(at_work, run):
    def ask(*words):
        return run(words[0], "survey.toml", "reports.parquet", *words[1:])

    name = "age"
    plain, fitted = ask("count", f"{name}=18..29"), ask("count", f"{name}=18..29", "--fit")
    assert plain.split(" ±")[0] in fitted
    assert "fitted: biased, no guarantee" in fitted
    assert "people fitted, unbiased" in fitted
    assert "fitted" in ask("mean", name, "--fit")
    assert "fitted, unbiased" in ask("quantile", name, "0.5", "--fit")
    head = ask("histogram", name, "--width", "25", "--fit").splitlines()[0]
    assert head.split()[:4] == [name, "fitted", "unbiased", "people"]
    assert "unbiased share" in ask("cdf", name, "--fit").splitlines()[0]
    data = json.loads(ask("count", f"{name}=18..29", "--fit", "--json"))
    assert data["fitted"] is True
    assert data["low"] <= data["unbiased"] <= data["high"]


# The demo ----------------------------------------------------------------------------------------


@pytest.fixture
def small_demo(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "population", functools.partial(demo.population, 5000))
    return tmp_path


def test_demo(small_demo, run):
    out = run("demo")
    assert out.startswith("5,000 made-up people")
    assert "Certified by exact arithmetic: yes" in out
    assert "within 5 years for 47 people" in out
    assert "demo.png" in out
    for question in demo.QUESTIONS:
        for name in question:
            assert name in out
    assert (small_demo / "demo.png").read_bytes().startswith(PNG)


def test_the_survey_of_the_demo_is_what_it_says():
    said = {
        "age": Integer(0, 99, epsilon=1, within=5, cap=3),
        "income": Continuous(0, 200_000, bins=100, epsilon=1, within=10_000, cap=3),
        "region": Categorical(demo.REGIONS, epsilon=2),
    }
    for name, attribute in demo.survey().attributes.items():
        assert attribute.to_dict() == said[name].to_dict()
    assert [m.name for m in demo.survey().mechanisms.values()] == ["shaped", "shaped", "response"]


def test_demo_for_a_program(small_demo, run):
    data = json.loads(run("demo", "-o", "other.png", "--json"))
    assert data["people"] == 5000
    assert data["survey"] == demo.survey().fingerprint
    assert len(data["answers"]) == len(demo.QUESTIONS)
    times = []
    for answer in data["answers"]:
        assert 0 <= answer["fitted"] <= 5000
        assert answer["covered"] == (answer["low"] <= answer["truth"] <= answer["high"])
        ratios = [error / answer["stderr"] for error in answer["beside"].values()]
        # Errors are estimated as well, and of few people on few reports they are rough.
        assert min(ratios) > (0.9 if answer["question"].startswith("region") else 0.7)
        times += [] if answer["question"].startswith("region") else ratios
    assert np.median(times) > 2
    assert (small_demo / "other.png").read_bytes().startswith(PNG)
    assert not (small_demo / "demo.png").exists()


# Pipes and terminals -----------------------------------------------------------------------------

PROGRAM = [sys.executable, "-c", "from metricldp.app.cli import main; main()"]


def test_a_terminal_that_knows_ascii_only(at_work):
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    words = ["count", "survey.toml", "reports.parquet", "region=nörth"]
    done = subprocess.run([*PROGRAM, *words], capture_output=True, env=ascii_only, check=False)
    assert done.returncode == 2
    assert rb"'n\xf6rth'" in done.stderr
    assert done.stderr.count(b"\n") == 1
    done = subprocess.run([*PROGRAM, *words[:3]], capture_output=True, env=ascii_only, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"500 +- 0 people")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk to write to")
@pytest.mark.parametrize("command", [["explain"], ["histogram", "reports.parquet", "age"]])
def test_a_full_disk(command, at_work):
    words = [command[0], "survey.toml", *command[1:], "--json"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "metricldp: cannot write: No space left on device\n"


def test_a_pipe_sees_no_progress_bar(at_work, survey):
    program = "from metricldp.app.cli import main; main()"
    words = ["encode", "survey.toml", "people.csv", "-o", "out.parquet"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"500 reports to survey {survey.fingerprint[:16]} in out.parquet\n"


def test_a_terminal_sees_one(at_work, monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    words = ["encode", "survey.toml", "people.csv", "-o", "out.parquet"]
    monkeypatch.setattr(sys, "argv", ["metricldp", *words])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    out, err = capsys.readouterr()
    assert stopped.value.code == 0
    assert out.startswith("500 reports")
    assert "encoding" in err


def test_stopping_leaves_nothing_behind(at_work, monkeypatch, capsys):
    def stop(survey, people, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("metricldp.reports.files.encode", stop)
    words = ["encode", "survey.toml", "people.csv", "-o", "out.parquet"]
    monkeypatch.setattr(sys, "argv", ["metricldp", *words])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    out, err = capsys.readouterr()
    assert (stopped.value.code, out, err) == (130, "", "metricldp: stopped\n")
    assert not list(at_work.glob("out*"))


def test_sums_of_weights_and_levels_of_quantiles(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    survey = Survey({"age": Integer(0, 9, epsilon=2), "w": Weight(0, 5), "v": Weight(1, 2)})
    survey.save("survey.toml")
    rng = np.random.default_rng(5)
    people = {
        "age": rng.integers(0, 10, 300),
        "w": rng.uniform(0, 5, 300),
        "v": rng.uniform(1, 2, 300),
    }
    tally = survey.tally(survey.encode(people, coins=Coins.seeded(1)))
    tally.save("reports.parquet")
    files = ("survey.toml", "reports.parquet")
    answer = tally.sum("w", {"age": (2, 6)})
    assert run("sum", *files, "w", "age=2..6") == f"{answer}\n"
    wide = run("sum", *files, "w", "age=2..6", "--level", "0.99")
    assert wide == f"{answer.text(0.99)}\n"
    data = json.loads(run("sum", *files, "v", "--json"))
    assert data["value"] == pytest.approx(people["v"].sum())
    median = tally.quantile("age", 0.5)
    assert run("quantile", *files, "age", "--level", "0.5") == f"{median.text(0.5)}\n"
    assert (
        json.loads(run("quantile", *files, "age", "--json", "--level", "0.5"))["quantiles"][0][
            "level"
        ]
        == 0.5
    )


def test_a_missing_typer_is_one_line():
    program = "import sys; sys.modules['typer'] = None; import runpy; "
    program += "runpy.run_module('metricldp', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", program, "--version"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("metricldp: metricldp depends on typer, which is missing (")
    assert done.stderr.count("\n") == 1


def test_the_package_runs_as_a_module():
    shown = subprocess.run(
        [sys.executable, "-m", "metricldp", "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout == f"metricldp {version('metricldp')}\n"


def test_totals_are_merged_and_none_counts_twice(at_work, survey, people, run, monkeypatch, capsys):
    for name in ("one.totals", "two.totals"):
        survey.tally(survey.encode(people), keep=[(next(iter(survey.channels)),)]).save(name)
    out = run("merge", "survey.toml", "one.totals", "two.totals", "-o", "both.totals")
    assert out.startswith(f"{2 * people.num_rows:,} reports")
    words = ["merge", "survey.toml", "one.totals", "./one.totals", "-o", "twice.totals"]
    monkeypatch.setattr(sys, "argv", ["metricldp", *words])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert "the reports in one.totals were counted already" in capsys.readouterr().err
    assert not (at_work / "twice.totals").exists()


def test_the_same_of_other_people(survey, at_work, run, refused):
    """--less and --over are the arithmetic of answers, with its errors and its p-value."""
    tally, files = survey.tally("reports.parquet"), ("survey.toml", "reports.parquet")
    young, old = {"age": (18, 29)}, {"age": (60, None)}
    north, south = {"region": "north"}, {"region": "south"}
    cases = (
        (("count", "age=18..29"), "age=60..", tally.count(young), tally.count(old)),
        (
            ("mean", "age", "region=north"),
            "region=south",
            *(tally.mean("age", w) for w in (north, south)),
        ),
        (
            ("sum", "age", "region=north"),
            "region=south",
            *(tally.sum("age", w) for w in (north, south)),
        ),
        (("fraction", "age=18..29"), "age=60..", tally.fraction(young), tally.fraction(old)),
        (
            ("fraction", "age=18..29", "--of", "region=north"),
            "region=south",
            *(tally.fraction(young, of=whole) for whole in (north, south)),
        ),
    )
    for (command, *words), other, one, two in cases:
        for option, expected, null in (("--less", one - two, 0.0), ("--over", one / two, 1.0)):
            asked = (command, *files, *words, option, other)
            data = json.loads(run(*asked, "--json", "--level", "0.9"))
            assert data.pop("p_value") == pytest.approx(expected.p_value(null))
            for name, value in expected.to_dict(0.9).items():
                assert data[name] == (pytest.approx(value) if isinstance(value, float) else value)
    said = run("mean", *files, "age", "region=north", "--less", "region=south")
    apart = tally.mean("age", north) - tally.mean("age", south)
    first = f"age among region north less age among region south: {apart}"
    assert said.splitlines() == [first, f"p-value of no difference: {apart.p_value():.2g}"]
    equal = run("fraction", *files, "age=18..29", "--of", "region=north", "--less", "region=north")
    assert equal.endswith("p-value of no difference: 1\n")
    for more, needle in (
        (["--by", "region"], "--by does not go with --less"),
        (["--over", "age=60.."], "--less does not go with --over"),
        (["--fit"], "--fit does not go with --less"),
    ):
        words = ("count", *files, "age=18..29", "--less", "age=60..", *more)
        assert needle in refused(*words)
    assert "no attribute 'ag'" in refused("count", *files, "age=18..29", "--less", "ag=60..")


def test_quantiles_of_groups(survey, at_work, run, refused):
    tally = survey.tally("reports.parquet")
    words = ("quantile", "survey.toml", "reports.parquet", "often", "0.25", "0.5", "--by", "region")
    found = [tally.quantile("often", p, by="region") for p in (0.25, 0.5)]
    assert run(*words) == "".join(f"{one.text()}\n" for one in found)
    assert "--by does not go with --liars" in refused(*words, "--liars", "3")
    data = json.loads(run(*words, "--json"))
    assert data == {"attribute": "often", "quantiles": [one.to_dict() for one in found]}
