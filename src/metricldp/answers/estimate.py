"""From sums over people to answers: values, variances, and ratios with honest intervals.

The variance of an answer is a sum over people as well, because what a person at x adds to it,
prod E[F_d^2 | x_d] - prod f_d(x_d)^2, is itself a function of her values and can be decoded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from metricldp.answers.answer import Answer, Ratio
from metricldp.answers.predict import variance_bounds
from metricldp.basics.errors import QueryError
from metricldp.channels import Floats
from metricldp.store.readings import Reading

RESPONDENTS, POPULATION = "respondents", "population"
Bounds = tuple[float, float]
"""The least and the most that one person adds to the variance of a query."""
UNSEEN = 3
"""So many people may add nothing to an estimated variance by chance: the rule of three."""


def to_answer(
    sums: tuple[float, float, float],
    bounds: Bounds,
    n: int,
    asked: tuple[str, tuple[str, ...]],
    *,
    about: str = RESPONDENTS,
    layout: str = "",
) -> Answer:
    """Sums of f, E[F^2] and f^2 as a value with its variance.

    Of the respondents: second - square, the noise of blurring these very people. Of a population
    that n people were drawn from at random: n times the variance of one draw, unbiased as well.
    What is asked comes as words and notes.
    """
    if about not in (RESPONDENTS, POPULATION):
        raise QueryError(f"an answer is about {RESPONDENTS!r} or the {POPULATION!r}, not {about!r}")
    value, second, square = sums
    variance = second - square
    least, most = kept_between(bounds, n)
    if about == POPULATION and most > 0:
        # Drawing people adds to the noise of blurring them, so its least possible value stays.
        variance = (second - value**2 / n) * n / (n - 1) if n > 1 else math.inf
        most = math.inf
    return Answer(value, variance, asked[0], "people", about, asked[1], (least, most), layout)


def to_answers(
    sums: Floats,
    bounds: tuple[Floats, Floats],
    n: int,
    asked: Sequence[tuple[str, tuple[str, ...]]],
    *,
    about: str = RESPONDENTS,
    layout: str = "",
) -> list[Answer]:
    """The same for many queries, a column of sums and of bounds for each."""
    columns = zip(sums.T.tolist(), np.transpose(bounds).tolist(), asked, strict=True)
    return [to_answer(s, b, n, words, about=about, layout=layout) for s, b, words in columns]


def kept_between(bounds: Bounds, n: float, unseen: float | None = None) -> Bounds:
    """The least and the most that a standard error's square is taken to be.

    A few people near a cut can go unseen by chance, so it is never less than what so many at the
    worst place would add. With weights, n and `unseen` are sums of their squares.
    """
    least, most = bounds
    unseen = min(n, UNSEEN) if unseen is None else unseen
    return max(n * least, unseen * most), n * most


def one_person(readings: list[Reading]) -> Bounds:
    """The bounds of the only query that the readings hold."""
    least, most = variance_bounds(readings)
    return float(least[0]), float(most[0])


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
    bounds = (kept_between(one_person(at_ends), n)[0], math.inf)
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
    above_variance = max(above_second - above_square, kept_between(one_person(added), n)[0])
    below_variance = max(below_second - below_square, kept_between(one_person(counted), n)[0])
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
