"""The client computes what the core computes, byte for byte: in node, and in a real browser."""

import json
import shutil
import subprocess
from collections import Counter

import pytest
from browsers import CLIENT, ROOT, chromium, node, served, tool
from client_manifests import manifests
from facts import broken, fact_of_vector, facts, random_facts, written

from metricldp_core.distributions import FIRST, SECOND, SUPPORTED
from metricldp_core.metrics import KINDS

MOST_BYTES = 26_600
"""Of the module, minified."""
FEWEST = 15_000
"""Facts in all."""
PARTS = "reports", "values", "sentences", "certificates"


def in_node(data, tmp_path):
    return node("check_node.js", written(tmp_path / "facts.json", data))


def in_chromium(data):
    with served() as address, chromium() as browser:
        page = browser.new_page()
        page.goto(f"{address}/clients/js/package.json")
        # As text, because arguments of a page lose the key __proto__.
        call = "async (text) => (await import('/tests/client/check.js')).check(JSON.parse(text))"
        return page.evaluate(call, json.dumps(data, allow_nan=False))


def counted(data):
    return {part: sum(len(one[part]) for one in data) for part in PARTS}


def test_facts_agree_in_node(tmp_path):
    data = [*facts(16, 8), *random_facts(1_000)]
    result = in_node({"facts": data}, tmp_path)
    assert (result["differ"], result["wrong"]) == (0, [])
    assert result["counts"] == {**counted(data), "changes": 0}
    assert result["count"] > 5_000


def test_vectors_agree_in_node(tmp_path):
    """Every report, rejected value, sentence and verdict in vectors/*.json."""
    data, changes = [], []
    for path in sorted((ROOT / "vectors").iterdir()):
        vectors = json.loads(path.read_text("utf-8"))
        data += map(fact_of_vector, vectors.get("manifests", ()))
        for one in vectors.get("rejected_manifests", ()):
            verdict = {"manifest": "invalid", "guarantee": "broken"}[one["reason"]]
            changes.append({"manifest": one["manifest"], "verdict": verdict})
    result = in_node({"facts": data, "changes": changes}, tmp_path)
    assert (result["differ"], result["wrong"]) == (0, [])
    assert result["counts"] == {**counted(data), "changes": len(changes)}
    assert result["count"] > 3_000


def test_wrong_facts_are_noticed(tmp_path):
    one = next(fact for fact in facts(3, 3) if fact["reports"] and fact["values"])
    assert in_node({"facts": [one]}, tmp_path)["differ"] == 0
    assert in_node({"facts": [broken(one)]}, tmp_path)["differ"] == 1
    first = one["reports"][0]
    words = first["words"]
    for other in (words + 16 * "0", words[:-16]):
        wrong = {**one, "reports": [{**first, "words": other}]}
        assert in_node({"facts": [wrong]}, tmp_path)["differ"] == 1
    values = [{"response": first["response"], "clip": False, "rejected": "range"}]
    assert in_node({"facts": [{**one, "values": values}]}, tmp_path)["differ"] == 1
    lines = [*one["sentences"][:-1], one["sentences"][-1] + "."]
    assert in_node({"facts": [{**one, "sentences": lines}]}, tmp_path)["differ"] == 1
    (proof, *rest) = one["certificates"]
    proofs = [{**proof, "loss": proof["loss"] * (1 + 2e-9)}, *rest]
    assert in_node({"facts": [{**one, "certificates": proofs}]}, tmp_path)["differ"] == 1


