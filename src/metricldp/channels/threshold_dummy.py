"""Threshold bits with the paper's dummy value: the end of the accuracy analysis in section 4.2.

The domain of m values is extended by one that nobody holds, so m + 1 bits are sent and every range
of the m values is cut in the extended domain. An attribute left whole then costs a factor
(kappa^2 - 1)/2 + 1 instead of kappa^2. Kept because the paper proposes it; in `threshold` such an
attribute is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from metricldp.channels.base import Floats
from metricldp.channels.threshold_paper import ThresholdPaper


@dataclass(frozen=True)
class ThresholdDummy(ThresholdPaper):
    """`size + 1` bits: `threshold-paper` for one value more, at which every function is 0."""

    mechanism: ClassVar[str] = "threshold-dummy"

    @property
    def bits(self) -> int:
        """One bit for each position and one for the dummy value; the last two are constant."""
        return self.size + 1

    def coefficients(self, functions: Floats) -> Floats:
        """The paper's decoder of the extended function."""
        return super().coefficients(_extended(functions))

    def moment(self, functions: Floats, others: Floats) -> Floats:
        """The paper's moment of the extended functions, where there are people."""
        return super().moment(_extended(functions), _extended(others))[..., :-1]

    def cells(self, totals: Floats) -> Floats:
        """Equation 7 over the extended domain; the estimate for the dummy value is dropped."""
        return super().cells(totals)[:-1]


def _extended(functions: Floats) -> Floats:
    nothing = np.zeros((*functions.shape[:-1], 1))
    return np.concatenate([functions, nothing], axis=-1)
