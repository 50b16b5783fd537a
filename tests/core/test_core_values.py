"""Domains: positions at all boundaries, types of values, clipping, and messages without values."""

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from metricldp.basics.errors import at_row
from metricldp.channels.plain_data import plain_data
from metricldp_core.canonical import Entry
from metricldp_core.errors import InvalidManifestError, InvalidValueError
from metricldp_core.values import (
    Bins,
    Names,
    Points,
    PublicWeight,
    Response,
    WholeNumbers,
    is_missing,
    listed,
    read_domain,
)

ONE = 1 << 32
AGES = WholeNumbers("age", low=-3, high=7)
FLAG = WholeNumbers("flag", low=0, high=1)
HOURS = WholeNumbers("hour", low=0, high=23, cyclic=True)
TENTHS = Bins("share", low=0.0, high=1.0, bins=10)
GIVEN = Bins("income", low=-1.5, high=1e9, given=(-1.5, 0.0, 0.1, 1e9))
POINTS = Points("height", low=50.0, high=250.0, points=41)
WEIGHT = Points("w", low=0.0, high=4.0, weight=True)
PUBLIC = PublicWeight("p", low=0.5, high=3.0)
LEVELS = Names("level", names=("never", "3", "true", " x "), ordered=True)
NUMBERS = [AGES, FLAG, HOURS, TENTHS, GIVEN, POINTS, WEIGHT, PUBLIC]
DOMAINS = [*NUMBERS, LEVELS]


def reason(domain, value, *, clip=False):
    """The reason why a value is rejected, or its position."""
    try:
        return domain.position(value, clip=clip)
    except InvalidValueError as error:
        assert error.attribute == domain.name
        return error.reason


# Boundaries --------------------------------------------------------------------------------------


def test_whole_numbers_from_end_to_end():
    assert [AGES.position(v) for v in range(-3, 8)] == list(range(11)) == list(range(AGES.size))
    assert [reason(AGES, v) for v in (-4, 8, 10**30, -(10**5000))] == ["range"] * 4
    assert [reason(AGES, v, clip=True) for v in (-4, 8, 10**5000, -(10**400))] == [0, 10, 10, 0]
    assert [reason(HOURS, v, clip=True) for v in (-1, 24)] == ["range", "range"]
    huge = WholeNumbers("x", low=2**53 - 9, high=2**53)
    assert [huge.position(v) for v in (2**53 - 9, 2**53, float(2**53), str(2**53))] == [0, 9, 9, 9]


@pytest.mark.parametrize("bins", [TENTHS, GIVEN, Bins("x", low=-7.3, high=1e6, bins=977)])
def test_bins_hold_their_lower_edge_and_the_last_one_both(bins):
    edges = bins.edges
    assert len(edges) == bins.size + 1
    assert list(edges) == sorted(set(edges))
    for k, edge in enumerate(edges[:-1]):
        assert bins.position(edge) == k
        assert bins.position(math.nextafter(edge, math.inf)) == k
        if k:
            assert bins.position(math.nextafter(edge, -math.inf)) == k - 1
    last = edges[-1]
    assert bins.position(last) == bins.position(math.nextafter(last, -math.inf)) == bins.size - 1
    beyond = math.nextafter(last, math.inf), math.nextafter(edges[0], -math.inf)
    assert [reason(bins, v) for v in beyond] == ["range", "range"]
    assert [reason(bins, v, clip=True) for v in beyond] == [bins.size - 1, 0]


def test_edges_of_equal_bins_are_the_nearest_doubles():
    assert TENTHS.edges == (*tuple(float(f"0.{k}") for k in range(10)), 1.0)
    for low, high, bins in ((0, 1, 49), (-1, 1, 20), (0.1, 0.7, 6), (-1e300, 1e300, 3), (5, 6, 7)):
        exact = [
            Fraction(str(low)) + k * (Fraction(str(high)) - Fraction(str(low))) / bins
            for k in range(bins + 1)
        ]
        assert Bins("x", low=low, high=high, bins=bins).edges == tuple(map(float, exact))


