"""Mechanisms that the size and one epsilon determine: noise, bits and randomized response."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

from metricldp.mechanisms.base import ANY_TWO, EpsilonMechanism, Mechanism
from metricldp.mechanisms.geometric import Geometric
from metricldp.mechanisms.randomized_response import Response
from metricldp.mechanisms.threshold import Threshold, ThresholdDummy, ThresholdPaper
from metricldp_core.distributions import Distribution

_PAPER = "Xiang et al. 2020"


def made_by(channel: Any) -> Any:
    """The function from a size and an epsilon to the distribution of a channel."""
    return partial(_distribution, channel)


def _distribution(channel: Any, size: int, epsilon: Fraction) -> Distribution:
    made: Distribution = channel.for_epsilon(size, epsilon).distribution
    return made


def _on_line(
    name: str, kind: str, channel: Any, title: str, source: str, **more: Any
) -> EpsilonMechanism:
    make = made_by(channel)
    return EpsilonMechanism(
        name, make, title=title, source=source, kind=kind, needs_order=True, **more
    )


GEOMETRIC = _on_line(
    "geometric", "geometric", Geometric, "clipped geometric noise", Mechanism.source
)
THRESHOLD = _on_line(
    "threshold", "threshold", Threshold, "threshold bits", f"{_PAPER}, last bit left out"
)
THRESHOLD_PAPER = _on_line(
    "threshold-paper", "threshold", ThresholdPaper, "threshold bits, literal", _PAPER
)
THRESHOLD_DUMMY = _on_line(
    "threshold-dummy",
    "threshold",
    ThresholdDummy,
    "threshold bits, dummy value",
    _PAPER,
    max_computed=0,
)
RANDOMIZED_RESPONSE = EpsilonMechanism(
    "randomized-response",
    made_by(Response),
    ANY_TWO,
    title="randomized response",
    source="Kairouz et al. 2014",
    kind="randomized-response",
)
