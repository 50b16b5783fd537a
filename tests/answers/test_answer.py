"""One answer, checked with a pencil: its reach, its units, its sums, its words."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from metricldp import Coins, Integer, QueryError, Survey
from metricldp.answers.answer import Answer, normal_reach, percent, together

ONE = Answer(
    *(3.0, 4.0, "the question", "years", "population", ("a note",), (1.0, 9.0), 2.0, 3.0),
    one=5.0,
    reports=7,
)


def tally():
    survey = Survey({"a": Integer(0, 29, epsilon=0.3, mechanism="geometric")})
    return survey.tally(survey.encode({"a": np.arange(3000) % 12}, coins=Coins.seeded(1)))


# Errors


@pytest.mark.parametrize(("variance", "kept"), [(0.5, 1), (4, 4), (16, 9), (-3, 1)])
def test_the_error_is_kept_within_its_bounds(variance, kept):
    assert replace(ONE, variance=variance).stderr == math.sqrt(kept)


@pytest.mark.parametrize("level", [0.3, 0.95, 0.9999])
def test_the_reach_by_hand(level):
    z = normal_reach(level)
    plain = Answer(0.0, 4.0)
    assert plain.reach(level) == pytest.approx(min(z * 2, 2 / math.sqrt(1 - level)))
    unseen = math.sqrt(4 + z**2 / 2 * 3)
    jumpy = Answer(0.0, 4.0, jump=0.5, hidden=3.0)
    chebyshev = unseen / math.sqrt(1 - level)
    assert jumpy.reach(level) == pytest.approx(
        min(z * unseen + max(0.5, z**2 / 6) * 0.5, chebyshev)
    )
    most = math.sqrt(4.5)
    kept = replace(jumpy, bounds=(0.0, 4.5)).reach(level)
    error = min(most, unseen)
    assert kept == pytest.approx(
        min(z * error + max(0.5, z**2 / 6) * 0.5, error / math.sqrt(1 - level))
    )


def test_rare_jumps_reach_no_farther_than_chebyshev():
    assert Answer(0.0, 1.0, jump=100.0).reach(0.95) == pytest.approx(1 / math.sqrt(0.05))


# Which interval


def bracketed(limits=(5.0, 7.0), width=10.0, plain=4.0, worth=True, possible=True):
    """An answer whose bracket is planned to be so wide, and the plain interval to reach so far."""
    z = normal_reach(0.95)
    ends = Answer(0.0, 0.0), Answer(width, 0.0), Answer(0.0, (plain / z) ** 2)
    stub = SimpleNamespace(
        possible=possible, limits=limits, worth=lambda *_: worth, planned=lambda *_: ends
    )
    return Answer(6.0, 1.0, bracket=stub)


def test_a_bracket_is_taken_where_it_is_planned_to_be_shorter():
    """Than 0.8 of the plain interval; none is wider than what is possible."""
    assert bracketed(limits=(0.0, 100.0), width=6.3).method() == "bracket"
    assert bracketed(limits=(0.0, 100.0), width=6.5).method() == "normal"
    assert bracketed(limits=(5.0, 11.3)).method() == "bracket"
    assert bracketed(limits=(5.0, 11.5)).method() == "normal"
    assert bracketed(worth=False).method() == "normal"
    assert bracketed(worth=False).method(0.95, "bracket") == "bracket"
    assert bracketed(possible=False).method() == "normal"
    for alone in (bracketed(possible=False), Answer(1.0, 1.0)):
        with pytest.raises(QueryError, match="no bracket interval for this answer; ask"):
            alone.method(0.95, "bracket")
    with pytest.raises(QueryError, match="no bracket interval for the question; ask"):
        ONE.method(0.95, "bracket")


def test_a_multiple_has_the_interval_of_what_it_is_a_multiple_of():
    count = tally().count({"a": (0, 8)})
    low, high = count.interval()
    assert count.method() == "bracket"
    for factor in (2, 0.5, -3):
        ends = (factor * count).interval()
        assert ends == pytest.approx(tuple(sorted((factor * low, factor * high))))
        first, last = count.interval(0.95, "normal")
        ends = (factor * count).interval(0.95, "normal")
        assert ends == pytest.approx(tuple(sorted((factor * first, factor * last))))


# Units


def test_another_unit_by_hand():
    made = SimpleNamespace(scaled=lambda factor: ("made", factor))
    sides = (Answer(1.0, 1.0), Answer(2.0, 1.0))
    bracket = object()
    full = replace(ONE, made=made, between=sides, bracket=bracket, scale=2.0)
    half = full.scaled(-0.5, "halves")
    assert (half.value, half.variance, half.unit) == (-1.5, 1, "halves")
    assert (half.bounds, half.jump, half.hidden, half.one) == ((0.25, 2.25), 1, 0.75, 1.25)
    assert (half.scale, half.made, half.bracket) == (-1, ("made", -0.5), bracket)
    assert [one.value for one in half.between] == [-1, -0.5]
    assert [one.value for one in full.scaled(0.5, "").between] == [0.5, 1]
    assert (half.question, half.notes, half.about) == (ONE.question, ONE.notes, ONE.about)
    assert half.origin == (-0.5, full)
    assert ONE.scaled(2.0, "").scaled(3.0, "").origin == (6, ONE)
    nothing = full.scaled(0.0, "")
    assert (nothing.bracket, nothing.scale, nothing.value) == (None, 1, 0)


# Sums


def test_sums_and_differences_with_numbers():
    count = tally().count({"a": (0, 8)})
    assert sum([count]) is count
    assert (0 + count) is count
    for found, value, words in (
        (count + 5, count.value + 5, f"{count.question} plus 5"),
        (5 + count, count.value + 5, f"{count.question} plus 5"),
        (count - 5, count.value - 5, f"{count.question} less 5"),
        (5 - count, 5 - count.value, f"minus {count.question} plus 5"),
        (-count, -count.value, f"minus {count.question}"),
        (2 * count, 2 * count.value, f"2 times {count.question}"),
        (count * -2, -2 * count.value, f"-2 times {count.question}"),
        (count / 4, count.value / 4, f"{count.question} over 4"),
    ):
        assert (found.value, found.question) == (pytest.approx(value), words)
    assert sum([count, count]).value == pytest.approx(2 * count.value)
    for wrong in (True, False, "2", math.inf, math.nan, None, [1]):
        with pytest.raises(TypeError):
            count * wrong
        with pytest.raises(TypeError):
            count / wrong
        with pytest.raises(TypeError):
            count + wrong
        with pytest.raises(TypeError):
            wrong + count
        with pytest.raises(TypeError):
            wrong - count
    with pytest.raises(QueryError, match="a 0 to 8 cannot be divided by 0"):
        count / 0
    with pytest.raises(QueryError, match="this answer cannot be divided by 0"):
        Answer(1.0, 1.0) / 0
    with pytest.raises(QueryError, match="product of two answers"):
        count * count
    with pytest.raises(QueryError, match="this answer cannot be combined"):
        Answer(1.0, 1.0) + 1
    with pytest.raises(QueryError, match="the question cannot be combined"):
        ONE + 1


def test_an_answer_over_another_and_with_itself():
    one, other = tally().count({"a": (0, 8)}), tally().count({"a": (3, 20)})
    assert (one / other).value == pytest.approx(one.value / other.value)
    assert one.covariance(one) == pytest.approx(one.variance)
    assert (one - other).value == pytest.approx(one.value - other.value)


def test_lies_by_hand():
    one = replace(ONE, lie=lambda: (-1.0, 2.0), scale=-3.0)
    assert one.moved_by(2) == (3 - 2 * 3 * 3, 3 + 2 * 3 * 3)
    for answer, name in ((ONE, "the question"), (Answer(1.0, 1.0), "this answer")):
        with pytest.raises(QueryError, match=f"no bound is known for {name} and liars"):
            answer.moved_by(1)


def test_covariances_that_are_refused():
    with pytest.raises(QueryError, match="with another answer, not with 3"):
        ONE.covariance(3)
    with pytest.raises(QueryError, match="may be nobody"):
        ONE.covariance(replace(ONE, variance=math.inf))
    with pytest.raises(QueryError, match="about different things"):
        ONE.covariance(replace(ONE, about="respondents"))


@pytest.mark.parametrize("away", [0.5, 1.0, 3.0, -2.0])
def test_a_p_value_is_the_level_that_an_interval_just_reaches(away):
    one = Answer(10.0, 4.0)
    p = one.p_value(10 + 2 * away)
    assert p == pytest.approx(2 * (1 - _normal(abs(away))), rel=1e-4)
    assert one.p_value(10.0) == 1
    assert Answer(2.0, 1.0).p_value() == Answer(2.0, 1.0).p_value(0) < Answer(2.0, 1.0).p_value(1)
    assert Answer(0.3, 0.0).p_value(0.1 + 0.2) == Answer(0.0, 0.0).p_value(1e-13) == 1
    assert Answer(1.0, 4.0).p_value(7.0) == pytest.approx(2 * (1 - _normal(3)), rel=1e-4)
    assert one.p_value(1e6) == pytest.approx(1e-12, rel=1e-3)
    for wrong in ("1", math.inf, None):
        with pytest.raises(QueryError, match="compared with a number"):
            one.p_value(wrong)


def _normal(z):
    return (1 + math.erf(z / math.sqrt(2))) / 2


# Words


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer(1234.4, 100.0), "1,234 ± 10 people (95%: 1,215 to 1,254)"),
        (Answer(0.12345, 1e-6, unit=""), "0.1235 ± 0.0010 (95%: 0.1215 to 0.1254)"),
        (Answer(12.3, 4.0, unit="years"), "12.3 ± 2.0 years (95%: 8.4 to 16.2)"),
        (Answer(-0.001, 4.0, unit="years"), "0.0 ± 2.0 years (95%: -3.9 to 3.9)"),
        (Answer(1.0, 0.0, unit="years"), "1.0000 ± 0.0000 years (95%: 1.0000 to 1.0000)"),
        (ONE, "3.0 ± 2.0 years (95%: -4.2 to 10.2); a note"),
    ],
)
def test_how_an_answer_reads(answer, text):
    assert str(answer) == answer.text() == f"{answer}" == text
    assert answer.text(among=1) == answer.text(among=0) == text


def test_how_one_of_several_reads():
    one = Answer(0.0, 1.0, unit="years")
    reach = normal_reach(1 - 0.05 / 10)
    assert one.text(among=10) == f"0.0 ± 1.0 years (95% for all: -{reach:.1f} to {reach:.1f})"
    assert "(95% for all: " in one.text(among=2)
    with pytest.raises(QueryError, match="a level lies between 0 and 1, not 0"):
        one.text(0, among=2)
    open_ended = replace(bracketed(limits=(5.0, 11.3)), between=(Answer(1.0, 1.0), one))
    assert open_ended.method() == "bracket" and "bracket" not in open_ended.text()
    for part in ("the question", "3.0 years", "2.0", "-4.2 to 10.2", "95% interval", "a note"):
        assert part in ONE._repr_html_()
    assert one.text(0.999).startswith("0.0 ± 1.0 years (99.9%: -3.3 to 3.3)")
    assert f"{one:.2f}" == "0.00" and float(ONE) == 3
    assert repr(ONE) == "<Answer: 3.0 ± 2.0 years>"
    unknown = Answer(1234.5678, math.inf, unit="years")
    assert repr(unknown) == "<Answer: 1,235 ± inf years>"
    assert tally().count({"a": (0, 8)}).text().endswith("; the interval is a bracket")
    data = ONE.to_dict(0.9)
    assert (data["level"], data["low"], data["high"]) == (0.9, *ONE.interval(0.9))
    assert (data["question"], data["unit"], data["about"]) == (
        "the question",
        *("years", "population"),
    )
    assert (data["value"], data["stderr"], data["notes"]) == (3, 2, ["a note"])
    assert unknown.to_dict()["stderr"] is None and unknown.to_dict()["low"] is None


def test_levels():
    assert together(0.95, 10) == pytest.approx(0.995)
    assert together(0.95, 1) == together(0.95, 0) == pytest.approx(0.95)
    assert (percent(0.95), percent(0.999)) == ("95%", "99.9%")
    assert normal_reach(0.95) == pytest.approx(1.959964)
    for wrong in (0, 1, -0.5, 1.5, "0.95", None, math.nan, True, 1e-320):
        with pytest.raises(QueryError, match="a level lies between 0 and 1"):
            normal_reach(wrong)
    for wrong in ("other", None, 3, np.array(["auto", "normal"])):
        with pytest.raises(QueryError, match="the method of an interval is one of 'auto'"):
            ONE.method(0.95, wrong)
