"""One answer, checked with a pencil: its reach, its units, its sums, its words."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from metricldp import Integer, QueryError, Randomness, Survey
from metricldp.answers.answer import Estimate, normal_reach, together
from metricldp.estimate.display import percent

ONE = Estimate(
    *(3.0, 4.0, "the question", "years", "population", ("a note",), (1.0, 9.0), 2.0, 3.0),
    one=5.0,
    reports=7,
)


def tally():
    survey = Survey.design({"a": Integer(0, 29, epsilon=0.3, mechanism="geometric", per=1)})
    return survey.tally(
        survey.randomize({"a": np.arange(3000) % 12}, randomness=Randomness.seeded(1))
    )


# Errors


@pytest.mark.parametrize(("variance", "kept"), [(0.5, 1), (4, 4), (16, 9), (-3, 1)])
def test_the_error_is_kept_within_its_bounds(variance, kept):
    assert replace(ONE, variance=variance).stderr == math.sqrt(kept)


@pytest.mark.parametrize("level", [0.3, 0.95, 0.9999])
def test_the_reach_by_hand(level):
    z = normal_reach(level)
    plain = Estimate(0.0, 4.0)
    assert plain.reach(level) == pytest.approx(min(z * 2, 2 / math.sqrt(1 - level)))
    unseen = math.sqrt(4 + z**2 / 2 * 3)
    jumpy = Estimate(0.0, 4.0, jump=0.5, hidden=3.0)
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
    assert Estimate(0.0, 1.0, jump=100.0).reach(0.95) == pytest.approx(1 / math.sqrt(0.05))


# Which interval


def with_envelope(possible=True):
    """Return an estimate with a stub in place of the functions of an envelope interval."""
    return Estimate(6.0, 1.0, bracket=SimpleNamespace(possible=possible, limits=(5.0, 7.0)))


def test_auto_is_the_normal_interval():
    for estimate in (with_envelope(), with_envelope(possible=False), ONE):
        assert estimate.method() == estimate.method(0.95, "normal") == "normal"
    assert with_envelope().method(0.95, "envelope") == "envelope"
    for alone in (with_envelope(possible=False), Estimate(1.0, 1.0)):
        with pytest.raises(QueryError, match="no envelope interval for this estimate; use"):
            alone.method(0.95, "envelope")
    with pytest.raises(QueryError, match="no envelope interval for the question; use"):
        ONE.method(0.95, "envelope")


def test_a_multiple_has_the_interval_of_what_it_is_a_multiple_of():
    count = tally().count({"a": (0, 8)})
    for method in ("envelope", "normal"):
        low, high = count.confidence_interval(0.95, method=method)
        for factor in (2, 0.5, -3):
            ends = (factor * count).confidence_interval(0.95, method=method)
            assert ends == pytest.approx(tuple(sorted((factor * low, factor * high))))


# Units


def test_another_unit_by_hand():
    made = SimpleNamespace(scaled=lambda factor: ("made", factor))
    sides = (Estimate(1.0, 1.0), Estimate(2.0, 1.0))
    bracket = object()
    full = replace(ONE, made=made, between=sides, bracket=bracket, scale=2.0)
    half = full.scaled(-0.5, "halves")
    assert (half.value, half.variance, half.unit) == (-1.5, 1, "halves")
    assert (half.bounds, half.jump, half.hidden, half.one) == ((0.25, 2.25), 1, 0.75, 1.25)
    assert (half.scale, half.made, half.bracket) == (-1, ("made", -0.5), bracket)
    assert [one.value for one in half.between] == [-1, -0.5]
    assert [one.value for one in full.scaled(0.5, "").between] == [0.5, 1]
    assert (half.question, half.notes, half.target) == (ONE.question, ONE.notes, ONE.target)
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
    with pytest.raises(QueryError, match="this estimate cannot be divided by 0"):
        Estimate(1.0, 1.0) / 0
    with pytest.raises(QueryError, match="cannot be multiplied with each other"):
        count * count
    with pytest.raises(QueryError, match="this estimate cannot be combined"):
        Estimate(1.0, 1.0) + 1
    with pytest.raises(QueryError, match="the question cannot be combined"):
        ONE + 1


def test_an_answer_over_another_and_with_itself():
    one, other = tally().count({"a": (0, 8)}), tally().count({"a": (3, 20)})
    assert (one / other).value == pytest.approx(one.value / other.value)
    assert one.covariance(one) == pytest.approx(one.variance)
    assert (one - other).value == pytest.approx(one.value - other.value)


def test_lies_by_hand():
    one = replace(ONE, lie=lambda: (-1.0, 2.0), scale=-3.0)
    assert one.poisoning_bounds(2) == (3 - 2 * 3 * 3, 3 + 2 * 3 * 3)
    for answer, name in ((ONE, "the question"), (Estimate(1.0, 1.0), "this estimate")):
        with pytest.raises(QueryError, match=f"no poisoning bounds are known for {name}"):
            answer.poisoning_bounds(1)


def test_covariances_that_are_refused():
    with pytest.raises(QueryError, match="with another estimate, not with 3"):
        ONE.covariance(3)
    with pytest.raises(QueryError, match="not estimable"):
        ONE.covariance(replace(ONE, variance=math.inf))
    with pytest.raises(QueryError, match="different targets"):
        ONE.covariance(replace(ONE, target="respondents"))


@pytest.mark.parametrize("away", [0.5, 1.0, 3.0, -2.0])
def test_a_p_value_is_the_level_that_an_interval_just_reaches(away):
    one = Estimate(10.0, 4.0)
    p = one.pvalue(10 + 2 * away)
    assert p == pytest.approx(2 * (1 - _normal(abs(away))), rel=1e-4)
    assert one.pvalue(10.0) == 1
    assert (
        Estimate(2.0, 1.0).pvalue() == Estimate(2.0, 1.0).pvalue(0) < Estimate(2.0, 1.0).pvalue(1)
    )
    assert Estimate(0.3, 0.0).pvalue(0.1 + 0.2) == Estimate(0.0, 0.0).pvalue(1e-13) == 1
    assert Estimate(1.0, 4.0).pvalue(7.0) == pytest.approx(2 * (1 - _normal(3)), rel=1e-4)
    assert one.pvalue(1e6) == pytest.approx(1e-12, rel=1e-3)
    for wrong in ("1", math.inf, None):
        with pytest.raises(QueryError, match="compared with a number"):
            one.pvalue(wrong)


def _normal(z):
    return (1 + math.erf(z / math.sqrt(2))) / 2


# Words


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Estimate(1234.4, 100.0), "1,234 people (SE 10, 95% CI 1,215 to 1,254)"),
        (Estimate(0.12345, 1e-6, unit=""), "0.1235 (SE 0.0010, 95% CI 0.1215 to 0.1254)"),
        (Estimate(12.3, 4.0, unit="years"), "12.3 (SE 2.0, 95% CI 8.4 to 16.2)"),
        (Estimate(-0.001, 4.0, unit="years"), "0.0 (SE 2.0, 95% CI -3.9 to 3.9)"),
        (Estimate(1.0, 0.0, unit="years"), "1.0000 (SE 0.0000, 95% CI 1.0000 to 1.0000)"),
        (ONE, "3.0 (SE 2.0, 95% CI -4.2 to 10.2); a note"),
    ],
)
def test_how_an_answer_reads(answer, text):
    assert str(answer) == answer.to_text() == f"{answer}" == text


def test_estimate_as_html_and_data():
    one = Estimate(0.0, 1.0, unit="years")
    with pytest.raises(QueryError, match=r"between 0 and 1, such as .* not 0"):
        one.to_text(0)
    for part in ("the question", "3.0 years", "2.0", "-4.2 to 10.2", "95% CI", "a note"):
        assert part in ONE._repr_html_()
    assert one.to_text(0.999).startswith("0.0 (SE 1.0, 99.9% CI -3.3 to 3.3)")
    assert f"{one:.2f}" == "0.00" and float(ONE) == 3
    unknown = Estimate(1234.5678, math.inf, unit="years")
    assert not unknown.estimable and "cannot be estimated" in str(unknown)
    data = ONE.to_dict(0.9)
    low, high = ONE.confidence_interval(0.9)
    assert (data["confidence_level"], data["ci_low"], data["ci_high"]) == (0.9, low, high)
    assert (data["label"], data["unit"], data["target"]) == (
        "the question",
        *("years", "population"),
    )
    assert (data["estimate"], data["std_error"], data["note"]) == (3, 2, "a note")
    assert unknown.to_dict()["std_error"] is None and unknown.to_dict()["ci_low"] is None


def test_levels():
    assert together(0.95, 10) == pytest.approx(0.995)
    assert together(0.95, 1) == together(0.95, 0) == pytest.approx(0.95)
    assert (percent(0.95), percent(0.999)) == ("95%", "99.9%")
    assert normal_reach(0.95) == pytest.approx(1.959964)
    for wrong in (0, 1, -0.5, 1.5, "0.95", None, math.nan, True, 1e-320):
        with pytest.raises(QueryError, match="a confidence level is between 0 and 1"):
            normal_reach(wrong)
    for wrong in ("other", None, 3, np.array(["auto", "normal"])):
        with pytest.raises(QueryError, match="method is one of 'auto'"):
            ONE.method(0.95, wrong)
