"""Threshold bits to the letter of the paper: the noisy constant last bit, and the dummy value.

Kept because they are what the paper describes and measures. For real use `threshold` has the same
guarantee, fewer bits and never a larger error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from metricldp.mechanisms.channel import Channel, Floats
from metricldp.mechanisms.threshold import Threshold


@dataclass(frozen=True)
class ThresholdPaper(Threshold):
    """Section 4.1: `size` bits; the last is +1 for everybody and flipped like the others."""

    mechanism: ClassVar[str] = "threshold-paper"
    constant: ClassVar[bool] = False
    free_when_whole: ClassVar[bool] = False
    """The paper decodes an attribute left whole by its noisy last bit, and pays kappa^2."""

    @property
    def bits(self) -> int:
        return self.size

    def cut(self, first: int, end: int) -> None:
        """Equation 7 reads the noisy last bit as well."""

    def coefficients(self, functions: Floats) -> Floats:
        """Equation 7: the rows of the inverse of B, (1/2)(s_0 + s_last) and (1/2)(s_k - s_k-1)."""
        steps = functions[..., :-1] - functions[..., 1:]
        ends = functions[..., :1] + functions[..., -1:]
        return self.kappa / 2 * np.concatenate([steps, ends], axis=-1)

    def moment(self, functions: Floats, others: Floats | None = None) -> Floats:
        others = functions if others is None else others
        ends = (functions[..., :1] + functions[..., -1:]) * (others[..., :1] + others[..., -1:])
        return super().moment(functions, others) + self.noise / 4 * ends

    def mean_range_variance(self) -> float:
        """Threshold has a closed form, for a last bit that is known."""
        return Channel.mean_range_variance(self)

    def cells(self, totals: Floats) -> Floats:
        """The inverse of B along one axis: bit k less the one before, in row 0 plus the last."""
        result = np.array(totals, dtype=np.float64)
        result[0] += totals[-1]
        result[1:] -= totals[:-1]
        return self.kappa / 2 * result


@dataclass(frozen=True)
class ThresholdDummy(ThresholdPaper):
    """The end of section 4.2: `threshold-paper` for one value more, at which every function is 0.

    Nobody holds that value, and every range is cut in the extended domain. An attribute left whole
    then costs a factor (kappa^2 - 1)/2 + 1 instead of kappa^2; in `threshold` it is free.
    """

    mechanism: ClassVar[str] = "threshold-dummy"

    @property
    def bits(self) -> int:
        return self.size + 1

    def coefficients(self, functions: Floats) -> Floats:
        return super().coefficients(_extended(functions))

    def moment(self, functions: Floats, others: Floats | None = None) -> Floats:
        extended = None if others is None else _extended(others)
        return super().moment(_extended(functions), extended)[..., :-1]

    def cells(self, totals: Floats) -> Floats:
        """Equation 7 over the extended domain; the estimate for the dummy value is dropped."""
        return super().cells(totals)[:-1]


def _extended(functions: Floats) -> Floats:
    nothing = np.zeros((*functions.shape[:-1], 1))
    return np.concatenate([functions, nothing], axis=-1)
