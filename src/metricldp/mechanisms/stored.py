"""Channels from the integers of a survey file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from metricldp.basics.errors import InvalidSpecError
from metricldp.mechanisms.additive_channel import AdditiveChannel
from metricldp.mechanisms.base import Label, Mechanism
from metricldp.mechanisms.channel import Channel, IntegerChannel
from metricldp.mechanisms.geometric import Geometric, noise_epsilon
from metricldp.mechanisms.matrix_channel import MatrixChannel
from metricldp.mechanisms.memoised_channel import Lazy, Memoised
from metricldp.mechanisms.moments import Prior
from metricldp.mechanisms.randomized_response import Response
from metricldp.mechanisms.table import Table
from metricldp.mechanisms.threshold import Threshold, ThresholdDummy, ThresholdPaper
from metricldp.mechanisms.unary_channel import UnaryChannel
from metricldp.metrics import Metric
from metricldp_core import distributions as core
from metricldp_core.canonical import Entry
from metricldp_core.distributions import SUPPORTED
from metricldp_core.errors import InvalidManifestError
from metricldp_core.exact import WORD
from metricldp_core.levels import Additive

_UNITS, _ROUNDING = 2.0**-62, 1e-5
"""Integers of noise differ from probabilities by few units, and by at most this part of them."""


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
            return Response(stored)
        case core.Threshold():
            return _threshold(stored)
        case core.Geometric():
            _check_noise(stored)
            return Geometric(stored)
        case core.LazyGeometric():
            _check_noise(stored.geometric)
            return Lazy(stored)
        case core.Unary():
            return UnaryChannel(stored)
        case core.Matrix():
            for noise in {row.noise for row in stored.rows}:
                _check_noise(noise)
            return MatrixChannel(stored)
        case core.Table():
            return Table(stored, prior=prior)
        case core.Memoised():
            first, second = channel_of(stored.first), channel_of(stored.second)
            return Memoised(cast(IntegerChannel, first), cast(IntegerChannel, second))
        case Additive():
            _check_levels(stored)
            return AdditiveChannel(stored, prior=prior)
    raise InvalidSpecError(f"distribution {stored.kind!r} is not supported here")


def _threshold(stored: core.Threshold) -> Threshold:
    if not all(0 < 2 * flip < WORD for flip in set(stored.flips)):
        raise InvalidSpecError("threshold bits need probabilities between 0 and 1/2")
    versions = (Threshold, ThresholdPaper, ThresholdDummy)
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
