"""From sums over people to answers: values, variances, and ratios with honest intervals.

The variance of an answer is a sum over people as well, because what a person at x adds to it,
prod E[F_d^2 | x_d] - prod f_d(x_d)^2, is itself a function of their values and can be decoded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from metricldp.answers.answer import Estimate, barely
from metricldp.answers.predict import Pairs, variance_bounds
from metricldp.answers.ratio import Ratio
from metricldp.basics.errors import QueryError
from metricldp.basics.text import shown
from metricldp.mechanisms import Floats
from metricldp.store.base import Sums
from metricldp.store.extremes import Extremes
from metricldp.store.readings import Readings

RESPONDENTS, POPULATION = "respondents", "population"
Bounds = tuple[float, float]
"""The least and the most that one person adds to the variance of a query."""
UNSEEN = 3
"""So many people may add nothing to an estimated variance by chance: the rule of three."""


def to_answer(
    value: float,
    second: float,
    square: float,
    bounds: Bounds,
    steps: Extremes,
    n: int,
    asked: tuple[str, tuple[str, ...]],
    *,
    target: str = RESPONDENTS,
    layout: str = "",
) -> Estimate:
    """Sums of f, E[F^2] and f^2 as a value with its variance.

    Of the respondents: second - square, the noise of blurring these very people. Of a population
    that n people were drawn from at random: n times the variance of one draw, unbiased as well.
    What is asked comes as words and notes.
    """
    check_about(target)
    variance = second - square
    least, most = kept_between(bounds, n)
    jump, hidden, one = steps.jump, steps.hidden, bounds[1]
    if target == POPULATION and most > 0:
        # Drawing people adds to the noise of blurring them, so its least possible value stays.
        variance, most = drawn(value, second, n), math.inf
        jump, hidden = with_draws(steps)
        one += draw(steps)
    kept, (words, notes) = (least, most), asked
    found = Estimate(value, variance, words, "people", target, notes, kept, jump, hidden, layout)
    return replace(found, reports=n, one=one)


def to_answers(
    sums: Sums,
    bounds: tuple[Floats, Floats],
    extremes: Extremes,
    n: int,
    asked: Sequence[tuple[str, tuple[str, ...]]],
    *,
    target: str = RESPONDENTS,
    layout: str = "",
) -> list[Estimate]:
    """The same for many queries, with arrays of sums and of bounds."""
    columns = (sums["value"], sums["second"], sums["square"], *bounds)
    steps = (Extremes(*row) for row in zip(*(part.tolist() for part in extremes), strict=True))
    rows = zip(*(column.tolist() for column in columns), steps, asked, strict=True)
    return [
        to_answer(
            value, second, square, (least, most), step, n, words, target=target, layout=layout
        )
        for value, second, square, least, most, step, words in rows
    ]


def check_about(target: object, n: int | None = None) -> None:
    """Refuse what an answer cannot be about; of ratios, n tells how many people it is from."""
    if not isinstance(target, str) or target not in (RESPONDENTS, POPULATION):
        known = f"{RESPONDENTS!r} or the {POPULATION!r}"
        raise QueryError(f"target is {known}, not {shown(target)}")
    if target == POPULATION and n == 1:
        raise QueryError("one report is not enough to estimate a population; use more")


def drawn(value: float, second: float, n: int, other: float | None = None) -> float:
    """The variance of a sum over n people drawn at random, from its value and E[F^2] summed.

    Or its covariance with another sum, from both values and E[F G] summed.
    """
    return (
        (second - value * (value if other is None else other) / n) * n / (n - 1)
        if n > 1
        else math.inf
    )


def with_draws(steps: Extremes) -> tuple[float, float]:
    """The largest jump and the largest step of a variance where people are drawn as well."""
    return max(steps.jump, steps.width), max(steps.hidden, steps.width**2)


def draw(steps: Extremes) -> float:
    """The most that drawing one person at random adds to a variance."""
    width: float = steps.width
    return width**2 / 4


def kept_between(bounds: Bounds, n: float, unseen: float | None = None) -> Bounds:
    """The least and the most that a standard error's square is taken to be.

    A few people near a cut can go unseen by chance, so it is never less than what so many at the
    worst place would add. With weights, n and `unseen` are sums of their squares.
    """
    least, most = bounds
    unseen = min(n, UNSEEN) if unseen is None else unseen
    return max(n * least, unseen * most), n * most


def one_person(pairs: Pairs) -> Bounds:
    """The bounds of the only query that there is."""
    least, most = variance_bounds(pairs)
    return float(least[0]), float(most[0])


def to_weighted_sum(
    sums: Sums,
    kept: Bounds,
    steps: Extremes,
    n: int,
    asked: tuple[str, tuple[str, ...]],
    *,
    unit: str,
    one: float,
    target: str = RESPONDENTS,
    layout: str = "",
) -> Estimate:
    """Sums of f w, E[F^2] w^2 and f^2 w^2 as a sum of weights w.

    Of a population, weights are drawn with the people, so that even everybody's sum is uncertain.
    `one` is what a person adds to the variance, by the survey alone.
    """
    value, second, square = (float(sums[row][0]) for row in ("value", "second", "square"))
    variance = second - square
    jump, hidden = steps.jump, steps.hidden
    if target == POPULATION and n:
        variance, kept = drawn(value, second, n), (kept[0], math.inf)
        jump, hidden = with_draws(steps)
    words, notes = asked
    found = Estimate(value, variance, words, unit, target, notes, kept, jump, hidden, layout)
    return replace(found, reports=n, one=one)


def with_private_squares(sums: Sums, ends: Floats) -> Sums:
    """The sums of `readings.read_weighted` with a `square` that stands for sum f^2 w^2.

    Rounded weights cannot tell that. In its place stands the tangent 2 c w - c^2 <= w^2 at the
    middle c of the weight's interval: the variance is too large by the sum of (w - c)^2 over the
    group on average, and never too small.
    """
    c = float(ends.mean())
    return {**sums, "square": 2 * c * sums["square_weight"] - c**2 * sums["square"]}


def private_bounds(readings: Readings, n: int, name: str, ends: Floats) -> tuple[Bounds, float]:
    """What one person adds is concave in the weight, so it is smallest with a weight at an end.

    Also the most that one adds there.
    """
    at_ends = [
        (second, np.square(ends)[None] if part == name else square)
        for part, (second, square) in zip(readings.names, readings.pairs(), strict=True)
    ]
    bounds = one_person(at_ends)
    return (kept_between(bounds, n)[0], math.inf), bounds[1]


def with_steps(ratio: Ratio, steps: Extremes) -> Ratio:
    """The same mean, given the extremes of what each value is above it."""
    jump, hidden = with_draws(steps) if ratio.target == POPULATION else steps[2:]
    size = abs(ratio.denominator) or 1.0
    return replace(ratio, jump=jump / size, hidden=hidden / size**2)


def mean_of(
    numerator: float,
    denominator: float,
    spreads: tuple[float, float, float],
    possible: Bounds,
    centre: float = 0.0,
) -> tuple[float, float, str]:
    """A mean, its variance, and what to say where the count may be nobody.

    `numerator` is the sum of the values less `centre`. `spreads` are the variances of this sum and
    of the count, and their covariance.
    """
    sums, counts, shared = spreads
    error, (low, high) = math.sqrt(counts), possible
    if denominator > 2 * error:
        above = numerator / denominator
        spread = sums - 2 * above * shared + above**2 * counts
        return centre + above, max(spread, 0.0) / denominator**2, ""
    mean = centre + numerator / denominator if denominator > 0 else (low + high) / 2
    return min(max(mean, low), high), math.inf, barely(denominator, error)


def to_ratio(
    sums: Sums,
    readings: Readings,
    n: int,
    *,
    question: str,
    unit: str,
    possible: tuple[float, float],
    centre: float,
    target: str = RESPONDENTS,
    notes: tuple[str, ...] = (),
    layout: str = "",
) -> Ratio:
    """The sums of `readings.read_pair` as the mean centre + f / g with its interval.

    The variance of values that are large beside their spread would be lost to rounding. So f is of
    the values less a centre, which is near to them.

    Of a population both sums are of people drawn at random, and so is their covariance. Of a group
    that is not clearly above zero, it is what is possible that comes next to f / g.
    """
    check_about(target, n)
    if not n:
        raise QueryError("there are no reports, so there is no mean")
    found = {row: float(column[0]) for row, column in sums.items()}
    numerator, denominator = found["numerator"], found["denominator"]
    shared = found["both"] - found["product"]
    if target == POPULATION:
        shared = drawn(numerator, found["both"], n, denominator)

    def variance_of(part: str) -> tuple[float, float]:
        pairs = readings.pairs(f"{part}_second", f"{part}_square")
        bounds = one_person(pairs)
        least, most = kept_between(bounds, n)
        variance = found[f"{part}_second"] - found[f"{part}_square"]
        if target == POPULATION and most > 0:
            variance = drawn(found[part], found[f"{part}_second"], n)
        return max(variance, least), bounds[1]

    (numerator_variance, one), (denominator_variance, other) = map(
        variance_of, ("numerator", "denominator")
    )
    most = math.sqrt(numerator_variance * denominator_variance)
    covariance = min(max(shared, -most), most)
    spreads = numerator_variance, denominator_variance, covariance
    mean, variance, note = mean_of(numerator, denominator, spreads, possible, centre)
    notes = (*notes, note) if note else notes
    return Ratio(
        mean,
        variance,
        question,
        unit,
        target,
        notes,
        layout=layout,
        denominator=denominator,
        numerator_variance=numerator_variance,
        denominator_variance=denominator_variance,
        shared=covariance,
        possible=possible,
        numerator=numerator,
        centre=centre,
        reports=n,
        ones=(one, other),
    )
