"""Circular means are compared with those of the histograms of version 0.2."""

import copy
import math

import numpy as np
import pytest
from compare import REJECTED, circular_differences, differences, outcomes
from systems import Current, Version02

pytest.importorskip("metricldp_oracle", reason="run make oracle")

HOUR = {"kind": "integer", "low": -2, "high": 5, "epsilon": 2.0, "cyclic": True}
ANGLE = {"kind": "continuous", "low": 0.0, "high": 40.0, "bins": 8, "epsilon": 3.0, "cyclic": True}
GROUP = {"kind": "categorical", "categories": ["c0", "c1", "c2"], "epsilon": 3.0}
N = 200
"""Respondents: enough for an estimate of every mean."""


def case_of(queries):
    rng = np.random.default_rng(4)
    rows = [
        {
            "hour": int(rng.choice([-2, -1, 4, 5], p=[0.4, 0.2, 0.1, 0.3])),
            "angle": float(rng.uniform(0, 15)),
            "group": str(rng.choice(["c0", "c1", "c2"])),
        }
        for _ in range(N)
    ]
    attributes = {
        "hour": {**HOUR, "mechanism": "randomized-response", "optional": True, "per": 1},
        "angle": {**ANGLE, "mechanism": "additive", "per": 20.0},
        "group": {**GROUP, "mechanism": "randomized-response"},
    }
    return {"spec": {"attributes": attributes}, "respondents": rows, "queries": queries, "seed": 3}


QUERIES = [
    {"kind": "mean", "attribute": attribute, **more}
    for attribute in ("hour", "angle")
    for more in (
        {},
        {"target": "population"},
        {"where": {"group": {"in": ["c0", "c1"]}}},
        {"by": "group"},
    )
]


@pytest.fixture(scope="module")
def results():
    """The case and the results of version 0.2 and of the package."""
    oracle, case = Version02("metricldp_oracle"), case_of(QUERIES)
    designed, current = oracle.design(case["spec"]), Current()
    expected = outcomes(oracle, case, designed)
    survey = current.load(oracle.export(designed))
    return case, expected, outcomes(current, case, survey, expected["payloads"])


def test_circular_means_agree_with_the_histogram_of_version_02(results):
    case, expected, actual = results
    assert not list(differences(case, expected, actual))
    results = zip(case["queries"], expected["queries"], actual["queries"], strict=True)
    for query, old, new in results:
        assert max(old["length"]) > 0.1  # else any direction agrees
        assert len(old["value"]) == len(new["value"]) == (3 if "by" in query else 1)
        assert all(map(math.isfinite, new["value"] + new["stderr"]))


FAULTS = {
    "value off by a thousandth of the period": lambda new: {
        **new, "value": [value + 0.008 for value in new["value"]]
    },
    "mean along a line": lambda new: {**new, "value": [1.0 for _ in new["value"]]},
    "value that is not finite": lambda new: {**new, "value": [math.nan for _ in new["value"]]},
    "value that is not finite, with a short interval": lambda new: {
        **new,
        "value": [math.nan for _ in new["value"]],
        "stderr": [math.inf for _ in new["value"]],
    },
    "standard error that is not a number": lambda new: {
        **new, "stderr": [math.nan for _ in new["value"]]
    },
    "interval beside the value": lambda new: {
        **new, "low": [value + 0.1 for value in new["value"]],
        "high": [value + 0.2 for value in new["value"]],
    },
    "interval longer than the period": lambda new: {
        **new, "low": [-90.0 for _ in new["value"]], "high": [90.0 for _ in new["value"]]
    },
    "missing column": lambda new: {k: column for k, column in new.items() if k != "stderr"},
    "missing row": lambda new: {k: column[:-1] for k, column in new.items()},
    "rejection": lambda new: REJECTED,
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_of_a_circular_mean_is_detected(results, fault):
    """Negative controls: each of them is found in every query that is known to be different."""
    case, expected, actual = results
    for k, query in enumerate(case["queries"]):
        wrong = copy.deepcopy(actual)
        wrong["queries"][k] = FAULTS[fault](wrong["queries"][k])
        assert list(differences(case, expected, wrong)), query


def test_result_of_a_rejected_query_is_detected(results):
    case, _, actual = results
    query = case["queries"][0]
    assert list(circular_differences(query, REJECTED, actual["queries"][0]))
    assert not list(circular_differences(query, REJECTED, REJECTED))
