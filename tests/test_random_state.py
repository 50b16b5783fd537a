"""No call changes numpy's global random state."""

import numpy as np
import pytest

from metricldp import Categorical, Integer, Matrix, Survey, SurveySpec, plan
from metricldp.mechanisms import additive_search
from metricldp.mechanisms import search_kernels as kernels

PEOPLE = {
    "additive": np.arange(200) % 12,
    "extremal": np.arange(200) % 5,
    "threshold": np.arange(200) % 12,
    "geometric": np.arange(200) % 12,
    "matrix": np.arange(200) % 8,
    "region": np.array(["north", "south"])[np.arange(200) % 2],
    "x": np.arange(200) % 4,
    "y": np.arange(200) % 3,
}


def design(epsilon):
    """A survey with every search; a new epsilon, because results of a process are cached."""
    attributes = {
        "additive": Integer(0, 11, epsilon=epsilon, within=3, mechanism="additive"),
        "extremal": Integer(0, 4, epsilon=epsilon, within=2, mechanism="extremal"),
        "threshold": Integer(0, 11, epsilon=1, mechanism="threshold", per=1),
        "geometric": Integer(0, 11, epsilon=1, mechanism="geometric", per=1),
        "matrix": Integer(0, 7, epsilon=epsilon, mechanism=Matrix(strategy="hierarchy"), per=1),
        "region": Categorical(["north", "south"], epsilon=2),
        "x": Integer(0, 3, epsilon=epsilon, per=1),
        "y": Integer(0, 2, epsilon=1, per=1),
    }
    return Survey.design(SurveySpec(attributes, joint=[["x", "y"]]))


@pytest.fixture(scope="module")
def survey():
    return design(1)


@pytest.fixture(scope="module")
def tally(survey):
    return survey.tally(survey.randomize(PEOPLE))


CALLS = {
    "design": lambda survey, tally: design(0.9),
    "encode": lambda survey, tally: survey.randomize(PEOPLE, shuffle=True),
    "report": lambda survey, tally: survey.report({k: v[0] for k, v in PEOPLE.items()}),
    "tally": lambda survey, tally: survey.tally(survey.randomize(PEOPLE)),
    "count": lambda survey, tally: tally.count(
        {"additive": (1, 5), "region": "north"}
    ).confidence_interval(),
    "quantile": lambda survey, tally: tally.quantile("geometric", 0.5),
    "fit": lambda survey, tally: tally.fit_distribution(["additive", "region"]),
    "predict": lambda survey, tally: (
        survey.expected_error({"additive": (1, 5)}, n=100, prior="worst").stderr
    ),
    "plan": lambda survey, tally: plan(survey, 0.05, {"additive": (1, 5)}),
    "risk": lambda survey, tally: survey.risk("additive"),
    "certify": lambda survey, tally: survey.certify(),
}


def changes_the_state(call):
    """Whether a call changes the global random state."""
    np.random.seed(12345)
    before = np.random.get_state()
    call()
    return any(not np.array_equal(a, b) for a, b in zip(before, np.random.get_state(), strict=True))


@pytest.mark.parametrize("call", CALLS)
def test_no_call_changes_the_global_random_state(call, survey, tally):
    assert not changes_the_state(lambda: CALLS[call](survey, tally))


def test_a_kernel_that_runs_as_python_is_detected(monkeypatch):
    """The negative control: without numba, the search would seed numpy's generator."""
    monkeypatch.setattr(kernels, "anneal", kernels.anneal.py_func)
    monkeypatch.setattr(additive_search, "_WORK", 1000)
    assert changes_the_state(
        lambda: Survey.design({"a": Integer(0, 11, epsilon=0.8, within=3, mechanism="additive")})
    )
