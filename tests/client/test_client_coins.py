"""The client draws by its law: its reports with fair coins are audited, and those of a twin."""

import json
import shlex
import shutil

import pytest
from browsers import HERE

from metricldp import Categorical, Continuous, Integer, Ordinal, Survey
from metricldp.lab.audit import audit
from metricldp.lab.audit.clients import Command
from metricldp.reports.manifest import manifest

SURVEY = Survey.design(
    {
        "age": Integer(0, 20, epsilon=1, per=2, mechanism="geometric", optional=True),
        "mood": Ordinal(["bad", "fair", "good"], epsilon=1, mechanism="threshold"),
        "height": Continuous(
            0, 1, points=6, epsilon=3, mechanism="geometric", rounding="stochastic", per=1
        ),
        "told": Categorical(["no", "yes", "never"], epsilon=1, mechanism="randomized-response"),
    }
)


def audited(text, tmp_path):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    path = tmp_path / "survey.client.json"
    path.write_text(text, "utf-8")
    command = Command(shlex.join(["node", str(HERE / "lines.js"), str(path)]))
    return audit(SURVEY, command, n=20_000, false_alarm=1e-9, seed=1)


@pytest.mark.slow
def test_its_coins_are_fair(tmp_path):
    found = audited(manifest(SURVEY), tmp_path)
    assert found.passed, str(found)


@pytest.mark.slow
def test_a_client_that_keeps_too_often_is_found_out(tmp_path):
    data = json.loads(manifest(SURVEY))
    next(field for field in data["fields"] if field["name"] == "told")["law"]["keep"] = "c" * 16
    assert not audited(json.dumps(data), tmp_path).passed
