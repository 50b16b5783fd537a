"""The search for patterns over the cells of a grid: what it minimises, and what it keeps."""

from fractions import Fraction

import numpy as np
import pytest

from checks import prove
from metricldp import Integer, InvalidSpecError, Randomness, Survey, SurveySpec
from metricldp.mechanisms import annealing, torus
from metricldp.mechanisms.additive_search import ring_spectrum
from metricldp.mechanisms.annealing import annealed
from metricldp.mechanisms.base import Problem
from metricldp.mechanisms.stated import cell_workload
from metricldp.mechanisms.torus import CellWorkload, Torus, best_torus, in_units
from metricldp.metrics import Line
from metricldp.metrics.grid import summed


def grid_of(*sizes, epsilon=Fraction(1, 2)):
    return in_units(summed([Line(epsilon)] * len(sizes), sizes))


def ranges(*sizes):
    return cell_workload(Problem(sizes, grid_of(*sizes), (True,) * len(sizes)))


def keeps_the_metric(torus, depths):
    channel = torus.channel(depths).one
    return all(pair.holds for pair in prove(channel, torus.grid))


def objective(heights, unit, spectrum):
    q = np.exp(unit * (heights - heights.max()))
    q /= q.sum(axis=1, keepdims=True)
    return float((spectrum / (np.abs(np.fft.rfft(q)) ** 2).mean(axis=0)).sum())


def test_the_spectrum_of_products_is_that_of_their_gram_matrix():
    asked, made = ranges(3, 4), Torus(grid_of(3, 4), (5, 6))
    expected = ring_spectrum(asked.gram(), made.around, made.places)
    assert np.allclose(asked.spectrum(made), expected, rtol=1e-12, atol=1e-9)
    whole = CellWorkload(whole=asked.gram())
    assert np.allclose(whole.spectrum(made), expected, rtol=1e-12)


def test_slopes_and_curves_are_those_of_the_objective():
    made, rng = Torus(grid_of(3, 4), (5, 6)), np.random.default_rng(1)
    heights, spectrum = rng.integers(-3, 1, (2, 30)), ranges(3, 4).spectrum(made)
    state = annealing._State.of(heights, 0.5, spectrum)
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
@pytest.mark.parametrize("start", ["sums", "boxes"])
def test_a_search_keeps_the_metric_and_helps(sizes, start):
    grid = grid_of(*sizes)
    made = Torus(grid, tuple(n + 2 for n in sizes))
    spectrum = ranges(*sizes).spectrum(made)
    heights = getattr(made, start)(4)
    unit = float(grid.step)
    found, reached = annealed(heights, unit, spectrum, made.bounds(), rounds=60)
    for each in (heights, found):
        assert keeps_the_metric(made, torus._below_top(each))
    assert reached == pytest.approx(objective(found, unit, spectrum), rel=1e-9)
    assert reached < 0.8 * objective(heights, unit, spectrum)


def test_a_cap_of_every_attribute_and_one_of_all_are_kept():
    for capped, cap in ((Integer(0, 5, epsilon=1, within=1, max_epsilon=2), torus._UNBOUNDED),):
        grid = in_units(summed([capped.distances] * 2, (6, 6)))
        made = Torus(grid, (8, 8))
        assert made.cap == cap
        found, _ = annealed(
            made.sums(2), float(grid.step), ranges(6, 6).spectrum(made), made.bounds(), rounds=40
        )
        assert keeps_the_metric(made, torus._below_top(found))


def test_no_places_are_added_around_a_circle_or_between_categories():
    hours, ages = Integer(0, 5, epsilon=1, cyclic=True, per=1), Integer(0, 5, epsilon=1, per=1)
    grid = in_units(summed([hours.distances, ages.distances], (6, 6)))
    assert next(torus._lengths(grid, (1.0,))) == (6, 7)


def test_lengths_are_quickly_transformed():
    assert [torus._smooth(n) for n in (1, 11, 97, 105, 121)] == [4, 12, 100, 108, 128]


@pytest.fixture(scope="module")
def large():
    """More cells than are solved for, from a short search."""
    ages = Integer(0, 39, epsilon=0.5, within=4)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torus, "ROUNDS", 40)
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
        ({}, "not empty"),
        ({3: 1}, "not 3"),
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
    lengths, patterns = best_torus(ranges(3, 3), grid)
    made = Torus(grid, lengths).channel(patterns).one
    rows = ranges(3, 3).gram()
    variance = made.moments.mean_square(rows) - np.trace(rows) / 9
    assert 205.4 < variance < 1.3 * 205.5
