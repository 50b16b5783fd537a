"""Numbers at the edges of what they can be."""

import math

import pytest

from metricldp.basics.numbers import whole, within


@pytest.mark.parametrize(
    ("ends", "limits", "kept"),
    [
        ((1.0, 2.0), (0.0, 3.0), (1.0, 2.0)),
        ((-1.0, 4.0), (0.0, 3.0), (0.0, 3.0)),
        ((1e-10, 300 - 2e-10), (0.0, 300.0), (0.0, 300.0)),
        ((1e-5, 300 - 1e-5), (0.0, 300.0), (1e-5, 300 - 1e-5)),
        ((4.0, 5.0), (0.0, 3.0), (3.0, 3.0)),
        ((-5.0, -4.0), (0.0, 3.0), (0.0, 0.0)),
        ((1.0, 3.0), (2.0, 2.0), (2.0, 2.0)),
        ((1.0, 2.0), (-math.inf, math.inf), (1.0, 2.0)),
        ((-1.0, 2.0), (0.0, math.inf), (0.0, 2.0)),
        ((-math.inf, math.inf), (0.0, 3.0), (0.0, 3.0)),
    ],
)
def test_ends_stay_within_limits_and_rounding_takes_nothing_from_them(ends, limits, kept):
    assert within(ends, limits) == kept


@pytest.mark.parametrize("number", [0.0, 1.0, 0.5, -2.5, 1e300, math.inf, -math.inf, 1 + 1e-10])
def test_other_numbers_are_not_made_whole(number):
    assert whole(number) == number


def test_what_rounding_left_is_whole():
    assert 49 * (1 / 49) < 1 == whole(49 * (1 / 49))
    assert whole(-49 * (1 / 49)) == -1
    assert 0.3 - 0.1 - 0.2 < 0 == whole(0.3 - 0.1 - 0.2, 0.3) != whole(0.3 - 0.1 - 0.2)
    assert whole(1e-9, 1.0) == 1e-9
    assert math.copysign(1.0, whole(-1e-16, 1.0)) == 1
    assert math.isnan(whole(math.nan))
