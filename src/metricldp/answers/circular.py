"""Circular means: the direction of the sum of unit vectors, one for each person's value.

A value x of a cyclic attribute is the angle 2 pi (x - low) / period. With C and S the sums over the
group of the cosine and the sine of these angles, the mean direction is atan2(S, C): Mardia and
Jupp, Directional Statistics, section 2.2. C and S are sums over people, estimated without bias.

For every direction t, A(t) = sum of sin(angle - t) is such a sum, too, and is 0 at the mean
direction. The interval has all directions that this test does not reject and that are connected
with the estimate, as Fieller's interval has for a ratio. A(t) is 0 in the opposite direction as
well. So the interval is the whole circle unless (C, S) differs from (0, 0) at the same level, by a
chi-square test with 2 degrees of freedom; then coverage holds however short the resultant is. For
values in bins, A(t) is replaced by the most that values anywhere in their bins can make of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist

import numpy as np

from metricldp.answers.answer import (
    AUTO,
    NORMAL,
    Estimate,
    Made,
    check_method,
    normal_reach,
    over,
)
from metricldp.answers.comparisons import SMALLEST
from metricldp.attributes.base import Attribute, Circle
from metricldp.basics.checks import flag
from metricldp.basics.errors import QueryError
from metricldp.basics.text import plain
from metricldp.mechanisms import Floats

Functions = Callable[[Attribute], list[Floats]]
"""Functions of the position of an attribute; surveys may differ in their bins."""
Sums = Callable[[Functions], list[Estimate]]
"""The sums of such functions over a group of people."""
_DIRECTIONS = 32
"""Directions that are tested together."""
_ROUNDS, _FINE = 5, 0.02
"""An end is located in so many rounds at most, or to this share of the standard error."""
UNKNOWN = "cannot be estimated: the mean resultant length is not distinguishable from zero"


@dataclass(frozen=True, repr=False, kw_only=True)
class CircularMean(Estimate):
    """A mean around a circle, from low to just below low + period.

    The ends of its interval are unwrapped: low <= value <= high, and either may lie beyond the
    domain, where it is meant modulo the period. Printed, they are inside the domain.
    """

    low: float
    period: float
    direction: float
    """Of the value, as an angle."""
    tested: Callable[[Sequence[float]], list[Estimate]] = field(compare=False)
    """For directions t, the most that the sum of sin(angle - t) can be."""

    @property
    def _scale(self) -> float:
        return self.period / (2 * math.pi)

    @cached_property
    def _around(self) -> list[Estimate]:
        angles = np.arange(_DIRECTIONS) * (2 * math.pi / _DIRECTIONS)
        return self.tested((self.direction + angles).tolist())

    def is_known(self, level: float = 0.95) -> bool:
        """Whether the reports contradict at that level that there is no mean direction."""
        normal_reach(level)
        radius = math.sqrt(-2 * math.log(1 - level))  # of the joint region of C and S
        joint = min(2 * NormalDist().cdf(radius) - 1, 1 - SMALLEST)
        return any(_is_negative(one, joint) for one in self._around)

    @property
    def estimable(self) -> bool:
        return self.is_known()

    _unknown = UNKNOWN

    def _interval(
        self, confidence_level: float = 0.95, method: str = AUTO, *, anytime: bool = False
    ) -> tuple[float, float]:
        """The directions that are not rejected; the whole circle if there is no mean direction."""
        if flag("anytime", anytime):
            raise QueryError(
                "there is no confidence sequence of a circular mean; leave anytime out"
            )
        self.method(confidence_level, method)
        if not self.is_known(confidence_level):
            return self.low, self.low + self.period
        below, above = (self._reach(confidence_level, side) * self._scale for side in (-1, 1))
        return self.value - below, self.value + above

    def _reach(self, level: float, side: int) -> float:
        """How far from the estimate the first direction is that is rejected, in one sense."""
        opposite = 0 if side > 0 else _DIRECTIONS // 2

        def rejected(answers: Sequence[Estimate]) -> int:
            found = (k for k, one in enumerate(answers) if _is_negative(one, level))
            return next(found, len(answers) - 1)

        # Below the estimate A is positive, and so -A, which is A in the opposite direction, is not.
        turned = [self._around[(opposite + side * k) % _DIRECTIONS] for k in range(_DIRECTIONS)]
        step = 2 * math.pi / _DIRECTIONS
        outside = rejected(turned) * step
        error = math.sqrt(self.variance) / self._scale
        for _ in range(_ROUNDS):
            if step < _FINE * error < math.inf:
                break
            points = outside - step + np.arange(1, _DIRECTIONS + 1) * (step / _DIRECTIONS)
            start = self.direction + (0 if side > 0 else math.pi)
            outside = float(points[rejected(self.tested((start + side * points).tolist()))])
            step /= _DIRECTIONS
        return outside

    def method(self, level: float = 0.95, method: str = AUTO) -> str:
        normal_reach(level)
        check_method(method)
        if method not in (AUTO, NORMAL):
            raise QueryError(f"there is no {method} interval of a circular mean; use 'normal'")
        return NORMAL

    def nearest(self, number: float) -> float:
        """The same direction as a number, at most half a period from the value."""
        apart = (number - self.value + self.period / 2) % self.period - self.period / 2
        return self.value + apart

    def wrapped(self, number: float) -> float:
        """The same direction inside of the domain."""
        return wrapped(number, self.low, self.period)

    def _leaves_out(self, number: float, wrong: float) -> bool:
        low, high = self._interval(1 - min(wrong, 1 - SMALLEST), NORMAL)
        return (number - low) % self.period > high - low

    def scaled(self, factor: float, unit: str) -> Estimate:
        raise QueryError("a circular mean cannot be multiplied; use its value")

    @property
    def _made(self) -> Made:
        raise QueryError(
            "circular means are not added, subtracted or divided; compare their intervals, or "
            "histograms of the groups"
        )

    def _shown_ends(self, low: float, high: float) -> str:
        if high - low >= self.period:
            return "the whole circle"
        return " to ".join(self._shown(self.wrapped(end)) for end in (low, high))


def _is_negative(answer: Estimate, level: float) -> bool:
    return answer._interval(level, NORMAL)[1] < 0


def wrapped(number: float, low: float, period: float) -> float:
    """A number modulo the period, from low to just below low + period."""
    above = (number - low) % period
    return low + (above if above < period else 0.0)


def mean_direction(weights: Floats, circle: Circle) -> float:
    """The circular mean of weighted positions, as a value of the attribute."""
    total = complex(weights @ np.exp(1j * circle.angles))
    angle = math.atan2(total.imag, total.real)
    return wrapped(circle.low + angle * circle.period / (2 * math.pi), circle.low, circle.period)


def circular_mean(sums: Sums, attribute: Attribute, name: str, like: Estimate) -> CircularMean:
    """The circular mean over a group; `like` has the words, notes and reports of the answer."""
    circle = attribute.circle(name)
    cosine, sine = sums(lambda a: [wave(a.circle(name).angles) for wave in (np.cos, np.sin)])
    direction = math.atan2(sine.value, cosine.value)
    (across,) = sums(lambda a: [np.sin(a.circle(name).angles - direction)])
    length = math.hypot(sine.value, cosine.value)
    error = across.stderr / length if length else math.inf
    notes = [*like.notes, f"circular mean, modulo {plain(circle.period)}"]
    if circle.half:
        half = plain(circle.half * circle.period / (2 * math.pi))
        notes.append(f"{name} taken at the middle of its bins, at most {half} off each")
    if attribute.optional is not None:
        notes.append(over(sums(lambda a: [np.ones(a.size)])[0].value))
    mean = CircularMean(
        wrapped(circle.low + direction * circle.period / (2 * math.pi), circle.low, circle.period),
        (error * circle.period / (2 * math.pi)) ** 2,
        f"{name} among {like.question}",
        name,
        like.target,
        tuple(notes),
        layout=across.layout,
        reports=like.reports,
        survey=like.survey,
        low=circle.low,
        period=circle.period,
        direction=direction,
        tested=lambda angles: sums(lambda a: [_most(a.circle(name), t) for t in angles]),
    )
    return mean if mean.is_known() else replace(mean, variance=math.inf)


def _most(circle: Circle, direction: float) -> Floats:
    """The most that sin(angle - direction) is at each position, wherever in its bin a value is."""
    apart = circle.angles - direction
    ends = np.maximum(np.sin(apart - circle.half), np.sin(apart + circle.half))
    from_top = (apart - math.pi / 2 + math.pi) % (2 * math.pi) - math.pi
    return np.where(np.abs(from_top) <= circle.half, 1.0, ends)
