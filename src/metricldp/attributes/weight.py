"""Weights: a number that multiplies each respondent's count, public or private.

Section 4.3.2 of the paper. A public weight is part of the report as it is. A private one is rounded
stochastically, without bias, to an end of its interval, and that end is randomized: the report has
one bit of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.attributes.base import Positions
from metricldp.attributes.ordered import Interval
from metricldp.attributes.selection import Chosen
from metricldp.basics.errors import InvalidSpecError, QueryError
from metricldp.basics.text import plain, shown
from metricldp.metrics import Metric, Uniform
from metricldp_core.random_words import FRACTION_BITS
from metricldp_core.values import Domain, Points, PublicWeight


@dataclass(frozen=True, repr=False)
class Weight(Interval):
    """A number that multiplies the count of a respondent, such as a sampling weight.

    Parameters:
        low, high: The smallest and the largest weight.
        private: Whether the weight is randomized too; a public weight is sent as it is.
        epsilon: The privacy loss between any two private weights.
        optional: As for Integer.
    """

    private: bool = field(default=False, kw_only=True)
    epsilon: float = field(default=math.inf, kw_only=True)

    kind: ClassVar[str] = "weight"
    is_weight: ClassVar[bool] = True
    rounded_at_random: ClassVar[bool] = True
    only_mechanism: ClassVar[str | None] = "randomized-response"

    def __post_init__(self) -> None:
        if not isinstance(self.private, bool):
            raise InvalidSpecError(f"private is true or false, not {shown(self.private)}")
        no_epsilon = isinstance(self.epsilon, float) and self.epsilon == math.inf
        if self.private and no_epsilon:
            raise InvalidSpecError("a private weight needs an epsilon, such as epsilon=1")
        plain_mechanism = isinstance(self.mechanism, str) and self.mechanism == "auto"
        if not self.private and not (no_epsilon and plain_mechanism):
            raise InvalidSpecError(
                "a public weight is sent without protection and has no epsilon and no mechanism; "
                "use private=True to randomize it"
            )
        super().__post_init__()
        if self.private:
            self._check_metric()

    @property
    def public_ends(self) -> tuple[float, float] | None:
        return None if self.private else (self.low, self.high)

    @property
    def size(self) -> int:
        return 2

    @property
    def usual(self) -> Metric:
        return Uniform(self.unit)

    @property
    def ends(self) -> npt.NDArray[np.float64]:
        """What the two positions stand for."""
        return np.array([self.low, self.high])

    def domain_of(self, name: str) -> Domain:
        ends: dict[str, Any] = {"low": self.low, "high": self.high}
        if self.is_public:
            return PublicWeight(name, **ends)
        return Points(name, self.optional is not None, weight=True, **ends)

    def _positions(self, reals: npt.NDArray[np.float64]) -> Positions:
        if self.is_public:
            return reals.view(np.int64)
        share = (reals - self.low) / (self.high - self.low)
        return np.rint(share * (1 << FRACTION_BITS)).astype(np.int64)

    def choose(self, words: object, name: str) -> Chosen:
        raise QueryError(f"{name} is a weight, not a condition; use its sum")

    def numbers(self, name: str) -> tuple[npt.NDArray[np.float64], str | None]:
        raise QueryError(f"{name} is a weight; use its sum")

    def describe(self) -> str:
        ends = f"{plain(self.low)} to {plain(self.high)}"
        return f"a private weight from {ends}, rounded at random to one of the two"

    def values_at(self, position: int) -> tuple[float, float]:
        end = float(self.ends[position])
        return end, end

    def name_of(self, position: int) -> str:
        return plain(self.ends[position])

    def to_dict(self) -> dict[str, Any]:
        data = super().to_dict()
        if not self.private:
            del data["epsilon"]
        return data
