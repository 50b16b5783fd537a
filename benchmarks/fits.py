"""Fits against unbiased answers: mean squared errors over ranges, time and memory.

    python benchmarks/fits.py [--quick] [people.csv]

Every cell of the table is the mean squared error of fitted counts over that of unbiased ones, the
median over populations; each of these has a row as well. The unbiased errors are exact, the fitted
ones simulated. Questions are 200 random boxes: both ends of every side are uniform. With a file of
people that has age, hours_per_week and education_num (Adult, UCI) they are one more population, and
ages are compared with what is published for Square Wave and PriPL-Tree.
"""

from __future__ import annotations

import csv
import json
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from measure import QUICK, RESULTS, machine
from metricldp import Categorical, Integer, Survey
from metricldp.lab.crowd import Crowd, Questions, seeded
from metricldp.lab.peers.pripl import pripl_tree
from metricldp.lab.peers.reconstruct import expectation_maximisation
from metricldp.lab.peers.waves import drawn_waves

EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0)
CELLS = ((1, 20_000), (1, 100_000), (1, 1_000_000), (2, 100_000), (2, 1_000_000), (3, 20_000))
ASKED = 200
Draw = Callable[[np.random.Generator, int], np.ndarray]
"""People as rows of positions."""


def grid(values: np.ndarray, *sizes: int) -> np.ndarray:
    """Numbers from 0 to 1 as positions."""
    sides = np.array(sizes)
    return np.clip((values.reshape(len(values), -1) * sides).astype(int), 0, sides - 1)


def hills(dimensions: int, width: float) -> Draw:
    """Three hills in a row, of different weights, that tie the attributes together."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        at = np.array([[0.25, 0.3, 0.4], [0.5, 0.6, 0.35], [0.75, 0.8, 0.7]])[:, :dimensions]
        which = rng.choice(3, n, p=[0.5, 0.3, 0.2])
        return at[which] + width * (1 + which[:, None] / 2) * rng.normal(size=(n, dimensions))

    return draw


def spikes(dimensions: int) -> Draw:
    """Half of all people at twelve places, the other half on hills."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        places = np.random.default_rng(7).random((12, dimensions))
        found = hills(dimensions, 0.1)(rng, n)
        there = rng.random(n) < 0.5
        found[there] = places[rng.integers(0, 12, there.sum())]
        return found

    return draw


def even(dimensions: int) -> Draw:
    return lambda rng, n: rng.random((n, dimensions))