def test_facts_are_about_everything_that_a_manifest_can_have():
    kinds, firsts, seconds, metrics, domains = (Counter() for _ in range(5))
    for manifest in manifests():
        data = json.loads(manifest.text)
        for field in data["fields"]:
            for domain in field["attributes"]:
                marks = domain.keys() & {"cyclic", "optional", "private", "points", "edges"}
                domains[domain["kind"], *sorted(marks)] += 1
            if "distribution" in field:
                distribution = field["distribution"]
                kinds[distribution["kind"]] += 1
                metric = {**field["metric"], "": 1}
                metrics[metric.pop("kind")] += 1
                metrics.update(metric.keys() & {"width", "cap", "ring", "pairs"})
                if distribution["kind"] == "memoised":
                    firsts[distribution["first"]["kind"]] += 1
                    seconds[distribution["second"]["kind"]] += 1
    assert set(kinds) == set(SUPPORTED)
    assert (set(firsts), set(seconds)) == (set(FIRST), set(SECOND))
    assert set(metrics) == {*KINDS, "width", "cap", "ring", "pairs"}
    assert set(domains) >= {
        ("integer",),
        ("integer", "cyclic"),
        ("integer", "cyclic", "optional"),
        ("continuous",),
        ("continuous", "edges"),
        ("continuous", "edges", "optional"),
        ("continuous", "points"),
        ("continuous", "optional", "points"),
        ("categorical",),
        ("categorical", "optional"),
        ("ordinal",),
        ("ordinal", "cyclic"),
        ("weight",),
        ("weight", "private"),
        ("weight", "optional", "private"),
        ("response",),
    }


@pytest.mark.slow
def test_all_facts_agree_in_node_and_chromium(tmp_path):
    data = [*facts(80, 30), *random_facts(10_000)]
    assert sum(counted(data).values()) >= FEWEST
    result = in_node({"facts": data}, tmp_path)
    assert (result["differ"], result["wrong"]) == (0, [])
    assert result["counts"] == {**counted(data), "changes": 0}
    again = in_chromium({"facts": data})
    assert (again["counts"], again["wrong"]) == (result["counts"], [])


def test_module_is_built_from_its_sources():
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    run(["node", str(CLIENT / "build.js"), "--check"])


def test_stale_module_is_noticed(tmp_path):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    shutil.copytree(CLIENT / "src", tmp_path / "src")
    for name in ("build.js", "metricldp.js", "package.json"):
        shutil.copy(CLIENT / name, tmp_path)
    words = ["node", str(tmp_path / "build.js"), "--check"]
    assert run(words, check=False)
    with (tmp_path / "src" / "report.js").open("a") as file:
        file.write("// more\n")
    assert not run(words, check=False)


def test_minified_module_is_small(tmp_path):
    out = tmp_path / "small.js"
    words = ["--module", "-c", "passes=3,ecma=2022", "-m", "-o", str(out)]
    run([tool("terser"), str(CLIENT / "metricldp.js"), *words])
    assert out.stat().st_size < MOST_BYTES


def test_types_accept_the_interface_and_reject_other_names(tmp_path):
    module = CLIENT / "metricldp.js"
    text = f"""
        import {{ InvalidValueError, MetricLdpError, open }} from {json.dumps(str(module))};
        const options = {{ fingerprint: "00", send: "/", store: localStorage, limit: 3 }};
        const survey = await open("a.json", options);
        const sentences: string[] = survey.guarantee();
        const {{ holds, proofs }} = survey.certify();
        const loss: number = proofs[0].loss;
        const response = {{ age: 42, mood: "good", income: null }};
        const sent = await survey.report(response, {{ wave: "2" }});
        const state: "waiting" | "sent" | "rejected" | undefined = sent.state;
        const {{ epsilon, surveys }} = await survey.accountant();
        await survey.flush();
        const total: number = epsilon + surveys[survey.fingerprint].reports;
        const error: MetricLdpError = new InvalidValueError("range", "age");
        console.log(sentences, holds, loss, state, total, error.reason);
    """
    for name, program, right in (("good", text, True), ("bad", text + "survey.answer();", False)):
        path = tmp_path / f"{name}.mts"
        path.write_text(program, "utf-8")
        options = ["--noEmit", "--strict", "--skipLibCheck", "--target", "es2022"]
        options += ["--module", "nodenext", "--moduleResolution", "nodenext"]
        assert run([tool("tsc"), *options, str(path)], check=False) is right


def run(words, check=True):
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.returncode == 0


def test_package_has_the_module_and_its_types():
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    words = [npm, "pack", "--dry-run", "--json"]
    done = subprocess.run(words, cwd=CLIENT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    (packed,) = found.values() if isinstance(found, dict) else found
    paths = {file["path"] for file in packed["files"]}
    assert paths == {"README.md", "metricldp.d.ts", "metricldp.js", "package.json"}
