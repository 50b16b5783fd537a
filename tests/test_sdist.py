"""The source distribution is the whole project: whoever unpacks it can run every test."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

import metricldp

ROOT = Path(__file__).parents[1]
RULES = [line.split() for line in (ROOT / "MANIFEST.in").read_text("utf-8").splitlines()]
FOLDERS = ("src", *(words[1] for words in RULES if words[0] == "graft"))
FILES = ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml")  # taken in any case
FILES += tuple(name for words in RULES if words[0] == "include" for name in words[1:])
_BUILD = "import sys, setuptools.build_meta as build; build.build_sdist(sys.argv[1])"


def project():
    """Every file of the project, without what tools leave behind."""
    found = {ROOT / name for name in FILES}
    for folder in FOLDERS:
        found |= {path for path in (ROOT / folder).rglob("*") if path.is_file()}
    skipped = {"__pycache__", "node_modules"}
    names = (path.relative_to(ROOT) for path in found)
    return {
        str(name)
        for name in names
        if not skipped & {*name.parts}
        and not any(part.endswith(".egg-info") for part in name.parts)
    }


def collected(root):
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    words = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider"]
    done = subprocess.run(
        words, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return {line for line in done.stdout.splitlines() if "::" in line}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The distribution, built with a setuptools of its own from a copy of the project."""
    folder = tmp_path_factory.mktemp("sdist")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    words = [python, "-m", "pip", "--disable-pip-version-check", "-q", "install", "setuptools>=77"]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("no setuptools to be had")
    for name in project():
        (folder / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / "project" / name)
    words = [python, "-c", _BUILD, folder]
    subprocess.run(words, cwd=folder / "project", check=True, capture_output=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(folder / "unpacked", filter="data")
    (found,) = (folder / "unpacked").iterdir()
    return found


def test_everything_that_is_tracked_is_taken():
    """Whatever folder is new: without it, a test of an unpacked project may fail."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("an unpacked project has no git to say what belongs to it")
    said = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    tracked = {name for name in said.stdout.split("\0") if name}
    assert tracked - project() == {".gitignore"}


@pytest.mark.slow
def test_nothing_is_missing(unpacked):
    inside = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    assert project() - inside == set()


@pytest.mark.slow
def test_every_test_is_collected_from_it(unpacked):
    found = collected(unpacked)
    assert len(found) > 3000
    assert found == collected(ROOT)


def test_project_citation_and_package_state_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    cited = (ROOT / "CITATION.cff").read_text("utf-8")
    assert project["version"] == metricldp.__version__
    assert f"\nversion: {metricldp.__version__}\n" in cited
