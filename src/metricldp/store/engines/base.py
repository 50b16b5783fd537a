"""What an engine is asked: to group, to count ones, and to pass over batches. No more than that.

Whatever comes back is integers, and who asked checks them: every value against the survey, and
every total against the number of reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from metricldp.store.bits import Product

if TYPE_CHECKING:
    import pyarrow as pa

Sums = npt.NDArray[np.int64]
Fold = Callable[[Iterable[Any]], Sums]
"""Tables of reports in, integers out: those of several parts are added. It can be pickled."""
REPORTS, WEIGHT, SQUARES = "=reports", "=weight", "=squares"
"""Columns of what was grouped: how many reports, the sum of their weights, and of the squares."""
BATCH = 1 << 18
"""Reports of a batch that an engine hands over."""


class Ones(NamedTuple):
    """Ones to be counted in words: of the AND of some XORs of two, and the XOR of some others."""

    masks: tuple[tuple[str, str], ...]
    flips: tuple[str, ...]


class Engine(Protocol):
    """One table of reports, or of words of 64 bits, and an engine that reads it."""

    name: str

    def columns(self) -> list[str]:
        """The names of the columns."""

    def count(self) -> int:
        """How many rows there are."""

    def grouped(self, columns: Sequence[str], weight: str | None = None) -> pa.Table:
        """Every combination of values that occurs, once, and how many rows have it.

        With a weight, its sum over those rows as well, and that of its squares.
        """

    def ones(self, asked: Sequence[Ones]) -> list[int]:
        """How many ones there are, in columns of 64-bit integers."""

    def folded(self, columns: Sequence[str], fold: Fold, size: int) -> Sums:
        """The sum of what a function makes of each part of the rows: `size` integers."""

    def outside(self, column: str, low: float, high: float) -> int:
        """How many rows have a number that is not between the two, or none."""

    def largest(self, column: str, count: int) -> list[float]:
        """The largest few values of a column, in any order."""


def digit_counts(
    n: int, terms: Sequence[Product], column: Callable[[str, int], str], engine: Engine
) -> list[int]:
    """The sum of each product of digits over n reports, from columns of words.

    Of a digit of two bits the sign is that of the first; where both are the same it is 0. A bit
    that is 0 is the sign -1, so an odd number of digits turns the sign of the product. Words are
    filled up with zeros, which no mask lets through; without a mask, n says how many count.
    """
    wanted: dict[Ones, int] = {}
    asked = [_ones(digits, column) for digits in terms]
    for both in asked:
        for ones in both:
            if ones.masks or ones.flips:
                wanted.setdefault(ones, 0)
    found: Mapping[Ones, int] = {}
    if wanted:
        found = dict(zip(wanted, engine.ones(list(wanted)), strict=True))
    counts = []
    for digits, (seen, plus) in zip(terms, asked, strict=True):
        total = found[seen] if seen.masks else n
        positive = found[plus] if plus.flips else 0
        counts.append(2 * positive - total if len(digits) % 2 else total - 2 * positive)
    return counts


def _ones(digits: Product, column: Callable[[str, int], str]) -> tuple[Ones, Ones]:
    """Where a product is not 0, and where in addition an odd number of first bits is 1."""
    masks = tuple(
        (column(d.name, d.first), column(d.name, d.second)) for d in digits if d.second is not None
    )
    flips = tuple(column(d.name, d.first) for d in digits)
    return Ones(masks, ()), Ones(masks, flips)
