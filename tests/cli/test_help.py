"""Help, names of commands, completion, and what the start of the program imports."""

import inspect
import json
import os
import re
import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.main import get_command

from metricldp.cli.main import app
from metricldp.estimate.request import KINDS, parameters

COMMANDS = [
    *("demo", "draft", "design", "explain", "certify", "plan", "risk", "randomize"),
    *(f"query/{kind}" for kind in KINDS),
    *("collector/serve", "collector/ingest", "collector/send", "collector/status"),
    *("collector/close", "collector/backup", "collector/manifest"),
    *("collector/token/new", "collector/token/list"),
    *("collector/token/revoke", "collector/token/invites"),
    *("lab/compare", "lab/limit", "lab/audit", "lab/amplify"),
]
QUERIES = {
    *("count", "fraction", "histogram", "cdf", "top-k", "workload"),
    *("sum", "mean", "variance", "std", "quantile"),
    *("covariance", "correlation", "regression", "independence", "trend"),
    *("goodness-of-fit", "contributions"),
}
NO_JSON = {
    *("collector/serve", "collector/close"),
    *("collector/token/revoke", "collector/token/invites"),
}
"""Commands that print one line and no data."""


def commands(group, *names):
    """Every command that is not a group, with its name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        else:
            yield "/".join([*names, name]), command


def start(*words, code="from metricldp.cli.main import main; main()", **environment):
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def rows(text):
    """The rows of the panels of a help text; a row that goes on has no first word."""
    for line in text.splitlines():
        if match := re.match(r"│ ([* ]  )?(\S+ .*|  .*)│$", line):
            yield match[2].rstrip()


def test_commands_are_those_of_the_interface():
    assert sorted(name for name, _ in commands(get_command(app))) == sorted(COMMANDS)
    assert KINDS.keys() == QUERIES


def test_each_command_that_prints_a_result_has_json():
    without = {
        name
        for name, command in commands(get_command(app))
        if "--json" not in {option for one in command.params for option in one.opts}
    }
    assert without == NO_JSON


@pytest.mark.parametrize("group", ["", "query", "collector", "collector token", "lab"])
def test_descriptions_of_commands_fit_one_line(group, run):
    text = run(*group.split(), "--help")
    assert text == run(*group.split(), "-h")
    assert max(map(len, text.splitlines())) <= 80
    panels = text.split("╭─ Options")[1].partition("╰")[2]
    names = [line.split()[0] for line in rows(panels)]
    prefix = f"{group.replace(' ', '/')}/" if group else ""
    expected = {n.removeprefix(prefix).split("/")[0] for n in COMMANDS if n.startswith(prefix)}
    assert sorted(names) == sorted(expected)  # a second line would have another first word


@pytest.mark.parametrize("kind", KINDS)
def test_descriptions_of_query_parameters_fit_one_line(kind, run):
    text = run("query", kind, "--help")
    assert max(map(len, text.splitlines())) <= 80
    described = parameters(KINDS[kind])
    for name, one in described.items():
        flag = f"--{name.replace('_', '-')}"
        lines = [line for line in text.splitlines() if one.help in line]
        assert any(flag in line or name.upper() in line for line in lines), name
    assert "[]" not in text


@pytest.mark.parametrize("kind", KINDS)
def test_documentation_and_help_have_the_same_text(kind):
    request = KINDS[kind]
    for name, one in parameters(request).items():
        assert f"{name}: {one.help}." in inspect.getdoc(request)
    assert inspect.getdoc(request).startswith(f"{request.summary}.\n")


def test_program_without_arguments_prints_its_help(run):
    assert run() == run("--help")
    assert run("query").rstrip() == run("query", "--help").rstrip()


def test_version(run):
    assert run("--version") == f"metricldp {version('metricldp')}\n"


def test_package_runs_as_a_module():
    done = start(code="import runpy; runpy.run_module('metricldp', run_name='__main__')")
    assert (done.returncode, done.stderr) == (0, "")
    assert "randomize" in done.stdout


def test_missing_typer_is_one_line():
    code = "import sys; sys.modules['typer'] = None; import runpy; "
    code += "runpy.run_module('metricldp', run_name='__main__')"
    done = start("--version", code=code)
    assert done.returncode == 2
    assert done.stderr.startswith("metricldp: metricldp depends on typer, which is missing (")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [("metricldp query co", "count"), ("metricldp query count s r --target ", "population")],
)
def test_shell_completion(line, expected):
    done = start(
        _METRICLDP_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(line.count(" "))
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert expected in done.stdout.split()


LOADED = "import atexit, json, sys; atexit.register(lambda: print(json.dumps([*sys.modules])))\n"
LOADED += "from metricldp.cli.main import main; main()"


def modules_after(*words):
    """The top-level modules that a command imports."""
    done = start(*words, code=LOADED)
    assert (done.returncode, done.stderr) == (0, "")
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize("words", ["--help", "query --help", "query count --help", "--version"])
def test_help_imports_no_heavy_library(words):
    heavy = {"numpy", "scipy", "pyarrow", "numba", "matplotlib", "narwhals", "pandas"}
    assert not modules_after(*words.split()) & heavy


def test_count_over_integer_reports_imports_no_numba_and_no_pandas(folder):
    loaded = modules_after("query", "count", "survey.toml", "reports.parquet", "18 <= age <= 29")
    assert "pyarrow" in loaded
    assert not loaded & {"numba", "pandas", "matplotlib"}
