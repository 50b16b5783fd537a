"""Two blurs, the first remembered: exact sums over both, for one report and for many."""

import json
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from checks import check_sampler, designed_channel, enumerated_ratio, exact_law
from metricldp import (
    Accountant,
    Categorical,
    Continuous,
    Integer,
    InvalidSpecError,
    InvalidValueError,
    Survey,
)
from metricldp.mechanisms import memoised_channel as memoised
from metricldp.mechanisms.conformance import check_mechanism
from metricldp.mechanisms.geometric import GeometricChannel
from metricldp.mechanisms.memoised import SPARE, MemoisedResponse
from metricldp.mechanisms.memoised_channel import LazyGeometricChannel, MemoisedChannel
from metricldp.mechanisms.randomized_response import RandomizedResponseChannel
from metricldp.metrics import Line, Uniform
from metricldp.survey.certify import certify
from metricldp_core import distributions as core
from metricldp_core.device import Device
from metricldp_core.exact import at_most_exp, decimal_of
from metricldp_core.random_words import Words


def again(**more):
    return {"name": "memoised", **more}


@pytest.mark.parametrize(
    ("first", "metric"),
    [
        ("geometric", Line),
        ("randomized-response", Uniform),
        ("randomized-response", Line),
        ("tight-constraints", Line),
    ],
)
def test_every_first_blur_conforms(first, metric):
    found = check_mechanism(
        MemoisedResponse(first), sizes=(2, 5), epsilons=(0.1, 3.0), metrics=[metric]
    )
    assert found.holds, str(found)


def tiny():
    third = Fraction(1, 3)
    return [
        MemoisedChannel(
            GeometricChannel.for_epsilon(4, Fraction(1)),
            LazyGeometricChannel.between(4, Fraction(1), third),
        ),
        MemoisedChannel(
            RandomizedResponseChannel.for_epsilon(3, Fraction(1)),
            RandomizedResponseChannel.for_epsilon(3, third),
        ),
        designed_channel(MemoisedResponse("tight-constraints", 0.5), 4, Line(Fraction(1))),
    ]


@pytest.mark.parametrize("channel", tiny())
def test_reports_from_one_memory_tell_no_more_than_the_first_blur(channel):
    """Three reports, all listed. The twin: thirty with a first blur each break the promise."""
    epsilon = Fraction(1)
    between = channel.first.every_report()
    kept = [[channel.first.probability(x, y) for y in between] for x in range(channel.size)]
    sent = [[channel.second.probability(int(y), z) for z in between] for y in between]

    def remembered(x, reports):
        terms = zip(kept[x], sent, strict=True)
        return sum(p * np.prod([row[z] for z in reports], dtype=object) for p, row in terms)

    def worst(law, x, other):
        every = product(range(len(between)), repeat=3)
        return max(law(x, reports) / law(other, reports) for reports in every)

    for x, other in [(0, 1), (1, 0), (1, 2)]:
        all_of_them = worst(remembered, x, other)
        assert all_of_them <= channel.distribution.ratio(x, other)
        assert at_most_exp(all_of_them, epsilon)
    assert not at_most_exp(channel.report_ratio(0, 1) ** 30, epsilon)


@pytest.mark.parametrize("channel", tiny())
def test_one_report_is_the_sum_over_all_first_blurs(channel):
    reports = channel.every_report()
    for x, report in product(range(channel.size), reports):
        terms = (
            channel.first.probability(x, y) * channel.second.probability(int(y), report)
            for y in channel.first.every_report()
        )
        assert channel.probability(x, report) == sum(terms)


def test_bounds_on_long_lines_are_above_the_exact_ratio(monkeypatch):
    channel = designed_channel(MemoisedResponse("geometric", 0.2), 20, Line(Fraction(1, 2)))
    pairs = [(0, 1), (3, 4), (2, 9), (0, 19)]
    exact = [channel.report_ratio(*pair) for pair in pairs]
    monkeypatch.setattr(memoised, "_LISTED", 4)
    bounds = [channel.report_ratio(*pair) for pair in pairs]
    for (x, other), ratio, bound in zip(pairs, exact, bounds, strict=True):
        assert ratio <= bound <= ratio * (1 + Fraction(1, 10**8))
        assert at_most_exp(bound, Fraction(1, 5) * (other - x))
    assert channel.probability(3, np.asarray(5)) == sum(
        channel.first.probability(3, y) * channel.second.probability(int(y), np.asarray(5))
        for y in channel.first.every_report()
    )
    capped = designed_channel(MemoisedResponse("tight-constraints", 0.5), 6, Line(Fraction(1)))
    by_floats = [capped.report_ratio(*pair) for pair in combinations(range(6), 2)]
    monkeypatch.undo()
    assert by_floats == [capped.report_ratio(*pair) for pair in combinations(range(6), 2)]


