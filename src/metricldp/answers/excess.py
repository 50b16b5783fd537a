"""What values are above a number: where a shorter interval of a mean can come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

_HALVINGS = 9
"""How often the range of a mean is halved for an end of its interval."""


class Excess(NamedTuple):
    """The sum of what values are above a number, over the group whose mean is asked for.

    The mean is the number at which it is zero.
    """

    ask: Callable[[float], Any]
    """The answer for a number."""
    likely: float
    """The mean that is planned for."""
    low: float
    high: float
    factor: float = 1.0
    """What the mean was multiplied with."""

    def interval(self, level: float, method: str) -> tuple[float, float]:
        """All means that the interval of the sum above them does not contradict.

        It falls with the number, so both ends are found by halving; what is left is kept.
        """
        ends = []
        for side in (0, 1):
            # The other end of the range is possible if its sum may be zero or beyond.
            inside, outside = (self.high, self.low) if side == 0 else (self.low, self.high)
            sign = 1 if side == 0 else -1

            def possible(number: float, side: int = side, sign: int = sign) -> bool:
                return bool(sign * self.ask(number).interval(level, method)[side] <= 0)

            if possible(outside):
                ends.append(outside)
                continue
            for _ in range(_HALVINGS):
                middle = (inside + outside) / 2
                if possible(middle):
                    inside = middle
                else:
                    outside = middle
            ends.append(outside)
        low, high = sorted(end * self.factor for end in ends)
        return low, high
