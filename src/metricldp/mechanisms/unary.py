"""Unary encoding: the privacy losses of the bit of each value with the smallest error.

Bit k has the loss yes_k if it is 1 and no_k if it is 0 (see `unary_channel`), and the guarantee is
the linear condition yes_x + no_x' <= E(x, x') for every two different values. With
A = 1/(e^yes - 1) and G = 1/(e^no - 1) the unbiased bit has variance A (1 + G) at other values and
(1 + A) G at its own. For people spread evenly over m values that is

    (1 - 1/m) A + G/m + A G,

a convex function of yes and no: A and G are sums of e^(-j yes) and e^(-j no). So the sum over all
values, the total error of all frequencies, has one minimum, and values that the metric treats
alike have the same numbers there. They are found here by Newton's method with a barrier, rounded
to decimals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, cast

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.progress import Progress
from metricldp.mechanisms.base import Mechanism, Problem
from metricldp.mechanisms.effort import Effort
from metricldp.mechanisms.unary_channel import Losses, UnaryChannel
from metricldp.metrics import Distances, Metric, Uniform
from metricldp.metrics.closed import MOST_POSITIONS, common_unit, kind_for
from metricldp_core import distributions as core
from metricldp_core.distributions import Distribution
from metricldp_core.exact import CERTAIN, WORD, at_most_exp, decimal_of, log_of

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.object_]

MOST_DIFFERENT = 1000
"""So many values that a metric tells apart are optimised in some seconds."""
LARGEST_LOSS = 24
"""A bit tells no more than this: q stays above 2^-35, and 64-bit words say it well."""
_DIGITS = 5
"""Decimals of the smallest distance that the optimum is rounded to, the same on every machine."""
_GAP, _SLOPE = 1e-11, 1e-7
"""How far, relatively, the bounds may be from their limits, and the slope from level."""
_MOST_STEPS = 100
"""Twenty or thirty are usual; what is found after so many is kept to be safe, if not the best."""


@dataclass(frozen=True, repr=False)
class Unary(Mechanism):
    """Unary encoding: one randomized bit for each value.

    `Survey.design` computes the probabilities with the smallest error for the metric.
    """

    name: ClassVar[str] = "unary"  # type: ignore[misc]
    kind: ClassVar[str] = "unary"  # type: ignore[misc]
    title: ClassVar[str] = "unary, best for the metric"  # type: ignore[misc]
    max_computed: ClassVar[int] = 256  # type: ignore[misc]
    max_simulated: ClassVar[int] = 256  # type: ignore[misc]

    def distribution(self, problem: Problem, effort: Effort, progress: Progress) -> Distribution:
        losses = best_losses(problem.metric, problem.size)
        return UnaryChannel.for_losses(losses).distribution

    def proved_metric(self, metric: Metric, distribution: Distribution) -> Metric:
        """The losses of the bits, added up, for as many values as have a table of distances."""
        losses = losses_of(cast(core.Unary, distribution))
        few = len(set(losses)) == 1 or distribution.size <= MOST_POSITIONS
        return metric_of(losses) if few else metric

    def __repr__(self) -> str:
        return repr(self.name)


def losses_of(distribution: core.Unary) -> tuple[Losses, ...]:
    """The privacy losses of each bit if it is 1 and if it is 0, rounded up to nine decimals."""
    pairs = list(zip(distribution.own, distribution.other, strict=True))
    known = {(p, q): (_loss_of(p, q), _loss_of(q, p)) for p, q in set(pairs)}
    return tuple(known[pair] for pair in pairs)


def _loss_of(p: int, q: int) -> float:
    """The loss of a bit of probability p compared with q, rounded up to nine decimals."""
    ratio = max(core.fraction(p, q), core.fraction(WORD - p, WORD - q))
    units = Fraction(math.ceil((log_of(ratio) - 1e-12) * _UNITS))
    while ratio < CERTAIN and not at_most_exp(ratio, units / _UNITS):
        units += 1
    return float(units / _UNITS)


_UNITS = 10**9


@lru_cache(maxsize=32)
def best_losses(metric: Metric, size: int) -> tuple[Losses, ...]:
    """What each bit tells: the smallest total error of all frequencies that keeps the metric."""
    classes = _classes(metric, size)
    found = _found(classes)
    return tuple(found[which] for which in classes.of)


def metric_of(losses: Sequence[Losses]) -> Metric:
    """What bits guarantee: yes_x + no_x' of two values, the larger way round, exactly.

    It is a metric, because what a way round through a third value adds is positive.
    """
    yes, no = ([decimal_of(loss[part]) for loss in losses] for part in (0, 1))
    if len(set(losses)) == 1:
        return Uniform(yes[0] + no[0])
    unit = common_unit([*yes, *no])
    ones, zeros = ([int(loss / unit) for loss in part] for part in (yes, no))
    dtype = kind_for(max(ones) + max(zeros))
    told = np.add.outer(np.array(ones, dtype=dtype), np.array(zeros, dtype=dtype))
    told = np.maximum(told, told.T)
    np.fill_diagonal(told, 0)
    return Distances.of(told, unit)


# Values that a metric treats alike


@dataclass(frozen=True, eq=False)
class _Classes:
    """The class of each value, and the distances of two values of two classes."""

    of: npt.NDArray[np.int64]
    distances: npt.NDArray[np.integer]
    """Whole numbers; on the diagonal, of two values of one class."""
    unit: Fraction

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        return np.bincount(self.of)

    @property
    def alone(self) -> npt.NDArray[np.bool_]:
        """Classes of one value, as a matrix: it has no distance to another of its class."""
        return np.diag(self.counts == 1)


def _classes(metric: Metric, size: int) -> _Classes:
    """Uniform and sensitive sets by their definition, other metrics by their table."""
    sensitive = metric.sensitive_positions(size)
    if sensitive is not None:
        of = np.ones(size, dtype=np.int64)
        of[sorted(sensitive)] = 0
        return _Classes(of, np.array([[1, 1], [1, 2]])[: of.max() + 1, : of.max() + 1], metric.step)
    if size > MOST_DIFFERENT:
        raise InvalidSpecError(
            f"unary bits support up to {MOST_DIFFERENT:,} values with positive distances, "
            f"not {size:,}; use another mechanism"
        )
    numbers = metric.whole(size)
    of = _twins(numbers)
    first = np.unique(of, return_index=True)[1]
    between = numbers[np.ix_(first, first)].copy()
    last = size - 1 - np.unique(of[::-1], return_index=True)[1]
    np.fill_diagonal(between, numbers[first, last])
    return _Classes(of, between, metric.step)


def _twins(numbers: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Classes of values that can change places: at the same distance from every third value.

    Their rows hold the same numbers, so only those with equal sorted rows are compared.
    """
    size = len(numbers)
    of = np.full(size, -1)
    rows: dict[tuple[int, ...], list[int]] = {}
    for x, row in enumerate(np.sort(numbers, axis=1)):
        alike = rows.setdefault(tuple(row.tolist()), [])
        equal = [(numbers[x] == numbers[other]).sum() >= size - 2 for other in alike]
        if any(equal):
            of[x] = of[alike[equal.index(True)]]
        else:
            of[x] = of.max() + 1
            alike.append(x)
    return of


