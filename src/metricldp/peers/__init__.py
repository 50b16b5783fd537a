"""The systems that this one is compared with: plain local differential privacy, as channels.

Each keeps one epsilon between any two values, whatever their distance; those of `ON_A_LINE` keep
epsilon per step. Mechanisms that blur several attributes together are no channels: they stand on
the survey and come late, so they are opened from here when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from metricldp.channels import Channel
from metricldp.peers.prefix import Prefix

if TYPE_CHECKING:
    from metricldp.peers.hio import Hio
    from metricldp.peers.planar import PlanarLaplace

__all__ = ["ON_A_LINE", "PEERS", "Hio", "PlanarLaplace", "build"]

Builder = Callable[[int, Fraction], Channel]

PEERS: dict[str, Builder] = {}
"""By the name of the mechanism."""
ON_A_LINE: dict[str, Builder] = {Prefix.mechanism: Prefix.for_epsilon}
"""Those that keep the metric of a line."""


def build(mechanism: str, size: int, epsilon: Fraction) -> Channel:
    """The channel of that name for `size` positions, with one epsilon between any two."""
    return PEERS[mechanism](size, epsilon)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a door
    if name == "Hio":
        from metricldp.peers.hio import Hio  # noqa: PLC0415 - a door

        return Hio
    if name == "PlanarLaplace":
        from metricldp.peers.planar import PlanarLaplace  # noqa: PLC0415 - a door

        return PlanarLaplace
    raise AttributeError(f"metricldp.peers has no {name!r}")
