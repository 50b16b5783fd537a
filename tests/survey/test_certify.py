"""A certificate holds only if everything holds: each link of the proof is broken by itself."""

import math
import re
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType, SimpleNamespace

import pytest

from metricldp import Categorical, Continuous, Integer, Lp, Survey, SurveySpec, Weight
from metricldp.mechanisms import GeometricChannel, RandomizedResponseChannel
from metricldp.mechanisms.table import TableChannel
from metricldp.metrics import Line
from metricldp.survey.certify import Certificate, Proof, _baseline_proof, certify
from metricldp_core import verify
from metricldp_core.exact import WORD, exp_bounds
from metricldp_core.metrics import Limit

ONE = Limit(Fraction(1))
GOOD = verify.Pair(0, 1, ONE, Fraction(2), True)
BAD = verify.Pair(1, 2, ONE, Fraction(3), False)


def proof_of(*pairs, one_report=None):
    core = verify.Proof("a", "randomized-response", pairs, len(pairs))
    return Proof("a", "randomized-response", core, ("0", "1"), one_report)


@pytest.mark.parametrize(
    ("pairs", "one_report", "holds"),
    [
        ((GOOD, GOOD), None, True),
        ((GOOD, BAD), None, False),
        ((BAD, GOOD), None, False),
        ((GOOD,), GOOD, True),
        ((GOOD,), BAD, False),
    ],
)
def test_one_broken_pair_breaks_a_proof(pairs, one_report, holds):
    proof = proof_of(*pairs, one_report=one_report)
    assert proof.holds is holds
    assert Certificate("f", (proof_of(GOOD), proof)).holds is holds
    assert not Certificate("f", (proof,), norm_holds=False).holds
    assert ("NOT certified" in str(Certificate("f", (proof,)))) is not holds
    assert ("BROKEN" in str(Certificate("f", (proof,)))) is not holds


def with_channel(survey, channel):
    """The survey with another channel for its attribute v."""
    survey.channels = MappingProxyType({**survey.channels, "v": channel})
    return changed(survey)


def changed(survey):
    """The survey without the manifest that was made before it was changed."""
    for cached in ("client_manifest", "fingerprint"):
        survey.__dict__.pop(cached, None)
    return survey


def test_channel_that_exceeds_the_metric_is_not_certified():
    for epsilon, holds in ((Fraction(1), True), (Fraction("1.01"), False)):
        survey = Survey.design(
            {"v": Categorical(list("abcd"), epsilon=1, mechanism="randomized-response")}
        )
        certificate = with_channel(
            survey, RandomizedResponseChannel.for_epsilon(4, epsilon)
        ).certify()
        assert certificate.holds is holds
        (entry,) = certificate.to_dict()["attributes"]
        assert (entry["holds"], entry["allowed"]) == (holds, 1)
        assert entry["loss"] == pytest.approx(float(epsilon))


def test_values_rounded_at_random_need_more_than_their_distance():
    """Between points of the grid a ratio is at most 1 + epsilon, not e^epsilon."""

    def certified(below):
        points = Continuous(
            0, 9, points=10, epsilon=1, per=1, rounding="stochastic", mechanism="geometric"
        )
        survey = Survey.design({"v": points})
        epsilon = exp_bounds(Fraction(1))[1] if below is None else below
        channel = GeometricChannel.for_epsilon(10, Fraction(math.log(epsilon)))
        return with_channel(survey, channel).certify().holds

    assert certified(2 - 1e-9)
    assert not certified(2 + 1e-9)
    assert not certified(None)  # e: the metric itself
    whole = Survey.design({"v": Integer(0, 9, epsilon=1, per=1, mechanism="geometric")})
    assert with_channel(whole, GeometricChannel.for_epsilon(10, Fraction(1))).certify().holds


@pytest.mark.parametrize("p", [1, 2, math.inf])
def test_distances_need_the_share_of_their_norm(p):
    attributes = {name: Integer(0, 5, epsilon=1, per=1, mechanism="geometric") for name in "vw"}
    survey = Survey.design(SurveySpec(attributes, metric=Lp(p)))
    assert survey.certify().holds
    assert survey.certify().norm == p
    wide = with_channel(survey, GeometricChannel.for_epsilon(6, Fraction(1)))
    assert wide.certify().holds is (p == 1)
    # The metric of the manifest with it; then the pairs hold, and the norm does not.
    survey = Survey.design(SurveySpec(attributes, metric=Lp(p)))
    survey.share = Fraction("1.01") if p == 1 else Fraction(1)
    certificate = changed(survey).certify()
    assert all(proof.core.holds for proof in certificate.proofs)
    assert not certificate.norm_holds
    assert not certificate.holds


def baseline(ratio, stated, *, adds_up=False, alike=False, share=1):
    """The proof of a group of two attributes on three positions each, at epsilon 1 and 2 a step.

    The one pair of respondents that is examined differs by a step in both.
    """
    lines = {"x": Integer(0, 2, epsilon=1, per=1), "y": Integer(0, 2, epsilon=2, per=1)}
    mechanism = SimpleNamespace(name="made up")
    metric = SimpleNamespace(distance=lambda x, other: Fraction(stated))
    invariance = "all" if alike else "none"
    distribution = SimpleNamespace(invariance=invariance, largest_ratio=lambda: Fraction(ratio))
    channel = SimpleNamespace(
        worst_pairs=lambda: [((0, 1), (1, 2), Fraction(ratio))], distribution=distribution
    )
    metrics = [Line(Fraction(1)), Line(Fraction(2))]
    block = SimpleNamespace(
        names=("x", "y"), name="x+y", sizes=(3, 3), mechanism=mechanism, channel=channel
    )
    block.metric, block.largest_norm = metric, 1 if adds_up else 2
    block.metrics = metrics
    survey = SimpleNamespace(attributes=lines, share=Fraction(share))
    return _baseline_proof(survey, block)


