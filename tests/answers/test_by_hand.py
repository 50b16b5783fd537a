"""Answers from sums that are written down: every number can be checked with a pencil."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from metricldp import (
    Categorical,
    Continuous,
    Integer,
    Ordinal,
    QueryError,
    Randomness,
    Survey,
    Weight,
)
from metricldp.answers import estimate, searches
from metricldp.answers.answer import Estimate, normal_reach
from metricldp.answers.group import Group
from metricldp.answers.queries import parse
from metricldp.answers.ratio import Excess
from metricldp.store.readings import Extremes

ASKED = ("the question", ("a note",))


# Sums


def count(value=4.0, second=7.0, square=3.0, bounds=(0.5, 2.0), steps=(0, 3, 1.5, 0.25), **more):
    return estimate.to_answer(
        value, second, square, bounds, Extremes(*steps), 4, ASKED, layout="cells", **more
    )


def test_a_count_of_those_who_reported():
    found = count()
    assert (found.value, found.variance) == (4, 7 - 3)
    assert (found.question, found.notes) == ASKED
    assert (found.unit, found.target, found.layout) == ("people", "respondents", "cells")
    assert found.bounds == (3 * 2, 4 * 2)  # three people at the worst place, and all four there
    assert (found.jump, found.hidden) == (1.5, 0.25)
    assert (found.reports, found.one) == (4, 2)
    assert count(bounds=(1.75, 2.0)).bounds == (4 * 1.75, 4 * 2)


def test_a_count_of_a_population():
    """People are drawn as well: another variance, without an upper bound, in larger steps."""
    found = count(target="population")
    assert found.variance == (7 - 4**2 / 4) * 4 / 3
    assert found.bounds == (6, math.inf)
    assert (found.jump, found.hidden) == (3, 9)
    assert found.one == 2 + 9 / 4  # the most is half of them at each end
    narrow = count(steps=(0, 0.25, 1.5, 0.25), target="population")
    assert (narrow.jump, narrow.hidden) == (1.5, 0.25)
    # However little one person adds, being drawn or not adds more; where nothing is uncertain,
    # as of everybody's number, it adds nothing.
    assert count(bounds=(0, 0.1), target="population").bounds == (3 * 0.1, math.inf)
    sure = count(second=3.0, bounds=(0, 0), target="population")
    assert (sure.variance, sure.bounds, sure.stderr) == (0, (0, 0), 0)


def test_the_variance_of_people_who_are_drawn():
    """n times the variance of one draw, with n - 1 below; of one person nothing is known."""
    values, others = np.array([1.0, 4.0, 4.0, 7.0]), np.array([2.0, 2.0, 3.0, 9.0])
    both = float(values @ others)
    assert estimate.drawn(16, float(values @ values), 4) == pytest.approx(4 * values.var(ddof=1))
    exact = 4 * np.cov(values, others)[0, 1]
    assert estimate.drawn(16, both, 4, 16) == pytest.approx(exact)
    assert estimate.drawn(2, 4, 2) == 2 * np.var([2, 0], ddof=1)
    assert estimate.drawn(5, 25, 1) == estimate.drawn(0, 0, 0) == math.inf


def test_three_people_may_go_unseen():
    """The least standard error is that of three people at the worst place; of fewer, of them."""
    survey = Survey.design(
        {"a": Integer(0, 9, epsilon=1, per=1), "b": Integer(0, 9, epsilon=1, per=1)}
    )
    where = {"a": (2, 5), "b": (0, 3)}
    for n, least in ((2, 2), (3, 3), (4, 3), (1000, 3)):
        people = {"a": np.arange(n) % 10, "b": np.arange(n) % 10}
        found = survey.tally(survey.randomize(people)).count(where)
        exact = [
            survey.expected_error(where, n=count, prior="worst").stderr ** 2 for count in (least, n)
        ]
        assert found.bounds == pytest.approx(exact)


def test_an_answer_knows_how_it_was_found():
    survey = Survey.design(
        {"a": Integer(0, 3, epsilon=1, per=1), "b": Categorical(["x", "y"], epsilon=1)}
    )
    reports = survey.randomize({"a": [0, 1, 2, 3] * 100, "b": ["x", "y"] * 200})
    where = {"a": (0, 1), "b": "x"}
    for layout in ("reports", "cells", "prefix"):
        tally = survey.tally(reports, layout=layout)
        assert tally.count(where).layout == layout
        assert tally.mean("a", {"b": "x"}).layout == layout


class Taken:
    """In place of readings: what one person adds comes by hand."""

    def pairs(self, *rows):
        return rows


def mean(monkeypatch, one=(0.0, 100.0), **sums):
    monkeypatch.setattr(estimate, "one_person", lambda pairs: one)
    target = sums.pop("target", "respondents")
    sums = {name: np.array([value]) for name, value in sums.items()}
    more = {"notes": ("a note",), "layout": "cells", "target": target, "possible": (-2.0, 4.0)}
    return estimate.to_ratio(sums, Taken(), 10, question="q", unit="years", centre=0.0, **more)


SUMS = {
    **{"numerator": 60.0, "numerator_second": 900.0, "numerator_square": 100.0},
    **{"denominator": 100.0, "denominator_second": 500.0, "denominator_square": 100.0},
    **{"both": 350.0, "product": 50.0},
}


def test_a_mean_by_hand(monkeypatch):
    found = mean(monkeypatch, **SUMS)
    assert found.value == 0.6
    assert (found.denominator, found.shared) == (100, 300)
    assert (found.numerator_variance, found.denominator_variance) == (800, 400)
    assert found.variance == pytest.approx((800 - 2 * 0.6 * 300 + 0.6**2 * 400) / 100**2)
    assert (found.question, found.unit, found.target) == ("q", "years", "respondents")
    assert (found.notes, found.layout) == (("a note",), "cells")
    assert (found.numerator, found.reports, found.ones) == (60, 10, (100, 100))
    # No covariance is larger than two variances allow.
    most = math.sqrt(800 * 400)
    assert mean(monkeypatch, **{**SUMS, "both": 950.0}).shared == most
    assert mean(monkeypatch, **{**SUMS, "both": -950.0}).shared == -most
    # Nor is a variance smaller than three people's at the worst place.
    few = mean(monkeypatch, one=(0.0, 300.0), **SUMS)
    assert (few.numerator_variance, few.denominator_variance) == (900, 900)
    # Of two sums without noise there is none.
    sure = {"numerator_second": 100.0, "denominator_second": 100.0, "both": 50.0}
    assert mean(monkeypatch, one=(0.0, 0.0), **{**SUMS, **sure}).variance == 0


def test_a_mean_of_a_population_by_hand(monkeypatch):
    found = mean(monkeypatch, **SUMS, target="population")
    assert found.target == "population"
    assert found.numerator_variance == pytest.approx((900 - 60**2 / 10) * 10 / 9)
    # 500 - 100^2 / 10 is below zero, three people at the worst place are not.
    assert found.denominator_variance == 300
    most = math.sqrt(found.numerator_variance * 300)
    assert found.shared == pytest.approx(max((350 - 60 * 100 / 10) * 10 / 9, -most))
    little = mean(monkeypatch, one=(0.0, 0.01), **SUMS, target="population")
    assert little.numerator_variance == pytest.approx((900 - 60**2 / 10) * 10 / 9)
    sure = mean(monkeypatch, one=(0.0, 0.0), **SUMS, target="population")
    assert (sure.numerator_variance, sure.denominator_variance) == (800, 400)


def test_of_a_group_that_is_not_clearly_above_zero_nothing_is_known(monkeypatch):
    """That is, by two standard errors: of no more than 8 ± 4 people, at any level."""
    for size, variance in ((8.1, 16), (11, 16), (0.5, 0)):
        own = {"denominator": size, "denominator_second": variance, "denominator_square": 0.0}
        found = mean(monkeypatch, one=(0.0, 0.0), **{**SUMS, **own})
        assert (found.clear, found.denominator, found.notes) == (True, size, ("a note",))
        assert found.value == 60 / size
    for size, variance, value in ((8, 16, 4.0), (7, 16, 4.0), (0, 0, 1.0), (-1, 0, 1.0)):
        people = {8: "8 people (SE 4)", 7: "7 people (SE 4)"}.get(size, "0 people (SE 0)")
        own = {"denominator": size, "denominator_second": variance, "denominator_square": 0.0}
        found = mean(monkeypatch, one=(0.0, 0.0), **{**SUMS, **own})
        assert (found.value, found.stderr, found.clear) == (value, math.inf, False)
        assert found.confidence_interval(0.1) == found.confidence_interval(0.95) == (-2, 4)
        assert f"estimated at {people}" in found.notes[1]
        steps = estimate.with_steps(found, Extremes(1.0, 5.0, 3.0, 8.0))
        divisor = abs(size) or 1
        assert (steps.jump, steps.hidden) == (3 / divisor, 8 / divisor**2)


def test_steps_of_a_mean(monkeypatch):
    found = mean(monkeypatch, **SUMS)
    steps = Extremes(1.0, 5.0, 3.0, 8.0)
    own = estimate.with_steps(found, steps)
    assert (own.jump, own.hidden) == (3 / 100, 8 / 100**2)
    drawn = estimate.with_steps(replace(found, target="population"), steps)
    assert (drawn.jump, drawn.hidden) == (4 / 100, 16 / 100**2)


def test_an_answer_is_about_respondents_or_a_population():
    survey = Survey.design(
        {
            "a": Integer(0, 3, epsilon=1, per=1),
            "w": Weight(0, 1),
            "v": Weight(0, 1, private=True, epsilon=1),
        }
    )
    tally = survey.tally(survey.randomize({name: [0, 1, 1, 0] for name in "awv"}))
    for ask in (
        tally.count,
        lambda target: tally.sum("a", target=target),
        lambda target: tally.sum("w", target=target),
        lambda target: tally.sum("v", target=target),
        lambda target: tally.mean("a", target=target),
        lambda target: tally.cdf("a", target=target),
        lambda target: tally.histogram("a", target=target),
    ):
        for wrong in ("nobody", None, ["population"], np.array(["population", "respondents"])):
            with pytest.raises(QueryError, match="target is 'respondents' or"):
                ask(target=wrong)
        ask(target="population")


def test_a_sum_of_weights_by_hand():
    sums = {name: np.array([value]) for name, value in SUMS_OF_WEIGHTS.items()}
    steps = Extremes(0, 3, 1.5, 0.25)
    how = {"unit": "w", "layout": "reports", "one": 2.0}
    found = estimate.to_weighted_sum(sums, (6.0, 8.0), steps, 4, ASKED, **how)
    assert (found.value, found.variance, found.bounds) == (4, 7 - 3, (6, 8))
    assert (found.question, found.notes) == ASKED
    assert (found.unit, found.target, found.layout) == ("w", "respondents", "reports")
    assert (found.jump, found.hidden) == (1.5, 0.25)
    assert (found.reports, found.one) == (4, 2)
    how["target"] = "population"
    found = estimate.to_weighted_sum(sums, (6.0, 8.0), steps, 4, ASKED, **how)
    assert (found.variance, found.bounds) == ((7 - 4**2 / 4) * 4 / 3, (6, math.inf))
    assert (found.jump, found.hidden) == (3, 9)


SUMS_OF_WEIGHTS = {"value": 4.0, "second": 7.0, "square": 3.0}


def test_the_largest_weights_may_go_unseen():
    """Weights count by their squares: here 10 of all of them, 7 of the three largest."""
    assert estimate.kept_between((1.0, 2.0), 10.0, 7.0) == (14, 20)
    assert estimate.kept_between((1.9, 2.0), 10.0, 7.0) == (19, 20)


def test_the_least_error_of_private_weights():
    """Three people at the worst place and weight, or everybody at the best, whichever is more."""
    survey = Survey.design(
        {"a": Integer(0, 3, epsilon=1, per=1), "w": Weight(-1, 4, private=True, epsilon=1.5)}
    )
    where = {"a": (1, 2)}
    one = [
        survey.expected_error(where, n=1, prior={"a": place}, weights={"w": [weight]}).stderr ** 2
        for place in np.eye(4)
        for weight in (-1, 4)
    ]
    for n in (2, 4, 1000):
        people = {"a": np.arange(n) % 4, "w": np.linspace(-1, 4, n)}
        found = survey.tally(survey.randomize(people)).sum("w", where)
        assert found.bounds == (pytest.approx(max(n * min(one), min(n, 3) * max(one))), math.inf)
        assert found.one == pytest.approx(max(one))


# Shares

SURVEY = Survey.design(
    {
        "a": Integer(10, 13, epsilon=1, per=1),
        "b": Categorical(["x", "y"], epsilon=1),
        "m": Ordinal(["low", "mid", "high"], epsilon=1),
        "c": Continuous(0, 8, bins=4, epsilon=1, per=1),
        "r": Continuous(0, 1, points=3, epsilon=1, rounding="stochastic", per=1),
    }
)


def group(where=None, name="a", n=100, literal=False):
    return Group(name, SURVEY.attributes[name], parse(SURVEY, where, name), n, literal)


def answers(*rows, target="respondents"):
    """Of values and variances."""
    return [Estimate(value, variance, target=target) for value, variance in rows]


def test_shares_of_everybody():
    """Prefixes are asked as 1[x <= k] - 1/2, whose sum is n / 2 less than the count."""
    asked = group()
    half = np.array(list(asked.functions()))
    assert half.tolist() == [
        [0.5, -0.5, -0.5, -0.5],
        [0.5, 0.5, -0.5, -0.5],
        [0.5, 0.5, 0.5, -0.5],
        [1, 1, 1, 1],
    ]
    assert asked.labels == ["a prefix"] * 3 + ["a"]
    parts = answers((-30, 16), (0, 25), (20, 36), (100, 0), target="population")
    parts[0] = replace(parts[0], jump=2.0, hidden=3.0, one=5.0)
    found = asked.to_cdf(parts)
    assert [point.value for point in found.points] == [0.2, 0.5, 0.7, 1]
    assert found.points[0].ones == (5, 0)
    plain = SimpleNamespace(raised=lambda *by: by)
    behind = {"bracket": plain, "lie": lambda: (1, 2), "reports": 7, "survey": SURVEY}
    first = asked.to_cdf([replace(parts[0], **behind), *parts[1:]]).points[0]
    assert (first.bracket, first.scale, first.reports) == (("a", 0.5), 1 / 100, 7)
    assert (first.lie(), first.survey) == ((1, 2), SURVEY)
    some = (
        group({"b": "x"})
        .to_cdf([replace(part, **behind) for part in answers(*[(9, 9)] * 7)])
        .points[0]
    )
    assert (some.bracket, some.lie, some.reports) == (None, None, 7)
    assert found.stderr.tolist() == [0.04, 0.05, 0.06, 0]
    assert (found.points[0].jump, found.points[0].hidden) == (2 / 100, 3 / 100**2)
    assert {point.target for point in found.points} == {"population"}
    assert {point.unit for point in found.points} == {"of the group"}
    assert [point.denominator for point in found.points] == [100, 100, 100, 1]
    assert (found.points[1].numerator_variance, found.points[1].denominator_variance) == (25, 0)
    assert found.points[1].shared == 0
    assert found.points[1].question == "a up to 11 among all respondents"
    assert found.labels == [10, 11, 12, 13]
    assert (found.ends, found.positions) == ((10, 11, 12, 13), (0, 1, 2, 3))


def test_the_papers_shares_of_everybody():
    """To the letter: prefixes as they are, and the last one estimated like any other."""
    asked = group(literal=True)
    assert np.array(list(asked.functions())).sum(axis=1).tolist() == [1, 2, 3, 4]
    found = asked.to_cdf(answers((20, 16), (50, 16), (70, 16), (104, 9)))
    assert [point.value for point in found.points] == [0.2, 0.5, 0.7, 1.04]
    assert found.stderr[-1] == 0.03


def test_shares_of_a_group_of_unknown_size():
    asked = group({"b": "x"})
    rows = np.array(list(asked.functions()))
    assert rows[:3].sum(axis=1).tolist() == [1, 2, 3]
    assert (rows[:3] + rows[3:6] == 1).all()
    assert (rows[6] == 1).all()
    assert asked.labels == ["a prefix"] * 6 + ["a"]
    below, above = [(10, 9), (20, 16), (30, 25)], [(30, 25), (20, 21), (10, 4)]
    parts = answers(*below, *above, (40, 36))
    parts[0] = replace(parts[0], jump=2.0, hidden=7.0)
    parts[3] = replace(parts[3], jump=3.0, hidden=5.0)
    parts[5] = replace(parts[5], jump=1.0, hidden=4.0)
    found = asked.to_cdf(parts)
    assert [point.value for point in found.points] == [0.25, 0.5, 0.75, 1]
    for point, (value, own), (_, rest) in zip(found.points[:3], below, above, strict=True):
        shared = (own + 36 - rest) / 2  # of Var(whole - part) = Var(whole) + Var(part) - 2 Cov
        assert (point.numerator_variance, point.denominator_variance) == (own, 36)
        assert (point.shared, point.denominator) == (shared, 40)
        share = value / 40
        exact = (own - 2 * share * shared + share**2 * 36) / 40**2
        assert point.variance == pytest.approx(exact)
    assert (found.points[0].jump, found.points[0].hidden) == (3 / 40, 7 / 40**2)
    assert (found.points[2].jump, found.points[2].hidden) == (1 / 40, 4 / 40**2)
    assert (found.points[3].value, found.points[3].stderr) == (1, 0)
    assert found.points[0].question == "a up to 10 among b x"
    literal = group({"b": "x"}, literal=True).to_cdf(parts)
    assert [point.value for point in literal.points] == [0.25, 0.5, 0.75, 1]
    assert literal.stderr[-1] == 0


def test_shares_of_a_group_that_the_attribute_cuts():
    """Only values that the group can have are asked for; the last of them is everybody in it."""
    asked = group({"a": [10, 12]})
    assert asked.positions.tolist() == [0, 2]
    assert [row.tolist() for row in asked.functions()] == [[1, 0, 0, 0], [0, 1, 1, 1], [1] * 4]
    found = asked.to_cdf(answers((10, 4), (30, 4), (40, 8)))
    assert (found.ends, found.positions) == ((10, 12), (0, 2))
    assert [point.value for point in found.points] == [0.25, 1]


def test_a_variance_of_a_share_is_never_below_zero():
    parts = answers((10, 9), (28, 4), (30, 25), (0, 49), (0, 0), (0, 4), (40, 9))
    found = group({"b": "x"}).to_cdf(parts)
    assert min(point.variance for point in found.points) == 0
    assert min(excess.variance for excess in found.excess(0.7)) == 0


def test_shares_of_a_group_that_is_not_clearly_above_zero_may_be_any():
    """By two standard errors, and this one is 4. The test of a quantile is a sum, and goes on."""
    for size in (8.1, 11):
        found = group({"b": "x"}).to_cdf(answers(*[(1, 1)] * 6, (size, 16)))
        assert found.points[0].value == pytest.approx(1 / size)
        assert not found.notes
    for size, people in ((8, "8"), (7, "7"), (0, "0"), (-3, "fewer than 5")):
        found = group({"b": "x"}).to_cdf(answers(*[(1, 1)] * 6, (size, 16)))
        assert found.points[0].confidence_interval() == (0, 1)
        assert f"estimated at {people} people (SE 4)" in found.notes[0]
        assert found.quantile(0.5).position in (0, 1, 2, 3)
        assert [one.value for one in found.excess(0.5)] == pytest.approx([1 - size / 2] * 3)
        assert np.isnan([*found.values, *found.stderr, found.quantile(0.5).value]).all()
    half = group({"b": "x"}).to_cdf(answers(*[(0.1, 0)] * 6, (0.5, 0)))
    assert half.values == pytest.approx([0.2, 0.2, 0.2, 1])  # of half a person, by the estimate


# Distribution functions


def shares(*values, variance=1e-8, name="a", where=None):
    """A distribution function with these shares, each with that variance."""
    n = 1_000_000
    rows = [((value - 0.5) * n, variance * n**2) for value in values]
    return group(where, name, n).to_cdf(answers(*rows, (n, 0)))


def test_a_distribution_function_is_monotone_and_ends_at_one():
    assert shares(0.4, 0.2, 0.6).values == pytest.approx([0.3, 0.3, 0.6, 1])
    assert shares(-0.1, 0.5, 1.3).values == pytest.approx([0, 0.5, 1, 1])


def test_a_share_without_variance_does_not_outweigh_all_others():
    """Its weight is that of a thousandth of the largest variance."""
    fit = searches.monotone(np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    assert fit == pytest.approx([1 / 1001] * 2)
    fit = searches.monotone(np.array([1.0, 0.0]), np.array([1e-4, 3e-4]))
    assert fit == pytest.approx([3 / 4] * 2)
    assert searches.monotone(np.array([1.0, 0.0]), np.zeros(2)).tolist() == [0.5, 0.5]
    assert searches.monotone(np.array([1.0, 0.0]), np.full(2, 5e3)).tolist() == [0.5, 0.5]


def test_bands_and_single_intervals():
    found = shares(0.3, 0.5, 0.8, variance=1e-4)
    low, high = found.confidence_interval(0.9, simultaneous=False)
    reach = normal_reach(0.9) * 0.01
    assert low == pytest.approx([0.3 - reach, 0.5 - reach, 0.8 - reach, 1])
    assert high == pytest.approx([0.3 + reach, 0.5 + reach, 0.8 + reach, 1])
    assert np.array_equal(
        found.confidence_interval(), found.confidence_interval(0.95, simultaneous=True)
    )
    # Three inner shares at a time: each fails with a third of the probability.
    reach = normal_reach(1 - 0.1 / 3) * 0.01
    low, high = found.confidence_interval(0.9, simultaneous=True)
    assert low == pytest.approx([0.3 - reach, 0.5 - reach, 0.8 - reach, 1])
    assert high == pytest.approx([0.3 + reach, 0.5 + reach, 0.8 + reach, 1])


def test_a_band_is_monotone_and_inside_0_to_1():
    found = shares(0.02, 0.62, 0.58, variance=1e-4)
    reach = normal_reach(1 - 0.1 / 3) * 0.01
    low, high = found.confidence_interval(0.9, simultaneous=True)
    assert low == pytest.approx([0, 0.62 - reach, 0.62 - reach, 1])
    assert high == pytest.approx([0.02 + reach, 0.58 + reach, 0.58 + reach, 1])
    wild = shares(0.999, -0.2, 0.5, variance=1e-8).confidence_interval(0.9, simultaneous=True)
    assert np.max(wild) <= 1
    assert np.min(wild) >= 0
    # Even then it holds the estimate.
    assert (wild[0] <= shares(0.999, -0.2, 0.5).values).all()
    assert (wild[1] >= shares(0.999, -0.2, 0.5).values).all()


def test_what_a_distribution_function_shows():
    """Bands for all of it, unless single intervals are asked for."""
    found = shares(0.3, 0.5, 0.8, variance=1e-4)
    low, high = found.confidence_interval()
    assert f"{low[0]:.3f} to {high[0]:.3f}" in str(found)
    low, high = found.confidence_interval(0.8, simultaneous=False)
    assert f"{low[0]:.3f} to {high[0]:.3f}" in found.to_text(0.8, simultaneous=False)
    assert "mid" in shares(0.3, 0.5, name="m").to_text()
    for data, ends in (
        (found.to_dict(), found.confidence_interval()),
        (found.to_dict(simultaneous=False), found.confidence_interval(simultaneous=False)),
    ):
        assert data["confidence_level"] == 0.95
        assert [row["ci_low"] for row in data["rows"]] == ends[0].tolist()
    assert repr(found) == str(found)
    for wrong in (1, "yes", None):
        with pytest.raises(QueryError, match="simultaneous is True or False"):
            found.confidence_interval(simultaneous=wrong)


def test_excess_by_hand():
    """D(k) = #(x <= k) - p #(all), and its variance."""
    below, above = [(10, 9), (20, 16), (30, 25)], [(30, 25), (20, 21), (10, 4)]
    parts = answers(*below, *above, (40, 36))
    parts[1] = replace(parts[1], jump=2.0, hidden=7.0)
    found = group({"b": "x"}).to_cdf(parts).excess(0.3)
    assert [one.value for one in found] == pytest.approx([10 - 12, 20 - 12, 30 - 12])
    exact = [9 - 0.6 * 10 + 0.09 * 36, 16 - 0.6 * 15.5 + 0.09 * 36, 25 - 0.6 * 28.5 + 0.09 * 36]
    assert [one.variance for one in found] == pytest.approx(exact)
    assert (found[1].jump, found[1].hidden) == pytest.approx((2, 7))
    told = [replace(part, target="population", reports=7, one=4.0) for part in parts[:-1]]
    told = group({"b": "x"}).to_cdf([*told, replace(parts[-1], reports=7, one=9.0)]).excess(0.3)
    assert {(one.target, one.reports) for one in told} == {("population", 7)}
    assert told[0].one == pytest.approx((2 + 0.3 * 3) ** 2)


