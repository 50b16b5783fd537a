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
from metricldp.peers.hierarchy import Hierarchy, PlainHierarchy

__all__ = ["PEERS", "Haar", "Hierarchy", "PlainHierarchy", "build"]

Builder = Callable[[int, Fraction], Channel]

PEERS: dict[str, Builder] = {
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
