"""The whole way on people who do not exist: a population, a survey, reports, answers, the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from metricldp.answers.answer import Answer
from metricldp.answers.queries import Where, parse
from metricldp.answers.tally import Tally
from metricldp.attributes.continuous import Continuous
from metricldp.attributes.integer import Integer
from metricldp.attributes.named import Categorical
from metricldp.survey.agreement import Agreement

PEOPLE = 1_000_000
REGIONS = ["north", "south", "east", "west"]

QUESTIONS: list[dict[str, Any]] = [
    {"age": (18, 29)},
    {"age": (30, 64)},
    {"age": (65, None)},
    {"income": (None, 20_000)},
    {"income": (50_000, None)},
    {"income": (100_000, None)},
    {"region": "north"},
    {"region": ["east", "west"]},
    {"age": (18, 39), "region": "north"},
    {"age": (40, 64), "income": (50_000, None)},
    {"income": (30_000, 60_000), "region": "south"},
    {"age": (30, 59), "income": (30_000, None), "region": ["north", "south"]},
]


@dataclass(frozen=True)
class Line:
    """One question with the true count beside the answer."""

    where: Where
    truth: int
    answer: Answer

    @property
    def covered(self) -> bool:
        """Whether the 95% interval holds the truth."""
        low, high = self.answer.interval()
        return low <= self.truth <= high


def survey() -> Agreement:
    """Three attributes: ages within 5 years and incomes within 10,000 are hard to tell apart."""
    return Agreement(
        {
            "age": Integer(0, 99, epsilon=1, per=5),
            "income": Continuous(0, 200_000, bins=100, epsilon=1, per=10_000),
            "region": Categorical(REGIONS, epsilon=2),
        }
    )


def population(people: int = PEOPLE, seed: int = 2026) -> dict[str, npt.NDArray[Any]]:
    """People with ages like a country's, incomes that rise and fall with age, uneven regions."""
    rng = np.random.default_rng(seed)
    ages = np.arange(100)
    cohort = np.where(ages < 62, 1.0 + 0.25 * np.sin((ages - 18) / 9), 1.0)
    survival = 1 / (1 + np.exp((ages - 80) / 6))
    shares = cohort * survival
    age = rng.choice(ages, size=people, p=shares / shares.sum())
    region = rng.choice(len(REGIONS), size=people, p=[0.38, 0.27, 0.2, 0.15])
    career = np.interp(age, [0, 16, 18, 30, 50, 64, 70, 99], [0, 0, 0.35, 0.9, 1.25, 1.1, 0.7, 0.6])
    wealth = np.array([1.15, 1.0, 0.9, 0.95])[region]
    income = 38_000 * career * wealth * rng.lognormal(0, 0.55, people)
    return {
        "age": age,
        "income": np.minimum(income.round(2), 200_000),
        "region": np.array(REGIONS)[region],
    }


def truth(agreed: Agreement, people: Mapping[str, npt.NDArray[Any]], where: Where) -> int:
    """The count that nobody ever sees outside a demonstration."""
    inside = np.ones(len(next(iter(people.values()))), dtype=bool)
    for name, function in parse(agreed, where).functions.items():
        column = agreed.attributes[name].positions(pa.array(people[name]), name)
        inside &= function[column].astype(bool)
    return int(inside.sum())


def ask(tally: Tally, people: Mapping[str, npt.NDArray[Any]]) -> list[Line]:
    """A dozen questions, each with its answer and the truth."""
    return [Line(w, truth(tally.survey, people, w), tally.count(w)) for w in QUESTIONS]
