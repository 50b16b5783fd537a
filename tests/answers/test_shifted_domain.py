"""Means and sums of values that are large beside their spread, such as seconds since 1970.

The same reports are read in a survey whose domain starts at 0 and in one that is shifted. All
results have to be equal up to the shift and the rounding of numbers of this size.
"""

import numpy as np
import pytest

from metricldp import Categorical, Continuous, Integer, Survey, pool
from metricldp.mechanisms.randomness import Randomness

SHIFT = 1_700_000_000
ROUNDING = 1e-5
"""Floats near the shift are 2.4e-7 apart; an interval is a few operations on them."""
N = 400

TIMES = {
    "integer": lambda low: Integer(low, low + 9, epsilon=1, per=1),
    "optional": lambda low: Integer(low, low + 9, epsilon=1, per=1, optional=True),
    "bins": lambda low: Continuous(low, low + 10, bins=5, epsilon=1, per=1),
    "rounded": lambda low: Continuous(
        low, low + 9, rounding="stochastic", points=10, epsilon=1, per=1
    ),
}
WHERE = {
    "everybody": lambda low: None,
    "group": lambda low: {"group": "a"},
    "range": lambda low: {"time": (low + 2, low + 6)},
    "alternatives": lambda low: f"group == 'a' or {low + 4} <= time < {low + 8}",
}


def survey_from(low, kind, epsilon=2):
    categorical = Categorical(["a", "b", "c"], epsilon=epsilon)
    return Survey.design({"time": TIMES[kind](low), "group": categorical})


def both_tallies(kind, seed=1, epsilon=2):
    """Return tallies of the same reports, with a domain from 0 and with a shifted one."""
    plain, shifted = (survey_from(low, kind, epsilon) for low in (0, SHIFT))
    rng = np.random.default_rng(seed)
    data = {"time": rng.integers(0, 10, N), "group": rng.choice(["a", "b", "c"], N)}
    reports = plain.randomize(data, randomness=Randomness.seeded(seed))
    unmarked = reports.replace_schema_metadata(None)
    return plain.tally(reports), shifted.tally(unmarked, fingerprint=shifted.fingerprint)


def check_shifted(before, after, shift=SHIFT, tolerance=ROUNDING):
    """Compare two estimates; the second one is of values that are larger by the shift."""
    assert 0 < before.stderr < np.inf
    assert after.stderr == pytest.approx(before.stderr, rel=1e-6)
    assert after.value - shift == pytest.approx(before.value, abs=tolerance)
    for how in ({}, {"confidence_level": 0.6}, {"anytime": True}):
        ends = np.array(before.confidence_interval(**how))
        moved = np.array(after.confidence_interval(**how)) - shift
        assert moved == pytest.approx(ends, abs=tolerance)


@pytest.mark.parametrize("target", ["respondents", "population"])
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("kind", TIMES)
def test_mean_and_its_intervals_move_with_the_domain(kind, where, target):
    tallies = zip(both_tallies(kind), (0, SHIFT), strict=True)
    means = [tally.mean("time", WHERE[where](low), target=target) for tally, low in tallies]
    check_shifted(*means)


@pytest.mark.parametrize("kind", TIMES)
def test_poisoning_bounds_of_a_mean_move_with_the_domain(kind):
    before, after = (tally.mean("time", {"group": "a"}) for tally in both_tallies(kind))
    moved = np.array(after.poisoning_bounds(3)) - SHIFT
    assert moved == pytest.approx(np.array(before.poisoning_bounds(3)), abs=ROUNDING)


@pytest.mark.parametrize("kind", TIMES)
def test_a_multiple_of_a_mean_moves_with_the_domain(kind):
    before, after = (tally.mean("time", {"group": "a"}) for tally in both_tallies(kind))
    check_shifted(-0.5 * before, -0.5 * after, -0.5 * SHIFT)


@pytest.mark.parametrize("where", [None, {"group": "a"}])
@pytest.mark.parametrize("kind", TIMES)
def test_mean_of_a_pool_moves_with_the_domain(kind, where):
    groups = [both_tallies(kind, seed, epsilon) for seed, epsilon in ((1, 2), (2, 3))]
    before, after = (pool(tallies).mean("time", where) for tallies in zip(*groups, strict=True))
    check_shifted(before, after)


def test_mean_of_a_pool_of_different_domains_moves_with_them():
    def pooled(low, order):
        tallies = []
        for least in (0, 5):
            time = Integer(low + least, low + 9, epsilon=1, per=1)
            survey = Survey.design({"time": time, "group": Categorical(["a", "b"], epsilon=2)})
            people = {"time": low + least + np.arange(N) % 5, "group": ["a", "b"] * (N // 2)}
            reports = survey.randomize(people, randomness=Randomness.seeded(least))
            tallies.append(survey.tally(reports))
        return pool(tallies[::order]).mean("time", {"group": "a"})

    before = pooled(0, order=1)
    assert before.denominator_variance > 0
    check_shifted(before, pooled(SHIFT, order=1))
    check_shifted(before, pooled(0, order=-1), 0)
    check_shifted(before, pooled(SHIFT, order=-1))


@pytest.mark.parametrize("target", ["respondents", "population"])
@pytest.mark.parametrize("kind", ["integer", "bins", "rounded"])
def test_sum_over_everybody_moves_with_the_domain(kind, target):
    before, after = (tally.sum("time", target=target) for tally in both_tallies(kind))
    check_shifted(before, after, N * SHIFT, tolerance=2.0)


def test_interval_of_a_mean_of_large_values_covers_the_truth():
    """Of 60 intervals of level 95% at least 50 cover; fewer have a probability of 2e-4."""
    survey = survey_from(SHIFT, "integer")
    values = SHIFT + np.arange(N) % 10
    people = {"time": values, "group": ["a", "b", "c", "a"] * (N // 4)}
    covered = 0
    for seed in range(60):
        tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(seed)))
        mean = tally.mean("time")
        assert 0.05 < mean.stderr < 0.1
        low, high = mean.confidence_interval()
        covered += low <= values.mean() <= high
    assert covered >= 50
