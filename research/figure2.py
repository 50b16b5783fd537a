"""Figure 2: mean squared error of single values and ranges against epsilon, for D attributes.

The paper's setting is 1,000 respondents, 10 values for each of 5 or 6 attributes, Zipf with
parameter 1.1, all single values and 100 random ranges. The bounds are Theorems 2 and 3 of the paper
with constant 1. Exact errors are expectations over the noise for these respondents and queries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
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

from metricldp import Integer, Randomness, Survey

SIZE, RESPONDENTS, RANGES, ZIPF = 10, 1000, 100, 1.1
MECHANISMS = ("threshold-paper", "threshold", "geometric")
QUERIES = ("single values", "ranges")
SHADES = {0.5: "#5aa9d6", 1.0: "#0072b2", 2.0: "#8a2be2", 4.0: "#1a1a1a"}
Floats = npt.NDArray[np.float64]


def theorem3(epsilon: float, attributes: int, cut: Any, n: int) -> Any:
    """Theorem 3 of the paper with constant 1; with cut = attributes it is Theorem 2.

    `cut` is the number of attributes of which the range does not contain all values.
    """
    kappa2 = 1 / math.tanh(epsilon / 2) ** 2
    return n * (kappa2**attributes - 1) * 2.0 ** -np.asarray(cut)


@dataclass(frozen=True)
class Data:
    """Positions of the respondents, (attributes, respondents), and ranges, (ranges, D, 2)."""

    positions: npt.NDArray[np.int64]
    ranges: npt.NDArray[np.int64]

    @classmethod
    def draw(cls, attributes: int) -> Data:
        """Independent truncated Zipf attributes; every range of an attribute is equally likely."""
        rng = np.random.default_rng([SEED, attributes])
        shares = np.arange(1, SIZE + 1) ** -ZIPF
        positions = rng.choice(SIZE, size=(attributes, RESPONDENTS), p=shares / shares.sum())
        ends = np.array([(a, b) for a in range(SIZE) for b in range(a, SIZE)])
        chosen = ends[rng.integers(len(ends), size=(attributes, RANGES))]
        return cls(positions, chosen.transpose(1, 0, 2))

    @property
    def attributes(self) -> int:
        return len(self.positions)

    @property
    def cells(self) -> Floats:
        """The true frequency of every combination of values."""
        shape = (SIZE,) * self.attributes
        codes = np.ravel_multi_index(tuple(self.positions), shape)
        return np.bincount(codes, minlength=math.prod(shape)).reshape(shape).astype(float)

    @property
    def inside(self) -> Floats:
        """Whether a value is inside a range, (attributes, ranges, values)."""
        low, high = self.ranges.transpose(2, 1, 0)[..., None]
        grid = np.arange(SIZE)
        return ((low <= grid) & (grid <= high)).astype(float)

    @property
    def cut(self) -> npt.NDArray[np.int64]:
        return (self.ranges[:, :, 1] - self.ranges[:, :, 0] < SIZE - 1).sum(axis=1)

    @property
    def counts(self) -> Floats:
        """The true number of respondents in every range."""
        parts = [f[:, x] for f, x in zip(self.inside, self.positions, strict=True)]
        return np.prod(parts, axis=0).sum(axis=1)


def survey_of(attributes: int, mechanism: str, epsilon: float) -> Survey:
    one = Integer(1, SIZE, epsilon=epsilon, mechanism=mechanism, per=1)
    return Survey.design({f"v{d + 1}": one for d in range(attributes)})


def exact_errors(data: Data, mechanism: str, epsilon: float) -> tuple[Floats, Floats]:
    """The expected squared error of every single value and of every range.

    Attributes have independent noise, so second moments of decoders multiply. Those of one
    attribute follow from the predicted error for respondents who all have the same value.
    """
    one = survey_of(1, mechanism, epsilon)
    variances = [
        [
            one.expected_error({"v1": v + 1}, prior=np.eye(SIZE)[x], n=1).stderr ** 2
            for x in range(SIZE)
        ]
        for v in range(SIZE)
    ]
    moments = np.array(variances) + np.eye(SIZE)
    cells = data.cells
    singles = cells
    for _ in range(data.attributes):  # each product moves the next attribute to the front
        singles = np.tensordot(singles, moments, axes=(0, 1))
    survey = survey_of(data.attributes, mechanism, epsilon)
    shares = cells / RESPONDENTS
    ranges = []
    for ends, whole in zip(data.ranges, np.ptp(data.ranges, axis=2) == SIZE - 1, strict=True):
        where = {f"v{d + 1}": (int(a) + 1, int(b) + 1) for d, (a, b) in enumerate(ends)}
        prior = shares.sum(axis=tuple(np.flatnonzero(whole)))  # of the attributes that are cut
        ranges.append(survey.expected_error(where, n=RESPONDENTS, prior=prior).stderr ** 2)
    return singles - cells, np.array(ranges)


def simulated_errors(
    data: Data, mechanism: str, epsilon: float, repetitions: int, randomness: Randomness
) -> list[tuple[float, float]]:
    """The mean squared error of single values and of ranges in every repetition.

    All attributes have the same channel with independent noise, so one attribute stands for all:
    the estimate of a cell is the sum over respondents of the product of contributions.
    """
    one = survey_of(1, mechanism, epsilon)
    values = np.tile(data.positions.ravel() + 1, repetitions)
    tally = one.tally(one.randomize({"v1": values}, randomness=randomness))
    columns = [tally.contributions({"v1": v + 1})["contribution"] for v in range(SIZE)]
    shape = SIZE, repetitions, data.attributes, RESPONDENTS
    contributions = np.array([column.to_numpy() for column in columns]).reshape(shape)
    cells, counts, inside = data.cells, data.counts, data.inside
    errors = []
    for k in range(repetitions):
        parts = [contributions[:, k, d] for d in range(data.attributes)]
        half = data.attributes // 2
        first, second = (reduce(_all_pairs, group) for group in (parts[:half], parts[half:]))
        singles = (first @ second.T).reshape(cells.shape) - cells
        ranges = np.prod([f @ part for f, part in zip(inside, parts, strict=True)], axis=0)
        off = ranges.sum(axis=1) - counts
        errors.append((float((singles**2).mean()), float((off**2).mean())))
    return errors


def _all_pairs(one: Floats, other: Floats) -> Floats:
    """Products of all pairs of rows, in the order of cells."""
    return (one[:, None] * other[None]).reshape(-1, RESPONDENTS)


def points(
    attributes: int, epsilons: list[float], repetitions: int, randomness: Randomness
) -> list[dict[str, Any]]:
    data = Data.draw(attributes)
    rows = []
    for epsilon in epsilons:
        for mechanism in MECHANISMS:
            exact = exact_errors(data, mechanism, epsilon)
            samples = zip(
                *simulated_errors(data, mechanism, epsilon, repetitions, randomness), strict=True
            )
            for queries, errors, drawn in zip(QUERIES, exact, samples, strict=True):
                cut = data.cut if queries == "ranges" else attributes
                bounds = theorem3(epsilon, attributes, cut, RESPONDENTS)
                mean, error = mean_and_error(drawn)
                rows.append(
                    {
                        "attributes": attributes,
                        "queries": queries,
                        "mechanism": mechanism,
                        "epsilon": epsilon,
                        "across": attributes * (SIZE - 1) * epsilon,
                        "exact": float(errors.mean()),
                        "simulated": mean,
                        "standard_error": error,
                        "theorem2": float(theorem3(epsilon, attributes, attributes, RESPONDENTS)),
                        "theorem3": float(np.mean(bounds)),
                        "share_above": float((errors > bounds).mean()),
                        "largest_ratio": float((errors / bounds).max()),
                        "ratios": (errors / bounds).tolist() if queries == "ranges" else None,
                        "inside": (data.counts / RESPONDENTS).tolist(),
                    }
                )
    return rows


def draw(run: Run, rows: list[dict[str, Any]]) -> None:
    """Errors against epsilon, and below every range of threshold-paper against Theorem 3."""
    columns = sorted({row["attributes"] for row in rows})
    figure, grid = new_figure(3, len(columns), 5.0, 3.3)
    for axes, attributes in zip(grid.T, columns, strict=True):
        here = [row for row in rows if row["attributes"] == attributes]
        for panel, queries in zip(axes, QUERIES, strict=False):
            for name, color in zip(MECHANISMS, (COLORS[2], COLORS[1], COLORS[0]), strict=True):
                mine = [r for r in here if (r["queries"], r["mechanism"]) == (queries, name)]
                x = [r["epsilon"] for r in mine]
                panel.plot(x, [r["exact"] for r in mine], color=color, label=name)
                bars = [2 * r["standard_error"] for r in mine]
                simulated = [r["simulated"] for r in mine]
                panel.errorbar(x, simulated, bars, fmt="o", markersize=3, color=color)
            panel.plot(x, [r["theorem2"] for r in mine], "--", color=GREY, label="Theorem 2")
            panel.set_yscale("log")
            title = f"D = {attributes}: {queries}, {RESPONDENTS:,} respondents"
            label(panel, title, "epsilon per step", "mean squared error")
        paper = [r for r in here if r["ratios"] and r["mechanism"] == MECHANISMS[0]]
        for row in (r for r in paper if r["epsilon"] in SHADES):
            share = [100 * part for part in row["inside"]]
            color, text = SHADES[row["epsilon"]], f"ε = {row['epsilon']:g}"
            axes[2].plot(share, row["ratios"], "o", markersize=3, color=color, label=text)
        axes[2].axhline(1, color=GREY, linewidth=0.8)
        label(
            axes[2],
            f"D = {attributes}: each range, {MECHANISMS[0]}",
            "respondents inside the range (%)",
            "exact error / Theorem 3",
        )
    run.save_figure(figure)


def main() -> None:
    run = Run.from_arguments("figure2", __doc__)
    epsilons = [0.5, 1.0, 2.0, 4.0]
    if not run.quick:
        epsilons = sorted({*epsilons, 0.75, 1.25, 1.5, 2.5, 3.0})
    randomness = Randomness.seeded(SEED)
    rows = [
        row
        for attributes in ([3] if run.quick else [5, 6])
        for row in points(attributes, epsilons, 30, randomness)
    ]
    columns = [name for name in rows[0] if name not in ("ratios", "inside")]
    print_table("Mean squared errors", rows, columns)
    draw(run, rows)
    run.save(size=SIZE, respondents=RESPONDENTS, points=rows)


if __name__ == "__main__":
    main()
