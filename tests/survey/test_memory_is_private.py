"""No error message shows the content of a device's memory.

The keys of a memory contain the positions of responses, and its values the first randomized values.
"""

import json

import pytest

from metricldp import Accountant, Integer, InvalidSpecError, InvalidValueError, Survey

MECHANISM = {"name": "memoised", "each": 0.25}
SURVEY = Survey.design({"age": Integer(0, 99, epsilon=1, per=5, mechanism=MECHANISM)})
RESPONSE = {"age": 73}
MEMORY: dict[str, int] = {}
SURVEY.report(RESPONSE, memory=MEMORY)
((KEY, FIRST),) = MEMORY.items()

NOT_DICTS = {
    "JSON text": json.dumps(MEMORY),
    "indented JSON text": json.dumps(MEMORY, indent=2),
    "list of pairs": list(MEMORY.items()),
    "list of keys": list(MEMORY),
    "bytes": json.dumps(MEMORY).encode(),
}


def message_of(kind, call):
    """Return the message of an error, which shows no part of the memory."""
    with pytest.raises(kind) as error:
        call()
    shown = f"{error.value} {error.value.args} {vars(error.value)}"
    for private in (KEY, SURVEY.fingerprint[:8], " 73 ", str(FIRST)):
        assert private not in shown
    return str(error.value)


def test_memory_of_these_tests_contains_the_response():
    assert " 73 " in KEY and str(FIRST) in NOT_DICTS["JSON text"]


@pytest.mark.parametrize("case", NOT_DICTS)
def test_report_names_only_the_type_of_a_wrong_memory(case):
    wrong = NOT_DICTS[case]
    message = message_of(InvalidValueError, lambda: SURVEY.report(RESPONSE, memory=wrong))
    assert message == f"memory is a dict that the device stores, not {type(wrong).__name__}"


@pytest.mark.parametrize("case", NOT_DICTS)
def test_accountant_names_only_the_type_of_a_wrong_memory(case):
    wrong = NOT_DICTS[case]
    message = message_of(InvalidSpecError, lambda: Accountant().add(SURVEY, memory=wrong))
    assert message.endswith(f"dict that report(memory=) uses, not {type(wrong).__name__}")


@pytest.mark.parametrize(
    "wrong",
    [MEMORY, list(MEMORY.items()), json.dumps(MEMORY, indent=2)],
    ids=["dict", "list", "text"],
)
def test_memory_given_as_another_argument_is_not_shown(wrong):
    accountant = Accountant()
    note = message_of(InvalidSpecError, lambda: accountant.add(SURVEY, wrong))
    assert note.startswith("a note is a line of text")
    names = message_of(InvalidSpecError, lambda: accountant.add(SURVEY, names=wrong))
    assert names.startswith(("names map attributes", "a name in the accountant is a line of text"))
    survey = message_of(InvalidSpecError, lambda: accountant.add(wrong))
    assert survey == f"an accountant adds surveys, not {type(wrong).__name__}"
    assert len(accountant) == 0
