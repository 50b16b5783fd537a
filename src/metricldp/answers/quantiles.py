"""Distribution functions and quantiles of a group: section 4.4 of the paper, corrected.

Everything rests on one family of counts, #(x <= k) for every position k of the group, and their
covariances with the size of the group, about the respondents or about a population.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np

from metricldp.answers.answer import (
    AUTO,
    NORMAL,
    Answer,
    normal_reach,
    percent,
    together,
)
from metricldp.answers.answer_table import Answers
from metricldp.answers.liars import checked_liars, moved_mean
from metricldp.answers.ratio import Ratio
from metricldp.answers.searches import (
    BINARY_SEARCH,
    ISOTONIC,
    TIE,
    binary_search,
    checked_all,
    monotone,
    searched,
)
from metricldp.attributes.base import Attribute
from metricldp.basics.checks import flag
from metricldp.basics.errors import QueryError
from metricldp.basics.text import plain
from metricldp.channels import Floats

Value = int | float | str


class Cdf(Answers):
    """The estimated share of a group at or below every position that it can be at.

    The answers themselves (`points`) are the estimates as they come, unbiased and not monotone,
    each with its own interval; `values` are the best monotone fit to them. For a continuous
    attribute `ends` are the upper edges of its bins, and a share is of those below the edge: who is
    at it is in the next bin.
    """

    simultaneous: ClassVar[bool] = True

    def __init__(
        self,
        attribute: str,
        described: Attribute,
        positions: Sequence[int],
        points: Sequence[Ratio],
        question: str = "",
        notes: tuple[str, ...] = (),
    ) -> None:
        self.described, self.positions = described, tuple(positions)
        self.ends = tuple(described.values_at(position)[1] for position in positions)
        """The value up to which each share counts."""
        super().__init__(attribute, [plain(end) for end in self.ends], points)
        self.points, self.question, self.notes = tuple(points), question, notes
        self.bracketed: Callable[[int, float, Answer], Answer] = lambda _, __, answer: answer
        """The excess at a position over a share, with its bracket, where there is one."""

    @cached_property
    def values(self) -> Floats:
        """The points, made monotone by isotonic regression and clipped to [0, 1]; the last is 1.

        Of a group that is estimated at nobody, all positions alike.
        """
        inner = self.points[:-1]
        if inner and inner[0].denominator <= 0:
            return np.arange(1, len(self) + 1) / len(self)
        fit = monotone(
            np.array([point.value for point in inner]), np.array([p.variance for p in inner])
        )
        return np.append(np.clip(fit, 0.0, 1.0), 1.0)

    def interval(
        self,
        level: float = 0.95,
        *,
        simultaneous: bool = False,
        method: str = AUTO,
        anytime: bool = False,
    ) -> tuple[Floats, Floats]:
        """The ends of each point's own interval, or of a band for all of them together.

        A simultaneous band holds the whole true distribution function at that level: the Fieller
        interval of each inner prefix at the level at which all of them hold together. The truth is
        monotone, so a lower end holds for all positions above it and an upper end for all below;
        that costs no coverage. The ends always hold `values`.
        """
        normal_reach(level)
        each = together(level, len(self) - 1) if flag("simultaneous", simultaneous) else level
        by = self._method(method)
        found = [point.interval(each, by, anytime=anytime) for point in self.points[:-1]]
        ends = np.array(found).reshape(-1, 2)
        if not simultaneous:
            low, high = np.vstack([ends, self.points[-1].interval(level, NORMAL)]).T
            return low, high
        ends = np.vstack([ends, [1.0, 1.0]])
        low = np.maximum.accumulate(np.clip(ends[:, 0], 0.0, 1.0))
        high = np.minimum.accumulate(np.clip(ends[::-1, 1], 0.0, 1.0))[::-1]
        return np.minimum(low, self.values), np.maximum(high, self.values)

    def moved_by(self, liars: int) -> tuple[Floats, Floats]:
        """Between what `values` would lie if so many devices had not lied.

        Whatever its weights, a monotone fit lies nowhere above all points up to it, and nowhere
        below all points from it on.
        """
        ends = [self._point_moved(k, liars) for k in range(len(self) - 1)]
        low, high = np.clip(np.array([*ends, (1.0, 1.0)]).reshape(-1, 2).T, 0.0, 1.0)
        return np.minimum.accumulate(low[::-1])[::-1], np.maximum.accumulate(high)

    def _point_moved(self, k: int, liars: int) -> tuple[float, float]:
        point, position = self.points[k], self.positions[k]
        if point.lie is not None:
            return point.moved_by(liars)

        def lies(share: float) -> tuple[float, float]:
            found = self.bracketed(position, share, Answer(0.0, 0.0)).lie
            return found() if found else (-math.inf, math.inf)

        below, less_all = lies(0.0), lies(1.0)  # the size is those up to it, and those above
        size = (below[0] - less_all[1], below[1] - less_all[0])
        sums = (point.value * point.denominator, point.denominator)
        return moved_mean(sums, checked_liars(liars), lies, size, (0.0, 1.0))

    def quantile(self, p: float, method: str = ISOTONIC) -> Quantile:
        """The value x with share(x - 1) < p <= share(x), by one of the two methods."""
        (p,) = checked_all([p], method)
        if method == BINARY_SEARCH:
            at = binary_search(np.array([point.value for point in self.points]), p)
        else:
            at = int(np.argmax(self.values >= p - TIE))
        low, high = self.described.values_at(self.positions[at])
        value, notes = high, self.notes
        if low != high:  # a bin
            where, how = 0.5, "taken at the middle of"
            if method == ISOTONIC:
                before = self.values[at - 1] if at else 0.0
                where = min(max((p - before) / (self.values[at] - before), 0.0), 1.0)
                how = "interpolated evenly inside"
            value = float(low) + where * (float(high) - float(low))
            notes = (*notes, f"{self.attribute} {how} its bin, {plain(low)} to {plain(high)}")
        return Quantile(value, p, self.positions[at], self, method, notes)

    def excess(self, p: float) -> list[Answer]:
        """D(k) = #(x <= k) - p #(all) for every inner prefix of the group.

        It is one sum over people, of (1[x <= k] - p), so it is unbiased.
        """
        found: list[Answer] = []
        for q in self.points[:-1]:
            size = q.denominator
            spread = q.numerator_variance - 2 * p * q.shared + p**2 * q.denominator_variance
            jump, hidden = q.jump * size, q.hidden * size**2
            excess = (q.value - p) * size
            above, below = map(math.sqrt, q.ones)
            plain = Answer(
                excess,
                max(spread, 0.0),
                about=q.about,
                jump=jump,
                hidden=hidden,
                reports=q.reports,
                one=(above + p * below) ** 2,
            )
            found.append(self.bracketed(self.positions[len(found)], p, plain))
        return found

    def _marks(self) -> list[Any]:
        return list(self.ends)

    def shared_notes(self) -> list[str]:
        return list(self.notes)

    def to_dict(self, level: float = 0.95, *, simultaneous: bool | None = None) -> dict[str, Any]:
        found = super().to_dict(level, simultaneous=simultaneous)
        return {"question": self.question, **found}

    def __repr__(self) -> str:
        return f"<Cdf of {self.question}>"

    def text(self, level: float = 0.95, *, simultaneous: bool | None = None) -> str:
        wide, every = max(map(len, self.labels)), self._all(simultaneous)
        rows = zip(self.labels, self.values, *self.interval(level, simultaneous=every), strict=True)
        which = percent(level) + (" for all" if every else "")
        return "\n".join(
            f"{name:>{wide}}  {value:.4f} ({which}: {low:.4f} to {high:.4f})"
            for name, value, low, high in rows
        )


@dataclass(frozen=True, repr=False)
class Quantile:
    """An estimated quantile in the units of its attribute."""

    value: Value
    probability: float
    position: int
    """The position of the value in the attribute's domain."""
    cdf: Cdf
    method: str = ISOTONIC
    notes: tuple[str, ...] = ()

    def __sub__(self, other: object) -> NoReturn:
        raise QueryError(
            "quantiles have no standard error, so none is subtracted from another; compare their "
            "intervals, or subtract means or shares of people up to a value: tally.mean(...)"
        )

    __rsub__ = __add__ = __radd__ = __truediv__ = __rtruediv__ = __sub__

    def interval(
        self, level: float = 0.95, method: str = AUTO, *, anytime: bool = False
    ) -> tuple[Value, Value]:
        """All values that two one-sided tests do not contradict, from the first to the last.

        The true quantile x has D(x) >= 0 and D(x-1) < 0 (see `Cdf.excess`). A value stays if
        the interval of D(x) reaches zero from below and that of D(x-1) from above. Coverage needs
        the two tests at the true x only: each fails with probability (1 - level) / 2 at most, so x
        stays at least as often as the level says, and there is nothing to correct for the many
        values tried. At the first position the second test is known to hold, at the last the first.

        Of a continuous attribute the ends are the lower edge of the first and the upper edge of
        the last bin. At any time, each test has its share of the level: while one watches, the
        quantile of those who reported moves from value to value.
        """
        normal_reach(level)
        tests = self.cdf.excess(self.probability)
        flag("anytime", anytime)
        by = tests[len(tests) // 2].method(level, method) if tests and not anytime else NORMAL
        tie = TIE * abs(self.cdf.points[0].denominator)
        if by == NORMAL:
            each = together(level, len(tests)) if anytime else level
            ends = [test.interval(each, NORMAL, anytime=anytime) for test in tests]
            enough = [k for k, (_, high) in enumerate(ends) if high >= -tie]
            before = [k for k, (low, _) in enumerate(ends) if low < -tie]
            first, last = min(enough, default=len(tests)), max(before, default=-1) + 1
        else:
            first, last = searched(tests, level, by, tie)
        positions, described = self.cdf.positions, self.cdf.described
        return (
            described.values_at(positions[first])[0],
            described.values_at(positions[last])[1],
        )

    def moved_by(self, liars: int) -> tuple[Value, Value]:
        """Between what the value would lie if so many devices had not lied, by either method.

        It is at least the first value at which enough people can be, and at most the one behind the
        last at which they may not be.
        """
        ends = [test.moved_by(liars) for test in self.cdf.excess(self.probability)]
        tie = TIE * abs(self.cdf.points[0].denominator)
        enough = [k for k, (_, high) in enumerate(ends) if high >= -tie]
        before = [k for k, (low, _) in enumerate(ends) if low < -tie]
        first, last = min(enough, default=len(ends)), max(before, default=-1) + 1
        positions, values_at = self.cdf.positions, self.cdf.described.values_at
        return values_at(positions[first])[0], values_at(positions[last])[1]

    @property
    def attribute(self) -> str:
        return self.cdf.attribute

    @property
    def question(self) -> str:
        return f"{self.probability:g}-quantile of {self.cdf.question}"

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        low, high = self.interval(level)
        return {
            "question": self.question,
            "attribute": self.attribute,
            "probability": self.probability,
            "value": self.value,
            "level": level,
            "low": low,
            "high": high,
            "method": self.method,
            "about": self.cdf.points[0].about,
            "notes": list(self.notes),
        }

    def shown(self) -> str:
        """The value in as many digits as its bin leaves meaning to."""
        low, high = self.cdf.described.values_at(self.position)
        if low != high:
            width = float(high) - float(low)
            return plain(round(float(self.value), 1 - math.floor(math.log10(width) + 1e-9)))
        return plain(self.value)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Quantile: {self.attribute} {self.probability:g}-quantile {self.shown()}>"

    def __float__(self) -> float:
        return float(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)

    def text(self, level: float = 0.95) -> str:
        """The quantile and its interval at that level, in one line."""
        low, high = self.interval(level)
        text = f"{self.attribute} {self.probability:g}-quantile {self.shown()}"
        return "; ".join([f"{text} ({percent(level)}: {plain(low)} to {plain(high)})", *self.notes])
