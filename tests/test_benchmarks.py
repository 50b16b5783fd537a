"""The benchmarks run on small sizes, print tables and save them, over the public interface only."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHARED = {"all", "measure"}
FILES = sorted((ROOT / "benchmarks").glob("*.py"))
SCRIPTS = [path.stem for path in FILES if path.stem not in SHARED]
PUBLIC = re.compile(r"metricldp(\.lab\.(peers|limits|compare|audit)(\.\w+)?)?$")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_benchmark_imports_only_public_names(path):
    found = re.findall(r"^\s*(?:from|import) (metricldp[\w.]*)", path.read_text("utf-8"), re.M)
    assert all(PUBLIC.match(module) for module in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_benchmark_runs_on_small_sizes(name, tmp_path):
    script = [sys.executable, ROOT / "benchmarks" / f"{name}.py", "--small", "--output", tmp_path]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        script, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"\n{name}\n" in done.stdout
    saved = json.loads((tmp_path / f"{name}.json").read_text("utf-8"))
    assert saved["small"] and saved["rows"] and saved["machine"]["cores"]
