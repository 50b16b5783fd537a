"""Whole numbers: every one from low to high is a position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.attributes import base, selection
from metricldp.attributes.base import Circle, Numbers, Positions
from metricldp.attributes.ordered import OnLine, check_ends, no_line
from metricldp.attributes.selection import Chosen
from metricldp.basics.errors import InvalidSpecError, QueryError
from metricldp.basics.numbers import is_number, is_whole
from metricldp.basics.text import plain, shown
from metricldp.metrics import Value
from metricldp_core.values import WholeNumbers


@dataclass(frozen=True, repr=False)
class Integer(base.Discrete, OnLine):
    """A whole number from low to high, both included: an age, a rating, a count.

    Parameters:
        low, high: The smallest and the largest value. Values from 0 to 1 may also be booleans.
        epsilon: The privacy loss between close values; `within`, `per` or `metric` states which
            values are close. Any report is at most e^epsilon times as likely for one of them as
            for the other.
        within: Any two values up to this far apart have at most epsilon. Each further such
            distance adds epsilon once more.
        per: Epsilon for this many units of distance; two values d apart have epsilon * d / per.
        metric: The distances of all values, in units of epsilon: Graph, Tree, SensitiveSet,
            Relative or DistanceMatrix.
        max_epsilon: The largest privacy loss between any two values, however far apart.
        cyclic: Whether the highest value is next to the lowest: hours, weekdays, directions.
        optional: Whether a respondent may leave the value out. That there is a response is
            protected by an epsilon of its own, which adds to the privacy loss: True for the
            attribute's epsilon, or a number.
        mechanism: "auto" for the mechanism with the smallest error; "additive", "extremal",
            "tight-constraints", "geometric", "threshold", "randomized-response", "unary", "matrix",
            "memoised" or the name of a plug-in; or a configuration such as Matrix(...).
        workload: The queries that the mechanism is designed for: "ranges", "prefixes", "values",
            "mean" or a Workload. By default ranges, or values of categories.
    """

    low: int = field(kw_only=False)
    high: int = field(kw_only=False)

    kind: ClassVar[str] = "integer"

    def __post_init__(self) -> None:
        super().__post_init__()
        for end in ("low", "high"):
            value = getattr(self, end)
            if not is_whole(value):
                raise InvalidSpecError(
                    f"{end} of an integer attribute must be whole, not {shown(value)}"
                )
            if abs(value) > base.LARGEST_END:
                raise InvalidSpecError(
                    f"{end} is {value}; use whole numbers up to {base.LARGEST_END:,}"
                )
            object.__setattr__(self, end, int(value))
        check_ends(self.low, self.high)
        self._check_stated(self.low, self.high)
        self._check_metric()

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    @property
    def values(self) -> Sequence[Value]:
        return range(self.low, self.high + 1)

    @property
    def step(self) -> Fraction:
        return Fraction(1)

    def domain_of(self, name: str) -> WholeNumbers:
        ends: dict[str, Any] = {"low": self.low, "high": self.high, "cyclic": self.is_cyclic}
        return WholeNumbers(name, self.optional is not None, **self._close, **ends)

    def positions(self, numbers: Numbers, name: str = "", *, clip: bool = False) -> Positions:
        cut = clip and not self.is_cyclic
        kept = np.clip(numbers, self.low, self.high) if cut else numbers
        real = numbers.dtype.kind == "f"
        if real or (
            len(kept) and not self.low <= kept.min().item() <= kept.max().item() <= self.high
        ):
            wrong = (kept < self.low) | (kept > self.high)
            if real:
                wrong |= ~np.isfinite(numbers) | (numbers != np.rint(numbers))
            self._refuse_first(wrong, numbers, name, clip)
        return kept.astype(np.int64) - self.low

    def choose(self, words: object, name: str) -> Chosen:
        """A number, a pair of ends, or a list of numbers."""
        if isinstance(words, tuple):
            low, high = selection.any_ends(words, name)
            over_the_end = selection.is_reversed(low, high)
            if over_the_end and not self.is_cyclic:
                raise selection.swapped(low, high, name, may_go_round=True)
            before, size = self.low, self.size
            first = 0 if low is None else math.ceil(min(max(low - before, 0), size))
            end = size if high is None else math.floor(min(max(high - before, -1), size - 1)) + 1
            if first >= end and not (over_the_end and (first < size or end > 0)):
                raise selection.empty(words, name, self._domain)
            note = selection.partly_outside(name, low, high, self.low, self.high)
            return Chosen.between(first, end, size, selection.range_words(low, high), note)
        grid = np.arange(self.low, self.high + 1)
        wanted = selection.members_of(words, name)
        if self._yes_or_no:
            wanted = [int(value) if isinstance(value, bool) else value for value in wanted]
        for value in wanted:
            if not is_number(value) or not self.low <= value <= self.high or value % 1 != 0:
                text = (
                    ", in numbers and not in text; a range is a pair"
                    if isinstance(value, str)
                    else ""
                )
                raise QueryError(f"{name} has no value {shown(value)}; it is {self._domain}{text}")
        return Chosen.of(np.isin(grid, wanted), ", ".join(str(value) for value in wanted))

    @property
    def _yes_or_no(self) -> bool:
        return (self.low, self.high) == (0, 1)

    @property
    def _domain(self) -> str:
        return f"from {self.low} to {self.high}"

    def beyond(self, end: float, *, above: bool) -> float:
        return math.floor(end) + 1 if above else math.ceil(end) - 1

    def numbers(self, name: str) -> tuple[npt.NDArray[np.float64], str | None]:
        if self.is_cyclic:
            raise no_line(name)
        return np.arange(self.low, self.high + 1, dtype=np.float64), None

    def circle(self, name: str) -> Circle:
        return Circle(self.low, self.size, 2 * np.pi * np.arange(self.size) / self.size)

    def values_at(self, position: int) -> tuple[int, int]:
        return self.low + position, self.low + position

    def describe(self) -> str:
        around = ", around a circle" if self.is_cyclic else ""
        return f"whole numbers from {plain(self.low)} to {plain(self.high)}{around}"

    def name_of(self, position: int) -> str:
        return str(self.low + position)
