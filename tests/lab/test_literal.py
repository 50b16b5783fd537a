"""Section 4 of the paper, written out densely, and the fast routes of the package beside it."""

import doctest
import itertools
import math
from fractions import Fraction

import literal
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from theorems import paper_range_variance

from metricldp import Integer, QueryError, Randomness, Survey
from metricldp.mechanisms import ThresholdDummyChannel, ThresholdPaperChannel
from metricldp.mechanisms.registry import build
from metricldp.metrics import Line
from metricldp.reports.arrow import batches
from metricldp.store.cubes import build as build_table

SIZES = [(2,), (5,), (3, 3), (2, 4), (4, 2), (3, 2, 4), (2, 2, 2, 2), (4, 4, 4), (1, 3)]
each_size = pytest.mark.parametrize("sizes", SIZES, ids=str)


def ranges_of(sizes):
    """Every range of a small domain."""
    ends = [[(a, b) for a in range(1, m + 1) for b in range(a, m + 1)] for m in sizes]
    return itertools.product(*ends)


def cut(ranges, sizes):
    """D_R: how many attributes the range does not leave whole."""
    return sum(ends != (1, m) for ends, m in zip(ranges, sizes, strict=True))


def survey_of(sizes, epsilons, mechanism="threshold-paper"):
    return Survey.design(
        {
            f"v{d}": Integer(1, m, epsilon=e, mechanism=mechanism, per=1)
            for d, (m, e) in enumerate(zip(sizes, epsilons, strict=True))
        }
    )


def some_reports(survey, n, seed):
    rng = np.random.default_rng(seed)
    people = {name: rng.integers(1, a.size + 1, n) for name, a in survey.attributes.items()}
    return people, survey.randomize(people, randomness=Randomness.seeded(seed))


def as_where(ranges):
    return {f"v{d}": ends for d, ends in enumerate(ranges)}


# The matrix


@each_size
def test_b_times_its_inverse_is_exactly_the_identity(sizes):
    b, scaled = literal.b_matrix(sizes), literal.b_inverse_scaled(sizes)
    identity = np.eye(math.prod(sizes), dtype=np.int64)
    assert b.dtype == scaled.dtype == np.int64
    assert (b @ scaled == 2 ** len(sizes) * identity).all()
    assert (scaled @ b == 2 ** len(sizes) * identity).all()
    assert (b @ literal.b_inverse(sizes) == identity).all()


@each_size
def test_b_holds_the_signs_of_the_proof(sizes):
    """Theorem 1's proof: row x, column x' is (-1) to the number of d with x'[d] > x[d]."""
    b = literal.b_matrix(sizes)
    for x in literal.values(sizes):
        for other in literal.values(sizes):
            larger = sum(theirs > ours for theirs, ours in zip(other, x, strict=True))
            at = literal.index(x, sizes) - 1, literal.index(other, sizes) - 1
            assert b[at] == (-1) ** larger


@pytest.mark.parametrize("sizes", [s for s in SIZES if min(s) > 1], ids=str)
def test_every_row_of_the_inverse_has_2_to_the_D_entries(sizes):
    """The claim in the proof of Theorem 2."""
    inverse = literal.b_inverse(sizes)
    assert ((inverse != 0).sum(axis=1) == 2 ** len(sizes)).all()
    assert set(np.abs(inverse[inverse != 0])) == {2.0 ** -len(sizes)}


@pytest.mark.parametrize("sizes", [(4,), (3, 3), (2, 4), (3, 2, 3)], ids=str)
def test_a_range_keeps_2_to_the_D_R_entries(sizes):
    """The claim in the proof of Theorem 3, for every range: most of the rows cancel out."""
    for ranges in ranges_of(sizes):
        row = literal.range_row(ranges, sizes)
        entries = row[row != 0]
        assert len(entries) == 2 ** cut(ranges, sizes)
        assert set(np.abs(entries)) == {2.0 ** -cut(ranges, sizes)}


