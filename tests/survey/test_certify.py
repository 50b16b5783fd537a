"""A certificate holds only if everything holds: each link of the proof is broken by itself."""

import math
import re
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import pytest

from metricldp import Continuous, Integer, Lp, Survey, Weight
from metricldp.channels import Geometric, Response
from metricldp.channels.table import Table
from metricldp.metrics import Line, Uniform
from metricldp.metrics.grid import Axis, in_plane, summed
from metricldp.survey.certify import (
    Pair,
    Proof,
    _implies,
    _joint_proof,
    certify,
    prove,
    prove_plain,
    tightest,
)
from metricldp_core.exact import WORD, exp_bounds, log_bounds

GOOD = Pair(0, 1, Fraction(1), Fraction(2), True)
PLAIN = Lp(1)
BAD = Pair(1, 2, Fraction(1), Fraction(3), False)


@pytest.mark.parametrize(
    ("pairs", "promised", "any_two", "holds"),
    [
        ((GOOD, GOOD), True, None, True),
        ((GOOD, BAD), True, None, False),
        ((BAD, GOOD), True, None, False),
        ((GOOD,), False, None, False),
        ((GOOD,), True, GOOD, True),
        ((GOOD,), True, BAD, False),
    ],
)
def test_one_broken_link_breaks_a_proof(pairs, promised, any_two, holds):
    proof = Proof("a", "randomized-response", pairs, len(pairs), ("0", "1"), promised, any_two)
    assert proof.holds is holds


def test_the_tightest_pair_is_a_broken_one_or_the_first_with_the_least_room():
    roomy = Pair(2, 3, Fraction(2), Fraction(2), True)
    as_good = Pair(3, 4, Fraction(1), Fraction(2), True)
    assert tightest((roomy, GOOD, as_good)) is GOOD
    assert tightest((roomy, GOOD, BAD)) is BAD
    barely = Pair(4, 5, Fraction(3), Fraction(21), False)
    assert tightest((GOOD, barely, BAD)) is BAD  # furthest over its limit
    nearly = Pair(5, 6, Fraction(2), Fraction(7), True)
    assert tightest((GOOD, nearly, roomy)) is nearly
    # As a float its loss is 1 as well; what decided was exact.
    below, above = exp_bounds(Fraction(1))
    ends = Pair(0, 1, Fraction(1), below, True), Pair(1, 2, Fraction(1), above, False)
    assert tightest(ends) is ends[1]


def agreed(attribute, kept, metric=PLAIN, share=1, parts=1):
    """What a proof asks of a survey, any part of which may be a lie."""
    return SimpleNamespace(
        attributes={"v": attribute},
        kept={"v": kept},
        metric=metric,
        share=Fraction(share),
        parts=parts,
    )


def test_what_is_kept_must_imply_what_is_promised():
    whole = Integer(0, 9, epsilon=1, per=1)
    assert _implies(agreed(whole, Line(Fraction(1))), "v")
    assert not _implies(agreed(whole, Line(Fraction(101, 100))), "v")
    assert not _implies(agreed(whole, Line(Fraction(1)), share=Fraction(1, 2)), "v")
    half = Line(Fraction(1, 2))
    assert _implies(agreed(whole, half, Lp(math.inf), Fraction(1, 2), 2), "v")
    assert not _implies(agreed(whole, half, Lp(math.inf), Fraction(1, 2), 3), "v")


def test_values_rounded_at_random_need_more_than_their_distance():
    """Between points of the grid e^kept has to be at most 1 + epsilon, not e^epsilon."""
    real = Continuous(0, 9, points=10, epsilon=1, per=1, rounding="stochastic")
    assert _implies(agreed(real, Line(log_bounds(Fraction(2))[0])), "v")
    assert not _implies(agreed(real, Line(log_bounds(Fraction(2))[1])), "v")
    assert not _implies(agreed(real, Line(Fraction(1))), "v")


def joint(ratio=2, allowed=1, *, p=1, norm=2, margins=None, alike=False, share=1, parts=2):
    """A proof for a block of two attributes on three positions each, at epsilon 1 and 2 a step.

    The one pair of people that is looked at differs by a step in both.
    """
    lines = {"x": Integer(0, 2, epsilon=1, per=1), "y": Integer(0, 2, epsilon=2, per=1)}
    mechanism = SimpleNamespace(
        name="made up",
        largest_norm=norm,
        adds_up=margins is not None,
        margins=lambda sizes, metrics: [Line(Fraction(m)) for m in margins[: sizes[0]]],
        distance=lambda sizes, metrics, x, other: Fraction(allowed) * (sizes == (3, 3)),
        about=lambda attributes, share: SimpleNamespace(grid=None),
    )
    channel = SimpleNamespace(
        worst_pairs=lambda: [((0, 1), (1, 2), Fraction(ratio))], same_ratio_for_all_pairs=alike
    )
    block = SimpleNamespace(names=("x", "y"), sizes=(3, 3), mechanism=mechanism, channel=channel)
    survey = SimpleNamespace(attributes=lines, metric=Lp(p), share=Fraction(share), parts=parts)
    return _joint_proof(survey, block)


