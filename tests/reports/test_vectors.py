"""Facts for ever: this package against vectors/*.json, and a second client against the same."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from vector_cases import FILES, FOLDER, made

from metricldp import Integer, Survey, SurveyError
from metricldp.channels.table import Table
from metricldp.coins.tape import Tape
from metricldp.reports.vectors import Recorded, check

FEWEST = 2_000
"""Facts in all files together."""


@pytest.mark.parametrize("name", FILES)
def test_files_hold_and_are_made_again(name):
    text = (FOLDER / f"{name}.json").read_text("utf-8")
    count, wrong = check(json.loads(text))
    assert not wrong, "\n".join(wrong[:5])
    assert count > 40
    assert made(name) == text, "a fact has changed: facts are for ever"


def test_there_are_many_facts_and_no_other_files():
    files = sorted(FOLDER.glob("*.json"))
    assert [file.stem for file in files] == sorted(FILES)
    assert sum(check(json.loads(file.read_text("utf-8")))[0] for file in files) >= FEWEST


def broken_twins():
    """A fact of each kind with something wrong in it."""
    yield "threshold", ["surveys", 0, "facts", 0, "words"], lambda words: words + "0" * 16
    yield "threshold", ["surveys", 0, "facts", 0, "report"], lambda hex: hex[:-2] + "02"
    yield "threshold", ["surveys", 0, "fingerprint"], lambda hex: "0" + hex[1:]
    yield "table", ["laws", 0, "facts", 0, "report"], lambda report: 1 - report
    yield "tape", ["tape", 5, "found"], lambda found: found + "1"
    yield "canonical", ["canonical", 0, "text"], lambda text: text + "0"
    yield "refused-reports", ["surveys", 0, "reports", 0, "refused"], lambda _: "range"
    yield "refused-values", ["surveys", 0, "values", 0, "refused"], lambda _: "kind"
    yield "refused-surveys", ["files", 0, "text"], lambda text: text.replace("= 1\n\n", "= 2\n\n")


@pytest.mark.parametrize(("name", "path", "change"), list(broken_twins()))
def test_a_wrong_fact_is_noticed(name, path, change):
    data = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = change(inner[path[-1]])
    assert len(check(data)[1]) == 1
    with pytest.raises(SurveyError, match="metricldp-vectors = 1"):
        check({**data, "metricldp-vectors": 2})


def test_a_second_client_finds_the_same():
    """In another language, by docs/formats.md: it knows nothing of this package."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("the second client is in JavaScript, and node is not installed")
    client = Path(__file__).with_name("second_client_check.js")
    files = [str(FOLDER / f"{name}.json") for name in FILES]
    done = subprocess.run([node, client, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) >= FEWEST


def test_planar_noise_is_a_table_over_cells():
    """Its weights are made with floats, so no file holds them; the way to draw them is the same."""
    noise = build_planar()
    table = Table.of([[int(weight, 16) for weight in row] for row in noise.law()["weights"]])
    stream = Recorded("planar")
    for k in range(200):
        x, y, word = k % 3, k % 4, int.from_bytes(stream.draw(8), "little")
        cell = table.blur(4 * x + y, Tape.of([word]))
        assert noise.draw((x, y), Tape.of([word])) == divmod(cell, 4)


def build_planar():
    survey = Survey(
        {"x": Integer(0, 2, epsilon=1), "y": Integer(0, 3, epsilon=1)},
        joint={("x", "y"): "planar-laplace"},
    )
    return survey.blocks["x+y"].channel