def lied(*counts, size=100, name="a"):
    """A distribution function where one report adds no less and no more than by hand."""

    def bracketed(position, share, answer):
        return replace(answer, lie=lambda: (-1 - share - position, 2 + 3 * share))

    found = group({"b": "x"}, name).to_cdf(answers(*[(n, 1) for n in counts] * 2, (size, 1)))
    found.bracketed = bracketed
    return found


def test_lies_move_a_distribution_function_by_hand():
    """Honest shares m have |N - m D| <= k (3 + 4 m + position)."""
    low, high = lied(30, 20, 99).poisoning_bounds(2)
    below = [(n - 2 * (3 + at)) / 108 for at, n in enumerate((30, 20, 99))]
    above = [(n + 2 * (3 + at)) / 92 for at, n in enumerate((30, 20, 99))]
    assert low == pytest.approx([below[1], below[1], below[2], 1])
    assert high == pytest.approx([above[0], above[0], 1, 1])
    assert lied(2, 20, 99).poisoning_bounds(2)[0][0] == 0
    # One lie moves the size by 10 at the first position: ten can empty the group.
    found = lied(10, 50, 60)
    assert found.poisoning_bounds(9)[1][0] == pytest.approx((10 + 9 * 3) / (100 - 9 * 4))
    assert np.array_equal(found.poisoning_bounds(10), ([0, 0, 0, 1], [1] * 4))
    unknown = group({"b": "x"}).to_cdf(answers(*[(30, 1)] * 6, (100, 1)))
    assert np.array_equal(unknown.poisoning_bounds(1), ([0, 0, 0, 1], [1] * 4))


