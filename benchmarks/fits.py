"""Fitted distributions against unbiased estimates: squared errors over ranges, time and memory.

The ratio is the mean squared error of fitted counts over the exact one of unbiased counts, for 100
random boxes. Populations: three hills, half of the respondents at twelve points, even, a ring.
"""

import time
import warnings

import numpy as np

import measure
from metricldp import Integer, Randomness, SeededRandomnessWarning, Survey

BOXES = 100


def hills(rng: np.random.Generator, n: int, dimensions: int) -> np.ndarray:
    """Three hills in a row, of different weights, that tie the attributes together."""
    centres = np.array([[0.25, 0.3, 0.4], [0.5, 0.6, 0.35], [0.75, 0.8, 0.7]])[:, :dimensions]
    which = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    return centres[which] + 0.08 * (1 + which[:, None] / 2) * rng.normal(size=(n, dimensions))


def points(rng: np.random.Generator, n: int, dimensions: int) -> np.ndarray:
    """Half of the respondents at twelve points, the others on hills."""
    places = np.random.default_rng(7).random((12, dimensions))
    drawn = hills(rng, n, dimensions)
    there = rng.random(n) < 0.5
    drawn[there] = places[rng.integers(0, 12, there.sum())]
    return drawn


def even(rng: np.random.Generator, n: int, dimensions: int) -> np.ndarray:
    return rng.random((n, dimensions))


def ring(rng: np.random.Generator, n: int, dimensions: int) -> np.ndarray:
    angles = rng.uniform(0, 2 * np.pi, n)
    circle = np.stack([np.cos(angles), np.sin(angles), np.cos(angles)], axis=1)[:, :dimensions]
    return 0.5 + (0.35 + 0.04 * rng.normal(size=(n, 1))) * circle


POPULATIONS = {"hills": hills, "points": points, "even": even, "ring": ring}


def survey_of(sizes: tuple[int, ...], epsilon: float, mechanism: str) -> Survey:
    return Survey.design(
        {
            f"x{d}": Integer(0, size - 1, epsilon=epsilon, mechanism=mechanism, per=1)
            for d, size in enumerate(sizes)
        }
    )


def positions(population: str, sizes: tuple[int, ...], n: int, seed: int) -> np.ndarray:
    """Respondents as positions, (respondents, attributes)."""
    drawn = POPULATIONS[population](np.random.default_rng(seed), n, len(sizes))
    return np.clip((drawn * sizes).astype(int), 0, np.array(sizes) - 1)


def ratio(population: str, sizes: tuple[int, ...], epsilon: float, n: int, mechanism: str) -> dict:
    survey = survey_of(sizes, epsilon, mechanism)
    values = positions(population, sizes, n, seed=1)
    shares = np.histogramdd(values, bins=[np.arange(size + 1) for size in sizes])[0] / n
    rng = np.random.default_rng(2)
    columns = dict(zip(survey.attributes, values.T, strict=True))
    reports = survey.randomize(columns, randomness=Randomness.seeded(1))
    started = time.process_time()
    fit = survey.tally(reports).fit_distribution(list(survey.attributes))
    seconds = time.process_time() - started
    unbiased, fitted = [], []
    for _ in range(BOXES):
        # Ranges never contain a whole domain, so that the prior has an axis for every attribute.
        ends = [tuple(np.sort(rng.integers(1, size, 2)).tolist()) for size in sizes]
        inside = tuple(slice(a, b + 1) for a, b in ends)
        where = dict(zip(survey.attributes, ends, strict=True))
        unbiased.append(survey.expected_error(where, n=n, prior=shares).stderr ** 2)
        fitted.append((n * float(fit.shares[inside].sum() - shares[inside].sum())) ** 2)
    return {
        "population": population,
        "mechanism": mechanism,
        "values": " x ".join(map(str, sizes)),
        "respondents": n,
        "epsilon": epsilon,
        "error ratio": float(np.mean(fitted) / np.mean(unbiased)),
        "processor s": seconds,
        "peak MB": measure.peak_megabytes(),
    }


def main() -> None:
    small = measure.arguments(__doc__).small
    warnings.simplefilter("ignore", SeededRandomnessWarning)
    if small:
        jobs = [("hills", (16,), 0.5, 2000, "geometric"), ("ring", (8, 8), 0.5, 2000, "geometric")]
    else:
        jobs = [
            (population, sizes, epsilon, n, "geometric")
            for sizes, n in (((100,), 100_000), ((64, 64), 100_000), ((32, 32, 32), 20_000))
            for population in POPULATIONS
            for epsilon in (0.1, 0.5)
        ]
        jobs += [("hills", (24, 24), epsilon, 20_000, "threshold") for epsilon in (0.1, 0.5)]
        jobs += [("hills", (256, 256), 0.2, 1_000_000, "geometric")]
    rows = [ratio(*job) for job in jobs]
    measure.table(rows, list(rows[0]), "fits")


if __name__ == "__main__":
    main()
