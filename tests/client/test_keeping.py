"""What the client keeps and sends: the tests are in JavaScript, in node's own runner."""

import json
import os
import shutil
import subprocess

import pytest
from browsers import HERE

from metricldp import Categorical, Integer, Survey
from metricldp.reports.manifest import manifest

PLAIN = Survey.design(
    {
        "age": Integer(0, 99, epsilon=1, per=5, mechanism="geometric"),
        "income": Integer(0, 99_999, epsilon=1, per=10_000, mechanism="geometric"),
    }
)
ODD = Survey.design(
    {
        "constructor": Integer(0, 9, epsilon=1, mechanism="geometric", per=1),
        "toString": Categorical(
            ["__proto__", "constructor"], epsilon=1, mechanism="randomized-response"
        ),
        "__proto__": Integer(0, 9, epsilon=1, mechanism="threshold", per=1),
    }
)


def memoised():
    """A manifest with a memoised law; the survey is a plain one, the client does not mind."""
    survey = Survey.design({"x": Integer(0, 7, epsilon=1, mechanism="geometric", per=1)})
    data = json.loads(manifest(survey))
    (field,) = data["fields"]
    second = (
        Survey.design({"x": Integer(0, 7, epsilon=0.5, mechanism="geometric", per=1)})
        .channels["x"]
        .distribution.to_data()
    )
    field["law"] = {"law": "memoised", "first": field["law"], "second": second}
    field["says"] += " This holds for all reports of one response together."
    return json.dumps(data)


def test_in_node(tmp_path):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    path = tmp_path / "manifests.json"
    path.write_text(json.dumps([manifest(PLAIN), memoised(), manifest(ODD)]), "utf-8")
    words = ["node", "--test", str(HERE / "keeping_test.js")]
    environment = {**os.environ, "MANIFEST": str(path)}
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "# skipped 0" in done.stdout and "# fail 0" in done.stdout
