"""A relative metric accepts relative differences up to a factor of 2 and rejects factors."""

import pytest

from metricldp import Continuous, Integer, InvalidSpecError, Relative, Survey


@pytest.mark.parametrize(
    ("by", "intended"), [(1.25, "0.25"), (1.1, "0.1"), (2, "1"), (25, "0.25"), (10, "0.1")]
)
def test_factor_or_percentage_is_rejected_with_the_likely_value(by, intended):
    with pytest.raises(InvalidSpecError) as error:
        Relative(by)
    message = str(error.value)
    assert f"did you mean Relative({intended})?" in message
    assert "\n" not in message


def test_very_large_factor_is_rejected_without_a_guess():
    with pytest.raises(
        InvalidSpecError, match="use Relative\\(1\\) and a smaller epsilon"
    ) as error:
        Relative(1000)
    assert "did you mean" not in str(error.value)


@pytest.mark.parametrize("by", [0, -0.25, 1e-7, float("nan"), float("inf"), "0.25", True])
def test_value_that_is_no_relative_difference_is_rejected(by):
    with pytest.raises(InvalidSpecError):
        Relative(by)


@pytest.mark.parametrize("by", [1e-6, 0.25, 1])
def test_relative_difference_is_accepted(by):
    assert Relative(by).by == by


def test_factor_in_a_survey_file_is_rejected():
    metric = {"kind": "relative", "by": 1.25}
    with pytest.raises(InvalidSpecError, match=r"did you mean Relative\(0\.25\)\?"):
        Survey.design({"price": Integer(1, 9, epsilon=1, metric=metric)})


def test_larger_factor_is_the_same_metric_with_a_smaller_epsilon():
    """Epsilon 1 for a factor of 4 is epsilon 1/2 for a factor of 2."""
    price = Continuous(1, 16, bins=4, epsilon=0.5, metric=Relative(1))
    assert float(price.distance(1.5, 6)) == pytest.approx(1, abs=1e-6)