def tail(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.exponential(0.12, (n, 1))


def heaped(rng: np.random.Generator, n: int) -> np.ndarray:
    """Ages, of which three in ten are rounded to tens or fives."""
    ages = np.clip(rng.normal(45, 18, n), 0, 99).astype(int)
    round_to = np.where(rng.random(n) < 0.5, 10, 5)
    rounded = ages // round_to * round_to
    return (np.where(rng.random(n) < 0.3, rounded, ages)[:, None] + 0.5) / 100


def ends(rng: np.random.Generator, n: int) -> np.ndarray:
    """A third at each end, the others anywhere."""
    return np.clip(rng.uniform(-1, 2, (n, 1)), 0, 1)


def ring(rng: np.random.Generator, n: int) -> np.ndarray:
    angle, away = rng.uniform(0, 2 * np.pi, n), 0.35 + 0.04 * rng.normal(size=n)
    return 0.5 + np.stack([away * np.cos(angle), away * np.sin(angle)], axis=1)


def stripes(rng: np.random.Generator, n: int) -> np.ndarray:
    """The second follows the first, which has every fourth value only."""
    first = rng.integers(0, 16, n) * 4
    return np.stack([first / 64, first / 64 + 0.1 * rng.normal(size=n)], axis=1)


def ball(rng: np.random.Generator, n: int) -> np.ndarray:
    found = rng.normal(size=(n, 3))
    return 0.5 + 0.4 * found / np.linalg.norm(found, axis=1, keepdims=True)


POPULATIONS: dict[int, dict[str, tuple[Draw, tuple[int, ...]]]] = {
    1: {"smooth": (hills(1, 0.08), (100,)), "spiky": (spikes(1), (128,))},
    2: {"smooth": (hills(2, 0.08), (100, 100)), "spiky": (spikes(2), (64, 64))},
    3: {"smooth": (hills(3, 0.08), (32, 32, 32)), "spiky": (spikes(3), (32, 32, 32))},
}
"""Like those that the method was chosen on."""
FRESH: dict[int, dict[str, tuple[Draw, tuple[int, ...]]]] = {
    1: {
        "even": (even(1), (100,)),
        "tail": (tail, (256,)),
        "heaped": (heaped, (100,)),
        "ends": (ends, (32,)),
    },
    2: {"ring": (ring, (80, 80)), "stripes": (stripes, (64, 50)), "even": (even(2), (60, 60))},
    3: {"ball": (ball, (32, 32, 32)), "even": (even(3), (32, 32, 32))},
}
"""Others, which nobody looked at before."""


def adult(rows: np.ndarray) -> None:
    """People of a file, drawn from it again and again."""

    def draw(*lengths: int) -> Draw:
        columns, sides = len(lengths), np.array(lengths)
        return lambda rng, n: (rows[rng.integers(0, len(rows), n), :columns] + 0.5) / sides

    POPULATIONS[1]["adult"] = (draw(74), (74,))
    POPULATIONS[2]["adult"] = (draw(74, 99), (74, 99))
    POPULATIONS[3]["adult"] = (draw(74, 99, 16), (32, 32, 16))


def ratio(
    draw: Draw,
    sizes: tuple[int, ...],
    epsilon: float,
    n: int,
    runs: int,
    mechanism: str = "geometric",
) -> float:
    """The squared error of fits over that of unbiased answers."""
    names = [f"x{d}" for d in range(len(sizes))]
    attributes = {
        name: Integer(0, size - 1, epsilon=epsilon, mechanism=mechanism)
        for name, size in zip(names, sizes, strict=True)
    }
    survey = Survey(attributes)
    found = []
    for run in range(runs):
        rng = np.random.default_rng(1000 + run)
        asked = Questions.draw(survey.attributes, ASKED, rng)
        people = grid(draw(rng, n), *sizes)
        crowd = Crowd(survey.attributes, dict(zip(names, people.T, strict=True)))
        seconds = {name: survey.channels[name].moment(asked.functions[name]) for name in names}
        truth = crowd.truth(asked)
        unbiased = asked.over(crowd, seconds) - truth
        fit = survey.tally(survey.encode(crowd.positions, coins=seeded(run))).fit(names)
        fitted = n * over(fit.shares, [asked.functions[name] for name in names])
        found.append(((fitted - truth) ** 2).mean() / unbiased.mean())
    return float(np.mean(found))


def over(shares: np.ndarray, functions: list[np.ndarray]) -> np.ndarray:
    left = functions[0] @ shares.reshape(len(shares), -1)
    for function in functions[1:]:
        left = np.einsum("qx,qxr->qr", function, left.reshape(*function.shape, -1))
    return left[:, 0]


def errors(quick: bool) -> list[dict[str, object]]:
    found = []
    for dimensions, n in CELLS:
        runs = 1 if quick else {20_000: 8, 100_000: 4, 1_000_000: 1}[n]
        for kind, populations in (("known", POPULATIONS), ("fresh", FRESH)):
            for name, (draw, sizes) in populations[dimensions].items():
                ratios = [ratio(draw, sizes, e, n, runs) for e in EPSILONS]
                found.append(
                    {"dimensions": dimensions, "n": n, "kind": kind, "population": name}
                    | {"sizes": sizes, "ratios": ratios}
                )
                told = " | ".join(f"{r:.2g}" for r in ratios)
                size = " x ".join(map(str, sizes))
                print(f"| {dimensions}-d, {n:,} | {name}, {size} | {told} |", flush=True)
    print("\nmedians\n")
    for kind in ("known", "fresh"):
        for dimensions, n in CELLS:
            rows = [
                row["ratios"]
                for row in found
                if (row["dimensions"], row["n"], row["kind"]) == (dimensions, n, kind)
            ]
            told = " | ".join(f"{m:.2g}" for m in np.median(rows, axis=0))
            print(f"| {kind} | {dimensions}-d, {n:,} | {told} |")
    return found


BITS = ((1, 20_000, (64,)), (2, 20_000, (24, 24)))


def bits(quick: bool) -> list[dict[str, object]]:
    """Threshold bits, of which a report is many."""
    found = []
    for dimensions, n, sizes in BITS:
        for name in ("smooth", "spiky"):
            draw = POPULATIONS[dimensions][name][0]
            runs = 1 if quick else 3
            ratios = [ratio(draw, sizes, e, n, runs, "threshold") for e in EPSILONS]
            found.append({"n": n, "sizes": sizes, "population": name, "ratios": ratios})
            told = " | ".join(f"{r:.2g}" for r in ratios)
            size = " x ".join(map(str, sizes))
            print(f"| bits, {n:,} | {name}, {size} | {told} |", flush=True)
    return found


# Ages of Adult at plain epsilons


PUBLISHED = {
    0.4: {"PriPL-Tree": 1.90e-3, "SW-EMS": 2.42e-3},
    0.8: {"PriPL-Tree": 6.80e-4, "SW-EMS": 4.46e-4},
    1.6: {"PriPL-Tree": 1.18e-4, "SW-EMS": 1.08e-4},
}
"""Mean squared errors of shares over ranges of half the domain, by the authors' programs."""
PLAIN = ("square-wave", "designed", "shaped", "haar")


def ages(rows: np.ndarray, quick: bool) -> list[dict[str, object]]:
    """By fits of four channels, and by the peers' own ways of reading, all made here."""
    people = rows[:, 0]
    truth = np.bincount(people, minlength=74) / len(people)
    found = []

    def fitted(epsilon: float, mechanism: str) -> Callable[[int], np.ndarray]:
        age = Integer(0, 73, epsilon=epsilon, within=73, mechanism=mechanism)
        survey = Survey({"age": age})
        return lambda run: (
            survey.tally(survey.encode({"age": people}, coins=seeded(run))).fit("age").shares
        )

    def waves(epsilon: float, run: int) -> np.ndarray:
        drawn = drawn_waves(people, 74, epsilon, np.random.default_rng(run))
        return expectation_maximisation(*drawn, smooth=True)

    def trees(epsilon: float, run: int) -> np.ndarray:
        return pripl_tree(people, 74, epsilon, np.random.default_rng(run))

    for epsilon, published in PUBLISHED.items():
        ways = {f"fit of {name}": fitted(epsilon, name) for name in PLAIN}
        ways |= {"SW-EMS, here": partial(waves, epsilon)}
        ways |= {"PriPL-Tree, here": partial(trees, epsilon)}
        told = ", ".join(f"{name} {value:.3g}" for name, value in published.items())
        print(f"ages at {epsilon}, published: {told}")
        for name, way in ways.items():
            squares = []
            for run in range(2 if quick else 40):
                sums = np.append(0, np.cumsum(way(run) - truth))
                squares.append(((sums[37:] - sums[:-37]) ** 2).mean())
            mean, error = np.mean(squares), np.std(squares) / np.sqrt(len(squares))
            found.append({"epsilon": epsilon, "way": name, "mse": mean, "se": error})
            print(f"| {epsilon} | {name} | {mean:.3g} ± {error:.2g} |", flush=True)
    return found


# Time


def timed() -> list[dict[str, object]]:
    def numbers(size: int) -> Integer:
        return Integer(0, size - 1, epsilon=0.2, mechanism="geometric")

    region = Categorical(["a", "b", "c", "d"], epsilon=2)
    surveys = {
        "100 x 100 x 4": {"x": numbers(100), "y": numbers(100), "z": region},
        "256 x 256": {"x": numbers(256), "y": numbers(256)},
        "64 x 64 x 64": {"x": numbers(64), "y": numbers(64), "z": numbers(64)},
    }
    found = []
    for name, attributes in surveys.items():
        survey = Survey(attributes)
        sizes = [attribute.size for attribute in attributes.values()]
        rng = np.random.default_rng(1)
        drawn = grid(hills(3, 0.08)(rng, 10**6)[:, : len(sizes)], *sizes)
        people = dict(zip(attributes, drawn.T, strict=True))
        if "4" in name.split(" x ")[-1:]:
            people["z"] = np.array(list("abcd"))[people["z"]]
        tally = survey.tally(survey.encode(people, coins=seeded(1)))
        began, spent = time.perf_counter(), time.process_time()
        fit = tally.fit(list(attributes))
        took = time.perf_counter() - began, time.process_time() - spent
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        found.append({"fit": name, "seconds": took[0], "processor": took[1], "GB": most})
        print(
            f"{name}: {took[0]:.2f} s ({took[1]:.2f} s of processors), {most:.2f} GB; {fit.trace}"
        )
    return found


def main() -> None:
    quick = QUICK in sys.argv
    files = [word for word in sys.argv[1:] if not word.startswith("--")]
    saved: dict[str, object] = {"machine": machine(), "quick": quick, "time": timed()}
    if files:
        with Path(files[0]).open(encoding="utf-8") as file:
            wanted = [("age", 17), ("hours_per_week", 1), ("education_num", 1)]
            rows = [[int(row[k]) - low for k, low in wanted] for row in csv.DictReader(file)]
        adult(np.array(rows))
        saved["ages"] = ages(np.array(rows), quick)
    saved["bits"] = bits(quick)
    saved["errors"] = errors(quick)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "fits.json").write_text(json.dumps(saved, indent=1, default=float), "utf-8")


if __name__ == "__main__":
    main()
