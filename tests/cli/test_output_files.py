"""Outputs never replace inputs, and other files only with --force."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.main import get_command

from metricldp import Integer, Survey, Weight
from metricldp.cli.main import app
from metricldp.collector.folder import Collector
from metricldp.collector.proofs import KEY

WRITERS = {
    # command and option: the file that it writes, and its arguments (files that exist are inputs)
    ("draft", "-o"): ("out.toml", "people.csv"),
    ("design", "-o"): ("out.toml", "spec.toml"),
    ("randomize", "-o"): ("out.parquet", "survey.toml people.csv"),
    ("query contributions", "-o"): ("out.parquet", "survey.toml reports.parquet"),
    ("plan", "-o"): ("out.toml", "survey.toml fraction age<9 --error 0.1 --prior people.csv"),
    ("plan", "--plot"): ("out.png", "survey.toml fraction age<9 --error 0.1 --prior people.csv"),
    ("collector manifest", "-o"): ("out.json", "survey.toml"),
    ("collector token invites", "-o"): (
        "out.txt",
        "survey.toml survey.collected/collector.sqlite",
    ),
    ("lab compare", "-o"): ("new/compare.txt", "survey.toml people.csv"),
    ("lab audit", "-o"): ("new/audit.txt", "survey.toml"),
    ("demo", "-o"): ("out.png", ""),
}
PLOTTED = {
    **{"count": "", "fraction": "age<9", "workload": "often", "regression": "age pay"},
    **dict.fromkeys(("covariance", "correlation"), "age pay"),
    **dict.fromkeys(("sum", "mean", "variance", "std", "quantile"), "age"),
    **dict.fromkeys(("histogram", "cdf", "top-k"), "age"),
}
for kind, arguments in PLOTTED.items():
    words = f"survey.toml reports.parquet {arguments}"
    WRITERS[f"query {kind}", "--plot"] = ("out.png", words)
NEW_FOLDER = {("collector backup", "-o")}
"""Commands that write only into a folder that does not exist yet."""
SLOW = {"demo", "design", "plan", "lab compare", "lab audit"}


def writers(command, *names):
    """Every command with an option for a file that it writes."""
    if hasattr(command, "commands"):
        return {one for name, sub in command.commands.items() for one in writers(sub, *names, name)}
    found = {opt for param in command.params for opt in param.opts if opt in ("-o", "--plot")}
    return {(" ".join(names), option) for option in found}


def test_every_command_that_writes_is_tested():
    assert writers(get_command(app)) == WRITERS.keys() | NEW_FOLDER


@pytest.fixture
def work(survey, folder):
    with Collector("survey.collected") as collector:
        collector.open(survey)
        collector.change(survey, proof="invites", key=bytes(KEY).hex())
    (folder / "new").mkdir()
    return folder


def call(command, option, name, words):
    """The words of the command line."""
    words = words.split()
    if command == "collector token invites":
        words.pop()
    target = str(Path(name).parent) if "/" in name else name
    return [*command.split(), *words, option, target]


@pytest.mark.parametrize(("command", "option"), WRITERS)
@pytest.mark.parametrize("link", ["hardlink_to", "symlink_to"])
def test_output_never_replaces_an_input(command, option, link, work, rejected):
    """Under any name of any file that is read, even with --force."""
    name, words = WRITERS[command, option]
    inputs = [word for word in words.split() if Path(word).is_file()]
    assert inputs or command == "demo"
    before = {path: path.read_bytes() for path in work.rglob("*") if path.is_file()}
    for one in inputs:
        getattr(work / name, link)(work / one)
        for force in ([], ["--force"]):
            line = rejected(*call(command, option, name, words), *force)
            assert f"{name} would replace " in line
            assert "name another file" in line
        (work / name).unlink()
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(("command", "option"), WRITERS)
def test_existing_file_is_replaced_only_with_force(command, option, work, rejected, execute):
    name, words = WRITERS[command, option]
    (work / name).write_text("old")
    line = rejected(*call(command, option, name, words))
    assert line.startswith(f"{name} exists; ") and "--force" in line
    assert (work / name).read_text() == "old"
    if command not in SLOW:
        assert execute(*call(command, option, name, words), "--force")[0] == 0
        assert (work / name).read_bytes() != b"old"


def test_second_randomization_is_rejected_with_the_reason(folder, run, rejected):
    words = ("randomize", "survey.toml", "people.csv", "-o", "out.parquet")
    run(*words)
    before = (folder / "out.parquet").read_bytes()
    assert "adds to their privacy loss" in rejected(*words)
    assert (folder / "out.parquet").read_bytes() == before


def test_draft_does_not_replace_a_designed_survey(folder, rejected):
    before = (folder / "survey.toml").read_bytes()
    assert "survey.toml exists" in rejected("draft", "people.csv", "-o", "survey.toml")
    assert (folder / "survey.toml").read_bytes() == before


def test_manifest_beside_the_survey_needs_force(folder, run, rejected):
    run("collector", "manifest", "survey.toml")
    assert "survey.client.json exists" in rejected("collector", "manifest", "survey.toml")
    run("collector", "manifest", "survey.toml", "--force")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("randomize survey.toml people.csv -o out.csv", "a reports file ends in .parquet or .pq"),
        ("randomize survey.toml people.csv -o out", "a reports file ends in .parquet or .pq"),
        ("randomize survey.toml people.csv -o out.totals", "ends in .parquet or .pq"),
        ("query count survey.toml reports.parquet --plot out.doc", "ends in .png or .svg or .pdf"),
        ("design spec.toml -o out.csv", "a survey file ends in .toml or .json"),
        ("draft people.csv -o out.json", "a draft file ends in .toml"),
        ("collector manifest survey.toml -o out.csv", "a client manifest file ends in .json"),
        ("randomize survey.toml people.csv -o none/out.parquet", "there is no directory none"),
        ("randomize survey.toml people.csv -o days.parquet", "it is a directory"),
        ("lab compare survey.toml people.csv -o people.csv", "people.csv is a file; name a folder"),
        ("lab audit survey.toml -o survey.toml/x", "is a file; name a folder"),
    ],
)
def test_names_of_outputs_are_checked_first(words, error, folder, rejected):
    (folder / "days.parquet").mkdir()
    (folder / "people.csv").write_text("no column\n")  # an error if it is read
    files = {*folder.rglob("*")}
    assert error in rejected(*words.split())
    assert {*folder.rglob("*")} == files


def test_every_randomization_uses_new_randomness(survey, folder, run):
    for name in ("one.parquet", "other.parquet"):
        run("randomize", "survey.toml", "people.csv", "-o", name)
    assert survey.tally("one.parquet") != survey.tally("other.parquet")


def test_order_of_respondents_is_kept_only_on_request(folder, run):
    """Public weights stand for the respondents."""
    survey = Survey.design({"x": Integer(0, 1, epsilon=1, per=1), "w": Weight(0, 1000)})
    survey.save("s.toml")
    rows = "".join(f"0,{row}\n" for row in range(500))
    (folder / "p.csv").write_text(f"x,w\n{rows}")
    run("randomize", "s.toml", "p.csv", "-o", "mixed.parquet")
    run("randomize", "s.toml", "p.csv", "-o", "kept.parquet", "--no-shuffle")
    mixed, kept = (
        pq.read_table(f"{name}.parquet")["w=report"].to_pylist() for name in ("mixed", "kept")
    )
    assert kept == sorted(mixed) == list(range(500))
    # At random a Poisson number with mean 1: 20 or more has probability 2e-19.
    assert sum(one == other for one, other in zip(mixed, kept, strict=True)) < 20
