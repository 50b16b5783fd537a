"""The whole way on made-up people: a population, a survey, reports, answers, the truth."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.answers.answer import Answer
from metricldp.answers.conditions import Where
from metricldp.answers.queries import parse
from metricldp.answers.tally import Tally
from metricldp.app.plots import check_picture, histogram
from metricldp.attributes.continuous import Continuous
from metricldp.attributes.integer import Integer
from metricldp.attributes.named import Categorical
from metricldp.basics.optional import lazy
from metricldp.basics.text import table
from metricldp.lab.risk import in_short
from metricldp.reports.columns import positions_of
from metricldp.reports.encode import encode
from metricldp.survey.agreement import Agreement
from metricldp.survey.certify import certify

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy("pyarrow")

PEOPLE = 1_000_000
REGIONS = ["north", "south", "east", "west"]
BESIDE = ("± geometric", "± plain")

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
    {"age": (30, 59), "income": (30_000, None), "region": "north"},
]


@dataclass(frozen=True)
class Line:
    """One question with the true count beside the answer."""

    where: Where
    truth: int
    answer: Answer
    fitted: float
    """The same from a fit to the reports: biased."""
    beside: Mapping[str, float]
    """What the error would be otherwise."""

    @property
    def covered(self) -> bool:
        low, high = self.answer.interval()
        return low <= self.truth <= high

    head: ClassVar = (
        *("question", "truth", "estimate", "± error", "95% interval", "holds", "fit"),
        *BESIDE,
    )

    def row(self) -> tuple[str, ...]:
        low, high = self.answer.interval()
        return (
            self.answer.question,
            f"{self.truth:,}",
            f"{self.answer.value:,.0f}",
            f"{self.answer.stderr:,.0f}",
            f"{low:,.0f} to {high:,.0f}",
            "yes" if self.covered else "no",
            f"{self.fitted:,.0f}",
            *(f"{error:,.0f}" for error in self.beside.values()),
        )


def survey() -> Agreement:
    """Three attributes: ages within 5 years and incomes within 10,000 are hard to tell apart.

    It was made once, as one's own would be: loading it searches for nothing.
    """
    return Agreement.load(Path(__file__).with_name("demo.toml"))


def others() -> dict[str, Agreement]:
    """What one would do without: an epsilon per 5 years and per 10,000, or one between any two."""
    noise: dict[str, Any] = {"epsilon": 1, "mechanism": "geometric"}
    plain: dict[str, Any] = {"epsilon": 1, "mechanism": "haar"}
    made = (
        _survey(Integer(0, 99, per=5, **noise), _income(per=10_000, **noise)),
        _survey(Integer(0, 99, **plain), _income(per=2000, **plain)),
    )
    return dict(zip(BESIDE, made, strict=True))


def _income(**said: Any) -> Continuous:
    return Continuous(0, 200_000, bins=100, **said)


def _survey(age: Integer, income: Continuous) -> Agreement:
    region = Categorical(REGIONS, epsilon=2)
    return Agreement({"age": age, "income": income, "region": region})


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
    tallies = {name: Tally.of(other, encode(other, people)) for name, other in others().items()}
    fit = tally.fit(["age", "income", "region"])
    found = []
    for where in QUESTIONS:
        beside = {name: other.count(where).stderr for name, other in tallies.items()}
        exact, answer = truth(tally.survey, people, where), fit.count(where)
        assert answer.unbiased is not None
        found.append(Line(where, exact, answer.unbiased, answer.value, beside))
    return found


def tell(picture: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """The whole story, a line at a time, and a picture; the same as data."""
    check_picture(picture)
    people, agreed = population(), survey()
    n = len(people["age"])
    say(f"{n:,} made-up people, with an age, an income and a region each.")
    say(f"They agree on survey {agreed.fingerprint[:16]}:")
    say("  whatever a device sends, ages up to 5 years apart explain it equally well up to a")
    say("  factor of 2.7, and so do incomes up to 10,000 apart; any two ages or incomes up to a")
    say("  factor of 20, any two regions of 7.4.")
    say(f"  Certified by exact arithmetic: {'yes' if certify(agreed).holds else 'NO'}.")
    guess = in_short(agreed, "age")["guess"]
    before, after = 100 * guess["before"], 100 * guess["after"]
    say(f"  Anyone who sees a report can guess the age to within 5 years for {after:.0f} people")
    say(f"  in 100; without it, for {before:.0f}, if all ages are equally frequent.")
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
    say(
        "The fit is how people are spread so that the reports are likely. It is often nearer to the"
    )
    say("truth, but biased, and nothing is guaranteed of it: the interval is the estimate's.")
    say("At the right the errors with two other promises. Geometric noise: epsilon 1 per 5 years")
    say("and per 10,000, so next to no promise between far ages. Plain local differential privacy,")
    say("by Haar wavelets: epsilon 1 between any two ages or incomes, which is a stronger promise.")
    asked = [
        {**r.answer.to_dict(), "truth": r.truth, "covered": r.covered, "fitted": r.fitted}
        | {"beside": dict(r.beside)}
        for r in lines
    ]
    return {"survey": agreed.fingerprint, "people": n, "answers": asked}


def draw_ages(tally: Tally, people: Mapping[str, npt.NDArray[Any]], picture: Path) -> None:
    """A histogram of ages with the truth beside it."""
    exact = [truth(tally.survey, people, {"age": (a, a + 4)}) for a in range(0, 100, 5)]
    title = f"Age of {tally.n:,} people, from blurred reports"
    histogram(tally.histogram("age", width=5), picture, title=title, truth=exact)