# The optimum, in floats, and what is taken of it, exactly


@dataclass(frozen=True, eq=False)
class _Whole:
    """Distances and losses as whole numbers of one unit."""

    distances: Integers
    unit: Fraction

    @classmethod
    def of(cls, classes: _Classes, losses: Sequence[float]) -> _Whole:
        """Capped, and beyond any sum where a class has no second value."""
        denominators = {decimal_of(loss).denominator for loss in losses}
        unit = Fraction(1, math.lcm(classes.unit.denominator, *denominators))
        distances = classes.distances.astype(object) * int(classes.unit / unit)
        distances = np.minimum(distances, int(LARGEST_LOSS / unit))
        distances[classes.alone] = int(4 * LARGEST_LOSS / unit)
        return cls(distances, unit)

    def numbers(self, losses: Sequence[float]) -> Integers:
        return np.array([int(decimal_of(loss) / self.unit) for loss in losses], dtype=object)

    def floats(self, numbers: Integers) -> list[float]:
        """Units as decimals, rounded down."""
        return [_down(number * self.unit) for number in numbers]


def _down(value: Fraction) -> float:
    """The largest float that is not above, as it is written."""
    number = float(value)
    while decimal_of(number) > value:
        number = math.nextafter(number, 0.0)
    return number


def _found(classes: _Classes) -> list[Losses]:
    """The optimum, rounded, and then both losses raised to the limit of what that leaves.

    The error is smaller for larger losses, and near the optimum it changes to second order only,
    so rounding costs next to nothing. The same decimals come out wherever the survey is made.
    """
    try:
        exact = classes.distances.astype(np.float64) * float(classes.unit)
    except OverflowError:  # fractions of so many digits that the whole numbers fit no float
        exact = np.vectorize(lambda d: float(d * classes.unit), [np.float64])(classes.distances)
    bounds = np.minimum(exact, LARGEST_LOSS)
    bounds[classes.alone] = np.inf
    decimals = _DIGITS - math.floor(math.log10(bounds.min()))
    rounded = [round(float(yes), decimals) for yes in _minimum(bounds, classes.counts)]
    whole = _Whole.of(classes, rounded)
    no = whole.floats((whole.distances - whole.numbers(rounded)[:, None]).min(axis=0))
    whole = _Whole.of(classes, no)
    yes = whole.floats((whole.distances - whole.numbers(no)).min(axis=1))
    return list(zip(yes, no, strict=True))


