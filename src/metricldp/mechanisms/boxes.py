"""Questions about several attributes at once, and their mean variance over the cells of a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metricldp.mechanisms.matrix import checked_workload, workload_of
from metricldp.mechanisms.moments import Floats


@dataclass(frozen=True, eq=False)
class Boxes:
    """A question of each attribute, in all combinations: boxes of ranges, say."""

    gram: Floats
    """Over cells, those along the last attribute first."""
    rows: int

    @classmethod
    def of(cls, workload: str, sizes: Sequence[int], ordered: Sequence[bool] = ()) -> Boxes:
        """By the name of a workload; what has no order is asked value by value."""
        lines = ordered or [True] * len(sizes)
        named = [workload if line else "values" for line in lines]
        for name, size, line in zip(named, sizes, lines, strict=True):
            checked_workload(name, size, line)
        found = [workload_of(name, size) for name, size in zip(named, sizes, strict=True)]
        gram: Floats = np.ones((1, 1))
        for own in found:
            gram = np.asarray(np.kron(gram, own.gram()), dtype=np.float64)
        return cls(gram, math.prod(own.rows for own in found))

    @property
    def square(self) -> float:
        """The mean of f^2 over all questions and people spread evenly."""
        return float(np.trace(self.gram)) / len(self.gram) / self.rows

    def variance(self, total: float) -> float:
        """The mean variance of a question, from the sum of the mean squares of all decoders."""
        return total / self.rows - self.square