@each_size
def test_the_index_numbers_the_domain(sizes):
    found = [literal.index(x, sizes) for x in literal.values(sizes)]
    assert found == list(range(1, math.prod(sizes) + 1))
    if len(set(sizes)) == 1:  # section 4: ind(x) = 1 + sum_d m^(d-1) (x[d] - 1)
        m = sizes[0]
        for x in literal.values(sizes):
            assert literal.index(x, sizes) == 1 + sum(m**d * (v - 1) for d, v in enumerate(x))


# The paper's example


def test_the_worked_example():
    """n = 2, D = 2, m = 3: o at (1, 1) is 1 (-1) + 1 1 = 0."""
    first = np.array([[1, -1, 1], [-1, -1, -1]])
    second = np.array([[1, 1, -1], [1, -1, -1]])
    o = literal.observe([np.stack([first[d], second[d]]) for d in range(2)])
    assert o[literal.index((1, 1), (3, 3)) - 1] == 0
    by_hand = [
        sum(r[0, x - 1] * r[1, y - 1] for r in (first, second))
        for y in (1, 2, 3)
        for x in (1, 2, 3)
    ]
    assert o.tolist() == by_hand == [0, 2, -2, -2, 0, 0, -2, 0, 0]
    dense = literal.frequencies(o, (3, 3), (1, 1))
    np.testing.assert_allclose(dense, literal.frequencies_along_axes(o, (3, 3), (1, 1)), rtol=1e-14)
    # By hand: c at (1, 1) is kappa^2/4 (o_11 + o_31 + o_13 + o_33), here (0 - 2 - 2 + 0).
    assert dense[0] == pytest.approx(-(literal.kappa(1) ** 2), rel=1e-14)


def test_doctests():
    assert doctest.testmod(literal).failed == 0


# The estimates


def test_equation_7_is_unbiased_by_enumeration():
    """Theorem 1: E[o] = kappa^-D B c, summed over every report of every person, exactly."""
    sizes, epsilons = (2, 3), (Fraction(1), Fraction(1, 2))
    channels = [build("threshold-paper", m, Line(e)) for m, e in zip(sizes, epsilons, strict=True)]
    b = literal.b_matrix(sizes)
    gaps = math.prod((1 - 2 * Fraction(c.distribution.flips[0], 1 << 64)) for c in channels)
    means = []
    for channel in channels:
        patterns = channel.every_report()
        signs = channel.features(patterns)
        means.append(
            [
                [
                    sum(
                        channel.probability(x, r) * int(s[k])
                        for r, s in zip(patterns, signs, strict=True)
                    )
                    for k in range(channel.bits)
                ]
                for x in range(channel.size)
            ]
        )
    for x in literal.values(sizes):
        for other in literal.values(sizes):
            expected = math.prod(means[d][other[d] - 1][x[d] - 1] for d in range(2))
            entry = b[literal.index(x, sizes) - 1, literal.index(other, sizes) - 1]
            assert expected == gaps * int(entry)


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(2, 5), min_size=1, max_size=3),
    epsilons=st.lists(st.floats(0.2, 3), min_size=3, max_size=3),
    seed=st.integers(0, 10**6),
)
def test_the_tally_answers_equation_7(sizes, epsilons, seed):
    epsilons = epsilons[: len(sizes)]
    survey = survey_of(sizes, epsilons)
    _, reports = some_reports(survey, 50, seed)
    o = literal.observations(survey, reports)
    table = build_table(list(batches(reports)), survey.channels)
    assert table.sums.reshape(-1, order="F").tolist() == o.tolist()  # integers, exactly
    dense = literal.frequencies(o, sizes, epsilons)
    scale = math.prod(map(literal.kappa, epsilons)) * np.abs(o).max()
    close = {"rtol": 1e-12, "atol": 1e-12 * scale}
    np.testing.assert_allclose(table.frequencies.reshape(-1, order="F"), dense, **close)
    np.testing.assert_allclose(literal.frequencies_along_axes(o, sizes, epsilons), dense, **close)
    rng = np.random.default_rng(seed)
    every = list(ranges_of(sizes))
    asked = [every[k] for k in rng.integers(0, len(every), 5)]
    asked += [[(v, v) for v in x] for x in literal.values(sizes)[:5]]
    asked += [[(1, m) for m in sizes]]
    for layout in ("reports", "cells", "prefix"):
        tally = survey.tally(reports, layout=layout)
        for ranges in asked:
            slow = literal.range_sum(dense, sizes, ranges)
            np.testing.assert_allclose(tally.count(as_where(ranges)).value, slow, **close)