def test_pairs_of_a_baseline_are_compared_with_what_it_states():
    proof = baseline(2, 1)
    assert proof.holds
    assert (proof.name, proof.kind, proof.count) == ("x+y", "made up", 9 * 8 // 2)
    assert [(pair.x, pair.other) for pair in proof.pairs] == [(1, 5)]
    assert not baseline(3, 1).holds  # above e^1


def test_pairs_of_a_baseline_are_compared_with_what_the_attributes_imply():
    """A step of 1 and a step of 2 are the root of 5 apart, and 3 if distances add up."""
    assert baseline("9.3", 5).holds
    assert not baseline("9.4", 5).holds  # e^2.236 is 9.356
    assert baseline(20, 5, adds_up=True).holds
    assert not baseline("20.1", 5, adds_up=True).holds
    assert baseline("2.7", 5, alike=True).holds  # the smallest distance of any attribute
    assert not baseline("2.8", 5, alike=True).holds
    assert baseline("1.6", 5, alike=True, share=Fraction(1, 2)).holds
    assert not baseline("1.7", 5, alike=True, share=Fraction(1, 2)).holds


def test_certain_values_are_a_pair_like_any_other():
    half, quarter = WORD >> 1, WORD >> 2
    survey = Survey.design({"v": Integer(0, 2, epsilon=1, per=1, mechanism="geometric")})
    channel = TableChannel.of([[half, half, 0], [half, quarter, quarter], [half, half, 0]])
    (proof,) = with_channel(survey, channel).certify().proofs
    assert [(p.x, p.other, p.holds) for p in proof.core.pairs] == [(0, 1, False), (1, 2, False)]
    assert all(1000 < pair.loss < math.inf for pair in proof.core.pairs)


def test_certificate_names_values_of_the_tightest_pair():
    survey = Survey.design(
        {
            "v": Integer(10, 15, epsilon=1, per=2, mechanism="geometric"),
            "c": Categorical(["x", "y", "z"], epsilon=1, optional=0.5),
        }
    )
    proofs = {proof.attribute: proof for proof in survey.certify().proofs}
    assert list(proofs) == ["v", "c", "c=response"]
    assert proofs["v"].labels == ("10", "11")
    assert proofs["c"].labels == ("x", "y")
    assert proofs["c=response"].labels == ("no", "yes")
    assert [proof.count for proof in proofs.values()] == [5, 3, 1]


def test_certificate_of_a_survey_is_the_proof_of_its_manifest():
    attributes = {
        "v": Integer(0, 9, epsilon=1, per=2, mechanism="geometric"),
        "r": Continuous(0, 9, points=10, epsilon=1, per=1, rounding="stochastic"),
        "c": Categorical(["x", "y"], epsilon=1, optional=True),
        "w": Weight(0, 1),
    }
    survey = Survey.design(attributes)
    core, found = verify.certify(survey.client_manifest), survey.certify()
    assert tuple(proof.core for proof in found.proofs) == core.proofs
    assert (found.fingerprint, found.public) == (core.fingerprint, core.public)


def test_public_weights_are_named():
    survey = Survey.design(
        {"a": Integer(0, 4, epsilon=1, mechanism="unary", per=1), "w": Weight(0, 1)}
    )
    certificate = certify(survey)
    assert certificate.public == ("w",)
    first, *lines = str(certificate).splitlines()
    assert first == "attribute  mechanism  pairs  tightest pair  exact loss  allowed"
    assert lines[:3] == [
        "a          unary          4          0 | 1           1        1  holds",
        "w is a public weight and sent without protection",
        "The listed numbers of pairs imply all others by the triangle inequality.",
    ]
    assert re.fullmatch(
        r"Distances of attributes add up; two respondents are at most [\d.]+ apart.", lines[3]
    )
    assert lines[4:] == ["certified: every pair of values is within its distance"]


def test_representation_of_a_certificate_is_its_text():
    survey = Survey.design(
        {"v": Integer(0, 3, epsilon=1, mechanism="geometric", per=1), "w": Weight(0, 1)}
    )
    good = survey.certify()
    assert repr(good) == str(good)
    assert "two respondents are at most 3 apart" in str(good)
    bad = replace(good, norm_holds=False)
    assert "NOT certified" in repr(bad)
    page = good._repr_html_()
    assert f">Survey {survey.fingerprint[:16]}</caption>" in page
    assert "w is a public weight" in page and "certified: every pair" in page
    # Words to the left, numbers to the right.
    assert re.search(
        r'<td style="text-align:left">geometric</td><td style="text-align:right">3<', page
    )


def test_loss_of_one_report_is_in_the_data_if_more_are_remembered():
    again = {"name": "memoised", "each": 0.25}
    survey = Survey.design(
        {
            "x": Integer(0, 9, epsilon=1, mechanism=again, per=1),
            "y": Integer(0, 9, epsilon=1, mechanism="geometric", per=1),
        }
    )
    found = survey.certify()
    x, y = found.to_dict()["attributes"]
    pair = found.proofs[0].one_report
    allowed = pair.limit.allowed
    assert x["one_report"] == {"loss": pair.loss, "allowed": allowed, "holds": True}
    assert x["one_report"]["loss"] < 0.26 < x["loss"]
    assert "one_report" not in y
    assert "x: all reports of one value from one memory together" in str(found)
