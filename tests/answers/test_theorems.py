"""Theorem 4 of the paper: its bound beside the exact error, by enumeration of every report."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from theorems import (
    paper_range_variance,
    paper_weighted_variance,
    weighted_variance,
)

from checks import exact_law
from metricldp import Integer, Survey, Weight
from metricldp.mechanisms.threshold import ThresholdPaperChannel


def moments(size, epsilon, function):
    """E[F] and E[F^2] of the paper's decoder of one attribute, for every value."""
    channel = ThresholdPaperChannel.for_epsilon(size, Fraction(epsilon))
    reports = channel.every_report()
    values = channel.values(
        reports, channel.moments.coefficients(np.array([function], dtype=float))
    )[0]
    laws = np.array([[float(p) for p in exact_law(channel, x).values()] for x in range(size)])
    return laws @ values, laws @ values**2


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 2.0])
@pytest.mark.parametrize("private", [False, True])
def test_weighted_ranges_have_the_exact_error(epsilon, private):
    """Three attributes of three values, one of them left whole; every place, several weights."""
    size, largest = 3, 5.0
    functions = [[0, 1, 1], [1, 0, 0], [1, 1, 1]]
    found = [moments(size, epsilon, f) for f in functions]
    mean_of_two, square_of_two = moments(2, epsilon, [0, 1])
    for x in itertools.product(range(size), repeat=3):
        mean = np.prod([m[at] for (m, _), at in zip(found, x, strict=True)])
        second = np.prod([s[at] for (_, s), at in zip(found, x, strict=True)])
        inside = [[functions[d][x[d]] for d in (0, 1)]]
        for weight in (0.0, 2.0, 5.0):
            if private:
                share = weight / largest
                rounded = largest * ((1 - share) * mean_of_two[0] + share * mean_of_two[1])
                squares = largest**2 * ((1 - share) * square_of_two[0] + share * square_of_two[1])
            else:
                rounded, squares = weight, weight**2
            assert mean * rounded == pytest.approx(weight * np.prod(inside), abs=1e-9)
            exact = second * squares - (mean * rounded) ** 2
            stated = weighted_variance(epsilon, 3, [weight], inside, largest if private else None)
            assert stated == pytest.approx(exact, rel=1e-9, abs=1e-9)


def test_public_weights_are_what_predict_says():
    survey = Survey.design(
        {
            "a": Integer(0, 2, epsilon=1, mechanism="threshold-paper", per=1),
            "b": Integer(0, 2, epsilon=1, mechanism="threshold-paper", per=1),
            "w": Weight(0, 5),
        }
    )
    weights = [1.0, 3.0, 5.0]
    here = {"a": np.array([0, 1.0, 0]), "b": np.array([1.0, 0, 0])}
    predicted = survey.expected_error(
        {"a": (1, 2), "b": 0}, n=3, prior=here, weights={"w": weights}
    ).stderr
    stated = weighted_variance(1, 2, weights, np.ones((3, 2)))
    assert predicted**2 == pytest.approx(stated, rel=1e-9)


def test_theorem_4_is_theorem_3_times_the_largest_weight():
    assert paper_weighted_variance(1, 2, 1, 10, 3, private=False) == pytest.approx(
        9 * paper_range_variance(1, 2, 1, 10)
    )
    assert paper_weighted_variance(1, 2, 1, 10, 3, private=True) == pytest.approx(
        9 * paper_range_variance(1, 3, 2, 10)
    )


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
def test_where_theorem_4_bounds_the_exact_error_and_where_it_does_not(epsilon):
    """Everybody inside with the largest weight is the worst; one public attribute is the only case
    in which constant 1 is enough, and there it is met."""

    def ratio(attributes, private, inside=1.0):
        exact = weighted_variance(
            epsilon, attributes, [2.0], np.full((1, attributes), inside), 2.0 if private else None
        )
        return exact / paper_weighted_variance(
            epsilon, attributes, attributes, 1, 2.0, private=private
        )

    assert ratio(1, False) == pytest.approx(1)
    for attributes, private in ((2, False), (3, False), (1, True), (2, True)):
        assert ratio(attributes, private) > 1
        # Outside in every attribute it does hold, with public weights.
        assert private or ratio(attributes, False, inside=0.0) < 1
    # A private weight of the largest size costs what one more attribute does.
    assert ratio(1, True) == pytest.approx(ratio(2, False))
