"""`check_mechanism` passes every mechanism."""

import pytest

from checks import MECHANISMS
from metricldp.mechanisms.conformance import check_mechanism
from metricldp.mechanisms.registry import mechanism

SLOW = ("matrix", "prefix", "histogram-sum")
"""Long noise has so many reports that only the shortest cases can be listed."""


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_conforms(name):
    sizes, epsilons = ((2,), (3.0,)) if name in SLOW else ((2, 3, 5), (0.1, 3.0))
    found = check_mechanism(mechanism(name), sizes=sizes, epsilons=epsilons)
    assert found.holds, str(found)
    assert sum(finding.what != "skipped" for finding in found.findings) >= 8