# Quantiles


def test_lies_move_a_quantile_by_hand():
    """Half of 40 are 20, and one lie moves what is above that by 3 + 4 / 2 + position."""
    found = lied(10, 20, 30, size=40)
    assert found.quantile(0.5).poisoning_bounds(0) == (11, 11)
    assert found.quantile(0.5).poisoning_bounds(1) == (11, 12)  # 0 - 6 < 0
    assert found.quantile(0.5).poisoning_bounds(2) == (
        10,
        13,
    )  # -10 + 2 * 5 reaches 0, 10 - 2 * 7 is below
    assert lied(1, 2, 3, size=40).quantile(0.5).poisoning_bounds(1) == (13, 13)
    assert lied(37, 38, 39, size=40).quantile(0.5).poisoning_bounds(1) == (10, 10)
    assert lied(10, 20, 30, size=40, name="c").quantile(0.5).poisoning_bounds(1) == (2, 6)


def test_a_quantile_is_the_first_value_whose_share_reaches_it():
    found = shares(0.25, 0.5, 0.75)
    for p, value in ((0.1, 10), (0.25, 10), (0.26, 11), (0.5, 11), (0.75, 12), (0.76, 13)):
        for method in searches.METHODS:
            assert found.quantile(p, method).value == value
            assert found.quantile(p, method).search == method
    assert found.quantile(0.5).notes == ()
    # A share that is smaller by rounding alone counts as equal, one that is smaller does not.
    for less, value in ((1e-12, 11), (1e-6, 12)):
        for method in searches.METHODS:
            assert shares(0.25, 0.5 - less, 0.75).quantile(0.5, method).value == value


