"""The text of an expected error: prior, percentage of n, and numbers without an exponent."""

import numpy as np
import pytest

from metricldp import Integer, Survey, Weight

SURVEY = Survey.design(
    {"age": Integer(0, 99, epsilon=1, within=5, max_epsilon=3), "spent": Weight(0, 500)}
)
YOUNG = "18 <= age <= 29"


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        ("uniform", "uniform values"),
        ("worst", "the worst case"),
        (np.ones(100) / 100, "the given prior"),
        ({"age": np.ones(100) / 100}, "the given prior"),
    ],
)
def test_text_names_the_prior_and_the_percentage_of_n(prior, words):
    error = SURVEY.expected_error(YOUNG, n=50_000, prior=prior)
    percentage = f"{100 * error.stderr / 50_000:.2g}% of n"
    stderr, margin = (f"{number:,.1f}".removesuffix(".0") for number in four_digits(error))
    assert str(error) == (
        f"SE {stderr} people, {percentage} (95% margin of error {margin}), for {words}"
    )


def four_digits(error):
    return [float(f"{number:.4g}") for number in (error.stderr, error.margin())]


def test_large_numbers_have_no_exponent():
    text = str(SURVEY.expected_error(YOUNG, n=70_000_000))
    assert text.startswith("SE 14,1") and "e+" not in text


def test_error_above_n_has_a_note():
    few, many = (SURVEY.expected_error(YOUNG, n=n) for n in (2, 2_000))
    assert few.stderr > 2 and many.stderr < 2_000
    assert str(few).endswith("for uniform values; the SE is above n: use more respondents")
    assert str(many).endswith("for uniform values")


def test_errors_of_workloads_and_sums_have_no_percentage():
    workload = SURVEY.expected_error(n=500, attribute="age", workload="ranges")
    weighted = SURVEY.expected_error(YOUNG, n=500, weights={"spent": [100.0, 300.0]})
    for error in (workload, weighted):
        assert "%" not in str(error).replace("95%", "") and "for uniform values" in str(error)
