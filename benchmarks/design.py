"""Designing surveys: time, size of the survey file and of a report, and the error that results.

Each row runs in a process of its own, so that its time and memory are its own. The error is the
root mean squared error of one respondent over the workload, for evenly spread respondents.
"""

import multiprocessing
import time

import measure
from metricldp import Integer, Matrix, SensitiveSet, Survey, SurveySpec

SETTINGS = {
    "0.5 per step": lambda size, plan: Integer(0, size - 1, epsilon=0.5, mechanism=plan, per=1),
    "1 within 5": lambda size, plan: Integer(0, size - 1, epsilon=1, within=5, mechanism=plan),
    "1 within 5, at most 3": lambda size, plan: Integer(
        0, size - 1, epsilon=1, within=5, max_epsilon=3, mechanism=plan
    ),
    "1 for all pairs": lambda size, plan: Integer(
        0, size - 1, epsilon=1, within=size - 1, mechanism=plan
    ),
    "0.5 per step, cyclic": lambda size, plan: Integer(
        0, size - 1, epsilon=0.5, mechanism=plan, per=1, cyclic=True
    ),
    "1, a tenth sensitive": lambda size, plan: Integer(
        0,
        size - 1,
        epsilon=1,
        metric=SensitiveSet(range(max(1, size // 10))),
        mechanism=plan,
    ),
}
"""Attributes by metric, with the mechanism as an argument."""


def jobs(small: bool) -> list[tuple[str, int, str, str]]:
    """Metric, values, mechanism and workload of single attributes."""
    found = [
        (metric, size, "auto", workload)
        for metric in list(SETTINGS)[:5]
        for size in ([8] if small else [16, 64, 256])
        for workload in ("ranges", "values")
    ]
    found += [
        ("1 within 5", size, "additive", "ranges") for size in ([16] if small else [100, 1000])
    ]
    sizes = [10] if small else [100, 500]
    for metric in ("0.5 per step", "1, a tenth sensitive", "1 for all pairs"):
        found += [(metric, size, "matrix", "ranges") for size in sizes if size * len(metric) < 9000]
    return found


def design(metric: str, size: int, mechanism: str, workload: str) -> dict[str, object]:
    plan = Matrix(workload=workload) if mechanism == "matrix" else {"name": mechanism}
    if mechanism != "matrix":
        plan["workload"] = workload
    attribute = SETTINGS[metric](size, plan)
    processor = time.process_time()
    survey = Survey.design({"x": attribute})
    spent = time.process_time() - processor
    return {
        "metric": metric,
        "values": size,
        "workload": workload,
        "mechanism": survey.mechanisms["x"].name,
        "processor s": spent,
        "file bytes": len(survey.to_toml()),
        "report bytes": len(survey.report({"x": 0})),
        "error": survey.expected_error(
            attribute="x", workload=workload, prior="uniform", n=1
        ).stderr,
        "peak MB": measure.peak_megabytes(),
    }


def block(size: int, attributes: int, epsilon: float) -> dict[str, object]:
    names = tuple("xyz"[:attributes])
    sides = dict.fromkeys(names, Integer(0, size - 1, epsilon=epsilon, per=1))
    processor = time.process_time()
    survey = Survey.design(SurveySpec(sides, joint=[list(names)]))
    spent = time.process_time() - processor
    return {
        "metric": f"{epsilon:g} per step, {attributes} attributes together",
        "values": size,
        "workload": "ranges of all",
        "mechanism": survey.blocks["+".join(names)].mechanism.name,
        "processor s": spent,
        "file bytes": len(survey.to_toml()),
        "report bytes": len(survey.report(dict.fromkeys(names, 0))),
        "error": survey.expected_error(
            dict.fromkeys(names, (size // 4, 3 * size // 4)), prior="uniform", n=1
        ).stderr,
        "peak MB": measure.peak_megabytes(),
    }


def main() -> None:
    small = measure.arguments(__doc__).small
    blocks = [(6, 2, 0.2)] if small else [(32, 2, 0.2), (100, 2, 0.2), (16, 3, 0.2)]
    work = [(design, job) for job in jobs(small)] + [(block, job) for job in blocks]
    rows = []
    for function, job in work:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            rows.append(pool.apply(function, job))
            print(f"{rows[-1]['metric']}, {rows[-1]['values']} values", flush=True)
    measure.table(rows, list(rows[0]), "design")


if __name__ == "__main__":
    main()
