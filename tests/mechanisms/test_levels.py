"""Levels of probability: whole numbers that never fall too fast, and shapes as text."""

from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import pytest

from metricldp.basics.errors import CertificateError
from metricldp.mechanisms.levels import fall_of, highest
from metricldp_core.canonical import Entry
from metricldp_core.exact import WORD
from metricldp_core.levels import depths_text, levels, read_depths

UNITS = ["0.001", "0.1", "0.25", "1", "3", "44", "50", "500"]


@pytest.mark.parametrize("unit", UNITS)
def test_a_level_is_the_one_above_over_e_to_the_unit_rounded_up(unit):
    with localcontext(prec=400):
        fall = int((WORD * (-Decimal(unit)).exp()).to_integral_value(ROUND_CEILING))
    assert fall_of(Fraction(unit)) == fall
    found = levels(WORD - 5, fall, 9)
    assert found[0] == WORD - 5 and len(found) == 10
    for above, below in pairwise(found):
        assert (below - 1) * WORD < above * fall <= below * WORD
    assert levels(7, fall, 0) == [7]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("shape", [(0, 0), (0, 1, 2, 1), tuple(range(60)) * 2, (3, 0) * 500])
def test_levels_add_up_to_nearly_everything(unit, shape):
    """At most 2^64, and no less than by twice what rounding may add."""
    fall = fall_of(Fraction(unit))
    top = highest(fall, shape)
    tall = levels(top, fall, max(shape))
    rounding = len(shape) * (-(-WORD // (WORD - fall)) + 1)
    assert WORD - 2 * rounding <= sum(tall[depth] for depth in shape) <= WORD
    exact = levels(WORD**2, fall, max(shape))
    share = Fraction(WORD - rounding, sum(exact[depth] for depth in shape))
    assert top == share * WORD**2 // 1


def test_a_unit_too_small_for_64_bits_is_refused():
    """A quarter of all words may be left to rounding: two positions need 9 parts of 2^64."""
    assert highest(WORD - 9, (0, 1)) > 0
    with pytest.raises(CertificateError, match=r"epsilon 4.34e-19 per unit of height is too small"):
        highest(WORD - 8, (0, 1))
    assert fall_of(Fraction(1, 1 << 70)) == WORD
    with pytest.raises(CertificateError, match=r"epsilon 0 per unit"):
        highest(WORD, (0, 1))


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((1, 0, 10, 35, 36, 61), "10azAZ"),
        ((0, 62, 61, 5), ":00100Z05"),
        ((0, 3843, 62 * 7 + 1, 1), ":00ZZ7101"),
        ((0, 3844, 2), [0, 3844, 2]),
        ((0, 16_384), [0, 16_384]),
    ],
)
def test_shapes_as_text(shape, text):
    assert depths_text(shape) == text
    assert read_depths(Entry({}, "the entry"), text) == shape
