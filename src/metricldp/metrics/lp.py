"""How the distances of several attributes are joined to one distance of two people."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import shown
from metricldp_core.exact import WORD, at_most_exp, decimal_of, exp_bounds, floor_of, log_bounds


@dataclass(frozen=True)
class Lp:
    """The norm over the distances of several attributes: E = (sum_d E_d^p)^(1/p), p >= 1.

    Mechanisms guarantee the sum of the distances. The sum of D numbers is at most D^(1 - 1/p) times
    their p-norm, so distances divided by that factor guarantee the p-norm.
    """

    p: float = 1.0

    def __post_init__(self) -> None:
        if not is_number(self.p) or math.isnan(self.p) or self.p < 1:
            raise InvalidSpecError(f"an Lp metric needs p of at least 1, not {shown(self.p)}")
        object.__setattr__(self, "p", float(self.p))

    def to_dict(self) -> dict[str, Any]:
        """Plain data; infinity, which JSON has no number for, as text."""
        return {"p": "inf" if self.p == math.inf else self.p}

    @classmethod
    def from_dict(cls, entry: object, name: str = "metric") -> Lp:
        if not isinstance(entry, Mapping) or set(entry) != {"p"}:
            meant = "p = a number of at least 1"
            raise InvalidSpecError(f"the entry {name} has {meant}, not {shown(entry)}")
        if entry["p"] == math.inf:
            raise InvalidSpecError('an infinite p is written as text: p = "inf"')
        return cls(math.inf if entry["p"] == "inf" else entry["p"])

    def share(self, attributes: int) -> Fraction:
        """What every attribute's distance is multiplied with: D^(1/p - 1), rounded down."""
        if self.p == 1 or attributes <= 1:
            return Fraction(1)
        if self.p == math.inf:
            return Fraction(1, attributes)
        power = 1 - 1 / decimal_of(self.p)
        lower, _ = exp_bounds(-power * log_bounds(Fraction(attributes))[1])
        return Fraction(floor_of(lower * WORD), WORD)

    def proves(self, share: Fraction, attributes: int) -> bool:
        """Whether distances times `share` give the guarantee of this norm, without rounding."""
        if self.p == 1 or attributes <= 1:
            return share <= 1
        if self.p == math.inf:
            return share * attributes <= 1
        power = 1 - 1 / decimal_of(self.p)
        return at_most_exp(share, -power * log_bounds(Fraction(attributes))[1])

    def join(self, distances: Sequence[float]) -> float:
        """The distance of two people whose attributes are so far apart."""
        if self.p == 1:
            return math.fsum(distances)
        widest = max(distances)
        if self.p == math.inf or widest == 0:
            return widest
        return float(widest * math.fsum((d / widest) ** self.p for d in distances) ** (1 / self.p))
