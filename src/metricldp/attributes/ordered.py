"""Numbers: values along a line or around a circle, and the real numbers between two ends."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.attributes.base import Attribute, Numbers, Positions
from metricldp.attributes.scalars import reals_within
from metricldp.basics.checks import finite, positive
from metricldp.basics.errors import InvalidSpecError, QueryError
from metricldp.basics.text import plain, shown
from metricldp.metrics import Bent, Line, Metric, Relative, Uniform, Window
from metricldp.metrics.grid import Axis
from metricldp_core.exact import ceil_of, decimal_of


@dataclass(frozen=True, kw_only=True, repr=False)
class OnLine(Attribute):
    """Attributes whose values have an order and a distance: epsilon for every `per` units.

    With `within` it is epsilon for any two values up to so many units apart, twice that up to
    twice as far, and so on; how far apart they are within such a stretch does not matter. It need
    not be a whole number of steps.
    """

    per: float | None = None
    within: float | None = None
    cyclic: bool = False
    """Whether the last value is next to the first: hours, weekdays, months, directions."""

    ordered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        stated = self.per is not None or self.within is not None
        stated = stated or getattr(self, "metric", None) is not None
        object.__setattr__(self, "_has_distance", stated)
        if self.per is not None:
            object.__setattr__(self, "per", positive("per", self.per))
        elif self.within is None:
            object.__setattr__(self, "per", 1.0)
        if not isinstance(self.cyclic, bool):
            raise InvalidSpecError(f"cyclic is true or false, not {shown(self.cyclic)}")
        if self.cyclic and (self.rounded_at_random or getattr(self, "metric", None) is not None):
            why = "with a metric of its own" if hasattr(self, "metric") else "rounded at random"
            raise InvalidSpecError(
                f"a {self.kind} attribute {why} cannot be cyclic; leave cyclic out"
            )
        if self.within is None:
            return
        if self.per is not None:
            raise InvalidSpecError(
                f"use per={plain(self.per)} (epsilon for a difference of so many units) or "
                f"within={shown(self.within)} (epsilon for values at most so far apart), not both"
            )
        if getattr(self, "metric", None) is not None:
            raise InvalidSpecError("the metric defines all distances; leave within out")
        object.__setattr__(self, "within", positive("within", self.within))

    _has_distance: ClassVar[bool] = False

    def _check_stated(self, low: float, high: float) -> None:
        """Reject epsilon alone: numbers have a unit, so it does not say which values are close."""
        if self._has_distance:
            return
        width = abs(high - low) / (2 if self.cyclic else 1)
        near = float(f"{width / 10:.1g}")
        if isinstance(low, int):
            near = max(1, round(near))
        epsilon, any_two = plain(self.epsilon), math.ceil(width / near) * self.epsilon
        raise InvalidSpecError(
            f"epsilon = {epsilon} needs a distance: state within= (up to so far apart), per= (per "
            f"unit) or metric=.\nHere within={plain(near)} means epsilon {plain(any_two)} for any "
            f"two values, and per=1 means {plain(self.epsilon * width)}; max_epsilon= sets a limit"
        )

    @property
    @abstractmethod
    def step(self) -> Fraction:
        """The distance of two neighbouring positions, in the unit of `per`."""

    @property
    def grid_step(self) -> float:
        return float(self.step)

    @property
    def unit(self) -> Fraction:
        return decimal_of(self.epsilon) / decimal_of(self.per or 1)

    @property
    def usual(self) -> Metric:
        around = self.size if self.cyclic else None
        if self.within is None:
            step = self.unit * self.step
            if around is None:
                return Line(step)
            return Bent(step, around=around) if around > 3 else Uniform(step)
        steps = decimal_of(self.within) / self.step
        if steps < 1:
            raise InvalidSpecError(
                f"within {plain(self.within)} is less than one step of the grid, "
                f"{plain(float(self.step))}; use a finer grid, or a larger within"
            )
        # Bins d positions apart hold values that are only just more than d - 1 steps apart, so they
        # may be at floor((d - 1) / steps) + 1 times epsilon; the shortest way over other bins is
        # ceil(d / whole). With values rounded to points it is the same.
        whole = steps.denominator == 1 or not self._exact_positions
        width = ceil_of(steps) if whole else steps
        epsilon = decimal_of(self.epsilon)
        farthest = self.size - 1 if around is None else around // 2
        if width >= farthest:
            return Uniform(epsilon)
        if self.rounded_at_random and width == 1:
            # A manifest states epsilon for each step then, which is at least as strong.
            return Line(epsilon)
        return Window(epsilon, width, around=around)

    @cached_property
    def is_cyclic(self) -> bool:
        return self.cyclic or super().is_cyclic

    @property
    def axis(self) -> Axis | None:
        own = getattr(self, "metric", None) is not None or getattr(self, "edges", None) is not None
        if own or self.cyclic or self.rounded_at_random:
            return None
        max_epsilon = None if self.max_epsilon is None else decimal_of(self.max_epsilon)
        unit, windows = decimal_of(self.within or self.per or 1), self.within is not None
        epsilon, step = decimal_of(self.epsilon), self.step / unit
        return Axis(self.size, epsilon, step, windows, self.in_bins, max_epsilon)

    @property
    def _close(self) -> dict[str, Any]:
        metric = getattr(self, "metric", None)
        if isinstance(metric, Relative):
            return {"ratio": decimal_text(metric.by)}
        distance = None if metric is not None else self.within or self.per
        return {"within": None if distance is None else decimal_text(distance)}

    @property
    def _exact_positions(self) -> bool:
        return not self.in_bins and not self.rounded_at_random

    def to_dict(self) -> dict[str, Any]:
        data = super().to_dict()
        if not self.cyclic:
            del data["cyclic"]
        return data


@dataclass(frozen=True, kw_only=True, repr=False)
class Interval(Attribute):
    """Attributes whose values are the real numbers between two ends."""

    low: float = field(kw_only=False)
    high: float = field(kw_only=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for end in ("low", "high"):
            value = finite(f"{end} of a {self.kind} attribute", getattr(self, end))
            object.__setattr__(self, end, value)
        check_ends(self.low, self.high)
        if not math.isfinite(self.high - self.low):
            raise InvalidSpecError(f"the domain {self.low} to {self.high} is too wide for a float")
        self._check_stated(self.low, self.high)

    @property
    def middle(self) -> float:
        return self.low + (self.high - self.low) / 2

    @property
    def extent(self) -> Fraction:
        """From end to end, of the numbers as they are written."""
        return decimal_of(self.high) - decimal_of(self.low)

    def positions(self, numbers: Numbers, name: str = "", *, clip: bool = False) -> Positions:
        reals, wrong = reals_within(numbers, (self.low, self.high), clip and not self.is_cyclic)
        self._refuse_first(wrong, numbers, name, clip)
        return self._positions(reals)

    @abstractmethod
    def _positions(self, reals: npt.NDArray[np.float64]) -> Positions:
        """Positions of many numbers, by the steps of the core in the same order."""


def no_line(name: str) -> QueryError:
    """The rejection of a statistic that depends on where a circle is cut."""
    return QueryError(
        f"{name} is cyclic, so sums, variances, correlations and regressions of its values depend "
        "on where the circle is cut; use mean (circular), histogram or count"
    )


def check_ends(low: float, high: float) -> None:
    """Refuse a domain without two values."""
    if low >= high:
        same = "holds one value only" if low == high else "is empty"
        raise InvalidSpecError(
            f"the domain {plain(low)} to {plain(high)} {same}; low must be below high"
        )


def decimal_text(number: float) -> str:
    """A positive number as a decimal without an exponent."""
    return f"{Decimal(repr(float(number))).normalize():f}"
