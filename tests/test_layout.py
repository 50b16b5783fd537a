"""Imports of the package point in one direction, those inside functions as well."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "metricldp"
LAYERS = (
    *("basics", "coins", "metrics", "attributes", "channels", "design", "survey", "reports"),
    *("store", "estimate", "answers", "lab", "collector", "app", "api"),
)
"""In the order of the data flow: a layer imports itself and layers before it."""
ABOVE = {"__init__", "__main__"}
"""Modules at the root that may import every layer."""


def layer_of(module):
    """Return the layer of a dotted module name such as metricldp.store.raw."""
    return module.split(".")[1]


def imported(source):
    """Yield the line and the dotted name of each import of the package."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            whole = node.module == "metricldp"
            names = [f"metricldp.{alias.name}" for alias in node.names] if whole else [node.module]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.startswith("metricldp."))


def violations(layer, source):
    """Yield the imports that point to a later layer, or past the layers."""
    for line, name in imported(source):
        if layer_of(name) not in LAYERS:
            yield f"line {line}: import from the module that defines {name}"
        elif LAYERS.index(layer_of(name)) > LAYERS.index(layer):
            yield f"line {line}: {layer} must not import {name}"


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_imports_point_to_earlier_layers(path):
    layer = path.relative_to(PACKAGE).with_suffix("").parts[0]
    if layer not in ABOVE:
        wrong = list(violations(layer, path.read_text("utf-8")))
        assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("source", "allowed"),
    [
        ("from metricldp.reports import arrow", True),
        ("from metricldp.answers.answer import Answer", True),
        ("from metricldp.app.plots import histogram", False),
        ("def f():\n    from metricldp.app import plots", False),
        ("import metricldp.app.cli", False),
        ("from metricldp import Survey", False),
        ("from metricldp import app", False),
        ("import numpy", True),
    ],
)
def test_rule_on_examples(source, allowed):
    assert (not list(violations("answers", source))) == allowed
