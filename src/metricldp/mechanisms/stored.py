"""Channels from the integers of a survey file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np

from metricldp.basics.errors import InvalidSpecError
from metricldp.mechanisms.additive_channel import Shaped
from metricldp.mechanisms.base import Label, Mechanism
from metricldp.mechanisms.channel import Channel
from metricldp.mechanisms.features import IntegerChannel
from metricldp.mechanisms.geometric import Geometric
from metricldp.mechanisms.geometric_noise import GeometricNoise
from metricldp.mechanisms.lazy import Lazy
from metricldp.mechanisms.matrix_channel import MatrixChannel
from metricldp.mechanisms.memoised_channel import Memoised
from metricldp.mechanisms.mixture import Mixture
from metricldp.mechanisms.randomized_response import Response
from metricldp.mechanisms.table import Table
from metricldp.mechanisms.threshold import Threshold
from metricldp.mechanisms.threshold_paper import ThresholdDummy, ThresholdPaper
from metricldp.mechanisms.torus_channel import Wound
from metricldp.mechanisms.unary_channel import UnaryChannel
from metricldp.metrics import Metric
from metricldp_core import distributions as core
from metricldp_core.canonical import Entry
from metricldp_core.distributions import SUPPORTED
from metricldp_core.errors import InvalidManifestError
from metricldp_core.exact import WORD
from metricldp_core.levels import Additive, Extremal

_UNITS, _ROUNDING = 2.0**-62, 1e-5
"""Integers of noise differ from probabilities by few units, and by at most this part of them."""
Prior = tuple[float, ...] | None


@dataclass(frozen=True)
class StoredMechanism(Mechanism):
    """A mechanism that is not installed: its integers are in the survey file."""

    name: str

    def channel(self, size: int, metric: Metric, *, label: Label = str) -> Channel:
        raise InvalidSpecError(f"mechanism {self.name!r} is not installed, so it designs no survey")

    def kept(self, size: int, metric: Metric) -> Metric:
        return metric


def distribution_from(data: Any, size: int, place: str) -> core.Distribution:
    """The output distribution that a survey file states, for so many positions."""
    try:
        entry = Entry(data, place)
        found = core.read_distribution(entry, SUPPORTED)
        if found.size != size:
            entry.reject(f"has {found.size:,} positions, the attribute has {size:,}")
    except InvalidManifestError as error:
        raise InvalidSpecError(str(error).replace("manifest", "survey file", 1)) from None
    return found


_KINDS = {
    **{name: name for name in ("randomized-response", "geometric", "threshold", "unary", "matrix")},
    **dict.fromkeys(("threshold-paper", "threshold-dummy"), "threshold"),
    **dict.fromkeys(("extremal", "tight-constraints"), "extremal"),
    **{name: name for name in ("additive", "memoised")},
}
"""The distributions that built-in mechanisms have."""


def check_kind(mechanism: str, stored: core.Distribution, sizes: tuple[int, ...]) -> None:
    """Reject a distribution that a mechanism for values of these sizes does not have."""
    if (kind := _KINDS.get(mechanism, stored.kind)) != stored.kind:
        raise InvalidSpecError(
            f"mechanism {mechanism!r} has a distribution {kind!r}, not {stored.kind!r}"
        )
    bits = isinstance(stored, core.Threshold) and _threshold(stored).mechanism
    if bits and mechanism in _KINDS and bits != mechanism:
        raise InvalidSpecError(
            f"mechanism {mechanism!r} does not have {stored.bits:,} bits for {stored.size:,} values"
        )
    if isinstance(stored, Additive) and stored.sizes != sizes:
        raise InvalidSpecError(
            f"the distribution has sizes {list(stored.sizes)}, needs {list(sizes)}"
        )


def check_stated(said: Any, mechanism: Mechanism) -> None:
    """Reject settings in a survey file that the distribution beside them determines."""
    for key in said if isinstance(said, Mapping) else ():
        if key in mechanism.in_distribution:
            raise InvalidSpecError(
                f"{key!r} of mechanism {mechanism.name!r} follows from the distribution; "
                "leave it out"
            )


def channel_of(stored: core.Distribution, prior: Prior = None) -> Channel:
    """The channel with this output distribution; a prior is for its estimator."""
    match stored:
        case core.RandomizedResponse():
            return Response(stored.size, stored.keep)
        case core.Threshold():
            return _threshold(stored)
        case core.Geometric():
            return _geometric(stored)
        case core.LazyGeometric():
            return Lazy(_geometric(stored.geometric), stored.keep, stored.end)
        case core.Unary():
            return UnaryChannel(stored.size, stored.own, stored.other)
        case core.Matrix():
            rows = stored.rows
            entries = np.array([row.entries for row in rows], dtype=np.int64)
            lows = np.array([row.low for row in rows], dtype=np.int64)
            noises = tuple(_geometric(row.noise) for row in rows)
            return MatrixChannel(stored.size, entries, lows, noises)
        case Extremal():
            return Mixture(stored.weights, stored.depths, stored.tops, stored.fall, prior=prior)
        case core.Table():
            return Table(stored.weights, prior=prior)
        case core.Memoised():
            first, second = channel_of(stored.first), channel_of(stored.second)
            return Memoised(cast(IntegerChannel, first), cast(IntegerChannel, second))
        case Additive():
            _check_levels(stored)
            parts = stored.depths, stored.tops, stored.fall
            if len(stored.sizes) == 1:
                return Shaped(stored.size, *parts, prior)
            return Wound(stored.size, *parts, prior, sizes=stored.sizes, lengths=stored.lengths)
    raise InvalidSpecError(f"distribution {stored.kind!r} is not supported here")


def _threshold(stored: core.Threshold) -> Threshold:
    if len(set(stored.flips)) > 1:
        raise InvalidSpecError("threshold bits with different probabilities have no estimator yet")
    more = stored.bits - stored.size + 1
    return (Threshold, ThresholdPaper, ThresholdDummy)[more](stored.size, stored.flips[0])


def _check_levels(stored: Additive) -> None:
    """Reject levels of which a sampler for many respondents rejects more than half of all words."""
    pairs = zip(stored.depths, stored.levels, strict=True)
    if min(sum(known[depth] for depth in pattern) for pattern, known in pairs) <= WORD >> 1:
        raise InvalidSpecError("the levels of a pattern add up to less than half of 2^64")


@lru_cache(maxsize=1 << 10)
def _geometric(stored: core.Geometric) -> Geometric:
    """Geometric noise; estimators rely on all of its integers being those of one epsilon."""
    noise = GeometricNoise(stored.zero, stored.digits, stored.block)
    epsilon = noise.epsilon
    digits = (1 / (1 + math.exp(epsilon * (1 << j))) for j in range(len(noise.digits)))
    pairs = zip((noise.zero, *noise.digits), (math.tanh(epsilon / 2), *digits), strict=True)
    if any(abs(number / WORD - p) > _UNITS + p * _ROUNDING for number, p in pairs):
        raise InvalidSpecError("noise whose probabilities are not geometric has no estimator")
    return Geometric(stored.size, epsilon, noise)
