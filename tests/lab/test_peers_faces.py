"""Laplace faces: privacy by a partner for every noise, and the exact error, on tiny domains."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from checks import assert_mean
from metricldp import Categorical, Integer, InvalidSpecError, Lp, Randomness, Survey, SurveySpec
from metricldp.lab.peers.faces import Faces
from metricldp.lab.peers.joint import LaplaceFaces
from metricldp.mechanisms.exact_probability import noise_probability
from metricldp.mechanisms.geometric import geometric_distribution
from metricldp_core.exact import at_most_exp
from metricldp_core.random_words import Words

SIZES = [(5,), (2, 2), (4, 3), (3, 7), (2, 3, 2)]
each = pytest.mark.parametrize("sizes", SIZES, ids=str)


def faces(sizes, epsilon=1):
    return Faces.for_steps(sizes, (Fraction(epsilon),) * len(sizes))


def survey_of(sizes, epsilon=1.0, **more):
    attributes = {f"v{d}": Integer(0, m - 1, epsilon=epsilon, per=1) for d, m in enumerate(sizes)}
    return Survey.design(SurveySpec(attributes, joint={tuple(attributes): "faces"}, **more))


def effects(channel):
    """What each noise alone adds to the numbers of a report, by (attribute, node)."""
    found = {}
    for d in range(len(channel.sizes)):
        shape = tuple(size - (e == d) for e, size in enumerate(channel.sizes))
        for node in np.ndindex(*shape):
            noise = np.zeros((1, *shape), dtype=np.int64)
            noise[(0, *node)] = 1
            sums = np.zeros((1, *channel.sizes), dtype=np.int64)
            channel._add(sums, d, noise)
            found[d, node] = sums[0]
    return found


def below(channel, x):
    found = np.zeros(channel.sizes, dtype=np.int64)
    found[tuple(slice(place, None) for place in x)] = 1
    return found


def holds(node, place):
    """Whether node, from 0, of a Fenwick tree holds a position."""
    number = node + 1
    return number - (number & -number) < place + 1 <= number


@each
def test_every_step_has_a_partner_for_every_noise(sizes):
    """A step of anybody is undone by 1 in so many noises that their shares add up to epsilon."""
    channel = faces(sizes)
    known = effects(channel)
    for d in range(len(sizes)):
        most = 0
        for x in itertools.product(*(range(size - (e == d)) for e, size in enumerate(sizes))):
            there = tuple(place + (e == d) for e, place in enumerate(x))
            moved = [
                node
                for (axis, node) in known
                if axis == d
                and node[d] == x[d]
                and all(holds(node[e], x[e]) for e in range(len(sizes)) if e != d)
            ]
            change = sum(known[d, node] for node in moved)
            assert (below(channel, x) - below(channel, there) == change).all()
            most = max(most, len(moved))
        share = Fraction(1, most)
        assert channel.noises[d] == geometric_distribution(1 << 61, share)


@each
def test_the_certificate_counts_those_partners(sizes):
    channel = faces(sizes)
    for x, other in itertools.product(np.ndindex(*sizes), repeat=2):
        apart = sum(abs(a - b) for a, b in zip(x, other, strict=True))
        assert at_most_exp(channel.worst_ratio(x, other), Fraction(apart))
    for _, _, ratio in channel.worst_pairs():
        assert math.log(ratio) == pytest.approx(1, rel=1e-6)


def test_without_sharing_out_it_breaks():
    """The twin: the whole epsilon for every noise."""
    whole = geometric_distribution(9, Fraction(1))
    broken = Faces((4, 3), (Fraction(1), Fraction(1)), (whole, whole))
    assert not any(at_most_exp(ratio, Fraction(1)) for *_, ratio in broken.worst_pairs())


def test_the_law_of_two_by_two_enumerated():
    """Three numbers: two with one noise, and one with the sum of two. Chances by convolution."""
    channel = faces((2, 2), Fraction(3, 2))
    noise = channel.noises[0]
    one = np.array([float(noise_probability(noise, k)) for k in range(-300, 301)])
    two = np.convolve(one, one, mode="same")  # short of terms far out only
    logs = {}
    for x in itertools.product(range(2), repeat=2):
        reports = below(channel, x)
        logs[x] = [
            np.log(np.roll(p, reports[c])[250:-250])
            for p, c in ((two, (0, 0)), (one, (0, 1)), (one, (1, 0)))
        ]
    for x, other in itertools.permutations(logs, 2):
        loss = sum((a - b).max() for a, b in zip(logs[x], logs[other], strict=True))
        apart = sum(abs(a - b) for a, b in zip(x, other, strict=True))
        assert loss <= 1.5 * apart + 1e-9


@each
def test_any_functions_are_decoded_and_their_second_moments_exact(sizes):
    channel = faces(sizes)
    rng = np.random.default_rng(4)
    f, g = ([rng.normal(size=(3, m)) for m in sizes] for _ in range(2))
    weights = channel._coefficients(f).reshape(3, *sizes), channel._coefficients(g)
    one, other = weights[0], weights[1].reshape(3, *sizes)
    for x in np.ndindex(*sizes):
        value = math.prod(h[:, place] for h, place in zip(f, x, strict=True))
        assert (one * below(channel, x)).reshape(3, -1).sum(axis=1) == pytest.approx(value)
    noise, jump = np.zeros(3), np.zeros(3)
    for (d, _), added in effects(channel).items():
        share = 1 / math.prod(m.bit_length() for e, m in enumerate(sizes) if e != d)
        variance = 1 / (2 * math.sinh(share / 2) ** 2)
        values = np.arange(-2_000, 2_001)
        chances = np.exp(-share * np.abs(values)) * math.tanh(share / 2)
        fourth = (chances * values**4).sum() / (chances * values**2).sum()
        weight = np.abs((one * added).reshape(3, -1).sum(axis=1))
        jump = np.maximum(jump, weight * math.sqrt(fourth))
        noise += variance * math.prod((h * added).reshape(3, -1).sum(axis=1) for h in (one, other))
    products, constant = channel.second_moment(f, g)
    assert constant.scale == pytest.approx(noise)
    assert channel.skewness(f) == pytest.approx(jump)
    assert channel.skewness([np.ones((1, m)) for m in sizes]) == 0
    for h, k, both in zip(f, g, products.factors, strict=True):
        assert both == pytest.approx(h * k)


def test_one_attribute_is_prefix_sums():
    (_, noise) = faces((9,)).second_moment([np.array([[0.0, 0, 1, 1, 1, 0, 0, 0, 0]])])
    assert noise.scale[0] == pytest.approx(2 / (2 * math.sinh(1 / 2) ** 2))


def test_both_samplers_without_noise_say_who_is_below():
    channel = faces((3, 4), 40)
    corners = [tuple(map(int, part.split(","))) for part in channel.fields]
    for x in itertools.product(range(3), range(4)):
        expected = [channel.reach + all(map(int.__le__, x, c)) for c in corners]
        columns = channel.sample([np.array([place]) for place in x], Randomness.seeded(3))
        assert [int(column[0]) for column in columns.values()] == expected
        assert list(channel.draw(x, Words(Randomness.seeded(4).draw))) == expected


def test_counts_are_right_on_average_and_as_uncertain_as_said():
    """Means of 4,000 people at one place; false alarms below 1e-9 each."""
    survey = survey_of((4, 3))
    (block,) = survey.blocks.values()
    rng = np.random.default_rng(1)
    inside = [np.array([[0.0, 1, 1, 0]]), np.array([[1.0, 1, 0]])]
    _, noise = block.channel.second_moment(inside)
    for x in ((1, 0), (3, 2)):
        positions = [np.full(4_000, place) for place in x]
        columns = block.channel.sample(positions, Randomness.seeded(int(rng.integers(99))))
        decoded = block.channel.decoded(inside, columns)[0]
        assert_mean(decoded, float(x == (1, 0)), variance=noise.scale[0], false_alarm=1e-9)
        assert decoded.var() == pytest.approx(noise.scale[0], rel=0.2)
    reports = survey.randomize(
        {"v0": [0, 1, 2] * 50, "v1": [0, 1, 2] * 50}, randomness=Randomness.seeded(2)
    )
    answer = survey.tally(reports).count({"v0": (1, 2), "v1": (0, 1)})
    assert answer.stderr == pytest.approx(math.sqrt(150 * noise.scale[0]))
    assert answer.stderr == pytest.approx(
        survey.expected_error({"v0": (1, 2), "v1": (0, 1)}, n=150, prior="worst").stderr
    )
    assert answer.reach(0.95) < 1.05 * 1.96 * answer.stderr
    assert survey.certify().holds


def test_what_it_serves():
    with pytest.raises(InvalidSpecError, match="a survey with faces has a norm with p up to 1"):
        survey_of((3, 3), metric=Lp(2))
    with pytest.raises(InvalidSpecError, match="corners are too many"):
        survey_of((300, 300))
    names = {"a": Categorical(["x", "y"], epsilon=1), "b": Integer(0, 2, epsilon=1, per=1)}
    with pytest.raises(InvalidSpecError, match="attributes with an order"):
        Survey.design(SurveySpec(names, joint={("a", "b"): LaplaceFaces()}))
    assert Survey.from_toml(survey_of((3, 3)).to_toml()) == survey_of((3, 3))
