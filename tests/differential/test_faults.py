"""Deliberate faults in the package are detected by the saved cases: negative controls."""

import math

import pytest
from compare import REJECTED, centred_differences, differences, outcomes, query_differences
from saved import collected, load
from systems import Current

from metricldp import InvalidSpecError
from metricldp.answers.answer import Estimate
from metricldp.mechanisms.randomized_response import ResponseMoments
from metricldp_core.distributions import RandomizedResponse


def lines_of_difference(mechanism, query):
    """Return the differences of the first saved cases with a mechanism and a query.

    Local hashing contains randomized response, and loading rejects it if that breaks the metric.
    """
    system, lines = Current(), []
    wanted = [case for case in load() if uses(case, mechanism) and asks(case, query)]
    wanted = [case for case in wanted if not uses(case, "local-hashing")]
    for case in wanted[:10]:
        actual = outcomes(system, case, system.load(case["design"]), collected(case))
        lines += differences(case, case["results"], actual, same_machine=False)
    assert len(wanted) >= 3
    return lines


def uses(case, mechanism):
    return mechanism in [a.get("mechanism") for a in case["design"]["attributes"].values()]


def asks(case, query):
    return query in [entry["kind"] for entry in case["queries"]]


CENTRED = {"value": [10.0, 0.0], "stderr": [2.0, 1.0], "low": [6.0, -1.0], "high": [14.0, 1.0]}


@pytest.mark.parametrize(
    "fault",
    [
        {"value": [40.0, 0.0]},
        {"value": [10.0, math.nan]},
        {"stderr": [2.0, math.nan]},
        {"low": [15.0, -1.0]},
        {"value": [10.0], "stderr": [2.0], "low": [6.0], "high": [14.0]},
        {"period": [1.0, 1.0]},
    ],
)
def test_fault_of_another_unbiased_estimate_is_detected(fault):
    query = {"kind": "sum", "attribute": "a"}
    near = {**CENTRED, "value": [30.0, 5.0], "envelope": [None, None]}
    assert not list(centred_differences(query, CENTRED, near))
    assert list(centred_differences(query, CENTRED, {**CENTRED, **fault}))
    assert list(centred_differences(query, CENTRED, REJECTED))


@pytest.mark.parametrize(
    ("low", "high", "is_detected"),
    [(6, 14, False), (5, 16, False), (2, 12, False), (9, 14, True), (6, 19, True), (1, 14, True)],
)
def test_interval_of_another_length_is_detected(low, high, is_detected):
    query, old = {"kind": "sum", "attribute": "a"}, {name: [CENTRED[name][0]] for name in CENTRED}
    possible = {"least": [0.0], "most": [20.0], "envelope": [None]}
    new = {**old, "low": [low], "high": [high], **possible}
    assert bool([*query_differences(query, old, new, True, other_jump=True)]) == is_detected
    assert [*query_differences(query, old, new, True)] or (low, high) == (6, 14)


def test_one_unit_in_a_distribution_is_detected(monkeypatch):
    honest = RandomizedResponse.__init__
    monkeypatch.setattr(
        RandomizedResponse, "__init__", lambda self, n, keep: honest(self, n, keep - 1)
    )
    lines = lines_of_difference("randomized-response", "count")
    assert any(line.startswith("distributions") for line in lines)


def test_one_unit_that_breaks_the_guarantee_is_rejected(monkeypatch):
    honest = RandomizedResponse.__init__
    monkeypatch.setattr(
        RandomizedResponse, "__init__", lambda self, n, keep: honest(self, n, keep + 1)
    )
    with pytest.raises(InvalidSpecError, match="break its guarantee"):
        lines_of_difference("randomized-response", "count")


def test_wrong_sign_in_an_estimator_is_detected(monkeypatch):
    honest = ResponseMoments.coefficients
    monkeypatch.setattr(ResponseMoments, "coefficients", lambda self, f: -honest(self, f))
    lines = lines_of_difference("randomized-response", "count")
    assert any("value[" in line for line in lines)
    assert not any(line.startswith(("distributions", "payloads")) for line in lines)


def test_standard_error_one_per_cent_too_large_is_detected(monkeypatch):
    honest = Estimate.stderr.fget
    monkeypatch.setattr(Estimate, "stderr", property(lambda self: 1.01 * honest(self)))
    lines = lines_of_difference("randomized-response", "count")
    assert any("stderr[" in line for line in lines)
    assert any("low[" in line or "high[" in line for line in lines)


@pytest.mark.parametrize("query", ["mean", "histogram"])
def test_the_unchanged_package_has_no_differences(query):
    assert not lines_of_difference("randomized-response", query)
