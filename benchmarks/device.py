"""One report on a device: how long `survey.report(person)` takes, without any batch."""

import numpy as np

from measure import Figure, quick, save, show, survey_of, timed

MECHANISMS = ("threshold", "geometric", "response")


def main() -> None:
    calls = 1_000 if quick() else 10_000
    rng = np.random.default_rng(5)
    values = rng.integers(0, 256, calls).tolist()
    surveys = {mechanism: survey_of(mechanism, ["a"]) for mechanism in MECHANISMS}
    for survey in surveys.values():
        survey.report({"a": 1})
    seconds = {mechanism: [] for mechanism in MECHANISMS}
    for value in values:
        for mechanism, survey in surveys.items():
            person = {"a": value}
            took = timed(lambda survey=survey, person=person: survey.report(person))
            seconds[mechanism].append(took)
    figures = [
        Figure(
            f"one report, {mechanism}",
            f"90th percentile {1e6 * np.percentile(found, 90):.0f} us",
            "median",
            1e6 * float(np.median(found)),
            "us",
            100,
        )
        for mechanism, found in seconds.items()
    ]
    show(f"A report on a device, 256 values, {calls:,} calls each by turns", figures)
    save("device", figures, calls=calls)


if __name__ == "__main__":
    main()
