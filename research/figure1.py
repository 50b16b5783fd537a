"""Figure 1: total squared error of all frequencies against the number of sensitive values.

The paper's setting is m = 100 values, n = 10,000 respondents spread evenly, epsilon = 1, and the
metric E_S: epsilon between two values of which one is in the sensitive set S, 2 epsilon otherwise.
All curves are exact. Some points are simulated as well, from a survey to its histogram.
"""

from __future__ import annotations

import math

import numpy as np
from common import COLORS, GREY, SEED, Run, label, mean_and_error, new_figure, print_table

from metricldp import Integer, Randomness, SensitiveSet, Survey

EPSILON = 1.0
MECHANISMS = {
    "unary": "unary",
    "matrix": {"name": "matrix", "workload": "values", "strategy": "identity"},
    "clipped": {"name": "matrix", "workload": "values", "strategy": "identity", "reach": 0},
}
SIMULATED = ("unary", "matrix")
CURVES = {
    "laplace": ("matrix, Laplace noise (paper), E_S", COLORS[2], "-"),
    "matrix": ("matrix, E_S", COLORS[0], "-"),
    "clipped": ("matrix clipped to bits, E_S", GREY, "-"),
    "unary": ("unary, E_S", COLORS[1], "-"),
    "histogram": ("histogram encoding (paper), ε-LDP", COLORS[2], "--"),
    "optimised": ("optimised unary encoding, ε-LDP", GREY, "--"),
    "subset": ("subset selection, ε-LDP", COLORS[3], "--"),
}


def sensitive_survey(size: int, sensitive: int, mechanism: str) -> Survey:
    """One attribute under E_S; the first `sensitive` values are in S."""
    metric = SensitiveSet(range(sensitive))
    value = Integer(0, size - 1, epsilon=EPSILON, metric=metric, mechanism=MECHANISMS[mechanism])
    return Survey.design({"value": value})


def total_error(survey: Survey, n: int, size: int) -> float:
    """The expected squared error of all frequencies, added up, for evenly spread respondents."""
    return (
        size
        * survey.expected_error(attribute="value", workload="values", n=n, prior="uniform").stderr
        ** 2
    )


def laplace_error(size: int, sensitive: int, n: int) -> float:
    """Section 3.2 of the paper: Laplace noise whose scales have a closed form under E_S."""
    others = size - sensitive
    ratio = min(1.0, (sensitive / others) ** (1 / 3)) if others else 1.0
    inside, outside = EPSILON * ratio / (1 + ratio), EPSILON / (1 + ratio)
    return n * 2 * (sensitive / inside**2 + others / outside**2)


def plain_errors(size: int, n: int) -> dict[str, float]:
    """Mechanisms under epsilon-LDP, which do not depend on S.

    Histogram encoding and optimised unary encoding (Wang et al. 2017) are as published: their
    decoders do not use the number of respondents.
    """
    growth = math.exp(EPSILON)
    errors = {
        "histogram": n * size * 8 / EPSILON**2,
        "optimised": n * (size * 4 * growth / (growth - 1) ** 2 + 1),
    }
    for name in ("subset", "randomized-response"):
        plain = Integer(0, size - 1, epsilon=EPSILON, within=size - 1, mechanism=name)
        errors[name] = total_error(Survey.design({"value": plain}), n, size)
    return errors


def curves(size: int, n: int) -> list[dict[str, float]]:
    """Exact errors for every number of sensitive values, in respondents squared."""
    plain = plain_errors(size, n)
    return [
        {
            "sensitive": k,
            "laplace": laplace_error(size, k, n),
            **{name: total_error(sensitive_survey(size, k, name), n, size) for name in MECHANISMS},
            **plain,
        }
        for k in range(1, size + 1)
    ]


def simulate(size: int, n: int, shown: list[int], repetitions: int) -> list[dict[str, object]]:
    """The mean total squared error of histograms from simulated reports."""
    randomness = Randomness.seeded(SEED)
    values = np.arange(n) % size
    truth = np.bincount(values, minlength=size)
    rows: list[dict[str, object]] = []
    for mechanism in SIMULATED:
        for k in shown:
            survey = sensitive_survey(size, k, mechanism)
            errors = []
            for _ in range(repetitions):
                tally = survey.tally(survey.randomize({"value": values}, randomness=randomness))
                estimates = tally.histogram("value").values
                errors.append(float(((estimates - truth) ** 2).sum()))
            mean, error = mean_and_error(errors)
            exact = total_error(survey, n, size)
            rows.append(
                {
                    "mechanism": mechanism,
                    "sensitive": k,
                    "exact": exact,
                    "simulated": mean,
                    "standard_error": error,
                    "deviation": (mean - exact) / error,
                }
            )
    return rows


def main() -> None:
    run = Run.from_arguments("figure1", __doc__)
    size, n = (20, 2000) if run.quick else (100, 10_000)
    shown = [1, 2, 8, 10, 20] if run.quick else [1, 10, 40, 50, 100]
    exact = curves(size, n)
    simulated = simulate(size, n, shown, repetitions=60 if run.quick else 100)
    print(f"{size} values, {n:,} respondents, epsilon = {EPSILON:g}")
    print_table("Total squared error, respondents squared", [exact[k - 1] for k in shown])
    print_table("Simulation", simulated)
    figure, ((axes,),) = new_figure(1, 1, 8.0, 4.6)
    for name, (text, color, style) in CURVES.items():
        errors = [row[name] / 1e6 for row in exact]
        axes.plot([row["sensitive"] for row in exact], errors, style, color=color, label=text)
    for name in SIMULATED:
        rows = [row for row in simulated if row["mechanism"] == name]
        axes.errorbar(
            [row["sensitive"] for row in rows],
            [row["simulated"] / 1e6 for row in rows],
            [2 * row["standard_error"] / 1e6 for row in rows],
            fmt="o",
            markersize=3.5,
            color=CURVES[name][1],
        )
    axes.set_ylim(bottom=0)
    title = f"{size} values, {n:,} respondents, ε = {EPSILON:g}; points: simulation ± 2 SE"
    label(axes, title, "sensitive values", "total squared error (millions)")
    run.save_figure(figure)
    run.save(size=size, respondents=n, epsilon=EPSILON, curves=exact, simulated=simulated)


if __name__ == "__main__":
    main()