def _minimum(bounds: Floats, counts: npt.NDArray[np.int64]) -> Floats:
    """The best yes of each class, with yes_i + no_j below bounds_ij, by an interior-point method.

    Each class's part of the objective is (1 - w) A + w G + A G as above, with w = 1/m. Every bound
    has a price, and a Newton step makes price times room equal for all bounds, and smaller.
    """
    share = 1 / counts.sum()
    yes = np.full(len(bounds), 0.45 * bounds.min())
    no = yes.copy()
    # The room is carried along: as a difference it would be rounded to nothing in the end.
    room = bounds - yes[:, None] - no
    prices = np.zeros_like(bounds)
    reach, limits = 0.0, np.isfinite(bounds).sum()
    for _ in range(_MOST_STEPS):
        a, g = 1 / np.expm1(yes), 1 / np.expm1(no)
        error = counts @ ((1 - share) * a + share * g + a * g)
        if not reach:
            prices = error / limits / room
        a_slope, g_slope = -counts * a * (1 + a), -counts * g * (1 + g)
        yes_slope, no_slope = a_slope * (1 - share + g), g_slope * (share + a)
        gap = float(np.vdot(prices, np.where(np.isfinite(room), room, 0)))
        open_slope = yes @ np.abs(yes_slope + prices.sum(axis=1))
        open_slope += no @ np.abs(no_slope + prices.sum(axis=0))
        if gap < _GAP * error and open_slope < _SLOPE * error:
            break
        wanted = gap / limits * (0.1 if reach > 0.9 else 0.5) / room
        tied = prices / room
        both = tied.copy()
        both[np.diag_indices_from(both)] += a_slope * g_slope / counts
        yes_bend = -yes_slope * (1 + 2 * a) + tied.sum(axis=1)
        no_bend = -no_slope * (1 + 2 * g) + tied.sum(axis=0)
        yes_slope += wanted.sum(axis=1)
        no_slope += wanted.sum(axis=0)
        scaled = both / yes_bend[:, None]
        left = np.diag(no_bend) - both.T @ scaled
        no_step = np.linalg.solve(left, scaled.T @ yes_slope - no_slope)
        yes_step = -(yes_slope + both @ no_step) / yes_bend
        nearer = yes_step[:, None] + no_step
        price_step = wanted - prices + tied * nearer
        reach = min(
            1.0,
            0.99 / max(float((nearer / room).max()), 1e-9),
            0.99 / max(float((-price_step[prices > 0] / prices[prices > 0]).max()), 1e-9),
            0.5 / max(float((-yes_step / yes).max()), float((-no_step / no).max()), 1e-9),
        )
        yes += reach * yes_step
        no += reach * no_step
        room -= reach * nearer
        prices += reach * price_step
    return yes