@pytest.mark.parametrize(("size", "before", "after"), [(2, 1, 0.5), (5, 3, 0.1), (40, 0.2, 0.05)])
def test_lazy_noise_makes_wide_noise_of_narrow(size, before, after):
    """Both together are geometric noise with the smaller epsilon, so nothing is lost by memory."""
    channel = designed_channel(MemoisedResponse("geometric", after), size, Line(decimal_of(before)))
    wanted = GeometricChannel.for_epsilon(size, decimal_of(after) * (1 - SPARE))
    probabilities = wanted.moments.probabilities
    assert pytest.approx(probabilities, rel=1e-12) == channel.moments.probabilities
    assert channel.moments.coefficients(np.eye(size)) == pytest.approx(
        wanted.moments.coefficients(np.eye(size)), rel=1e-6, abs=1e-6
    )
    both = MemoisedChannel(
        GeometricChannel.for_epsilon(size, decimal_of(before)), wanted
    )  # noise on noise
    middle = (np.arange(size) < size // 2).astype(float)[None]
    if size > 2:
        assert (
            both.moments.second_moment(middle).mean()
            > 1.2 * channel.moments.second_moment(middle).mean()
        )


def test_a_second_blur_that_treats_pairs_differently_is_looked_at_pair_by_pair():
    mixed = MemoisedChannel(
        RandomizedResponseChannel.for_epsilon(4, Fraction(2)),
        GeometricChannel.for_epsilon(4, Fraction(1, 2)),
    )
    assert mixed.report_invariance == "none"
    laws = [exact_law(mixed, x) for x in range(4)]
    for x, other in product(range(4), repeat=2):
        assert mixed.report_ratio(x, other) == enumerated_ratio(laws[x], laws[other])
    alike = MemoisedChannel(
        RandomizedResponseChannel.for_epsilon(4, Fraction(2)),
        RandomizedResponseChannel.for_epsilon(4, Fraction(1)),
    )
    assert alike.report_invariance == "all" and alike.report_ratio(2, 2) == 1


@pytest.mark.parametrize("size", [2, 5])
def test_lazy_noise_of_many_has_that_law_too(size):
    check_sampler(LazyGeometricChannel.between(size, Fraction(2), Fraction(1, 2)), n=50_000)


# Surveys -----------------------------------------------------------------------------------------


def three_kinds():
    return Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, per=5, mechanism=again(each=0.25)),
            "hours": Integer(0, 40, epsilon=1, per=5, max_epsilon=3, mechanism=again(each=0.5)),
            "region": Categorical(["a", "b", "c"], epsilon=2, mechanism=again()),
            "share": Continuous(
                0, 1, points=5, epsilon=2, mechanism=again(each=0.5), per=1, rounding="stochastic"
            ),
        }
    )


def test_a_certificate_proves_the_lifetime_and_one_report():
    survey = three_kinds()
    proofs = {proof.attribute: proof for proof in certify(survey).proofs}
    assert certify(survey).holds
    assert proofs["age"].tightest.limit.epsilon == Fraction(1, 5)
    assert proofs["age"].one_report.limit.epsilon == Fraction(1, 20)
    assert proofs["region"].one_report.loss == pytest.approx(1, abs=1e-9)
    assert "a single report has a loss" in str(certify(survey))
    firsts = {name: survey.mechanisms[name].first for name in ("age", "region", "share")}
    assert firsts == {"age": "geometric", "region": "randomized-response", "share": "geometric"}
    assert survey.mechanisms["hours"].first == "tight-constraints"
    assert Survey.from_toml(survey.to_toml()) == survey


@pytest.mark.parametrize("which", ["first", "second"])
def test_a_certificate_refuses_integers_that_tell_more(which):
    """One unit of 2^-20 more truth, in either blur, is caught."""
    survey = Survey.design(
        {"x": Categorical(["a", "b", "c"], epsilon=1, mechanism=again(each=0.5))}
    )
    channel = survey.channels["x"]
    blur = getattr(channel, which)
    keep = blur.distribution.keep + (1 << 44)
    loose = replace(channel, **{which: RandomizedResponseChannel(core.RandomizedResponse(3, keep))})
    survey.channels = {"x": loose}
    survey.__dict__.pop("client_manifest")
    proof = certify(survey).proofs[0]
    assert not proof.holds
    assert proof.tightest.holds == (which == "second")
    assert not proof.one_report.holds


