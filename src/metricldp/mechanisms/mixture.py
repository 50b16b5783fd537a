"""A mixture of shapes as a channel: a report for each shape, and one more for what is left.

P(y | x) is the level of shape y at its depth at x (see `levels.py`). What the levels leave
of a row is the last report's. It is about as likely from everywhere; whether it tells more than a
metric allows is checked like everything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from metricldp.basics.errors import InvalidSpecError
from metricldp.mechanisms.levels import Shape, fall_of
from metricldp.mechanisms.table import Table
from metricldp_core.exact import WORD
from metricldp_core.levels import Extremal, levels


@dataclass(frozen=True)
class Mixture(Table):
    """One integer: which shape, or their number for what is left of a row."""

    depths: tuple[Shape, ...]
    tops: tuple[int, ...]
    fall: int

    mechanism: ClassVar[str] = "shapes"

    @classmethod
    def made_of(
        cls,
        depths: tuple[Shape, ...],
        tops: tuple[int, ...],
        unit: Fraction,
        prior: tuple[float, ...] | None = None,
    ) -> Mixture:
        """Shapes with the level at depth 0 of each."""
        fall, columns = fall_of(unit), []
        for shape, top in zip(depths, tops, strict=True):
            found = levels(top, fall, max(shape))
            columns.append([found[depth] for depth in shape])
        rows = list(zip(*columns, strict=True))
        for x, row in enumerate(rows):
            if sum(row) >= WORD:
                raise InvalidSpecError(
                    f"the tops of the shapes add up to 2^64 or more at position {x}"
                )
        weights = tuple((*row, WORD - sum(row)) for row in rows)
        return cls(weights, depths, tops, fall, prior=prior)

    @cached_property
    def distribution(self) -> Extremal:
        return Extremal(self.weights, self.depths, self.tops, self.fall)
