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
    QueryError,
    Survey,
    SurveySpec,
    pool,
)
from metricldp.answers.together import added
from metricldp.mechanisms.randomness import seeded

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
