"""The search for additive noise: its objective, its limits, and known errors."""

from fractions import Fraction

import numpy as np
import pytest

from metricldp import Integer, InvalidSpecError, Randomness, Survey, SurveySpec
from metricldp.mechanisms import additive_search as search
from metricldp.mechanisms import search_kernels as kernels
from metricldp.mechanisms.additive_search import (
    CellWorkload,
    Limits,
    Ring,
    Slopes,
    Torus,
    annealed,
    annealed_by_slopes,
    best_noise,
    patterns_of,
)
from metricldp.mechanisms.base import Problem
from metricldp.mechanisms.effort import Effort
from metricldp.mechanisms.search_cache import CACHE
from metricldp.mechanisms.stated import cell_workload
from metricldp.mechanisms.workloads import Workload
from metricldp.metrics import Line
from metricldp.metrics.grid import summed
from metricldp.metrics.window import Window


def grid_of(*sizes, epsilon=Fraction(1, 2)):
    return search.grid_in_units(summed([Line(epsilon)] * len(sizes), sizes))


def ranges(*sizes):
    return cell_workload(Problem(sizes, grid_of(*sizes), (True,) * len(sizes)))


def ring_of(size, metric, places):
    return Ring(search.line_in_units(size, metric), (places,))


def objective(heights, unit, spectrum):
    q = np.exp(unit * (heights - heights.max()))
    q /= q.sum(axis=1, keepdims=True)
    return float((spectrum / (np.abs(np.fft.rfft(q)) ** 2).mean(axis=0)).sum())


def test_spectrum_of_products_is_that_of_their_gram_matrix():
    products, torus = ranges(3, 4), Torus(grid_of(3, 4), (5, 6))
    rows = Workload.product([Workload.all_ranges(3), Workload.all_ranges(4)]).rows_block(0, 60)
    around = np.zeros((len(rows), 30))
    around[:, torus.cell_places] = rows
    power = (np.abs(np.fft.rfft(around)) ** 2).sum(axis=0)
    power[1:15] *= 2  # mirror images
    assert np.allclose(products.spectrum(torus) * len(rows), power, rtol=1e-12, atol=1e-9)
    whole = CellWorkload(whole=products.gram())
    assert np.allclose(whole.spectrum(torus), products.spectrum(torus), rtol=1e-12)


def test_slopes_are_those_of_the_objective():
    torus, rng = Torus(grid_of(3, 4), (5, 6)), np.random.default_rng(1)
    heights, spectrum = rng.integers(-3, 1, (2, 30)), ranges(3, 4).spectrum(torus)
    state = Slopes.of(heights, 0.5, spectrum)
    assert state.objective == pytest.approx(objective(heights, 0.5, spectrum), rel=1e-12)

    def moved(j, x, by):
        v = state.v.copy()
        v[j, x] += by
        return objective(np.log(v), 1.0, spectrum)

    step = 1e-5
    for j, x in ((0, 0), (0, 7), (1, 29)):
        slope = (moved(j, x, step) - moved(j, x, -step)) / (2 * step)
        assert state.slopes[j, x] == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("sizes", [(5, 6), (3, 4, 3)])
@pytest.mark.parametrize("start", ["start_from_rings", "start"])
def test_search_by_slopes_stays_within_the_metric_and_helps(sizes, start):
    torus = Torus(grid_of(*sizes), tuple(n + 2 for n in sizes))
    workload, heights = ranges(*sizes), getattr(torus, start)(4)
    better, reached = annealed_by_slopes(torus, workload, Effort(0.12), heights=heights)
    for each in (heights, better):
        assert torus.violation(patterns_of(each)) is None
    unit, spectrum = torus.unit, workload.spectrum(torus)
    assert reached == pytest.approx(objective(better, unit, spectrum), rel=1e-9)
    assert reached < 0.8 * objective(heights, unit, spectrum)


@pytest.mark.parametrize(
    ("size", "metric", "places"),
    [(12, Window(Fraction(1), 3), 16), (12, Window(Fraction(1), 3, Fraction(2)), 16)],
)
def test_annealing_stays_within_the_metric_and_returns_its_objective(size, metric, places):
    ring = ring_of(size, metric, places)
    workload = CellWorkload(whole=Workload.all_ranges(size).gram())
    heights, reached = annealed(ring, workload, 4)
    assert ring.violation(patterns_of(heights)) is None
    spectrum = workload.spectrum(ring)
    assert reached == pytest.approx(objective(heights, ring.unit, spectrum), rel=1e-9)
    assert reached < objective(ring.start(4), ring.unit, spectrum)
    steep = heights.copy()
    steep[0, np.argmax(heights[0])] += ring.top + 1
    assert ring.violation(patterns_of(steep)) is not None, "the negative control"


def test_max_epsilon_of_every_attribute_is_satisfied():
    capped = Integer(0, 5, epsilon=1, within=1, max_epsilon=2)
    grid = search.grid_in_units(summed([capped.distances] * 2, (6, 6)))
    torus = Torus(grid, (8, 8))
    heights, _ = annealed_by_slopes(torus, ranges(6, 6), Effort(0.08))
    assert torus.violation(patterns_of(heights)) is None


