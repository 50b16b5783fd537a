"""The systems that this one is compared with: plain local differential privacy, as channels.

Each keeps one epsilon between any two values, whatever their distance; those of `ON_A_LINE` keep
epsilon per step. Mechanisms that blur several attributes together are no channels: they stand on
the survey and come late, so they are opened from here when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from metricldp.attributes.base import branching_of
from metricldp.channels import Channel
from metricldp.lab.peers.haar import Haar
from metricldp.lab.peers.hadamard import Hadamard
from metricldp.lab.peers.hashing import LocalHashing
from metricldp.lab.peers.hierarchy import Hierarchy, PlainHierarchy
from metricldp.lab.peers.hierarchy_unary import UnaryHierarchy
from metricldp.lab.peers.histogram import HistogramSum, HistogramThreshold
from metricldp.lab.peers.prefix import Prefix
from metricldp.lab.peers.unary import UnaryOptimised, UnarySymmetric

if TYPE_CHECKING:
    from metricldp.lab.peers.joint import HashedHio, Hio, PlanarLaplace


__all__ = [
    "ON_A_LINE",
    "PEERS",
    "Haar",
    "Hadamard",
    "HashedHio",
    "Hierarchy",
    "Hio",
    "HistogramSum",
    "HistogramThreshold",
    "LocalHashing",
    "PlainHierarchy",
    "PlanarLaplace",
    "Prefix",
    "UnaryHierarchy",
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
    "hierarchy-2-unary": partial(UnaryHierarchy.branched, 2),
    "haar": Haar.for_epsilon,
}
"""By the name of the mechanism; hierarchies of any other branching have names as well."""
HIERARCHIES: dict[str, Callable[[int, int, Fraction], Channel]] = {
    "": Hierarchy.branched,
    "plain": PlainHierarchy.branched,
    "unary": UnaryHierarchy.branched,
}
"""By what their names end in."""
ON_A_LINE: dict[str, Builder] = {Prefix.mechanism: Prefix.for_epsilon}
"""Those that keep the metric of a line."""


def build(mechanism: str, size: int, epsilon: Fraction) -> Channel:
    """The channel of that name for `size` positions: one epsilon between any two, or per step."""
    known = {**PEERS, **ON_A_LINE}
    if mechanism in known:
        return known[mechanism](size, epsilon)
    branching, kind = branching_of(mechanism)
    return HIERARCHIES[kind](branching, size, epsilon)


def __getattr__(name: str) -> Any:
    if name in ("Hio", "HashedHio", "PlanarLaplace"):
        from metricldp.lab.peers import joint

        return getattr(joint, name)
    raise AttributeError(f"metricldp.peers has no {name!r}")
