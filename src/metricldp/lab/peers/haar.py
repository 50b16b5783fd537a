"""The Haar wavelet: on one level of a binary tree, which half of their node a person is in.

The values are padded to a power of two. At every node a function has one coefficient, half the
difference of its means in both halves, and with its mean over all values they are the function: for
a power of two values the decoder is unique. A person is at one node of each level, with a plus sign
in the left half and a minus sign in the right one, and they report this sign for one level.

This is HaarHRR of Cormode, Kulkarni and Srivastava (see `levels`), who bound the variance that one
person adds to a range by (log_2 m)^2 V / 2. Each end of a range cuts one node per level, and a cut
node has a coefficient of 1/2 at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from metricldp.lab.peers.levels import OneLevel
from metricldp.lab.peers.tree import Written
from metricldp.lab.peers.walsh import power_of_two
from metricldp.mechanisms import Floats


@dataclass(frozen=True)
class Haar(OneLevel):
    """The sign of a Haar coefficient of one level."""

    mechanism: ClassVar[str] = "haar"
    signed: ClassVar[bool] = True

    @cached_property
    def padded(self) -> int:
        return power_of_two(self.size)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """A node for each coefficient: 1, 2, 4 and so on."""
        return tuple(1 << level for level in range(self.padded.bit_length() - 1))

    @cached_property
    def widths(self) -> tuple[int, ...]:
        return tuple(self.padded // count // 2 for count in self.counts)

    def write(self, functions: Floats) -> Written:
        """The Haar transform; beyond its end a function goes on as it ends."""
        beyond = np.repeat(functions[..., -1:], self.padded - self.size, axis=-1)
        means = np.concatenate([functions, beyond], axis=-1)
        weights: list[Floats] = []
        for _ in self.counts:
            left, right = means[..., ::2], means[..., 1::2]
            weights.insert(0, (left - right) / 2)
            means = (left + right) / 2
        return Written(means, weights)

    def unwrite(self, people: Floats, nodes: list[Floats]) -> Floats:
        """Of each node half the people and half the signs; what is beyond is the last value."""
        found = people
        for signs in nodes:
            halves = np.stack([found + signs, found - signs], axis=-1) / 2
            found = halves.reshape(*halves.shape[:-2], -1)
        last = found[..., self.size - 1 :].sum(axis=-1, keepdims=True)
        return np.concatenate([found[..., : self.size - 1], last], axis=-1)
