"""The client finds what Python finds, byte for byte: in node, and in a real browser."""

import json
import shutil
import subprocess

import pytest
from browsers import CLIENT, chromium, node, served, tool
from facts import broken, committed, known, many, surveys

from metricldp import Survey
from metricldp.reports.manifest import KNOWN, manifest
from metricldp_core.device import Device
from metricldp_core.random_words import Words

MOST_BYTES = 10 * 1024
"""Of the module, minified."""
FEWEST = 15_000
"""Facts in all."""


def in_node(data, tmp_path):
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(data), "utf-8")
    return node("check_node.js", path)


def counted(data):
    return sum(len(one.get("facts", ())) + len(one.get("values", ())) for one in data)


def test_a_part_in_node(tmp_path):
    data = {**committed(), "many": list(many(16, step=2))}
    found = in_node(data, tmp_path)
    assert found["differ"] == 0, found["wrong"]
    assert found["count"] > 3_000


def test_a_wrong_fact_is_noticed(tmp_path):
    one = next(many(3))
    assert in_node({"many": [one]}, tmp_path)["differ"] == 0
    assert in_node({"many": [broken(one)]}, tmp_path)["differ"] == 1
    first = one["facts"][0]
    more = {**one, "facts": [{**first, "words": first["words"] + 16 * "0"}]}
    assert in_node({"many": [more]}, tmp_path)["differ"] == 1
    values = {**one, "values": [{"person": first["person"], "refused": "range"}]}
    assert in_node({"many": [values]}, tmp_path)["differ"] == 1


def test_every_law_is_there():
    """Of those that the client says it knows; memoised answers have tests of their own."""
    found = set()
    for survey in surveys():
        for field in json.loads(manifest(survey))["fields"]:
            law = field.get("law", {})
            found |= {law.get("law"), law.get("of", law).get("law")}
    assert KNOWN - {"memoised", "lazy"} <= found
    assert all(known(survey) for survey in surveys())


def in_python(one):
    """The same facts from the words alone."""
    # A manifest does not lead back to a survey: the surveys are made again beside it.
    survey = BY_MANIFEST[one["manifest"]]
    device = Device(survey.client_manifest)
    for fact in one["facts"]:
        words = fact["words"]
        words = Words.given([int(words[at : at + 16], 16) for at in range(0, len(words), 16)])
        report = device.from_tape(fact["person"], words, clip=fact.get("clip", False))
        yield report.hex() == fact["report"] and words.used == len(words) // 16


BY_MANIFEST: dict[str, Survey] = {}


@pytest.mark.slow
def test_all_in_python_node_and_chromium(tmp_path):
    data = {**committed(), "many": list(many(150))}
    assert counted(data["many"]) + counted(data["surveys"]) >= FEWEST
    BY_MANIFEST.update((manifest(survey), survey) for survey in surveys())
    assert all(same for one in data["many"] for same in in_python(one))
    told = in_node(data, tmp_path)
    assert (told["differ"], told["wrong"]) == (0, [])
    with served() as address, chromium() as browser:
        page = browser.new_page()
        page.goto(f"{address}/clients/js/package.json")
        call = "async (data) => (await import('/tests/client/check.js')).check(data)"
        found = page.evaluate(call, data)
    assert found["wrong"] == []
    assert found["count"] == told["count"] >= FEWEST


def test_it_is_small(tmp_path):
    out = tmp_path / "small.js"
    words = ["--module", "-c", "passes=3,ecma=2022", "-m", "-o", str(out)]
    run([tool("terser"), str(CLIENT / "metricldp.js"), *words])
    assert out.stat().st_size < MOST_BYTES


def test_types_are_right(tmp_path):
    """A program that uses all of it compiles; with a wrong word it does not."""
    good = (CLIENT / "metricldp.d.ts").parent / "metricldp.js"
    text = f"""
        import {{ open }} from {json.dumps(str(good))};
        const survey = await open("a.json", {{ pin: "00", send: "/", store: localStorage }});
        const told: string = survey.promise();
        const {{ holds, lines }} = survey.certify();
        const sent = await survey.answer({{ age: 42, mood: "good", told: null }}, {{ wave: "2" }});
        const state: "waiting" | "sent" | "refused" | undefined = sent.state;
        const spent: number = (await survey.ledger()).spent;
        await survey.flush();
        console.log(told, holds, lines.length, state, spent, survey.fingerprint);
    """
    for name, program, right in (
        ("good", text, True),
        ("bad", text + "survey.distribution.draw();", False),
    ):
        path = tmp_path / f"{name}.mts"
        path.write_text(program, "utf-8")
        options = ["--noEmit", "--strict", "--skipLibCheck", "--target", "es2022"]
        options += ["--module", "nodenext", "--moduleResolution", "nodenext"]
        assert run([tool("tsc"), *options, str(path)], check=False) is right


def run(words, check=True):
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.returncode == 0


def test_it_can_be_packed():
    """What npm would publish: the module, its types, and no tests or tools."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    words = [npm, "pack", "--dry-run", "--json"]
    done = subprocess.run(words, cwd=CLIENT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    (packed,) = found.values() if isinstance(found, dict) else found
    names = {file["path"] for file in packed["files"]}
    assert names == {"README.md", "metricldp.d.ts", "metricldp.js", "package.json"}
