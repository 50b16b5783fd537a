"""Several tallies as one, and people who do not exist."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from metricldp import (
    Categorical,
    Continuous,
    Integer,
    Ordinal,
    QueryError,
    Survey,
    SurveySpec,
    pool,
)
from metricldp.answers.fits import SYNTHETIC, WARNING
from metricldp.answers.together import added
from metricldp.coins.stream import seeded

SIZES = (30_000, 10_000)


def survey(epsilon, **more):
    return Survey.design(
        {
            "age": Integer(0, 59, epsilon=epsilon, mechanism="geometric", per=1),
            "town": Categorical(["a", "b"], epsilon=2),
            **more,
        }
    )


def people(n, middle, seed):
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(middle, 7, n), 0, 59).astype(int)
    return {"age": age, "town": rng.choice(["a", "b"], n, p=[0.7, 0.3])}


def tallies(middles=(25, 25), seed=1, **more):
    found = []
    for place, (n, epsilon) in enumerate(zip(SIZES, (0.15, 0.6), strict=True)):
        agreed = survey(epsilon, **more)
        said = people(n, middles[place], seed + place)
        found.append(agreed.tally(agreed.randomize(said, randomness=seeded(seed + place))))
    return found


@pytest.fixture(scope="module")
def both():
    return tallies()


@pytest.fixture(scope="module")
def fit(both):
    return pool(both).fit_distribution(["age", "town"])


def test_answers_are_about_all_people(both, fit):
    assert fit.n == sum(SIZES)
    assert fit.shares.shape == (60, 2)
    assert fit.count().value == pytest.approx(sum(SIZES))
    where = {"age": (20, 29), "town": "a"}
    found, unbiased = fit.count(where), [tally.count(where) for tally in both]
    assert found.unbiased.value == pytest.approx(sum(one.value for one in unbiased))
    assert found.stderr == pytest.approx(math.hypot(*(one.stderr for one in unbiased)))
    low, high = found.confidence_interval(method="normal")
    assert low < found.unbiased.value < high
    assert fit.mean("age", {"town": "b"}).value == pytest.approx(25, abs=2)
    assert fit.sum("age").value == pytest.approx(fit.mean("age").value * fit.n)
    bars = fit.histogram("town")
    assert bars.values.sum() == pytest.approx(sum(SIZES))
    assert fit.quantile("age", 0.5).value == pytest.approx(24, abs=2)
    lines = fit.workload("town", "values")
    assert lines.values == pytest.approx(bars.values)


def test_means_are_of_both_sums(both):
    one, two = (tally.mean("age") for tally in both)
    found = pool(both).mean("age")
    assert found.value == pytest.approx((3 * one.value + two.value) / 4)
    assert found.stderr == pytest.approx(math.hypot(0.75 * one.stderr, 0.25 * two.stderr))
    low, high = found.confidence_interval()
    assert low < found.value < high
    alone = added([one])
    assert alone.value == pytest.approx(one.value)
    assert alone.confidence_interval() == pytest.approx(one.confidence_interval())


def test_values_in_bins_are_added_at_both_edges():
    agreed = Survey.design({"x": Continuous(0, 10, bins=5, epsilon=2, per=1)})
    both = [
        agreed.tally(agreed.randomize({"x": np.full(2000, v)}, randomness=seeded(v)))
        for v in (3, 8)
    ]
    found = pool(both).sum("x")
    edges = [tally.sum("x").between for tally in both]
    assert [e.value for e in found.between] == pytest.approx(
        [edges[0][k].value + edges[1][k].value for k in (0, 1)]
    )


def test_groups_that_differ_are_not_made_alike():
    """Where all are alike the pooled fit is best; where not, it would be far off.

    The limits are a quarter of what is at stake, 20 standard errors of an unbiased answer or more.
    """
    where = {"age": (0, 24)}
    for middles in ((25, 25), (20, 40)):
        both = tallies(middles)
        truth = sum(
            (people(n, middle, 1 + place)["age"] <= 24).sum()
            for place, (n, middle) in enumerate(zip(SIZES, middles, strict=True))
        )
        found = pool(both).fit_distribution(["age"]).count(where).value
        assert abs(found - truth) < 1500


def test_surveys_may_have_their_attributes_in_another_order(both, fit):
    second = both[1]
    turned = Survey.design({name: second.survey.attributes[name] for name in ("town", "age")})
    table = second.store.table
    columns = ["town=report", "age=report"]
    again = turned.tally(
        pa.table({name: table[name] for name in columns}).cast(
            pa.schema([table.schema.field(name) for name in columns])
        ),
        fingerprint=turned.fingerprint,
    )
    found = pool([both[0], again]).fit_distribution(["age", "town"])
    np.testing.assert_allclose(found.shares, fit.shares, atol=2e-3)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda b: pool([]), "there is none"),
        (lambda b: pool(b[0]), "a list of tallies, not <Tally"),
        (lambda b: pool([b[0], 3]), "tally 2 of pool is 3, not a tally"),
        (lambda b: pool([b[0], b[0]]), "1 and 2 have reports in common"),
        (lambda b: pool(b).fit_distribution(["aeg"]), "no attribute 'aeg'"),
        (
            lambda b: pool(
                [b[0], b[1].survey.tally(b[1].store.table.slice(0, 0))]
            ).fit_distribution("age"),
            "tally 2 of the pool has no reports",
        ),
    ],
)
def test_what_cannot_be_fitted_together_is_refused(both, ask, words):
    with pytest.raises(QueryError, match=words):
        ask(both)


def test_other_values_and_many_attributes_are_refused(both):
    other = Survey.design(
        {"age": Integer(0, 79, epsilon=1, per=1), "town": Categorical(["a", "b"], epsilon=2)}
    )
    second = other.tally(other.randomize(people(100, 25, 3), randomness=seeded(3)))
    with pytest.raises(QueryError, match="age has other values in tally 2 than in tally 1"):
        pool([both[0], second]).fit_distribution(["age"])
    names = {name: Integer(0, 2, epsilon=1, per=1) for name in "wxyz"}
    wide = Survey.design(names)
    tally = wide.tally(wide.randomize({name: [0, 1, 2] for name in names}, randomness=seeded(4)))
    with pytest.raises(QueryError, match="at most 3 attributes, not 4"):
        pool([tally]).fit_distribution(list(names))
    joint = Survey.design(
        SurveySpec(
            {"x": Integer(0, 2, epsilon=1, per=1), "y": Integer(0, 2, epsilon=1, per=1)},
            joint=[["x", "y"]],
        )
    )
    apart = Survey.design(
        {"x": Integer(0, 2, epsilon=1, per=1), "y": Integer(0, 2, epsilon=1, per=1)}
    )
    said = {"x": [0, 1, 2], "y": [0, 0, 1]}
    pair = [s.tally(s.randomize(said, randomness=seeded(5))) for s in (joint, apart)]
    with pytest.raises(QueryError, match="tally 2 has other groups than tally 1"):
        pool(pair).fit_distribution(["x", "y"])


# People who do not exist


def test_a_sample_is_a_table_in_the_words_of_the_attributes():
    agreed = Survey.design(
        {
            "age": Integer(18, 49, epsilon=1, per=1),
            "income": Continuous(0, 100, bins=10, epsilon=1, per=10),
            "mood": Ordinal(["bad", "good"], epsilon=2),
            "maybe": Integer(0, 3, epsilon=2, optional=3, per=1),
            "speed": Continuous(0, 1, points=3, epsilon=2, rounding="stochastic", per=1),
        }
    )
    rng = np.random.default_rng(1)
    n = 5000
    said = {
        "age": rng.integers(18, 50, n),
        "income": rng.uniform(0, 50, n),
        "mood": rng.choice(["bad", "good"], n),
        "maybe": [None if k % 2 else 3 for k in range(n)],
        "speed": rng.random(n),
    }
    tally = agreed.tally(agreed.randomize(said, randomness=seeded(2)))
    fit = tally.fit_distribution(["age", "income", "mood"])
    drawn = fit.sample(40_000)
    assert drawn.num_rows == 40_000
    assert drawn.column_names == ["age", "income", "mood"]
    assert drawn.schema.metadata == {SYNTHETIC.encode(): WARNING.encode()}
    assert drawn.equals(fit.sample(40_000))
    assert not drawn.equals(fit.sample(40_000, seed=2))
    assert set(drawn["mood"].to_pylist()) == {"bad", "good"}
    ages, incomes = (drawn[name].to_numpy() for name in ("age", "income"))
    assert ages.dtype.kind == "i"
    assert ages.min() >= 18
    assert ages.max() <= 49
    assert len(np.unique(incomes)) > 1000
    assert incomes.max() <= 100
    # Counts of a sample are binomial; six standard errors are left with probability 2e-9.
    share = fit.fraction({"age": (18, 29)}).value
    assert abs((ages <= 29).mean() - share) < 6 * math.sqrt(share * (1 - share) / 40_000)
    # It can be blurred like people.
    assert agreed.attributes["age"].positions(ages).max() == 31
    optional = tally.fit_distribution(["maybe", "speed"]).sample(2000)
    assert optional.column_names == ["maybe", "speed"]
    assert 600 < optional["maybe"].null_count < 1400
    assert set(optional["speed"].to_pylist()) <= {0.0, 0.5, 1.0}


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "3", None, True])
def test_a_sample_of_no_whole_number_is_refused(fit, wrong):
    with pytest.raises(QueryError, match="a whole number of people, at least 1, not"):
        fit.sample(wrong)
    with pytest.raises(QueryError, match="a seed is a whole number"):
        fit.sample(1, seed=-1)
