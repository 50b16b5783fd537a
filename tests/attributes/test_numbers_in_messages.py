"""Messages about ranges of bins show the numbers that were given, and the nearest bin."""

import re

import pytest

from metricldp import Continuous, QueryError, Survey

LARGE = Continuous(1_700_000_000, 1_700_000_010, bins=10, epsilon=1, per=1)
HOUR = Continuous(0, 24, bins=24, epsilon=1, per=1, cyclic=True)
SMALL = Continuous(0, 1, bins=10, epsilon=1, per=1)


def message_of(attribute, words):
    with pytest.raises(QueryError) as error:
        attribute.choose(words, "x")
    return str(error.value)


@pytest.mark.parametrize(
    ("attribute", "number", "text"),
    [
        (LARGE, 1_700_000_000.5, "1,700,000,000.5"),
        (LARGE, 1_700_000_002.25, "1,700,000,002.25"),
        (SMALL, 0.1234567, "0.1234567"),
        (SMALL, 0.25, "0.25"),
        (SMALL, 1 / 3, "0.3333333333333333"),
    ],
)
def test_message_shows_the_number_that_cuts_a_bin(attribute, number, text):
    message = message_of(attribute, (None, number))
    assert message.startswith(f"x up to {text} cuts a bin of x: {text} lies between the edges ")
    pattern = r"([\d.,]+) lies between the edges ([\d.,]+) and ([\d.,]+);"
    shown = [float(part.replace(",", "")) for part in re.search(pattern, message).groups()]
    assert shown[0] == number
    assert shown[1] < number < shown[2]
    assert message_of(attribute, (number, None)).startswith(f"x {text} and up cuts")
    assert message_of(attribute, number).startswith(f"x = {text} is part of a bin")


def test_message_shows_both_ends_of_a_narrow_range():
    message = message_of(LARGE, (1_700_000_000.25, 1_700_000_000.75))
    assert message == (
        "x 1,700,000,000.25 to 1,700,000,000.75 is narrower than a bin; "
        "the nearest is 1,700,000,000 to 1,700,000,001"
    )
    assert "its ends are swapped" in message_of(LARGE, (1_700_000_000.75, 1_700_000_000.25))


def test_message_shows_a_range_outside_of_the_domain_and_the_domain():
    attribute = Continuous(1_700_000_000.5, 1_700_000_010.5, bins=10, epsilon=1, per=1)
    message = message_of(attribute, (1_700_000_010.75, 1_700_000_011.25))
    assert "x 1,700,000,010.75 to 1,700,000,011.25 is an empty range" in message
    assert "from 1,700,000,000.5 to 1,700,000,010.5" in message


def test_error_of_a_query_shows_the_number():
    survey = Survey.design({"x": LARGE})
    with pytest.raises(QueryError, match=r"1,700,000,002\.5 lies between the edges 1,700,000,002 "):
        survey.expected_error({"x": (None, 1_700_000_002.5)}, n=100)


def test_cyclic_range_between_the_ends_is_narrower_than_the_first_bin():
    assert message_of(HOUR, (24, 0)) == "x 24 to 0 is narrower than a bin; the nearest is 0 to 1"
    assert message_of(HOUR, (7, 7)) == "x 7 to 7 is narrower than a bin; the nearest is 7 to 8"
    assert message_of(HOUR, (0, 0)) == "x 0 to 0 is narrower than a bin; the nearest is 0 to 1"
    assert message_of(HOUR, (3.2, 3.7)).endswith("the nearest is 3 to 4")
    assert HOUR.choose((23, 1), "x").inside.nonzero()[0].tolist() == [0, 23]