def test_a_quantile_is_interpolated_evenly_inside_its_bin():
    found = shares(0.25, 0.5, 0.5, name="c")
    assert (found.ends, found.points[0].question) == (
        (2, 4, 6, 8),
        "c up to 2 among all respondents",
    )
    for p, value in ((0.1, 0.8), (0.25, 2), (0.3, 2.4), (0.5, 4), (0.75, 7)):
        assert found.quantile(p).value == pytest.approx(value)
        (note,) = found.quantile(p).notes
        assert note.startswith("c interpolated evenly inside its bin, ")
    for p, value in ((0.1, 1), (0.3, 3), (0.75, 7)):
        middle = found.quantile(p, "binary-search")
        assert middle.value == value
        assert middle.notes[0].startswith("c taken at the middle of its bin, ")
    # A share that is p but for rounding leaves the quantile in its bin.
    assert shares(0.25, 0.5 - 1e-10, 0.75, name="c").quantile(0.5).value <= 4


def test_the_interval_of_a_quantile_holds_all_that_is_not_contradicted():
    """With errors of 0.01 each share between 0.48 and 0.52 may be below or above a half."""
    certain = {"variance": 0.0}
    for values, ends in (
        ((0.2, 0.4, 0.8), (12, 12)),
        ((0.2, 0.49, 0.8), (11, 12)),
        ((0.49, 0.5, 0.51), (10, 13)),
        ((0.1, 0.2, 0.3), (13, 13)),
        ((0.7, 0.8, 0.9), (10, 10)),
        ((0.49, 0.8, 0.9), (10, 11)),
        ((0.1, 0.2, 0.51), (12, 13)),
    ):
        assert shares(*values, variance=1e-4).quantile(0.5).confidence_interval() == ends
    wide, narrow = (shares(0.2, 0.49, 0.8, variance=1e-4).quantile(0.5) for _ in range(2))
    assert wide.confidence_interval(0.99) == (11, 12)
    assert narrow.confidence_interval(0.5) == (12, 12)
    # Known shares: a half is reached by the share that equals it, and not beyond.
    assert shares(0.25, 0.5, 0.75, **certain).quantile(0.5).confidence_interval() == (11, 11)
    assert shares(0.25, 0.5 - 1e-10, 0.75, **certain).quantile(0.5).confidence_interval() == (
        11,
        11,
    )
    assert shares(0.25, 0.5 + 1e-10, 0.75, **certain).quantile(0.5).confidence_interval() == (
        11,
        11,
    )
    bins = shares(0.2, 0.49, 0.8, variance=1e-4, name="c").quantile(0.5)
    assert bins.confidence_interval() == (2, 6)


