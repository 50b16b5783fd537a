"""The client rejects the manifests that the core rejects: the proof and strict reading."""

from collections import Counter

import pytest
from changed_manifests import (
    FAMILIES,
    extreme,
    largest_proofs,
    limits,
    malformed,
    most_items,
    one_unit_changes,
)
from facts import facts
from test_facts import in_chromium, in_node

from metricldp_core.distributions import SUPPORTED
from metricldp_core.metrics import KINDS

MOST_MILLISECONDS = 2_000
"""Of a proof on a device; none of the manifests takes longer."""


def verdicts(changes):
    return Counter(change["verdict"] for change in changes)


def agree(changes, tmp_path):
    result = in_node({"changes": changes}, tmp_path)
    assert (result["differ"], result["wrong"]) == (0, [])
    assert result["counts"]["changes"] == len(changes)


def kinds_of(changes):
    """The distributions and metrics of changed manifests, and the names of the numbers."""
    found = Counter()
    for change in changes:
        kinds = [kind for kind in (*SUPPORTED, *KINDS) if f'"kind":"{kind}"' in change["manifest"]]
        found.update([*kinds, change["number"]])
    return found


def test_one_unit_that_breaks_the_guarantee_is_rejected(tmp_path):
    changes = list(one_unit_changes(12))
    agree(changes, tmp_path)
    counts = verdicts(changes)
    assert counts["broken"] > 700
    assert counts["holds"] > 700  # in the other direction a unit costs nothing
    rejected = kinds_of(change for change in changes if change["verdict"] == "broken")
    assert rejected.keys() >= {*SUPPORTED, *KINDS}
    assert rejected.keys() >= {
        "metric.epsilon",
        "metric.cap",
        "metric.step",
        "metric.lengths",
        "metric.steps",
        "metric.width",
        "distribution.keep",
        "distribution.flips",
        "distribution.own",
        "distribution.other",
        "distribution.zero",
        "distribution.digits",
        "distribution.block",
        "distribution.fall",
        "distribution.tops",
        "distribution.depths",
        "distribution.rows.block",
        "distribution.first.digits",
        "distribution.first.keep",
        "table two weights",
    }


def test_malformed_manifests_are_rejected(tmp_path):
    changes = [*malformed(10), *extreme(), *limits()]
    agree(changes, tmp_path)
    counts = verdicts(changes)
    assert counts["invalid"] > 1_500
    assert counts["broken"] > 200


@pytest.mark.slow
def test_proofs_with_too_many_steps_are_rejected(tmp_path):
    changes = list(largest_proofs())
    agree(changes, tmp_path)
    assert [change["verdict"] == "invalid" for change in changes] == [False, True] * len(FAMILIES)


def test_other_verdict_is_noticed(tmp_path):
    changes = list(one_unit_changes(6, step=40))
    assert len(verdicts(changes)) == 3
    for verdict in ("holds", "broken", "invalid"):
        wrong = [{**change, "verdict": verdict} for change in changes]
        result = in_node({"changes": wrong}, tmp_path)
        assert result["differ"] == sum(change["verdict"] != verdict for change in changes)


def test_proofs_take_a_moment(tmp_path):
    result = in_node({"facts": list(facts(0, 0))}, tmp_path)
    assert result["slowest"] < MOST_MILLISECONDS


@pytest.mark.slow
def test_manifests_with_too_many_items_are_rejected(tmp_path):
    changes = list(most_items())
    agree(changes, tmp_path)
    assert [change["read"] for change in changes] == [True, False] * (len(changes) // 2)


@pytest.mark.slow
def test_all_changes_have_the_same_verdict_in_node_and_chromium(tmp_path):
    changes = [*one_unit_changes(1_000), *malformed(40), *extreme()]
    agree(changes, tmp_path)
    again = in_chromium({"changes": changes})
    assert (again["counts"]["changes"], again["wrong"]) == (len(changes), [])
    assert verdicts(changes)["broken"] > 2_000