def test_certificate_of_one_report_examines_all_pairs():
    """Pairs at the ends and between them have different ratios, unlike those of the first."""
    survey = Survey.design({"x": Integer(0, 6, epsilon=1, mechanism=again(each=0.5), per=1)})
    channel = survey.channels["x"]
    lazy = channel.second.distribution
    second = LazyGeometricChannel(replace(lazy, keep=lazy.keep + (1 << 60)))
    survey.channels = {"x": replace(channel, second=second)}
    ratios = [survey.channels["x"].report_ratio(x, x + 1) for x in range(6)]
    assert ratios[0] < max(ratios) == certify(survey).proofs[0].one_report.ratio


def test_answers_have_no_bias_and_the_stated_error():
    """Decoded from both blurs: the exact mean and second moment over all reports."""
    survey = Survey.design({"x": Integer(0, 6, epsilon=1, mechanism=again(each=0.5), per=1)})
    channel, function = survey.channels["x"], np.array([0, 0, 1, 1, 1, 0, 0.0])
    values = channel.values(channel.every_report(), channel.moments.coefficients(function[None]))[0]
    law = np.array([[float(channel.probability(x, y)) for y in range(7)] for x in range(7)])
    assert law @ values == pytest.approx(function, abs=1e-9)
    assert law @ values**2 == pytest.approx(
        channel.moments.second_moment(function[None])[0], rel=1e-9
    )


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"each": 2}, "must be below 1"),
        ({"each": 1}, "must be below 1"),
        ({"each": -1}, "positive"),
        ({"each": 0.5, "first": "unary"}, "geometric"),
        ({"each": 0.5, "first": 3}, "geometric"),
        ({"eahc": 0.5}, "each"),
    ],
)
def test_what_is_refused(said, why):
    with pytest.raises(InvalidSpecError, match=why):
        Survey.design({"x": Integer(0, 9, epsilon=1, mechanism=again(**said), per=1)})
    with pytest.raises(InvalidSpecError, match="order"):
        Survey.design({"x": Categorical(["a", "b"], epsilon=1, mechanism=again(first="geometric"))})


# The device and its memory -----------------------------------------------------------------------


def test_a_memory_keeps_the_first_blur_of_each_value():
    survey, memory = three_kinds(), {}
    person = {"age": 30, "hours": 20, "region": "b", "share": 0.3}
    for _ in range(4):
        survey.report(person, memory=memory)
    before = dict(memory)
    assert len(memory) == 4
    survey.report({**person, "age": 31}, memory=memory)
    assert {**memory, **before} == memory
    assert len(memory) == 5
    assert json.loads(json.dumps(memory)) == memory
    survey = three_kinds()
    survey.report(person)
    with pytest.raises(InvalidValueError, match="needs the memory of the first"):
        survey.report(person)


def test_the_second_blur_is_of_what_is_remembered():
    """All words but those of the second blur are without effect once a value is remembered."""
    survey = Survey.design({"x": Integer(0, 9, epsilon=1, mechanism=again(each=0.5), per=1)})
    device, rng = Device(survey.client_manifest), np.random.default_rng(5)
    (key,) = _remembering(survey, 3)
    for _ in range(30):
        words = [int(word) for word in rng.integers(0, 1 << 63, 40)]
        fresh, kept = Words.given(words), Words.given(words)
        plain = device.randomize([3], fresh, {})
        drawn = survey.channels["x"].first.distribution.draw(3, Words.given(words))
        assert device.randomize([3], kept, {key: drawn}) == plain
        assert kept.used == fresh.used


def _remembering(survey, value):
    memory = {}
    survey.report({"x": value}, memory=memory)
    return memory


def test_a_spoilt_memory_is_refused_and_not_changed():
    survey = Survey.design({"x": Integer(0, 9, epsilon=1, mechanism=again(each=0.5), per=1)})
    (key,) = _remembering(survey, 3)
    for spoilt in (10, -1, "3", 2.5, None):
        memory = {key: spoilt}
        with pytest.raises(InvalidValueError, match="start a new one"):
            survey.report({"x": 3}, memory=memory)
        assert memory == {key: spoilt}
    with pytest.raises(
        InvalidValueError, match="memory is a dict that the device stores, not list"
    ):
        survey.report({"x": 3}, memory=[])


