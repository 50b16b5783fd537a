"""The systems that this one is compared with: plain local differential privacy, as channels.

Each keeps one epsilon between any two values, whatever their distance.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from metricldp.channels import Channel

__all__ = ["PEERS", "build"]

Builder = Callable[[int, Fraction], Channel]

PEERS: dict[str, Builder] = {}
"""By the name of the mechanism."""


def build(mechanism: str, size: int, epsilon: Fraction) -> Channel:
    """The channel of that name for `size` positions, with one epsilon between any two."""
    return PEERS[mechanism](size, epsilon)
