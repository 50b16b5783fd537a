"""The notebooks were run in order, show no warnings, and print today what they show.

`make notebooks` runs them anew. The fast tests read the files; the slow one runs them.
"""

import ast
import base64
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

from test_docs import ROOT, same_everywhere

FOLDER = ROOT / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
INSTALLED = {"metricldp", "numpy", "pandas", "pyarrow", "statsmodels"}
LARGEST = 600_000
A_PATH = re.compile(r"(?<![\w.:/])/(?:[\w.-]+/)+[\w.-]+|\b[A-Z]:\\|file:/")
"""A path from the root of a machine."""


def cells(path, kind="code"):
    book = json.loads(path.read_text("utf-8"))
    return [cell for cell in book["cells"] if cell["cell_type"] == kind]


def joined(text):
    return text if isinstance(text, str) else "".join(text)


def shown(cell):
    """What a cell printed and showed, as (what, text); of pictures only that there is one."""
    for output in cell.get("outputs", ()):
        if output["output_type"] == "stream":
            yield output["name"], joined(output["text"])
        else:
            for kind, data in output.get("data", {}).items():
                yield kind, "" if kind.startswith("image/") else joined(data)


def each(test):
    return pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)(test)


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["analyse", "collect", "research"]


@each
def test_it_is_a_notebook_of_no_particular_machine(path):
    text = path.read_text("utf-8")
    assert len(text) < LARGEST
    book = json.loads(text)
    assert set(book) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (book["nbformat"], book["nbformat_minor"]) >= (4, 5)
    assert book["metadata"]["language_info"] == {"name": "python"}
    assert book["metadata"]["kernelspec"]["name"] == "python3"
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    for cell in book["cells"]:
        keys = {"cell_type", "id", "metadata", "source"}
        keys |= {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert set(cell) == keys
        assert cell["metadata"] == {}, "no times and no state of an editor"
        assert cell["cell_type"] in ("code", "markdown")


@each
def test_it_was_run_in_order_without_errors_or_warnings(path):
    for place, cell in enumerate(cells(path)):
        assert cell["execution_count"] == place + 1
        for output in cell["outputs"]:
            assert output["output_type"] in ("stream", "execute_result", "display_data")
            assert output.get("metadata", {}) == {}
        for kind, text in shown(cell):
            assert kind != "stderr"
            assert not re.search(r"\w+Warning\b|Traceback", text)


@each
def test_no_path_of_a_machine_is_in_it(path):
    for cell in [*cells(path), *cells(path, "markdown")]:
        texts = [joined(cell["source"])]
        texts += [re.sub(r"</\w+>", " ", text) for _, text in shown(cell)]
        for text in texts:
            assert not A_PATH.search(text), A_PATH.search(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("in /tmp/x/y.py:27", True),
        ("/home/somebody/file", True),
        ("C:\\Users", True),
        ("file:///x", True),
        ("docs/quickstart.md", False),
        ("../../docs/quickstart.md", False),
        ("a / b", False),
        ("people/year", False),
    ],
)
def test_the_rule_of_paths(text, found):
    assert bool(A_PATH.search(text)) == found


@each
def test_every_cell_compiles_and_needs_what_is_installed(path):
    for cell in cells(path):
        tree = ast.parse(joined(cell["source"]))
        names = [
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        ]
        names += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        for name in names:
            assert name.partition(".")[0] in INSTALLED | sys.stdlib_module_names


@each
def test_links_lead_somewhere(path):
    for cell in cells(path, "markdown"):
        for link in re.findall(r"\]\(([^)\s#]+)", joined(cell["source"])):
            assert (path.parent / link).exists(), link


@each
def test_pictures_are_small_and_objects_are_tables(path):
    found = [
        output["data"] for cell in cells(path) for output in cell["outputs"] if "data" in output
    ]
    for data in found:
        if "image/png" in data:
            png = base64.b64decode(data["image/png"])
            assert png.startswith(b"\x89PNG")
            assert len(png) < 100_000
        assert data["text/plain"]
    assert any("text/html" in data for data in found)


def python():
    """The interpreter that can run notebooks: this one, or that of `make notebooks`."""
    if all(map(find_spec, ("nbclient", "nbformat", "ipykernel", "statsmodels", "pandas"))):
        return sys.executable
    for name in (".venv-notebooks/bin/python", ".venv-notebooks/Scripts/python.exe"):
        if (ROOT / name).exists():
            return str(ROOT / name)
    return pytest.skip("nbclient or statsmodels is not installed; make notebooks installs them")


@pytest.mark.slow
def test_they_run_and_print_what_they_show(tmp_path):
    words = [python(), FOLDER / "run.py", "--into", tmp_path]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    for path in NOTEBOOKS:
        pairs = zip(cells(path), cells(tmp_path / path.name), strict=True)
        for old, new in pairs:
            before, after = ([(k, same_everywhere(t)) for k, t in shown(c)] for c in (old, new))
            assert before == after, f"{path.name}, cell {old['id']}: run make notebooks"
