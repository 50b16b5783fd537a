"""A mixture of shapes as a table: each level where its shape has it, the rest to one report."""

from dataclasses import replace
from fractions import Fraction

import pytest

from metricldp.basics.errors import InvalidSpecError
from metricldp.mechanisms.levels import fall_of
from metricldp.mechanisms.table import extremal_table
from metricldp_core.exact import WORD
from metricldp_core.levels import levels


def test_every_weight_is_a_level_and_the_last_is_what_is_left():
    shapes, tops = ((0, 1, 2), (2, 0, 0), (0, 0, 0)), (WORD >> 2, WORD >> 3, 1)
    unit = Fraction(1, 3)
    found = extremal_table(shapes, tops, unit)
    one, other = (levels(top, fall_of(unit), 2) for top in tops[:2])
    rows = [(one[0], other[2], 1), (one[1], other[0], 1), (one[2], other[0], 1)]
    assert found.weights == tuple((*row, WORD - sum(row)) for row in rows)
    assert (found.size, found.outputs, found.prior) == (3, 4, None)
    prior = (0.5, 0.25, 0.25)
    assert extremal_table(shapes, tops, unit, prior) == replace(found, prior=prior)
    assert found.distribution.to_data() == {
        "kind": "extremal",
        "depths": ["012", "200", "000"],
        "tops": ["4000000000000000", "2000000000000000", "0000000000000001"],
        "fall": f"{fall_of(unit):016x}",
    }


def test_something_has_to_be_left_of_every_row():
    half, unit = WORD >> 1, Fraction(50)
    found = extremal_table(((0, 1), (0, 0)), (half, half - 1), unit)
    assert found.weights[0] == (half, half - 1, 1)
    with pytest.raises(InvalidSpecError, match=r"shapes add up to 2\^64 or more at position 0"):
        extremal_table(((0, 1), (0, 0)), (half, half), unit)
    with pytest.raises(InvalidSpecError, match="at position 1"):
        extremal_table(((1, 0), (0, 0)), (half, half + 1), unit)