def test_no_places_are_added_around_a_circle_or_between_categories():
    hours, ages = Integer(0, 5, epsilon=1, cyclic=True, per=1), Integer(0, 5, epsilon=1, per=1)
    grid = search.grid_in_units(summed([hours.distances, ages.distances], (6, 6)))
    assert {torus.lengths for torus in search._tori(grid)} == {(6, 7), (6, 8)}


def test_lengths_have_fast_transforms():
    assert [search.smooth_length(n) for n in (1, 11, 97, 105, 121)] == [4, 12, 100, 108, 128]


def test_same_effort_gives_the_same_noise_and_other_seeds_other_noise(monkeypatch):
    monkeypatch.setattr(CACHE, "enabled", False)
    line, workload = search.line_in_units(8, Window(Fraction(1), 2)), ranges(8)
    found = [best_noise(workload, line, None, Effort(0.1, seed)) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]


def test_more_effort_gives_a_smaller_objective_and_a_time_limit_ends_early():
    """The temperature falls with the work as well as with the moves."""
    ring = ring_of(12, Window(Fraction(1), 3), 14)
    workload = CellWorkload(whole=Workload.all_ranges(12).gram())
    efforts = Effort(1e-9), Effort(1e-3), Effort(1e-2), Effort(seconds=1e-5)
    results = [annealed(ring, workload, 2, effort) for effort in efforts]
    assert all(ring.violation(patterns_of(heights)) is None for heights, _ in results)
    least, few, many, limited = (reached for _, reached in results)
    assert least > 1.02 * few > 1.02 * many
    assert limited <= least


def test_search_results_are_cached_by_content(monkeypatch):
    calls, line = [], search.line_in_units(6, Window(Fraction(1), 2))
    monkeypatch.setattr(CACHE, "results", CACHE.results.copy())
    plain = search.annealed
    monkeypatch.setattr(search, "annealed", lambda *given: calls.append(0) or plain(*given))
    gram = Workload.all_ranges(6).gram() + 0.125
    for _ in range(2):
        best_noise(CellWorkload(whole=gram.copy()), line, None, Effort(0.01))
    once = len(calls)
    best_noise(CellWorkload(whole=gram + 1), line, None, Effort(0.01))
    assert len(calls) == 2 * once
    monkeypatch.setattr(CACHE, "enabled", False)
    best_noise(CellWorkload(whole=gram), line, None, Effort(0.01))
    assert len(calls) == 3 * once


@pytest.mark.parametrize(
    ("size", "metric", "longest", "work"),
    [
        (100, Line(Fraction(1, 20)), 70, 3e9),  # of 140 places
        (216, Line(Fraction(1, 20)), 128, 3e9),  # of 256
        (999, Line(Fraction(1, 20)), 128, 1e9),
        (999, Line(Fraction(1, 150)), 150, 1e9),
        (999, Window(Fraction(1, 10), 100), 999, 1e9),
    ],
)
def test_moves_on_long_rings_are_no_longer_than_the_noise(size, metric, longest, work):
    """Longer moves took most of 13 seconds, and gained less."""
    ring = next(search._rings(search.line_in_units(size, metric)))
    assert (ring.limits.longest.tolist(), ring.work) == ([longest], work)


def test_rejected_moves_count_as_work():
    """With wide windows a search takes as long to reject a move."""
    limits = ring_of(40, Window(Fraction(1), 20), 40).limits
    heights = np.zeros((1, 40), dtype=np.int64)
    heights[0, ::2] = 1
    before = heights.copy()
    nothing = Limits(*limits[:4], 0 * limits.most, 1 << 30)  # 12 years of moves
    kernels.anneal(heights, 1.0, nothing, np.ones(21), 10**13, 3_000, 1)
    assert np.array_equal(heights, before)


@pytest.fixture(scope="module")
def large():
    """More cells than are solved for, from a short search."""
    ages = Integer(0, 39, epsilon=0.5, within=4)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search, "ROUNDS", 40)
        patched.setattr(CACHE, "enabled", False)
        return Survey.design(
            SurveySpec(
                {"a": ages, "b": ages, "c": Integer(0, 3, epsilon=1, per=1)}, joint=[["a", "b"]]
            )
        )


def test_a_large_grid_beats_the_product(large):
    ages = large.attributes["a"]
    product = Survey.design({"a": ages, "b": ages})
    where = {"a": (10, 24), "b": (5, 30)}
    errors = [s.expected_error(where, n=1, prior="uniform").stderr for s in (large, product)]
    assert errors[0] < 0.8 * errors[1]
    assert large.certify().holds
    assert Survey.from_toml(large.to_toml()) == large


