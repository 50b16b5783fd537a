"""Ranges of real values that are rounded at random: both ends alike, and no length too much."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricldp import Continuous, QueryError, Survey
from metricldp.mechanisms.randomness import Randomness

ends = st.floats(-3, 5, allow_nan=False)
points = st.integers(2, 12)


def weights(attribute, low, high):
    return attribute.choose((low, high), "v").inside.astype(float)


def counted(attribute, low, high):
    """Of values spread evenly over the domain, the length that a range counts: the integral of the
    straight lines between the weights of the points, as rounding at random makes of them."""
    found = weights(attribute, low, high)
    return float(((found[1:] + found[:-1]) / 2 * np.diff(attribute.grid)).sum())


@given(points, ends, ends)
def test_a_range_counts_its_own_length(points, one, other):
    """For values spread evenly, wherever its ends lie; before it was a whole step too much."""
    attribute = Continuous(-3, 5, points=points, epsilon=1, rounding="stochastic", per=1)
    low, high = sorted((one, other))
    if high - low > 1e-6:
        assert counted(attribute, low, high) == pytest.approx(high - low, abs=1e-7)


@given(points, ends, ends)
def test_both_ends_are_treated_alike(points, one, other):
    attribute = Continuous(-3, 5, points=points, epsilon=1, per=1, rounding="stochastic")
    low, high = sorted((one, other))
    if high - low > 1e-6:
        mirrored = weights(attribute, 2 - high, 2 - low)[::-1]
        assert weights(attribute, low, high) == pytest.approx(mirrored, abs=1e-8)


@given(points, st.tuples(ends, ends, ends))
def test_ranges_that_meet_add_up(points, three):
    attribute = Continuous(-3, 5, points=points, epsilon=1, rounding="stochastic", per=1)
    low, middle, high = sorted(three)
    if min(middle - low, high - middle) > 1e-6:
        parts = weights(attribute, low, middle) + weights(attribute, middle, high)
        assert parts == pytest.approx(weights(attribute, low, high), abs=1e-8)


def test_an_end_on_a_point_counts_half_of_it_and_one_between_points_all_or_nothing():
    attribute = Continuous(0, 10, points=11, epsilon=1, per=1, rounding="stochastic")
    assert weights(attribute, 3, 6).tolist() == [0, 0, 0, 0.5, 1, 1, 0.5, 0, 0, 0, 0]
    assert weights(attribute, 2.5, 6.5).tolist() == [0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0]
    assert weights(attribute, 0, 2.5).tolist() == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    fine = Continuous(0, 10, points=51, epsilon=1, rounding="stochastic", per=1)
    assert set(weights(fine, 2.9, 6.1).tolist()) == {0, 1}
    assert fine.choose((None, 10), "v").whole


@pytest.mark.parametrize(
    ("low", "high", "note"),
    [
        (3, 6, "in from 2 to 4 and out from 5 to 7"),
        (2.5, 6.5, "in from 2 to 3 and out from 6 to 7"),
        (None, 6, "v up to 6 fades out from 5 to 7"),
        (9.75, None, "v 9.75 and up fades in from 9 to 10"),
        (3.2, 3.3, "in from 2 to 3 and out from 3 to 4"),
    ],
)
def test_the_note_says_where_a_range_fades(low, high, note):
    attribute = Continuous(0, 10, points=11, epsilon=1, per=1, rounding="stochastic")
    assert attribute.choose((low, high), "v").note.endswith(note)


def test_ranges_without_width_are_refused():
    attribute = Continuous(0, 10, points=51, epsilon=1, rounding="stochastic", per=1)
    with pytest.raises(QueryError, match=r"no width.*such as \(2.9, 3.1\)"):
        attribute.choose((3, 3), "v")
    with pytest.raises(QueryError, match="empty range; v is from 0 to 10"):
        attribute.choose((11, 12), "v")


def test_counts_and_bars_of_values_spread_evenly():
    """60,000 of 100,000 lie between 2 and 8; it was 79,968. Rounding has a standard deviation of
    at most 160 people here, blurring of next to none; six of them."""
    survey = Survey.design(
        {"v": Continuous(0, 10, points=6, epsilon=60, per=1, rounding="stochastic")}
    )
    values = np.linspace(0, 10, 100_001)[:-1] + 5e-5
    tally = survey.tally(survey.randomize({"v": values}, randomness=Randomness.seeded(1)))
    for low, high in ((2, 8), (2.5, 7.3), (0, 3), (4.2, 4.9)):
        truth = 10_000 * (high - low)
        assert abs(tally.count({"v": (low, high)}).value - truth) < 6 * 160
    bars = tally.histogram("v", bins=[0, 4, 8, 10])
    assert bars.labels == [(0, 4), (4, 8), (8, 10)]
    assert bars.values == pytest.approx([40_000, 40_000, 20_000], abs=6 * 160)


@pytest.mark.parametrize("ends", [(20, 50), (0, 33), (47, 100), (41, 44), (25, 75)])
def test_what_people_between_two_points_add_is_within_its_bounds(ends):
    attribute = Continuous(0, 100, points=11, epsilon=1, rounding="stochastic", per=1)
    inside = attribute.choose(ends, "x").inside
    values = np.linspace(0, 100, 4_001)
    added = values * np.interp(values, attribute.grid, inside)
    low, high = (np.interp(values, attribute.grid, end) for end in attribute.extremes(inside))
    assert (low <= added + 1e-9).all()
    assert (added <= high + 1e-9).all()
    assert min((added - low).min(), (high - added).min()) < 1e-9  # and no wider than need be
    assert attribute.extremes(np.ones(11)) is None


def test_a_mean_within_a_range_of_its_own_holds_wherever_people_are():
    survey = Survey.design(
        {"x": Continuous(0, 100, points=11, epsilon=4, per=10, rounding="stochastic")}
    )
    randomness = Randomness.seeded(6)
    for place, ends in ((43.0, (0, 50)), (45.0, (50, 100)), (57.0, (0, 50))):
        tally = survey.tally(survey.randomize({"x": np.full(20_000, place)}, randomness=randomness))
        mean, total = tally.mean("x", {"x": ends}), tally.sum("x", {"x": ends})
        weight = np.interp(place, *fading(survey, ends))
        for answer, truth in ((mean, place), (total, 20_000 * weight * place)):
            low, high = answer.confidence_interval(0.999)
            assert low <= truth <= high
            assert not answer.value - 4 * answer.stderr <= truth <= answer.value + 4 * answer.stderr
            assert "wider by that, as a bound" in str(answer)
    assert "bound" not in str(tally.mean("x"))


def fading(survey, ends):
    attribute = survey.attributes["x"]
    return attribute.grid, attribute.choose(ends, "x").inside
