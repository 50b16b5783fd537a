"""From sums over people to answers: values, variances, and ratios with honest intervals.

The variance of an answer is a sum over people as well, because what a person at x adds to it,
prod E[F_d^2 | x_d] - prod f_d(x_d)^2, is itself a function of her values and can be decoded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from metricldp.answers import Answer, Ratio
from metricldp.channels import Floats
from metricldp.error import variance_bounds
from metricldp.errors import QueryError
from metricldp.readings import Reading

RESPONDENTS, POPULATION = "respondents", "population"
UNSEEN = 3
"""So many people may add nothing to an estimated variance by chance: the rule of three."""


def to_answers(
    sums: Floats,
    readings: list[Reading],
    n: int,
    queries: Sequence[tuple[str, tuple[str, ...]]],
    *,
    about: str = RESPONDENTS,
    layout: str = "",
) -> list[Answer]:
    """The three blocks of sums of `readings.read` as values with their variances.

    Of the respondents: second - square, the noise of blurring these very people. Of a population
    that n people were drawn from at random: n times the variance of one draw, unbiased as well.
    Each query comes as its words and notes.
    """
    if about not in (RESPONDENTS, POPULATION):
        raise QueryError(f"an answer is about {RESPONDENTS!r} or the {POPULATION!r}, not {about!r}")
    values, seconds, squares = sums.reshape(3, -1)
    low, high = kept_between(readings, n)
    variances = seconds - squares
    if about == POPULATION:
        # Drawing people adds to the noise of blurring them, so its least possible value stays.
        variances = (seconds - values**2 / n) * n / (n - 1) if n > 1 else np.full_like(low, np.inf)
        high = np.full_like(low, np.inf if readings else 0.0)  # everybody is everybody
    numbers = zip(
        values.tolist(),
        variances.tolist(),
        zip(low.tolist(), high.tolist(), strict=True),
        strict=True,
    )
    return [
        Answer(value, variance, words, "people", about, notes, bounds, layout)
        for (value, variance, bounds), (words, notes) in zip(numbers, queries, strict=True)
    ]


def kept_between(
    readings: list[Reading], n: float, unseen: float | None = None
) -> tuple[Floats, Floats]:
    """The least and the most that a standard error's square is taken to be, for each query.

    A few people near a cut can go unseen by chance, so it is never less than what so many at the
    worst place would add. With weights, n and `unseen` are sums of their squares.
    """
    least, most = variance_bounds(readings)
    unseen = min(n, UNSEEN) if unseen is None else unseen
    return np.maximum(n * least, unseen * most), n * most


def to_private_sum(
    sums: Floats, readings: list[Reading], n: int, name: str, ends: Floats, *, question: str
) -> Answer:
    """The four sums of `readings.read_weighted` as a sum of private weights.

    The exact variance subtracts sum f^2 w^2, which rounded weights cannot tell. In its place
    stands the tangent 2 c w - c^2 <= w^2 at the middle c of the weight's interval: the variance is
    too large by the sum of (w - c)^2 over the group on average, and never too small.
    """
    value, second, linear, group = (float(number) for number in sums)
    c = float(ends.mean())
    variance = second - (2 * c * linear - c**2 * group)
    # What one person adds is concave in her weight, so it is smallest with a weight at an end.
    at_ends = [
        replace(
            r, functions=np.stack([*r.functions[:2], ends**2 if r.name == name else r.functions[2]])
        )
        for r in readings
    ]
    bounds = (float(kept_between(at_ends, n)[0][0]), math.inf)
    return Answer(value, variance, question, unit=name, bounds=bounds, layout="reports")


def to_ratio(
    sums: Floats,
    readings: list[Reading],
    n: int,
    *,
    question: str,
    unit: str,
    notes: tuple[str, ...] = (),
    layout: str = "",
) -> Ratio:
    """The eight sums of `readings.read_pair` as the mean f / g with its interval."""
    above, above_second, above_square, below, below_second, below_square, both, product = (
        float(number) for number in sums
    )
    added, counted = (
        [replace(r, functions=r.functions[start : start + 3]) for r in readings] for start in (0, 3)
    )
    above_variance = max(above_second - above_square, float(kept_between(added, n)[0][0]))
    below_variance = max(below_second - below_square, float(kept_between(counted, n)[0][0]))
    most = math.sqrt(above_variance * below_variance)
    covariance = min(max(both - product, -most), most)
    if below <= 2 * math.sqrt(below_variance) or below <= 0:
        raise QueryError(
            f"the mean of {question} has no answer: the group is estimated at {below:,.0f} ± "
            f"{math.sqrt(below_variance):,.0f} people, not clearly above zero; ask for a larger one"
        )
    mean = above / below
    variance = above_variance - 2 * mean * covariance + mean**2 * below_variance
    return Ratio(
        mean,
        variance / below**2,
        question,
        unit=unit,
        notes=notes,
        layout=layout,
        below=below,
        above_variance=above_variance,
        below_variance=below_variance,
        covariance=covariance,
    )
