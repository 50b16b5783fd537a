"""The channel of a distribution."""

from __future__ import annotations

import math
from typing import cast

from metricldp.basics.errors import InvalidSpecError
from metricldp.mechanisms.additive_channel import AdditiveChannel
from metricldp.mechanisms.channel import Channel, IntegerChannel
from metricldp.mechanisms.geometric import GeometricChannel, noise_epsilon
from metricldp.mechanisms.joint import JointChannel
from metricldp.mechanisms.joint_cells import Cells
from metricldp.mechanisms.matrix_channel import MatrixChannel
from metricldp.mechanisms.memoised_channel import LazyGeometricChannel, MemoisedChannel
from metricldp.mechanisms.moments import Prior
from metricldp.mechanisms.randomized_response import RandomizedResponseChannel
from metricldp.mechanisms.table import TableChannel
from metricldp.mechanisms.threshold import (
    ThresholdChannel,
    ThresholdDummyChannel,
    ThresholdPaperChannel,
)
from metricldp.mechanisms.unary_channel import UnaryChannel
from metricldp_core import distributions as core
from metricldp_core.exact import WORD
from metricldp_core.levels import Additive

_UNITS, _ROUNDING = 2.0**-62, 1e-5
"""Integers of noise differ from probabilities by few units, and by at most this part of them."""


def threshold_name(stored: core.Threshold) -> str:
    """The name of the mechanism that has so many bits for the number of positions."""
    return _threshold(stored).mechanism


def group_channel_of(
    stored: core.Distribution, sizes: tuple[int, ...], prior: Prior = None
) -> JointChannel:
    """The channel of a group with this output distribution on its cells."""
    own: JointChannel | None = getattr(stored, "channel", None)  # baselines have their own
    return own or Cells(sizes, cast(TableChannel | AdditiveChannel, channel_of(stored, prior)))


def channel_of(stored: core.Distribution, prior: Prior = None) -> Channel:
    """The channel with this output distribution; a prior is for its estimator."""
    match stored:
        case core.RandomizedResponse():
            return RandomizedResponseChannel(stored)
        case core.Threshold():
            return _threshold(stored)
        case core.Geometric():
            _check_noise(stored)
            return GeometricChannel(stored)
        case core.LazyGeometric():
            _check_noise(stored.geometric)
            return LazyGeometricChannel(stored)
        case core.Unary():
            return UnaryChannel(stored)
        case core.Matrix():
            for noise in {row.noise for row in stored.rows}:
                _check_noise(noise)
            return MatrixChannel(stored)
        case core.Table():
            return TableChannel(stored, prior=prior)
        case core.Memoised():
            first, second = channel_of(stored.first), channel_of(stored.second)
            return MemoisedChannel(cast(IntegerChannel, first), cast(IntegerChannel, second))
        case Additive():
            _check_levels(stored)
            return AdditiveChannel(stored, prior=prior)
    own: Channel | None = getattr(stored, "channel", None)  # baselines have their own
    if own is None:
        raise InvalidSpecError(f"distribution {stored.kind!r} is not supported here")
    return own


def _threshold(stored: core.Threshold) -> ThresholdChannel:
    if not all(0 < 2 * flip < WORD for flip in set(stored.flips)):
        raise InvalidSpecError("threshold bits need probabilities between 0 and 1/2")
    versions = (ThresholdChannel, ThresholdPaperChannel, ThresholdDummyChannel)
    return versions[stored.bits - stored.size + 1](stored)


def _check_levels(stored: Additive) -> None:
    """Reject levels of which a sampler for many respondents rejects more than half of all words."""
    pairs = zip(stored.depths, stored.levels, strict=True)
    if min(sum(known[depth] for depth in pattern) for pattern, known in pairs) <= WORD >> 1:
        raise InvalidSpecError("the levels of a pattern add up to less than half of 2^64")


def _check_noise(noise: core.Geometric) -> None:
    """Reject noise if not all of its integers are those of one epsilon: estimators rely on that."""
    epsilon = noise_epsilon(noise)
    digits = (1 / (1 + math.exp(epsilon * (1 << j))) for j in range(len(noise.digits)))
    pairs = zip((noise.zero, *noise.digits), (math.tanh(epsilon / 2), *digits), strict=True)
    if any(abs(number / WORD - p) > _UNITS + p * _ROUNDING for number, p in pairs):
        raise InvalidSpecError("noise whose probabilities are not geometric has no estimator")
