"""The changes that `make mutants` makes, and its list of modules."""

import ast
import tomllib
from pathlib import Path

import pytest
from changes import changes, read

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SOURCE = ROOT / "src" / "metricldp"


def after(text):
    return [change.after for change in changes(ast.parse(text))]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("a < b", ["a <= b", "a >= b"]),
        ("a is b", ["a is not b"]),
        ("a in b", ["a not in b"]),
        ("a and b", ["b", "a"]),
        ("a or b or c", ["b or c", "a or c", "a or b"]),
        ("not a", ["a"]),
        ("-a", ["a"]),
        ("a + b", ["a - b"]),
        ("a << b", ["a >> b"]),
        ("1 << 12", ["1 << 13"]),
        ("[b] + a", []),
        ("5", ["6"]),
        ("1", ["2", "0"]),
        ("-1", ["-2", "-0"]),
        ("zip(a, strict=True)", []),
        ("0.5", ["1.0"]),
        ("True", ["False"]),
        ("'text'", []),
        ("f'{a + b:5}'", ["f'{a - b:5}'"]),
        ("min(a, b)", ["max(a, b)"]),
        ("f(a, b)", ["f(b, a)"]),
        ("f(a, c=b)", ["f(a)"]),
        ("zip(a, strict=b)", []),
        ("isinstance(a, int | str | list)", ["str | list", "int | list", "int | str"]),
        ("b if a else c", ["b", "c"]),
        ("[x for x in y if x]", ["[x for x in y if not x]"]),
    ],
)
def test_expressions(before, expected):
    assert after(f"z = {before}") in (expected, [f"z = {text}" for text in expected])


def test_statements():
    source = """
def f(a, b: int = 3) -> "int | str":
    '''Text and 5 numbers.'''
    assert a > 5
    check(a)
    a.b = c
    a += b
    for x in a:
        if x:
            break
        continue
    raise ValueError
"""
    found = changes(ast.parse(source))
    assert [(change.line, change.after) for change in found] == [
        (2, "def f(a, b: int=4) -> 'int | str':"),
        (5, "pass"),
        (6, "pass"),
        (7, "a -= b"),
        (7, "pass"),
        (9, "if not x:"),
        (10, "continue"),
        (11, "break"),
        (12, "pass"),
    ]
    assert [change.place.lines for change in found] == [
        (),
        *((n,) for n in (5, 6, 7, 7, 9, 10, 11, 12)),
    ]


def test_names_tell_changes_apart_and_a_change_is_made():
    tree = ast.parse("def f(a):\n    return g(a + 1, a + 1)\n")
    found = changes(tree)
    names = [change.name for change in found]
    assert len(set(names)) == len(names)
    assert "f: g(a + 1, a + 1) -> g(a + 1, a - 1)" in names
    found[names.index("f: g(a + 1, a + 1) -> g(a + 1, a - 1)")].make()
    assert ast.unparse(tree) == "def f(a):\n    return g(a + 1, a - 1)"


def test_what_is_named_is_there():
    table = tomllib.loads((HERE / "modules.toml").read_text())
    for name, files in table.items():
        assert (SOURCE / name.replace(".", "/")).is_dir() or read(_file(name))
        assert all((ROOT / file).exists() for file in files)
    for entry in tomllib.loads((HERE / "explained.toml").read_text()).get("explained", []):
        assert set(entry) == {"module", "why", "changes"}
        assert _file(entry["module"]).exists()


def _file(module):
    return SOURCE / f"{module.replace('.', '/')}.py"
