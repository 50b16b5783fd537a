"""Imports of the packages point in one direction, those inside functions as well."""

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "metricldp"
CORE = PACKAGE.with_name("metricldp_core")
OF_CORE = {"metricldp_core", *sys.stdlib_module_names}
"""What the core imports: itself and the standard library."""
LAYERS = (
    *("basics", "metrics", "attributes", "mechanisms", "survey", "reports"),
    *("store", "estimate", "planning", "lab", "collector", "plot", "api", "cli"),
)
"""In the order of the data flow: a layer imports itself and layers before it."""
OLD = {"answers": "estimate"}
"""Folders whose code moves to another one; until then both are one layer."""
ABOVE = {"__init__", "__main__"}
"""Modules at the root that may import every layer."""


def layer_of(module):
    """Return the layer of a dotted module name such as metricldp.store.raw."""
    folder = module.split(".")[1]
    return OLD.get(folder, folder)


def imported(source):
    """Yield the line and the dotted name of each import of the package.

    Methods called `plot` may import the layer of the same name.
    """
    tree = ast.parse(source)
    methods = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "plot"]
    in_plot = {node for method in methods for node in ast.walk(method)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            whole = node.module == "metricldp"
            names = [f"metricldp.{alias.name}" for alias in node.names] if whole else [node.module]
        else:
            continue
        for name in names:
            plots = node in in_plot and layer_of(f"{name}.") == "plot"
            if name.startswith("metricldp.") and not plots:
                yield node.lineno, name


def violations(layer, source):
    """Yield the imports that point to a later layer, or past the layers."""
    for line, name in imported(source):
        if layer_of(name) not in LAYERS:
            yield f"line {line}: import from the module that defines {name}"
        elif LAYERS.index(layer_of(name)) > LAYERS.index(OLD.get(layer, layer)):
            yield f"line {line}: {layer} must not import {name}"


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_imports_point_to_earlier_layers(path):
    layer = path.relative_to(PACKAGE).with_suffix("").parts[0]
    if layer not in ABOVE:
        wrong = list(violations(layer, path.read_text("utf-8")))
        assert not wrong, "\n".join(wrong)


def roots(source):
    """Return the packages that a module imports, itself among them if an import is relative."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("metricldp_core" if node.level else node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda path: path.name)
def test_core_imports_itself_and_the_standard_library(path):
    assert roots(path.read_text("utf-8")) <= OF_CORE


@pytest.mark.parametrize(
    ("source", "allowed"),
    [
        ("import hashlib\nfrom metricldp_core.exact import WORD", True),
        ("from . import exact", True),
        ("def f():\n    import numpy", False),
        ("from metricldp.metrics import Line", False),
        ("import metricldp", False),
    ],
)
def test_rule_of_the_core_on_examples(source, allowed):
    assert (roots(source) <= OF_CORE) == allowed


@pytest.mark.parametrize(
    ("source", "allowed"),
    [
        ("from metricldp.reports import arrow", True),
        ("from metricldp.answers.answer import Estimate", True),
        ("from metricldp.estimate.table import EstimateTable", True),
        ("from metricldp.planning.plan import plan", False),
        ("def plot(self):\n    from metricldp.plot.charts import draw_table", True),
        ("def plot(self):\n    from metricldp.cli import main", False),
        ("def f():\n    from metricldp.plot import charts", False),
        ("from metricldp.plot import charts", False),
        ("import metricldp.cli.main", False),
        ("from metricldp import Survey", False),
        ("from metricldp import cli", False),
        ("import numpy", True),
    ],
)
def test_rule_on_examples(source, allowed):
    assert (not list(violations("answers", source))) == allowed
