"""Channels from output distributions: the same integers, and estimators only where they fit."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from checks import extremal_table
from metricldp.basics.errors import InvalidSpecError
from metricldp.mechanisms import (
    GeometricChannel,
    MatrixChannel,
    RandomizedResponseChannel,
    ThresholdChannel,
    ThresholdDummyChannel,
    ThresholdPaperChannel,
    UnaryChannel,
)
from metricldp.mechanisms.additive_channel import AdditiveChannel
from metricldp.mechanisms.channels import channel_of
from metricldp.mechanisms.memoised_channel import LazyGeometricChannel, MemoisedChannel
from metricldp.mechanisms.table import TableChannel
from metricldp_core.distributions import LazyGeometric
from metricldp_core.exact import WORD

HALF, ONE = Fraction(1, 2), Fraction(1)
PATTERN = (0, 0, 1, 3, 2, 1)
CHANNELS = [
    *(
        kind.for_epsilon(5, ONE)
        for kind in (ThresholdChannel, ThresholdPaperChannel, ThresholdDummyChannel)
    ),
    RandomizedResponseChannel.for_epsilon(5, ONE),
    UnaryChannel.for_losses([(1.0, 0.3), (0.4, 0.2)]),
    LazyGeometricChannel.between(5, ONE, HALF),
    MemoisedChannel(
        GeometricChannel.for_epsilon(5, ONE), LazyGeometricChannel.between(5, ONE, HALF)
    ),
    MatrixChannel.of(np.tri(4, dtype=int)[:-1], [ONE] * 3, 2),
    TableChannel.of([[WORD // 2, WORD // 2], [WORD // 4, WORD - WORD // 4]]),
    extremal_table(((0, 1), (1, 0)), (WORD >> 2, WORD >> 3), HALF),
    AdditiveChannel.of((4,), (6,), (PATTERN,), HALF),
    AdditiveChannel.of((2, 2), (2, 3), (PATTERN,), HALF),
]


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: type(channel).__name__)
def test_channel_of_its_output_distribution_is_the_same(channel):
    again = channel_of(channel.distribution)
    assert type(again) is type(channel)
    assert again.distribution == channel.distribution
    functions = np.random.default_rng(1).normal(size=(2, channel.size))
    found, expected = again.moments.coefficients(functions), channel.moments.coefficients(functions)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("epsilon", ["1e-9", "0.001", "0.3", "2", "30", "64"])
def test_epsilon_of_geometric_noise_follows_from_its_integers(epsilon):
    """Beyond about 44 the probability of a whole block is one unit."""
    channel = GeometricChannel.for_epsilon(9, Fraction(epsilon))
    found = channel_of(channel.distribution).epsilon
    assert found == pytest.approx(min(float(epsilon), math.log(WORD)), rel=1e-8)


@pytest.mark.parametrize("part", ["zero", "digits", "block"])
def test_noise_that_is_not_geometric_is_rejected(part):
    noise = GeometricChannel.for_epsilon(9, Fraction(1, 4)).distribution
    number = getattr(noise, part)
    more = (number[0] + (WORD >> 12), *number[1:]) if part == "digits" else number + (WORD >> 12)
    broken = replace(noise, **{part: more})
    for distribution in (broken, LazyGeometric(broken, 1, 1)):
        with pytest.raises(InvalidSpecError, match="not geometric has no estimator"):
            channel_of(distribution)


def test_levels_that_are_a_small_part_of_all_words_are_rejected():
    """A sampler for many respondents rejects all words beyond their sum."""
    stored = AdditiveChannel.of((4,), (6,), (PATTERN,), HALF).distribution
    with pytest.raises(InvalidSpecError, match="add up to less than half"):
        channel_of(replace(stored, tops=(stored.tops[0] // 2,)))


@pytest.mark.parametrize("flip", [0, WORD // 2, WORD])
def test_threshold_bits_without_noise_or_without_information_are_rejected(flip):
    stored = ThresholdChannel.for_epsilon(4, ONE).distribution
    with pytest.raises(InvalidSpecError, match="between 0 and 1/2"):
        channel_of(replace(stored, flips=(*stored.flips[:-1], flip)))
    unequal = replace(stored, flips=(*stored.flips[:-1], WORD // 3))
    assert channel_of(unequal).distribution == unequal
