"""The committed pictures are what this commit draws, at the sizes that the documents state.

`python tests/plot/test_pictures.py --write` draws them anew; randomness is seeded.
"""

import contextlib
import importlib
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from functools import cache, partial
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from metricldp import Randomness, SeededRandomnessWarning
from metricldp.answers.tally import Tally
from metricldp.cli import demo
from metricldp.reports.encode import encode
from test_docs import BLOCK, ROOT, isolated, run_python

DOCS = ROOT / "docs"
TOLERANCE = 1e-3
"""Mean difference of two pictures, of 1 between black and white: letters may be drawn otherwise by
another version of matplotlib; another seed moves points and lines by several times as much."""


@cache
def run_script(name):
    """The folder with the files of a research script, run at its full size."""
    output = Path(tempfile.mkdtemp())
    script = [sys.executable, ROOT / "research" / f"{name}.py", "--output", output]
    subprocess.run(script, check=True, stdout=subprocess.DEVNULL)
    return output


def of_a_script(name, file, output):
    return run_script(name) / file


def of_the_demo(output):
    people, survey = demo.population(), demo.survey()
    tally = Tally.of(survey, encode(survey, people, randomness=Randomness.seeded(1)))
    demo.draw_ages(tally, people, output / "demo.png")
    return output / "demo.png"


@cache
def run_document(name):
    """Documents draw pictures, so they are run; the folder that they were drawn into."""
    namespace, output = {}, tempfile.mkdtemp()
    text = (DOCS / name).read_text("utf-8")
    with isolated(), contextlib.chdir(output):
        for block in BLOCK.finditer(text):
            if block["code"]:
                run_python(block["code"], namespace, name, 1)
    return Path(output)


def of_a_document(name, file, output):
    return run_document(name) / file


def of_the_guide(name, output):
    """By docs/pictures.py, which draws the pictures of the user guide."""
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module("pictures").draw(name, output)
    finally:
        sys.path.remove(str(DOCS))


DRAWN = {
    "demo.png": of_the_demo,
    "metric.png": partial(of_a_document, "metrics.md", "kinds.png"),
    **{
        f"pictures/{name}.png": partial(of_the_guide, f"{name}.png")
        for name in ("demo", "error-epsilon", "metric", "report-path")
    },
    "figure1.png": partial(of_a_script, "figure1", "figure1.png"),
    "figure2.png": partial(of_a_script, "figure2", "figure2.png"),
    "table2-ranges.png": partial(of_a_script, "table2", "table2-ranges.png"),
    "table2-within.png": partial(of_a_script, "table2", "table2-within.png"),
    "table2-within-two.png": partial(of_a_script, "table2", "table2-within-two.png"),
    **{
        f"analyse-{name}.png": partial(of_a_document, "analyse.md", f"{name}.png")
        for name in ("histogram", "groups")
    },
}


def difference(one, other):
    """Of 0 to 1; pictures of different sizes have nothing in common."""
    pixels = [matplotlib.image.imread(path)[..., :3].astype(float) for path in (one, other)]
    return np.abs(pixels[0] - pixels[1]).mean() if pixels[0].shape == pixels[1].shape else 1.0


def test_every_picture_of_the_documents_is_drawn_by_this_test():
    assert {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.png")} == set(DRAWN)


def test_another_picture_is_noticed(tmp_path):
    people, survey = demo.population(2000), demo.survey()
    paths = []
    for seed in (1, 2, 1):
        tally = Tally.of(survey, encode(survey, people, randomness=Randomness.seeded(seed)))
        paths.append(tmp_path / f"{len(paths)}.png")
        demo.draw_ages(tally, people, paths[-1])
    assert difference(paths[0], paths[2]) == 0
    assert difference(paths[0], paths[1]) > 5 * TOLERANCE


@pytest.mark.slow
def test_as_many_intervals_hold_as_the_readme_says():
    people, survey = demo.population(), demo.survey()
    tally = Tally.of(survey, encode(survey, people, randomness=Randomness.seeded(1)))
    held = 0
    for k, answer in enumerate(tally.histogram("age", width=5)):
        low, high = answer.confidence_interval()
        held += low <= demo.truth(survey, people, {"age": (5 * k, 5 * k + 4)}) <= high
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert f"in this picture {held} of 20 do" in readme
    numbers = r"± ([\d,]+) people of a million against ± ([\d,]+), and .* ± ([\d,]+) with"
    told = re.search(numbers, readme)
    line = max(demo.ask(tally, people), key=lambda line: line.beside["± geometric"])
    errors = line.answer.stderr, line.beside["± plain"], line.beside["± geometric"]
    for error, number in zip(errors, told.groups(), strict=True):
        assert error == pytest.approx(float(number.replace(",", "")), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_the_committed_picture_is_the_one_that_is_drawn(name, tmp_path):
    found = difference(DOCS / name, DRAWN[name](tmp_path))
    assert found < TOLERANCE, f"docs/{name}: run python tests/plot/test_pictures.py --write"


if __name__ == "__main__" and "--write" in sys.argv:
    warnings.simplefilter("ignore", SeededRandomnessWarning)
    for name, drawn in DRAWN.items():
        with tempfile.TemporaryDirectory() as directory:
            found = drawn(Path(directory))
            if not (DOCS / name).exists() or difference(DOCS / name, found) >= TOLERANCE:
                shutil.copyfile(found, DOCS / name)
                print(f"docs/{name} is drawn anew")
