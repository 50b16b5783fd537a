"""Deliberate faults in the package are detected by the saved cases: negative controls."""

import pytest
from compare import differences, outcomes
from saved import collected, load
from systems import Current

from metricldp.answers.answer import Estimate
from metricldp.channels.response import Response


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


def test_one_unit_in_a_distribution_is_detected(monkeypatch):
    honest = Response.__init__
    monkeypatch.setattr(Response, "__init__", lambda self, n, keep: honest(self, n, keep + 1))
    lines = lines_of_difference("randomized-response", "count")
    assert any(line.startswith("distributions") for line in lines)
    assert any(line.startswith("certificate") for line in lines)


def test_wrong_sign_in_an_estimator_is_detected(monkeypatch):
    honest = Response.coefficients
    monkeypatch.setattr(Response, "coefficients", lambda self, f: -honest(self, f))
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
