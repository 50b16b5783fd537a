"""A channel in a package of its own: built and installed in its own environment, and used there."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPEC = """
[attributes.age]
kind = "integer"
low = 0
high = 9
epsilon = 1
per = 1
mechanism = "exponential"
"""


def run(command, folder):
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=clean,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A new environment with the plug-in, which sees what this one has installed besides."""
    folder = tmp_path_factory.mktemp("plugin")
    run([sys.executable, "-m", "venv", folder / "env"], folder)
    python = folder / "env" / "bin" / "python"
    inside = run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder)
    shared = [sysconfig.get_path("purelib"), str(ROOT / "src")]
    Path(inside.strip(), "shared.pth").write_text("\n".join(shared) + "\n")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps"]
    copy = folder / "source"
    copy.mkdir()
    for file in (ROOT / "examples" / "plugin").iterdir():
        if file.is_file():
            (copy / file.name).write_text(file.read_text("utf-8"), "utf-8")
    run([*pip, copy], folder)
    (folder / "spec.toml").write_text(SPEC)
    ages = "\n".join(str(k % 10) for k in range(3000))
    (folder / "people.csv").write_text(f"age\n{ages}\n")
    return python, folder


def metricldp(environment, *words):
    python, folder = environment
    return run([python, "-m", "metricldp", *words], folder)


def test_it_goes_the_whole_way_on_the_command_line(environment):
    metricldp(environment, "design", "spec.toml", "-o", "survey.toml")
    assert "certified" in metricldp(environment, "certify", "survey.toml")
    metricldp(environment, "randomize", "survey.toml", "people.csv", "-o", "reports.parquet")
    words = ("query", "count", "survey.toml", "reports.parquet", "age <= 4", "--json")
    (row,) = json.loads(metricldp(environment, *words))["rows"]
    assert abs(row["estimate"] - 1500) < 6 * row["std_error"]
    assert "exponential" in metricldp(environment, "explain", "survey.toml")


def test_it_is_compared_with_all_others(environment):
    metricldp(environment, "design", "spec.toml", "-o", "compared.toml")
    words = ("lab", "compare", "compared.toml", "people.csv", "--queries", "5", "--json")
    rows = json.loads(metricldp(environment, *words))["rows"]
    assert "exponential" in {row["mechanism"] for row in rows}
    (environment[1] / "other spec.toml").write_text(SPEC.replace("exponential", "geometric"))
    metricldp(environment, "design", "other spec.toml", "-o", "other.toml")
    words = ("lab", "compare", "other.toml", "people.csv", "--queries", "5", "--json")
    rows = json.loads(metricldp(environment, *words))["rows"]
    assert "exponential" in {row["mechanism"] for row in rows}, "it takes part unasked"


def test_it_conforms_and_a_broken_twin_does_not(environment):
    python, folder = environment
    program = """
from dataclasses import replace
from metricldp import Integer, Survey
from metricldp.mechanisms.conformance import check_mechanism
from metricldp_exponential import EXPONENTIAL, exponential
found = check_mechanism(EXPONENTIAL)
assert found.holds, str(found)
for low, high, epsilon in ((1, 14, 8), (0, 99, 1), (0, 255, 64), (0, 2, 2e-12)):
    far = Survey.design({"x": Integer(low, high, epsilon=epsilon, per=1, mechanism=EXPONENTIAL)})
    assert far.certify().holds
    assert far.channels["x"].distribution.ratio(0, high - low) < 2**40
twin = replace(EXPONENTIAL, make=lambda size, epsilon: exponential(size, 2 * epsilon))
found = check_mechanism(twin)
assert not found.holds
assert "loss within the metric" in str(found)
"""
    run([python, "-c", program], folder)


def test_without_the_package_the_name_is_unknown():
    from metricldp import Integer, InvalidSpecError, Survey

    with pytest.raises(InvalidSpecError, match="there is no mechanism 'exponential'"):
        Survey.design({"age": Integer(0, 9, epsilon=1, mechanism="exponential", per=1)})


def test_the_page_shows_the_package_as_it_is():
    page = (ROOT / "docs" / "plugins.md").read_text("utf-8")
    for file in ("metricldp_exponential.py", "pyproject.toml"):
        assert (ROOT / "examples" / "plugin" / file).read_text("utf-8") in page
