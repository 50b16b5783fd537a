"""Facts for ever: this package against vectors/*.json, and a second client against the same."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from vector_cases import FILES, FOLDER, made

from metricldp import (
    Integer,
    InvalidSpecError,
    InvalidValueError,
    MetricLdpError,
    Survey,
    SurveySpec,
)
from metricldp.channels.table import Table
from metricldp.survey import files
from metricldp_core.random_words import Words
from vectors import Recorded, check, entry, fact

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


def _as_designed(text):
    """The rejected file of version 1 as a valid one of version 2, with a mechanism."""
    return text.replace("= 1\n\n", "= 2\n\n") + 'per = 1\nmechanism = "geometric"\n'


def broken_twins():
    """A fact of each kind with something wrong in it."""
    yield "threshold", ["surveys", 0, "facts", 0, "words"], lambda words: words + "0" * 16
    yield "threshold", ["surveys", 0, "facts", 0, "report"], lambda hex: hex[:-2] + "02"
    yield "threshold", ["surveys", 0, "fingerprint"], lambda hex: "0" + hex[1:]
    yield "table", ["laws", 0, "facts", 0, "report"], lambda report: 1 - report
    yield "words", ["words", 5, "found"], lambda found: found + "1"
    yield "canonical", ["canonical", 0, "text"], lambda text: text + "0"
    yield "refused-reports", ["surveys", 0, "reports", 0, "refused"], lambda _: "range"
    yield "refused-values", ["surveys", 0, "values", 0, "refused"], lambda _: "kind"
    yield "refused-surveys", ["files", 0, "text"], _as_designed


@pytest.mark.parametrize(("name", "path", "change"), list(broken_twins()))
def test_a_wrong_fact_is_noticed(name, path, change):
    data = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = change(inner[path[-1]])
    assert len(check(data)[1]) == 1
    with pytest.raises(InvalidSpecError, match="metricldp-vectors = 1"):
        check({**data, "metricldp-vectors": 2})


def completed(data):
    """The data of a survey file with a distance and a mechanism for each attribute without."""
    grouped = {name for one in data.get("joint", ()) for name in one["attributes"]}
    for name, stated in data["attributes"].items():
        numeric = stated["kind"] in ("integer", "continuous", "real")
        if numeric and not {"per", "within", "metric"} & stated.keys():
            stated["per"] = 1
        if name not in grouped and stated["kind"] != "weight":
            stated.setdefault("mechanism", "geometric" if numeric else "response")
    return data


def test_rejected_surveys_are_rejected_for_their_own_reason():
    """Most of these files are not designed; they would be rejected for that alone."""
    count = 0
    for one in json.loads((FOLDER / "refused-surveys.json").read_text("utf-8"))["files"]:
        try:
            data = (files.from_json if one["format"] == "json" else files.from_toml)(one["text"])
            complete = completed(data)
        except (InvalidSpecError, TypeError, KeyError, AttributeError):
            continue  # no file or no attributes, so it is rejected before any is read
        if type(data.get("metricldp")) is int and data["metricldp"] == 2:
            with pytest.raises(InvalidSpecError) as caught:
                pytest.fail(f"{one['because']}: {Survey.from_dict(complete)}")
            assert "is not designed" not in str(caught.value), one["because"]
            assert "needs a distance" not in str(caught.value), one["because"]
            count += 1
    assert count > 50
    good = {"kind": "integer", "low": 0, "high": 9, "epsilon": 1}
    assert Survey.from_dict(completed({"metricldp": 2, "attributes": {"x": good}})).certify().holds


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
    table = Table.of(
        [[int(weight, 16) for weight in row] for row in noise.distribution.to_data()["weights"]]
    )
    stream = Recorded("planar")
    for k in range(200):
        x, y, word = k % 3, k % 4, int.from_bytes(stream.draw(8), "little")
        cell = table.distribution.draw(4 * x + y, Words.given([word]))
        assert noise.draw((x, y), Words.given([word])) == divmod(cell, 4)


def build_planar():
    survey = Survey.design(
        SurveySpec(
            {"x": Integer(0, 2, epsilon=1, per=1), "y": Integer(0, 3, epsilon=1, per=1)},
            joint={("x", "y"): "planar-laplace"},
        )
    )
    return survey.blocks["x+y"].channel


# Making facts


def test_a_stream_of_known_words():
    """The words that are given, lowest byte first, and then digests of the seed and a number."""
    first, second = (hashlib.sha256(f"seed {k}".encode()).digest() for k in (1, 2))
    stream = Recorded("seed", [1, 2**64 - 2])
    given = bytes([1, *[0] * 7, 254, *[255] * 7])
    assert stream.draw(16) == given
    assert stream.drawn == given  # nothing is drawn before it is asked for
    assert stream.draw(8) == first[:8]
    assert stream.draw(40) == first[8:] + second[:16]
    assert stream.draw(0) == b""
    assert stream.words(3) == "0000000000000001" + "fffffffffffffffe" + first[7::-1].hex()
    assert stream.words(0) == ""


def test_facts_of_a_survey_of_ones_own():
    survey = Survey.design({"a": Integer(0, 9, epsilon=1, per=1)})
    person, beyond = {"a": 3}, {"a": 12}
    one = fact(survey, person, Recorded("one"))
    assert set(one) == {"person", "words", "report"}
    assert one["person"] == person
    words = Recorded("one")
    words.draw(len(one["words"]) // 2)
    assert one["words"] == words.words(len(one["words"]) // 16)
    clipped = fact(survey, beyond, Recorded("two"), clip=True)
    assert (clipped["clip"], clipped["person"]) == (True, beyond)
    with pytest.raises(InvalidValueError):
        fact(survey, beyond, Recorded("two"))
    marks = {"canonical": survey.canonical, "fingerprint": survey.fingerprint}
    found = entry(survey, facts=[one, clipped], values=[{"person": beyond, "refused": "range"}])
    assert {name: found[name] for name in marks} == marks
    assert found["survey"] == survey.to_dict()
    assert len(found["facts"]) == 2
    assert check({"metricldp-vectors": 1}) == (0, [])
    data = {"metricldp-vectors": 1, "surveys": [found]}
    assert check(data) == (4, [])
    for place, key, wrong in (
        (found, "canonical", "{}"),
        (one, "words", one["words"] + "0" * 16),
        (one, "report", "00"),
        (clipped, "report", "00"),
        (found["values"][0], "refused", "kind"),
    ):
        right, place[key] = place[key], wrong
        count, told = check(data)
        assert (count, len(told)) == (4, 1)
        assert told[0].startswith("surveys: ")
        assert wrong in told[0] or key == "words"
        place[key] = right
    found["values"].append({"person": beyond, "clip": True, "refused": None})
    with pytest.raises(
        MetricLdpError, match="more random words than were given"
    ):  # clipped, it is not refused
        check(data)
    del found["values"][-1]
    one["person"] = beyond
    with pytest.raises(InvalidValueError):  # without a word it is not clipped
        check(data)


def test_facts_of_laws_and_files():
    law = Table.of([[1 << 63, 1 << 63], [1 << 62, 3 << 62]]).distribution.to_data()
    data = {"metricldp-vectors": 1, "laws": [{"law": law, "facts": []}]}
    assert check(data) == (1, [])
    data["laws"][0]["law"] = {**law, "name": "chair"}
    assert [told.startswith("laws: ") for told in check(data)[1]] == [True]
    survey = Survey.design({"a": Integer(0, 9, epsilon=1, per=1)})
    files = [
        {"format": "json", "text": survey.to_json(), "refused": None},
        {"format": "toml", "text": survey.to_toml(), "refused": None},
        {"format": "json", "text": survey.to_toml(), "refused": "survey"},
        {"format": "toml", "text": survey.to_json(), "refused": "survey"},
    ]
    assert check({"metricldp-vectors": 1, "files": files}) == (4, [])
