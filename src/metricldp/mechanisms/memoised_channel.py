"""Two blurs, one behind the other: the first is kept for ever, the second is drawn for each report.

y1 ~ G1(x) is drawn once for every value that a person has had, and remembered on the device;
y2 ~ G2(y1) is drawn anew for every report and sent. However many reports of one value there are,
they are made of y1 alone, so all of them together tell no more than G1 does: the lifetime's
promise. One report by itself tells less, because it was blurred twice.

As a channel it is what one report goes through, G1 G2. The decoder is that of both, F = G2^-1
G1^-1 f.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from metricldp.mechanisms.channel import Channel, Floats, Integers
from metricldp.mechanisms.features import IntegerChannel
from metricldp.mechanisms.fields import Column
from metricldp.mechanisms.geometric import Geometric
from metricldp.mechanisms.randomized_response import Response
from metricldp.mechanisms.randomness import Randomness
from metricldp_core import distributions as core
from metricldp_core.distributions import Invariance

_LISTED = 64
"""Up to so many positions and reports the law of one report is summed up exactly for a proof."""
_ABOVE = Fraction(1, 1 << 30)
"""What is added to a ratio of floats."""
_SLACK = 1e-9
"""Logarithms in floats are nearer than this; whole numbers decide among those."""


@dataclass(frozen=True)
class Memoised(IntegerChannel):
    """One integer: what the second channel makes of what the first one made."""

    first: IntegerChannel
    second: IntegerChannel
    """On the reports of the first, which are its positions."""

    mechanism: ClassVar[str] = "memoised"

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.first.size

    @property
    def outputs(self) -> int:
        return self.second.outputs

    @property
    def lifetime(self) -> Channel:
        return self.first

    def encode(self, positions: Integers, randomness: Randomness) -> Column:
        once = self.first.encode(positions, randomness)
        return self.second.encode(once.astype(np.int64), randomness)

    @cached_property
    def distribution(self) -> core.Memoised:
        first, second = self.first.distribution, self.second.distribution
        assert isinstance(first, core.OneInteger)
        assert isinstance(second, core.OneInteger)
        return core.Memoised(first, second)

    def coefficients(self, functions: Floats) -> Floats:
        return self.second.coefficients(self.first.coefficients(functions))

    def cells(self, totals: Floats) -> Floats:
        return self.first.cells(self.second.cells(totals))

    def mean(self, values: Floats) -> Floats:
        return self.first.mean(self.second.mean(values))

    def spread(self, shares: Floats) -> Floats:
        return self.second.spread(self.first.spread(shares))

    # One report ----------------------------------------------------------------------------------

    def probability(self, x: int, report: Column) -> Fraction:
        """The sum over all y1 of both probabilities."""
        y = int(report)
        if isinstance(self.second, Response):
            kept, moved = (self.second.probability(z, report) for z in (y, (y + 1) % self.outputs))
            return moved + (kept - moved) * self.first.probability(x, report)
        if self._few:
            whole, rows = self._table
            return Fraction(rows[x][y], whole)
        chances = (
            self.first.probability(x, y1) * self.second.probability(int(y1), report)
            for y1 in self.first.every_report()
        )
        return sum(chances, Fraction(0))

    @property
    def report_invariance(self) -> Invariance:
        """What the ratio of one report depends on."""
        parts = (self.first.distribution, self.second.distribution)
        return "all" if all(part.invariance == "all" for part in parts) else "none"

    @property
    def _few(self) -> bool:
        return max(self.size, self.outputs) <= _LISTED

    @cached_property
    def _table(self) -> tuple[int, list[list[int]]]:
        """P(report | x) as whole numbers over one denominator, summed over all y1."""
        (one, first), (two, second) = _rows(self.first), _rows(self.second)
        columns = list(zip(*second, strict=True))
        rows = [[sum(map(operator.mul, row, column)) for column in columns] for row in first]
        return one * two, rows

    def report_ratio(self, x: int, other: int) -> Fraction:
        """Of one report, exactly; of noise on many positions a bound just above it.

        There floats add up numbers above zero only, so that none is off by more than a few units
        of its last digit for each position.
        """
        if x == other:
            return Fraction(1)
        if self.report_invariance == "all":
            here = np.asarray(x)
            return self.probability(x, here) / self.probability(other, here)
        if self._few:
            pairs = zip(self._table[1][x], self._table[1][other], strict=True)
            return max(Fraction(max(pair), min(pair)) for pair in pairs)
        apart = np.abs(self._logs[:, x] - self._logs[:, other])
        if isinstance(self.first, Geometric):
            return Fraction(math.exp(float(apart.max()))) * (1 + _ABOVE)
        found = np.flatnonzero(apart >= apart.max() - _SLACK)
        both = (
            (self.probability(x, y), self.probability(other, y)) for y in map(np.asarray, found)
        )
        return max(max(pair) / min(pair) for pair in both)

    @cached_property
    def _logs(self) -> Floats:
        return np.asarray(np.log(self.chances))


def _rows(channel: IntegerChannel) -> tuple[int, list[list[int]]]:
    """All probabilities over their common denominator."""
    reports = channel.every_report()
    rows = [[channel.probability(x, y) for y in reports] for x in range(channel.size)]
    whole = math.lcm(*(chance.denominator for row in rows for chance in row))
    return whole, [[int(chance * whole) for chance in row] for row in rows]