def test_how_a_quantile_reads():
    found = shares(0.2, 0.49, 0.8, variance=1e-4).quantile(0.5)
    assert str(found) == f"{found}" == "12 (95% CI 11 to 12)"
    assert found.to_text(0.5) == "12 (50% CI 12 to 12)"
    assert (float(found), f"{found:.1f}") == (12.0, "12.0")
    data = found.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert (data["label"], data["target"]) == (
        "0.5-quantile of a among all respondents",
        "respondents",
    )
    assert (data["estimate"], data["ci_low"], data["ci_high"]) == (12, 11, 12)
    assert data["std_error"] is data["note"] is None
    one = group({"a": 12}).to_cdf(answers((40, 8), target="population")).quantile(0.5)
    assert (one.value, one.confidence_interval()) == (12, (12, 12))
    assert one.to_dict()["target"] == "population"
    with pytest.raises(QueryError, match="a confidence level is between 0 and 1"):
        one.confidence_interval(2)
    named = shares(0.3, 0.6, name="m").quantile(0.5)
    assert str(named) == "mid (95% CI mid to mid)"


def test_a_quantile_has_as_many_digits_as_its_bin_leaves_meaning_to():
    """Down to a tenth of the highest digit of its bin's width."""
    n = 1_000_000
    for width, p, words in (
        *((2000, 0.312, "1200"), (1000, 0.318, "600"), (10, 0.31, "6"), (8, 0.32, "5.1")),
        (8, 0.82, "13.1"),
        *((1, 0.31, "0.6"), (0.5, 0.33, "0.33"), (0.1, 0.33, "0.07")),
    ):
        survey = Survey.design({"c": Continuous(0, 2 * width, bins=2, epsilon=1, per=width)})
        asked = Group("c", survey.attributes["c"], parse(survey, None, "c"), n, False)
        found = asked.to_cdf(answers((0, 1), (n, 0))).quantile(p)
        assert found.value == pytest.approx(2 * p * width)
        assert found._shown(found.value) == words


