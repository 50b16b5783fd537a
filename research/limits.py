"""How near mechanisms are to the smallest error that any mechanism can have under a metric.

For each metric and workload: the root mean squared error for one respondent, spread evenly, of the
mechanism that `auto` chooses, of the best published mechanism with the same guarantee, and the
limit that no unbiased mechanism is below.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from common import COLORS, GREY, Run, label, new_figure, print_table

from metricldp import Integer, InvalidSpecError, Survey
from metricldp.lab.limits import nearness

WORKLOADS = ("ranges", "values")
PUBLISHED = (
    *(
        "geometric",
        "threshold",
        "randomized-response",
        "subset",
        "unary-optimised",
        "local-hashing",
    ),
    *("hadamard", "haar", "hierarchy-4", "hierarchy-4-unary"),
)


def metrics(size: int) -> dict[str, Callable[..., Any]]:
    """Attributes of one size under several metrics; call them with a mechanism."""
    ends = 0, size - 1
    return {
        "0.5 per step": lambda **more: Integer(*ends, epsilon=0.5, per=1, **more),
        "1 within 5": lambda **more: Integer(*ends, epsilon=1, within=5, **more),
        "1 within 5, at most 3": lambda **more: Integer(
            *ends, epsilon=1, within=5, max_epsilon=3, **more
        ),
        "1 for all pairs": lambda **more: Integer(*ends, epsilon=1, within=size - 1, **more),
        "0.5 per step, cyclic": lambda **more: Integer(
            *ends, epsilon=0.5, per=1, cyclic=True, **more
        ),
    }


def published_errors(attribute: Callable[..., Any], workload: str) -> dict[str, float]:
    """Errors of all published mechanisms that can serve the attribute."""
    errors = {}
    for name in PUBLISHED:
        with contextlib.suppress(InvalidSpecError):
            survey = Survey.design({"x": attribute(mechanism=name)})
            errors[name] = survey.expected_error(
                attribute="x", workload=workload, prior="uniform", n=1
            ).stderr
    return errors


def row(metric: str, attribute: Callable[..., Any], size: int, workload: str) -> dict[str, Any]:
    survey = Survey.design({"x": attribute(mechanism={"name": "auto", "workload": workload})})
    near = nearness(survey, "x", workload=workload, prior=[1 / size] * size, n=1)
    published = published_errors(attribute, workload)
    best = min(published, key=published.__getitem__)
    return {
        "metric": metric,
        "values": size,
        "workload": workload,
        "mechanism": near.mechanism,
        "error": near.error,
        "limit": near.limit,
        "ratio": near.error / near.limit,
        "limit_attained": near.exact,
        "published": best,
        "published_error": published[best],
        "published_ratio": published[best] / near.limit,
    }


def main() -> None:
    run = Run.from_arguments("limits", __doc__)
    rows = [
        row(metric, attribute, size, workload)
        for size in ([8] if run.quick else [8, 16, 32])
        for metric, attribute in metrics(size).items()
        for workload in WORKLOADS
    ]
    print_table("Root mean squared error, one respondent", rows)
    figure, ((axes,),) = new_figure(1, 1, 8.0, 1.2 + 0.22 * len(rows))
    y = np.arange(len(rows))[::-1]
    names = [f"{r['metric']}, {r['values']} values, {r['workload']}" for r in rows]
    axes.plot([r["ratio"] for r in rows], y, "o", color=COLORS[0], label="auto")
    published = [r["published_ratio"] for r in rows]
    axes.plot(published, y, "o", color=GREY, label="best published mechanism")
    axes.axvline(1, color=COLORS[2], linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(y, names, fontsize=7)
    label(axes, "Error relative to the proved limit", "error / limit", "")
    run.save_figure(figure)
    run.save(rows=rows)


if __name__ == "__main__":
    main()
