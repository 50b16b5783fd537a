"""Two attributes of a file of people as one, and apart: the errors of ten questions about both.

    python benchmarks/joint.py people.csv age hours_per_week

Errors are exact, for the people in the file, as standard errors in per cent of the true count. HDG
and trees are biased, and so simulated: the root of the mean square of the error over some runs.
Every column says what it promises: a window of five, and the most for any two values.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from metricldp import Integer, Survey
from metricldp.lab.peers.grids import collected
from metricldp.lab.peers.pripl import pripl_tree

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
FITTED = {"hdg": {}, "pripl-trees, hdg's grids": {"alone": pripl_tree}}
RUNS = 40


def simulated(people: np.ndarray, epsilon: float, truth: np.ndarray, **more: Any) -> list[float]:
    """What HDG and trees are off, with one epsilon for any two people."""
    rng, squares = np.random.default_rng(1), []
    lows, sizes = np.array([17, 1]), (74, 99)
    functions = [
        np.array(
            [(low + x >= ends[d][0]) & (low + x <= ends[d][1]) for ends in RANGES], dtype=float
        )
        for d, (low, x) in enumerate(zip(lows, map(np.arange, sizes), strict=True))
    ]
    for _ in range(RUNS):
        found = collected(list((people - lows).T), sizes, epsilon, rng, **more)
        squares.append((len(people) * found.shares(functions) - truth) ** 2)
    return list(np.sqrt(np.mean(squares, axis=0)))


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
        print(f"hdg and trees: {2 * epsilon:g} for any two people, {RUNS} runs")
        print("| " + " | ".join((*names, "people", *COLUMNS, *FITTED)) + " |")
        print("|" + " --- |" * (3 + len(COLUMNS) + len(FITTED)))
        squares = []
        truth = [shares[a - 17 : b - 16, c - 1 : d].sum() for (a, b), (c, d) in RANGES]
        biased = [simulated(people, 2 * epsilon, np.array(truth), **m) for m in FITTED.values()]
        for k, ends in enumerate(RANGES):
            where = dict(zip(names, ends, strict=True))
            inside = [(people[:, d] >= e[0]) & (people[:, d] <= e[1]) for d, e in enumerate(ends)]
            true = int(np.logical_and(*inside).sum())
            errors = [
                made[column].predict(where, n=len(people), prior=shares) for column in COLUMNS
            ]
            errors += [column[k] for column in biased]
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