# The ledger --------------------------------------------------------------------------------------


def test_the_ledger_counts_remembered_values_and_not_reports():
    survey = Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, per=5, mechanism=again(each=0.25)),
            "told": Categorical(["no", "yes"], epsilon=1, mechanism="randomized-response"),
        }
    )
    ledger, memory = Accountant(), {}
    for month, age in enumerate([30, 30, 30, 31, 30]):
        survey.report({"age": age, "told": "no"}, memory=memory)
        ledger.add(survey, f"month {month}", memory=memory)
    assert ledger.spent("age", 30, 40) == 2 * 2  # two values, 10 years at 1 for every 5
    assert ledger.spent("told", "no", "yes") == 5
    assert ledger.total("age").distance(30, 40) == 4
    assert ledger.together == 2 * Fraction(99, 5) + 5
    assert "month 3 (1 new value remembered)" in str(ledger)
    assert Accountant.from_dict(json.loads(json.dumps(ledger.to_dict()))) == ledger
    ledger.add(survey, "without a memory")
    assert ledger.spent("age", 30, 40) == 3 * 2


def test_values_that_came_since_the_last_entry_count_each():
    """Three values between two entries are three promises; what else a memory holds is none."""
    survey = Survey.design(
        {
            "x": Integer(0, 9, epsilon=1, mechanism=again(each=0.5), per=1),
            "told": Categorical(["no", "yes"], epsilon=1, mechanism="randomized-response"),
        }
    )
    ledger, memory = Accountant(), {}
    for values in ([1], [2, 3, 4], [4]):
        for x in values:
            survey.report({"x": x, "told": "no"}, memory=memory)
        memory[f"{survey.fingerprint} 0 told"] = 1  # of an attribute that is not remembered
        ledger.add(survey, memory=memory)
    assert ledger.total("x").distance(0, 9) == 4 * 9
    assert ledger.spent("x", 0, 9) == 4 * 9
    assert ledger.together == 4 * 9 + 3
    rows = [line.split() for line in str(ledger).splitlines()]
    assert [row[-2:] for row in rows[1:5]] == [["1", "9"], ["3", "27"], ["0", "0"], ["4", "36"]]


def test_whether_somebody_answered_is_told_by_every_report():
    """The value is remembered, whether there is one is not: ten reports tell that ten times."""
    survey = Survey.design(
        {"x": Integer(0, 9, epsilon=1, optional=True, mechanism=again(each=0.5), per=1)}
    )
    ledger, memory = Accountant(), {}
    for month in range(10):
        survey.report({"x": 9}, memory=memory)
        ledger.add(survey, f"month {month}", memory=memory)
    always_or_never = 10 * 1 + 5  # and 9 once: from 4, with which nobody's answer counts
    assert ledger.together >= always_or_never
    assert ledger.together == 9 + 9 * 1, "0 and 9 at first, and then whether there is an answer"
    rows = [line.split() for line in str(ledger).splitlines()]
    assert rows[1][-2:] == ["1", "9"] and rows[2][-2:] == ["0", "0"]


def test_a_ledger_refuses_what_is_no_memory_of_the_survey():
    survey = Survey.design({"x": Integer(0, 9, epsilon=1, mechanism=again(each=0.5), per=1)})
    with pytest.raises(InvalidSpecError, match="has no value of 'x'"):
        Accountant().add(survey, memory={})
    other = Survey.design({"x": Integer(0, 9, epsilon=1, mechanism=again(each=0.4), per=1)})
    with pytest.raises(InvalidSpecError, match="has no value of 'x'"):
        Accountant().add(survey, memory=_remembering(other, 3))
    with pytest.raises(InvalidSpecError, match="a memory is the dict"):
        Accountant().add(survey, memory=3)
    both = Survey.design(
        {**survey.attributes, "z": Integer(0, 9, epsilon=1, mechanism="geometric", per=1)}
    )
    for counts in ({"x": 0}, {"x": True}, {"x": 1.0}, {"y": 1}, {"x": 1, "z": 1}, 3):
        entry = {"note": "", "survey": both.to_dict(), "remembered": counts}
        with pytest.raises(InvalidSpecError, match="entry 1"):
            Accountant.from_dict({"metricldp-ledger": 1, "entries": [entry]})
