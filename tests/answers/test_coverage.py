"""How often 95 % intervals hold the truth, wherever people are and however rare flips are.

Every cell is a few thousand repetitions, drawn from the exact law of the channel. A cell fails if
its count would come up with a probability below 1e-6 / cells at a true coverage of 94 %: the
false-alarm rate of a whole table is at most 1e-6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from crowd_sums import People, sums, tallies
from scipy import stats

from metricldp import Categorical, EstimateTable, Integer, Survey
from metricldp.answers.answer import normal_reach
from metricldp.answers.estimate import to_answers
from metricldp.answers.predict import variance_bounds
from metricldp.estimate.table import Grouping
from metricldp.store.readings import Readings, read

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
        return Survey.design({f"a{d}": _attribute(k, epsilon) for d, k in enumerate(self.kinds)})

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
        far = tuple(
            0 if low > 2 else size - 1 for (low, _), size in zip(self.ranges, sizes, strict=True)
        )
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
    "randomized-response": Case(("randomized-response",), ((2, 3),)),
    "unary": Case(("unary",), ((2, 3),)),
    "matrix": Case(("matrix",), ((2, 3),)),
    "threshold x threshold": Case(("threshold", "threshold"), ((10, 19), (5, 24))),
    "geometric x randomized-response": Case(
        ("geometric", "randomized-response"), ((10, 19), (2, 3))
    ),
}


def _attribute(kind: str, epsilon: float):
    if kind in ("threshold", "geometric"):
        return Integer(0, SIZE - 1, epsilon=epsilon, mechanism=kind, per=1)
    return Categorical([f"c{k}" for k in range(8)], epsilon=epsilon, mechanism=kind)


def answers_to(
    readings: Readings, people: People, reps: int, rng, target="respondents"
) -> EstimateTable:
    """The same count again and again."""
    n = int(np.broadcast_to(sum(np.asarray(count) for _, count in people), reps)[0])
    drawn = sums(readings, people, reps, rng)
    bounds = tuple(np.repeat(bound, reps) for bound in variance_bounds(readings.pairs()))
    steps = type(readings.extremes())(*(np.repeat(part, reps) for part in readings.extremes()))
    asked = [("", ())] * reps
    found = to_answers(drawn, bounds, steps, n, asked, target=target)
    return EstimateTable([Grouping("run", range(reps), [""] * reps)], found)


def held(answers: EstimateTable, truth: float) -> tuple[float, float]:
    """How often the interval holds the truth, and how often the normal one does."""
    low, high = answers.confidence_interval()
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
    """500 repetitions of a few cells that failed; the normal interval fails in them still."""
    reps, epsilons, sizes = 500, (0.1, 6), (100, 1000)
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


# Distribution functions and quantiles


def along_the_line(layout: str, n: int) -> People:
    """People along a line of 30 positions."""
    if layout == "few":
        return [((0,), n - 30), ((15,), 30)]
    places = {"spread": range(SIZE), "heaped": [12], "two heaps": [9, 20], "at one end": [0]}
    counts = np.full(len(places[layout]), n // len(places[layout]))
    counts[: n - counts.sum()] += 1
    return [((x,), int(count)) for x, count in zip(places[layout], counts, strict=True)]


LINES = ("spread", "heaped", "two heaps", "few", "at one end")


def cells_on_a_line(epsilons, sizes, layouts, reps, rng, target):
    """A survey, how many have each value, and these people: drawn anew for a population."""
    for mechanism in ("threshold", "geometric"):
        for epsilon in epsilons:
            survey = Case((mechanism,), ((0, 0),)).survey(epsilon)
            for layout in layouts:
                for n in sizes:
                    people = along_the_line(layout, n)
                    counts = np.zeros(SIZE)
                    for (x,), count in people:
                        counts[x] = count
                    if target == "population":
                        drawn = rng.multinomial(n, counts / n, reps)
                        people = [((x,), drawn[:, x]) for x in range(SIZE)]
                    yield survey, counts, people, (f"{epsilon:g}", f"{layout}, {n:,}")


def keep_lowest(rows, place, cell):
    """The worst mechanism of each place in a table."""
    row, head = rows[place[0]], place[1]
    row[head] = min(row.get(head, 1.0), cell)


def band_tables(epsilons, sizes, layouts, reps: int, seed: int, target="respondents"):
    """Coverage of bands, of bands of normal intervals, and of the median: the worst mechanism."""
    rng = np.random.default_rng(seed)
    found = {name: {f"{epsilon:g}": {} for epsilon in epsilons} for name in ("band", "normal", "p")}
    cells = cells_on_a_line(epsilons, sizes, layouts, reps, rng, target)
    for survey, counts, people, place in cells:
        truth = np.cumsum(counts) / counts.sum()
        median = int(np.argmax(truth >= 0.5 - 1e-12))
        held = {"band": 0, "normal": 0, "p": 0}
        for tally in tallies(survey, people, reps, rng):
            cdf = tally.cdf("a0", target=target)
            low, high = cdf.confidence_interval(simultaneous=True)
            held["band"] += bool(((low <= truth + 1e-9) & (truth <= high + 1e-9)).all())
            z = normal_reach(0.95 ** (1 / (SIZE - 1)))
            values = np.array([point.value for point in cdf.points])
            held["normal"] += bool((abs(values - truth) <= z * cdf.stderr + 1e-9).all())
            first, last = cdf.quantile(0.5).confidence_interval()
            held["p"] += first <= median <= last
        for name, count in held.items():
            keep_lowest(found[name], place, count / reps)
    return found


def test_bands_and_quantiles_cover_where_flips_are_rare():
    """The case of the issue, 30 positions and 300 people, from 3 to 6 per step."""
    reps, epsilons = 100, (3, 6)
    found = band_tables(epsilons, (300,), ("spread", "two heaps"), reps, 3)
    cells = 2 * 2 * len(epsilons)
    assert enough(lowest(found["band"]), reps, cells), table(found["band"])
    assert enough(lowest(found["p"]), reps, cells), table(found["p"])
    assert not enough(lowest(found["normal"]), reps, cells)


def test_a_band_covers_where_flips_are_rare():
    """One cell of it, for the fast lane; normal bands of the same reports do not cover."""
    reps, epsilons = 60, (6,)
    found = band_tables(epsilons, (300,), ("spread",), reps, 3)
    assert enough(lowest(found["band"]), reps, 2), table(found["band"])
    assert not enough(lowest(found["normal"]), reps, 2)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["respondents", "population"])
def test_bands_and_quantiles_cover_everywhere(target):
    reps, sizes = 250, (100, 1000, 10_000)
    found = band_tables(EPSILONS, sizes, LINES, reps, 4, target)
    print(target, *(f"{name}\n{table(rows)}" for name, rows in found.items()), sep="\n")
    cells = 2 * len(EPSILONS) * len(sizes) * len(LINES)
    assert enough(lowest(found["band"]), reps, cells)
    assert enough(lowest(found["p"]), reps, cells)
    assert target == "population" or not enough(lowest(found["normal"]), reps, cells)


# Populations


SHARES = {"none": 0.0, "1 person": 1.0, "3 people": 3.0, "10 people": 10.0, "40 people": 40.0}


def population_table(cases, epsilons, sizes, reps: int, seed: int):
    """Few people, or all but a few, of those drawn are inside; the rest is far from the range."""
    rng = np.random.default_rng(seed)
    ours, normal, fixed = {}, {}, {}
    for epsilon in epsilons:
        rows = {}, {}, {}
        for case in cases.values():
            survey = case.survey(epsilon)
            readings = read(survey, case.functions(survey))
            places = case.places(survey)
            (inside,), (far,) = places["heaped"], places["none"]
            for n in sizes:
                for words, expected in SHARES.items():
                    for turned in (False, True):
                        share = 1 - expected / n if turned else expected / n
                        drawn = rng.binomial(n, share, reps)
                        people = [(inside, drawn), (far, n - drawn)]
                        state = rng.bit_generator.state
                        answers = answers_to(readings, people, reps, rng, "population")
                        found = held(answers, n * share)
                        rng.bit_generator.state = state
                        same = answers_to(readings, people, reps, rng)
                        head = f"{words}, {n:,}"
                        for row, cell in zip(rows, (*found, held(same, n * share)[0]), strict=True):
                            row[head] = min(row.get(head, 1.0), cell)
        for whole, row in zip((ours, normal, fixed), rows, strict=True):
            whole[f"{epsilon:g}"] = row
    return ours, normal, fixed


def test_small_shares_of_a_population_are_covered():
    """The twins, normal intervals and those about respondents, must fail."""
    reps, epsilons, sizes = 300, (0.3, 6), (100, 1000)
    tables = population_table(CASES, epsilons, sizes, reps, 5)
    cells = len(CASES) * len(epsilons) * len(sizes) * 2 * len(SHARES)
    assert [enough(lowest(found), reps, cells) for found in tables] == [True, False, False], table(
        tables[0]
    )


@pytest.mark.slow
def test_shares_of_a_population_are_covered_everywhere():
    reps, sizes = 3000, (100, 1000, 10_000)
    tables = population_table(CASES, EPSILONS, sizes, reps, 6)
    print(*map(table, tables), sep="\n")
    cells = len(CASES) * len(EPSILONS) * len(sizes) * 2 * len(SHARES)
    assert [enough(lowest(found), reps, cells) for found in tables] == [True, False, False]


def test_nobody_seen_leaves_a_few_people_open():
    """With nobody seen of a population the upper end is three to five people, not zero."""
    survey = Survey.design({"a": Integer(0, 9, epsilon=8, per=1)})
    tally = survey.tally(survey.randomize({"a": np.zeros(1000, dtype=int)}))
    answer = tally.count({"a": (7, 9)}, target="population")
    assert 3 < answer.confidence_interval()[1] - answer.value < 5
    own = tally.count({"a": (7, 9)})
    assert own.confidence_interval()[1] - own.value < 2


# Means, and bars that hold together


def means_held(survey, people: People, truth: float, reps: int, rng, target: str):
    """How often intervals of the mean hold the truth: as asked, and those about respondents."""
    held = [0, 0]
    for tally in tallies(survey, people, reps, rng):
        for k, asked in enumerate((target, "respondents")):
            low, high = tally.mean("a0", target=asked).confidence_interval()
            held[k] += low - 1e-9 <= truth <= high + 1e-9
    return [count / reps for count in held]


def mean_tables(epsilons, sizes, layouts, reps: int, seed: int, target: str):
    rng = np.random.default_rng(seed)
    ours = {f"{epsilon:g}": {} for epsilon in epsilons}
    twin = {f"{epsilon:g}": {} for epsilon in epsilons}
    cells = cells_on_a_line(epsilons, sizes, layouts, reps, rng, target)
    for survey, counts, people, place in cells:
        truth = np.arange(SIZE) @ counts / counts.sum()
        found = means_held(survey, people, truth, reps, rng, target)
        for rows, cell in zip((ours, twin), found, strict=True):
            keep_lowest(rows, place, cell)
    return ours, twin


def test_means_of_a_population_are_covered():
    """The twin, intervals about the respondents, must fail."""
    reps, epsilons, layouts = 200, (0.5, 6), ("spread", "two heaps")
    ours, twin = mean_tables(epsilons, (300,), layouts, reps, 7, "population")
    cells = 2 * len(epsilons) * len(layouts)
    assert enough(lowest(ours), reps, cells), table(ours)
    assert not enough(lowest(twin), reps, cells)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["respondents", "population"])
def test_means_are_covered_everywhere(target):
    reps, sizes = 250, (100, 1000, 10_000)
    ours, twin = mean_tables(EPSILONS, sizes, LINES, reps, 8, target)
    print(target, table(ours), table(twin), sep="\n")
    cells = 2 * len(EPSILONS) * len(sizes) * len(LINES)
    assert enough(lowest(ours), reps, cells)
    assert target == "respondents" or not enough(lowest(twin), reps, cells)


def test_quantiles_of_a_population_are_covered():
    """The median sits at the edge of a heap, where half of all draws move it; the twin fails."""
    reps, n, rng = 200, 400, np.random.default_rng(9)
    survey = Case(("geometric",), ((0, 0),)).survey(6)
    drawn = rng.binomial(n, 0.52, reps)
    held = {"population": 0, "respondents": 0}
    for tally in tallies(survey, [((10,), drawn), ((20,), n - drawn)], reps, rng):
        for target in held:
            first, last = tally.quantile("a0", 0.5, target=target).confidence_interval()
            held[target] += first <= 10 <= last
    assert enough(held["population"] / reps, reps, 1)
    assert not enough(held["respondents"] / reps, reps, 1)


@pytest.mark.parametrize("kind", ["randomized-response", "geometric"])
@pytest.mark.parametrize("epsilon", [0.5, 3, 6])
def test_bars_hold_together(kind, epsilon):
    """A histogram of 8 or 30 bars; single intervals do not hold together."""
    reps, n, rng = 250, 300, np.random.default_rng(10)
    survey = Case((kind,), ((0, 0),)).survey(epsilon)
    size = survey.attributes["a0"].size
    counts = np.bincount(np.minimum(rng.geometric(0.15, n) - 1, size - 1), minlength=size)
    together = 0
    for tally in tallies(survey, [((x,), int(c)) for x, c in enumerate(counts)], reps, rng):
        low, high = tally.histogram("a0").confidence_interval(simultaneous=True)
        together += bool(((low - 1e-9 <= counts) & (counts <= high + 1e-9)).all())
    assert enough(together / reps, reps, 6)
