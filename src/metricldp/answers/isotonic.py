"""Isotonic regression: the nondecreasing sequence nearest to given values, weighted squares."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def isotonic(values: Floats, weights: Floats) -> Floats:
    """Pool adjacent violators: neighbours in the wrong order share their mean, again and again."""
    means: list[float] = []
    masses: list[float] = []
    counts: list[int] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, mass, count = value, weight, 1
        while means and means[-1] >= mean:
            before = masses.pop()
            mean = (before * means.pop() + mass * mean) / (before + mass)
            mass += before
            count += counts.pop()
        means.append(mean)
        masses.append(mass)
        counts.append(count)
    return np.repeat(np.asarray(means, dtype=np.float64), counts)
