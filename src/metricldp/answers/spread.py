"""The error of several sums together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """What is known of the error of some terms of one tally together."""

    variance: float
    bounds: tuple[float, float]
    jump: float
    hidden: float

    def plus(self, other: Spread) -> Spread:
        """Of two tallies, whose errors are independent."""
        return Spread(
            self.variance + other.variance,
            (self.bounds[0] + other.bounds[0], self.bounds[1] + other.bounds[1]),
            max(self.jump, other.jump),
            self.hidden + other.hidden,
        )


NOTHING = Spread(0.0, (0.0, 0.0), 0.0, 0.0)
