"""The distribution metricldp-core installs on its own, from `core/`."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
REPORT = """
import sys
sys.path.insert(0, sys.argv[1])
import metricldp_core
from metricldp_core import Device
device = Device(open(sys.argv[2], encoding="utf-8").read())
print(len(device.report({"age": 30})), metricldp_core.__file__)
print(*(name for name in sys.modules if name.split(".")[0] in ("metricldp", "numpy")))
"""


def test_core_installs_and_reports_alone(tmp_path):
    for folder in ("core", "src/metricldp_core"):
        ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    target, manifest = tmp_path / "site", tmp_path / "manifest.json"
    options = ["--no-deps", "--quiet"]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *options]
    subprocess.run([*pip, "--target", str(target), str(tmp_path / "core")], check=True)
    from metricldp import Integer, Survey

    survey = Survey.design({"age": Integer(0, 99, epsilon=1, per=5, mechanism="geometric")})
    manifest.write_text(survey.manifest(), "utf-8")
    command = [sys.executable, "-I", "-c", REPORT, str(target), str(manifest)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    first, names = done.stdout.split("\n")[:2]
    assert first == f"{17 + 1} {target / 'metricldp_core' / '__init__.py'}"
    assert names == ""
