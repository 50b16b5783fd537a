"""The rooms of the house: imports point one way, and nothing but rooms has to be listed."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import metricldp

PACKAGE = Path(__file__).parents[1] / "src" / "metricldp"
ROOMS = (
    "basics",
    "coins",
    "metrics",
    "attributes",
    "channels",
    "design",
    "survey",
    "reports",
    "store",
    "answers",
    "lab",
    "collector",
    "app",
    "api",
)
"""In the way of the data: a room imports only from rooms above it."""
HOMES = {
    "apsw": "collector/",
    "cryptography": ("coins/stream.py", "collector/blind.py"),
    "jinja2": "app/",
    "matplotlib": "app/",
    "narwhals": "reports/columns.py",
    "numba": "loops_compiled.py",
    "llvmlite": "loops_compiled.py",
    "psycopg": "collector/",
    "rich": "app/",
    "starlette": ("collector/", "app/"),
    "typer": "app/",
    "uvicorn": ("collector/", "app/"),
}
"""Heavy libraries, and the only place, or places, that name each."""
MOST_LINES, LONGEST = 58_300, 450
"""Of the whole package, where 18,500 is the goal, and of one file."""


def files():
    return sorted(PACKAGE.rglob("*.py"))


def module_of(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in files()}


def imports(source):
    """Every import as (line, module, late): the module of the package that is really meant.

    Late ones stand inside a function or under TYPE_CHECKING.
    """
    found = []

    def visit(node, late):
        if isinstance(node, ast.Import):
            found.extend((node.lineno, alias.name, late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: write imports from metricldp in full"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.append((node.lineno, inner if inner in MODULES else node.module, late))
        late = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        late = late or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        for child in ast.iter_child_nodes(node):
            visit(child, late)

    visit(ast.parse(source), False)
    return found


def room_of(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def violations(module, source):
    """What is wrong with the imports of one module, in words."""
    room, path = room_of(module), str(MODULES.get(module, ""))
    for line, name, late in imports(source):
        library = name.split(".")[0]
        homes = HOMES.get(library, "")
        if not any(home in path for home in ([homes] if isinstance(homes, str) else homes)):
            yield f"{module} line {line}: only {homes} imports {library}"
        if library != "metricldp":
            continue
        if late:
            yield f"{module} line {line}: imports of the package stand at the top of a file"
        if name == "metricldp":
            yield f"{module} line {line}: import from the module that defines it"
        elif room in ROOMS and ROOMS.index(room_of(name)) > ROOMS.index(room):
            yield f"{module} line {line}: {room_of(name)} comes after {room}"


def test_every_file_is_in_a_room():
    loose = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py", "__main__.py", "api.py"}
    assert not loose
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir()} - {"__pycache__"}
    assert rooms == set(ROOMS) - {"api"}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_point_one_way(module):
    if module in ("metricldp", "metricldp.__main__"):
        return
    found = list(violations(module, MODULES[module].read_text("utf-8")))
    assert not found, "\n".join(found)


def test_no_file_takes_part_in_a_cycle():
    """Imports inside functions count as well."""
    graph = {
        module: {name for _, name, _ in imports(path.read_text("utf-8")) if name in MODULES}
        for module, path in MODULES.items()
    }
    for module, package in ((m, m.rpartition(".")[0]) for m in graph):
        graph[module].discard(module)
        if graph.get(package) and module in graph[package]:
            graph[module].discard(package)  # a package gathers the names of its own files
    done, path = set(), []

    def visit(module):
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module in done:
            return
        path.append(module)
        for name in sorted(graph[module]):
            visit(name)
        done.add(path.pop())

    for module in graph:
        visit(module)


def test_the_package_is_small_and_so_are_its_files():
    lines = {path: len(path.read_text("utf-8").splitlines()) for path in files()}
    long = {str(path.relative_to(PACKAGE)): n for path, n in lines.items() if n > LONGEST}
    assert not long
    assert sum(lines.values()) <= MOST_LINES


@pytest.mark.parametrize(
    ("module", "source", "allowed"),
    [
        ("metricldp.answers.tally", "from metricldp.reports import arrow", True),
        ("metricldp.answers.tally", "from metricldp.app.plots import histogram", False),
        ("metricldp.answers.tally", "def f():\n    from metricldp.app import plots", False),
        ("metricldp.answers.tally", "def f():\n    from metricldp.reports import arrow", False),
        ("metricldp.answers.tally", "from metricldp import Survey", False),
        ("metricldp.answers.tally", "import metricldp", False),
        ("metricldp.answers.tally", "import matplotlib.pyplot as plt", False),
        ("metricldp.answers.tally", "def f():\n    import scipy", True),
        ("metricldp.api", "from metricldp.app.explain import explain", True),
        ("metricldp.app.cli", "from metricldp.api import Survey", False),
        ("metricldp.channels.base", "from metricldp.channels import fields", True),
    ],
)
def test_the_rule_itself(module, source, allowed):
    assert (not list(violations(module, source))) == allowed


WRITERS = {"basics/writing.py": {"open", "TemporaryFile"}, "app/terminal.py": {"open"}}
"""Who may open files for writing: the one place for all, and what drops a closed output."""
_ALWAYS = {"write_text", "write_bytes", "TemporaryFile", "NamedTemporaryFile", "mkstemp", "tofile"}
_INTO_OPEN_FILES = {"savefig", "ParquetWriter", "save", "savez", "dump", "write_table", "to_csv"}
"""Libraries' own ways to write, which are given a file that is open already."""


