"""Peers with promises of their own: condensed LDP a metric, utility-optimised LDP half of one."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from utility_optimised import UtilityRappor, protected_ratio, utility_response

from checks import exact_law, mechanism_of
from metricldp import Categorical, Integer, InvalidSpecError, SensitiveSet, Survey
from metricldp.basics.errors import CertificateError
from metricldp.lab.peers.condensed import Condensed
from metricldp.mechanisms.base import ANY_TWO
from metricldp.mechanisms.conformance import check_mechanism
from metricldp.mechanisms.registry import build, mechanism
from metricldp.mechanisms.table import TableChannel
from metricldp.metrics import Line, Uniform
from metricldp.metrics.line import Sensitive
from metricldp_core.exact import CERTAIN, WORD, at_most_exp

EPSILONS = ("0.1", "1", "3")


# Condensed


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_condensed_is_the_exponential_mechanism(epsilon):
    channel = build("condensed", 6, Line(Fraction(epsilon)))
    apart = np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    heights = np.exp(-float(epsilon) * apart / 2)
    expected = heights / heights.sum(axis=1, keepdims=True)
    shares = np.array(channel.distribution.weights) / WORD
    np.testing.assert_allclose(shares.astype(float), expected, atol=1e-8)


def test_condensed_conforms_on_other_metrics():
    kinds = (Uniform, lambda epsilon: Sensitive(frozenset({0, 2}), epsilon))
    found = check_mechanism(mechanism("condensed"), sizes=(3, 5), metrics=kinds)
    assert found.holds, str(found)


@pytest.mark.parametrize("epsilon", ["0.05", "0.2", "1"])
def test_condensed_is_dominated_by_geometric_noise_with_the_same_promise(epsilon):
    metric = Line(Fraction(epsilon))
    ours, theirs = (
        build(n, 60, metric).moments.mean_range_variance() for n in ("geometric", "condensed")
    )
    assert theirs > 1.5 * ours


def test_far_from_the_ends_condensed_tells_half_of_its_epsilon():
    channel = build("condensed", 101, Line(Fraction(1)))
    assert math.log(channel.distribution.ratio(50, 51)) == pytest.approx(0.5, abs=1e-6)


class Doubled(Condensed):
    """Without the half: more than the distance is told."""

    def distribution(self, problem, effort, progress):
        wider = replace(problem, metric=problem.metric.scaled(Fraction(5, 2)))
        return super().distribution(wider, effort, progress)


def test_broken_condensed_is_refused():
    found = check_mechanism(Doubled(), sizes=(5,), epsilons=(1.0,))
    assert "loss within the metric" in {finding.what for finding in found.failures}
    named = type("Named", (Doubled,), {"name": "doubled"})
    with pytest.raises(InvalidSpecError, match="better than the metric allows"):
        Survey.design({"v": Integer(0, 4, epsilon=1, mechanism=named(), per=1)})
    with pytest.raises(InvalidSpecError, match="1,025 positions are too many for condensed"):
        build("condensed", 1025, Line(Fraction(1)))


# Utility-optimised


def made(kind, size, sensitive, epsilon):
    if kind == "response":
        return utility_response(size, sensitive, Fraction(epsilon))
    return UtilityRappor.for_epsilon(size, sensitive, Fraction(epsilon))


each_kind = pytest.mark.parametrize("kind", ["response", "rappor"])


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("sensitive", [{0, 1}, {1, 3, 4}])
def test_utility_response_has_the_published_probabilities(sensitive, epsilon):
    """c1 = e^E/(s + e^E - 1), c2 = 1/(s + e^E - 1), c3 = 1 - s c2."""
    e, s = math.exp(float(epsilon)), len(sensitive)
    c1, c2 = e / (s + e - 1), 1 / (s + e - 1)
    shares = np.array(made("response", 6, sensitive, epsilon).distribution.weights) / WORD
    for x in range(6):
        expected = np.array([c2 if y in sensitive else 0 for y in range(6)])
        expected[x] = c1 if x in sensitive else 1 - s * c2
        np.testing.assert_allclose(shares[x].astype(float), expected, rtol=1e-12, atol=1e-18)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_utility_rappor_has_the_published_probabilities(epsilon):
    """th = e^(E/2)/(e^(E/2) + 1), d1 = th/((1 - th) e^E + th), d2 = ((1 - th) e^E + th)/e^E."""
    channel, e = made("rappor", 4, {1, 2}, epsilon), math.exp(float(epsilon))
    th = math.sqrt(e) / (math.sqrt(e) + 1)
    d1, d2 = th / ((1 - th) * e + th), ((1 - th) * e + th) / e
    own, other = (
        np.array(part) / WORD for part in (channel.distribution.own, channel.distribution.other)
    )
    np.testing.assert_allclose(own.astype(float), [1 - d2, th, th, 1 - d2], rtol=1e-12)
    np.testing.assert_allclose(other.astype(float), [0, d1, d1, 0], rtol=1e-12)


@each_kind
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("sensitive", [{0}, {0, 3}, {0, 1, 2, 3}])
def test_sensitive_values_are_hidden_with_the_whole_epsilon_and_no_more(kind, sensitive, epsilon):
    worst = protected_ratio(made(kind, 4, sensitive, epsilon), sensitive)
    assert at_most_exp(worst, Fraction(epsilon))
    assert not at_most_exp(worst * (1 + Fraction(1, 1 << 40)), Fraction(epsilon))


@each_kind
def test_all_but_the_loss_conforms_and_no_survey_takes_it(kind):
    made_for = mechanism_of("utility", lambda m, e: made(kind, m, {0, 1}, e), ANY_TWO)
    found = check_mechanism(made_for, sizes=(3, 5))
    assert {finding.what for finding in found.failures} == {"loss within the metric"}
    names = ["a", "b", "c", "d"]
    with pytest.raises(InvalidSpecError, match="better than the metric allows"):
        kinds = Categorical(names, epsilon=1, mechanism=made_for, metric=SensitiveSet(["a", "b"]))
        Survey.design({"c": kinds})


@each_kind
def test_others_are_told_for_certain_and_sensitive_ones_never(kind):
    channel = made(kind, 4, {0, 1}, "1")
    laws = [exact_law(channel, x) for x in range(4)]
    for x, law in enumerate(laws):
        others = [other for other in laws if other is not law]
        certain = [r for r in law if law[r] and all(other[r] == 0 for other in others)]
        assert bool(certain) == (x >= 2)


def test_broken_utility_twins_are_refused():
    bare = UtilityRappor.for_epsilon(4, {0, 1}, Fraction(1))
    with pytest.raises(CertificateError, match="gives away that somebody has one of"):
        other = (bare.distribution.other[0], 0, 0, 0)
        protected_ratio(UtilityRappor.of(bare.distribution.own, other), {0, 1})
    rows = [list(row) for row in utility_response(4, {0, 1}, Fraction(1)).distribution.weights]
    rows[0][0] += 1 << 44
    rows[0][1] -= 1 << 44
    assert not at_most_exp(protected_ratio(TableChannel.of(rows), {0, 1}), Fraction(1))
    assert bare.distribution.ratio(0, 2) >= CERTAIN
