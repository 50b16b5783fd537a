"""Where real numbers meet integers: the same integers on every machine."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from metricldp import Lp
from metricldp_core import exact


@pytest.mark.parametrize("value", [Fraction(2), Fraction(1, 3), 1 + Fraction(1, 1 << 40)])
def test_logarithms_do_not_depend_on_the_machine(value, monkeypatch):
    """A library whose logarithm is off in its last digits leads to the same two bounds."""
    found = exact.log_bounds(value)
    assert found[1] - found[0] == Fraction(1, 1 << 128)
    assert exact.at_most_exp(value, found[1])
    assert not exact.at_most_exp(value, found[0])
    honest = exact.log_of
    for off in (1 + 1e-13, 1 - 1e-12, 1 + 8e-10, 1 - 8e-10):
        monkeypatch.setattr(exact, "log_of", lambda ratio, off=off: honest(ratio) * off)
        assert exact.log_bounds(value) == found


@pytest.mark.parametrize("precision", [4, 64, 256, 1024])
@pytest.mark.parametrize("exponent", ["1e-12", "0.5", "1", "7", "64", "1000", "-0.3", "-64"])
def test_bounds_are_as_close_as_they_are_asked_to_be(exponent, precision):
    lower, upper = exact.exp_bounds(Fraction(exponent), precision)
    assert 0 < upper - lower <= lower / (1 << precision)
    closer = exact.exp_bounds(Fraction(exponent), 2 * precision)
    assert lower <= closer[0] < closer[1] <= upper


@pytest.mark.parametrize("k", [1, 2, 3, 30, 60, 500])
def test_logarithms_near_one_and_far_from_it_are_of_double_precision(k):
    """ln(1 + d) by its series, or by the logarithm of a power of two."""
    for d in (Fraction(1, 1 << k), Fraction(-1, 1 << k)):
        with localcontext() as context:
            context.prec = 400
            expected = float((1 + Decimal(d.numerator) / Decimal(d.denominator)).ln())
        assert exact.log_of(1 + d) == pytest.approx(expected, rel=1e-15, abs=0)
    for ratio, times in ((Fraction(1 << 10 * k), 10 * k), (Fraction(1, 1 << 10 * k), -10 * k)):
        assert exact.log_of(ratio) == pytest.approx(times * math.log(2), rel=1e-15)
        ninefold = times * math.log(2) + math.log(9)
        assert exact.log_of(9 * ratio) == pytest.approx(ninefold, rel=1e-14)


def test_a_norm_means_the_decimal_that_is_written():
    """1.1 is eleven tenths, not the nearest binary number."""
    power = 1 - 1 / Fraction(11, 10)
    share = Lp(1.1).share(3)
    assert Lp(1.1).proves(share, 3)
    assert float(share) == pytest.approx(3 ** -float(power), rel=1e-12)
    assert math.floor(
        exact.exp_bounds(-power * exact.log_bounds(Fraction(3))[1])[0] * exact.WORD
    ) == (share * exact.WORD)
