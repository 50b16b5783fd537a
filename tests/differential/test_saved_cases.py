"""The package agrees with 300 saved results of version 0.2."""

import pytest
from compare import differences, first_difference, outcomes
from saved import COUNT, collected, load, subjects
from systems import Current


def test_package_agrees_with_every_saved_case():
    system, wrong, number = Current(), [], 0
    for case in load():
        survey = system.load(case["design"])
        assert system.export(survey) == case["design"]
        actual = outcomes(system, case, survey, collected(case))
        wrong += [
            f"case {number}: {line}"
            for line in differences(case, case["results"], actual, same_machine=False)
        ]
        number += 1
    assert not wrong, "\n".join(wrong[:20])
    assert number == COUNT


def test_saved_cases_cover_every_mechanism_and_query():
    seen = set().union(*(subjects(case) for case in load()))
    assert sum(subject.startswith("mechanism") for subject in seen) >= 24
    assert sum(subject.startswith("joint") for subject in seen) >= 5
    assert sum(subject.startswith("query") for subject in seen) >= 20
    assert {"optional", "cyclic", "within", "max_epsilon"} <= seen


@pytest.mark.slow
def test_package_designs_the_survey_of_every_saved_spec():
    system = Current()
    for case in load():
        design = system.export(system.design(case["spec"]))
        assert design == case["design"], first_difference(case["design"], design)
