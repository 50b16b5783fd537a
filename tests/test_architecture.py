"""Imports point backwards along the way of the data, as docs/architecture.md lists it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "metricldp"
PAGE = ROOT / "docs" / "architecture.md"
DOORS = ("survey", "peers")
"""The modules that may import forwards: in functions and under TYPE_CHECKING."""
HOMES = {
    "matplotlib": "plots",
    "cryptography": "coins",
    "narwhals": "reports",
    "typer": "cli",
}
"""Heavy libraries, and the one module that imports each."""


def order():
    """The fenced list under the heading "What may import what"."""
    text = PAGE.read_text("utf-8")
    found = re.search(r"## What may import what\n.*?^```text\n(.*?)^```", text, re.M | re.S)
    assert found, f"{PAGE.name} has no fenced list under 'What may import what'"
    return found[1].split()


def module_of(path):
    """The name in the list: of a file in channels/, the package it belongs to."""
    return listed_name(path.relative_to(PACKAGE).with_suffix("").parts, order())


def listed_name(parts, listed):
    """A module of a package that has a line of its own, or else the package."""
    own = ".".join(parts[:2])
    return own if own in listed else parts[0]


def files():
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def imports(source):
    """Every import as (line, dotted name, late): late ones run in functions or never."""
    found = []

    def visit(node, late):
        if isinstance(node, ast.Import):
            found.extend((node.lineno, alias.name, late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: write imports from metricldp in full"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            found.extend((node.lineno, name, late) for name in inside)
        late = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            typing_only = (
                isinstance(node, ast.If)
                and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
                and child in node.body
            )
            visit(child, late or typing_only)

    visit(ast.parse(source), False)
    return found


def violations(module, source, listed):
    """What is wrong with the imports of one module, in words."""
    for line, name, late in imports(source):
        library, *rest = name.split(".")
        home = HOMES.get(library, module)
        if home != module:
            yield f"{module} line {line}: only {home} imports {library}"
        target = listed_name(rest, listed) if rest else ""
        if library != "metricldp" or target == module:
            continue
        if target not in listed:
            yield f"{module} line {line}: import from the module that defines it, not {name}"
        elif listed.index(target) > listed.index(module) and not (late and module in DOORS):
            yield f"{module} line {line}: {target} comes after {module}"


def test_the_list_names_every_module_once():
    listed = order()
    modules = {module_of(path) for path in files()}
    assert len(listed) == len(set(listed)), "a module is listed twice"
    missing = sorted(modules - set(listed))
    assert not missing, (
        f"{', '.join(missing)}: not in the list of docs/architecture.md; add it there under "
        "'What may import what', behind everything it imports"
    )
    assert set(listed) <= modules, f"listed but gone: {sorted(set(listed) - modules)}"


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_backwards(path):
    listed, module = order(), module_of(path)
    if module not in listed:
        pytest.skip("the test of the list complains of this one")
    found = list(violations(module, path.read_text("utf-8"), listed))
    assert not found, "\n".join(found)


def test_the_gathering_module_only_gathers():
    source = (PACKAGE / "__init__.py").read_text("utf-8")
    assert {name.split(".")[0] for _, name, _ in imports(source)} == {"metricldp"}


@pytest.mark.parametrize(
    ("module", "source", "allowed"),
    [
        ("tally", "from metricldp import reports", True),
        ("tally", "from metricldp.plots import histogram", False),
        ("tally", "def f():\n    from metricldp import plots", False),
        ("tally", "from metricldp import Survey", False),
        ("tally", "import metricldp", False),
        ("tally", "import matplotlib.pyplot as plt", False),
        ("plots", "import matplotlib.pyplot as plt", True),
        ("survey", "from metricldp import tally", False),
        ("survey", "def f():\n    from metricldp import tally", True),
        ("survey", "if TYPE_CHECKING:\n    from metricldp import tally", True),
        ("survey", "if TYPE_CHECKING:\n    pass\nelse:\n    from metricldp import tally", False),
        ("survey", "try:\n    from metricldp import tally\nexcept ImportError:\n    pass", False),
        ("channels", "from metricldp.channels.base import Channel", True),
        ("channels", "from metricldp.survey import Survey", False),
        ("peers", "from metricldp.peers.hio import Hio", False),
        ("peers", "def f():\n    from metricldp.peers.hio import Hio", True),
        ("peers.hio", "from metricldp.survey import Survey", True),
    ],
)
def test_the_rule_itself(module, source, allowed):
    assert (not list(violations(module, source, order()))) == allowed
