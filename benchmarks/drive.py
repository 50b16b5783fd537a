"""One call of each kind that reaches a compiled loop, from encoding to weighted counts."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from measure import NAMES, people_of, random_ranges, survey_of
from metricldp import Coins, Survey, Weight
from metricldp.store import cubes

MECHANISMS = ("threshold", "geometric", "response")


def steps(
    n: int, coins: Callable[[], Coins | None] = lambda: None
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Names and calls, to be made in this order; what they return can be compared."""
    reports: dict[str, pa.Table] = {}

    def encode(name: str, survey: Survey, people: dict) -> pa.Table:
        reports[name] = survey.encode(people, coins=coins())
        return reports[name]

    surveys = {mechanism: survey_of(mechanism) for mechanism in MECHANISMS}
    for name, survey in surveys.items():
        yield f"encode, {name}", partial(encode, name, survey, people_of(survey, n))
    rng = np.random.default_rng(6)
    wheres = [random_ranges(rng) for _ in range(8)]
    for name, survey in surveys.items():
        yield f"count, {name}", lambda s=survey, m=name: s.tally(reports[m]).count(wheres[0])
        yield f"counts, {name}", partial(_counts, survey, reports, name, wheres)
        yield f"table, {name}", partial(_table, survey, reports, name)
        yield f"histogram, {name}", lambda s=survey, m=name: s.tally(reports[m]).histogram("a")
    # Long lists of values read so many bits that reports have no small codes: products are summed.
    weighty = Survey({**surveys["threshold"].attributes, "w": Weight(0, 10)})
    people = {**people_of(surveys["threshold"], n), "w": rng.uniform(0, 10, n)}
    yield "encode, weights", partial(encode, "weights", weighty, people)
    lists = {name: list(range(0, 255, 8)) for name in NAMES}
    yield "weighted", lambda: weighty.tally(reports["weights"]).sum("w", lists)


def _counts(survey: Survey, reports: dict[str, pa.Table], name: str, wheres: list) -> list:
    """One by one on the reports, so that bits are turned to columns, then in one pass."""
    tally = survey.tally(reports[name], layout="reports")
    found = [tally.count(where) for where in wheres]
    return [*found, *survey.tally(reports[name], layout="prefix").counts(wheres)]


def _table(survey: Survey, reports: dict[str, pa.Table], name: str) -> list:
    tally = survey.tally(reports[name])
    return cubes.build(tally.store.batches(NAMES), survey.channels).sums.tolist()
