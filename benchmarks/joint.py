"""Two attributes randomized together and one by one: the errors of ten queries about both.

    python benchmarks/joint.py [--small] [people.csv age hours_per_week]

Errors are exact for these respondents, as standard errors in per cent of the true count. HDG and
trees are biased, and so simulated: the root of the mean square of the error over some runs. The
block and additive noise have epsilon within 5 and at most 4 for each attribute; HIO, HDG and trees
have 2 epsilon for any two respondents. Without a file, respondents are drawn at random.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

import measure
from metricldp import Integer, Survey, SurveySpec
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
COLUMNS = ("as one", "apart, additive", "apart, geometric", "hio")
FITTED = {"hdg": {}, "pripl-trees, hdg's grids": {"alone": pripl_tree}}
RUNS = 40


def simulated(
    people: np.ndarray, epsilon: float, truth: np.ndarray, runs: int, **more: Any
) -> list[float]:
    """What HDG and trees are off, with one epsilon for any two people."""
    rng, squares = np.random.default_rng(1), []
    lows, sizes = np.array([17, 1]), (74, 99)
    functions = [
        np.array(
            [(low + x >= ends[d][0]) & (low + x <= ends[d][1]) for ends in RANGES], dtype=float
        )
        for d, (low, x) in enumerate(zip(lows, map(np.arange, sizes), strict=True))
    ]
    for _ in range(runs):
        found = collected(list((people - lows).T), sizes, epsilon, rng, **more)
        squares.append((len(people) * found.shares(functions) - truth) ** 2)
    return list(np.sqrt(np.mean(squares, axis=0)))


def surveys(names: list[str], epsilon: float) -> dict[str, Survey]:
    ends = (17, 90), (1, 99)
    said = {"epsilon": epsilon, "within": 5, "max_epsilon": 4}

    def both(**more: object) -> dict[str, Integer]:
        return {name: Integer(*end, **more) for name, end in zip(names, ends, strict=True)}

    return {
        "as one": Survey.design(SurveySpec(both(**said), joint=[names])),
        "apart, additive": Survey.design(both(**said, mechanism="additive")),
        "apart, geometric": Survey.design(both(epsilon=epsilon, per=5, mechanism="geometric")),
        "hio": Survey.design(
            SurveySpec(
                both(epsilon=2 * epsilon, within=99),
                joint={tuple(names): {"name": "hio", "consistent": True}},
            )
        ),
    }


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="drawn at random if left out")
    parser.add_argument("names", nargs="*", default=["age", "hours_per_week"])
    options = measure.arguments(parser)
    names = list(options.names)
    if options.file:
        with options.file.open(encoding="utf-8") as file:
            rows = [[int(row[name]) for name in names] for row in csv.DictReader(file)]
    else:
        rng, n = np.random.default_rng(1), 2_000 if options.small else 32_561
        rows = np.column_stack([17 + rng.binomial(73, 0.3, n), 1 + rng.binomial(98, 0.4, n)])
    people, runs = np.array(rows), 2 if options.small else RUNS
    shares = np.histogram2d(*people.T, bins=[np.arange(17, 92), np.arange(1, 101)])[0]
    lines = []
    for epsilon in (1.0, 0.5):
        made = surveys(names, epsilon)
        truth = [shares[a - 17 : b - 16, c - 1 : d].sum() for (a, b), (c, d) in RANGES]
        biased = {
            name: simulated(people, 2 * epsilon, np.array(truth), runs, **more)
            for name, more in FITTED.items()
        }
        for k, ends in enumerate(RANGES):
            where = dict(zip(names, ends, strict=True))
            line = {"epsilon": epsilon}
            line |= {name: f"{low} to {high}" for name, (low, high) in where.items()}
            line["count"] = int(truth[k])
            for column in (*COLUMNS, *FITTED):
                error = (
                    biased[column][k]
                    if column in FITTED
                    else made[column].expected_error(where, n=len(people), prior=shares).stderr
                )
                line[column] = 100 * error / truth[k] if truth[k] else None
            lines.append(line)
    measure.table(lines, list(lines[0]), "joint")


if __name__ == "__main__":
    main()
