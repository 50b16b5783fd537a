"""How often 95 % intervals hold the truth, wherever people are and however rare flips are.

Every cell is a few thousand repetitions, drawn from the exact law of the channel. A cell fails if
its count would come up with a probability below 1e-6 / cells at a true coverage of 94 %: the
false-alarm rate of a whole table is at most 1e-6.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from crowd_sums import People, features, sums
from scipy import stats

from metricldp import Categorical, Integer, Survey
from metricldp.answers.answer import normal_reach
from metricldp.answers.answer_table import Answers
from metricldp.answers.estimate import to_answers, to_ratio, with_steps
from metricldp.answers.linear import Profile
from metricldp.answers.predict import variance_bounds
from metricldp.answers.quantiles import Group
from metricldp.answers.queries import Query
from metricldp.store.readings import Readings, read, read_pair

LEAST = 0.94
EPSILONS = (0.1, 0.3, 1, 2, 3, 4, 5, 6, 8)
PEOPLE = (100, 300, 1000, 10_000)
SIZE = 30


@dataclass(frozen=True)
class Case:
    """A count: its survey by epsilon, and for each attribute the first and last position inside."""

    kinds: tuple[str, ...]
    ranges: tuple[tuple[int, int], ...]

    @cache  # noqa: B019
    def survey(self, epsilon: float) -> Survey:
        return Survey({f"a{d}": _attribute(k, epsilon) for d, k in enumerate(self.kinds)})

    def functions(self, survey: Survey) -> dict[str, np.ndarray]:
        found = {}
        for (name, attribute), (low, high) in zip(
            survey.attributes.items(), self.ranges, strict=True
        ):
            grid = np.arange(attribute.size)
            found[name] = ((low <= grid) & (grid <= high)).astype(float)
        return found

    def places(self, survey: Survey) -> dict[str, list[tuple[int, ...]]]:
        """Where people stand: lists of places that share them evenly."""
        sizes = [attribute.size for attribute in survey.attributes.values()]
        cut = tuple(high for _, high in self.ranges)
        beyond = tuple((high + 1) % size for high, size in zip(cut, sizes, strict=True))
        far = tuple(0 if low > 2 else size - 1 for (low, _), size in zip(self.ranges, sizes))
        inside = tuple((low + high) // 2 for low, high in self.ranges)
        steps = [max(1, size // 6) if len(sizes) > 1 else 1 for size in sizes]
        grid = np.stack(np.meshgrid(*map(np.arange, np.zeros(len(sizes), int), sizes, steps)), -1)
        return {
            "spread": [tuple(place) for place in grid.reshape(-1, len(sizes)).tolist()],
            "heaped": [inside],
            "at the cut": [cut],
            "around it": [cut, beyond],
            "none": [far],
            "few": [far, cut],
        }

    def people(self, survey: Survey, layout: str, n: int) -> People:
        places = self.places(survey)[layout]
        if layout == "few":
            return [(places[0], n - 30), (places[1], 30)]
        counts = np.full(len(places), n // len(places))
        counts[: n - counts.sum()] += 1
        return list(zip(places, counts.tolist(), strict=True))


LAYOUTS = ("spread", "heaped", "at the cut", "around it", "few", "none")
CASES = {
    "threshold, a range": Case(("threshold",), ((10, 19),)),
    "threshold, a prefix": Case(("threshold",), ((0, 19),)),
    "geometric, a range": Case(("geometric",), ((10, 19),)),
    "geometric, the first value": Case(("geometric",), ((0, 0),)),
    "response": Case(("response",), ((2, 3),)),
    "unary": Case(("unary",), ((2, 3),)),
    "matrix": Case(("matrix",), ((2, 3),)),
    "threshold x threshold": Case(("threshold", "threshold"), ((10, 19), (5, 24))),
    "geometric x response": Case(("geometric", "response"), ((10, 19), (2, 3))),
}


def _attribute(kind: str, epsilon: float):
    if kind in ("threshold", "geometric"):
        return Integer(0, SIZE - 1, epsilon=epsilon, mechanism=kind)
    return Categorical([f"c{k}" for k in range(8)], epsilon=epsilon, mechanism=kind)


def answers_to(readings: Readings, people: People, reps: int, rng, about="respondents") -> Answers:
    """The same count again and again."""
    n = int(np.broadcast_to(sum(np.asarray(count) for _, count in people), reps)[0])
    drawn = sums(readings, people, reps, rng)
    bounds = tuple(np.repeat(bound, reps) for bound in variance_bounds(readings.pairs()))
    steps = type(readings.extremes())(*(np.repeat(part, reps) for part in readings.extremes()))
    asked = [("", ())] * reps
    return Answers("", [""] * reps, to_answers(drawn, bounds, steps, n, asked, about=about))


def held(answers: Answers, truth: float) -> tuple[float, float]:
    """How often the interval holds the truth, and how often the normal one does."""
    low, high = answers.interval()
    normal = normal_reach(0.95) * answers.stderr
    off = np.abs(answers.values - truth)
    tie = 1e-9 * (1 + abs(truth))
    inside = (low - tie <= truth) & (truth <= high + tie)
    return float(inside.mean()), float((off <= normal + tie).mean())


def enough(coverage: float, reps: int, cells: int) -> bool:
    return bool(stats.binom.cdf(round(coverage * reps), reps, LEAST) > 1e-6 / cells)


def table(found: dict[str, dict[str, float]]) -> str:
    heads = list(next(iter(found.values())))
    lines = ["| | " + " | ".join(heads) + " |", "| --- |" + " ---: |" * len(heads)]
    for row, cells in found.items():
        lines.append(f"| {row} | " + " | ".join(f"{cells[head]:.3f}" for head in heads) + " |")
    return "\n".join(lines)


def count_table(cases, epsilons, sizes, layouts, reps: int, seed: int):
    """The worst coverage over all cases, by epsilon and by people, and the normal one's."""
    rng = np.random.default_rng(seed)
    ours, normal, worst = {}, {}, {}
    for epsilon in epsilons:
        row, other = {}, {}
        for name, case in cases.items():
            survey = case.survey(epsilon)
            functions = case.functions(survey)
            readings = read(survey, functions)
            for layout in layouts:
                for n in sizes:
                    people = case.people(survey, layout, n)
                    where = functions.values()
                    truth = sum(
                        count * np.prod([f[x] for f, x in zip(where, place, strict=True)])
                        for place, count in people
                    )
                    found = held(answers_to(readings, people, reps, rng), float(truth))
                    head = f"{layout}, {n:,}"
                    row[head] = min(row.get(head, 1.0), found[0])
                    other[head] = min(other.get(head, 1.0), found[1])
                    worst[name] = min(worst.get(name, 1.0), found[0])
        ours[f"{epsilon:g}"], normal[f"{epsilon:g}"] = row, other
    return ours, normal, worst


def lowest(found: dict[str, dict[str, float]]) -> float:
    return min(min(row.values()) for row in found.values())


def test_counts_cover_where_flips_are_rare():
    """600 repetitions of a few cells that failed; the normal interval fails in them still."""
    reps, epsilons, sizes = 600, (0.1, 4, 6), (100, 1000)
    ours, normal, _ = count_table(CASES, epsilons, sizes, LAYOUTS, reps, 1)
    cells = len(CASES) * len(epsilons) * len(sizes) * len(LAYOUTS)
    assert enough(lowest(ours), reps, cells), table(ours)
    assert not enough(lowest(normal), reps, cells)


@pytest.mark.slow
def test_counts_cover_everywhere():
    reps = 4000
    ours, normal, worst = count_table(CASES, EPSILONS, PEOPLE, LAYOUTS, reps, 2)
    print(table(ours), worst, "normal", table(normal), sep="\n")
    cells = len(CASES) * len(EPSILONS) * len(PEOPLE) * len(LAYOUTS)
    assert enough(lowest(ours), reps, cells)
    assert not enough(lowest(normal), reps, cells)