def test_questions_and_methods_that_are_none():
    found = shares(0.2, 0.5, 0.8)
    for p in (0, 1, -0.5, 1.5, "0.5", None, True):
        with pytest.raises(QueryError, match="q is between 0 and 1"):
            found.quantile(p)
    for method in ("magic", None, ["isotonic"], np.array(["isotonic", "binary-search"])):
        with pytest.raises(QueryError, match="a method is one of isotonic, binary-search"):
            found.quantile(0.5, method)
    survey = Survey.design({"a": Integer(0, 3, epsilon=1, per=1)})
    tally = survey.tally(survey.randomize({"a": [0, 1]}, randomness=Randomness.seeded(1)))
    for wrong in ("0.5", 0.5, None):
        with pytest.raises(QueryError, match="quantiles take a list of probabilities"):
            tally.quantiles("a", wrong)
    with pytest.raises(QueryError, match="b is categorical and has no quantiles"):
        group(name="b")
    with pytest.raises(QueryError, match="r is continuous and has no quantiles"):
        group(name="r")
    with pytest.raises(QueryError, match="there are no reports"):
        group(n=0)


# Means by brackets


@pytest.mark.parametrize("factor", [1.0, -2.0])
def test_the_means_that_sums_above_them_do_not_contradict(factor):
    """30 ± 1 above 0 among 10 people: all means m whose 30 - 10 m may be 0."""
    asked = []

    def ask(number):
        asked.append(number)
        return Estimate(30 - 10 * number, 1.0)

    reach = normal_reach(0.95) / 10
    found = sorted(
        end / factor for end in Excess(ask, 3.0, 0.0, 8.0, factor)._interval(0.95, "normal")
    )
    step = 8 / 2**9
    assert 3 - reach - step <= found[0] <= 3 - reach
    assert 3 + reach <= found[1] <= 3 + reach + step
    assert min(asked) == 0 and max(asked) == 8 and len(asked) == 2 * (1 + 9)
    near = Excess(ask, 3.0, 2.9, 3.1)._interval(0.95, "normal")
    assert near == (2.9, 3.1)  # what is not contradicted ends where values end
    assert Excess(ask, 3.0, 2.9, 8.0)._interval(0.95, "normal")[0] == 2.9


