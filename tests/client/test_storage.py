"""What the client stores and sends: the tests are in JavaScript, for node's own test runner."""

import json
import os
import shutil
import subprocess
from fractions import Fraction

import pytest
from browsers import HERE
from client_manifests import (
    field,
    geometric,
    lazy,
    line,
    names,
    randomized_response,
    response,
    threshold,
    whole,
)

from metricldp.channels.plain_data import manifest_of
from metricldp_core.distributions import Memoised
from metricldp_core.guarantee import total_epsilon
from metricldp_core.manifest import Field
from metricldp_core.metrics import Line, Uniform
from metricldp_core.report import ReportFormat

FIRST = geometric(8, 1)
MANIFESTS = [
    [
        field(whole(100, "age", 0), geometric(100, 0.2), line(100, width=5)),
        field(whole(100_000, "income", 0), geometric(100_000, 1e-4), line(100_000, width=10_000)),
    ],
    [field(whole(8, "x", 0), Memoised(FIRST, lazy(FIRST, 1)), line(8))],
    [
        field(whole(10, "constructor", 0), geometric(10, 1), line(10)),
        field(
            names(2, "toString", names=("__proto__", "constructor")),
            randomized_response(2, 1),
            Uniform(2, Fraction(1)),
        ),
        field(whole(10, "__proto__", 0), threshold(10, 1), line(10)),
    ],
    [field(whole(8, "x", 0, optional=True), geometric(8, 0.5), line(8)), response("x")],
    [Field((whole(8, "x", 0),), Line(8, Fraction(1, 3)), threshold(8, 1))],
]


def test_client_stores_and_sends_each_report_once(tmp_path):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    manifests = [manifest_of(fields) for fields in MANIFESTS]
    data = {
        "manifests": [manifest.text for manifest in manifests],
        "epsilons": [float(total_epsilon(manifest)) for manifest in manifests],
        "length": ReportFormat(manifests[0]).size,
    }
    path = tmp_path / "manifests.json"
    path.write_text(json.dumps(data), "utf-8")
    words = ["node", "--test", str(HERE / "storage_test.js")]
    environment = {**os.environ, "MANIFEST": str(path)}
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "# skipped 0" in done.stdout and "# fail 0" in done.stdout