def test_decimals_a_width_apart_are_in_bins_one_step_apart():
    for low, high, bins in ((0, 1, 10), (0, 1, 40), (-1, 1, 20), (0, 360, 8)):
        domain = Bins("x", low=low, high=high, bins=bins)
        width = Fraction(high - low, bins)
        for k in range(10 * bins - 9):
            one, other = (float(low + width * part / 10) for part in (k, k + 10))
            assert domain.position(other) - domain.position(one) <= 1


def test_high_of_a_circle_is_low():
    clock = Bins("hour", low=0, high=360, bins=8, cyclic=True)
    assert [clock.position(v) for v in (0, 44.9, 45, 359.9, 360)] == [0, 0, 1, 7, 0]


def check_points():
    for k in range(41):
        assert POINTS.position(50 + 5 * k) == k * ONE
    assert POINTS.position(52.5) == ONE // 2
    assert POINTS.position(math.nextafter(250, 0)) == 40 * ONE
    assert POINTS.position(250.0) == 40 * ONE
    assert [WEIGHT.position(v) for v in (0, 1, 4)] == [0, ONE // 4, ONE]


def test_points_are_positions_in_units_of_two_to_the_minus_32():
    check_points()


def test_points_of_all_values_are_within_rounding_of_the_exact_position():
    """Arithmetic in doubles moves a position by less than 2^-29 steps."""
    for points in (2, 3, 1000, 1 << 20):
        domain = Points("x", low=-0.3, high=7.7, points=points)
        low, width = Fraction(-0.3), Fraction(7.7) - Fraction(-0.3)
        for k in range(200):
            value = min(max(-0.3 + 8 * math.sin(k) ** 2, -0.3), 7.7)
            exact = (Fraction(value) - low) / width * (points - 1)
            assert abs(Fraction(domain.position(value), ONE) - exact) < Fraction(1, 1 << 29)


def test_public_weights_are_the_bits_of_the_double():
    for value in (0.5, 1.0, 3.0, 2.718281828):
        bits = PUBLIC.position(value)
        assert PUBLIC.is_possible(bits)
        assert np.uint64(bits).view(np.float64) == value
    below, above = math.nextafter(0.5, 0), math.nextafter(3, 4)
    for value in (below, above, math.nan, math.inf, -math.inf, -1.0):
        assert not PUBLIC.is_possible(int(np.float64(value).view(np.uint64)))
    assert [reason(PUBLIC, v) for v in (below, above)] == ["range", "range"]


def test_names_are_exact():
    assert [LEVELS.position(v) for v in ("never", "3", "true", " x ")] == [0, 1, 2, 3]
    assert [LEVELS.position(v) for v in (3, np.int64(3), True, np.bool_(True))] == [1, 1, 2, 2]
    for value in ("Never", "never ", "x", 3.5, 4, "False", False):
        assert reason(LEVELS, value) in ("name", "kind")
    assert "only numbers can be clipped" in message(LEVELS, "Never", clip=True)


# Types -------------------------------------------------------------------------------------------


EQUAL_TO_TWO = [
    *(2, 2.0, "2", " 2.0 ", "+2", "2e0", ".2e1", Decimal(2), Decimal("2.0"), Fraction(2)),
    *(np.int8(2), np.uint64(2), np.int64(2), np.float32(2), np.float64(2), np.float16(2)),
    *(np.str_("2"), pd.Series([2])[0]),
]


@pytest.mark.parametrize("value", EQUAL_TO_TWO, ids=lambda v: f"{type(v).__name__} {v}")
def test_equal_numbers_of_all_types_have_one_position(value):
    assert AGES.position(value) == 5
    assert GIVEN.position(value) == 2
    assert WEIGHT.position(value) == ONE // 2
    assert PUBLIC.position(value) == PUBLIC.position(2.0)


WRONG_KINDS = [
    *(b"2", [2], (2,), {2}, {"a": 2}, 2j, np.array([2]), np.array(2), object(), range(2)),
    *(np.timedelta64(2, "s"), np.datetime64(2, "s"), pd.Timestamp(2), "two", "2,0", "0x2", "1_0"),
    *("٢", "2 2", "--2", "e1", "9" * 1001, True, np.bool_(False)),
]


@pytest.mark.parametrize("value", WRONG_KINDS, ids=lambda v: f"{type(v).__name__}")
def test_other_types_and_texts_are_rejected(value):
    for domain in (AGES, TENTHS, POINTS, PUBLIC):
        assert reason(domain, value) == reason(domain, value, clip=True) == "kind"


MISSING = [
    *(None, math.nan, "", "  ", "nan", "NaN", Decimal("NaN"), Decimal("sNaN"), np.float64("nan")),
    *(np.float32("nan"), pd.NA, pd.NaT, np.str_("")),
]


@pytest.mark.parametrize("value", MISSING, ids=lambda v: f"{type(v).__name__}-{v!s}")
def test_missing_values_are_rejected_or_take_the_middle(value):
    for domain in NUMBERS:
        assert reason(domain, value) == reason(domain, value, clip=True) == "missing"
    as_text = isinstance(value, str) and value.strip() != ""
    assert is_missing(value) != as_text
    assert reason(LEVELS, value) == ("name" if as_text else "missing")
    if as_text:
        return
    assert Response("x").position(value) == 0
    for domain in DOMAINS[:-2]:
        if isinstance(domain, Points | WholeNumbers | Bins):
            optional = with_optional(domain)
            assert optional.position(value) == optional.position(domain.middle)
    assert with_optional(LEVELS).position(value) == 2
    assert Response("x").position(0) == Response("x").position("a") == 1


def with_optional(domain):
    return replace(domain, optional=True)


@pytest.mark.parametrize("value", [math.inf, -math.inf, "inf", "-Infinity", np.float32("inf")])
def test_infinite_numbers_are_rejected_also_when_clipped(value):
    for domain in NUMBERS:
        assert reason(domain, value) == reason(domain, value, clip=True) == "range"


def test_numbers_that_are_not_whole_are_rejected():
    for value in (0.5, "0.5", Decimal("0.5"), Fraction(1, 2), np.float32(0.5), 1e-300):
        assert reason(AGES, value) == "whole"


def test_truth_values_are_numbers_from_0_to_1_only():
    for value, position in ((False, 0), (True, 1), (np.bool_(True), 1)):
        assert FLAG.position(value) == position
    assert reason(AGES, True) == reason(TENTHS, True) == "kind"


HUGE = [10**400, -(10**400), 10**5000, 1e308, Fraction(10**400, 3)]


@pytest.mark.parametrize("value", HUGE, ids=lambda v: type(v).__name__)
def test_huge_numbers_are_clipped(value):
    end = -1 if value > 0 else 0
    for domain in (AGES, TENTHS, GIVEN, POINTS):
        assert reason(domain, value) in ("range", "whole")
        if domain is not AGES or isinstance(value, int):
            last = (domain.size - 1) * (ONE if domain is POINTS else 1)
            assert reason(domain, value, clip=True) == (last if end else 0)
    assert reason(LEVELS, value) in ("name", "kind")


# Messages ----------------------------------------------------------------------------------------


def message(domain, value, **more):
    with pytest.raises(InvalidValueError) as caught:
        domain.position(value, **more)
    return str(caught.value)


SECRETS = [
    *(918273, -918273, 9182.73, "9182.73", "918273x", Decimal("918273.5"), Fraction(918273, 7)),
    *(np.int64(918273), np.float32(918273.5), b"918273", [918273], {"a": 918273}, 918273j),
    *("9" * 2000 + "918273", 918273 * 10**400, np.array([918273]), "918273\n", float("918273e200")),
]


@pytest.mark.parametrize("value", SECRETS, ids=lambda v: type(v).__name__)
def test_messages_do_not_contain_the_value(value):
    for domain in [*DOMAINS[:4], POINTS, WEIGHT, PUBLIC, LEVELS]:
        for clip in (False, True):
            try:
                domain.position(value, clip=clip)
            except InvalidValueError as error:
                parts = [*map(str, error.args), error.why, repr(error)]
                assert not any("91827" in part or "9182.7" in part for part in parts)
                assert error.__cause__ is None


def test_messages_name_the_attribute_the_limits_and_the_remedy():
    assert message(AGES, 99) == (
        "age is outside -3 to 7; correct it or clip it (clip=True, --clip)"
    )
    assert "cyclic values are not clipped; reduce it modulo 24" in message(HOURS, 24, clip=True)
    assert message(AGES, None).startswith("age is missing; each response needs a value")
    assert message(AGES, 0.5) == "age is not a whole number; round it first"
    assert message(AGES, [1]).startswith("age holds list values where numbers are needed")
    assert message(LEVELS, 2.5).startswith("level holds float values where names are needed")
    assert "'never', '3', 'true'" in message(LEVELS, "nope")
    assert listed([f"n{k}" for k in range(12)]).endswith("and 4 more")
    assert len(listed(["n" * 5000] * 12)) < 1000


def test_errors_keep_their_reason_when_a_row_or_text_is_added():
    with pytest.raises(InvalidValueError) as caught:
        AGES.position("x")
    error = at_row(caught.value, 12, "see row")
    assert (error.row, error.reason, error.attribute) == (12, "kind", "age")
    assert str(error).startswith("age in row 13 is not a number")
    assert str(error).endswith("; see row")


# Reading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", [*DOMAINS, Response("x"), with_optional(TENTHS)])
def test_domains_are_read_as_they_are_written(domain):
    entry = Entry(plain_data(domain), "domain")
    assert read_domain(entry) == domain
    entry.done()


def rejected(data):
    entry = Entry({"name": "x", **data}, "domain")
    try:
        read_domain(entry)
        entry.done()
    except InvalidManifestError:
        return True
    return False


NUMBER = {"kind": "continuous", "low": 0, "high": 1, "bins": 4}
WHOLE = {"kind": "integer", "low": 1, "high": 9}


@pytest.mark.parametrize(
    "data",
    [
        *({**WHOLE, key: bad} for key in ("low", "high") for bad in (1.5, "1", None, True, 2**54)),
        *({**NUMBER, key: bad} for key in ("low", "high") for bad in ("1", None, True, [0])),
        *({**NUMBER, "bins": bad} for bad in (1, 2.0, -2, (1 << 20) + 1, "4", True)),
        *({**NUMBER, "low": 1}, {**NUMBER, "low": 2}, {**NUMBER, "low": -1e300, "high": 1.1e300}),
        *({**NUMBER, "points": 4}, {**NUMBER, "edges": [0, 1, 2]}, {**WHOLE, "high": 1}),
        {**WHOLE, "high": 1 + (1 << 20)},
        *({"kind": "continuous", "edges": edges} for edges in ([0, 1], [0, 1, 1], [2, 1, 0], [0])),
        *({"kind": "continuous", "edges": [0, 1, bad]} for bad in ("2", None, 1e301, True)),
        *({"kind": "ordinal", "names": names} for names in (["a"], ["a", "a"], ["a", ""], "ab")),
        *({"kind": "ordinal", "names": ["a", bad]} for bad in (1, None, "b\n", " ", True, ["b"])),
        {"kind": "categorical", "names": ["a", "b"], "cyclic": True},
        {"kind": "weight", "low": 0, "high": 1, "private": False},
        {"kind": "weight", "low": 0, "high": 1, "optional": True},
        {"kind": "response", "optional": True},
        *({**WHOLE, "within": bad} for bad in (1, "0", "-1", "1/2", "01", "1e3", ".5", "1.0", "")),
        *({**WHOLE, "ratio": bad} for bad in (0.5, "0", "1.50")),
        {**WHOLE, "ratio": "0.5", "within": "1"},
        {**WHOLE, "low": 0, "ratio": "0.5"},
        {**NUMBER, "ratio": "0.5"},
        {"kind": "categorical", "names": ["a", "b"], "within": "1"},
        {"kind": "ordinal", "names": ["a", "b"], "ratio": "1"},
        *({**WHOLE, "kind": bad} for bad in ("Integer", "", None, 1, "x" * 9999)),
        *({**WHOLE, "name": bad} for bad in ("", " ", "a=b", "a\nb", None, 1, "\ud800")),
        *({**WHOLE, "cyclic": bad} for bad in (False, 1, "true", None)),
        *({**WHOLE, "optional": bad} for bad in (False, 1, "true", None)),
        {**WHOLE, "extra": 1},
        *({k: v for k, v in WHOLE.items() if k != key} for key in WHOLE),
    ],
    ids=str,
)
def test_invalid_domains_are_rejected(data):
    assert rejected(data)


def test_valid_domains_are_the_negative_control():
    for data in (WHOLE, NUMBER, {**WHOLE, "within": "2.5", "cyclic": True, "optional": True}):
        assert not rejected(data)
    assert not rejected({**WHOLE, "ratio": "0.5"})
