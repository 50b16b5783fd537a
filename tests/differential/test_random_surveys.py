"""The package agrees with version 0.2, installed as `metricldp_oracle`, on random surveys."""

import pytest
from cases import cases
from compare import agreed, differences, first_difference, outcomes
from hypothesis import HealthCheck, given, settings
from systems import Current, Version02

pytest.importorskip("metricldp_oracle", reason="run make oracle")


def check(case):
    """Compare design, distributions, certificate, reports, marginal tables and estimates."""
    oracle, current = Version02("metricldp_oracle"), Current()
    stated, case = case["spec"], agreed(case)
    try:
        designed = oracle.design(case["spec"])
    except oracle.invalid:
        with pytest.raises(current.invalid):
            current.design(case["spec"])
        return
    design = oracle.export(designed)
    survey = current.design(case["spec"])
    again = current.export(survey)
    assert again == design, first_difference(design, again)
    assert current.design(stated).fingerprint == survey.fingerprint
    expected = outcomes(oracle, case, designed)
    actual = outcomes(current, case, current.load(design), expected["payloads"])
    wrong = list(differences(case, expected, actual))
    assert not wrong, "\n".join(wrong)


COMMON = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))


@settings(COMMON, max_examples=150, derandomize=True)
@given(cases())
def test_package_agrees_with_version_02_on_random_surveys(case):
    check(case)


@pytest.mark.slow
@settings(COMMON, max_examples=2000)
@given(cases())
def test_package_agrees_with_version_02_on_many_random_surveys(case):
    check(case)
