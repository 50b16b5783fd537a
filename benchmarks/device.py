"""One report on a device: how long `survey.report(respondent)` takes."""

import time

import numpy as np

import measure

MECHANISMS = ("threshold", "geometric", "randomized-response", "additive")


def main() -> None:
    small = measure.arguments(__doc__).small
    calls = 500 if small else 10_000
    values = np.random.default_rng(5).integers(0, 256, calls).tolist()
    surveys = {mechanism: measure.survey_of(mechanism, ["a"]) for mechanism in MECHANISMS}
    seconds: dict[str, list[float]] = {mechanism: [] for mechanism in MECHANISMS}
    for survey in surveys.values():
        survey.report({"a": 1})
    for value in values:
        for mechanism, survey in surveys.items():
            started = time.perf_counter()
            survey.report({"a": value})
            seconds[mechanism].append(time.perf_counter() - started)
    rows = [
        {
            "mechanism": mechanism,
            "bytes": len(surveys[mechanism].report({"a": 1})),
            "median us": 1e6 * float(np.median(taken)),
            "90% us": 1e6 * float(np.percentile(taken, 90)),
        }
        for mechanism, taken in seconds.items()
    ]
    measure.table(rows, list(rows[0]), "device")


if __name__ == "__main__":
    main()