def test_a_block_is_proved_by_every_link():
    proof = joint()
    assert proof.holds
    assert (proof.attribute, proof.mechanism) == ("x, y", "made up")
    assert (proof.count, proof.labels) == (9 * 8 // 2, ("0, 1", "1, 2"))
    assert not joint(ratio=3).holds  # above e^1
    assert not joint(p=math.inf, parts=2).holds  # a share of 1 is too much for two
    assert joint(norm=1).holds
    assert not joint(p=2, share=Fraction(1, 2), norm=Fraction(3, 2)).holds
    assert joint(p=2, share=Fraction(1, 2), norm=2).holds


def test_what_a_block_keeps_is_within_the_plane():
    """A step of 1 and a step of 2 are the root of 5 apart, and no more may be kept for both."""
    assert joint(allowed=Fraction("2.23")).holds
    assert not joint(allowed=Fraction("2.24")).holds
    assert joint(allowed=1, alike=True).holds  # all alike: the smallest distance of any
    assert not joint(allowed=Fraction("1.01"), alike=True).holds
    half = Fraction(1, 2)
    assert joint(allowed=half, ratio=1, alike=True, share=half).holds


def test_what_a_block_keeps_of_each_attribute_is_within_its_distances():
    assert joint(margins=(1, 2)).holds
    assert not joint(margins=(Fraction("1.01"), 2)).holds
    assert not joint(margins=(1, Fraction("2.01"))).holds


NEXT = Integer(0, 1, epsilon=1, per=1)


def cells(ratios, *, p=1, share=1, parts=1, straight=False, widest=None):
    """A proof for cells of 2 x 3, at 1 a step of x and 2 a step of y; the channel shows pairs."""
    lines = {"x": Integer(0, 1, epsilon=1, per=1), "y": Integer(0, 2, epsilon=2, per=1), "z": NEXT}
    sides = [
        Axis(size, Fraction(e), Fraction(1), False, False, None) for size, e in ((2, 1), (3, 2))
    ]
    lengths = [Line(Fraction(1)), Line(Fraction(2))]

    def about(attributes, asked):
        assert list(attributes.values()) == [lines["x"], lines["y"]] and list(attributes) == [
            "x",
            "y",
        ]
        grid = in_plane(sides) if straight else summed(lengths, (2, 3))
        return SimpleNamespace(grid=grid.scaled(asked))

    def worst_ratio(x, other):
        return Fraction(ratios[3 * x[0] + x[1], 3 * other[0] + other[1]])

    channel = SimpleNamespace(
        proving_pairs=lambda metric: list(ratios),
        worst_ratio=worst_ratio,
        widest_ratio=lambda: widest and Fraction(widest),
    )
    mechanism = SimpleNamespace(name="made up", about=about)
    block = SimpleNamespace(names=("x", "y"), sizes=(2, 3), mechanism=mechanism, channel=channel)
    survey = SimpleNamespace(attributes=lines, metric=Lp(p), share=Fraction(share), parts=parts)
    return _joint_proof(survey, block)


def test_cells_are_proved_pair_by_pair():
    proof = cells({(0, 3): 2, (4, 5): "7.3", (1, 4): "2.7"})
    assert proof.holds
    assert (proof.attribute, proof.mechanism, proof.count) == ("x, y", "made up", 3 + 4)
    assert proof.pairs[1] == Pair(4, 5, Fraction(2), Fraction("7.3"), True)
    assert proof.labels == ("0, 1", "1, 1")  # of 1 and 4: 2.7 is nearest to e
    assert not cells({(0, 3): 2, (4, 5): "7.4"}).holds  # above e^2
    assert not cells({(0, 3): "2.8", (4, 5): 7}).holds
    assert not cells({(0, 3): 2}, share=Fraction(1, 2)).holds  # made again with the share


def test_the_widest_ratio_proves_the_farthest_cells_at_once():
    """They are at 1 + 4, and e^5 is above 148; nearer ones are looked at all the same."""
    pairs = {(0, 5): 1000, (2, 3): 1000, (0, 3): 2}
    proof = cells(pairs, widest=140)
    assert proof.holds
    farthest = Pair(0, 5, Fraction(5), Fraction(140), True)  # one stands for all of them
    assert proof.pairs == (farthest, Pair(0, 3, Fraction(1), Fraction(2), True))
    assert not cells(pairs, widest=150).holds, "too wide, so they are looked at"
    assert cells({(0, 5): 100, (0, 3): 2}, widest=150).holds
    assert not cells({(0, 5): 100, (0, 3): 3}, widest=140).holds, "3 is above e"


def test_cells_keep_a_norm_up_to_theirs():
    """The sum of distances is kept for p = 1 only, a straight line up to p = 2."""
    pairs = {(0, 3): "1.2", (0, 1): "1.2"}
    assert cells(pairs, straight=True).holds
    assert cells(pairs, straight=True, p=2).holds
    assert not cells(pairs, straight=True, p=2.5).holds
    assert not cells(pairs, p=1.5).holds
    assert not cells(pairs, p=2, straight=True, parts=2).holds  # other attributes have their part
    assert cells(pairs, p=2, straight=True, parts=2, share=Fraction(1, 2)).holds
    assert not cells(pairs, share=2).holds


def test_values_that_are_told_apart_for_certain_are_a_pair_like_any_other():
    half, quarter = WORD >> 1, WORD >> 2
    channel = Table.of([[half, half, 0], [half, quarter, quarter], [half, half, 0]])
    pairs = prove(channel, Line(Fraction(1)))
    assert [(pair.x, pair.other, pair.holds) for pair in pairs] == [(0, 1, False), (1, 2, False)]
    assert all(1000 < pair.loss < math.inf for pair in pairs)


def test_pairs_stand_in_the_order_of_the_metric():
    pairs = prove(Response.for_epsilon(4, Fraction(1, 2)), Uniform(Fraction(1, 2)))
    assert [(pair.x, pair.other) for pair in pairs] == [(0, 1)]
    survey = Survey.design({"v": Integer(0, 5, epsilon=1, per=2, mechanism="randomized-response")})
    (proof,) = survey.certify().proofs
    assert (proof.any_two.x, proof.any_two.other) == (0, 5)


def test_a_channel_that_tells_more_than_the_metric_allows_is_not_proved():
    """Randomized response at 1: proved at 1, broken at anything less, for any two as well."""
    channel = Response.for_epsilon(4, Fraction(1))
    for epsilon, holds in ((Fraction(1), True), (Fraction("0.99"), False), (Fraction(1, 2), False)):
        assert [pair.holds for pair in prove(channel, Uniform(epsilon))] == [holds]
        assert prove_plain(channel, Line(epsilon)).holds is holds


def test_any_two_values_are_spoken_of_where_the_metric_tells_them_apart():
    channel = Response.for_epsilon(4, Fraction(1))
    assert prove_plain(channel, Uniform(Fraction(1))) is None
    assert prove_plain(Geometric.for_epsilon(4, Fraction(1)), Line(Fraction(1))) is None
    plain = prove_plain(channel, Line(Fraction(1)))
    assert (plain.x, plain.other, plain.allowed) == (0, 3, 1)
    survey = Survey.design({"v": Integer(0, 5, epsilon=1, per=2, mechanism="randomized-response")})
    assert "v: any two values within 0.5 (plain 0.5-LDP): holds" in str(survey.certify())


def test_public_weights_are_named_and_nothing_else():
    survey = Survey.design(
        {"a": Integer(0, 4, epsilon=1, mechanism="unary", per=1), "w": Weight(0, 1)}
    )
    certificate = certify(survey)
    assert certificate.public == ("w",)
    assert str(certificate).splitlines() == [
        "attribute  mechanism  pairs  tightest pair  exact loss  allowed",
        "a          unary          4          0 | 1           1        1  holds",
        "w is a public weight and sent without protection",
        "The listed numbers of pairs imply all others by the triangle inequality.",
        "Distances of attributes add up; two respondents are at most 1.066 apart.",
        "certified: every pair of values is within its distance",
    ]


def test_representation_of_a_certificate_is_its_text():
    survey = Survey.design(
        {"v": Integer(0, 3, epsilon=1, mechanism="geometric", per=1), "w": Weight(0, 1)}
    )
    good = survey.certify()
    assert repr(good) == str(good)
    assert "two respondents are at most 3 apart" in str(good)
    bad = replace(good, proofs=(replace(good.proofs[0], promised=False),))
    assert "NOT certified" in repr(bad)
    page = good._repr_html_()
    assert f">Survey {survey.fingerprint[:16]}</caption>" in page
    assert "w is a public weight" in page and "certified: every pair" in page
    # Words to the left, numbers to the right.
    assert re.search(
        r'<td style="text-align:left">geometric</td><td style="text-align:right">3<', page
    )


def test_what_one_report_tells_is_in_the_data_where_more_are_remembered():
    again = {"name": "memoised", "each": 0.25}
    survey = Survey.design(
        {
            "x": Integer(0, 9, epsilon=1, mechanism=again, per=1),
            "y": Integer(0, 9, epsilon=1, mechanism="geometric", per=1),
        }
    )
    told = survey.certify()
    x, y = told.to_dict()["attributes"]
    pair = told.proofs[0].one_report
    assert x["one_report"] == {"loss": pair.loss, "allowed": float(pair.allowed), "holds": True}
    assert x["one_report"]["loss"] < 0.26 < x["loss"]
    assert "one_report" not in y