def test_methods_of_a_mean():
    survey = Survey.design({"a": Integer(0, 29, epsilon=0.3, mechanism="geometric", per=1)})
    tally = survey.tally(
        survey.randomize({"a": np.arange(3000) % 12}, randomness=Randomness.seeded(1))
    )
    within = tally.mean("a", {"a": (0, 19)})
    assert within.above is not None
    assert within.method() == within.method(0.95) == "normal"
    assert within.method(0.95, "envelope") == "envelope"


def test_a_mean_in_another_unit(monkeypatch):
    found = replace(mean(monkeypatch, **SUMS), ones=(100.0, 50.0))
    found = replace(found, ends=lambda level: (level, 2 * level))
    twice = found.scaled(-2.0, "halves")
    assert (twice.value, twice.unit, twice.possible) == (-1.2, "halves", (-8, 4))
    assert (twice.numerator, twice.numerator_variance, twice.shared) == (-120, 3200, -600)
    assert (twice.denominator, twice.denominator_variance) == (100, 400)
    assert twice.ones == (400, 50)
    assert twice.ends(0.5) == (-2, -1)
    assert replace(found, numerator=None, ends=None).scaled(2.0, "").numerator is None
    above = Excess(lambda number: found, 3.0, 0.0, 8.0)
    assert replace(found, above=above).scaled(-2.0, "").above.factor == -2
    assert replace(found, above=above).scaled(0.0, "").above is None
    anything = replace(found, possible=(-math.inf, math.inf), ends=None)
    assert anything.scaled(0.0, "").possible == (0, 0)


