"""Whom statistics and tests are about: defaults, and what they print."""

import sys

import numpy as np
import pytest

from metricldp import Integer, Randomness, Survey
from metricldp.estimate.request import KINDS, parameters

SURVEY = Survey.design(
    {
        "x": Integer(0, 4, epsilon=3, mechanism="geometric", per=1),
        "y": Integer(0, 4, epsilon=3, mechanism="geometric", per=1),
    }
)


def tally_of(n, seed):
    """Reports of respondents whose x and y are independent in the population."""
    x, y = np.random.default_rng(seed).integers(0, 5, (2, n))
    return SURVEY.tally(SURVEY.randomize({"x": x, "y": y}, randomness=Randomness.seeded(seed)))


TALLY = tally_of(400, 1)
TESTS = {
    "linear_regression": lambda t, **to: t.linear_regression("y", ["x"], **to)["x"].test(),
    "correlation": lambda t, **to: t.correlation("x", "y", **to).test(),
    "covariance": lambda t, **to: t.covariance("x", "y", **to).test(),
    "independence_test": lambda t, **to: t.independence_test("x", "y", **to),
    "trend_test": lambda t, **to: t.trend_test("y >= 2", "x", **to),
}


@pytest.mark.parametrize("name", TESTS)
def test_association_is_tested_for_the_population_by_default(name):
    default = TESTS[name](TALLY)
    assert default.pvalue == TESTS[name](TALLY, target="population").pvalue
    assert default.target == "population"
    respondents = TESTS[name](TALLY, target="respondents")
    assert respondents.target == "respondents"
    assert respondents.pvalue < default.pvalue


def test_regression_rejects_independent_attributes_at_the_stated_rate():
    """A share of 0.15 has a probability of 2e-4 at a rate of 0.05; respondents are a control."""
    runs = 100
    pvalues = {"population": [], "respondents": []}
    for seed in range(runs):
        tally = tally_of(400, 100 + seed)
        for target, column in pvalues.items():
            column.append(tally.linear_regression("y", ["x"], target=target)["x"].test().pvalue)
    share = {target: np.mean(np.array(column) < 0.05) for target, column in pvalues.items()}
    assert share["population"] < 0.15
    assert share["respondents"] > 0.3


@pytest.mark.parametrize("target", ["respondents", "population"])
def test_printed_tests_name_their_target(target):
    words = f", for the {target}"
    regression = TALLY.linear_regression("y", ["x"], target=target)
    assert str(regression).startswith(f"y by x{words}\n")
    for test in ("independence_test", "trend_test"):
        text = str(TESTS[test](TALLY, target=target))
        assert f"{words}: chi-square " in text and "respondents" not in text.replace(words, "")
    text = str(TALLY.mean("x", target=target).test(2))
    assert text.startswith(f"test of x = 2{words}: statistic ")
    assert ", p-value " in text
    text = str(TALLY.mean("x", target=target).test(2, alternative="less"))
    assert f" = 2 against less{words}: statistic " in text


def test_descriptive_statistics_describe_the_respondents_by_default():
    answers = (TALLY.count("x >= 2"), TALLY.fraction("x >= 2"), TALLY.mean("x"), TALLY.std("x"))
    assert {answer.target for answer in answers} == {"respondents"}
    assert TALLY.quantile("x").target == "respondents"


def test_requests_have_the_defaults_of_the_methods():
    targets = {name: parameters(kind).get("target") for name, kind in KINDS.items()}
    population = {name for name, one in targets.items() if one and one.default == "population"}
    assert population == {"covariance", "correlation", "regression", "independence", "trend"}


def test_clipped_pvalue_is_printed_as_a_bound():
    test = TALLY.count("x >= 1").test(0)
    assert test.pvalue == 1e-12
    assert str(test).endswith("p-value less than 1e-12")


def test_pvalue_of_a_large_statistic_is_positive():
    x = np.arange(20_000) % 5
    tally = SURVEY.tally(SURVEY.randomize({"x": x, "y": x}, randomness=Randomness.seeded(1)))
    test = tally.independence_test("x", "y")
    assert test.pvalue == test.to_dict()["pvalue"] == sys.float_info.min
    assert "p-value less than 1e-12" in str(test)
