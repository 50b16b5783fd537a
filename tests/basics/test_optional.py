"""Base libraries load at their first use; a missing library gives an error of one line."""

import importlib.util
import pkgutil
import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import metricldp
from metricldp import Survey, SurveySpec
from metricldp.basics import optional as libraries
from metricldp.basics.errors import MetricLdpError, MissingDependencyError
from metricldp.basics.optional import lazy, loaded, optional, require
from metricldp.collector.folder import Collector

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
MODULES = {"confluent-kafka": "confluent_kafka"}
"""Names of modules that differ from those of their distributions."""


def names(requirements):
    found = (Requirement(one).name for one in requirements)
    return {MODULES.get(name, name) for name in found}


def base_libraries():
    """The modules of the dependencies, and of what these depend on."""
    closed, waiting = set(), [Requirement(r).name for r in PROJECT["project"]["dependencies"]]
    while waiting:
        name = waiting.pop()
        if name not in closed:
            closed.add(name)
            needed = [Requirement(one) for one in requires(name) or ()]
            waiting += [
                one.name
                for one in needed
                if one.marker is None or one.marker.evaluate({"extra": ""})
            ]
    return {name.replace("-", "_") for name in closed}


BLOCKED = sorted(
    ({one for extra in EXTRAS.values() for one in names(extra)} | {"markupsafe", "anyio"})
    - base_libraries()
)


def run_without_extras(program, *words, cwd=None):
    """A new process in which no library of an extra can be imported."""
    block = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
    return subprocess.run(
        [sys.executable, "-c", block + program, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


def test_the_extras_are_those_of_the_documentation():
    assert list(EXTRAS) == [
        *("plot", "collector", "postgres", "duckdb", "polars", "spark", "kafka", "lab")
    ]
    page = (Path(__file__).parents[2] / "docs" / "index.md").read_text("utf-8")
    assert all(f"`{extra}`" in page for extra in EXTRAS)


def test_every_message_names_an_extra_that_installs_the_library():
    needs = {"markupsafe": "jinja2"}  # a library of the extra that brings it
    for library, (_, extra) in libraries._EXTRAS.items():
        if extra is not None:
            assert needs.get(library, library) in names(EXTRAS[extra])


def test_a_library_is_loaded_at_its_first_use(monkeypatch):
    monkeypatch.delitem(sys.modules, "matplotlib", raising=False)
    library = optional("matplotlib")
    assert not hasattr(library, "__wrapped__")
    assert "matplotlib" not in sys.modules
    assert library.get_backend
    assert "matplotlib" in sys.modules


def test_a_module_in_a_library_is_that_module():
    import scipy.sparse

    assert lazy("scipy.sparse").csr_array is scipy.sparse.csr_array
    assert loaded("scipy.sparse") is scipy.sparse


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("matplotlib.pyplot", r"plots need matplotlib \(.*install 'metricldp\[plot\]'"),
        ("starlette.routing", r"collector needs starlette \(.*install 'metricldp\[collector\]'"),
        ("pandas", r"for pandas needs pandas \(.*pip install pandas$"),
        ("scipy.sparse", r"metricldp depends on scipy, .*pip install metricldp$"),
        ("pyarrow", r"metricldp depends on pyarrow, .*pip install metricldp$"),
    ],
)
def test_a_missing_library_is_named_with_the_remedy(monkeypatch, name, message):
    for part in (name, name.partition(".")[0]):
        monkeypatch.setitem(sys.modules, part, None)
    library = optional(name)
    with pytest.raises(MissingDependencyError, match=message) as error:
        _ = library.anything
    assert isinstance(error.value, MetricLdpError)
    assert isinstance(error.value, ImportError)
    assert "\n" not in str(error.value)


def test_an_extra_is_checked_before_the_work(monkeypatch):
    require("collector")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingDependencyError, match=r"'metricldp\[collector\]'"):
        require("collector")


def test_importing_the_package_loads_no_slow_library():
    slow = ["numba", "scipy", "pyarrow", "narwhals", "matplotlib", "typer", "rich", "tomli_w"]
    program = f"import metricldp, sys; print([m for m in {slow} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "[]\n", done.stderr


def test_every_module_can_be_imported_without_the_extras():
    modules = [m.name for m in pkgutil.walk_packages(metricldp.__path__, "metricldp.")]
    assert len(modules) > 100
    assert all(importlib.util.find_spec(name) for name in ("apsw", "duckdb", "pyspark"))
    program = """
import importlib
for name in sys.argv[1:]:
    importlib.import_module(name)
"""
    done = run_without_extras(program, *(m for m in modules if not m.endswith("__main__")))
    assert done.returncode == 0, done.stderr


SPEC = """
[attributes.age]
kind = "integer"
low = 0
high = 9
epsilon = 1.0
per = 1.0
mechanism = "geometric"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC, "utf-8")
    Survey.design(SurveySpec.load(tmp_path / "spec.toml")).save(tmp_path / "survey.toml")
    (tmp_path / "people.csv").write_text("age\n1\n2\n3\n", "utf-8")
    return tmp_path


def command(folder, *words):
    program = "import runpy; runpy.run_module('metricldp', run_name='__main__')"
    return run_without_extras(program, *words, cwd=folder)


def test_the_base_install_has_the_command_line(folder):
    for words in (
        ["--help"],
        ["design", "spec.toml", "-o", "designed.toml"],
        ["certify", "designed.toml"],
        ["randomize", "designed.toml", "people.csv", "-o", "reports.parquet"],
        ["query", "count", "designed.toml", "reports.parquet", "1 <= age <= 2"],
        ["query", "histogram", "designed.toml", "reports.parquet", "age"],
        ["explain", "designed.toml"],
        ["risk", "designed.toml", "age"],
        ["lab", "compare", "designed.toml", "people.csv", "--queries", "2"],
    ):
        done = command(folder, *words)
        assert (done.returncode, done.stderr) == (0, ""), words


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("plot", ["demo"]),
        ("plot", ["plan", "survey.toml", "mean", "age", "--error", "1", "--plot", "plan.png"]),
        ("plot", ["query", "histogram", "survey.toml", "r.parquet", "age", "--plot", "ages.png"]),
        ("plot", ["lab", "compare", "survey.toml", "people.csv", "-o", "page"]),
        ("collector", ["collector", "serve", "new"]),
        ("collector", ["collector", "serve", "survey.toml"]),
        ("collector", ["collector", "status", "survey.toml"]),
    ],
)
def test_a_command_that_needs_an_extra_stops_before_its_work(folder, extra, words):
    if "status" in words:
        with Collector(folder / "survey.collected") as collector:
            collector.open(Survey.load(folder / "survey.toml"))
    before = sorted(folder.iterdir())
    done = command(folder, *words)
    assert done.returncode == 2
    assert re.fullmatch(rf"metricldp: .*'metricldp\[{extra}\]'\n", done.stderr), done.stderr
    assert done.stdout == ""
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("engine", ["duckdb", "polars", "spark"])
def test_an_engine_names_its_extra(engine):
    program = f"""
from metricldp import Integer, MissingDependencyError, Survey
survey = Survey.design({{"age": Integer(0, 9, epsilon=1, per=1, mechanism="geometric")}})
survey.randomize({{"age": [1, 2]}})
try:
    survey.tally("reports.parquet", engine={engine!r})
except MissingDependencyError as wrong:
    print(wrong)
"""
    done = run_without_extras(program)
    assert done.stdout.endswith(f"; run python -m pip install 'metricldp[{engine}]'\n"), done.stderr
    assert done.stdout.count("\n") == 1
