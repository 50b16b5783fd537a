"""The demonstration: a synthetic population, reports, estimates and the true counts beside them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.answers.queries import parse
from metricldp.answers.tally import Tally
from metricldp.api import Survey
from metricldp.attributes.continuous import Continuous
from metricldp.attributes.integer import Integer
from metricldp.attributes.named import Categorical
from metricldp.basics.optional import lazy
from metricldp.basics.text import table
from metricldp.reports.columns import positions_of
from metricldp.survey.agreement import Agreement

pa: Any = lazy("pyarrow")

RESPONDENTS = 1_000_000
REGIONS = ["north", "south", "east", "west"]
CONDITIONS = (
    "18 <= age <= 29",
    "30 <= age <= 64",
    "age >= 65",
    "income < 20_000",
    "income >= 50_000",
    "income >= 100_000",
    "region == 'north'",
    "region in ['east', 'west']",
    "18 <= age <= 39 and region == 'north'",
    "40 <= age <= 64 and income >= 50_000",
    "30_000 <= income < 60_000 and region == 'south'",
    "30 <= age <= 59 and income >= 30_000 and region == 'north'",
)
BANDS = list(range(0, 101, 5))
NOTES = """
Fitted: the estimate of a distribution that maximizes the likelihood of the reports. It is often
nearer to the truth, but biased; the interval is that of the unbiased estimate.
Geometric, plain: standard errors under other guarantees. Geometric noise has epsilon 1 per 5 years
and per 10,000 without a maximum, so distant values are hardly protected. Plain LDP (Haar wavelets)
has epsilon 1 between any two ages or incomes, a stronger guarantee.
"""
Data = Mapping[str, npt.NDArray[Any]]


def survey() -> Survey:
    """Three attributes; the file is designed, so loading it runs no search."""
    return Survey.load(Path(__file__).with_name("demo.toml"))


def other_surveys() -> dict[str, Survey]:
    """The same attributes under two other guarantees."""
    region = Categorical(REGIONS, epsilon=2)
    surveys = {}
    for name, mechanism, years, units in (
        ("SE geometric", "geometric", 5, 10_000),
        ("SE plain", "haar", 1, 2_000),
    ):
        age = Integer(0, 99, epsilon=1, per=years, mechanism=mechanism)
        income = Continuous(0, 200_000, bins=100, epsilon=1, per=units, mechanism=mechanism)
        surveys[name] = Survey.fixed({"age": age, "income": income, "region": region})
    return surveys


def population(n: int = RESPONDENTS, seed: int = 2026) -> dict[str, npt.NDArray[Any]]:
    """Ages as in a country, incomes that rise and fall with age, regions of different sizes."""
    rng = np.random.default_rng(seed)
    ages = np.arange(100)
    cohort = np.where(ages < 62, 1.0 + 0.25 * np.sin((ages - 18) / 9), 1.0)
    weights = cohort / (1 + np.exp((ages - 80) / 6))
    age = rng.choice(ages, size=n, p=weights / weights.sum())
    region = rng.choice(len(REGIONS), size=n, p=[0.38, 0.27, 0.2, 0.15])
    career = np.interp(age, [0, 16, 18, 30, 50, 64, 70, 99], [0, 0, 0.35, 0.9, 1.25, 1.1, 0.7, 0.6])
    wealth = np.array([1.15, 1.0, 0.9, 0.95])[region]
    income = 38_000 * career * wealth * rng.lognormal(0, 0.55, n)
    return {
        "age": age,
        "income": np.minimum(income.round(2), 200_000),
        "region": np.array(REGIONS)[region],
    }


def true_count(survey: Agreement, data: Data, condition: str) -> int:
    """The number of respondents who meet a condition, which no collector would know."""
    inside = np.ones(len(data["age"]), dtype=bool)
    for name, function in parse(survey, condition).functions.items():
        column = positions_of(survey.attributes[name], pa.array(data[name]), name)
        inside &= function[column].astype(bool)
    return int(inside.sum())


def run(picture: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Print every step, write a chart, and return the same as data."""
    from metricldp.plot import check_picture

    check_picture(picture)
    agreed, data = survey(), population()
    n = len(data["age"])
    say(f"{n:,} synthetic respondents with an age, an income and a region.")
    say(f"Survey {agreed.fingerprint[:16]} guarantees for every report:")
    say("  at most 2.8 times as likely for one age as for another within 5 years, and for one")
    say("  income as for another within 10,000; at most 20.1 times for any two ages or incomes;")
    say("  at most 7.4 times for any two regions.")
    say(f"Certified in exact arithmetic: {'yes' if agreed.certify().holds else 'NO'}.")
    started = time.perf_counter()
    reports = agreed.randomize(data)
    say(f"Randomized {n:,} responses in {time.perf_counter() - started:.2f} s.\n")
    tally = agreed.tally(reports)
    rows = estimates(tally, data)
    say(
        table([("condition", *rows[0]["text"]), *((r["label"], *r["text"].values()) for r in rows)])
    )
    covered = sum(row["covered"] for row in rows)
    say(f"\n{covered} of {len(rows)} intervals cover the true count; in the long run 95% do.")
    say(NOTES.strip())
    draw_ages(tally, data, picture)
    return {
        "survey": agreed.fingerprint,
        "n": n,
        "rows": [{key: value for key, value in row.items() if key != "text"} for row in rows],
    }


def estimates(tally: Tally, data: Data) -> list[dict[str, Any]]:
    """Each count with the truth, the fitted estimate and the errors under other guarantees."""
    others = {name: one.tally(one.randomize(data)) for name, one in other_surveys().items()}
    fitted = tally.fit_distribution(["age", "income", "region"])
    rows = []
    for condition in CONDITIONS:
        estimate = tally.count(condition)
        low, high = estimate.confidence_interval()
        truth, fit = true_count(tally.survey, data, condition), fitted.count(condition).value
        errors = {name: other.count(condition).stderr for name, other in others.items()}
        text = {
            "truth": f"{truth:,}",
            "estimate": f"{estimate.value:,.0f}",
            "SE": f"{estimate.stderr:,.0f}",
            "95% CI": f"{low:,.0f} to {high:,.0f}",
            "fitted": f"{fit:,.0f}",
            **{name: f"{error:,.0f}" for name, error in errors.items()},
        }
        rows.append(
            {
                **estimate.to_dict(),
                "label": condition,
                "truth": truth,
                "covered": low <= truth <= high,
                "fitted": fit,
                "other_errors": errors,
                "text": text,
            }
        )
    return rows


def draw_ages(tally: Tally, data: Data, picture: Path) -> None:
    """A histogram of ages with the true counts."""
    from metricldp.plot import save

    truth, _ = np.histogram(data["age"], BANDS)
    title = f"Age of {tally.n:,} respondents, estimated from randomized reports"
    axes = tally.histogram("age", bins=BANDS).plot(truth=truth, title=title)
    save(axes, picture)