def test_equation_7_in_fractions():
    """With the channel's own integers instead of e^epsilon there is no rounding at all."""
    sizes = (3, 2)
    survey = survey_of(sizes, (1, 0.5))
    _, reports = some_reports(survey, 40, 3)
    o = literal.observations(survey, reports)
    scale = Fraction(1, 4)
    for channel in survey.channels.values():
        scale *= Fraction(1 << 64, (1 << 64) - 2 * channel.distribution.flips[0])
    exact = [scale * int(c) for c in literal.b_inverse_scaled(sizes) @ o]
    # Back again: kappa^-D B c is o to the last digit.
    again = [
        sum(int(b) * c for b, c in zip(r, exact, strict=True)) for r in literal.b_matrix(sizes)
    ]
    assert [4 * scale * int(v) for v in o] == again
    tally = survey.tally(reports, layout="reports")
    for x, c in zip(literal.values(sizes), exact, strict=True):
        value = tally.count({"v0": x[0], "v1": x[1]}).value
        assert value == pytest.approx(float(c), rel=1e-12, abs=1e-12)


def test_the_dummy_value_is_equation_7_over_one_value_more():
    sizes, extended, epsilons = (3, 4), (4, 5), (1.0, 0.7)
    survey = survey_of(sizes, epsilons, "threshold-dummy")
    _, reports = some_reports(survey, 60, 5)
    dense = literal.frequencies(literal.observations(survey, reports), extended, epsilons)
    tally = survey.tally(reports)
    for ranges in ranges_of(sizes):
        assert cut(ranges, extended) == 2, "every range is cut in every attribute"
        slow = literal.range_sum(dense, extended, ranges)
        value = tally.count(as_where(ranges)).value
        assert value == pytest.approx(slow, rel=1e-12, abs=1e-9)


# The error


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("attributes", [1, 2, 3])
def test_the_dummy_value_has_the_error_of_a_range_cut_everywhere(attributes, epsilon):
    """Whatever the range, one person adds prod_d ((kappa^2 - 1)/2 + f_d) - prod_d f_d."""
    sizes = (3,) * attributes
    survey = survey_of(sizes, (epsilon,) * attributes, "threshold-dummy")
    noise = (literal.kappa(epsilon) ** 2 - 1) / 2
    for ranges in ranges_of(sizes):
        for x in literal.values(sizes):
            inside = [a <= v <= b for v, (a, b) in zip(x, ranges, strict=True)]
            formula = math.prod(noise + f for f in inside) - math.prod(inside)
            prior = {f"v{d}": np.eye(3)[v - 1] for d, v in enumerate(x)}
            exact = survey.expected_error(as_where(ranges), prior=prior, n=1).stderr ** 2
            assert exact == pytest.approx(formula, rel=1e-10)
        worst = survey.expected_error(as_where(ranges), n=1, prior="worst").stderr ** 2
        assert worst == pytest.approx((noise + 1) ** attributes - 1, rel=1e-10)
        if attributes > 1:  # the dummy value does not save the theorem's constant
            assert worst > paper_range_variance(epsilon, attributes, attributes, 1)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("whole", [1, 2, 4])
