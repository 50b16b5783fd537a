"""The systems that this one is compared with: plain local differential privacy, as channels.

Each keeps one epsilon between any two values, whatever their distance.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

from metricldp.attributes import branching_of
from metricldp.channels import Channel
from metricldp.peers.haar import Haar
from metricldp.peers.hadamard import Hadamard
from metricldp.peers.hashing import LocalHashing
from metricldp.peers.hierarchy import Hierarchy, PlainHierarchy
from metricldp.peers.histogram import HistogramSum, HistogramThreshold
from metricldp.peers.unary import UnaryOptimised, UnarySymmetric

__all__ = [
    "PEERS",
    "Haar",
    "Hadamard",
    "Hierarchy",
    "HistogramSum",
    "HistogramThreshold",
    "LocalHashing",
    "PlainHierarchy",
    "UnaryOptimised",
    "UnarySymmetric",
    "build",
]

Builder = Callable[[int, Fraction], Channel]

PEERS: dict[str, Builder] = {
    "unary-symmetric": UnarySymmetric.for_epsilon,
    "unary-optimised": UnaryOptimised.for_epsilon,
    "histogram-sum": HistogramSum.for_epsilon,
    "histogram-threshold": HistogramThreshold.for_epsilon,
    "local-hashing": LocalHashing.for_epsilon,
    "hadamard": Hadamard.for_epsilon,
    "hierarchy-2": partial(Hierarchy.branched, 2),
    "hierarchy-4": partial(Hierarchy.branched, 4),
    "haar": Haar.for_epsilon,
}
"""By the name of the mechanism; hierarchies of any other branching have names as well."""


def build(mechanism: str, size: int, epsilon: Fraction) -> Channel:
    """The channel of that name for `size` positions, with one epsilon between any two."""
    if mechanism in PEERS:
        return PEERS[mechanism](size, epsilon)
    branching, plain = branching_of(mechanism)
    return (PlainHierarchy if plain else Hierarchy).branched(branching, size, epsilon)