def test_the_paces_of_a_mean(monkeypatch):
    found = mean(monkeypatch, **SUMS)
    above, below = found.paces
    assert (above, below) == (
        pytest.approx((800 / 100**2, 100 / 100**2)),
        pytest.approx((400 * 0.006**2, 100 * 0.006**2)),
    )
    assert replace(found, denominator=0.0).paces[0] == (800, 100)
    assert len(replace(found, denominator_variance=0.0).paces) == 1
    known = replace(found, ones=(0.0, 0.0))
    assert known.paces == ((800 / 100**2, 0), pytest.approx((400 * 0.006**2, 0)))
    made = SimpleNamespace(paces=lambda target: (target,))
    assert replace(known, made=made).paces == ("respondents",)
    assert replace(found, made=made).paces == found.paces


def test_a_mean_whose_residual_is_known(monkeypatch):
    """The variance of N - m D is Var N - 2 m Cov + m^2 Var D: the covariance follows."""
    found, most = mean(monkeypatch, **SUMS), math.sqrt(800 * 400)
    for variance, shared in (
        (500, (800 + 0.36 * 400 - 500) / 1.2),
        (0, most),
        (2000, -most),
    ):
        own = found.with_residual(variance)
        assert own.shared == pytest.approx(shared)
        assert own.variance == pytest.approx(variance / 100**2)
        assert own.numerator_variance == pytest.approx(variance + 1.2 * shared - 0.36 * 400)
    none = replace(found, value=0.0).with_residual(500)
    assert (none.shared, none.numerator_variance) == (0, 500)


@pytest.mark.parametrize("jump", [0.0, 0.05])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_fiellers_interval_by_hand(monkeypatch, level, jump):
    """Its ends m are z errors of N - m D away; jumps count as more variance of the sum."""
    found = replace(mean(monkeypatch, **SUMS), jump=jump)
    z = normal_reach(level)
    more = max(0.0, (found.reach(level) / z) ** 2 - found.variance) * 100**2
    assert bool(more) == bool(jump)
    low, high = found.confidence_interval(level)
    assert low < 0.6 < high
    for m in (low, high):
        noise = 800 + more - 2 * m * 300 + m**2 * 400
        assert (60 - 100 * m) ** 2 == pytest.approx(z**2 * noise)


def test_where_fiellers_interval_ends(monkeypatch):
    found = mean(monkeypatch, **SUMS)  # of 100 ± 20 people, between -2 and 4
    assert found.confidence_interval(1 - 1e-6) == pytest.approx(
        found.confidence_interval(1 - 1e-6, method="normal")
    )
    assert normal_reach(1 - 1e-6) < 5 < normal_reach(1 - 1e-7)
    assert found.confidence_interval(1 - 1e-7) == (-2, 4)
    wide = replace(found, possible=(0.5, 0.7))
    assert wide._interval() == replace(wide, ones=(100.0, 0.0))._interval() == found._interval()
    low, high = found.confidence_interval()
    assert wide.confidence_interval() == (max(low, 0.5), min(high, 0.7))
    assert replace(wide, ones=(0.0, 0.0)).confidence_interval() == (0.5, 0.7)  # of two answers
    with pytest.raises(QueryError, match="no poisoning bounds are known"):
        replace(found, lies=lambda number: (0.0, 1.0)).poisoning_bounds(1)


def test_a_share_of_everybody_by_a_bracket():
    survey = Survey.design({"a": Integer(0, 29, epsilon=0.3, mechanism="geometric", per=1)})
    tally = survey.tally(
        survey.randomize({"a": np.arange(3000) % 12}, randomness=Randomness.seeded(1))
    )
    point = tally.cdf("a").points[8]
    assert point.above is None and point.method(0.95, "envelope") == "envelope"
    (low, high), (first, last) = (
        point.confidence_interval(0.95, method="envelope"),
        point.confidence_interval(0.95, method="normal"),
    )
    assert high - low < last - first


class Rising:
    """A test whose ends are known, and that notes the levels it was asked for."""

    def __init__(self, place, value, width):
        self.place, self.ends, self.levels = place, (value - width, value + width), []

    def _interval(self, level, by):
        assert by == "envelope"
        self.levels.append(level)
        return self.ends


@pytest.mark.parametrize("size", [1, 2, 3, 5, 30])
@pytest.mark.parametrize("width", [0, 2, 7])
def test_a_search_finds_what_all_tests_together_leave(size, width):
    """It makes few of them with a tenth of the error, at steps of a root of their number."""
    for cut in range(-9, size + 9):
        tests = [Rising(k, k - cut, width) for k in range(size)]
        first, last = searches.searched(tests, 0.95, "envelope", 1e-9)
        assert first == min((k for k in range(size) if k - cut + width >= 0), default=size)
        assert last == max((k for k in range(size) if k - cut - width < 0), default=-1) + 1
        few = {test.place for test in tests for at in test.levels if at == pytest.approx(0.995)}
        rest = {test.place for test in tests for at in test.levels if at == pytest.approx(0.955)}
        assert few | rest == {test.place for test in tests if test.levels}
        assert few <= set(range(0, size, math.isqrt(size)))
        assert len(rest) <= 2 * math.isqrt(size) + 2 * width