def test_what_a_whole_attribute_costs(epsilon, whole):
    """Free with the constant, (kappa^2 + 1)/2 with the dummy value, kappa^2 in the paper."""
    sizes = (4,) * (1 + whole)
    where = {"v0": (2, 3)}
    error = {
        mechanism: survey_of(sizes, (epsilon,) * len(sizes), mechanism)
        .expected_error(where, n=1, prior="worst")
        .stderr
        for mechanism in ("threshold", "threshold-dummy", "threshold-paper")
    }
    assert error["threshold"] < error["threshold-dummy"] < error["threshold-paper"]
    square = literal.kappa(epsilon) ** 2
    one = (square - 1) / 2 + 1
    for mechanism, factor in (("threshold-paper", square), ("threshold-dummy", (square + 1) / 2)):
        assert error[mechanism] ** 2 == pytest.approx(one * factor**whole - 1, rel=1e-9)
    assert error["threshold"] ** 2 == pytest.approx(one - 1, rel=1e-9)


def test_the_dummy_value_helps_only_where_an_attribute_is_whole():
    for ranges in ranges_of((3, 3)):
        error = {
            mechanism: survey_of((3, 3), (1, 1), mechanism)
            .expected_error(as_where(ranges), n=1, prior="worst")
            .stderr
            for mechanism in ("threshold", "threshold-dummy", "threshold-paper")
        }
        assert error["threshold"] <= error["threshold-dummy"] <= error["threshold-paper"]
        if cut(ranges, (3, 3)) == 2:
            assert error["threshold-dummy"] == pytest.approx(error["threshold-paper"], rel=1e-12)
    assert ThresholdDummyChannel.for_epsilon(3, Fraction(1)).bits == 4
    assert ThresholdPaperChannel.for_epsilon(3, Fraction(1)).bits == 3


@pytest.mark.parametrize("attributes", [1, 2, 3, 5])
def test_the_constant_with_which_theorems_2_and_3_hold(attributes):
    """2^(D-1) where all attributes are cut, approached as epsilon grows; less if one is whole."""
    for cut_attributes in range(1, attributes + 1):
        whole = attributes - cut_attributes
        constant = 2**cut_attributes * (attributes + whole) / (2 * attributes)
        assert constant <= 2 ** (attributes - 1)
        where = {f"v{d}": (2, 3) for d in range(cut_attributes)}
        ratios = []
        for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0, 14.0):
            survey = survey_of((4,) * attributes, (epsilon,) * attributes)
            bound = paper_range_variance(epsilon, attributes, cut_attributes, 1)
            ratios.append(survey.expected_error(where, n=1, prior="worst").stderr ** 2 / bound)
        assert ratios == sorted(ratios) or attributes == 1
        assert ratios[0] >= 1 - 1e-9
        assert ratios[-1] == pytest.approx(constant, rel=1e-4)
        assert ratios[-1] <= constant * (1 + 1e-6)


# Refusals


def test_dense_matrices_of_large_domains_are_refused():
    with pytest.raises(QueryError, match=r"100,000 cells is too large.*frequencies_along_axes"):
        literal.b_inverse((10,) * 5)
    o = np.zeros(10**5, dtype=np.int64)
    assert literal.frequencies_along_axes(o, (10,) * 5, (1.0,) * 5).shape == (10**5,)


def test_wrong_shapes_and_mechanisms_are_refused():
    with pytest.raises(QueryError, match="have 6 observations"):
        literal.frequencies(np.zeros(5, dtype=np.int64), (2, 3), (1, 1))
    with pytest.raises(QueryError, match="ends 1 to 3, not 0, 2"):
        literal.range_sum(np.zeros(3), (3,), [(0, 2)])
    with pytest.raises(QueryError, match="from 1 to 3, not 4"):
        literal.index((4,), (3,))
    survey = survey_of((3,), (1,), "geometric")
    _, reports = some_reports(survey, 5, 1)
    with pytest.raises(QueryError, match="v0 is randomized by geometric"):
        literal.observations(survey, reports)
