"""Two attributes of a file of people as one, and apart: the errors of ten questions about both.

    python benchmarks/joint.py people.csv age hours_per_week

Errors are exact, for the people in the file, as standard errors in per cent of the true count.
Every column says what it promises: a window of five, and the most for any two values.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from pathlib import Path

import numpy as np

from metricldp import Integer, Survey

RANGES = [
    ((17, 29), (1, 34)),
    ((17, 29), (40, 40)),
    ((25, 34), (41, 60)),
    ((30, 44), (35, 45)),
    ((35, 54), (36, 60)),
    ((40, 49), (30, 39)),
    ((45, 64), (41, 99)),
    ((50, 69), (20, 40)),
    ((60, 90), (1, 30)),
    ((65, 90), (35, 60)),
]
COLUMNS = ("as one", "apart, shaped", "apart, geometric", "hio")


def surveys(names: list[str], epsilon: float) -> dict[str, Survey]:
    ends = (17, 90), (1, 99)
    said = {"epsilon": epsilon, "within": 5, "cap": 4}

    def both(**more: object) -> dict[str, Integer]:
        return {name: Integer(*end, **more) for name, end in zip(names, ends, strict=True)}

    return {
        "as one": Survey(both(**said), joint=[names]),
        "apart, shaped": Survey(both(**said, mechanism="shaped")),
        "apart, geometric": Survey(both(epsilon=epsilon, per=5, mechanism="geometric")),
        "hio": Survey(
            both(epsilon=2 * epsilon, within=99),
            joint={tuple(names): {"name": "hio", "consistent": True}},
        ),
    }


def main() -> None:
    path, *names = sys.argv[1:]
    with Path(path).open(encoding="utf-8") as file:
        rows = [[int(row[name]) for name in names] for row in csv.DictReader(file)]
    people = np.array(rows)
    shares = np.histogram2d(*people.T, bins=[np.arange(17, 92), np.arange(1, 101)])[0]
    found = []
    for epsilon in (1.0, 0.5):
        began = time.process_time()
        made = surveys(names, epsilon)
        print(f"\n{epsilon:g} within 5, at most 4, of each: {time.process_time() - began:.0f} s")
        print(f"hio: {2 * epsilon:g} for any two people\n")
        print("| " + " | ".join((*names, "people", *COLUMNS)) + " |")
        print("|" + " --- |" * (3 + len(COLUMNS)))
        squares = []
        for ends in RANGES:
            where = dict(zip(names, ends, strict=True))
            inside = [(people[:, d] >= e[0]) & (people[:, d] <= e[1]) for d, e in enumerate(ends)]
            true = int(np.logical_and(*inside).sum())
            errors = [
                made[column].predict(where, n=len(people), prior=shares) for column in COLUMNS
            ]
            squares.append(np.square(errors))
            cells = [f"{low} to {high}" for low, high in ends]
            cells += [f"{true:,}", *(f"{100 * error / true:.0f} %" for error in errors)]
            print("| " + " | ".join(cells) + " |", flush=True)
            found.append({"epsilon": epsilon, "where": where, "people": true, "errors": errors})
        means = np.mean(squares, axis=0)
        print("squared error against as one:", [f"{mean / means[0]:.2f}" for mean in means])
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "joint.json").write_text(json.dumps(found, indent=1), "utf-8")


if __name__ == "__main__":
    main()