def writes(source):
    """Calls that could write a file behind the back of basics/writing.py, as (line, name)."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        owner = getattr(getattr(node.func, "value", None), "id", "")
        given = [*node.args, *(word.value for word in node.keywords)]
        if name == "open":
            modes = [a.value for a in given if isinstance(a, ast.Constant)]
            plain = [m for m in modes if isinstance(m, str) and set(m) <= set("rwxabt+")]
            if owner == "os" or any(set(mode) & set("wxa+") for mode in plain):
                yield node.lineno, name
        elif name in _ALWAYS:
            yield node.lineno, name
        elif name in _INTO_OPEN_FILES and owner in ("pq", "np", "json", "figure", "pickle"):
            first = getattr(node.args[0], "id", "") if node.args else ""
            if first not in ("file", "sink"):
                yield node.lineno, name


@pytest.mark.parametrize("module", sorted(MODULES))
def test_all_writing_goes_through_one_place(module):
    path = MODULES[module]
    allowed = WRITERS.get(str(path.relative_to(PACKAGE)), set())
    found = [call for call in writes(path.read_text("utf-8")) if call[1] not in allowed]
    assert not found, f"{path}: use basics.writing.replacing at {found}"


@pytest.mark.parametrize(
    ("source", "allowed"),
    [
        ("path.write_text('a')", False),
        ("open(path, 'w')", False),
        ("path.open('rb+')", False),
        ("path.open(mode='ab')", False),
        ("os.open(path, flags)", False),
        ("tempfile.mkstemp()", False),
        ("figure.savefig(path)", False),
        ("pq.ParquetWriter(path, schema)", False),
        ("json.dump(data, open('x'))", False),
        ("path.open('rb')", True),
        ("path.open(encoding='utf-8', newline='')", True),
        ("figure.savefig(file, dpi=3)", True),
        ("tally.save(path)", True),
    ],
)
def test_the_rule_of_writing(source, allowed):
    assert (not list(writes(source))) == allowed


DELETERS = {
    "basics/writing.py",
    "collector/folder.py",
    "collector/logs/output.py",
    "collector/runs.py",
    "collector/sealing.py",
    "store/slices.py",
}
"""Who may delete files: only those that this package wrote, known by a list or an exact name."""
_DELETING = {"unlink", "rmdir", "rmtree", "removedirs"}


def deletes(source):
    """Lines that delete a file or a folder, or take the means for it from its module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            of_os = getattr(node.value, "id", "") == "os"
            if node.attr in _DELETING or (of_os and node.attr == "remove"):
                yield node.lineno
        taken = isinstance(node, ast.ImportFrom) and node.module in ("os", "shutil")
        if taken and {alias.name for alias in node.names} & {*_DELETING, "remove"}:
            yield node.lineno


@pytest.mark.parametrize("module", sorted(MODULES))
def test_few_delete(module):
    """Globs that were too wide deleted reports of users."""
    path = MODULES[module]
    found = list(deletes(path.read_text("utf-8")))
    known = str(path.relative_to(PACKAGE)) in DELETERS
    assert bool(found) == known, f"{path}: deletes at {found}; see that nobody else's file goes"


@pytest.mark.parametrize(
    ("source", "allowed"),
    [
        ("path.unlink()", False),
        ("Path(name).unlink(missing_ok=True)", False),
        ("map(Path.unlink, old)", False),
        ("os.remove(path)", False),
        ("os.unlink(path)", False),
        ("folder.rmdir()", False),
        ("shutil.rmtree(folder)", False),
        ("from os import remove", False),
        ("from shutil import rmtree as gone", False),
        ("names.remove('a')", True),
        ("from shutil import copytree", True),
    ],
)
def test_the_rule_of_deleting(source, allowed):
    assert (not list(deletes(source))) == allowed


def test_one_version_everywhere():
    root = PACKAGE.parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    cited = (root / "CITATION.cff").read_text("utf-8")
    assert project["version"] == metricldp.__version__
    assert f"\nversion: {metricldp.__version__}\n" in cited


def test_a_person_is_they():
    root = PACKAGE.parents[1]
    texts = [*PACKAGE.rglob("*.py"), *root.glob("*.md"), *(root / "docs").glob("*.md")]
    gendered = re.compile(r"\b(she|hers?|herself|his|him|himself)\b")
    assert not [path for path in texts if gendered.search(path.read_text("utf-8"))]


def test_no_link_leads_out_of_the_folder():
    """One was committed: to the packages of the machine it was made on."""
    root = PACKAGE.parents[1]
    if not (root / ".git").exists():
        pytest.skip("git does not know these files")
    listed = subprocess.run(
        ["git", "ls-files", "--stage"], cwd=root, capture_output=True, text=True, check=True
    )
    assert not [line for line in listed.stdout.splitlines() if line.startswith("120000")]
