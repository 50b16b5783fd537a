"""Distribution functions and quantiles of a group: section 4.4 of the paper, corrected.

Everything rests on one family of counts, #(x <= k) for every position k of the group, and their
covariances with the size of the group, about the respondents or about a population.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from metricldp.answers.answer import (
    AUTO,
    NORMAL,
    Estimate,
    Interval,
    normal_reach,
    together,
)
from metricldp.answers.liars import checked_liars, moved_mean
from metricldp.answers.queries import EVERYBODY
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
from metricldp.estimate.display import EMPTY, Display, interval_text, rounded, rounded_error
from metricldp.estimate.table import EstimateTable, Grouping
from metricldp.mechanisms import Floats

Value = int | float | str


class Cdf(EstimateTable):
    """The estimated distribution function of a group at every value that it can have.

    The rows (`points`) are unbiased estimates and not monotone, each with its own interval;
    `values` are the best monotone fit to them. For a continuous attribute `ends` are the upper
    edges of its bins, and a fraction is of those below the edge: a value at the edge is in the next
    bin. Prints, exports and intervals are the simultaneous band by default.
    """

    _simultaneous = True

    def __init__(
        self,
        attribute: str,
        described: Attribute,
        positions: Sequence[int],
        points: Sequence[Ratio],
        question: str = "",
        notes: tuple[str, ...] = (),
    ) -> None:
        self.attribute, self.described, self.positions = attribute, described, tuple(positions)
        self.ends = tuple(described.values_at(position)[1] for position in positions)
        """The value up to which each fraction counts."""
        levels = getattr(described, "levels", None)
        categories = None if levels is None else tuple(levels)
        grouping = Grouping(attribute, list(self.ends), [plain(e) for e in self.ends], categories)
        among = (question or attribute).removesuffix(f" among {EVERYBODY}")
        label = f"fraction of respondents up to each {among}"
        super().__init__([grouping], points, label=label)
        self.points, self.question, self.notes = tuple(points), question, notes
        self.bracketed: Callable[[int, float, Estimate], Estimate] = lambda _, __, answer: answer
        """The excess at a position over a fraction, with its envelope, where there is one."""

    def at(self, x: Any) -> Estimate:
        """The fraction at or below a value (for bins, below an edge), with its own interval."""
        if self.described.named or x in self.ends:
            return self[x]._reported()
        below = [k for k, end in enumerate(self.ends) if end <= x]
        if not below:
            raise QueryError(f"{plain(x)} is below the first value of {self.attribute}")
        if self.described.in_bins and x != self.ends[below[-1]]:
            raise QueryError(
                f"{plain(x)} is inside a bin of {self.attribute}; use an edge, such as "
                f"{plain(self.ends[below[-1]])}"
            )
        return self.points[below[-1]]._reported()

    @property
    def estimable(self) -> bool:
        """Whether the group is distinguishable from empty."""
        return self.points[0].clear or len(self.points) == 1

    @property
    def values(self) -> Floats:
        """The points, made monotone by isotonic regression; NaN if nothing can be estimated."""
        return self._monotone if self.estimable else np.full(len(self), math.nan)

    @property
    def stderr(self) -> Floats:
        """The standard errors of the points; NaN if nothing can be estimated."""
        return np.array([p.stderr if self.estimable else math.nan for p in self.points])

    @cached_property
    def _monotone(self) -> Floats:
        """The points, made monotone and clipped to [0, 1]; the last is 1.

        For a group that is estimated at zero it is uniform.
        """
        inner = self.points[:-1]
        if inner and inner[0].denominator <= 0:
            return np.arange(1, len(self) + 1) / len(self)
        fit = monotone(
            np.array([point.value for point in inner]), np.array([p.variance for p in inner])
        )
        return np.append(np.clip(fit, 0.0, 1.0), 1.0)

    def confidence_interval(
        self,
        confidence_level: float = 0.95,
        *,
        simultaneous: bool = True,
        method: str = AUTO,
        anytime: bool = False,
    ) -> Interval:
        """The ends of a band for all values together, or of each value's own interval.

        A simultaneous band holds the whole true distribution function at that level: the Fieller
        interval of each inner prefix at the level at which all of them hold together. The truth is
        monotone, so a lower end holds for all positions above it and an upper end for all below;
        that costs no coverage. The ends always hold `values`.
        """
        normal_reach(confidence_level)
        each = (
            together(confidence_level, len(self) - 1)
            if flag("simultaneous", simultaneous)
            else confidence_level
        )
        found = [
            point.confidence_interval(each, method=method, anytime=anytime)
            for point in self.points[:-1]
        ]
        ends = np.array(found).reshape(-1, 2)
        if not simultaneous:
            low, high = np.vstack(
                [ends, self.points[-1].confidence_interval(confidence_level, method=NORMAL)]
            ).T
            return Interval(low, high)
        ends = np.vstack([ends, [1.0, 1.0]])
        low = np.maximum.accumulate(np.clip(ends[:, 0], 0.0, 1.0))
        high = np.minimum.accumulate(np.clip(ends[::-1, 1], 0.0, 1.0))[::-1]
        return Interval(np.minimum(low, self._monotone), np.maximum(high, self._monotone))

    def poisoning_bounds(self, malicious: int) -> Interval:
        """The range of each of `values` if so many of the reports are malicious, as arrays."""
        # Whatever its weights, a monotone fit lies nowhere above all points up to it, and nowhere
        # below all points from it on.
        ends = [self._point_moved(k, malicious) for k in range(len(self) - 1)]
        low, high = np.clip(np.array([*ends, (1.0, 1.0)]).reshape(-1, 2).T, 0.0, 1.0)
        return Interval(np.minimum.accumulate(low[::-1])[::-1], np.maximum.accumulate(high))

    def _point_moved(self, k: int, liars: int) -> tuple[float, float]:
        point, position = self.points[k], self.positions[k]
        if point.lie is not None:
            return point.poisoning_bounds(liars)

        def lies(share: float) -> tuple[float, float]:
            found = self.bracketed(position, share, Estimate(0.0, 0.0)).lie
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
            at = int(np.argmax(self._monotone >= p - TIE))
        low, high = self.described.values_at(self.positions[at])
        value, notes = high, self.notes
        if low != high:  # a bin
            where, how = 0.5, "taken at the middle of"
            if method == ISOTONIC:
                before = self._monotone[at - 1] if at else 0.0
                where = min(max((p - before) / (self._monotone[at] - before), 0.0), 1.0)
                how = "interpolated evenly inside"
            value = float(low) + where * (float(high) - float(low))
            notes = (*notes, f"{self.attribute} {how} its bin, {plain(low)} to {plain(high)}")
        return Quantile(
            value,
            math.nan,
            f"{p:g}-quantile of {self.question}",
            self.attribute,
            self.points[0].target,
            notes,
            reports=self.points[0].reports,
            survey=self.points[0].survey,
            probability=p,
            position=self.positions[at],
            cdf=self,
            search=method,
        )._reported()

    def excess(self, p: float) -> list[Estimate]:
        """D(k) = #(x <= k) - p #(all) for every inner prefix of the group.

        It is one sum over people, of (1[x <= k] - p), so it is unbiased.
        """
        found: list[Estimate] = []
        for q in self.points[:-1]:
            size = q.denominator
            spread = q.numerator_variance - 2 * p * q.shared + p**2 * q.denominator_variance
            jump, hidden = q.jump * size, q.hidden * size**2
            excess = (q.value - p) * size
            above, below = map(math.sqrt, q.ones)
            plain = Estimate(
                excess,
                max(spread, 0.0),
                target=q.target,
                jump=jump,
                hidden=hidden,
                reports=q.reports,
                one=(above + p * below) ** 2,
            )
            found.append(self.bracketed(self.positions[len(found)], p, plain))
        return found

    def shared_notes(self) -> list[str]:
        return list(self.notes)

    def _notes(self, one: Estimate, confidence_level: float | None = None) -> tuple[str, ...]:
        return ()

    def _display(self, row: int, one: Estimate, each: float, every: bool) -> Display:
        """The monotone fit with its band, or the estimate of one value with its own interval."""
        if not self.estimable:
            return Display(EMPTY, "", "", estimable=False)
        if not every:
            return one.display(each)
        low, high = self._band(1 - (1 - each) * max(1, len(self) - 1))
        ends = (rounded(float(end[row]), one.stderr) for end in (low, high))
        value = rounded(float(self.values[row]), one.stderr)
        return Display(value, rounded_error(one.stderr), interval_text(*ends))

    def _band(self, confidence_level: float) -> Interval:
        if confidence_level not in self._bands:
            self._bands[confidence_level] = self.confidence_interval(confidence_level)
        return self._bands[confidence_level]

    @cached_property
    def _bands(self) -> dict[float, Interval]:
        return {}

    def _each(self, confidence_level: float, simultaneous: bool) -> float:
        normal_reach(confidence_level)
        if not flag("simultaneous", simultaneous):
            return confidence_level
        return together(confidence_level, max(1, len(self) - 1))


@dataclass(frozen=True, repr=False)
class Quantile(Estimate):
    """An estimated quantile: a value of the attribute, with an interval and no standard error."""

    value: Value  # type: ignore[assignment]
    probability: float = 0.5
    """Fraction of the group that is at or below the quantile."""
    position: int = 0
    """The position of the value in the attribute's domain."""
    cdf: Cdf | None = None
    search: str = ISOTONIC

    @property
    def stderr(self) -> float:
        """NaN: a quantile has an interval only."""
        return math.nan

    @property
    def estimable(self) -> bool:
        return self._cdf.estimable

    def pvalue(self, number: float = 0.0) -> float:
        raise QueryError("quantiles have no test; compare their intervals")

    def __sub__(self, other: object) -> NoReturn:
        raise QueryError(
            "quantiles have no standard error, so they cannot be subtracted; compare their "
            "intervals, or subtract means or fractions up to a value"
        )

    __rsub__ = __add__ = __radd__ = __truediv__ = __rtruediv__ = __sub__

    def confidence_interval(
        self, confidence_level: float = 0.95, *, method: str = AUTO, anytime: bool = False
    ) -> Interval:
        """From the first to the last value that two one-sided tests do not reject.

        Let D(k) = #(x <= k) - q #(all); the true quantile x has D(x) >= 0 and D(x-1) < 0. A value
        is in the interval if neither is rejected. Each test rejects the true x with probability
        (1 - confidence_level) / 2 at most, so no correction for several values is needed.

        Of a continuous attribute the ends are the lower edge of the first and the upper edge of
        the last bin. At any time, each test has its share of the level: while one watches, the
        quantile of those who reported moves from value to value.
        """
        normal_reach(confidence_level)
        tests = self._cdf.excess(self.probability)
        flag("anytime", anytime)
        by = (
            tests[len(tests) // 2].method(confidence_level, method)
            if tests and not anytime
            else NORMAL
        )
        tie = TIE * abs(self._cdf.points[0].denominator)
        if by == NORMAL:
            each = together(confidence_level, len(tests)) if anytime else confidence_level
            ends = [
                test.confidence_interval(each, method=NORMAL, anytime=anytime) for test in tests
            ]
            enough = [k for k, (_, high) in enumerate(ends) if high >= -tie]
            before = [k for k, (low, _) in enumerate(ends) if low < -tie]
            first, last = min(enough, default=len(tests)), max(before, default=-1) + 1
        else:
            first, last = searched(tests, confidence_level, by, tie)
        positions, described = self._cdf.positions, self._cdf.described
        return Interval(
            described.values_at(positions[first])[0],
            described.values_at(positions[last])[1],
        )

    def poisoning_bounds(self, malicious: int) -> Interval:
        """The range of the quantile if so many of the reports are malicious, by either method."""
        # At least the first value at which enough people can be, and at most the one behind the
        # last at which they may not be.
        ends = [test.poisoning_bounds(malicious) for test in self._cdf.excess(self.probability)]
        tie = TIE * abs(self._cdf.points[0].denominator)
        enough = [k for k, (_, high) in enumerate(ends) if high >= -tie]
        before = [k for k, (low, _) in enumerate(ends) if low < -tie]
        first, last = min(enough, default=len(ends)), max(before, default=-1) + 1
        positions, values_at = self._cdf.positions, self._cdf.described.values_at
        return Interval(values_at(positions[first])[0], values_at(positions[last])[1])

    @property
    def attribute(self) -> str:
        return self._cdf.attribute

    @property
    def _cdf(self) -> Cdf:
        assert self.cdf is not None
        return self.cdf

    def _shown(self, number: Any) -> str:
        """A value in as many digits as its bin leaves meaning to."""
        low, high = self._cdf.described.values_at(self.position)
        if low != high and number not in (low, high) and not isinstance(number, str):
            width = float(high) - float(low)
            return plain(round(float(number), 1 - math.floor(math.log10(width) + 1e-9)))
        return plain(number)

    def display(self, confidence_level: float) -> Display:
        if not self.estimable:
            return Display(EMPTY, "", "", self.notes, estimable=False)
        low, high = self.confidence_interval(confidence_level)
        return Display(self._shown(self.value), "", f"{plain(low)} to {plain(high)}", self.notes)

    def to_text(self, confidence_level: float = 0.95) -> str:
        return self.display(confidence_level).line("", confidence_level)

    def __repr__(self) -> str:
        return f"<Quantile: {self.question} {self._shown(self.value)}>"

    def __float__(self) -> float:
        return float(self.value)
