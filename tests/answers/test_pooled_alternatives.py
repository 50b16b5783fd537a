"""Pools answer conditions with alternatives, which a tally reads in several parts."""

import numpy as np
import pytest

from metricldp import Categorical, Continuous, Integer, QueryError, Survey, pool
from metricldp.answers.conditions import any_of, none_of
from metricldp.mechanisms.randomness import Randomness

N = 1000
AGES = {
    "integer": lambda epsilon: Integer(0, 99, epsilon=epsilon, within=20),
    "bins": lambda epsilon: Continuous(0, 100, bins=10, epsilon=epsilon, within=20),
    "rounded": lambda epsilon: Continuous(
        0, 100, rounding="stochastic", points=11, epsilon=epsilon, within=20
    ),
}
ALTERNATIVES = {
    "text": "region == 'x' or 30 <= age < 60",
    "any": any_of({"region": "x"}, {"age": (30, 60)}),
    "none": none_of(any_of({"region": "x"}, {"age": (60, None)})),
}


def tally_from(kind, epsilon, seed):
    attributes = {"age": AGES[kind](epsilon), "region": Categorical(["x", "y", "z"], epsilon=4)}
    survey = Survey.design(attributes)
    rng = np.random.default_rng(seed)
    people = {"age": rng.integers(0, 100, N), "region": rng.choice(["x", "y", "z"], N)}
    return survey.tally(survey.randomize(people, randomness=Randomness.seeded(seed)))


@pytest.fixture(params=AGES, scope="module")
def tallies(request):
    return [tally_from(request.param, epsilon, seed) for epsilon, seed in ((2, 1), (4, 2))]


@pytest.mark.parametrize("where", ALTERNATIVES)
def test_counts_and_sums_of_a_pool_are_added(tallies, where):
    condition = ALTERNATIVES[where]
    for query in (lambda t: t.count(condition), lambda t: t.sum("age", condition)):
        each, both = [query(tally) for tally in tallies], query(pool(tallies))
        assert both.value == pytest.approx(sum(one.value for one in each))
        assert both.stderr == pytest.approx(np.hypot(*[one.stderr for one in each]))
    share = pool(tallies).fraction(condition)
    assert share.value == pytest.approx(pool(tallies).count(condition).value / (2 * N))


@pytest.mark.parametrize("where", ALTERNATIVES)
def test_mean_of_a_pool_of_one_tally_is_that_of_the_tally(tallies, where):
    for tally in tallies:
        alone, pooled = (one.mean("age", ALTERNATIVES[where]) for one in (tally, pool([tally])))
        assert pooled.value == pytest.approx(alone.value)
        assert pooled.stderr == pytest.approx(alone.stderr, rel=1e-6)
        assert pooled.confidence_interval() == pytest.approx(alone.confidence_interval(), rel=1e-3)


@pytest.mark.parametrize("where", ALTERNATIVES)
def test_mean_of_a_pool_is_weighted_by_size(tallies, where):
    condition = ALTERNATIVES[where]
    means = [tally.mean("age", condition) for tally in tallies]
    sizes = np.array([tally.count(condition).value for tally in tallies])
    pooled = pool(tallies).mean("age", condition)
    assert pooled.value == pytest.approx(np.average([one.value for one in means], weights=sizes))
    errors = sizes * [one.stderr for one in means]
    assert pooled.stderr == pytest.approx(np.hypot(*errors) / sizes.sum(), rel=0.1)


def test_histogram_of_a_pool_is_added(tallies):
    condition = "age < 30 or age >= 60"
    table = pool(tallies).histogram("region", condition)
    each = [tally.histogram("region", condition) for tally in tallies]
    for label in ("x", "y", "z"):
        assert table[label].value == pytest.approx(sum(one[label].value for one in each))


def test_alternatives_with_different_meanings_are_rejected():
    coarse = Survey.design(
        {
            "age": Integer(0, 49, epsilon=1, within=20),
            "region": Categorical(["x", "y", "z"], epsilon=4),
        }
    )
    people = {"age": np.arange(N) % 50, "region": ["x"] * N}
    other = coarse.tally(coarse.randomize(people, randomness=Randomness.seeded(3)))
    both = pool([tally_from("integer", 1, 1), other])
    with pytest.raises(QueryError, match=r"age means 40 to 60 in .* and 40 to 49 in"):
        both.count(any_of({"region": "x"}, {"age": (40, 60)}))
