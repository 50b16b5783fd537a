"""A device alone: reports with numpy and cryptography, and nothing else loaded or installed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from checks import MECHANISMS
from metricldp import (
    Categorical,
    Continuous,
    Graph,
    Integer,
    Ordinal,
    Randomness,
    Survey,
    SurveySpec,
    Weight,
)
from metricldp_core.device import Device
from metricldp_core.random_words import Words
from vectors import report_of

ROOT = Path(__file__).parents[2]
HEAVY = (
    *("pyarrow", "scipy", "numba", "llvmlite", "narwhals", "matplotlib", "threadpoolctl"),
    *("typer", "rich", "pandas", "polars", "cvxpy"),
)
BLOCKED = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
REPORT = """
import json, sys
from metricldp import Survey
from metricldp_core.random_words import Words
from metricldp_core.device import Device

path, person, words = json.loads(sys.argv[1])
survey = Survey.load(path)
size = len(survey.report(person))
device = Device(survey.client_manifest)
report = device.randomize(device.positions(person), Words.given(words))
assert len(report) == size
print(report.hex(), *sorted({name.partition(".")[0] for name in sys.modules}))
"""
KINDS = {
    "income": (Continuous(0, 1000, bins=300, epsilon=1, per=20, mechanism="geometric"), 28.5),
    "height": (Continuous(50, 250, points=41, epsilon=1, per=10, rounding="stochastic"), 171),
    "often": (Ordinal(["never", "rarely", "often"], epsilon=1, mechanism="unary"), "rarely"),
    "page": (
        Categorical(["a", "b", "c"], epsilon=1, metric=Graph([("a", "b", 1), ("b", "c", 1)])),
        "c",
    ),
    "weight": (Weight(0, 10), 2.5),
    "hidden": (Weight(0, 10, private=True, epsilon=1), 7.5),
}


@pytest.fixture(scope="module")
def agreed():
    """A survey with every mechanism and every kind of attribute, and somebody who answers it."""
    joint = {}
    attributes = {name: attribute for name, (attribute, _) in KINDS.items()}
    person = {name: value for name, (_, value) in KINDS.items()}
    for mechanism in MECHANISMS:
        attributes[mechanism] = Integer(0, 9, epsilon=1, mechanism=mechanism, per=1)
        person[mechanism] = 7
    for mechanism in ("hio", "hio-hashing", "planar-laplace"):
        names = tuple(f"{mechanism} {axis}" for axis in "xy")
        attributes |= dict.fromkeys(names, Integer(0, 9, epsilon=1, per=1))
        person |= dict.fromkeys(names, 3)
        joint[names] = mechanism
    return Survey.design(SurveySpec(attributes, joint=joint)), person


def run(program, *words, python=sys.executable, **environment):
    found = subprocess.run(
        [python, "-c", program, *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.split()


@pytest.mark.parametrize("suffix", ["toml", "json"])
@pytest.mark.parametrize("blocked", [True, False], ids=["missing", "installed"])
def test_a_report_needs_numpy_and_cryptography_only(agreed, suffix, blocked, tmp_path):
    """The same survey, person and words give the same bytes as here, with nothing heavy loaded."""
    survey, person = agreed
    path, words = tmp_path / f"survey.{suffix}", Randomness.seeded(3).words(2000).tolist()
    survey.save(path)
    task = json.dumps([str(path), person, words])
    report, *loaded = run((BLOCKED if blocked else "") + REPORT, task)
    device = Device(survey.client_manifest)
    assert bytes.fromhex(report) == report_of(device, person, Words.given(words))
    assert not set(HEAVY) & set(loaded)
    assert {"numpy", "cryptography"} <= set(loaded)


@pytest.mark.parametrize(
    ("program", "library"),
    [
        ("survey.randomize({'a': [1, 2]})", "pyarrow"),
        ("survey.tally([survey.report({'a': 1})])", "pyarrow"),
        (
            "Survey.design({'a': Integer(0, 9, epsilon=1, per=1, mechanism=HIERARCHY)})",
            "threadpoolctl",
        ),
    ],
)
def test_a_missing_base_library_is_named_in_one_line(program, library):
    words = run(
        BLOCKED
        + f"""
from metricldp import Integer, Matrix, MissingDependencyError, Survey
HIERARCHY = Matrix(strategy="hierarchy")
survey = Survey.design({{"a": Integer(0, 9, epsilon=1, per=1, mechanism="geometric")}})
try:
    {program}
except MissingDependencyError as wrong:
    print(wrong)
"""
    )
    line = " ".join(words)
    assert line.startswith(f"metricldp depends on {library}, which is missing (")
    assert line.endswith("; run python -m pip install metricldp")


@pytest.mark.slow
def test_a_device_in_an_environment_of_its_own(agreed, tmp_path):
    """With nothing installed but numpy and cryptography; what that weighs is printed."""
    survey, person = agreed
    source = tmp_path / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    for what in (["-c", ROOT / "constraints.txt", "numpy", "cryptography"], ["--no-deps", source]):
        subprocess.run([python, "-m", "pip", "install", "-q", *what], check=True)
    survey.save(tmp_path / "survey.toml")
    words = Randomness.seeded(3).words(2000).tolist()
    task = json.dumps([str(tmp_path / "survey.toml"), person, words])
    report, *_ = run(REPORT, task, python=python, PYTHONPATH="")
    device = Device(survey.client_manifest)
    assert bytes.fromhex(report) == report_of(device, person, Words.given(words))
    refused = subprocess.run(
        [python.with_name("metricldp"), "demo"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr.startswith("metricldp: metricldp depends on typer, which is missing (")
    assert refused.stderr.count("\n") == 1
    print(weight(python))


def weight(python):
    """Packages, megabytes and the time of an import in an environment, in words."""
    names, megabytes, seconds = run(
        """
import importlib.metadata, pathlib, subprocess, sys, sysconfig, time
tools = {"pip", "setuptools", "wheel"}
names = {d.metadata["Name"] for d in importlib.metadata.distributions()} - tools
folder = pathlib.Path(sysconfig.get_path("purelib"))
size = sum(
    f.stat().st_size for f in folder.rglob("*")
    if f.is_file() and f.relative_to(folder).parts[0].split("-")[0] not in tools
)
times = []
for _ in range(7):
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import metricldp"], check=True)
    times.append(time.perf_counter() - start)
print(",".join(sorted(names)), size / 1e6, min(times))
""",
        python=python,
        PYTHONPATH="",
    )
    return (
        f"{len(names.split(','))} packages ({names}), {float(megabytes):.0f} MB, "
        f"python -c 'import metricldp' in {float(seconds):.2f} s"
    )
