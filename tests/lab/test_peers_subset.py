"""Subset selection: published formulas, an exact attack, and broken twins."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from checks import EveryCoin, exact_law, mechanism_of, sampled_law
from metricldp import Categorical, Randomness, Survey
from metricldp.basics.errors import CertificateError
from metricldp.lab.peers.subset import SubsetSelection
from metricldp.mechanisms.base import ANY_TWO
from metricldp.mechanisms.conformance import check_mechanism
from metricldp.mechanisms.registry import build
from metricldp.metrics import Uniform
from metricldp_core.exact import WORD


@pytest.mark.parametrize("size", [2, 3, 10, 100])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
def test_probabilities_and_variance_are_the_published_ones(size, epsilon):
    """p*, q* and (C/n - q*)/(p* - q*) of Ye and Barg, as Arcolezi (2025) writes them."""
    channel = SubsetSelection.for_epsilon(size, Fraction(epsilon))
    e = math.exp(float(epsilon))
    w = max(1, round(size / (e + 1)))
    whole = w * e + size - w
    p, q = w * e / whole, (w * e * (w - 1) + (size - w) * w) / ((size - 1) * whole)
    assert channel.ones == w
    found, other, *_ = channel.moments_of_supports
    assert (float(found), float(other)) == (pytest.approx(p), pytest.approx(q))
    own = np.eye(size)[:1]
    variance = channel.moments.second_moment(own)[0] - own[0]
    assert variance[0] == pytest.approx(p * (1 - p) / (p - q) ** 2)
    np.testing.assert_allclose(variance[1:], q * (1 - q) / (p - q) ** 2, rtol=1e-9)


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_an_attacker_guesses_right_as_often_as_published(epsilon):
    """The best guess of one of m values, all equally likely: e^E/(w e^E + m - w)."""
    channel, e = SubsetSelection.for_epsilon(8, Fraction(epsilon)), math.exp(float(epsilon))
    laws = [exact_law(channel, x) for x in range(8)]
    success = sum(max(law[report] for law in laws) for report in laws[0]) / 8
    assert float(success) == pytest.approx(e / (channel.ones * e + 8 - channel.ones))


@pytest.mark.parametrize("size", [4, 16, 100])
def test_it_is_the_best_plain_oracle(size):
    others = ("randomized-response", "unary", "unary-optimised", "unary-symmetric", "local-hashing")
    others += ("hadamard", "histogram-threshold")
    for epsilon in (0.2, 0.5, 1, 2, 3, 4):
        metric = Uniform(Fraction(str(epsilon)))
        mine = build("subset", size, metric).moments.mean_frequency_variance()
        best = min(build(name, size, metric).moments.mean_frequency_variance() for name in others)
        # The set has a whole number of values, which costs up to 3 % where it has few.
        assert mine <= best * 1.03


@pytest.mark.parametrize("ones", [1, 2])
def test_its_sampler_on_every_coin(ones):
    channel = SubsetSelection(3, ones, 11 << 60)
    for x in range(3):
        assert sampled_law(channel, x, EveryCoin(6, word=2)) == exact_law(channel, x)


def test_every_set_is_listed_and_no_other_is_accepted():
    field = SubsetSelection(9, 4, WORD // 2).field
    listed = np.unpackbits(field.every(), axis=1, count=9, bitorder="little")
    sets = {tuple(np.flatnonzero(row)) for row in listed}
    assert sets == set(combinations(range(9), 4))
    assert not field.invalid(field.every()).any()
    wrong = np.array([[0b111, 0], [0b11111, 0], [0b1111, 0b10], [0b111, 0b10], [0, 0]], np.uint8)
    assert field.invalid(wrong).all()


def test_an_epsilon_that_is_too_small_is_refused():
    with pytest.raises(CertificateError, match="too small for 64-bit words"):
        SubsetSelection.for_epsilon(3, Fraction(1, 10**30))


def broken(what, make):
    found = check_mechanism(mechanism_of("twin", make, ANY_TWO), sizes=(6,), epsilons=(0.5,))
    assert what in {finding.what for finding in found.failures}, str(found)


class FirstDrawn(SubsetSelection):
    """The shuffle draws from the beginning again: some sets come too often."""

    def blur(self, position, words):
        keep, moves = words.below(self.keep), list(range(1, self.size))
        for k in range(self.ones):
            drawn = words.uniform(self.size - 1 - k)
            moves[k], moves[drawn] = moves[drawn], moves[k]
        moves[self.ones - 1] *= not keep
        return sum(1 << (position + move) % self.size for move in moves[: self.ones])


class OwnTwice(SubsetSelection):
    """Those who keep their value send one value more, the first, in place of another."""

    def sample(self, positions, randomness):
        column = super().sample(positions, randomness)
        again = super().sample(positions, randomness)
        kept = (column[:, 0] >> positions.astype(np.uint8)) & 1
        return np.where(kept[:, None] == 1, column, again)


def test_broken_twins_are_refused():
    def greedy(size, epsilon):
        honest = SubsetSelection.for_epsilon(size, epsilon)
        return replace(honest, keep=honest.keep + (1 << 30))

    broken("loss within the metric", greedy)
    for what, kind in (("draw", FirstDrawn), ("sample", OwnTwice)):
        broken(what, kind.for_epsilon)


def test_a_survey_with_many_values():
    names = [f"c{k}" for k in range(300)]
    survey = Survey.design({"c": Categorical(names, epsilon=1, mechanism="subset")})
    people = np.array(names)[np.arange(6000) % 3]
    tally = survey.tally(survey.randomize({"c": people}, randomness=Randomness.seeded(3)))
    answer = tally.count({"c": names[:2]})
    assert abs(answer.value - 4000) < 6 * answer.stderr
    assert tally.count({"c": names}).value == pytest.approx(6000)
