"""The whole way on people who do not exist: a population, a survey, reports, answers, the truth."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.answers.answer import Answer
from metricldp.answers.queries import Where, parse
from metricldp.answers.tally import Tally
from metricldp.app.plots import check_picture, histogram
from metricldp.attributes.continuous import Continuous
from metricldp.attributes.integer import Integer
from metricldp.attributes.named import Categorical
from metricldp.basics.optional import optional
from metricldp.basics.text import table
from metricldp.reports.columns import positions_of
from metricldp.reports.encode import encode
from metricldp.survey.agreement import Agreement
from metricldp.survey.certify import certify

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = optional("pyarrow")

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
        low, high = self.answer.interval()
        return low <= self.truth <= high

    head: ClassVar = ("question", "truth", "estimate", "± error", "95% interval", "holds")

    def row(self) -> tuple[str, ...]:
        low, high = self.answer.interval()
        return (
            self.answer.question,
            f"{self.truth:,}",
            f"{self.answer.value:,.0f}",
            f"{self.answer.stderr:,.0f}",
            f"{low:,.0f} to {high:,.0f}",
            "yes" if self.covered else "no",
        )


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
        column = positions_of(agreed.attributes[name], pa.array(people[name]), name)
        inside &= function[column].astype(bool)
    return int(inside.sum())


def ask(tally: Tally, people: Mapping[str, npt.NDArray[Any]]) -> list[Line]:
    return [Line(w, truth(tally.survey, people, w), tally.count(w)) for w in QUESTIONS]


def tell(picture: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """The whole story, a line at a time, and a picture; the same as data."""
    check_picture(picture)
    people, agreed = population(), survey()
    n = len(people["age"])
    say(f"{n:,} people who do not exist, with an age, an income and a region each.")
    say(f"They agree on survey {agreed.fingerprint[:16]}:")
    say("  whatever a device sends, an age 5 years off or an income 10,000 off is at most 2.7")
    say("  times less likely to have caused it, and another region at most 7.4 times.")
    say(f"  Certified by exact arithmetic: {'yes' if certify(agreed).holds else 'NO'}.")
    started = time.perf_counter()
    reports = encode(agreed, people)
    say(f"Every device blurs its values: {n:,} reports in {time.perf_counter() - started:.2f} s.")
    say("")
    tally = Tally.of(agreed, reports)
    lines = ask(tally, people)
    draw_ages(tally, people, picture)
    say(table([Line.head, *(line.row() for line in lines)]))
    say("")
    held = sum(line.covered for line in lines)
    say(f"{held} of {len(lines)} intervals hold the truth; 95% of them do in the long run.")
    asked = [{**r.answer.to_dict(), "truth": r.truth, "covered": r.covered} for r in lines]
    return {"survey": agreed.fingerprint, "people": n, "answers": asked}


def draw_ages(tally: Tally, people: Mapping[str, npt.NDArray[Any]], picture: Path) -> None:
    """A histogram of ages with the truth beside it."""
    exact = [truth(tally.survey, people, {"age": (a, a + 4)}) for a in range(0, 100, 5)]
    title = f"Age of {tally.n:,} people, from blurred reports"
    histogram(tally.histogram("age", width=5), picture, title=title, truth=exact)
