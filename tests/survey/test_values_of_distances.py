"""Errors about the two values of a distance show these values: no respondent gave them."""

import pytest

from metricldp import (
    Accountant,
    Categorical,
    Continuous,
    Integer,
    InvalidValueError,
    QueryError,
    Survey,
)

ATTRIBUTES = {
    "age": Integer(0, 9, epsilon=1, per=1),
    "site": Categorical(["news", "games"], epsilon=1),
    "height": Continuous(0, 2, bins=4, epsilon=1, per=1),
    "length": Continuous(0, 2, rounding="stochastic", points=5, epsilon=1, per=1),
}
VALID = {"age": 1, "site": "news", "height": 1.0, "length": 1.0}
WRONG = [
    ("age", 200, "(200) is outside 0 to 9"),
    ("age", "x", "('x') is not a number"),
    ("site", "shop", "('shop') is not one of"),
    ("site", None, "(None) is missing"),
    ("height", 2.5, "(2.5) is outside 0 to 2"),
    ("length", -1, "(-1) is outside 0 to 2"),
]


@pytest.mark.parametrize(("name", "value", "reason"), WRONG)
@pytest.mark.parametrize("place", [0, 1])
def test_error_of_the_accountant_shows_the_value(name, value, reason, place):
    accountant = Accountant()
    accountant.add(Survey.design(ATTRIBUTES))
    pair = [VALID[name], value] if place else [value, VALID[name]]
    with pytest.raises(QueryError) as error:
        accountant.spent(name, *pair)
    assert str(error.value).startswith(f"{name} {reason}")


@pytest.mark.parametrize(("name", "value", "reason"), WRONG)
def test_error_of_a_distance_shows_the_value(name, value, reason):
    attribute = ATTRIBUTES[name]
    with pytest.raises(InvalidValueError) as error:
        attribute.distance(VALID[name], value)
    assert str(error.value).startswith(f"the {attribute.kind} value {reason}")
