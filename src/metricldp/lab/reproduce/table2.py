"""Table 2: errors of ranges and quantiles against m, D, epsilon, and an equal meaning of epsilon.

The paper's table states orders. Here every mechanism that there is runs on the same people with the
same questions; its errors are exact, and simulation checks them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.attributes.base import Attribute
from metricldp.attributes.integer import Integer
from metricldp.channels import Floats
from metricldp.channels.mechanism import ANY_TWO, PER_STEP
from metricldp.coins.stream import Coins
from metricldp.lab.contest import (
    WITHIN,
    Contender,
    Entry,
    as_meant,
    entries,
    in_table_2,
    surprise,
)
from metricldp.lab.crowd import Crowd, Questions, seeded
from metricldp.lab.pages import Progress, silent

FALSE_ALARM = 1e-6
"""How often the check of a whole run would fail by chance, if all errors were as stated.

Each comparison has the exact chi-squared tail of its worst question (see `contest.surprise`), and
the limit is shared out over all comparisons. The seed is fixed, and was before the first run.
"""
FINE = 64
"""m from which on the growth of quantile errors is fitted."""
FEWEST = 4
"""Sizes from which on an exponent has an interval."""


@dataclass(frozen=True)
class Setting:
    """What is computed, and what is simulated."""

    people: int = 5000
    sizes: tuple[int, ...] = tuple(1 << k for k in range(4, 13))
    """m, for one attribute."""
    sizes_of_two: tuple[int, ...] = tuple(1 << k for k in range(3, 9))
    """m, for two attributes."""
    attributes: tuple[int, ...] = (1, 2, 3, 4)
    modest: int = 16
    """m where the number of attributes changes."""
    epsilon: float = 1.0
    epsilons: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0)
    middle: int = 256
    """m where epsilon changes."""
    meanings: tuple[tuple[int, int, tuple[int, ...]], ...] = (
        (1, 16, (1, 2, 4, 8, 15)),
        (1, 256, (1, 2, 4, 8, 16, 32, 64, 128, 255)),
        (2, 16, (1, 2, 4, 8, 15)),
    )
    """Attributes, m and every w where the meaning of epsilon changes."""
    questions: int = 200
    questions_of_many: int = 40
    probabilities: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 0.9)
    quantiles: int = 24
    """Repetitions for the quantile errors, which have no exact form."""
    resamples: int = 200
    """Resamples of people and questions, or of repetitions, for intervals of exponents."""
    checks: tuple[tuple[int, int, float], ...] = (
        (1, 16, 1.0),
        (1, 16, 0.5),
        (1, 64, 1.0),
        (2, 8, 1.0),
    )
    """Attributes, m and epsilon that are simulated to check the exact errors."""
    checked_people: int = 1000
    repetitions: int = 600
    seed: int = 2026


QUICK = Setting(
    people=2000,
    sizes=(16, 32, 64, 128, 256),
    sizes_of_two=(8, 16, 32),
    attributes=(1, 2, 3),
    epsilons=(0.5, 1.0),
    middle=64,
    meanings=((1, 16, (1, 4, 15)), (1, 64, (1, 4, 16, 63)), (2, 16, (1, 4, 15))),
    questions=60,
    questions_of_many=20,
    quantiles=10,
    resamples=100,
    checks=((1, 16, 1.0), (2, 8, 1.0)),
    repetitions=200,
)


@dataclass(frozen=True)
class Point:
    """The errors of one contender at one place."""

    panel: str
    mechanism: str
    title: str
    promise: str
    attributes: int
    size: int
    within: int
    """Values up to so many steps apart get `epsilon`."""
    epsilon: float
    step: float
    """Epsilon that is kept for one step of one attribute."""
    width: float
    """Epsilon that is kept across the whole domain, all attributes together."""
    error: float
    """Exact mean squared error of the ranges over the number of people: people^2 per person."""
    quantile: float | None = None
    """Simulated mean quantile error times the root of the number of people."""
    quantile_error: float | None = None
    """Its standard error."""
    errors: tuple[float, ...] = ()
    """The error of each resample of people and questions, the same ones at every size."""
    quantiles: tuple[float, ...] = ()
    """The quantile error of each resample of repetitions."""


@dataclass(frozen=True)
class Checked:
    """The exact mean squared error of one contender, and a simulation of it; per person."""

    mechanism: str
    title: str
    attributes: int
    size: int
    epsilon: float
    step: float
    width: float
    exact: float
    simulated: float
    standard_error: float
    surprise: float
    """The chance of being so far off in the worst question (see `contest.surprise`)."""


@dataclass(frozen=True)
class Slope:
    """error ~ (log2 m)^exponent: the least squares fit on logarithmic scales.

    The interval holds 95% of the fits to resamples; it tells how far these people and questions, or
    these repetitions, decide the exponent, and not whether there is such a law: see `local`.
    """

    mechanism: str
    title: str
    promise: str
    attributes: int
    what: str
    exponent: float
    low: float | None
    """None where there are too few sizes for an interval."""
    high: float | None
    local: float
    """The exponent between the last two sizes: what a curve that levels off comes to."""


# People, attributes, questions


def attributes_of(
    count: int, size: int, epsilon: float, within: int = 1, promise: str = PER_STEP
) -> dict[str, Attribute]:
    """Epsilon up to `within` steps apart; as epsilon / within per step, or as it is meant."""
    said: dict[str, Any] = {"per" if promise == PER_STEP else "within": within}
    one = Integer(0, size - 1, epsilon=epsilon, **said)
    return {f"v{d + 1}": one for d in range(count)}


def crowd_of(attributes: dict[str, Attribute], people: int, seed: int) -> Crowd:
    """Half of the people evenly spread, half Beta(2, 5); the same places whatever the size."""
    rng = np.random.default_rng([seed, 1])
    positions = {}
    for name, attribute in attributes.items():
        even, hill = rng.random(people), rng.beta(2, 5, people)
        places = np.where(np.arange(people) % 2 == 0, even, hill)
        positions[name] = (places * attribute.size).astype(np.int64)
    return Crowd(attributes, positions)


def questions_of(attributes: dict[str, Attribute], count: int, seed: int) -> Questions:
    """Random ranges that cut every attribute, the same relative to any domain."""
    return Questions.draw(attributes, count, np.random.default_rng([seed, 2]))


# Points

GROWTH = ("m", "m, D = 2")
"""The panels whose exponents are fitted."""


def places(setting: Setting) -> Iterator[tuple[str, int, int, int, float]]:
    """Panel, attributes, m, within and epsilon of everything that is computed."""
    for size in setting.sizes:
        yield "m", 1, size, 1, setting.epsilon
    for size in setting.sizes_of_two:
        yield "m, D = 2", 2, size, 1, setting.epsilon
    for attributes in setting.attributes:
        yield "D", attributes, setting.modest, 1, setting.epsilon
    for epsilon in setting.epsilons:
        yield "epsilon", 1, setting.middle, 1, epsilon
    for attributes, size, withins in setting.meanings:
        for within in withins:
            yield "within", attributes, size, within, setting.epsilon


def points(
    setting: Setting,
    progress: Progress = silent,
    contenders: Sequence[Contender] | None = None,
) -> list[Point]:
    coins, todo = seeded(setting.seed), list(places(setting))
    found: list[Point] = []
    for k, place in enumerate(todo):
        usual = in_table_2()
        usual += as_meant() if place[0] == "within" else ()
        found += _points(setting, *place, coins, contenders or usual)
        progress((k + 1) / len(todo))
    return found


def _points(
    setting: Setting,
    panel: str,
    count: int,
    size: int,
    within: int,
    epsilon: float,
    coins: Coins,
    contenders: Sequence[Contender],
) -> Iterator[Point]:
    usual = attributes_of(count, size, epsilon)
    crowd = crowd_of(usual, setting.people, setting.seed)
    number = setting.questions if count == 1 else setting.questions_of_many
    asked = questions_of(usual, number, setting.seed)
    crowds, chosen = resampled(setting, crowd, number) if panel in GROWTH else ([], [])
    taking_part = [
        entry
        for promise, farthest in {PER_STEP: within, WITHIN: within, ANY_TWO: 1}.items()
        for entry in entries(
            attributes_of(count, size, epsilon, farthest, promise),
            [c for c in contenders if c.promise == promise],
        )
    ]
    for entry in taking_part:
        contender = entry.contender
        quantile = quantile_error = None
        quantiles: tuple[float, ...] = ()
        drawn = panel in ("m", "epsilon") and size <= contender.drawn
        if drawn and not entry.joint:
            errors = entry.quantiles(crowd, setting.probabilities, setting.quantiles, coins)
            means = errors.mean(axis=1) * math.sqrt(crowd.n)
            quantile = float(means.mean())
            quantile_error = float(means.std(ddof=1) / math.sqrt(len(means)))
            quantiles = _of_repetitions(setting, means, size)
        variances = entry.variances_of([crowd, *crowds], asked) / crowd.n
        again = zip(variances[1:], chosen, strict=True)
        yield Point(
            panel=panel,
            mechanism=contender.mechanism,
            title=contender.title,
            promise=contender.promise,
            attributes=count,
            size=size,
            within=within,
            epsilon=epsilon,
            step=entry.step,
            width=entry.width,
            error=float(variances[0].mean()),
            quantile=quantile,
            quantile_error=quantile_error,
            errors=tuple(float(one[rows].mean()) for one, rows in again),
            quantiles=quantiles,
        )


def resampled(
    setting: Setting, crowd: Crowd, questions: int
) -> tuple[list[Crowd], list[npt.NDArray[np.int64]]]:
    """People and questions drawn again with replacement; the same ones whatever the size."""
    rng = np.random.default_rng([setting.seed, 3])
    people = rng.integers(0, crowd.n, (setting.resamples, crowd.n))
    rng = np.random.default_rng([setting.seed, 4])
    chosen = rng.integers(0, questions, (setting.resamples, questions))
    return [crowd.some(rows) for rows in people], list(chosen)


def _of_repetitions(setting: Setting, means: Floats, size: int) -> tuple[float, ...]:
    """Mean errors of repetitions drawn again; those of different sizes are independent."""
    rng = np.random.default_rng([setting.seed, 5, size])
    rows = rng.integers(0, len(means), (setting.resamples, len(means)))
    return tuple(means[rows].mean(axis=1).tolist())


# Slopes


def slopes(found: Sequence[Point]) -> list[Slope]:
    """How errors grow with log m, for one and for two attributes."""
    fitted = []
    for panel, what in (("m", "error"), ("m", "quantile"), ("m, D = 2", "error")):
        here = [p for p in found if p.panel == panel]
        for title in dict.fromkeys(p.title for p in here):
            least = FINE if what == "quantile" else 0
            mine = [p for p in here if p.title == title and p.size >= least and getattr(p, what)]
            if len(mine) > 2:
                fitted.append(_slope(mine, what))
    return fitted


def _slope(mine: Sequence[Point], what: str) -> Slope:
    """The fit to the points of one contender, and to each of their resamples."""
    one, sizes, errors = mine[0], [p.size for p in mine], [getattr(p, what) for p in mine]
    again = np.array([p.quantiles if what == "quantile" else p.errors for p in mine]).T
    low = high = None
    if len(mine) >= FEWEST and again.size:
        fits = [exponent(sizes, row) for row in again]
        low, high = (float(end) for end in np.quantile(fits, [0.025, 0.975]))
    return Slope(
        one.mechanism,
        one.title,
        one.promise,
        one.attributes,
        what,
        exponent(sizes, errors),
        low,
        high,
        exponent(sizes[-2:], errors[-2:]),
    )


def exponent(sizes: Sequence[int], errors: Sequence[float]) -> float:
    """b of error = a (log2 m)^b, by least squares on logarithmic scales."""
    x, y = np.log(np.log2(sizes)), np.log(errors)
    x, y = x - x.mean(), y - y[0]
    return float(x @ y / (x @ x))


# The check


def check(
    setting: Setting,
    progress: Progress = silent,
    contenders: Sequence[Contender] | None = None,
) -> list[Checked]:
    coins = seeded(setting.seed + 1)
    found = []
    for k, (count, size, epsilon) in enumerate(setting.checks):
        usual = attributes_of(count, size, epsilon)
        crowd = crowd_of(usual, setting.checked_people, setting.seed)
        asked = questions_of(usual, setting.questions_of_many, setting.seed)
        drawn = [e for e in entries(usual, contenders or in_table_2()) if size <= e.contender.drawn]
        for place, entry in enumerate(drawn):
            found.append(checked(entry, crowd, asked, setting.repetitions, epsilon, coins))
            progress((k + (place + 1) / len(drawn)) / len(setting.checks))
    return found


def checked(
    entry: Entry, crowd: Crowd, asked: Questions, repetitions: int, epsilon: float, coins: Coins
) -> Checked:
    errors = entry.answers(crowd, asked, repetitions, coins) - crowd.truth(asked)
    variances = entry.variances(crowd, asked)
    means = (errors**2).mean(axis=1) / crowd.n
    first = next(iter(crowd.attributes.values()))
    return Checked(
        entry.contender.mechanism,
        entry.contender.title,
        len(crowd.attributes),
        first.size,
        epsilon,
        entry.step,
        entry.width,
        float(variances.mean() / crowd.n),
        float(means.mean()),
        float(means.std(ddof=1) / math.sqrt(repetitions)),
        surprise(errors, variances),
    )


def holds(found: Sequence[Checked]) -> bool:
    """Whether nothing is farther off than chance allows."""
    return min(one.surprise for one in found) * len(found) > FALSE_ALARM
