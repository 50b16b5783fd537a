"""Table 2: errors of ranges and quantiles against m and D, and for the same guarantee within w.

The paper's table states orders in log m; here mechanisms answer the same random ranges for the same
respondents, half spread evenly, half Beta(2, 5). Errors of ranges are exact: the mean over the
ranges of the expected squared error, per respondent. Quantile errors are simulated: the distance
between p and the true percentiles of the estimated p-quantile, times the root of n. Attributes are
independent.

Three guarantees: "step" is epsilon per step (epsilon / w for the last figures), "pairs" is epsilon
between any two values, "within" is epsilon up to w steps apart and epsilon more for every w beyond.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from common import (
    COLORS,
    GREY,
    SEED,
    Run,
    label,
    mean_and_error,
    new_figure,
    print_table,
)

from metricldp import Integer, InvalidSpecError, Randomness, Survey, SurveySpec

EPSILON = 1.0
STEP, PAIRS, WITHIN = "step", "pairs", "within"
PROBABILITIES = (0.1, 0.25, 0.5, 0.75, 0.9)
LARGEST = {"additive": 1024, "extremal": 16, "tight-constraints": 128, "auto": 256, "prefix": 1024}
"""Values up to which a mechanism is quick to design."""
MOST_CELLS = 256
"""Cells up to which a block of additive noise is designed."""
ALONE = {
    STEP: ("geometric", "threshold", "threshold-paper", "additive", "prefix"),
    PAIRS: (
        *("haar", "hierarchy-2", "hierarchy-4", "hierarchy-16", "hierarchy-4-unary", "additive"),
        *("extremal", "unary-optimised", "local-hashing", "hadamard", "randomized-response"),
    ),
    WITHIN: ("additive", "extremal", "tight-constraints", "auto"),
}
TOGETHER = {
    STEP: ("additive", "faces"),
    PAIRS: ("additive", "hio-hashing"),
    WITHIN: ("additive",),
}
AXES = {"values": "values m", "within": "w (steps)"}
STYLES = {STEP: "-", PAIRS: "--", WITHIN: "o-"}
DRAWN = {
    "geometric": COLORS[0],
    "threshold": COLORS[1],
    "additive": COLORS[3],
    "additive, block": COLORS[5],
    "faces, block": "#009e73",
    "auto": "#56b4e9",
    "haar": COLORS[2],
    "hierarchy-4-unary": COLORS[4],
    "unary-optimised": "#cc79a7",
    "hio-hashing, block": "#b8860b",
    "randomized-response": GREY,
}
"""The mechanisms in the figures and their colours; the tables contain all."""


@dataclass(frozen=True)
class Sizes:
    """What a run computes: numbers of values m, of attributes D, and w for each (D, m)."""

    respondents: int = 5000
    one: tuple[int, ...] = tuple(1 << k for k in range(4, 13))
    two: tuple[int, ...] = tuple(1 << k for k in range(3, 9))
    attributes: tuple[int, ...] = (1, 2, 3, 4)
    within: tuple[tuple[int, int, tuple[int, ...]], ...] = (
        (1, 16, (1, 2, 4, 8, 15)),
        (1, 256, (1, 2, 4, 8, 16, 32, 64, 128, 255)),
        (2, 16, (1, 2, 4, 8, 15)),
    )
    quantiles: tuple[int, ...] = (64, 128, 256, 512)
    repetitions: int = 24


QUICK = Sizes(
    respondents=1000,
    one=(16, 32, 64),
    two=(4, 8, 16),
    attributes=(1, 2),
    within=((1, 8, (1, 2, 7)), (2, 4, (1, 3))),
    quantiles=(16, 32, 64),
    repetitions=6,
)


def positions(attributes: int, size: int, n: int) -> npt.NDArray[np.int64]:
    """Respondents at the same places relative to the domain for every size, (attributes, n)."""
    rng = np.random.default_rng([SEED, 1])
    columns = []
    for _ in range(attributes):
        even, hill = rng.random(n), rng.beta(2, 5, n)
        columns.append((np.where(np.arange(n) % 2 == 0, even, hill) * size).astype(np.int64))
    return np.array(columns)


def random_boxes(attributes: int, size: int) -> list[list[tuple[int, int]]]:
    """Random ranges of every attribute, the same relative to the domain for every size."""
    rng, count = np.random.default_rng([SEED, 2]), 200 if attributes == 1 else 40
    sides = [np.sort((rng.random((count, 2)) * size).astype(int)) for _ in range(attributes)]
    return [[tuple(side.tolist()) for side in box] for box in zip(*sides, strict=True)]


def surveys(attributes: int, size: int, within: int = 1) -> Iterator[tuple[str, str, Survey]]:
    """All mechanisms: name, guarantee, and a survey of attributes that are alike."""
    widths = {STEP: {"per": within}, PAIRS: {"within": size - 1}, WITHIN: {"within": within}}
    names = tuple(f"v{d + 1}" for d in range(attributes))
    for guarantee, width in widths.items():
        if guarantee == WITHIN and within == 1:
            continue  # the same as epsilon per step
        for mechanism in ALONE[guarantee]:
            if size <= LARGEST.get(mechanism, size):
                with contextlib.suppress(InvalidSpecError):
                    one = Integer(0, size - 1, epsilon=EPSILON, mechanism=mechanism, **width)
                    yield mechanism, guarantee, Survey.design(dict.fromkeys(names, one))
        for mechanism in TOGETHER[guarantee] if attributes > 1 else ():
            if mechanism != "additive" or size**attributes <= MOST_CELLS:
                with contextlib.suppress(InvalidSpecError):
                    one = Integer(0, size - 1, epsilon=EPSILON, **width)
                    options = {"branching": 4} if mechanism == "hio-hashing" else {}
                    joint = {names: {"name": mechanism, **options}}
                    survey = Survey.design(SurveySpec(dict.fromkeys(names, one), joint=joint))
                    yield f"{mechanism}, block", guarantee, survey


def errors(sizes: Sizes, attributes: int, size: int, within: int = 1) -> Iterator[dict[str, Any]]:
    """Exact errors of ranges for all mechanisms, with epsilon of a step and of the whole domain."""
    places = positions(attributes, size, sizes.respondents)
    names = [f"v{d + 1}" for d in range(attributes)]
    shares = {v: np.bincount(x, minlength=size) for v, x in zip(names, places, strict=True)}
    boxes = [dict(zip(names, box, strict=True)) for box in random_boxes(attributes, size)]
    steps = {STEP: EPSILON / within, PAIRS: EPSILON, WITHIN: EPSILON}
    widths = {STEP: (size - 1) / within, PAIRS: 1, WITHIN: -(-(size - 1) // within)}
    for mechanism, guarantee, survey in surveys(attributes, size, within):
        budgets = 1 if mechanism == "hio-hashing, block" else attributes
        variances = [survey.expected_error(box, prior=shares, n=1).stderr ** 2 for box in boxes]
        yield {
            "attributes": attributes,
            "values": size,
            "within": within,
            "mechanism": mechanism,
            "guarantee": guarantee,
            "step": steps[guarantee],
            "width": budgets * EPSILON * widths[guarantee],
            "error": sum(variances) / len(variances),
        }


def quantile_errors(sizes: Sizes) -> Iterator[dict[str, Any]]:
    """Simulated quantile errors of one attribute for all mechanisms."""
    randomness = Randomness.seeded(SEED)
    for size in sizes.quantiles:
        (values,) = positions(1, size, sizes.respondents)
        percentiles = np.append(0, np.cumsum(np.bincount(values, minlength=size))) / len(values)
        for mechanism, guarantee, survey in surveys(1, size):
            samples = []
            for _ in range(sizes.repetitions):
                tally = survey.tally(survey.randomize({"v1": values}, randomness=randomness))
                quantiles = tally.quantiles("v1", PROBABILITIES)
                below = np.array([percentiles[q.value] for q in quantiles])
                upto = np.array([percentiles[q.value + 1] for q in quantiles])
                off = np.maximum(below - PROBABILITIES, np.array(PROBABILITIES) - upto)
                samples.append(math.sqrt(len(values)) * float(np.maximum(off, 0).mean()))
            mean, error = mean_and_error(samples)
            yield {
                "values": size,
                "mechanism": mechanism,
                "guarantee": guarantee,
                "error": mean,
                "standard_error": error,
            }


def exponents(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """b of error = a (log2 m)^b by least squares, and b between the last two sizes alone."""
    result = []
    for key in dict.fromkeys((row["mechanism"], row["guarantee"]) for row in rows):
        mine = [r for r in rows if (r["mechanism"], r["guarantee"]) == key and r["error"] > 0]
        if len(mine) > 2:
            x = np.log(np.log2([row["values"] for row in mine]))
            y = np.log([row["error"] for row in mine])
            last = float((y[-1] - y[-2]) / (x[-1] - x[-2]))
            b = float(np.polyfit(x, y, 1)[0])
            line = {"mechanism": key[0], "guarantee": key[1], "exponent": b, "last": last}
            result.append({**line, "largest_m": mine[-1]["values"]})
    return result


def grid(rows: list[dict[str, Any]], across: str) -> list[dict[str, Any]]:
    """A line for each mechanism and a column for each size."""
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    columns = [f"{across} = {value}" for value in sorted({row[across] for row in rows})]
    for row in rows:
        key = row["mechanism"], row["guarantee"]
        head = {"mechanism": key[0], "guarantee": key[1], **dict.fromkeys(columns)}
        lines.setdefault(key, head)[f"{across} = {row[across]}"] = row["error"]
    return list(lines.values())


def draw(
    run: Run, name: str, panels: dict[str, list[dict[str, Any]]], across: str, text: str
) -> None:
    """Error against the field `across`, a panel for each entry."""
    figure, axes = new_figure(len(panels), 1, 8.5, 4.4)
    for panel, (title, rows) in zip(axes[:, 0], panels.items(), strict=True):
        lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for row in rows:
            if row["mechanism"] in DRAWN and row["error"] > 0:
                key = row["mechanism"], row["guarantee"]
                lines.setdefault(key, []).append((row[across], row["error"]))
        # The order of the legend is that of the right ends of the lines.
        for key, points in sorted(lines.items(), key=lambda line: -line[1][-1][1]):
            x, y = zip(*points, strict=True)
            style, color = STYLES[key[1]], DRAWN[key[0]]
            panel.loglog(x, y, style, color=color, markersize=3, label=" · ".join(key))
        label(panel, title, AXES[across], text, legend=False)
        panel.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1))
    run.save_figure(figure, name)


def main() -> None:
    run = Run.from_arguments("table2", __doc__)
    sizes = QUICK if run.quick else Sizes()
    ranges = {
        "D = 1": [row for m in sizes.one for row in errors(sizes, 1, m)],
        "D = 2": [row for m in sizes.two for row in errors(sizes, 2, m)],
    }
    by_attributes = [row for d in sizes.attributes for row in errors(sizes, d, 16)]
    quantiles = list(quantile_errors(sizes))
    windows = {
        (d, m): [row for w in withins for row in errors(sizes, d, m, w)]
        for d, m, withins in sizes.within
    }
    for title, rows in ranges.items():
        print_table(f"Mean squared error of ranges per respondent, {title}", grid(rows, "values"))
    print_table("The same against D, 16 values each", grid(by_attributes, "attributes"))
    print_table("Mean quantile error times root n (simulated)", grid(quantiles, "values"))
    fits = {title: exponents(rows) for title, rows in {**ranges, "quantiles": quantiles}.items()}
    for title, lines in fits.items():
        print_table(f"Exponents of log m, {title}", lines)
    for (d, m), rows in windows.items():
        print_table(f"Epsilon up to w steps apart, D = {d}, m = {m}", grid(rows, "within"))
    text = "mean squared error per respondent"
    title = f"Ranges of one attribute, ε = {EPSILON:g}"
    draw(run, "table2-ranges", {title: ranges["D = 1"]}, "values", text)
    title = f"Quantiles of one attribute, ε = {EPSILON:g}"
    draw(run, "table2-quantiles", {title: quantiles}, "values", "mean error × √n")
    for d, name in ((1, "table2-within"), (2, "table2-within-two")):
        panels = {f"{m} values, D = {d}": rows for (k, m), rows in windows.items() if k == d}
        draw(run, name, panels, "within", text)
    run.save(
        ranges=ranges,
        attributes=by_attributes,
        quantiles=quantiles,
        exponents=fits,
        within=[row for rows in windows.values() for row in rows],
    )


if __name__ == "__main__":
    main()
