"""Liars: the worst lies are really sent, and no answer moves farther than its bound."""

from itertools import product

import numpy as np
import pytest

from metricldp import (
    Categorical,
    Continuous,
    Integer,
    QueryError,
    Randomness,
    Survey,
    SurveySpec,
    Weight,
)
from metricldp.answers.liars import one_report
from metricldp.reports.bytes import pack, unpack

pytestmark = pytest.mark.filterwarnings("ignore::metricldp.SeededRandomnessWarning")
EVERY = (
    *("geometric", "threshold", "randomized-response", "unary"),
    *("threshold-paper", "subset", "hadamard"),
)


def tally_of(survey, people, seed=1):
    reports = pack(survey, survey.randomize(people, randomness=Randomness.seeded(seed)))
    return list(reports)


def every_report(survey):
    """All bytes that a collector takes, of a tiny survey."""
    blobs = []
    start = pack(survey, survey.randomize(_anybody(survey), randomness=Randomness.seeded(3)))[0][
        :17
    ]
    for number in range(1 << survey.report_bits):
        body = number.to_bytes(-(-survey.report_bits // 8), "little")
        blob = start + body
        try:
            unpack(survey, [blob])
        except Exception:
            continue
        blobs.append(blob)
    return blobs


def _anybody(survey):
    return {name: [a.values_at(0)[0]] for name, a in survey.attributes.items()}


def moved(survey, honest, ask, liars):
    """The answers after every choice of one lie for all liars, which replace the first reports."""
    return [ask(survey.tally([lie] * liars + honest[liars:])) for lie in every_report(survey)]


@pytest.mark.parametrize("mechanism", EVERY)
def test_a_count_moves_by_its_bound_and_no_more(mechanism):
    """The honest reports are those that the worst lies move farthest: then it is attained."""
    survey = Survey.design({"x": Integer(0, 4, epsilon=1, mechanism=mechanism, per=1)})
    blobs, liars, ask = every_report(survey), 3, lambda tally: float(tally.count({"x": (1, 2)}))
    alone = {blob: ask(survey.tally([blob])) for blob in blobs}
    least, most = min(alone, key=alone.get), max(alone, key=alone.get)
    honest = [least] * 8
    answer = survey.tally(honest).count({"x": (1, 2)})
    low, high = answer.poisoning_bounds(liars)
    lied = moved(survey, honest, ask, liars)
    assert max(lied) <= high + 1e-9
    assert min(lied) >= low - 1e-9
    assert max(lied) == pytest.approx(high, rel=1e-9)
    down = survey.tally([most] * 8).count({"x": (1, 2)})
    assert min(moved(survey, [most] * 8, ask, liars)) == pytest.approx(
        down.poisoning_bounds(liars)[0]
    )
    assert answer.poisoning_bounds(0) == (answer.value, answer.value)


def three():
    return Survey.design(
        {
            "x": Integer(0, 3, epsilon=1, mechanism="geometric", per=1),
            "y": Categorical(["a", "b", "c"], epsilon=2, mechanism="randomized-response"),
        }
    )


PEOPLE = {"x": [0, 1, 1, 2, 3, 3, 2, 1] * 5, "y": list("abcabcab") * 5}


@pytest.mark.parametrize(
    "ask",
    [
        lambda tally: tally.count({"x": (0, 1), "y": "a"}),
        lambda tally: tally.fraction({"x": (2, 3)}),
        lambda tally: tally.sum("x"),
        lambda tally: tally.sum("x", {"y": ["a", "b"]}),
        lambda tally: tally.mean("x"),
        lambda tally: tally.mean("x", {"y": ["a", "b"]}),
        lambda tally: tally.histogram("x")[2],
        lambda tally: tally.workload("x", "ranges", {"y": "a"}).iloc[3],
        lambda tally: tally.counts([{"y": "b"}]).iloc[0],
    ],
)
def test_no_lies_reach_beyond_the_bound(ask):
    """Two surveys of the same people, one with lies: each lies within the other's band."""
    survey, liars = three(), 2
    honest = tally_of(survey, PEOPLE)
    low, high = ask(survey.tally(honest)).poisoning_bounds(liars)
    lied = [float(one) for one in moved(survey, honest, ask, liars)]
    assert low - 1e-9 <= min(lied) <= max(lied) <= high + 1e-9
    assert max(lied) - min(lied) > (high - low) / 8, "the bound says something"


def test_a_group_that_lies_can_empty_has_any_mean():
    survey = three()
    tally = survey.tally(tally_of(survey, PEOPLE))
    assert tally.mean("x", {"y": "a"}).poisoning_bounds(40) == (0.0, 3.0)
    low, high = tally.mean("x", {"y": "a"}).scaled(-2, "half").poisoning_bounds(40)
    assert (low, high) == (-6.0, 0.0)
    low, high = tally.mean("x", {"y": "a"}).poisoning_bounds(1)
    assert 0 < low < high < 3
    twice = tally.mean("x", {"y": "a"}).scaled(-2, "half").poisoning_bounds(1)
    assert twice == pytest.approx((-2 * high, -2 * low))


@pytest.mark.parametrize("method", ["isotonic", "binary-search"])
@pytest.mark.parametrize("where", [None, {"y": ["a", "b"]}])
def test_quantiles_and_distribution_functions_stay_within(where, method):
    survey, liars = three(), 3
    honest = tally_of(survey, PEOPLE, seed=4)
    tally = survey.tally(honest)
    low, high = tally.quantiles("x", [0.5], where, method=method)[0].poisoning_bounds(liars)
    below, above = tally.cdf("x", where).poisoning_bounds(liars)
    for lie in every_report(survey):
        lied = survey.tally([lie] * liars + honest[liars:])
        (median,) = lied.quantiles("x", [0.5], where, method=method)
        assert low <= median.value <= high
        values = lied.cdf("x", where).values
        assert (below - 1e-9 <= values).all()
        assert (values <= above + 1e-9).all()
    assert (above - below).max() > 0


def test_weights_and_blocks():
    weighted = Survey.design(
        {"x": Integer(0, 2, epsilon=1, mechanism="geometric", per=1), "w": Weight(0.5, 2)},
    )
    people = {"x": [0, 1, 2, 2] * 5, "w": [0.5, 1, 1.5, 2] * 5}
    tally = weighted.tally(weighted.randomize(people, randomness=Randomness.seeded(1)))
    answer = tally.sum("w", {"x": (0, 1)})
    ends = weighted.channels["x"].moments.output_range(np.array([1.0, 1, 0]))
    low, high = answer.poisoning_bounds(1)
    assert high - answer.value == pytest.approx(2 * (ends[1] - ends[0]))
    assert low == pytest.approx(2 * answer.value - high)
    block = Survey.design(
        SurveySpec(
            {"a": Integer(0, 2, epsilon=1, per=1), "b": Integer(0, 2, epsilon=1, per=1)},
            joint={("a", "b"): "tight-constraints"},
        )
    )
    blobs = every_report(block)
    alone = [float(block.tally([blob]).count({"a": (0, 1), "b": 2})) for blob in blobs]
    query = {"a": np.array([1.0, 1, 0]), "b": np.array([0, 0, 1.0])}
    assert one_report(block, query) == pytest.approx((min(alone), max(alone)))
    plane = Survey.design(
        SurveySpec(
            {"a": Integer(0, 2, epsilon=1, per=1), "b": Integer(0, 2, epsilon=1, per=1)},
            joint={("a", "b"): "hio"},
        )
    )
    least, most = one_report(plane, query)
    alone = [
        float(plane.tally([blob]).count({"a": (0, 1), "b": 2})) for blob in every_report(plane)
    ]
    assert least <= min(alone) + 1e-9
    assert most >= max(alone) - 1e-9


def test_private_weights_and_bins():
    survey = Survey.design(
        {
            "x": Continuous(0, 3, bins=3, epsilon=1, mechanism="geometric", per=1),
            "w": Weight(1, 2, private=True, epsilon=1),
        }
    )
    people = {"x": [0.5, 1.5, 2.5, 2.9] * 5, "w": [1, 2, 1.5, 1.2] * 5}
    honest = tally_of(survey, people)
    for ask in (lambda t: t.sum("w", {"x": (0, 2)}), lambda t: t.sum("x"), lambda t: t.mean("x")):
        low, high = ask(survey.tally(honest)).poisoning_bounds(2)
        lied = [float(one) for one in moved(survey, honest, ask, 2)]
        assert low - 1e-9 <= min(lied) <= max(lied) <= high + 1e-9


def test_what_has_no_bound_says_so():
    survey = three()
    tally = survey.tally(tally_of(survey, PEOPLE))
    with pytest.raises(QueryError, match="no poisoning bounds are known for a fitted distribution"):
        tally.fit_distribution("x").count({"x": 1}).poisoning_bounds(3)
    for liars in (-1, 1.5, "3", None):
        with pytest.raises(QueryError, match="malicious is a number of reports"):
            tally.count({"x": 1}).poisoning_bounds(liars)


def test_all_ends_are_those_of_all_reports():
    """For every mechanism whose reports can be listed, against values of all of them."""
    rng = np.random.default_rng(3)
    for mechanism, size in product(
        (*EVERY, "haar", "additive", "tight-constraints", "hierarchy-2-unary"), (3, 4)
    ):
        survey = Survey.design({"x": Integer(0, size - 1, epsilon=1, mechanism=mechanism, per=1)})
        channel, function = survey.channels["x"], rng.normal(size=size)
        reports = channel.every_report()
        values = channel.values(reports, channel.moments.coefficients(function[None]))[0]
        low, high = channel.moments.output_range(function)
        assert low <= values.min() + 1e-9, mechanism
        assert high >= values.max() - 1e-9, mechanism
        if mechanism != "haar":
            assert (low, high) == pytest.approx((values.min(), values.max()), abs=1e-9), mechanism


def test_printed_bounds_are_rounded():
    survey = Survey.design({"x": Integer(0, 9, epsilon=1, mechanism="geometric", per=1)})
    people = {"x": np.arange(5000) % 10}
    tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(1)))
    count = tally.count("x <= 1")
    low, high = bounds = count.poisoning_bounds(malicious=400)
    assert low < 0 and low != round(low, 3), "the unbiased estimate is not limited to 0"
    assert str(bounds) == f"{low:,.0f} to {high:,.0f}"
    assert str(tally.quantile("x").poisoning_bounds(0)) == "5 to 5"
    assert str(tally.fraction("x <= 1").confidence_interval()) == str(
        tally.fraction("x <= 1")
    ).partition("CI ")[2].removesuffix(")")
    assert str(tally.count().confidence_interval()) == "5000 to 5000"