def test_answers_of_a_large_grid_are_as_wrong_as_they_say(large):
    """400 questions of one collection: mean square of errors over stated ones, within 8 sigma.

    Errors of different questions are not independent; 8 sigma of 40 independent ones.
    """
    n, rng = 200_000, np.random.default_rng(5)
    people = {"a": rng.integers(0, 40, n), "c": rng.integers(0, 4, n)}
    people["b"] = (people["a"] // 2 + rng.integers(0, 20, n)).clip(0, 39)
    tally = large.tally(large.randomize(people, randomness=Randomness.seeded(8)))
    asked, true = [], []
    for ends in np.sort(rng.integers(0, 40, (400, 2, 2))).tolist():
        asked.append({"a": tuple(ends[0]), "b": tuple(ends[1])})
        inside = [(people[k] >= low) & (people[k] <= high) for k, (low, high) in asked[-1].items()]
        true.append(np.logical_and(*inside).sum())
    answers = tally.counts(asked)
    assert {one.layout for _, one in answers} == {"cells"}
    errors = [(one.value - t) / one.stderr for (_, one), t in zip(answers, true, strict=True)]
    assert abs(np.mean(np.square(errors)) - 1) < 8 * np.sqrt(2 / 40)
    one = large.tally(large.randomize(people, randomness=Randomness.seeded(8)), layout="reports")
    again = one.count(asked[0])
    assert again.layout == "reports"
    assert again.value == pytest.approx(answers.iloc[0].value, rel=1e-9)
    assert again.stderr == pytest.approx(answers.iloc[0].stderr, rel=1e-9)


def test_everything_else_is_asked_of_a_large_grid(large, tmp_path):
    n, rng = 100_000, np.random.default_rng(6)
    people = {name: rng.integers(0, 40 if name < "c" else 4, n) for name in "abc"}
    reports = large.randomize(people, randomness=Randomness.seeded(9))
    tally, kept = large.tally(reports), large.tally(reports, keep=[("a", "b", "c")])
    kept.save(tmp_path / "large.totals")
    where = {"a": (10, 29), "b": (0, 19), "c": (0, 1)}
    for found in (tally, kept, large.tally(tmp_path / "large.totals")):
        answer = found.count(where)
        assert abs(answer.value - n / 8) < 6 * answer.stderr
        assert answer.stderr == pytest.approx(tally.count(where).stderr, rel=1e-6)
    mean = tally.mean("a", {"b": (0, 19)})
    assert abs(mean.value - 19.5) < 6 * mean.stderr
    median = tally.quantile("a", 0.5, {"b": (0, 19)})
    low, high = median.confidence_interval(0.999999)
    assert low <= 19.5 <= high
    histogram = tally.histogram("a", bins=4)
    assert [band for band, _ in histogram] == [(0, 10), (10, 20), (20, 30), (30, 40)]
    assert abs(sum(one.value for _, one in histogram) - n) < 1e-6 * n


def test_margins_may_be_asked_for_too():
    """Half of the weight on each attribute alone: their error falls."""
    attributes = {name: Integer(0, 7, epsilon=0.2, per=1) for name in "ab"}
    boxes = Survey.design(SurveySpec(attributes, joint={("a", "b"): "additive"}))
    shares = {"name": "additive", "workload": {"ranges": 1, "margins": 1}}
    both = Survey.design(SurveySpec(attributes, joint={("a", "b"): shares}))
    alone, box = {"a": (2, 4)}, {"a": (2, 4), "b": (1, 5)}
    assert (
        both.expected_error(alone, prior="uniform", n=1).stderr
        < 0.95 * boxes.expected_error(alone, prior="uniform", n=1).stderr
    )
    assert (
        both.expected_error(box, prior="uniform", n=1).stderr
        < 1.2 * boxes.expected_error(box, prior="uniform", n=1).stderr
    )
    margins = Survey.design(
        SurveySpec(attributes, joint={("a", "b"): {"name": "additive", "workload": "margins"}})
    )
    assert Survey.from_toml(margins.to_toml()) == margins


@pytest.mark.parametrize(
    ("workload", "why"),
    [
        ("mean", "a workload of several attributes together is ranges"),
        ({"ranges": 0}, "the share of 'ranges' is a number above 0, not 0"),
        ({}, r"not \{\}"),
        ({3: 1}, r"not \{3: 1\}"),
    ],
)
def test_workloads_of_blocks_that_mean_nothing(workload, why):
    attributes = {name: Integer(0, 3, epsilon=1, per=1) for name in "ab"}
    with pytest.raises(InvalidSpecError, match=why):
        Survey.design(
            SurveySpec(attributes, joint={("a", "b"): {"name": "additive", "workload": workload}})
        )


def test_few_cells_come_near_the_limit():
    """3 x 3 at 0.1 per step: no mechanism has less than 205.5, products of bits have 10,094."""
    grid = grid_of(3, 3, epsilon=Fraction(1, 10))
    lengths, patterns = best_noise(ranges(3, 3), grid)
    rows = Workload.product([Workload.all_ranges(3)] * 2).gram()
    mean_square = Torus(grid, lengths).channel(patterns).moments.mean_square(rows)
    assert 205.4 < (mean_square - np.trace(rows) / 9) / 36 < 1.3 * 205.5
